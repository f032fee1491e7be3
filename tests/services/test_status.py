"""What operators see: laws that hold or not, figures for Prometheus, and no moment of anybody."""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import replace

import pytest

from chaffinch.errors import StorageFault
from chaffinch.services import analyzer_process
from chaffinch.services import hop as hop_process
from chaffinch.services.admin import Board, publish_status
from chaffinch.services.logs import Log
from chaffinch.services.status import Law, PlanStatus, Status, outcome_words
from tests.services.servers import asked

PLAN = "ab" * 32
GOOD = {
    "durable": 10,
    "opened": 6,
    "duplicate": 2,
    "rejected": 1,
    "waiting": 1,
    "damaged": 0,
    "pooled": 1,
    "batched": 5,
    "expired": 0,
    "undecryptable": 0,
    "malformed": 0,
    "destroyed_key": 0,
    "not_given_out": 1,
    "refused": 0,
}


def hop(counts: dict[str, int]) -> Status:
    plan = PlanStatus(PLAN, "Members", counts, hop_process.INVARIANTS, {"sealed": 2})
    return Status("shuffler", (plan,), {1: "active"}, {"disk_free_bytes": 7.0})


@pytest.mark.parametrize("name", [None, *GOOD])
def test_a_count_that_goes_astray_is_noticed(name: str | None) -> None:
    counts = GOOD if name is None else {**GOOD, name: GOOD[name] + 1}
    assert hop(counts).adds_up is (name is None)


def test_an_analyzer_has_a_law_of_its_own() -> None:
    (law,) = analyzer_process.INVARIANTS
    assert str(law) == "items = counted + dummies + replayed + rejected"
    counts = {"items": 4, "counted": 1, "dummies": 1, "replayed": 1, "rejected": 1}
    assert law.holds(counts)
    assert not Law("items", ("counted",)).holds(counts)


def test_every_count_has_a_meaning() -> None:
    for law in (*hop_process.INVARIANTS, *analyzer_process.INVARIANTS):
        assert all(outcome_words(name, law) for name in (law.whole, *law.parts))


def answered(board: Board, path: str) -> tuple[int, bytes]:
    """What the listener of a board answers."""
    found = asyncio.run(asked(board.application, "GET", path))
    return found.status, found.body


def test_a_service_is_ready_when_it_has_posted() -> None:
    board = Board("shuffler", patience_seconds=60)
    assert answered(board, "/readyz") == (503, b"it has just started\n")
    assert answered(board, "/healthz")[0] == 200
    board.post(hop(GOOD))
    assert answered(board, "/readyz") == (200, b"ready\n")
    board.post(Status("shuffler", problems=("no room on the disk",)))
    assert answered(board, "/readyz") == (503, b"no room on the disk\n")


def test_a_service_without_news_is_stuck() -> None:
    assert answered(Board("shuffler", patience_seconds=0), "/healthz")[0] == 503


def test_the_status_is_a_document() -> None:
    board = Board("shuffler", patience_seconds=60)
    board.post(hop(GOOD))
    status, body = answered(board, "/status")
    document = json.loads(body)
    assert status == 200
    assert document["adds_up"] is True
    assert document["plans"][0]["laws"]["opened = pooled + batched + expired"] is True
    board.post(hop({**GOOD, "pooled": 2}))
    document = json.loads(answered(board, "/status")[1])
    assert document["adds_up"] is False
    assert document["plans"][0]["laws"]["opened = pooled + batched + expired"] is False


def test_the_figures_are_those_of_prometheus() -> None:
    board = Board("shuffler", patience_seconds=60)
    board.post(hop(GOOD))
    status, body = answered(board, "/metrics")
    lines = body.decode().splitlines()
    assert status == 200
    name = PLAN[:16]
    assert f'chaffinch_counts{{outcome="durable",plan="{name}"}} 10.0' in lines
    assert f'chaffinch_counts{{outcome="not_given_out",plan="{name}"}} 1.0' in lines
    assert f'chaffinch_batches{{plan="{name}",state="sealed"}} 2.0' in lines
    assert f'chaffinch_adds_up{{plan="{name}"}} 1.0' in lines
    assert 'chaffinch_key{id="1",state="active"} 1.0' in lines
    assert "chaffinch_disk_free_bytes 7.0" in lines
    # A sample with a time of its own, or a time of creation, would tell of a moment.
    samples = [line for line in lines if not line.startswith("#")]
    assert all(len(line.split()) == 2 for line in samples)
    assert "_created" not in body.decode()


def test_operators_see_why_batches_do_not_leave() -> None:
    board, said = Board("shuffler", patience_seconds=60), io.StringIO()
    log = Log("shuffler", said)
    for offers in ({"no connection": 3}, {"no connection": 4, "outdatedKeys": 1}):
        status = replace(hop(GOOD), offers=offers)
        board.post(status)
        log.changes(status)
    assert json.loads(answered(board, "/status")[1])["offers"] == offers
    lines = answered(board, "/metrics")[1].decode().splitlines()
    assert 'chaffinch_offers_total{outcome="no connection"} 4.0' in lines
    events = [json.loads(line) for line in said.getvalue().splitlines()]
    told = [one["outcome"] for one in events if one["event"] == "offered"]
    assert told == ["no connection", "outdatedKeys"], "each of them once"


def test_figures_change_at_ticks_alone() -> None:
    board = Board("collector", patience_seconds=60)
    seen = {"count": 0}

    def look() -> Status:
        return Status("collector", gauges={"acknowledged_reports": float(seen["count"])})

    async def watch() -> list[float]:
        found = []
        async with publish_status(board, look, 0.2):
            await asyncio.sleep(0.05)
            for _ in range(3):
                seen["count"] += 1
                found.append(board.status.gauges["acknowledged_reports"])
            await asyncio.sleep(0.3)
            found.append(board.status.gauges["acknowledged_reports"])
        return found

    assert asyncio.run(watch()) == [0.0, 0.0, 0.0, 3.0]


def test_what_cannot_be_looked_at_is_told() -> None:
    board = Board("collector", patience_seconds=60)
    board.post(hop(GOOD))
    faults = iter([StorageFault("The disk must be there. Got none."), OSError("a private path")])

    def look() -> Status:
        raise next(faults)

    async def watch() -> list[tuple[str, ...]]:
        found = []
        async with publish_status(board, look, 0.1):
            for _ in range(2):
                await asyncio.sleep(0.05)
                found.append(board.status.problems)
                await asyncio.sleep(0.05)
        return found

    assert asyncio.run(watch()) == [("The disk must be there. Got none.",), ("OSError",)]
    assert board.status.plans, "what was known stays"


def test_a_log_that_nobody_reads_stops_nobody() -> None:
    stream = io.StringIO()
    stream.close()
    Log("shuffler", stream)("started")


def test_a_log_has_one_document_a_line() -> None:
    stream = io.StringIO()
    log = Log("shuffler", stream)
    log("started", addresses="http://127.0.0.1:1")
    log.changes(hop(GOOD))
    log.changes(hop(GOOD))
    log.changes(hop({**GOOD, "pooled": 2}))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["started", "tick", "tick"]
    assert [line.get("adds_up") for line in lines] == [None, True, False]
    assert all(line["at"].endswith("Z") and line["at"].count(":") == 1 for line in lines)
