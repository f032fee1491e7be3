"""Which signed decoys the planner weighs, and the room that it gives them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from scipy import stats

from chaffinch.privacy.numerics.floods import NoiseMessages
from chaffinch.protocols import Signed, protocol_variants
from chaffinch.protocols.base import Setting
from chaffinch.protocols.bursts import room_for
from chaffinch.protocols.signed import Digit, _steps_for, signed_variant
from chaffinch.questions import Bit, Choice, Flags, Number, Question
from tests.cases import each_case

QUARTER = Fraction(1, 4)
COUNTS = [f"signed decoys, {split}% of epsilon for the count" for split in (60, 75, 83, 90)]
SUMS = [
    "signed decoys, one digit, 75% of epsilon for the sum",
    "signed decoys, one digit, 90% of epsilon for the sum",
    "signed decoys, two digits, 90% of epsilon for the sum",
]
DOUBLED = [f"signed decoys, doubled, {split}% for the count" for split in (60, 75, 83, 90)]
NUMBER = Number(0, 1)
MU, DELTA = 0.25, 1e-6
EPSILON = MU * (MU / 2 - stats.norm.ppf(DELTA))
"""About that of the Gaussian mechanism."""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (Bit(), DOUBLED),
        (Choice(["a", "b"], missing="count"), COUNTS),
        (Flags(["x", "y"]), [DOUBLED[2], COUNTS[2]]),
        (NUMBER, SUMS),
        (Number(0, 1, quantiles=True), []),
    ],
)
def test_ways_to_part_epsilon(question: Question, expected: list[str]) -> None:
    assert [variant.name for variant in Signed.variants(question, 100)] == expected


def signed_names(question: Question, **wishes: Any) -> list[str]:
    found = protocol_variants(question, 100, **wishes)
    return [variant.name for variant in found if variant.name.startswith("signed")]


def test_clear_answers_are_weighed_where_they_may_be_and_numbers_only_by_wish() -> None:
    assert signed_names(Bit()) == signed_names(NUMBER) == signed_names(NUMBER, wished=True) == []
    assert signed_names(Bit(), clear=True) == DOUBLED
    assert signed_names(NUMBER, clear=True) == []
    assert signed_names(NUMBER, clear=True, wished=True) == SUMS


def test_names_tell_steps_and_digits() -> None:
    bit = Signed(QUARTER, (QUARTER,), 100, 5)
    steps = replace(bit, steps=4)
    digits = replace(steps, finer=(Digit(QUARTER, (QUARTER,), 2),))
    assert bit.name == "signed decoys"
    assert steps.name == "signed decoys, 4 steps"
    assert digits.name == "signed decoys, 14 steps in 2 digits"


@pytest.mark.parametrize(
    "question", [Bit(), Choice(["a", "b", "c"], missing="count"), Flags(["x", "y", "z"])]
)
def test_a_report_has_just_the_room_that_delta_allows(question: Question) -> None:
    setting = Setting(question, 1000, 1.0, 1e-8, 1e-6)
    protocol = signed_variant(0.83).make(setting, 0.25)
    assert isinstance(protocol, Signed)
    assert protocol.cut_for == 1000
    allowed = 1e-8 / (1 + math.e) / 1000 / 2
    noise = protocol.noise_messages(question)
    assert noise.tail(protocol.room + 1) <= 1.000001 * allowed < noise.tail(protocol.room)


@pytest.mark.parametrize("split", [0.6, 0.83])
@pytest.mark.parametrize(
    ("way", "question", "least"),
    [
        ("bit", Bit(), 0.97),
        ("doubled", Bit(), 0.97),
        ("choice", Choice(["a", "b", "c"], missing="count"), 0.55),
    ],
    ids=["bit", "doubled", "choice"],
)
def test_a_tuned_flood_just_keeps_its_delta(
    way: str, question: Question, least: float, split: float
) -> None:
    doubled = way == "doubled"
    variant = signed_variant(split, doubled=doubled)
    protocol = variant.make(Setting(question, 1000, 1.0, 1e-8, DELTA), MU)
    assert isinstance(protocol, Signed)
    assert protocol.doubled is (True if doubled else None)
    ratio = math.exp(-(1.0 if doubled else 0.5) * split * EPSILON)
    assert 0 <= protocol.ratio - Fraction(ratio) <= Fraction(1, 1 << 52)
    assert least * DELTA <= protocol.mechanism(question, 1000).delta(EPSILON).lower <= DELTA
    assert len(protocol.flood) in {2, 4}


@pytest.mark.parametrize(
    ("question", "ways"), [(Bit(), 1), (Choice(["a", "b"], missing="count"), 2)]
)
def test_a_small_honest_share_finds_some_noise(question: Question, ways: int) -> None:
    """All noise of that share is missing with a chance of delta at most, less a quarter."""
    protocol = signed_variant(0.83, 0.1).make(Setting(question, 1000, 1.0, 1e-8, DELTA), MU)
    assert isinstance(protocol, Signed)
    found = math.log(1.25 * ways / DELTA) / 0.1 + math.log1p(-float(protocol.ratio))
    assert float(sum(protocol.flood)) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(("place", "digits"), [(0, 1), (1, 1), (2, 2)])
def test_numbers_have_digits_and_room(place: int, digits: int) -> None:
    variant = Signed.variants(NUMBER, 100)[place]
    protocol = variant.make(Setting(NUMBER, 1000, 1.0, 1e-8, DELTA), MU)
    assert isinstance(protocol, Signed)
    assert (len(protocol.digits), protocol.cut_for) == (digits, 1000)
    allowed = 1e-8 / (1 + math.e) / 1000 / 2
    noise = protocol.noise_messages(NUMBER)
    assert noise.tail(protocol.room + 1) <= 1.000001 * allowed < noise.tail(protocol.room)
    split = (0.75, 0.9, 0.9)[place]
    if digits == 1:
        ratio = math.exp(-0.5 * split * EPSILON / protocol.resolution)
        assert float(protocol.ratio) == pytest.approx(ratio)
        assert protocol.resolution == min(round(0.75 * math.sqrt(1000) * EPSILON), 75)


@each_case(
    ("crowd", "epsilon", "messages", "one", "two"),
    [
        (10_000, 1.0, 200, 45, (15, 8)),
        (1_000_000, 1.0, 200, 45, (31, 14)),
        (10_000, 0.1, 200, 4, (3, 1)),
        (1_000_000, 1.0, 10, 7, (4, 4)),
        (1_000_000, 4.0, 1000, 180, (31, 30)),
        (400, 1.0, 200, 15, (15, 1)),
        (10_000, 0.3, 200, 14, (9, 3)),
        (62_500, 1.0, 200, 45, (15, 14)),
        (1_000_000, 1.0, 1, 1, (1, 1)),
        (1, 0.001, 200, 1, (1, 1)),
    ],
)
def test_steps_follow_the_crowd_epsilon_and_messages(
    crowd: int, epsilon: float, messages: int, one: int, two: tuple[int, int]
) -> None:
    assert _steps_for(crowd, epsilon, 1, messages) == (one,)
    assert _steps_for(crowd, epsilon, 2, messages) == two


@pytest.mark.parametrize("ratio", [0.9999, 0.999], ids=["too much on average", "too much at times"])
def test_noise_that_fits_no_report_gets_no_room(ratio: float) -> None:
    assert room_for(NoiseMessages(((ratio, ()),), 1.0), 1e-12) == 0


@pytest.mark.parametrize("room", [3, 4, 5, 8])
def test_every_burst_that_fits_is_drawn(room: int) -> None:
    table = Signed(QUARTER, (QUARTER,) * 3, 2, room).bursts(Bit())
    drawn = [*map(tuple, table.parts.tolist())]
    signs = {(0, k, 0) for k in range(1, room + 1)}
    pairs = {(0, k, k) for k in (1, 2, 3) if 2 * k <= room}
    assert set(drawn[:-1]) == signs | {(0, 0, k) for _, k, _ in signs} | pairs
    assert drawn[-1] == (0, 0, 0), "what is left over is no burst"


def test_rounding_is_two_units_for_every_entry_of_a_table() -> None:
    table = Signed(QUARTER, (QUARTER,), 2, 4).bursts(Bit())
    bursts, mean = len(table.number.weights) - 1, (2 * math.log(4 / 3) + 1 / 4) / 2
    kinds = 4 + 4 + 1
    assert table.rounding * 2.0**128 == pytest.approx(2 * (bursts + kinds * mean), rel=1e-9)


def test_noise_of_many_values_and_few_people_gets_so_much_room_and_no_more() -> None:
    question = Choice([f"v{place}" for place in range(2000)])
    protocol = signed_variant(0.83).make(Setting(question, 10, 1.0, 1e-8, DELTA), MU)
    assert isinstance(protocol, Signed)
    assert (protocol.room, protocol.overflow(question)) == (400, 1.0)


def test_the_rounding_of_tables_is_charged_beside_what_does_not_fit() -> None:
    protocol = Signed(QUARTER, (QUARTER,), 2, 300)
    assert protocol.noise_messages(Bit()).tail(301) < 1e-60
    assert protocol.overflow(Bit()) >= protocol.bursts(Bit()).rounding > 1e-38
