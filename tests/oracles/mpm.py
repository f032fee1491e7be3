"""A third way, with mpmath: normal quantiles, composition, and bits once more.

Rationals cannot hold a normal quantile and balls have no inverse error function here, so the
Gaussian parameter is computed with mpmath at ``DIGITS`` digits (not certified, but far
beyond the printed ones). The bit delta repeats ``balls`` by another formula as a cross-check.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import product

from mpmath import mp, mpf
from scipy.special import ndtri

from tests.oracles import exact
from tests.oracles.exact import Pair

DIGITS = 60


def number(value: Fraction | float) -> mpf:
    """Return the exact number at the working precision."""
    if isinstance(value, Fraction):
        return mpf(value.numerator) / value.denominator
    return mpf(value)


def bits_delta_by_tail(ones: int, zeros: int, flip: Fraction, epsilon: float) -> mpf:
    """Return one direction (target 0 over 1) by the tail formula, maximum over the cut.

    (p - q e^eps) A(k) - (e^eps - 1) * sum of A below k, for one copy.
    """
    with mp.workdps(DIGITS + 20):
        wrong, ratio = number(flip), mp.exp(number(epsilon))
        right = 1 - wrong
        others = _sum_law(ones, zeros, wrong, right)
        best, below = mpf(0), mpf(0)
        for chance in others:
            best = max(best, (right - wrong * ratio) * chance - (ratio - 1) * below)
            below += chance
        return best


def _sum_law(ones: int, zeros: int, wrong: mpf, right: mpf) -> list[mpf]:
    """Return Bin(ones, right) + Bin(zeros, wrong) by adding one record at a time."""
    law = [mpf(1)]
    for chance in [right] * ones + [wrong] * zeros:
        stay = [(1 - chance) * w for w in law] + [mpf(0)]
        move = [mpf(0)] + [chance * w for w in law]
        law = [a + b for a, b in zip(stay, move, strict=True)]
    return law


def normal_quantile(chance: mpf) -> mpf:
    """Return the standard normal quantile by Newton's method on the survival function."""
    if chance > mpf(1) / 2:
        return -normal_quantile(1 - chance)
    x = -mp.sqrt(-2 * mp.log(2 * chance)) if chance < mpf("0.4") else mpf(0)
    for _ in range(200):
        step = (mp.ncdf(x) - chance) / mp.npdf(x)
        step = step / (1 + x * step / 2)  # Halley: the density changes fast in the tail
        x -= step
        if abs(step) < mpf(10) ** (-DIGITS):
            return x
    raise ArithmeticError("the normal quantile did not settle")


def gaussian_mu(pairs: Iterable[Pair]) -> mpf:
    """Return the smallest mu with f >= G_mu: the maximum over all corners of all curves."""
    with mp.workdps(2 * DIGITS):
        worst = mpf(0)
        seen: set[exact.Point] = set()
        for pair in pairs:
            for way in (pair, pair.reversed()):
                seen.update(point for point in way.knots() if 0 < point[0] < 1)
        rough = {point: _rough_mu(*point) for point in seen if 0 < point[1] < 1}
        top = max(rough.values(), default=0.0)
        for (alpha, beta), guess in rough.items():
            if guess > top - 1e-9 * (1 + top):  # floats are good to far more than this
                worst = max(worst, -normal_quantile(number(beta)) - normal_quantile(number(alpha)))
        return worst


def _rough_mu(alpha: Fraction, beta: Fraction) -> float:
    """Return the corner's mu in floats, to skip the corners that cannot be the largest."""
    return -sum(
        float(ndtri(float(x))) if 2 * x < 1 else -float(ndtri(float(1 - x))) for x in (alpha, beta)
    )


def composed_deltas(rounds: Iterable[Iterable[Pair]], ratios: Iterable[Fraction]) -> list[Fraction]:
    """Return, exactly, the worst delta over every choice of pair and order in every round.

    What the target holds may move up in one round and down in another, so the order is
    chosen round by round. Nothing adapts to earlier outcomes.
    """
    choices = [[way for pair in group for way in (pair, pair.reversed())] for group in rounds]
    ratios = list(ratios)
    worst = [Fraction(0)] * len(ratios)
    for picked in product(*choices):
        joint = picked[0]
        for pair in picked[1:]:
            joint = exact.product(joint, pair)
        worst = [max(w, joint.delta(r)) for w, r in zip(worst, ratios, strict=True)]
    return worst
