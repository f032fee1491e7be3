"""Batches by themselves: facts, names, counts and the digest, worked out by other means."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from chaffinch.errors import BatchTooSmall, InvalidFile, InvalidInput
from chaffinch.wire import messages
from chaffinch.wire.batches import (
    BatchFacts,
    CodeCounts,
    digest_of,
    facts_from_texts,
    facts_to_texts,
    join_names,
    new_name,
)
from chaffinch.wire.messages import EMPTY, Origin, Report, Reports, Rows, Shuffled, Tally
from tests.cases import each_case

FACTS = BatchFacts("plan", "encoded", 7, 100, 1, "0123456789abcdef" * 2)
SPACES = [100, 4096, 4097, 10**6]
"""From 4097 on a few codes are kept as they are."""


def codes_of(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.array(numbers, np.uint32)


def counted(space: int, *numbers: int) -> CodeCounts:
    counts = CodeCounts(space)
    counts.add(codes_of(*numbers))
    return counts


def expected_digest(facts: BatchFacts, numbers: list[int]) -> str:
    """Return the digest as the format describes it, by other means."""
    known = [facts.name, facts.stage, facts.plan_id, facts.round, facts.reports, facts.space]
    head = json.dumps(known).replace(" ", "").encode()
    pairs = [struct.pack("<qq", *pair) for pair in sorted(Counter(numbers).items())]
    length = struct.pack("<Q", len(head))
    return hashlib.sha256(b"".join([b"chaffinch/batch@2\n", length, head, *pairs])).hexdigest()


# -------------------------------------------------------------------- names and facts


def test_names_are_random_and_joined_in_no_order() -> None:
    names = [new_name() for _ in range(3)]
    assert len(set(names)) == 3
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in names)
    assert join_names(names[:1]) == names[0]
    joined = join_names(names)
    assert (
        joined
        == join_names(names[::-1])
        == hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()[:32]
    )
    assert replace(FACTS, name=joined).name == joined, "it is a name"


@each_case(
    ("fact", "good", "bad"),
    [
        ("plan_id", ["a", "~" * 99, " "], ["", "ä", "a\n", 1, None]),
        ("stage", ["encoded", "shuffled"], ["", "sorted", None]),
        ("reports", [0, 1, 10**12], [-1, 10**12 + 1, 1.0, True]),
        ("space", [1, 10**7], [0, 10**7 + 1, "9"]),
        ("round", [1, 10**6], [0, 10**6 + 1, None]),
        (
            "name",
            ["0" * 32, "f" * 32],
            ["", "0" * 31, "0" * 33, "F" * 32, "g" * 32, "0" * 32 + "\n"],
        ),
    ],
)
def test_facts_are_refused_never_mended(fact: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert getattr(replace(FACTS, **{fact: value}), fact) == value
    for value in bad:
        with pytest.raises(InvalidInput):
            replace(FACTS, **{fact: value})


def as_bytes(texts: dict[str, str]) -> dict[bytes, bytes]:
    return {key.encode(): text.encode() for key, text in texts.items()}


def test_facts_come_back_from_their_texts() -> None:
    texts = facts_to_texts(FACTS, "digest")
    assert texts["chaffinch.messages"] == "2"
    assert facts_from_texts("x", as_bytes(texts)) == (FACTS, "digest")
    others = {b"ARROW:schema": b"\xff", b"pandas": b"{}"}
    assert facts_from_texts("x", others | as_bytes(texts)) == (FACTS, "digest")


@each_case(
    ("change", "fault"),
    [
        ({"chaffinch.messages": "1"}, "no digest"),
        ({"chaffinch.messages": "3"}, "one of another version"),
        ({"chaffinch.more": "1"}, "an unknown fact 'more'"),
        ({"chaffinch.reports": "07"}, "another number of reports"),
        ({"chaffinch.reports": "1" + "0" * 15}, "another number of reports"),
        ({"chaffinch.space": "+5"}, "another number of possible messages"),
        ({"chaffinch.stage": "sorted"}, "another stage of the messages"),
    ],
)
def test_a_wrong_text_is_named(change: dict[str, str], fault: str) -> None:
    with pytest.raises(InvalidFile, match=fault):
        facts_from_texts("x", as_bytes(facts_to_texts(FACTS, "d") | change))


@each_case("fact", [*vars(FACTS), "digest"])
def test_a_missing_fact_is_named(fact: str) -> None:
    texts = as_bytes(facts_to_texts(FACTS, "d"))
    del texts[f"chaffinch.{fact}".encode()]
    with pytest.raises(InvalidFile, match=f"no '{fact}'"):
        facts_from_texts("x", texts)


@pytest.mark.parametrize("metadata", [None, {}, {b"other": b"1"}])
def test_a_file_of_others_is_no_batch(metadata: dict[bytes, bytes] | None) -> None:
    with pytest.raises(InvalidFile, match="no mark of one"):
        facts_from_texts("x", metadata)


@pytest.mark.parametrize("reports", [0, 1, 10, 10**12])
def test_numbers_are_read_as_they_are_written(reports: int) -> None:
    facts = replace(FACTS, reports=reports)
    assert facts_from_texts("x", as_bytes(facts_to_texts(facts, "")))[0] == facts


# -------------------------------------------------------------------- counts


@pytest.mark.parametrize("space", SPACES)
def test_every_code_is_counted(space: int) -> None:
    counts = counted(space, 3, 0, 3)
    counts.add(codes_of())
    counts.add(codes_of(space - 1))
    assert counts.total == 4
    codes, often = counts.pairs()
    assert (codes.tolist(), often.tolist()) == ([0, 3, space - 1], [1, 2, 1])
    assert {codes.dtype, often.dtype} == {np.dtype(np.int64)}
    dense = counts.dense()
    assert (len(dense), dense.sum(), dense[3]) == (space, 4, 2)
    codes, often = counts.pairs()
    assert (codes.tolist(), often.tolist()) == ([0, 3, space - 1], [1, 2, 1])
    counts.add(codes_of(5))
    assert (counts.total, counts.dense()[5]) == (5, 1)


@pytest.mark.parametrize("space", SPACES)
def test_a_code_that_is_too_large_counts_nothing(space: int) -> None:
    counts = counted(space, 1)
    with pytest.raises(InvalidInput):
        counts.add(codes_of(2, space))
    assert counts.total == 1
    assert counts.pairs()[0].tolist() == [1]


@pytest.mark.parametrize("space", SPACES)
def test_counts_are_added_from_a_code_on(space: int) -> None:
    counts = counted(space, 1, 2)
    counts.add_counts(np.array([10, 0, 20], np.int64))
    counts.add_counts(np.array([5], np.int64), space - 1)
    codes, often = counts.pairs()
    assert (codes.tolist(), often.tolist()) == ([0, 1, 2, space - 1], [10, 1, 21, 5])
    assert counts.total == 37


@each_case("space", SPACES)
@each_case("spread", [False, True])
def test_counts_are_merged(space: int, *, spread: bool) -> None:
    one, two = counted(space, 1, 1, 2), counted(space, 2, 3)
    if spread:
        two.dense()
    one.merge(two)
    assert one.total == 5
    assert one.pairs()[1].tolist() == [2, 2, 1]
    assert two.pairs()[1].tolist() == [1, 1]


@pytest.mark.parametrize("times", [0, 1, 255, 256, 70_000])
def test_counts_travel_in_few_bytes_and_arrive_whole(times: int) -> None:
    space = 1 << 17
    counts = CodeCounts(space)
    counts.add_counts(np.full(3, times, np.int64), 5)
    sent = pickle.dumps(counts)
    width = 1 if times < 1 << 8 else 2 if times < 1 << 16 else 4
    assert len(sent) < width * space + 1000
    found = pickle.loads(sent)  # noqa: S301 - our own
    found.add(np.array([5, 9], np.uint32))
    assert found.total == 3 * times + 2
    assert found.dense()[4:10].tolist() == [0, times + 1, times, times, 0, 1]
    assert counts.total == 3 * times


def test_counts_of_few_codes_among_many_travel_too() -> None:
    counts = CodeCounts(10**9)
    counts.add(np.array([7, 10**9 - 1, 7], np.uint32))
    found = pickle.loads(pickle.dumps(counts))  # noqa: S301 - our own
    assert [one.tolist() for one in found.pairs()] == [[7, 10**9 - 1], [2, 1]]


def test_many_codes_in_many_parts_are_all_counted() -> None:
    counts = CodeCounts(10**5)
    numbers = np.random.default_rng(0).integers(0, 10**5, 9000, dtype=np.uint32)
    for start in range(0, 9000, 6):
        counts.add(numbers[start : start + 6])
    assert np.array_equal(counts.dense(), np.bincount(numbers, minlength=10**5))


def test_what_was_counted_is_not_changed_later() -> None:
    mine = codes_of(1, 2)
    counts = CodeCounts(10**7)
    counts.add(mine)
    mine[:] = 9
    assert counts.pairs()[0].tolist() == [1, 2]


def test_a_small_batch_of_a_large_plan_takes_little_memory() -> None:
    tracemalloc.start()
    counts = counted(10**7, *range(1000))
    assert digest_of(replace(FACTS, space=10**7), counts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**6, "and not the 80 megabytes of a count for each code"


def test_a_large_batch_takes_no_more_memory_than_a_count_for_each_code() -> None:
    counts, codes = CodeCounts(10**5), np.arange(10**5, dtype=np.uint32)
    tracemalloc.start()
    for _ in range(50):
        counts.add(codes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts.total == 50 * 10**5
    assert peak < 4 * 10**6, "and not the 20 megabytes of all codes"


# -------------------------------------------------------------------- digests


@each_case("space", [100, 10**7])
@each_case("numbers", [[], [5], [3, 1, 3, 99, 0]])
def test_the_digest_is_what_the_format_says(space: int, numbers: list[int]) -> None:
    facts = replace(FACTS, space=space)
    assert digest_of(facts, counted(space, *numbers)) == expected_digest(facts, numbers)


def test_the_digest_of_more_pairs_than_are_hashed_at_once() -> None:
    facts, numbers = replace(FACTS, space=200_000), list(range(0, 200_000, 2))
    assert len(numbers) > 1 << 16
    assert digest_of(facts, counted(200_000, *numbers)) == expected_digest(facts, numbers)


# -------------------------------------------------------------------- reports and batches

ORIGIN = Origin("plan", 10, 3, 2)
NAME = FACTS.name


class Planned:
    """A plan that is asked several times."""

    id, codes, slots, reports = "plan", 10, 2, 3

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds


def test_an_origin_says_which_round_it_is_of() -> None:
    assert Origin.of(Planned(1)) == Origin.of(Planned(1), 1) == ORIGIN
    assert Origin.of(Planned(2), 2) == replace(ORIGIN, round=2)
    with pytest.raises(InvalidInput, match="given, from 1 to 2"):
        Origin.of(Planned(2))
    for number in (0, 3):
        with pytest.raises(InvalidInput, match="round"):
            Origin.of(Planned(2), number)
    assert ORIGIN.facts("shuffled", 4, NAME) == BatchFacts("plan", "shuffled", 4, 10, 1, NAME)


def test_a_crowd_is_enough_reports_and_no_more_messages_than_they_hold() -> None:
    ORIGIN.check_crowd(3, 6)
    ORIGIN.check_crowd(4, 0)
    with pytest.raises(BatchTooSmall):
        ORIGIN.check_crowd(2, 0)
    with pytest.raises(InvalidFile, match="7 messages in 3 reports"):
        ORIGIN.check_crowd(3, 7)


def test_a_report_fills_its_slots_with_codes_of_the_plan() -> None:
    for codes in ((0, 9), (EMPTY, EMPTY), (9, EMPTY), (EMPTY, 9)):
        assert Report(ORIGIN, codes).codes == codes
    for wrong in ((), (1,), (1, 2, 3), (1, 10), (1, -1), (1, EMPTY + 1), (10, EMPTY), (EMPTY, 10)):
        with pytest.raises(InvalidInput, match="report"):
            Report(ORIGIN, wrong)


def test_digests_are_those_of_what_is_in_a_batch() -> None:
    facts = BatchFacts("plan", "encoded", 1, 10, 1, NAME)
    assert Report(ORIGIN, (7, EMPTY), NAME).digest == expected_digest(facts, [7])
    rows = Rows(8, 2, np.array([[0b01], [0b11], [0b00]], np.uint8))
    reports = Reports(ORIGIN, 3, codes_of(1, 1), (rows,), NAME)
    assert reports.row_counts().tolist() == [0] * 8 + [2, 1]
    twice = Reports(ORIGIN, 3, codes_of(), (rows, rows), NAME)
    assert twice.row_counts().tolist() == [0] * 8 + [4, 2]
    held = [1, 1, 8, 8, 9]
    assert reports.digest == expected_digest(replace(facts, reports=3), held)
    bare = Reports(ORIGIN, 3, codes_of(1, 1), (), NAME)
    assert bare.digest == expected_digest(replace(facts, reports=3), [1, 1])
    assert len(bare) == 3
    shuffled = replace(facts, stage="shuffled", reports=3)
    batch = Shuffled(ORIGIN, 3, codes_of(1, 1), reports.row_counts(), NAME)
    assert batch.digest == expected_digest(shuffled, held)
    assert batch.code_counts().total == 5
    assert Shuffled(ORIGIN, 3, codes_of(4), None, NAME).digest == expected_digest(shuffled, [4])
    tally = Tally("plan", 3, batch.code_counts().dense(), NAME)
    assert tally.digest == batch.digest
    assert replace(tally, round=2).digest == expected_digest(replace(shuffled, round=2), held)


@pytest.mark.parametrize(
    "make",
    [
        lambda count: Reports(ORIGIN, count, codes_of()),
        lambda count: Tally("plan", count, np.zeros(10, np.int64)),
    ],
    ids=["reports", "tally"],
)
def test_numbers_of_reports_have_limits(make: Callable[[Any], Any]) -> None:
    for count in (0, 10**12):
        make(count)
    for wrong in (-1, 10**12 + 1, 1.0):
        with pytest.raises(InvalidInput, match="number of reports"):
            make(wrong)


def test_no_more_reports_are_absent_than_there_are() -> None:
    counts = np.zeros(10, np.int64)
    for absent, present in ((0, 3), (1, 2), (3, 0)):
        assert Tally("plan", 3, counts, absent=absent).present == present
    for wrong in (-1, 4, 1.0):
        with pytest.raises(InvalidInput, match="number of absent reports"):
            Tally("plan", 3, counts, absent=cast("int", wrong))


def test_nothing_is_counted_less_than_never() -> None:
    Tally("plan", 1, np.zeros(0, np.int64))
    with pytest.raises(InvalidInput, match="counts"):
        Tally("plan", 1, np.array([1, -1], np.int64))


def test_nobody_prints_a_message() -> None:
    numbers = codes_of(7, 7)
    for thing in (
        Report(ORIGIN, (7, 7)),
        Reports(ORIGIN, 3, numbers),
        Shuffled(ORIGIN, 3, numbers, np.full(10, 7)),
        Tally("plan", 3, np.full(10, 7)),
    ):
        assert "7" not in repr(thing)


@pytest.mark.parametrize("step", [1, 2, 1 << 20])
def test_packed_rows_are_the_codes_of_their_ones(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows are unpacked at once, and whatever stands in the last byte behind them."""
    draws = np.random.default_rng(4)
    bits = draws.random((7, 11)) < 0.4
    packed = np.packbits(bits, axis=1, bitorder="little")
    packed[:, -1] |= 0b1111_1000
    monkeypatch.setattr(messages, "_UNPACKED", step * 11)
    rows = Rows(20, 11, packed)
    wanted = [20 + int(code) for row in bits for code in np.flatnonzero(row)]
    assert rows.codes().tolist() == wanted
    assert rows.codes().dtype == np.uint32
    assert Rows(20, 11, packed[:0]).codes().tolist() == []
    alone = Reports(ORIGIN, 7, np.array([3, 1], np.uint32))
    assert alone.codes().tolist() == [3, 1]
    assert replace(alone, rows=(rows, rows)).codes().tolist() == [3, 1, *wanted, *wanted]
