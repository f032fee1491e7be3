"""The cumulants of every noise against its law, summed."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest

from chaffinch.protocols import Decoys, Signed
from chaffinch.protocols.noise import DecoyNoise, Noise, SeenDecoys, SignedNoise
from chaffinch.questions import Choice, Flags
from tests.analysis import exact
from tests.cases import each_case

QUARTER, HALF = Fraction(1, 4), Fraction(1, 2)


def cumulants(law: Iterable[tuple[float | Fraction, float | Fraction]]) -> tuple[float, float]:
    """Return the second and the fourth cumulant of a law, given as places and masses."""
    known = list(law)
    mean = sum(place * mass for place, mass in known)
    second, fourth = (sum((at - mean) ** power * mass for at, mass in known) for power in (2, 4))
    return float(second), float(fourth - 3 * second**2)


@each_case("noise", exact.KINDS.values(), ids=list(exact.KINDS))
@each_case("held", [0, 1, 4])
def test_bits_and_covers(noise: Noise, held: int) -> None:
    _, fourth = cumulants((Fraction(s), mass) for s, mass in enumerate(exact.law(noise, held, 4)))
    assert noise.fourth_cumulant([held], 4) == pytest.approx([fourth], rel=1e-9, abs=1e-12)
    assert noise.grain == 1 / 3


@pytest.mark.parametrize("values", [2, 3])
def test_decoys_less_their_share(values: int) -> None:
    share = Fraction(1, values)
    sent = [(1 - share, QUARTER * share), (-share, QUARTER * (1 - share))]
    one = [(Fraction(0), 1 - QUARTER), *sent]
    second, fourth = cumulants(one)
    noise = DecoyNoise(values, 2, QUARTER)
    assert noise.variance([0, 3], 5) == pytest.approx([10 * second] * 2)
    assert noise.fourth_cumulant([0, 3], 5) == pytest.approx([10 * fourth] * 2)
    assert (noise.slope, noise.grain) == (Fraction(1), 1 / 3)


@pytest.mark.parametrize("values", [2, 3])
def test_decoys_that_have_arrived(values: int) -> None:
    arrived, chance = 6, Fraction(1, values)
    law = exact.binomial(arrived, chance)
    second, fourth = cumulants((Fraction(s), mass) for s, mass in enumerate(law))
    noise = SeenDecoys(values, np.array([arrived]))
    assert noise.estimate([6.0, 9.0], 5) == pytest.approx(np.array([6.0, 9.0]) - 6 / values)
    assert noise.variance([0, 3], 5) == pytest.approx([second] * 2)
    assert noise.fourth_cumulant([0, 3], 5) == pytest.approx([fourth] * 2)
    assert (noise.slope, noise.grain) == (Fraction(1), 1 / 3)


def negative_binomial(ratio: float, exponent: float) -> Iterable[tuple[float, float]]:
    mass = (1 - ratio) ** exponent
    for place in range(300):
        yield float(place), mass
        mass *= ratio * (exponent + place) / (place + 1)


def test_pluses_and_minuses_of_several_digits() -> None:
    noise = SignedNoise(((5, HALF), (1, QUARTER)), cut_for=20, gain=2)
    found = [(weight, cumulants(negative_binomial(float(a), 1.5))) for weight, a in noise.parts]
    # Of a difference of two equal laws, even cumulants are twice those of one.
    second = sum(2 * weight**2 * two for weight, (two, _) in found)
    fourth = sum(2 * weight**4 * four for weight, (_, four) in found)
    assert noise.tally_variance([0, 9], 30) == pytest.approx([second] * 2)
    assert noise.variance([0, 9], 30) == pytest.approx([second / 4] * 2)
    assert noise.fourth_cumulant([0, 9], 30) == pytest.approx([fourth] * 2)
    assert noise.grain == 10.0, "5/(1 - 1/2)"
    assert SignedNoise(((1, HALF), (5, QUARTER)), 20).grain == pytest.approx(5 / 0.75)


def test_a_batch_has_its_answers_and_most_of_its_noise() -> None:
    flags, people = Flags(["x", "y", "z"]), 100_000
    signed = Signed(HALF, (HALF, QUARTER), 100, 60)
    answers = people * 3
    mean = signed.messages_of_all(flags, people).mean
    assert answers + 0.5 * (mean - answers) < signed.least_messages(flags, people) < mean
    assert Decoys(3, QUARTER).answer_messages(Choice(["a", "b"], missing="count")) == 1
