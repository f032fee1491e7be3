"""A party behind the first hop is away: everybody who waits is told for whom."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
import urllib3

from chaffinch import Ledger, Target
from chaffinch.services.analyzer_process import analyzer_status, read_analyzer
from chaffinch.services.hop import hop_status, read_hop
from chaffinch.wire import media_types
from tests import forks
from tests.services.commands import Service, serving, waited, write_settings
from tests.services.oracle import Collection, free_port, port_of

CROWD = 3
HASTY = "from chaffinch.services import analyzer\nanalyzer.TICK = 0.3\n"
"""An analyzer looks at itself every ten seconds, which nobody waits for here."""
ASKS_OFTEN = (
    "from chaffinch.shuffling.forwarding import Patience\nPatience.pause = lambda *_: 0.2\n"
)
"""A shuffler waits longer and longer before it asks again for a party that is away."""


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    made = Collection.make(tmp_path, crowd=CROWD)
    write_settings(tmp_path, made.plan)
    return made


@pytest.fixture
def poor(tmp_path: Path) -> None:
    """Let the analyzer have a budget for next to nothing."""
    Ledger.create(
        tmp_path / "ledger", role="analyzer", cap=Target(1e-3, 1e-12), mark=tmp_path / "mark"
    )


def command(*words: object) -> subprocess.CompletedProcess[str]:
    """Return what a command of a person did."""
    return forks.run(forks.COMMAND, *words)


@pytest.mark.usefixtures("collection", "poor")
def test_senders_are_told_which_party_has_shown_no_keys(tmp_path: Path) -> None:
    words = ["send", "--plan", tmp_path / "plan.json", "--outbox", tmp_path / "outbox"]
    with (
        serving("collector", tmp_path / "hop.toml") as collector,
        serving("shuffler", tmp_path / "hop.toml", before=ASKS_OFTEN),
    ):
        waited(lambda: "analyzer has shown no keys here" in collector.get("/readyz"))
        start = time.monotonic()
        done = command(*words, "--answer", "v1", "--patience", "6")
        assert time.monotonic() - start < 30
        said = " ".join(done.stderr.split())
        assert done.returncode == 5
        assert "waiting for analyzer: no keys at hop1; it is asked again" in said
        assert "The service of analyzer must take part. Got no keys at hop1." in said
        assert "before the service of analyzer runs and hop1 has its keys" in said
        assert "unseenKeys" not in said
        with serving("analyzer", tmp_path / "analyzer.toml"):
            waited(lambda: collector.get("/readyz") == "ready\n")
            assert command(*words, "--resume").returncode == 0


@pytest.mark.usefixtures("collection", "poor")
@pytest.mark.parametrize(
    ("role", "config", "data"),
    [("shuffler", "hop.toml", "hop1"), ("analyzer", "analyzer.toml", "analyzer")],
)
def test_a_service_whose_data_has_gone_is_not_ready(
    tmp_path: Path, role: str, config: str, data: str
) -> None:
    """It would go on with the files that it holds open, and look well."""
    with serving(role, tmp_path / config, before=HASTY) as service:
        waited(lambda: "just started" not in service.get("/readyz"))
        assert "data of these keys" not in service.get("/readyz")
        (tmp_path / data).rename(tmp_path / "away")
        waited(lambda: "must be the data of these keys. Got none" in service.get("/readyz"))


def test_reports_are_taken_while_the_state_is_being_changed(
    collection: Collection, tmp_path: Path
) -> None:
    """A large segment that is taken over keeps everybody from reading the state, for seconds."""
    collection.show_keys_to(tmp_path / "hop1")
    url = f"http://127.0.0.1:{port_of(collection.plan, 'hop1')}"
    url += f"/v1/plans/{collection.plan.id}/rounds/1/reports"
    with (
        serving("collector", tmp_path / "hop.toml") as collector,
        closing(sqlite3.connect(tmp_path / "hop1" / "state.sqlite")) as owner,
    ):
        waited(lambda: collector.get("/readyz") == "ready\n")
        owner.execute("BEGIN EXCLUSIVE")
        for report in collection.seal(range(4)):
            headers = {"content-type": media_types.REPORTS}
            reply = urllib3.request("POST", url, body=report, headers=headers, timeout=5)
            assert reply.status == 201
            time.sleep(0.5)


def stuck(service: Service) -> list[dict[str, str]]:
    """Return the batches that do not get on, as a service shows them."""
    plans = json.loads(service.get("/status"))["plans"]
    return [one for plan in plans for one in plan["stuck"] if one["why"]]


def crowd_waits(collection: Collection, root: Path) -> None:
    """Let a crowd wait at the hop."""
    collection.show_keys_to(root / "hop1")
    collection.write_segment(root / "hop1", collection.seal(range(CROWD)))


def test_a_batch_that_cannot_leave_is_a_problem(collection: Collection, tmp_path: Path) -> None:
    crowd_waits(collection, tmp_path)
    with serving("shuffler", tmp_path / "hop.toml") as shuffler:
        waited(lambda: stuck(shuffler))
        (one,) = stuck(shuffler)
        assert (one["since"], one["why"]) == ("less than an hour", "no connection")
        figure = 'chaffinch_stuck_batches{plan="%s",reason="no connection"} 1.0'
        assert figure % collection.plan.id[:16] in shuffler.get("/metrics")
    # The reason is known to whoever looks when the service has ended.
    (path,) = (tmp_path / "hop1" / "outbox").glob("*.batch")
    days_ago = time.time() - 3 * 86400
    os.utime(path, (days_ago, days_ago))
    found = hop_status(read_hop(tmp_path / "hop.toml"))
    waits = f"batch {path.stem[:16]} has waited for 3 days"
    assert f"{waits}: analyzer has not signed for it (no connection)" in found.complaints
    said = command("status", "--config", tmp_path / "hop.toml").stdout
    assert "3 days: analyzer has not signed for it (no connection)." in " ".join(said.split())


@pytest.mark.usefixtures("collection")
def test_status_says_which_service_does_not_answer(tmp_path: Path) -> None:
    config, ports = tmp_path / "hop.toml", [free_port(), free_port()]
    for port in ports:
        text = config.read_text()
        config.write_text(text.replace('admin = "127.0.0.1:0"', f'admin = "127.0.0.1:{port}"', 1))
    collector, shuffler = (f"127.0.0.1:{port}" for port in ports)
    with serving("shuffler", config):
        said = command("status", "--config", config).stdout
        assert f"The collector does not answer at {collector}." in said
        assert "The shuffler does not answer" not in said
    done = command("status", "--config", config, "--json")
    found = json.loads(done.stdout)
    assert found["silent"] == {"collector": collector, "shuffler": shuffler}
    assert (done.returncode, found["adds_up"], found["ready"]) == (1, True, False)


def test_the_address_of_a_release_can_be_copied(collection: Collection, tmp_path: Path) -> None:
    crowd_waits(collection, tmp_path)
    Ledger.create(
        tmp_path / "ledger", role="analyzer", cap=Target(1e3, 0.9), mark=tmp_path / "mark"
    )
    with (
        serving("shuffler", tmp_path / "hop.toml"),
        serving("analyzer", tmp_path / "analyzer.toml"),
    ):

        def address() -> str:
            said = command("status", "--config", tmp_path / "analyzer.toml").stdout
            return said.partition("Release: ")[2].partition("\n")[0]

        waited(address)
        page = urllib3.request("GET", address(), timeout=10)
        assert (page.status, page.data[:9].lower()) == (200, b"<!doctype")


@pytest.mark.usefixtures("poor")
def test_a_batch_that_nobody_pays_for_is_a_problem(collection: Collection, tmp_path: Path) -> None:
    crowd_waits(collection, tmp_path)
    with (
        serving("shuffler", tmp_path / "hop.toml"),
        serving("analyzer", tmp_path / "analyzer.toml", before=HASTY) as analyzer,
    ):
        waited(lambda: stuck(analyzer))
        assert json.loads(analyzer.get("/status"))["ready"] is True, "it takes batches all the same"
    found = analyzer_status(read_analyzer(tmp_path / "analyzer.toml"))
    (said,) = found.complaints
    assert "has waited for less than an hour: it is not paid for. " in said
    assert "The total of all charges must be at most epsilon 0.001" in said
    done = command("status", "--config", tmp_path / "analyzer.toml", "--json")
    assert (done.returncode, json.loads(done.stdout)["ready"]) == (1, False)


@pytest.mark.usefixtures("collection")
def test_a_file_that_was_put_aside_is_a_problem_until_it_is_removed(tmp_path: Path) -> None:
    files = [tmp_path / "hop1" / name for name in ("inbox/ab.2.damaged", "received/cd.damaged")]
    for path in files:
        path.parent.mkdir(parents=True)
        path.touch()
    found = hop_status(read_hop(tmp_path / "hop.toml"))
    segment, batch = found.held
    assert segment.startswith("inbox/ab.2.damaged was damaged on the disk, and all that is whole")
    assert "as ab.segment" in segment
    assert "as cd.batch" in batch
    assert json.dumps(segment) in json.dumps(found.document()["problems"])
    for path in files:
        path.unlink()
    assert hop_status(read_hop(tmp_path / "hop.toml")).held == ()
