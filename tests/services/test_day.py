"""A day in the life of two operators: the commands of the guide, one after the other."""

from __future__ import annotations

import os
import re
import shlex
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.analysis.received import KnownBatches
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Ledger
from chaffinch.release.surveys import read_release
from chaffinch.shuffling.state import overview_of
from tests import forks
from tests.docs import pages
from tests.meta import repository

GUIDE = repository.ROOT / "docs" / "guides" / "running-a-collection.md"
PORTS = ("8081", "8083", "9081", "9082", "9083")
# The disk of whoever runs the tests may be nearly full.
LIMITS = {
    "[shuffler]\n": "[collector.limits]\nfree_bytes = 1\n[shuffler]\n",
    "[analyzer.budget]\n": "[analyzer.limits]\nfree_bytes = 1\n[analyzer.budget]\n",
}


def free_ports() -> list[str]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        return [str(one.getsockname()[1]) for one in found]


def script(guide: Path = GUIDE) -> str:
    """The commands of a guide, on ports that are free here."""
    text = "".join(block.text for block in pages.blocks(guide) if block.language == "bash")
    for old, new in zip(PORTS, free_ports(), strict=True):
        assert f"127.0.0.1:{old}" in text
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    for old, new in LIMITS.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = folder / "bin" / "chaffinch"
    command.parent.mkdir()
    copied, line = forks.as_words()
    # Not a function of the shell: a signal must reach the service itself, and that is no copy.
    command.write_text(
        f'#!/bin/sh\n[ "$1" != serve ] || exec "{sys.executable}" -m chaffinch "$@"\n'
        f'exec {shlex.join(copied)} "$@"\n'
    )
    command.chmod(0o700)
    environment = os.environ | {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(cf.__file__).parents[1]),
    }
    # Whatever happens, no service outlives the shell.
    text = f"set -eu\ntrap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT\n{text}"
    return subprocess.run(
        ["/bin/bash", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        pass_fds=[line],
    )


@pytest.mark.timeout(300)
def test_the_release_appears_once_whatever_the_day_brings(tmp_path: Path) -> None:
    done = run(script(), tmp_path)
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    received = KnownBatches(tmp_path / "ministry" / "data" / "state.sqlite")
    (batch,) = received.all()
    assert (batch.state, batch.reports) == ("released", 200)
    assert (batch.replayed, batch.rejected) == (0, 0)
    content = received.release(batch.id)
    assert content is not None
    assert read_release(content).reports == 200
    budget = Ledger.open(
        tmp_path / "ministry" / "ledger.db", mark=tmp_path / "ministry" / "ledger.mark"
    )
    assert len(budget.entries()) == 1
    found = overview_of(tmp_path / "university" / "data" / "state.sqlite")
    (counts,) = found.counts.values()
    assert (counts.durable, counts.batched, counts.pooled) == (200, 200, 0)
    (batches,) = found.batches.values()
    assert batches.total() == 1
    states = [str(one.state) for one in KeyFolder.open(tmp_path / "university" / "keys").entries]
    assert states == ["expired", "active"]
    assert "DOES NOT" not in done.stdout
    for name in ("university", "ministry"):
        assert stat.S_IMODE((tmp_path / name / "data").stat().st_mode) == 0o700


def test_the_units_run_commands_that_exist() -> None:
    from chaffinch.cli.app import app

    units = sorted((repository.ROOT / "examples" / "operating").glob("*.service"))
    assert len(units) >= 4
    for unit in units:
        (line,) = re.findall(r"^ExecStart=\S+/chaffinch (.*)$", unit.read_text(), re.MULTILINE)
        words = [word for word in line.split() if not word.startswith("/")]
        command, *_ = app.parse_commands([word for word in words if word != "--config"])
        assert len(command) >= 1
        assert "UMask=0077" in unit.read_text() or "status" in line
        # Openers that get the signal of a stop, too, end in the middle of their work, and with
        # them the service, by a fault.
        assert ("KillMode=mixed" in unit.read_text()) == line.startswith("serve ")
