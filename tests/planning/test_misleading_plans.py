"""Plan files that would mislead or stall whoever trusts them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput
from chaffinch.planning.plan import Part, Plan
from chaffinch.planning.protocols import Decoys, FlippedDecoys, Flips

PART = Part("q", cf.Bit(), Flips(Fraction(1, 4)))
PLAN = Plan("", (PART,), 100, 100, 100, 1, 1.0, 1e-2)


@pytest.mark.parametrize(
    "shares",
    [
        ((Fraction(1, 2), 0.01),),
        ((Fraction(1, 2), 2.0), (Fraction(1, 2), 3.0)),
        ((Fraction(1, 2), 2.0), (Fraction(9, 10), 3.0)),
        ((Fraction(3, 2), 2.0),),
        ((Fraction(0), 2.0),),
        ((Fraction(9, 10), 3.0), (Fraction(1, 2), 2.0)),
    ],
)
def test_shares_that_cannot_be_true_are_refused(shares: tuple[tuple[Fraction, float]]) -> None:
    with pytest.raises(InvalidInput, match="honest shares"):
        replace(PLAN, shares=shares)


@pytest.mark.parametrize(
    "name", ["a\n\nPromise: epsilon 0.001", "\x1b[2J", "\u202egnorw", "", " a", "x" * 201]
)
def test_names_that_forge_or_hide_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        Part(name, cf.Bit(), Flips(Fraction(1, 4)))
    if name.strip():
        with pytest.raises(InvalidInput):
            replace(PLAN, title=name + "\n")


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"delta": 0.0}, {"delta": 1.1}])
def test_promises_that_say_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        replace(PLAN, **wrong)  # type: ignore[arg-type]


def test_a_device_may_ask_for_more_than_the_plan_promises() -> None:
    cf.encode("yes", PLAN, within=cf.Target(1.0, 1e-2))
    for limit in (cf.Target(0.9, 1e-2), cf.Target(1.0, 1e-3)):
        with pytest.raises(InvalidInput, match="promise of a plan"):
            cf.encode("yes", PLAN, within=limit)


def test_plans_beyond_all_measure_are_refused() -> None:
    with pytest.raises(InvalidInput, match="questions"):
        replace(PLAN, parts=tuple(replace(PART, name=f"q{k}") for k in range(101)))
    wide = Part("w", cf.Choice(range(10)), Decoys(999_999, Fraction(1, 2)))
    with pytest.raises(InvalidInput, match="slots"):
        replace(PLAN, parts=(wide, PART))


def test_one_user_with_very_many_decoys_is_judged_in_a_moment() -> None:
    part = Part("q", cf.Choice(range(1000)), FlippedDecoys(Fraction(1, 4), 1000, 700))
    assert 0 <= part.mechanism(1).delta_bound(0.5) <= 1


def test_a_mean_with_quantiles_composes_bit_by_bit() -> None:
    """Closed, its profile ends too early for two rounds; opened, all is proven in a moment."""
    numbers = cf.privacy.EncodedNumbers(users=20_000, resolution=8, flip_probability="0.05")
    twice = cf.privacy.compose(numbers, times=2)
    assert twice.parts == ((cf.privacy.FlippedBits(users=20_000, flip_probability="0.05"), 16),)
    assert twice.delta_bound(1.0) < 1e-9
