"""Sealed reports: of one length whatever the answer, opened by their parties in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

from chaffinch.encoding import sealing
from chaffinch.encoding.device import encode, encode_with
from chaffinch.encoding.sealing import Sealer, seal_many, seal_report
from chaffinch.errors import InvalidInput, PlanMismatch
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Encoded, Flips
from chaffinch.questions import Bit, Choice, Flags, Number
from chaffinch.sampling import secure_words
from chaffinch.wire.envelopes import OpeningKey
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.messages import EMPTY, Origin, Report
from tests.cases import each_case
from tests.encoding.operators import Operators
from tests.encoding.test_order import Seeded
from tests.engines import plans

HALF = Fraction(1, 2)
QUARTER = Fraction(1, 4)
VALUES = Choice(["a", "b", "c"], missing="count")


def fixed() -> Plan:
    return plans.plan_of(("value", VALUES, Flips(QUARTER, 1, 3)), users=3)


def varying() -> Plan:
    return plans.plan_of(("value", VALUES, Decoys(3, HALF)), users=3)


def mixed() -> Plan:
    return plans.plan_of(
        ("tea", Bit(), Decoys(2, HALF)),
        ("value", VALUES, Flips(QUARTER, 1, 3)),
        users=3,
    )


MIXED_ANSWERS = [
    {"tea": tea, "value": value} for tea, value in product([True, False], ["a", "b", "c", None])
]
CASES: dict[str, tuple[Callable[[], Plan], list[object]]] = {
    "fixed": (fixed, ["a", "b", "c", None]),
    "varying": (varying, ["a", "b", "c", None]),
    "mixed": (mixed, list(MIXED_ANSWERS)),
}


def sent(codes: tuple[int, ...] | list[int]) -> list[int]:
    return sorted(code for code in codes if code != EMPTY)


@each_case("kem", ["x25519", "x25519-ml-kem-768"])
@each_case("hops", [1, 2, 3])
@each_case("case", CASES)
def test_a_report_is_opened_by_its_parties_in_turn(case: str, hops: int, kem: str) -> None:
    make, answers = CASES[case]
    parties = Operators.of(make(), hops, kem)
    for answer in answers:
        report = encode(answer, parties.plan)
        sealed = seal_report(report, parties.plan, parties.key_lists)
        assert sent(parties.open(sealed)) == sent(report.codes)
        assert len(sealed) == parties.plan.layout.report_length


@pytest.mark.parametrize("case", CASES)
def test_all_reports_of_a_plan_have_one_length(case: str) -> None:
    make, answers = CASES[case]
    parties = Operators.of(make())
    sealer = Sealer.of(parties.plan, parties.key_lists)
    lengths, numbers = set(), set()
    for seed, answer in product(range(30), answers):
        report = encode_with(answer, parties.plan, Seeded(seed))
        lengths.add(len(sealer.seal(report, Seeded(seed))))
        numbers.add(len(sent(report.codes)))
    assert lengths == {parties.plan.layout.report_length}
    assert len(numbers) > 1, "the number of messages does differ"


def test_reports_of_several_contributions_have_the_same_length() -> None:
    made = plans.plan_of(("value", VALUES, Flips(QUARTER, 1, 3)), users=3)
    plan = replace(made, contributions=3, reports=9)
    parties = Operators.of(plan)
    sealed = [
        seal_report(encode(answer, parties.plan), parties.plan, parties.key_lists)
        for answer in ("a", None, None)
    ]
    assert {len(one) for one in sealed} == {parties.plan.layout.report_length}
    assert {len(parties.open(one)) for one in sealed} == {3}


def test_fixed_slots_make_one_number_of_items() -> None:
    parties = Operators.of(fixed())
    sealer = Sealer.of(parties.plan, parties.key_lists)
    numbers, filled = set(), set()
    for seed, answer in product(range(50), ["a", "b", "c", None]):
        report = encode_with(answer, parties.plan, Seeded(seed))
        numbers.add(len(sealer.with_dummies(report)))
        filled.add(len(sent(report.codes)))
    assert numbers == {3}
    assert filled == {0, 1, 2, 3}


def test_only_fixed_parts_have_dummies() -> None:
    parties = Operators.of(mixed())
    tea = len(parties.plan.part("tea").labels)
    sealer = Sealer.of(parties.plan, parties.key_lists)
    for seed, answer in product(range(50), MIXED_ANSWERS):
        report = encode_with(answer, parties.plan, Seeded(seed))
        codes = sealer.with_dummies(report)
        assert sum(code >= parties.plan.offsets[1] for code in codes) == 3
        assert sum(code < tea for code in codes) == sum(code < tea for code in report.codes)
    without = Operators.of(varying())
    made = Sealer.of(without.plan, without.key_lists)
    for value in ["a", None]:
        report = encode(value, without.plan)
        assert EMPTY not in made.with_dummies(report)


def test_a_report_of_more_messages_than_its_fixed_slots_is_not_sealed() -> None:
    """Their number would tell something of the answer, as no number of dummies can hide it."""
    parties = Operators.of(mixed())
    first, origin = parties.plan.offsets[1], Origin.of(parties.plan)
    sealer = Sealer.of(parties.plan, parties.key_lists)
    fits = (*range(first, first + 3), *[EMPTY] * (origin.slots - 3))
    assert sorted(sealer.with_dummies(Report(origin, fits))) == [*range(first, first + 3)]
    with pytest.raises(InvalidInput, match="3 fixed slots"):
        sealer.with_dummies(Report(origin, (first, *fits[:-1])))


def order_statistic(parties: Operators, rounds: int = 240) -> float:
    """Return chi-square of where the one message stands among the dummies of a report."""
    origin = Origin.of(parties.plan)
    report = Report(origin, (0, *[EMPTY] * (origin.slots - 1)))
    sealer, words = Sealer.of(parties.plan, parties.key_lists), secure_words()
    places = Counter(parties.open(sealer.seal(report, words)).index(0) for _ in range(rounds))
    expected = rounds / origin.slots
    return sum((places[at] - expected) ** 2 / expected for at in range(origin.slots))


def test_the_place_of_an_item_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message among dummies is anywhere; one that always comes first is noticed."""
    parties = Operators.of(fixed())
    limit = float(chi2.isf(1e-9, parties.plan.slots - 1))
    assert order_statistic(parties) < limit
    monkeypatch.setattr(sealing, "permutation", lambda _words, count: np.arange(count))
    assert order_statistic(parties) > limit


def test_two_sealed_reports_share_no_bytes_behind_their_heads() -> None:
    parties = Operators.of(fixed())
    report = encode("a", parties.plan)
    first, second = (seal_report(report, parties.plan, parties.key_lists) for _ in range(2))
    assert first[:7] == second[:7]
    assert sum(one == other for one, other in zip(first[7:], second[7:], strict=True)) < 30


def test_rounds_are_bound_in() -> None:
    parties = Operators.of(replace(fixed(), rounds=2))
    sealed = seal_report(encode("a", parties.plan, round=2), parties.plan, parties.key_lists)
    assert len(parties.open(sealed, 2)) == 3
    assert parties.keys[0].open(sealed, parties.plan.layout.binding(1, 1)) is None


@pytest.mark.parametrize("workers", [1, 2])
def test_many_are_sealed_in_their_order_and_few_are_taken_ahead(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "_CHUNK", 4)
    parties = Operators.of(fixed())
    reports = [encode(answer, parties.plan) for answer in ["a", "b", None, "c"] * 20]
    sealed: list[bytes] = []
    ahead: list[int] = []

    def source() -> Iterator[Report]:
        for place, one in enumerate(reports, start=1):
            ahead.append(place - len(sealed))
            yield one

    for one in seal_many(source(), parties.plan, parties.key_lists, workers=workers):
        sealed.append(one)  # noqa: PERF402 - it is looked at meanwhile
    assert [sent(parties.open(one)) for one in sealed] == [sent(one.codes) for one in reports]
    assert max(ahead) == (4 if workers == 1 else 4 * (workers + 2))
    assert list(seal_many([], parties.plan, parties.key_lists, workers=workers)) == []


def test_what_does_not_belong_together_is_refused() -> None:
    parties, others = Operators.of(fixed(), 2), Operators.of(varying(), 2)
    report = encode("a", parties.plan)
    with pytest.raises(InvalidInput, match="of every hop, then the analyzer"):
        seal_report(report, parties.plan, parties.key_lists[:2])
    with pytest.raises(PlanMismatch, match="key list"):
        seal_report(report, parties.plan, others.key_lists)
    with pytest.raises(PlanMismatch, match="report"):
        seal_report(report, others.plan, others.key_lists)
    with pytest.raises(InvalidInput, match="names the parties"):
        seal_report(report, fixed(), parties.key_lists)
    hybrid = Operators.of(fixed(), 2, "x25519-ml-kem-768")
    first = replace(hybrid.key_lists[0], plan_id=parties.plan.id)
    with pytest.raises(InvalidInput, match="KEM 0x0020"):
        seal_report(report, parties.plan, (first, *parties.key_lists[1:]))


def test_numbers_and_flags_are_sealed_like_anything() -> None:
    plan = plans.plan_of(
        ("minutes", Number(0, 60, missing="refuse"), Encoded(QUARTER, 8, together=True)),
        ("seen", Flags(["x", "y"]), Flips(QUARTER, 1)),
        users=3,
    )
    parties = Operators.of(plan)
    for minutes, seen in product([0, 30, 60], [[], ["x"], ["x", "y"]]):
        report = encode({"minutes": minutes, "seen": seen}, parties.plan)
        sealed = seal_report(report, parties.plan, parties.key_lists)
        assert len(parties.open(sealed)) == plan.slots
        assert sent(parties.open(sealed)) == sent(report.codes)


def test_a_device_with_keys_of_its_own_has_a_route_of_its_own() -> None:
    """An analyzer that marks one device by its key gets nothing from it: it has no crowd."""
    operators = Operators.of(fixed())
    marked = OpeningKey.new(operators.keys[1].id).sealing
    lists = (operators.key_lists[0], KeyList(operators.plan.id, 1, (marked,)))
    report = encode_with("a", operators.plan, secure_words())
    routes = set()
    for given in (operators.key_lists, operators.key_lists, lists):
        payload = operators.keys[0].open(
            seal_report(report, operators.plan, given), operators.plan.layout.binding(1, 1)
        )
        unpacked = operators.plan.layout.unpack(payload or b"")
        assert unpacked is not None
        routes.add(unpacked[0])
    assert len(routes) == 2
    assert len({route[0] for route in routes}) == 1
