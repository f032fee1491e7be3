"""Certified balls (python-flint's arb): the same quantities where rationals are too big.

Every function returns an ``arb`` that contains the truth. Laws are cut to a window; what is
cut off is bounded by a geometric series and added to the radius. Sums of
max(0, first - ratio * second) are taken term by term, so nothing relies on a lemma about
where the worst set lies, except in ``two_sums_delta`` (said there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import TypeVar

from flint import arb, arb_poly, ctx, fmpq

from tests.oracles.exact import compositions

FLOOR_BITS = 1250  # windows drop terms below 2**-1250, about 1e-376
Answer = TypeVar("Answer")


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with ``bits`` of precision inside the block."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(value: Fraction | float) -> arb:
    """Return the exact number as a ball (a float is the dyadic number it is)."""
    if isinstance(value, float):
        return arb(value)
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def sharp(compute: Callable[[], arb], digits: int = 50) -> arb:
    """Return ``compute()`` at a precision that leaves ``digits`` good digits, or exactly 0."""
    for bits in (300, 600, 1200, 2400):
        with precision(bits):
            answer = compute()
            if answer == 0 or (answer.lower() > 0 and answer.rel_accuracy_bits() > 3.33 * digits):
                return answer
    return answer


def larger(one: arb, two: arb) -> arb:
    """Return the larger ball without rounding it to the working precision."""
    with precision(2400):
        return one.max(two)


@dataclass(frozen=True, slots=True)
class Law:
    """A windowed law: ``weights[i]`` is the chance of ``start + i``; ``missing`` was cut off."""

    start: int
    weights: list[arb]
    missing: arb


def binomial(trials: int, chance: arb) -> Law:
    """Return Bin(trials, chance) where it is above the floor, from the mode outwards."""
    if trials == 0:
        return Law(0, [arb(1)], arb(0))
    odds = chance / (1 - chance)
    mode = min(trials, int(float((trials + 1) * chance)))
    peak = (
        (arb(trials + 1).lgamma() - arb(mode + 1).lgamma() - arb(trials - mode + 1).lgamma()).exp()
        * chance**mode
        * (1 - chance) ** (trials - mode)
    )
    floor = arb(2) ** -FLOOR_BITS
    up, missing_up = _walk(peak, mode, trials, odds, floor)
    down, missing_down = _walk(peak, trials - mode, trials, 1 / odds, floor)
    return Law(mode - len(down), [*reversed(down), peak, *up], missing_up + missing_down)


def _walk(peak: arb, at: int, trials: int, odds: arb, floor: arb) -> tuple[list[arb], arb]:
    """Return the chances above ``at`` and a bound on what lies beyond the last of them."""
    found: list[arb] = []
    here = peak
    for count in range(at, trials):
        step = odds * (trials - count) / (count + 1)
        here = here * step
        if here < floor and step < 1:
            return found, here / (1 - step)  # steps shrink, so this series bounds the rest
        found.append(here)
    return found, arb(0)


def plus(one: Law, two: Law) -> Law:
    """Return the law of the independent sum."""
    weights = (arb_poly(one.weights) * arb_poly(two.weights)).coeffs()
    size = len(one.weights) + len(two.weights) - 1
    weights += [arb(0)] * (size - len(weights))
    return Law(one.start + two.start, weights, one.missing + two.missing)


def positive_part(value: arb) -> arb:
    """Return max(0, value) as a ball."""
    if value > 0:
        return value
    if value <= 0:
        return arb(0)
    return value.union(arb(0)).max(arb(0))


def hockey_stick(first: list[arb], second: list[arb], ratio: arb) -> arb:
    """Return the sum of max(0, first - ratio * second) over the window."""
    total = arb(0)
    for one, two in zip(first, second, strict=True):
        total += positive_part(one - ratio * two)
    return total


def doubt(missing: arb, ratio: arb) -> arb:
    """Return a ball around 0 that covers what a cut of ``missing`` can do to a delta."""
    return arb(0, (missing * (1 + ratio)).upper())


# --- one bit, copies, loose ones --------------------------------------------------------------


def bit_laws(ones: int, zeros: int, flip: Fraction, copies: int) -> tuple[Law, Law]:
    """Return the sum's law with the target holding 0 and 1; ones and zeros are *messages*."""
    wrong = ball(flip)
    others = plus(binomial(ones, 1 - wrong), binomial(zeros, wrong))
    return (
        plus(others, binomial(copies, wrong)),
        plus(others, binomial(copies, 1 - wrong)),
    )


def loose_delta(
    ones: int, zeros: int, flip: Fraction, epsilon: float, copies: int, *, upward: bool
) -> arb:
    """Return one direction: target 0 over target 1, or (``upward``) 1 over 0."""

    def compute() -> arb:
        zero, one = bit_laws(ones, zeros, flip, copies)
        # a window of copies < 300 is never cut, so both laws sit on the same outcomes
        assert (zero.start, len(zero.weights)) == (one.start, len(one.weights))
        ratio = ball(epsilon).exp()
        pair = (one, zero) if upward else (zero, one)
        answer = hockey_stick(pair[0].weights, pair[1].weights, ratio)
        return answer + doubt(zero.missing + one.missing, ratio) if zero.missing > 0 else answer

    return sharp(compute)


def bits_delta(ones: int, zeros: int, flip: Fraction, epsilon: float, copies: int = 1) -> arb:
    """Return the larger direction for one crowd of other *users* (fake bits count as zeros)."""
    down = loose_delta(copies * ones, copies * zeros, flip, epsilon, copies, upward=False)
    up = loose_delta(copies * ones, copies * zeros, flip, epsilon, copies, upward=True)
    return larger(down, up)


def worst_bits_delta(
    users: int, flip: Fraction, epsilon: float, copies: int = 1, decoys: int = 0
) -> arb:
    """Return the maximum over every crowd (small crowds only: one delta per crowd)."""
    # without fake bits a crowd and its mirror image give the same two directions
    last = users if decoys else (users + 1) // 2
    worst = arb(0)
    for ones in range(last):
        worst = larger(worst, bits_delta(ones, users - 1 - ones + decoys, flip, epsilon, copies))
    return worst


def bits_pointwise(ones: int, zeros: int, flip: Fraction, epsilon: float) -> arb:
    """Return the larger P[loss > epsilon] of the two directions, for one crowd, one copy."""
    with precision(600):
        zero, one = bit_laws(ones, zeros, flip, 1)
        ratio = ball(epsilon).exp()
        answer = arb(0)
        for top, bottom in ((zero, one), (one, zero)):
            both = zip(top.weights, bottom.weights, strict=True)
            answer = answer.max(sum((a for a, b in both if a > ratio * b), arb(0)))
        return answer + arb(0, (zero.missing + one.missing).upper())


# --- clear values with decoys -----------------------------------------------------------------


def decoyed_delta(decoys: int, values: int, epsilon: float, rate: Fraction = Fraction(1)) -> arb:
    """Return E over T ~ Bin(decoys, 2 rate/values) of the two-value hockey-stick."""

    def compute() -> arb:
        hit, ratio = 2 * Fraction(rate) / values, ball(epsilon).exp()
        if hit == 1:
            return next(_halves_deltas(decoys, ratio))
        fallen = binomial(decoys, ball(hit))
        total = arb(0)
        for chance, inner in zip(fallen.weights, _halves_deltas(fallen.start, ratio), strict=False):
            total += chance * inner
        return total + doubt(fallen.missing, ratio) if fallen.missing > 0 else total

    return sharp(compute)


def _halves_deltas(start: int, ratio: arb) -> Iterator[arb]:
    """Yield sum over a of 2^-T max(0, C(T, a-1) - ratio C(T, a)) for T = start, start + 1, ...

    C(T, a-1)/C(T, a) = a/(T-a+1) rises with a, so the sum runs over a >= cut, the first a above
    (T+1) ratio/(1+ratio), and telescopes into two tails, kept as integers. A tie adds zero.
    """
    share, trials = ratio / (1 + ratio), start
    cut = _floor((trials + 1) * share) + 1
    tail = sum(comb(trials, a) for a in range(cut, trials + 1))
    here = comb(trials, cut - 1)
    while True:
        yield positive_part(arb(tail + here) - ratio * tail) / arb(2) ** trials
        before = here * (cut - 1) // (trials - cut + 2)  # C(T, cut - 2)
        tail, here, trials = 2 * tail + here, here + before, trials + 1
        while cut <= _floor((trials + 1) * share):
            here = here * (trials - cut + 1) // cut
            tail, cut = tail - here, cut + 1


def _floor(value: arb) -> int:
    """Return the whole part of a ball's centre."""
    whole = value.mid().floor().unique_fmpz()
    assert whole is not None
    return int(whole)


# --- flipped values: two sums, and the mixture over decoys --------------------------------------


def two_sums_delta(first: int, second: int, records: int, flip: Fraction, epsilon: float) -> arb:
    """Return the delta of the pair of sums, target moving from the first to the second value.

    For each first sum the best set of second sums is a tail, because the likelihood ratio of
    one flipped bit is monotone in the sum (S0 Lemma 4.1); the tail is found by the sign.
    """

    def compute() -> arb:
        leave_zero, leave_one = bit_laws(first, records - first, flip, 1)
        join_zero, join_one = bit_laws(second, records - second, flip, 1)
        ratio = ball(epsilon).exp()
        tails = _low_tails(join_zero.weights), _low_tails(join_one.weights)
        total, cut = arb(0), 0
        # the larger the first sum the more it speaks for "one" and the longer the tail
        for here, there in zip(leave_one.weights, leave_zero.weights, strict=True):
            while cut < len(join_zero.weights):
                gain = here * join_zero.weights[cut] - ratio * there * join_one.weights[cut]
                if not gain > 0:
                    break
                cut += 1
            total += positive_part(here * tails[0][cut] - ratio * there * tails[1][cut])
        missing = leave_zero.missing + leave_one.missing + join_zero.missing + join_one.missing
        return total + doubt(missing, ratio) if missing > 0 else total

    return sharp(compute)


def _low_tails(weights: list[arb]) -> list[arb]:
    """Return sums of the first 0, 1, 2, ... weights."""
    tails = [arb(0)]
    for weight in weights:
        tails.append(tails[-1] + weight)
    return tails


# --- the sources' pair for vectors and filters --------------------------------------------------


def assumed_pair_deltas(rows: int, bits: int, flip: Fraction, epsilon: float) -> tuple[arb, arb]:
    """Return E[max(0, R - e^eps)] and E[max(0, 1 - e^eps R)], R the mean of (p/q)^(2y-L).

    Enumerates how many of ``rows`` shown rows have y = 0..bits set bits.
    """

    def compute(*, upward: bool) -> arb:
        wrong, ratio = ball(flip), ball(epsilon).exp()
        odds = (1 - wrong) / wrong
        chances = binomial(bits, wrong).weights
        losses = [odds ** (2 * y - bits) for y in range(bits + 1)]
        factorials = [arb(1)]
        for count in range(1, rows + 1):
            factorials.append(factorials[-1] * count)
        terms = [[c**g / factorials[g] for g in range(rows + 1)] for c in chances]
        total = arb(0)
        for counts in compositions(rows, bits + 1):
            mean = sum((g * loss for g, loss in zip(counts, losses, strict=True)), arb(0)) / rows
            excess = positive_part(mean - ratio if upward else 1 - ratio * mean)
            if excess == 0:
                continue
            for y, g in enumerate(counts):
                excess = excess * terms[y][g]
            total += excess
        return total * factorials[rows]

    return sharp(lambda: compute(upward=True)), sharp(lambda: compute(upward=False))
