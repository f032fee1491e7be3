"""The standard deviation of a number, from noisy sums of it and of its squares.

Let u in [−1, 1] be where a number lies in its range, with 0 in the middle, and let U and Q be the
sums of u and of u² over the C people who answered (a gap counts as 0 in both). The variance of
their u is v = Q/C − (U/C)², and the standard deviation of the numbers is half the range times √v.
It is that of these people themselves, divided by C: no larger population is estimated.

Why squares are centred: the square of the distance from the middle lies between 0 and a quarter of
the squared range, those of the distance from the lower bound between 0 and all of it. With noise
of the same size for either, relative to what it lies between, and a mean m in [0, 1] of the range,
the variance of the range's units has the error σ²(1/16 + (2m − 1)²) instead of σ²(1 + 4m²): 32
times less in the middle. It is more only where the mean is within 1/64 of the range from below.

Estimate: noise in U makes U² too large by its variance on average, which is added back; then v is
unbiased where C is known, but for the rounding of n numbers to r steps by chance, which makes it
too small by at most 1/(n·r²). It is cut to its interval, and its root is biased by the noise alone.

Interval: let those of U, Q and C each miss with a chance that together is α. While they hold, the
truth is in their box, and v falls with |U|, rises with Q, and is a parabola in 1/C, whose largest
value is at 1/C = Q/(2U²) or at an end. So the least and the largest v of the box are known exactly,
and by the union bound the interval holds with 1 − α, however the three depend on one another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.analysis.answered import Answerers
from chaffinch.analysis.number_estimates import Scale, mean_ends
from chaffinch.plans.expansion import COUNT_SHARE
from chaffinch.protocols.base import Thermometer
from chaffinch.protocols.noise import Floats
from chaffinch.questions import Number

_ROUNDING = 1e-12
"""Room for the rounding of the last operations, far more than they lose."""


@dataclass(frozen=True, slots=True, eq=False)
class Deviation:
    """The standard deviation of a number, for one collection or for many."""

    estimate: Floats
    standard_error: Floats
    low: Floats
    high: Floats


def standard_deviation(
    question: Number,
    number: tuple[Thermometer, ArrayLike],
    squares: tuple[Thermometer, ArrayLike],
    people: int | Answerers,
    alpha: float,
) -> Deviation:
    """Return the standard deviation from the tallies of all bits of a number and of its squares.

    Its interval misses with ``alpha``, of which that of a count of ``people`` takes
    ``COUNT_SHARE``; the two sums share the rest.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from chaffinch.protocols.noise import Noise
    >>> steps = Thermometer(1, True, Noise.flips(Fraction(1, 2**40)))
    >>> found = standard_deviation(Number(0, 10), (steps, [500]), (steps, [360]), 1000, 0.05)
    >>> round(float(found.estimate[0]), 1)
    3.0
    """
    counted = isinstance(people, Answerers)
    reports = people.reports if isinstance(people, Answerers) else people
    own = 0.5 * alpha * (1.0 - COUNT_SHARE if counted else 1.0)
    places = _Sum.of(number, -1.0, reports, own)
    square = _Sum.of(squares, 0.0, reports, own)
    if isinstance(people, Answerers):
        nobody, some, few, many, spread = (
            people.low < 1,
            people.some,
            np.maximum(people.low, 1),
            np.maximum(people.high, 1),
            people.standard_error,
        )
    else:
        nobody, some, few, many, spread = np.zeros(1, bool), *[np.array([reports])] * 3, 0.0
    mean, second = places.estimate / some, square.estimate / some
    variance = second - mean**2 + (places.noise / some) ** 2
    # The delta method for Q/C − (U/C)², with the variance of U², which counts where U is near 0.
    error = (
        np.sqrt(
            square.error**2
            + (2.0 * mean * places.error) ** 2
            + 2.0 * (places.error**2 / some) ** 2
            + ((2.0 * mean**2 - second) * spread) ** 2
        )
        / some
    )
    least, most = _ends_of_variance(places, square, few, many)
    width = 0.5 * (question.high - question.low)
    # An estimate of C may be above the reports: then that of v may lie beside its interval.
    root = np.sqrt(np.clip(variance, least, most))
    # A root that is next to nothing moves with the root of what moves below it.
    scatter = error / np.maximum(2.0 * np.maximum(root, np.sqrt(error)), 1e-300)
    return Deviation(
        estimate=np.where(nobody, 0.5, root) * width,
        standard_error=np.where(nobody, 0.5, scatter) * width,
        low=np.where(nobody, 0.0, np.sqrt(least)) * width,
        high=np.where(nobody, 1.0, np.sqrt(most)) * width,
    )


def _ends_of_variance(
    places: _Sum, square: _Sum, few: Floats, many: Floats
) -> tuple[Floats, Floats]:
    """Return the least and the largest Q/C − (U/C)² with U, Q and C between their ends."""
    farthest = np.maximum(places.low**2, places.high**2)
    nearest = np.clip(0.0, places.low, places.high) ** 2
    least = np.minimum(*(square.low / one - farthest / one**2 for one in (few, many)))
    top = np.clip(
        square.high / np.maximum(2.0 * nearest, 1e-300), 1.0 / many, 1.0 / few
    )  # is 1/C where the parabola is highest
    most = square.high * top - nearest * top**2
    return np.clip(least - _ROUNDING, 0.0, 1.0), np.clip(most + _ROUNDING, 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """A sum of what lies between ``-1`` or 0 and 1 for each report."""

    estimate: Floats
    error: float
    """The standard error, with that of rounding at the most."""
    noise: float
    """The standard error without rounding."""
    low: Floats
    high: Floats

    @classmethod
    def of(
        cls, seen: tuple[Thermometer, ArrayLike], least: float, reports: int, alpha: float
    ) -> _Sum:
        """Return a sum from the tallies of all bits; each interval misses with ``alpha``."""
        steps, totals = seen
        scale = Scale(least, 1.0, steps.resolution, steps.noise, steps.summed)
        trials = steps.resolution * reports
        unit = (1.0 - least) / steps.resolution
        noise = float(scale.of_sum.standard_error(trials))
        error = math.hypot(noise, math.sqrt(scale.of_sum.rounding_variance(reports)))
        low, high = mean_ends(scale, totals, reports, alpha)
        middle = scale.place(scale.of_sum.estimate(totals, trials) / trials)
        return cls(reports * middle, unit * error, unit * noise, reports * low, reports * high)
