"""A service that is told to stop does so in seconds, in the middle of whatever it does."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaffinch import Ledger, Target
from chaffinch.services.hop import hop_status, read_hop
from chaffinch.shuffling.inbox import SegmentWriter, Upload
from tests.services.commands import ROLES, serving, waited, write_settings
from tests.services.oracle import Collection, port_of
from tests.services.test_shuffler import ones, sealed, shuffler

COPIES = 150_000
"""Of one report: each is opened, which takes a process longer than anybody waits."""


@pytest.mark.parametrize("role", ROLES)
def test_a_service_ends_with_code_0(tmp_path: Path, role: str) -> None:
    """As a process of its own: of a copy of another one (``tests.forks``) the last end is left out.

    That is where Python takes apart what is left, and a thread that still runs may abort it.
    """
    collection = Collection.make(tmp_path)
    write_settings(tmp_path, collection.plan)
    cap = Target(epsilon=1e6, delta=0.5)
    Ledger.create(tmp_path / "ledger", mark=tmp_path / "mark", role="analyzer", cap=cap)
    command = [sys.executable, "-m", "chaffinch", "serve", role, "--config", ROLES[role], "--json"]
    service = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert service.stdout is not None
        while service.stdout.readline() != b"}\n":
            assert service.poll() is None, service.communicate()
        service.terminate()
        _, said = service.communicate(timeout=30)
    finally:
        service.kill()
        service.communicate()
    assert service.returncode == 0, said
    assert json.loads(said.splitlines()[-1])["event"] == "stopped"


def test_a_large_segment_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path)
    write_settings(tmp_path, collection.plan)
    collection.show_keys_to(tmp_path / "hop1")
    (tmp_path / "hop1" / "inbox").mkdir()
    writer = SegmentWriter(tmp_path / "hop1" / "inbox", largest=1 << 30)
    writer.append([Upload(collection.plan.id, 1, b"".join(collection.seal([1])) * COPIES)])
    path = writer.seal()
    assert path is not None
    with serving("shuffler", tmp_path / "hop.toml") as service:
        time.sleep(1)
        start = time.monotonic()
        code, said = service.stop()
        assert time.monotonic() - start < 4
    assert code == 0
    assert json.loads(said.splitlines()[-1])["event"] == "stopped"
    assert path.exists(), "it was not opened in that time, and is opened by the next start"
    (plan,) = hop_status(read_hop(tmp_path / "hop.toml")).plans
    assert plan.counts["durable"] == 0
    assert plan.adds_up


def test_what_was_being_opened_at_a_stop_is_opened_at_the_next_start(tmp_path: Path) -> None:
    collection, data = Collection.make(tmp_path / "keys"), tmp_path / "data"
    collection.write_segment(data, collection.seal(range(5)))
    with shuffler(collection, data) as hop:
        take = hop.take

        def take_at_a_stop() -> None:
            hop.stop.set()  # As the first look begins.
            take()

        hop.take = take_at_a_stop  # type: ignore[method-assign]
        hop.run()
        assert hop.overview().counts == {}
    with shuffler(collection, data) as hop:
        hop.take()
        hop.tick()
        assert collection.histogram(sealed(data)) == ones(*range(5))


def test_a_next_party_that_never_answers_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path, crowd=3)
    write_settings(tmp_path, collection.plan)
    collection.show_keys_to(tmp_path / "hop1")
    collection.write_segment(tmp_path / "hop1", collection.seal(range(3)))
    with (
        socket.create_server(("127.0.0.1", port_of(collection.plan, "analyzer"))) as silent,
        serving("shuffler", tmp_path / "hop.toml") as service,
        # One asks for keys, the other whether the batch is there.
        silent.accept()[0],
        silent.accept()[0],
    ):
        start = time.monotonic()
        assert service.stop()[0] == 0
        assert time.monotonic() - start < 10
    (plan,) = hop_status(read_hop(tmp_path / "hop.toml")).plans
    assert plan.batches == {"sealed": 1}, "it is offered again"


def test_a_killed_service_leaves_nothing_but_lines_of_its_log(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path)
    write_settings(tmp_path, collection.plan)
    collection.show_keys_to(tmp_path / "hop1")
    settings = tmp_path / "hop.toml"
    settings.write_text(settings.read_text().replace("openers = 1", "openers = 2"))
    path = collection.write_segment(tmp_path / "hop1", collection.seal(range(3)))
    with serving("shuffler", settings) as service:
        waited(lambda: not path.exists())  # Its processes have worked.
        service.process.kill()
        _, said = service.process.communicate(timeout=30)
    assert [json.loads(line)["service"] for line in said.splitlines()]
