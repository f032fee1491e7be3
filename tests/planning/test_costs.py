"""What a plan says it costs, against what small collections really send, seal, open and store."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import chaffinch as cf
from chaffinch.cli.cost import cost as cost_verb
from chaffinch.engines.local import Local
from chaffinch.errors import InvalidInput
from chaffinch.keys import KeyFolder
from chaffinch.planning.costs import collection, units
from chaffinch.planning.costs.cost import Cost, Prices, Work
from chaffinch.planning.costs.units import BYTES, SECONDS, Room, Unit
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Flips, Protocol, every_protocol
from chaffinch.protocols.base import EncodingSeconds
from chaffinch.services.collector import CollectorLimits
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.shuffling import batch_outbox, release_rule
from chaffinch.shuffling.inbox import SegmentWriter, Upload
from chaffinch.wire.envelopes import OpeningKey, SealingKey
from chaffinch.wire.sealed_batches import HEAD_LENGTH
from chaffinch.wire.signatures import SIGNATURE
from tests.engines.plans import clear, flipped, plan_of, table, written
from tests.services.oracle import Collection

PEOPLE = 6
SEGMENT_HEAD = 28


# ----------------------------------------------------------------------------
# A real run, sealed.


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often an envelope is sealed or opened, while the real thing is done."""
    counted: Counter[str] = Counter()

    def counting(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def call(*words: Any) -> Any:
            counted[name] += 1
            return original(*words)

        monkeypatch.setattr(kind, name, call)

    counting(SealingKey, "seal")
    counting(OpeningKey, "open")
    return counted


def hop_of(made: Collection, place: int, data: Path) -> Shuffler:
    keys = KeyFolder.open(made.hops[place].path)
    return Shuffler(data, keys, [made.plan], ShufflerSettings(openers=1))


def batch_of(data: Path) -> Path:
    (path,) = (data / "outbox").glob("*.batch")
    return path


@pytest.mark.parametrize("kem", ["x25519", "x25519-ml-kem-768"])
def test_a_real_collection_has_these_messages_bytes_and_operations(
    tmp_path: Path, operations: Counter[str], kem: str
) -> None:
    made = Collection.make(tmp_path / "keys", crowd=PEOPLE, hops=2, slots=3, kem=kem)
    cost = made.plan.cost(PEOPLE)
    reports = made.seal(range(PEOPLE))
    assert operations.pop("seal") == cost.party("devices").work.operations == PEOPLE * (1 + 2 * 3)
    assert {len(report) for report in reports} == {cost.upload}
    assert sum(map(len, reports)) == cost.party("devices").work.sent

    first, second = tmp_path / "first", tmp_path / "second"
    with hop_of(made, 0, first) as hop:
        made.show_keys(hop)
        made.write_segment(first, reports)
        hop.take()
        hop.tick()
    assert operations.pop("open") == cost.party("hop 1").work.operations == PEOPLE
    content = batch_of(first).read_bytes()
    assert len(content) - HEAD_LENGTH - SIGNATURE == cost.party("hop 1").work.sent

    (second / "received").mkdir(parents=True)
    (second / "received" / batch_of(first).name).write_bytes(content)
    with hop_of(made, 1, second) as hop:
        hop.take()
    assert operations.pop("open") == cost.party("hop 2").work.operations == PEOPLE * 3
    content = batch_of(second).read_bytes()
    assert len(content) - HEAD_LENGTH - SIGNATURE == cost.party("hop 2").work.sent
    kept = PEOPLE * 3 * BYTES[Room.REPLAY_TAG]
    assert cost.party("analyzer").work.stored == pytest.approx(
        len(content) - HEAD_LENGTH - SIGNATURE + kept
    )

    assert sum(made.histogram([content]).values()) == PEOPLE
    assert operations.pop("open") == cost.party("analyzer").work.operations == PEOPLE * 3
    assert cost.most_messages == 3


def test_the_inbox_holds_what_the_collector_stores(tmp_path: Path) -> None:
    made = Collection.make(tmp_path / "keys", crowd=PEOPLE)
    writer = SegmentWriter(tmp_path)
    for report in made.seal(range(PEOPLE)):
        writer.append([Upload(made.plan.id, 1, report)])
    path = writer.seal()
    assert path is not None
    stored = made.plan.cost(PEOPLE).party("collector").work.stored
    assert path.stat().st_size == stored + SEGMENT_HEAD


def test_padding_is_sent_and_costs_no_operation() -> None:
    """Where the number of messages follows the noise, empty slots are not sealed."""
    question = cf.Choice(["a", "b", "c"])
    plan = plan_of(("answer", question, Decoys(9, Fraction(1, 4))), users=10)
    cost = plan.cost(1000)
    assert cost.messages == 1 + 9 / 4
    assert cost.most_messages == 10
    assert cost.party("devices").work.operations == pytest.approx(1000 * (1 + 1 + 9 / 4))
    assert cost.upload == plan.cost(1000, hops=1).upload > 10 * 59
    assert cost.party("hop 1").work.sent == pytest.approx(1000 * (1 + 9 / 4) * 59)


# ----------------------------------------------------------------------------
# A real run, in files.


def test_files_hold_these_messages_in_at_most_these_bytes(tmp_path: Path) -> None:
    people, values = 200_000, 1000
    plan = clear(people, values)
    cost = plan.cost(hops=0)
    assert [one.name for one in cost.parties] == ["encoder", "shuffler", "analyzer"]
    assert cost.messages == pytest.approx(1)
    random = np.random.default_rng(1)
    source = written(tmp_path / "encoded", plan, random.integers(0, values, people))
    target = tmp_path / "shuffled.parquet"
    Local(workers=1).shuffle([source], plan, target, record=tmp_path / "record")
    assert pq.read_metadata(target).num_rows == round(cost.messages * people)
    sent = cost.party("shuffler").work.sent
    # A page and its foot have heads of their own, which are not a message's.
    assert 0.9 * sent < target.stat().st_size < sent + 4096


def test_an_encoded_table_has_as_many_messages_as_expected(tmp_path: Path) -> None:
    people = 20_000
    plan = flipped(people, 20, Fraction(1, 8))
    source = table(tmp_path / "answers.parquet", np.full(people, 3))
    Local(workers=1).encode(source, plan, tmp_path / "encoded.parquet")
    messages = pq.read_metadata(tmp_path / "encoded.parquet").num_rows
    # Twenty bits of each person, each flipped by itself: five standard deviations.
    spread = math.sqrt(people * 20 * (1 / 8) * (7 / 8))
    assert abs(messages - people * plan.cost(hops=0).messages) < 5 * spread


# ----------------------------------------------------------------------------
# It adds up.


def survey() -> Plan:
    return plan_of(
        ("drink", cf.Choice(["tea", "milk"]), Flips(Fraction(1, 8), 1, 2)),
        ("member", cf.Bit(), Decoys(3, Fraction(1, 2))),
        users=50,
    )


@pytest.mark.parametrize("hops", [0, 1, 2, 8])
def test_twice_the_people_are_twice_the_work(hops: int) -> None:
    few, many, all_of_them = (survey().cost(n, hops=hops) for n in (1000, 2500, 3500))
    for one, two, both in zip(*map(_works, (few, many, all_of_them)), strict=True):
        assert _same(one + two, both)
    assert few.money + many.money == pytest.approx(all_of_them.money)
    assert few.upload == many.upload


def test_reports_are_what_people_send_times_how_many_each_sends() -> None:
    question = cf.Choice(["tea", "milk"], missing="count")
    plan = plan_of(("drink", question, Flips(Fraction(1, 8), 1, 2)), users=50)
    three = cf.Plan("", plan.parts, 50, 150, 50, 1, 100.0, 1.0, contributions=3)
    assert three.cost(10).reports == 30
    assert _same(three.cost(10).party("hop 1").work, plan.cost(30).party("hop 1").work)


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_parts_and_the_rest_are_what_all_parties_do(hops: int) -> None:
    cost = survey().cost(1000, hops=hops)
    shown = (*cost.parts, cost.rest)
    paid = sum((one.work for one in cost.parties if one.paid), Work())
    own = sum((one.work for one in cost.parties if not one.paid), Work())
    assert _same(sum((part.work for part in shown), Work()), paid)
    assert _same(sum((part.devices for part in shown), Work()), own)
    assert cost.core_hours == pytest.approx(sum(part.work.core_hours for part in shown))
    assert sum(part.upload for part in shown) == cost.upload
    assert cost.messages == sum(part.messages for part in cost.parts)
    # A hop and a device have one envelope for each report.
    assert cost.rest.work.operations == cost.rest.devices.operations == (1000 if hops else 0)


@pytest.mark.parametrize("hops", [0, 1])
def test_the_rows_of_each_table_add_up(hops: int) -> None:
    cost = survey().cost(10**6, hops=hops)
    for heads, rows in cost.tables():
        names = [row[0] for row in rows]
        total = names.index("together" if "together" in names else "all operators")
        for head in ("operations", "core-hours", "money", "on devices"):
            if head in heads:
                column = [float(row[heads.index(head)].replace(",", "")) for row in rows[:total]]
                whole = float(rows[total][heads.index(head)].replace(",", ""))
                assert sum(column) == pytest.approx(whole, rel=0.02)
    (heads, rows), (_, parties) = cost.tables()
    assert ("on devices" in heads) == bool(hops) == (parties[-1][0] == "on devices")
    assert len({len(row) for row in (heads, *rows)}) == 1


def test_too_small_a_crowd_is_told() -> None:
    assert survey().cost(49).notes[0] == (
        "Nothing would be released: the plan waits for 50 reports in one batch."
    )
    assert not any("released" in note for note in survey().cost(50).notes)


def _works(cost: Cost) -> list[Work]:
    parts = (*cost.parts, cost.rest)
    works = [party.work for party in cost.parties] + [part.work for part in parts]
    return works + [part.devices for part in parts]


def _same(one: Work, other: Work) -> bool:
    return all(
        getattr(one, field.name) == pytest.approx(getattr(other, field.name))
        for field in fields(Work)
    )


# ----------------------------------------------------------------------------
# Figures, prices and limits.

FOR_DEVICES = [one for one in every_protocol() if one.view == "messages"]


def test_totals_are_no_collection() -> None:
    plan = cf.plan(cf.Bit(), users=100, target=cf.Target(1, 1e-6), view="totals")
    with pytest.raises(InvalidInput, match="one for devices"):
        plan.cost()


@pytest.mark.parametrize("protocol", FOR_DEVICES, ids=lambda one: one.kind)
def test_every_protocol_has_figures_of_its_own(protocol: type[Protocol]) -> None:
    found = vars(protocol)["seconds"]
    assert isinstance(found, EncodingSeconds)
    for first, each in (("device_report", "device_message"), ("table_answer", "table_message")):
        assert getattr(found, first) >= 0 <= getattr(found, each)
        assert 1e-9 < getattr(found, first) + getattr(found, each) < 1e-3


def test_every_unit_has_a_figure() -> None:
    assert list(SECONDS) == list(Unit)
    assert list(BYTES) == list(Room)
    assert all(0 < seconds < 0.1 for seconds in SECONDS.values())
    assert all(size > 1 for size in BYTES.values())
    assert 5_000 < units.EXCHANGES < 200_000


def test_what_is_said_of_services_is_what_they_do() -> None:
    assert collection.LARGEST_BATCH == release_rule.LARGEST_BATCH
    assert collection.ORDER_MEMORY == batch_outbox.MEMORY
    assert CollectorLimits().pending_bytes == collection.PENDING_MEMORY


def test_memory_goes_by_the_batch_and_not_by_the_crowd() -> None:
    plan = plan_of(("member", cf.Bit(), Flips(Fraction(1, 8), 4)), users=1000)
    small, large, huge = (plan.cost(n) for n in (10**5, 10**7, 10**9))
    assert small.party("analyzer").memory < large.party("analyzer").memory
    assert large.party("analyzer").memory == huge.party("analyzer").memory
    assert plan.cost(10**9, hops=0).parties[0].memory == plan.cost(10, hops=0).parties[0].memory


def test_prices_are_what_was_asked() -> None:
    work = Work(seconds=7200, sent=3e9, stored=60e9)
    free = {"core_hour": 0, "gigabyte_month": 0, "gigabyte_out": 0}
    assert Prices(**free | {"core_hour": 5}).money(work) == 10
    assert Prices(**free | {"gigabyte_out": 5}).money(work) == 15
    assert Prices(**free | {"gigabyte_month": 5}, days=3).money(work) == pytest.approx(30)
    cost = survey().cost(1000, prices=Prices(**free))
    assert cost.money == 0 < cost.core_hours
    # Nobody but people themselves pays for their devices.
    assert cost.party("devices").document(Prices())["money"] is None


@pytest.mark.parametrize("price", [-1.0, math.nan, math.inf, True, "much"])
def test_other_prices_are_refused(price: Any) -> None:
    for field in fields(Prices):
        with pytest.raises(InvalidInput):
            Prices(**{field.name: price})


def test_the_command_assumes_the_same_prices() -> None:
    given = inspect.signature(cost_verb).parameters
    for field in fields(Prices):
        assert given[field.name].default == field.default


@pytest.mark.parametrize("users", [0, -1, 2.5, "many", True])
def test_other_numbers_of_people_are_refused(users: Any) -> None:
    with pytest.raises(InvalidInput):
        survey().cost(users)


@pytest.mark.parametrize("hops", [-1, 9, 1.5])
def test_other_hops_are_refused(hops: Any) -> None:
    with pytest.raises(InvalidInput):
        survey().cost(10, hops=hops)


def test_hops_are_those_of_the_plan_unless_others_are_asked_for(tmp_path: Path) -> None:
    made = Collection.make(tmp_path, hops=2, kem="x25519-ml-kem-768")
    assert made.plan.cost(10).way == "sealed, 2 hops"
    assert made.plan.cost(10).upload == made.plan.layout.report_length
    assert made.plan.cost(10, hops=1).upload < made.plan.cost(10).upload
    assert survey().cost(10).way == "sealed, 1 hop"
    assert survey().cost(10).users == 10
    assert survey().cost().users == 50


def test_it_says_that_it_is_an_estimate_and_of_what(tmp_path: Path) -> None:
    cost: Cost = survey().cost(10**9)
    text = str(cost)
    assert text.count("Estimate for 1,000,000,000 people") == 1
    for word in ("X25519", "assumed prices", "drink", "member", "collector", "analyzer"):
        assert word in text
    document = cost.document()
    assert document["estimate"] is True
    assert [one["name"] for one in document["parts"]] == ["drink", "member"]
    assert "<table>" in cost._repr_html_()
    assert "one round; the plan has 2" in str(Collection.make(tmp_path, rounds=2).plan.cost(10))
