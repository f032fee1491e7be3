"""The exact law of the set columns of one row, and the numbers of ids it does not reject.

N ids throw h balls each, n = h·N in all, into m columns; then every bit is flipped with q
(p = 1 − q). With Poisson(λ) balls in each column (λ = n/m) columns would be independent, and
given that there are n balls in all the number W of set bits has the generating function

    E[t^W] = n!/m^n · [x^n] ((p·t + q)·eˣ + (p − q)·(1 − t))^m,

a column without a ball being set with q and any other one with p (occupancy: Johnson and Kotz
1977, *Urn Models*, section 3.2; decision 0016 for the balls of an id). Its coefficients, and
sums of them, are integrals over a circle for x and one for t, and the trapezoid rule on circles
through the saddle point gives them to seven digits or more, however far out in the tail
(Trefethen and Weideman 2014). Nothing is taken to be normal.

More ids set more columns: another ball never empties a column, and flips with common chances
keep the order. So P_N[W ≥ w] grows with N and P_N[W ≤ w] falls, and the numbers of ids that
are not rejected at half of alpha on either side are a range, which misses the truth with a
chance of alpha at most [Clopper and Pearson 1934], for any N.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.roots import bisect_real, bisect_whole
from chaffinch.protocols.noise import Floats

_WIDE = 8.0
"""So many standard deviations each way of the saddle point are integrated."""
_STEP = 0.4
"""The step of the trapezoid rule, in standard deviations."""
_FEW = 36.0
"""A law of a smaller variance has few values: the whole circle is taken."""
_CIRCLE = 128
"""In so many points."""
_FEW_BALLS = 256
_CLUMP = 3.0
"""A larger x than the load and this would mean columns of dozens of balls."""
_NEVER = 1e-20
"""Smaller than any chance that is asked for."""
_THIN = 0.5
"""Below this load a small variance still means that hardly any column has two balls."""
_LEAST_TILT = 1.5
_MOST_TILT = 12.0
"""In standard deviations: chances are below 1e-30 there."""
FULLEST = 32.0
"""So many balls in a column on average leave none empty: more are never counted."""
_ROOM = 1e-6
"""What a chance is raised by, relatively, before it is compared: far more than it is off."""


@dataclass(frozen=True)
class SetBits:
    """The law of the number of set bits of one row that holds ``ids``, after flips.

    >>> row = SetBits(ids=0, bits=1000, hashes=1, flip=0.01)
    >>> round(row.at_least(20), 5), round(row.at_most(3), 5)
    (0.00329, 0.01007)
    """

    ids: int
    bits: int
    hashes: int
    flip: float

    @property
    def balls(self) -> int:
        """Return how many balls the ids throw."""
        return self.hashes * self.ids

    @property
    def mean(self) -> float:
        """Return the expected number of set bits."""
        empty = math.exp(self.balls * math.log1p(-1.0 / self.bits))
        return self.bits * ((1.0 - self.flip) - (1.0 - 2.0 * self.flip) * empty)

    @property
    def deviation_in_ids(self) -> float:
        """Return the standard deviation of the set bits, as a number of ids."""
        spread = self.bits * self.flip * (1.0 - self.flip)
        if self.balls:
            spread = _moments(self, 0.0)[1]
        empty = math.exp(-self.balls / self.bits)
        return math.sqrt(spread) / (self.hashes * (1.0 - 2.0 * self.flip) * empty)

    def at_least(self, seen: int) -> float:
        """Return the chance of ``seen`` or more set bits."""
        if seen <= 0:
            return 1.0
        if self.balls == 0:
            return float(special.bdtrc(seen - 1, self.bits, self.flip))
        if seen <= self.mean:
            return 1.0 - self.at_most(seen - 1)
        return _tail(self, seen, upper=True)

    def at_most(self, seen: int) -> float:
        """Return the chance of ``seen`` or fewer set bits."""
        if seen >= self.bits:
            return 1.0
        if self.balls == 0:
            return float(special.bdtr(seen, self.bits, self.flip))
        if seen > self.mean:
            return 1.0 - self.at_least(seen + 1)
        return _tail(self, seen, upper=False)


def ids_of_row(seen: int, tail: float, *, bits: int, hashes: int, flip: float) -> tuple[int, int]:
    """Return the range of numbers of ids that ``seen`` set bits do not reject.

    Either end misses the true number with a chance of ``tail`` at most, whatever it is (up to
    ``FULLEST`` balls in a column, where the range ends in any case).

    >>> ids_of_row(130, 0.025, bits=1000, hashes=1, flip=0.1)
    (14, 63)
    """

    def law(ids: int) -> SetBits:
        return SetBits(ids, bits, hashes, flip)

    def enough(ids: int) -> bool:
        return law(ids).at_least(seen) * (1.0 + _ROOM) > tail

    def not_too_many(ids: int) -> bool:
        return law(ids).at_most(seen) * (1.0 + _ROOM) > tail

    if not not_too_many(0):
        return 0, 0
    most = math.floor(FULLEST * bits / hashes)
    middle = law(_most_likely(seen, law(0)))
    step = max(1, round(middle.deviation_in_ids / 16))
    reach = round(-float(special.ndtri(tail)) * middle.deviation_in_ids)
    low = 0 if enough(0) else _border(enough, middle.ids - reach, -step, most)
    high = _border(not_too_many, middle.ids + reach, step, most)
    # What is seen may lie between two neighbours and reject both: then both are kept.
    return min(low, high), max(low, high)


def _most_likely(seen: int, none: SetBits) -> int:
    # The mean number of set bits is m·((1 − q) − (1 − 2q)·e), with e = exp(−h·N/m) columns empty.
    empty = ((1.0 - none.flip) - seen / none.bits) / (1.0 - 2.0 * none.flip)
    return max(0, round(-math.log(max(empty, math.exp(-FULLEST / 2))) * none.bits / none.hashes))


def _border(holds: Callable[[int], bool], guess: int, step: int, most: int) -> int:
    """Return the last number of ids at which ``holds``, in the direction of the step.

    It is known to hold at 0 for a step upwards, and not to hold there for one downwards; where
    the border is not below ``most``, that is returned.
    """
    good = bad = min(max(guess, 1), most)
    if holds(good):
        while good == bad or (bad > 0 and holds(bad)):
            if bad == most and step > 0:
                return most
            good, bad, step = bad, min(max(bad + step, 0), most), 2 * step
    else:
        while not holds(good):
            if good == most:
                return most
            good, bad, step = min(max(good - step, 0), most), good, 2 * step
    return bisect_whole(holds, good, bad)


# ----------------------------------------------------------------------------
# One tail of the law, by integrals over two circles.
#
# With F(x, t) = (p·t + q)·eˣ + (p − q)·(1 − t), the sum of the coefficients from w on is the
# mean of E[t^W]·t^(−w)/(1 − 1/t) over a circle |t| > 1, and up to w that with 1/(1 − t) over a
# circle |t| < 1. For each t the mean over the circle of x is taken first.


def _tail(law: SetBits, seen: int, *, upper: bool) -> float:
    """Return P[W ≥ seen] for ``upper``, else P[W ≤ seen]."""
    tilt, spread = _tilt(law, seen, upper=upper)
    n, load = law.balls, law.balls / law.bits
    turns, step = _circle(spread)
    t = np.exp(tilt + 1j * np.append(turns, 0.0))[:, None]
    # Each t has a circle of its own for x, through the place where the integrand is flat.
    middle = _flat_place(law, t)
    # All coefficients are positive, so its value on the real axis bounds the tail (Chernoff).
    bound = math.exp(min(float(_power(law, seen, t[-1], middle[-1]).real[0]), 0.0))
    if bound < _NEVER:
        return bound
    t, middle = t[:-1], middle[:-1]
    if n <= _FEW_BALLS or (spread < _FEW and load > _THIN):
        # The whole circle, in so many points that all powers of x that matter are told apart.
        middle *= np.minimum(1.0, (load + _CLUMP) / np.abs(middle))
        x_turns, x_step = _whole_circle(_CIRCLE + 2 * n)
    else:
        x_turns, x_step = _circle(float(n * (1.0 + middle - load).real.min()))
    power = _power(law, seen, t, middle * np.exp(1j * x_turns))
    rest = 1.0 - (1.0 / t if upper else t)
    return min(float((np.exp(power) / rest).real.sum()) * step * x_step, bound)


def _power(law: SetBits, seen: int, t: Any, x: Any) -> Any:
    """Return the logarithm of n!/mⁿ·F(x, t)^m·x^(−n)·t^(−seen)."""
    p, q, n, m = 1.0 - law.flip, law.flip, law.balls, law.bits
    load = n / m
    columns = np.log((p * t + q) * np.exp(x - load) + (p - q) * (1.0 - t) * math.exp(-load))
    # n!/mⁿ, where m·ln(F) went without its n, and ln(x) without that of the load.
    size = special.gammaln(n + 1.0) + n - n * math.log(n)
    return m * columns - n * np.log(x / load) - seen * np.log(t) + size


def _circle(spread: float) -> tuple[Floats, float]:
    if spread < _FEW:
        return _whole_circle(_CIRCLE)
    deviation = math.sqrt(spread)
    places: Floats = np.arange(-_WIDE, _WIDE + _STEP / 2, _STEP, dtype=np.float64) / deviation
    return places, _STEP / deviation / (2.0 * math.pi)


def _whole_circle(points: int) -> tuple[Floats, float]:
    return np.arange(points, dtype=np.float64) * (2.0 * math.pi / points), 1.0 / points


def _tilt(law: SetBits, seen: int, *, upper: bool) -> tuple[float, float]:
    """Return a logarithm of |t| on its side of 0, for ``seen`` if it can be, and the variance."""
    sign = 1.0 if upper else -1.0
    deviation = max(math.sqrt(_moments(law, 0.0)[1]), 1.0 / 3.0)
    # Nearer to 0 the trapezoid rule would see the pole at t = 1; further out nobody looks.
    tilt = bisect_real(
        lambda tilt: sign * (_moments(law, sign * tilt)[0] - seen) <= 0.0,
        good=_LEAST_TILT / deviation,
        bad=_MOST_TILT / deviation,
        tolerance=1e-3,
    )
    return sign * tilt, _moments(law, sign * tilt)[1]


def _flat_place(law: SetBits, t: Any) -> Any:
    """Return the x at which, for this t, n balls are expected: Lambert's W solves x·F′ = λ·F."""
    p, q, load = 1.0 - law.flip, law.flip, law.balls / law.bits
    less = (p - q) * (1.0 - t) / (p * t + q)
    return load + special.lambertw(load * math.exp(-load) * less)


def _moments(law: SetBits, tilt: float) -> tuple[float, float]:
    p, q, m = 1.0 - law.flip, law.flip, law.bits
    load, t = law.balls / m, math.exp(tilt)
    # Tilted by t and x, all columns are independent, and each has `load` balls on average.
    x = float(_flat_place(law, t).real)
    grown = math.exp(x)
    total = (p * t + q) * grown + (p - q) * (1.0 - t)
    share = t * (p * grown - (p - q)) / total
    # As F″ = F′ in x, the variance of all balls is m·(load + x·load − load²).
    balls = law.balls * (1.0 + x - load)
    both = m * (t * p * x * grown / total - share * load)
    # Given that there are n balls, the set bits keep what their regression on the balls leaves.
    return m * share, max(m * share * (1.0 - share) - both * both / balls, 0.0)
