"""Laws of weighted sums of tallies, against every outcome of a few records."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.protocols import Decoys, Encoded, FlippedDecoys, Flips, Signed
from chaffinch.protocols.joint import (
    FlippedTogether,
    JointNoise,
    SignedTogether,
)
from chaffinch.questions import Choice

WEIGHTS, CELLS = np.array([0.5, 2.0]), np.array([2.0, 1.0])
"""Two cells that count a half and one that counts twice; a fourth does not count."""
EACH = (0.5, 0.5, 2.0, 0.0)
VALUES = len(EACH)
FLIP = 0.2
Outcomes = Iterator[tuple[float, float]]


def decoys(arrived: int) -> Outcomes:
    """Yield the chance and the weighted sum of every way in which decoys can fall."""
    for places in product(EACH, repeat=arrived):
        yield VALUES**-arrived, sum(places)


def flips(records: int, fakes: int) -> Outcomes:
    """Yield those of bits that nobody holds, and of decoys, every bit flipped or not."""
    for lifted in product(range(VALUES), repeat=fakes):
        held = [None] * records + list(lifted)
        bits = [(place == at, weight) for at in held for place, weight in enumerate(EACH)]
        for flipped in product((False, True), repeat=len(bits)):
            chance = math.prod(FLIP if flip else 1 - FLIP for flip in flipped)
            total = sum(w for (bit, w), flip in zip(bits, flipped, strict=True) if bit != flip)
            yield chance / VALUES**fakes, total


def signed(ratio: float, most: int) -> Outcomes:
    """Yield those of one value with the difference of two geometric numbers."""
    for plus, minus in product(range(most), repeat=2):
        yield (1 - ratio) ** 2 * ratio ** (plus + minus), plus - minus


CASES: dict[str, tuple[JointNoise, list[tuple[float, float]]]] = {
    "decoys": (FlippedTogether(0.0, 2, VALUES, 3), [*decoys(3)]),
    "flips": (FlippedTogether(FLIP, 2, VALUES), [*flips(2, 0)]),
    "flips and decoys": (FlippedTogether(FLIP, 1, VALUES, 1), [*flips(1, 1)]),
    "flipped decoys": (FlippedTogether(FLIP, 0, VALUES, 2), [*flips(0, 2)]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_law_of_a_weighted_sum_is_that_of_all_outcomes(name: str) -> None:
    noise, outcomes = CASES[name]
    angles = np.array([-1.3, 0.0, 0.4, 2.0])
    true = [sum(p * cmath.exp(1j * angle * total) for p, total in outcomes) for angle in angles]
    assert noise.characteristic(angles, WEIGHTS, CELLS) == pytest.approx(np.array(true))
    mean = sum(p * total for p, total in outcomes)
    assert noise.mean(WEIGHTS, CELLS) == pytest.approx(mean)
    variance = sum(p * (total - mean) ** 2 for p, total in outcomes)
    told = noise.covariance(WEIGHTS, WEIGHTS, CELLS) * noise.slope**2
    assert told == pytest.approx(variance)


def test_signed_noise_of_each_value_is_its_own() -> None:
    noise, outcomes = SignedTogether(0.3, 1.0), [*signed(0.3, 60)]
    angles = np.array([-1.3, 0.0, 0.4, 2.0])
    one = np.array([sum(p * cmath.exp(1j * angle * d) for p, d in outcomes) for angle in angles])
    assert noise.characteristic(angles, np.ones(1), np.ones(1)) == pytest.approx(one)
    assert noise.characteristic(angles, np.ones(1), np.array([3.0])) == pytest.approx(one**3)
    assert noise.characteristic(2 * angles, np.array([0.5]), np.ones(1)) == pytest.approx(one)
    half = SignedTogether(0.3, 0.5).characteristic(angles, np.ones(1), np.array([2.0]))
    assert half == pytest.approx(one)
    assert noise.own == pytest.approx(sum(p * d**2 for p, d in outcomes))
    assert (noise.shared, noise.slope, noise.mean(WEIGHTS, CELLS)) == (0.0, 1.0, 0.0)
    assert SignedTogether(0.3, 0.5).own == pytest.approx(noise.own / 2)


def test_flips_lean_outwards_whatever_the_sign() -> None:
    noise = FlippedTogether(FLIP, 2, VALUES)
    angles = np.array([0.4, 2.0])
    up, down = (noise.characteristic(angles, sign * WEIGHTS, CELLS) for sign in (1, -1))
    assert up == pytest.approx(down)
    assert noise.mean(-WEIGHTS, CELLS) == noise.mean(WEIGHTS, CELLS)
    decoyed = FlippedTogether(FLIP, 2, VALUES, 4)
    moved = decoyed.mean(WEIGHTS, CELLS) - decoyed.mean(-WEIGHTS, CELLS)
    assert moved == pytest.approx(2 * 4 * 0.6 * 3.0 / VALUES)


def test_two_sums_vary_together() -> None:
    noise = FlippedTogether(0.0, 2, VALUES, 8)
    first, second = np.array([1.0, 1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0])
    assert noise.covariance(first, second) == 8 / 4 - 8 * 4 / 16
    rows = noise.covariance(np.array([first, second]), np.array([second, second]))
    assert rows.tolist() == [0.0, 2.0], "for each row by itself"
    flipped = FlippedTogether(FLIP, 10, VALUES)
    assert flipped.covariance(first, second) == pytest.approx(10 * 0.16 / 0.36)


def test_every_protocol_of_choices_tells_how_its_tallies_scatter_together() -> None:
    question, quarter, counts = Choice(["a", "b"], missing="refuse"), Fraction(1, 4), [9, 6]
    found = {
        protocol.kind: protocol.joint(question, np.array(counts), 10)
        for protocol in (
            Flips(quarter),
            Decoys(3, quarter),
            FlippedDecoys(quarter, 2, 2),
            Signed(quarter, (quarter,), 100, 5),
        )
    }
    assert found == {
        Flips.kind: FlippedTogether(0.25, 10, 2),
        Decoys.kind: FlippedTogether(0.0, 10, 2, 5),
        FlippedDecoys.kind: FlippedTogether(0.25, 10, 2, 20),
        Signed.kind: SignedTogether(0.25, 0.1),
    }
    assert Decoys(3, quarter).joint(question, np.array([1, 2]), 10) == FlippedTogether(
        0.0, 10, 2, 0
    )
    with pytest.raises(InvalidInput, match="choices"):
        Encoded(quarter, 4, together=True).joint(question, np.array(counts), 10)
