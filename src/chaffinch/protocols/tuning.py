"""First guesses for a protocol's parameters, from the Gaussian limit. They prove nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.floods import NoiseMessages
from chaffinch.privacy.numerics.roots import bisect_real, find_largest
from chaffinch.protocols.base import GRAIN, LEAST_SHARE


def flip_for_shift(mu: float, crowd: int, moved: float) -> Fraction:
    """Return the flip probability k/2⁶⁴ at which one person moves ``moved`` bits by mu.

    From (1 − 2q)²·moved/(crowd·q·(1 − q)) = mu², rounded up to the private side.
    """
    # Of s = q(1 − q), with (1 − 2q)² = 1 − 4s, this is linear. Then q = (1 − √(1 − 4s))/2, written
    # so that a small q keeps its digits.
    spread = moved / (crowd * mu * mu + 4.0 * moved)
    flip = 2.0 * spread / (1.0 + math.sqrt(max(1.0 - 4.0 * spread, 0.0)))
    return _drawable(flip)


def flip_for_local(epsilon: float) -> Fraction:
    """Return the flip probability k/2⁶⁴ of a bit that is ``epsilon`` private by itself."""
    # The factor covers the rounding of expit; the ceiling then rounds to the private side.
    return _drawable(special.expit(-epsilon * (1 - 1e-12)))


def _drawable(flip: float) -> Fraction:
    return Fraction(min(max(math.ceil(flip * GRAIN), 1), GRAIN // 2 - 1), GRAIN)


_FIVE_TOGETHER = 3.0
"""In so many standard errors to each side lie five quantiles at once, 19 times out of 20."""


def quantile_width(steps: int, noise: float, people: int) -> float:
    """Return about the width of a quantile's bracket, in ranges of evenly spread numbers.

    How many people are above each of the ``steps`` is known with a standard error of ``noise``.
    A bracket reaches over the step that the quantile is in and one more, whatever was rounded
    there, and as far as the noise of a step may go.
    """
    return min(2.0 / steps + 2.0 * _FIVE_TOGETHER * noise / people, 1.0)


def steps_for_quantiles(mu: float, people: int, most: int) -> int:
    """Return the number of steps with the shortest brackets, where a person moves all by mu.

    More steps are narrower, and have more noise: √r/mu each. So r grows with the crowd, about as
    (2·mu·people/3)^(2/3).

    >>> [steps_for_quantiles(0.25, people, 512) for people in (100, 1000, 10_000, 10**6)]
    [8, 32, 128, 512]
    """
    found = [1 << power for power in range(3, most.bit_length())]
    return min(found, key=lambda steps: quantile_width(steps, math.sqrt(steps) / mu, people))


def _gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the delta of the Gaussian mechanism: Φ(−ε/μ + μ/2) − e^ε·Φ(−ε/μ − μ/2)."""
    here = special.log_ndtr(-epsilon / mu + mu / 2)
    there = epsilon + special.log_ndtr(-epsilon / mu - mu / 2)
    # In logarithms, because both terms underflow long before their difference matters.
    return float(math.exp(here) * -math.expm1(min(there - here, 0.0)))


def gaussian_slope(epsilon: float, mu: float) -> float:
    """Return by how much ln(delta) rises with ln(mu), or falls with ln(epsilon), about."""
    small, large = _gaussian_delta(epsilon, mu), _gaussian_delta(epsilon, 1.01 * mu)
    if not 0 < small < large:
        return 1.0
    return max(math.log(large / small) / math.log(1.01), 1.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the mu whose Gaussian mechanism just meets (epsilon, delta)."""

    def keeps(mu: float) -> bool:
        return _gaussian_delta(epsilon, mu) <= delta

    return bisect_real(keeps, good=1e-9, bad=100.0, steps=100, geometric=True)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at which the Gaussian mechanism of this mu has this delta."""

    def suffices(epsilon: float) -> bool:
        return gaussian_mu(epsilon, delta) >= mu

    return bisect_real(suffices, good=700.0, bad=1e-9, steps=100, geometric=True)


# ----------------------------------------------------------------------------
# Signed decoys: a ratio for the noise of the count, and a flood that covers it.

_BURSTS = (1, 2, 4, 8, 16, 32, 64)
_MOST_FLOOD = 500.0
_LONGEST_COVER = 1 << 17
"""Where a flood has more pairs than this it is no candidate."""


@dataclass(frozen=True, slots=True)
class SignedGoal:
    """What signed decoys are tuned for: a share ``split`` of epsilon goes to the count."""

    split: float
    mu: float
    delta: float
    ways: int = 1
    """At how many values of a changed answer all noise can be missing."""
    least_share: float = LEAST_SHARE
    doubled: bool = False

    @property
    def epsilon(self) -> float:
        """Return about the epsilon of the Gaussian mechanism of this mu."""
        # From Φ(−ε/μ + μ/2) = δ: without its second term the delta of a Gaussian is a little
        # larger.
        return self.mu * (0.5 * self.mu - float(special.ndtri(self.delta)))

    @property
    def ratio(self) -> float:
        """Return e^(−split·epsilon/2), or the least ratio that a device can draw.

        If noise is doubled, the square: a changed answer moves it by one unit instead of two.
        """
        return max(math.exp(-0.5 * self.unit * self.split * self.epsilon), 1.0 / GRAIN)

    @property
    def unit(self) -> int:
        """Return how often each plus and each minus of noise is sent."""
        return 2 if self.doubled else 1

    @property
    def log_growth(self) -> float:
        """Return by how much the logarithm of a mass of the cover may exceed the one before."""
        return min((1.0 - self.split) * self.epsilon, 300.0)


def tune_signed(
    goal: SignedGoal, scale: float, spare: int, cutting: float
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return a ratio and the rates of a flood that reach the goal with few messages.

    ``scale`` is the number of values per user, ``spare`` the room for noise in a report, which
    may be too small with the chance ``cutting``. The flood has the rates s·g^k/k for bursts of
    k = 1 … K pairs, and g = c·e^(2.7/K), which was found to be near the best for every K tried.
    """
    rough = replace(goal, mu=_two_digits(goal.mu), delta=_two_digits(goal.delta))
    longest = _longest_burst(rough, _two_digits(scale), spare, _two_digits(cutting))
    return _exact(goal.ratio, _flood(goal, longest))


def _exact(ratio: float, flood: NDArray[np.float64]) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return a ratio and rates as whole numbers of 2⁻⁶⁴, rounded up: to more noise."""
    drawable = Fraction(min(math.ceil(ratio * GRAIN), GRAIN - 1), GRAIN)
    return drawable, tuple(Fraction(math.ceil(rate * 2.0**40), 1 << 40) for rate in flood)


@lru_cache(maxsize=4096)
def _longest_burst(goal: SignedGoal, scale: float, spare: int, cutting: float) -> int:
    """Return the K with the fewest messages whose noise fits into a report, or the shortest."""
    laws = {
        longest: NoiseMessages(
            ((goal.ratio, tuple(_flood(goal, longest))),), scale, times=goal.unit
        )
        for longest in _BURSTS
    }
    best = (math.inf, math.inf, 1)
    # In this order the first that fits is the best, and how much the others take is not asked.
    for longest, law in sorted(laws.items(), key=lambda one: (one[1].mean, one[0])):
        over = max(law.size_within(cutting, most=2 * spare) - spare, 0)
        best = min(best, (over, law.mean, longest))
        if over == 0:
            break
    return best[2]


@lru_cache(maxsize=256)
def _flood(goal: SignedGoal, longest: int) -> NDArray[np.float64]:
    """Return the rates of the smallest flood of this shape that reaches delta, about.

    It is the same for every question, whatever number of values that has.
    """
    shape = _burst_shape(goal.log_growth, longest)
    total = _total_rate(lambda total: _rough_delta(goal, total * shape), goal.delta)
    found = np.asarray(shape * max(total, _least_flood(goal)))
    found.setflags(write=False)
    return found


def _burst_shape(log_growth: float, longest: int) -> NDArray[np.float64]:
    """Return rates of bursts of 1, 2, … pairs that add up to 1."""
    sizes = np.arange(1.0, longest + 1)
    # Relative to the largest, which keeps the powers in the range of floats.
    shape = np.exp((sizes - longest) * (log_growth + 2.7 / longest)) / sizes
    return np.asarray(shape / shape.sum())


def _total_rate(reached: Callable[[float], float], delta: float) -> float:
    """Return about the least rate of all bursts at which no more than ``delta`` is reached."""

    def spare(inverse: float) -> float:
        found = reached(1.0 / inverse)
        return math.log(found / delta) if found > 0 else -800.0

    # Of the inverse: delta rises with it, and the search looks for the largest that will do.
    inverse = find_largest(
        spare, 1.0 / 20.0, least=1.0 / _MOST_FLOOD, most=1.0, tolerance=1e-3, slope=20.0
    )
    return _MOST_FLOOD if inverse is None else 1.0 / inverse


def _least_flood(goal: SignedGoal) -> float:
    """Return the total rate without which delta is not kept by a small share of honest users.

    With a share g the view has no noise at all with chance ((1 − ratio)·e^(−total))^g, about, and
    then it shows the answer, whatever epsilon is.
    """
    return math.log(1.25 * goal.ways / goal.delta) / goal.least_share + math.log1p(-goal.ratio)


def _rough_delta(goal: SignedGoal, flood: NDArray[np.float64]) -> float:
    """Return about the delta of signed decoys with this flood, in doubles."""
    cover = _rough_cover(goal.ratio, flood, goal.unit)
    if cover is None:
        return 1.0
    # δ = Σ_t (w(t) − e^(ε−ε₁)·w(t−1))₊/(1 + a), which is exact for a bit, and nearly if doubled.
    moved = cover - math.exp(goal.log_growth) * np.concatenate([[0.0], cover[:-1]])
    return float(np.maximum(moved, 0.0).sum()) / (1.0 + goal.ratio)


def _rough_cover(
    ratio: float, flood: NDArray[np.float64], unit: int = 1
) -> NDArray[np.float64] | None:
    """Return about the law of W, in doubles; None where it is too long."""
    sizes = np.arange(1.0, len(flood) + 1)
    mean, spread = float(sizes @ flood), float(sizes**2 @ flood)
    long = mean + 9.0 * math.sqrt(spread) + 40.0 * unit / (1.0 - ratio**2) + 20.0
    if long > _LONGEST_COVER:
        return None
    size = 1 << math.ceil(math.log2(long))
    # The transform of bursts and geometric pairs is known in closed form.
    # ln E[z^F] = Σ λ_k·(z^k − 1).
    bursts = np.fft.rfft(np.concatenate([[0.0], flood]), size) - flood.sum()
    turned = np.exp(bursts) * (1.0 - ratio**2) / (1.0 - ratio**2 * _turns(size) ** unit)
    return np.maximum(np.fft.irfft(turned, size), 0.0)


@lru_cache(maxsize=8)
def _turns(size: int) -> NDArray[np.complex128]:
    """Return the points z of the transform; a search asks for the same few sizes all the time."""
    return np.asarray(np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size))


# ----------------------------------------------------------------------------
# Numbers in digits: a ratio and a flood for each.

_GRID = 64
"""How many steps of a rough loss the floods may cost together."""
_REACH = 8
"""How many times that cost a loss is followed."""
_STRETCH, _LONGEST_STRETCH = 0.8, 64.0


def tune_digits(
    goal: SignedGoal, steps: Sequence[int]
) -> list[tuple[Fraction, tuple[Fraction, ...]]]:
    """Return a ratio and the rates of a flood for each digit of a number, the first one first.

    Of epsilon, each digit gets a share like the root of what it is worth in ranges. Shares like
    the power 2/3 would make the variance of the sum smallest, by a few percent; but the noise of
    the last digit, and with it the room of a report, would be half as large again. Floods cover
    s steps with bursts of about 0.8·s/((1 − split)·epsilon) pairs: twice that would take a tenth
    fewer messages and nearly twice the room.
    """
    worth = [math.prod(more + 1 for more in steps[i + 1 :]) * s for i, s in enumerate(steps)]
    roots = [math.sqrt(one) for one in worth]
    shares = [root / sum(roots) for root in roots]
    ratios = [
        math.exp(-0.5 * goal.split * goal.epsilon * share / most)
        for share, most in zip(shares, steps, strict=True)
    ]
    stretch = min(max(_STRETCH / goal.log_growth, 1.0), _LONGEST_STRETCH)
    shapes = [_burst_shape(goal.log_growth / most, math.ceil(stretch * most)) for most in steps]

    def reached(total: float) -> float:
        floods = [total * shape for shape in shapes]
        return _rough_delta_of_digits(goal, list(zip(steps, ratios, floods, strict=True)))

    total = _total_rate(reached, goal.delta)
    return [_exact(ratio, total * shape) for ratio, shape in zip(ratios, shapes, strict=True)]


def _rough_delta_of_digits(
    goal: SignedGoal, digits: list[tuple[int, float, NDArray[np.float64]]]
) -> float:
    """Return about the delta where all digits move as far as they can, in doubles.

    With D on the worse side in all of them, what is left of epsilon is for the losses of their
    covers, ln(w(u)/w(u − s)), which are added up on a grid.
    """
    unit, middle = goal.log_growth / _GRID, _GRID * _REACH
    together, rest = np.ones(1), 1.0
    for steps, ratio, flood in digits:
        cover = _rough_cover(ratio, flood)
        if cover is None:
            return 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            losses = np.log(cover[steps:]) - np.log(cover[:-steps])
        places = np.nan_to_num(losses / unit, nan=0.0, posinf=np.inf, neginf=-np.inf)
        # What lies beyond the grid, or has no bound, is left out here and counted whole at the end.
        known = places < middle
        at = np.maximum(np.rint(places[known]), -middle).astype(np.int64) + middle
        law = np.bincount(at, weights=cover[steps:][known], minlength=2 * middle + 1)
        together = np.convolve(together, law)
        # P[D ≥ 0] = 1/(1 + a) where both signs have the ratio a.
        rest /= 1.0 + ratio
    # What is not on the grid is a loss beyond it.
    losses = unit * (np.arange(len(together)) - middle * len(digits))
    kept = -np.expm1(np.minimum(goal.log_growth - losses, 0.0)) @ together
    return rest * float(max(kept + 1.0 - together.sum(), 0.0))


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")
