"""A collection whose reports are sealed: what each party holds, and what comes out."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from chaffinch.errors import BatchTooSmall
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from chaffinch.questions import Choice
from chaffinch.shuffling.inbox import read_segment, sealed_segments
from chaffinch.simulate.sealed_collection import SealedCollection
from tests.engines.plans import plan_of

PEOPLE = 40


def nothing_flips() -> Plan:
    """Return a plan under which next to no bit is ever flipped: what is sent is the answer."""
    question = Choice(["a", "b"], missing="refuse")
    return plan_of(("letter", question, Flips(Fraction(1, 1 << 60), 1, 2)), users=PEOPLE)


def ignore(_done: int, _total: int | None) -> None:
    """Show nobody how far it has come."""


@pytest.fixture(name="collection")
def _collection(tmp_path: Path) -> SealedCollection:
    return SealedCollection.make(nothing_flips(), tmp_path)


def test_every_answer_arrives_once(collection: SealedCollection) -> None:
    told: list[tuple[int, int | None]] = []
    collection.send(["a"] * 13 + ["b"] * (PEOPLE - 13), lambda *done: told.append(done))
    assert told == [(PEOPLE, PEOPLE)]
    found = collection.count(collection.shuffle(ignore))
    assert (found.reports, found.counts.tolist()) == (PEOPLE, [13, PEOPLE - 13])
    assert found.plan_id == collection.asked.id != collection.plan.id


def test_the_shuffler_gets_envelopes_of_one_length_that_it_alone_opens(
    collection: SealedCollection,
) -> None:
    collection.send(["a", "b"] * (PEOPLE // 2), ignore)
    layout = collection.plan.layout
    (segment,) = sealed_segments(collection.folder / "inbox")
    (upload,) = read_segment(segment)
    length = layout.report_length
    reports = [upload.reports[at : at + length] for at in range(0, len(upload.reports), length)]
    assert [len(report) for report in reports] == [length] * PEOPLE
    (own,) = collection.shuffler.opening_keys().values()
    (other,) = collection.analyzer.opening_keys().values()
    binding = layout.binding(1, 1)
    assert all(other.key.open(report, binding) is None for report in reports)
    payloads = [own.key.open(report, binding) for report in reports]
    items: Counter[int] = Counter()
    for payload in payloads:
        assert payload is not None
        unpacked = layout.unpack(payload)
        assert unpacked is not None
        items[len(unpacked[1]) // layout.item_length(1)] += 1
        assert own.key.open(unpacked[1][: layout.item_length(1)], layout.binding(2, 1)) is None
    assert items == {collection.plan.slots: PEOPLE}, "dummies fill the slots"


def test_fewer_than_the_crowd_are_not_released(collection: SealedCollection) -> None:
    collection.send(["a"] * (PEOPLE - 1), ignore)
    with pytest.raises(BatchTooSmall):
        collection.shuffle(ignore)
