"""Means, sums and shares of those who answered, from a noisy count of them.

Of n people C answered. A gap in a number was sent as the middle c of its range, so that
W = n·(mean of all − c) is the sum of x − c over those who answered, and

    their mean is c + W/C,      their sum is W + c·C.

The noise of C is felt only as far as the mean is from the middle. Of counts, h people of n hold a
value and n − C hold none: the share among those who answered is h/C.

Intervals. Let the interval of the numerator fail with chance α₁ at most and that of C with α₂,
α₁ + α₂ = α. While both hold, the truth is a point of their rectangle, and each of these
quotients and sums takes its extremes at corners. By the union bound that is so with chance 1 − α
at least, whatever the answers are and however the two depend on one another. Where C may be 0,
no quotient can be given: every value between the bounds stays possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.analysis.number_estimates import Scale, mean_ends
from chaffinch.plans.expansion import COUNT_SHARE
from chaffinch.protocols.intervals import two_sided
from chaffinch.protocols.noise import Floats, TallyNoise
from chaffinch.wire.batches import Counts

_ROUNDING = 1e-12
"""Room for the rounding of the last operations, far more than they lose."""

_Ends = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class Answerers:
    """How many people answered, for one collection or for many: estimates and ends."""

    reports: int
    estimate: Floats
    standard_error: float
    low: Counts
    high: Counts

    @classmethod
    def of(cls, noise: TallyNoise, tallies: ArrayLike, reports: int, alpha: float) -> Answerers:
        """Return the count of answers from tallies of yes; each interval misses with ``alpha``."""
        low, high = two_sided(noise, tallies, reports, alpha)
        spread = float(noise.standard_error(reports))
        return cls(reports, noise.estimate(tallies, reports), spread, low, high)

    @property
    def some(self) -> Floats:
        """Return the estimate where it is above 0 for sure, otherwise 1 at least."""
        return np.maximum(self.estimate, np.maximum(self.low, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class _AnsweredMean:
    """The mean and the sum of those who answered, for one collection or for many."""

    mean: Floats
    mean_error: Floats
    mean_ends: _Ends
    total: Floats
    total_error: float
    total_ends: _Ends
    nobody: NDArray[np.bool_]
    """Whether nobody may have answered, so that no mean can be given."""


def answered_mean(
    scale: Scale, totals: ArrayLike, people: Answerers, alpha: float
) -> _AnsweredMean:
    """Return mean and sum from the tallies of all bits, with gaps sent as the middle.

    Its interval misses with ``alpha``, of which that of ``people`` takes ``COUNT_SHARE``.

    >>> from fractions import Fraction
    >>> from chaffinch.protocols.noise import Noise
    >>> noise = Noise.flips(Fraction(1, 20))
    >>> people = Answerers.of(noise, np.array([770]), 1000, 0.05 * COUNT_SHARE)
    >>> found = answered_mean(Scale(0.0, 10.0, 4, noise), np.array([2000]), people, 0.05)
    >>> [round(float(one[0]), 2) for one in (people.estimate, found.mean, found.total)]
    [800.0, 5.0, 4000.0]
    """
    n, middle, width = people.reports, 0.5 * (scale.low + scale.high), scale.high - scale.low
    trials = scale.resolution * n
    own = alpha * (1.0 - COUNT_SHARE)
    away = n * (scale.place(scale.of_sum.estimate(totals, trials) / trials) - middle)
    low, high = (n * (end - middle) for end in mean_ends(scale, totals, n, own))
    noise = float(scale.of_sum.standard_error(trials)) ** 2
    spread = width * np.sqrt(noise + scale.of_sum.rounding_variance(n)) / scale.resolution
    nobody = people.low < 1
    mean = np.where(nobody, middle, middle + away / people.some)
    # W/C is extreme at one of the two ends of C; which one depends on the sign of W.
    few, many = np.maximum(people.low, 1), np.maximum(people.high, 1)
    least = np.minimum(low / few, low / many)
    most = np.maximum(high / few, high / many)
    room = _ROUNDING * (width + abs(middle))
    ends = (
        np.where(nobody, scale.low, np.clip(middle + least - room, scale.low, scale.high)),
        np.where(nobody, scale.high, np.clip(middle + most + room, scale.low, scale.high)),
    )
    return _AnsweredMean(
        mean=mean,
        # The delta method for c + W/C: the error of W, and that of C times (mean − c).
        mean_error=np.where(
            nobody,
            width / 2.0,
            np.hypot(spread, (mean - middle) * people.standard_error) / people.some,
        ),
        mean_ends=ends,
        total=away + middle * people.estimate,
        total_error=float(np.hypot(spread, middle * people.standard_error)),
        total_ends=(
            low + np.minimum(middle * people.low, middle * people.high) - n * room,
            high + np.maximum(middle * people.low, middle * people.high) + n * room,
        ),
        nobody=nobody,
    )


def answered_shares(noise: TallyNoise, tallies: ArrayLike, reports: int, alpha: float) -> _Ends:
    """Return the ends of the shares of all labels but the last, which is that of gaps.

    Each by itself misses with chance ``alpha`` at most: half of that for either count.
    """
    return share_ends(*two_sided(noise, tallies, reports, alpha / 2.0), reports)


def share_ends(low: Counts, high: Counts, reports: int) -> _Ends:
    """Return the ends of h/C from those of all counts, of which the last is that of gaps."""
    # More gaps are fewer answers: the ends change places.
    few, many = reports - high[..., -1:], reports - low[..., -1:]
    least = low[..., :-1] / np.maximum(many, 1) * (1.0 - _ROUNDING)
    most = high[..., :-1] / np.maximum(few, 1) * (1.0 + _ROUNDING)
    return np.minimum(least, 1.0), np.where(few < 1, 1.0, np.minimum(most, 1.0))
