"""Numbers in two digits by brute force: every view of both, and every change of the answer.

The referee multiplies two laws of (plus, minus), each summed directly over pairs, and moves them
by whole messages. It knows of no independence within a digit, and of no composition.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch.protocols.signed import Digit, Signed
from chaffinch.questions import Number
from tests.tiers import some

Masses = NDArray[np.float64]
SIZE = 24
LACKING = 1e-9
"""What squares of this size lack of the laws below, and more than floats lose."""


def noise_law(digit: Digit) -> Masses:
    """Return P[so many pluses, so many minuses], each below SIZE."""
    ratio = float(digit.ratio)
    geometric = (1 - ratio) * ratio ** np.arange(SIZE)
    pairs = np.zeros(SIZE)
    pairs[0] = 1.0
    for burst, rate in enumerate(map(float, digit.flood), start=1):
        bursts = np.zeros(SIZE)
        for count in range(-(-SIZE // burst)):
            bursts[count * burst] = math.exp(-rate) * rate**count / math.factorial(count)
        pairs = np.convolve(pairs, bursts)[:SIZE]
    total = np.zeros((SIZE, SIZE))
    for count in range(SIZE):
        rest = geometric[: SIZE - count]
        total[count:, count:] += pairs[count] * np.outer(rest, rest)
    return total


def view(law: Masses, digit: int, steps: int) -> Masses:
    """Return what is seen of a digit: so many pluses, the other steps minuses."""
    found = np.zeros((SIZE + steps, SIZE + steps))
    found[digit : digit + SIZE, steps - digit : steps - digit + SIZE] = law
    return found.ravel()


def worst_delta(protocol: Signed, growth: float) -> float:
    """Return the largest hockey-stick over all pairs of different answers."""
    views = [
        [view(noise_law(digit), value, digit.steps) for value in range(digit.steps + 1)]
        for digit in protocol.digits
    ]
    answers = [*product(*(range(digit.steps + 1) for digit in protocol.digits))]
    worst = 0.0
    for one, other in product(answers, answers):
        if one == other:
            continue
        first, second = (
            np.outer(views[0][answer[0]], views[1][answer[1]]) for answer in (one, other)
        )
        first -= growth * second
        worst = max(worst, float(first[first > 0].sum()))
    return worst


def digit(ratio: str, steps: int, *flood: str) -> Digit:
    return Digit(Fraction(ratio), tuple(map(Fraction, flood)), steps)


PAIRS = [
    (digit("1/4", 1, "3/2"), digit("1/4", 1, "1/2", "1/4")),
    (digit("1/4", 2, "1", "1/2"), digit("3/8", 1, "2")),
    (digit("3/8", 1, "1/2"), digit("1/4", 2, "5/4", "1/4")),
    (digit("5/16", 2, "3/2", "1/4"), digit("3/8", 2, "1")),
]


@pytest.mark.parametrize("first", some(range(len(PAIRS)), 1, 2))
def test_brackets_of_two_digits_hold_every_change_of_the_answer(first: int) -> None:
    large, small = PAIRS[first]
    protocol = Signed(large.ratio, large.flood, 100, 40, large.steps, (small,))
    mechanism = protocol.mechanism(Number(0, 1), 100)
    for epsilon in (0.0, 0.3, 1.0, 1.7, 2.5):
        brute = worst_delta(protocol, math.exp(epsilon))
        bracket = mechanism.delta(epsilon)
        assert bracket.lower - LACKING <= brute <= bracket.upper + LACKING
        # An upper bound, and a close one: the ends of the range are worst for both digits.
        assert bracket.upper <= 1.01 * brute + LACKING


@pytest.mark.long
@pytest.mark.parametrize("seed", range(60))
def test_brackets_of_random_digits_hold_every_change_of_the_answer(seed: int) -> None:
    draws = np.random.default_rng(seed)

    def drawn() -> Digit:
        flood = [Fraction(int(draws.integers(0, 13)), 8) for _ in range(draws.integers(1, 4))]
        ratio = Fraction(int(draws.integers(1, 7)), 16)
        return Digit(ratio, tuple(flood), int(draws.integers(1, 3)))

    large, small = drawn(), drawn()
    protocol = Signed(large.ratio, large.flood, 100, 40, large.steps, (small,))
    mechanism = protocol.mechanism(Number(0, 1), 100)
    lacking = sum(1 - noise_law(digit).sum() for digit in protocol.digits)
    for epsilon in draws.uniform(0.0, 3.0, 3).tolist():
        growth, bracket = math.exp(epsilon), mechanism.delta(epsilon)
        # What the squares lack of one law raises the difference, what they lack of the other
        # lowers it.
        room = (1 + growth) * lacking + 1e-12
        assert bracket.lower - room <= worst_delta(protocol, growth) <= bracket.upper + room


def test_noise_of_one_digit_alone_is_not_enough() -> None:
    """A bound that forgets a digit, or takes the larger of both, falls short of brute force."""
    large, small = PAIRS[0]
    protocol = Signed(large.ratio, large.flood, 100, 40, large.steps, (small,))
    for epsilon in (0.3, 1.0):
        brute = worst_delta(protocol, math.exp(epsilon))
        alone = [one.mechanism("number", Fraction(1)).delta(epsilon).upper for one in PAIRS[0]]
        assert max(alone) < 0.9 * brute
