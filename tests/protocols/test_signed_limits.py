"""Plans of signed decoys that nobody should trust: much noise, little room, long laws."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import chaffinch as cf
from chaffinch import privacy
from chaffinch.analysis.tally import check_tally, tally
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.privacy.numerics.floods import NoiseMessages
from chaffinch.protocols import Signed
from chaffinch.protocols.intervals import two_sided
from chaffinch.protocols.noise import SignedNoise
from chaffinch.protocols.signed import Digit
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate.seeded import SeededWords
from chaffinch.wire.messages import Origin, Reports
from tests.cases import each_case

RATIO = Fraction(math.ceil(math.exp(-0.4) * 2**64), 2**64)
FLOOD = tuple(Fraction(rate) for rate in (2, 1, 1, 1, 2, 2))
CHOICE = cf.Choice([f"v{i}" for i in range(500)], missing="refuse")


def plan_of(question: cf.Bit | cf.Choice, protocol: Signed, users: int, reports: int = 0) -> Plan:
    parts = (Part("answer", question, protocol),)
    return Plan("", parts, users, reports or users, users, 1, 1.0, 1e-6)


def test_noise_that_never_fits_is_not_proven() -> None:
    """Masses of so much noise leave the floats, which once looked like a chance of nearly 0."""
    mean = NoiseMessages(((float(RATIO), tuple(map(float, FLOOD))),), 500 / 10).mean
    protocol = Signed(RATIO, FLOOD, 10, int(0.7 * mean))
    assert protocol.overflow(CHOICE) == 1.0
    with pytest.raises(GuaranteeNotProven):
        plan_of(CHOICE, protocol, 10).verify()


@pytest.mark.parametrize("room", [4097, 10**6])
def test_a_room_that_takes_long_to_judge_is_refused(room: int) -> None:
    with pytest.raises(InvalidInput, match="room for noise"):
        Signed(RATIO, FLOOD, 1000, room)


def test_a_ratio_next_to_one_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ratio"):
        Signed(1 - Fraction(1, 2**60), FLOOD, 1000, 40)


def test_empty_reports_of_dishonest_users_block_nothing() -> None:
    protocol = Signed(RATIO, FLOOD, 1000, 100)
    plan = plan_of(cf.Bit(), protocol, 1000, reports=2000)
    words = SeededWords(4)
    honest = encode_numbers(plan, [np.arange(1000) % 2], 1000, words)
    batch = Reports(Origin.of(plan), 2000, honest.messages)
    check_tally(tally(shuffle_with(batch, words)), plan)


@pytest.mark.parametrize("exponent", [10**3, 10**5, 10**7])
def test_intervals_of_much_noise_are_as_wide_as_it_is(exponent: int) -> None:
    noise = SignedNoise(((1, Fraction(2, 3)),), 100)
    reports = 100 * exponent
    low, high = two_sided(noise, [reports // 2], reports, 0.05)
    spread = float(np.sqrt(noise.tally_variance(0, reports)))
    normal = float(stats.norm.isf(0.025))
    assert 0.98 * normal < (high[0] - low[0]) / 2 / spread < 1.4 * normal


def test_certificates_of_plans_that_cannot_be_certified_are_refused() -> None:
    bare = Signed(RATIO, (), 1000, 60)
    parts = (Part("answer", cf.Bit(), bare),)
    with pytest.raises(GuaranteeNotProven):
        Plan("", parts, 1000, 1000, 1000, 2, 2.0, 0.9).certificate()
    wide = Signed(RATIO, FLOOD, 1001, 100)
    with pytest.raises(GuaranteeNotProven):
        plan_of(cf.Bit(), wide, 1000).certificate()


ONE = Fraction(1, 4)
LARGEST = Fraction((1 << 30) - 1, 1 << 30)


@each_case(
    "changes",
    [
        {"ratio": Fraction(0)},
        {"ratio": Fraction(1, 3)},
        {"ratio": LARGEST},
        {"steps": 0},
        {"steps": 1001},
        {"flood": (ONE, Fraction(1000))},
        {"flood": (ONE, Fraction(1, 3))},
        {"flood": (-ONE,)},
    ],
)
def test_a_digit_that_no_device_can_send_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        replace(Digit(ONE, (ONE, Fraction(0)), 3), **changes)


def test_the_largest_digit_is_one() -> None:
    digit = Digit(LARGEST - Fraction(1, 1 << 40), (Fraction(0), Fraction(999)), 1000)
    assert digit.steps == 1000
    assert Digit(ONE, (), 1).flood == ()


@each_case(
    "changes",
    [
        {"cut_for": 0},
        {"room": -1},
        {"room": 4097},
        {"finer": ()},
        {"finer": (Digit(ONE, (), 1),)},
        {"steps": 0},
        {"steps": 500, "finer": (Digit(ONE, (), 1),)},
        {"steps": 0, "finer": (Digit(ONE, (), 1),)},
        {"ratio": Fraction(1)},
        {"doubled": False},
        {"doubled": 1},
    ],
)
def test_signed_decoys_without_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        replace(Signed(ONE, (ONE,), 1, 4096), **changes)


def test_the_smallest_and_the_finest_signed_decoys() -> None:
    assert Signed(ONE, (), 1, 0).resolution == 1
    assert Signed(ONE, (ONE,), 1, 4096, 499, (Digit(ONE, (), 1),)).resolution == 999


def test_a_plan_with_more_users_than_noise_was_cut_for_is_no_exact_one() -> None:
    """They send more noise than is counted, so nothing is known of delta from below."""
    protocol, users = Signed(RATIO, FLOOD, 1000, 100), 2000
    more, just = (plan_of(cf.Bit(), protocol, size) for size in (users, 1000))
    assert (more.guarantee.method, just.guarantee.method) == ("upper-bound", "exact")
    bracket = more.mechanism().delta(1.0)
    twice = privacy.SignedDecoys(
        question="bit", plus_ratio=RATIO, minus_ratio=RATIO, flood=[2 * rate for rate in FLOOD]
    )
    assert bracket.lower <= twice.delta(1.0).lower < 0.9 * bracket.upper
