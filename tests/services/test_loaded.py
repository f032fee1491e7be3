"""A service loads what its party needs: how much of chaffinch a hop and an analyzer take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

import chaffinch
from chaffinch.protocols import Flips
from chaffinch.services import rehearsal
from tests.encoding.test_loaded import BROWSERS, inside, ours
from tests.engines import plans

MOST_OF_HOP, MOST_OF_ANALYZER = 110, 120
AFTER_RELEASE = {"collector": 120, "shuffler": 120, "analyzer": 140}
"""Modules of ours when a batch was released, those of its protocol and mechanism among them."""

SERVE = """
import json, sys
from pathlib import Path

role, path = sys.argv[1], Path(sys.argv[2])
told = lambda addresses: print(*addresses, flush=True)
if role == "analyzer":
    from chaffinch.services import analyzer_process
    analyzer_process.serve_analyzer(analyzer_process.read_analyzer(path), told)
else:
    from chaffinch.services import hop
    serve = hop.serve_collector if role == "collector" else hop.serve_shuffler
    serve(hop.read_hop(path), told)
print(json.dumps(sorted(sys.modules)))
"""


def loaded_by(module: str) -> set[str]:
    """Return what a fresh process has loaded with a module."""
    words = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", words], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_a_hop_and_an_analyzer_load_what_they_serve_with() -> None:
    analyzer = "chaffinch.services.analyzer_process, chaffinch.analysis.survey_analysis"
    for module, most in (("chaffinch.services.hop", MOST_OF_HOP), (analyzer, MOST_OF_ANALYZER)):
        modules = loaded_by(module)
        assert 50 < len(ours(modules)) <= most, module
        assert not {"matplotlib", "pandas", "pyarrow", "rich"} & modules
        # The search for plans, and what only devices do.
        rooms = ("chaffinch.planning.", "chaffinch.encoding", "chaffinch.cli")
        assert not {name for name in modules if name.startswith(rooms)}, module


@contextmanager
def serving(role: str, settings: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a service without the command line, which loads all verbs; yield it when it listens."""
    source = str(Path(chaffinch.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, role, str(settings)],
        env={**os.environ, "PYTHONPATH": source},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline(), role
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.mark.long
def test_services_load_no_more_for_a_release(tmp_path: Path) -> None:
    question = ("browser", BROWSERS, Flips(Fraction(1, 16), 1, 4))
    stage = rehearsal.set_stage(tmp_path / "stage", plans.plan_of(question, users=20))
    with ExitStack() as stack:
        running = {
            role: stack.enter_context(serving(role, settings))
            for role, settings in stage.services()
        }
        rehearsal.send_crowd(stage, 20, lambda *_: None)
        assert len(rehearsal.wait_for_release(stage)) == 1
        for role, process in running.items():
            process.terminate()
            out, _ = process.communicate(timeout=30)
            modules = set(json.loads(out.splitlines()[-1]))
            assert inside("protocols", modules) >= {"flips"}, role
            assert not inside("protocols", modules) & {"decoys", "encoded", "signed"}, role
            assert len(ours(modules)) <= AFTER_RELEASE[role], (role, len(ours(modules)))
