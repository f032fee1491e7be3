"""Sums, means and quantiles of numbers that were reported as flipped thermometer bits.

A number is scaled to x in [0, 1] and rounded to r bits: the first ⌊x·r⌋ are 1, the next is
1 with chance x·r − ⌊x·r⌋, the rest are 0; then every bit is flipped with chance q. Write T
for the number of bits that were 1 before flipping, all people together, and T_j for those
of slot j. Over n reports the tally of all bits is Bin(T, 1 − q) + Bin(r·n − T, q): the noise
of flips among r·n trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.plans.expansion import GAP_SHARE
from chaffinch.protocols.base import Thermometer
from chaffinch.protocols.intervals import miss_chance, rounding_share, two_sided
from chaffinch.protocols.noise import Floats, TallyNoise
from chaffinch.questions import Number
from chaffinch.wire.batches import Counts


@dataclass(frozen=True, slots=True)
class Scale:
    """How numbers from ``low`` to ``high`` became bits."""

    low: float
    high: float
    resolution: int
    noise: TallyNoise
    """Of the tally of a step, or of the bits of all steps together."""
    summed: TallyNoise | None = None
    """The noise of the sum of all steps, where it is not that of as many more bits."""

    @classmethod
    def of(cls, question: Number, steps: Thermometer) -> Scale:
        """Return the scale of a question that was answered in such steps."""
        return cls(question.low, question.high, steps.resolution, steps.noise, steps.summed)

    @property
    def of_sum(self) -> TallyNoise:
        """Return the noise of the sum of all steps."""
        return self.noise if self.summed is None else self.summed

    def __post_init__(self) -> None:
        low = checks.real("low end", self.low, least=-math.inf)
        high = checks.real("high end", self.high, least=-math.inf)
        if not low < high:
            raise InvalidInput("high end", f"above the low end {low:g}", high)
        checks.whole("resolution", self.resolution, least=1, most=1000)

    def place(self, share: ArrayLike) -> Floats:
        """Return where ``share`` of the way from low to high is."""
        return np.asarray(self.low + (self.high - self.low) * np.asarray(share, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class _Mean:
    """An estimated mean (``reports`` times that is the sum) and a proven interval."""

    reports: int
    estimate: float
    """Unbiased; may lie outside of the range of the numbers."""
    standard_error: float
    """A bound: exact for the flips, the largest possible for the rounding."""
    low: float
    high: float
    level: float

    @property
    def total(self) -> float:
        return self.estimate * self.reports


def mean(scale: Scale, tallies: ArrayLike, reports: int, level: float) -> _Mean:
    """Return the mean of the numbers from the tally of all bits, or from one per slot.

    Coverage. With α = 1 − level and any split α = α₁ + α₂ that the data do not touch: the
    interval for T fails with chance at most α₁, whatever T is, hence also on average over
    the rounding. Each person's bits differ from r·x by a variable of mean 0 that lives in
    an interval of length 1, independently, so |T − r·Σx| ≥ t has chance at most
    2·exp(−2t²/n) = α₂ [Hoeffding 1963]; and it never exceeds n. If neither fails, r·Σx lies
    in [T_low − t, T_high + t]. By the union bound that is so with chance 1 − α at least.
    The split is the one whose interval is about the shortest for these n, r and q.

    Examples
    --------
    >>> from chaffinch.protocols.noise import Noise
    >>> answer = mean(Scale(0.0, 10.0, 4, Noise.flips(Fraction(1, 20))), 2000, 1000, 0.95)
    >>> round(answer.estimate, 9), round(answer.low, 2), round(answer.high, 2)
    (5.0, 4.8, 5.2)
    """
    reports = checks.whole("reports", reports, least=1)
    trials = scale.resolution * reports
    tally = np.asarray(np.sum(np.asarray(tallies)))
    spread = float(scale.of_sum.standard_error(trials))
    low, high = mean_ends(scale, tally, reports, miss_chance(level))
    width = scale.high - scale.low
    return _Mean(
        reports=reports,
        estimate=float(scale.place(float(scale.of_sum.estimate(tally, trials)) / trials)),
        standard_error=width
        * math.sqrt(spread**2 + scale.of_sum.rounding_variance(reports))
        / trials,
        low=float(low),
        high=float(high),
        level=level,
    )


def mean_ends(scale: Scale, totals: ArrayLike, reports: int, alpha: float) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of ``mean`` for many tallies of all bits at once.

    Each misses with a chance of at most ``alpha``.
    """
    trials = scale.resolution * reports
    share, room = rounding_share(scale.of_sum, trials, reports, alpha)
    # T is in [low, high] but for a chance of alpha·(1 − share), and r·Σx is within ``room`` of T
    # but for alpha·share: so r·Σx is in [low − room, high + room] but for alpha.
    low, high = two_sided(scale.of_sum, totals, trials, alpha * (1 - share))
    # Outwards by one float, so that rounding of the last operations cannot cut a corner.
    lower = np.nextafter(scale.place((low - room) / trials), -np.inf)
    upper = np.nextafter(scale.place((high + room) / trials), np.inf)
    return np.clip(lower, scale.low, scale.high), np.clip(upper, scale.low, scale.high)


_SPARE = 3
"""So many steps may fail on the way to the end of a bracket, as noise makes some of a long tail."""


@dataclass(frozen=True, slots=True, eq=False)
class _Survival:
    """What share of people lies above each step of the scale, from slots kept separate.

    A person's bit j is surely 1 when x ≥ j/r and surely 0 when x ≤ (j − 1)/r. So
    #(x ≥ j/r) ≤ T_j ≤ #(x > (j − 1)/r), whatever the rounding did: ``share[j − 1]`` is the
    share of people above, averaged over the step from (j − 1)/r to j/r.

    Where gaps were sent as the middle, only those who answered count: from T_j the gaps are
    taken that set bit j, which are all of them below the middle of the range and none above.
    """

    scale: Scale
    seen: Counts
    """One tally for each slot."""
    reports: int
    answered: tuple[float, int, int]
    """How many people answered: an estimate, and the ends between which it is."""
    level: float
    raw: Floats
    """Unbiased shares per slot; they may rise by chance or leave [0, 1]."""
    share: Floats
    """The nearest shares that do not rise (isotonic regression), clipped to [0, 1]: biased."""

    said = (
        "fewer people can lie above a larger number than above a smaller one. Where noise made it "
        "look otherwise, the counts were evened out, which biases the quantiles a little."
    )

    def quantiles(self, probabilities: Sequence[float]) -> tuple[Floats, Floats, Floats]:
        """Return lower ends, estimates and upper ends of quantiles of the true numbers.

        The quantile at φ of C numbers is that of rank k = max(1, ⌈φ·C⌉), counted from the
        smallest. It is above (j − 1)/r exactly if more than C − k of them are, which
        A_j > C − k proves; it is below j/r exactly if at most C − k are at j/r or above, which
        A_j ≤ C − k proves. Here A_j is T_j without the n − C gaps where they set bit j, and so
        A_j − (C − k) is T_j − n + k or T_j − C + k: it grows, or falls, with C.

        The steps are tested one after the other, for the lower end from the first, for the upper
        end from the last, until ``_SPARE`` + 1 tests have failed. The end is the last step that
        passed. It is wrong only if one of the first ``_SPARE`` + 1 steps passes that must not;
        which these are is known before any noise. So m quantiles need m·(``_SPARE`` + 1) intervals
        to hold, however many steps there are. Where steps are not twice as many, all of theirs
        hold, and any number of tests may fail.
        """
        tests, _ = self._shared(probabilities)
        share = miss_chance(self.level) / tests
        ends = two_sided(self.scale.noise, self.seen, self.reports, share)
        return self.brackets(probabilities, ends)

    def _shared(self, probabilities: Sequence[float]) -> tuple[int, int]:
        """Return among how many tests the chance to miss is shared out, and how many may fail."""
        tests, steps = max(1, len(probabilities)) * (_SPARE + 1), self.scale.resolution
        return (tests, _SPARE) if 2 * tests <= steps else (steps, steps)

    def brackets(
        self, probabilities: Sequence[float], ends: tuple[Counts, Counts]
    ) -> tuple[Floats, Floats, Floats]:
        """Return lower ends, estimates and upper ends, given the ends for every T_j by itself."""
        steps = self.scale.resolution
        twice = 2 * np.arange(1, steps + 1)  # a step ends below the middle where this is r at most
        _, few, many = self.answered
        _, spare = self._shared(probabilities)
        lower, upper = np.zeros(len(probabilities)), np.full(len(probabilities), float(steps))
        for place, chance in enumerate(probabilities):
            first, last = self._rank(chance, few), self._rank(chance, many)
            # A step in which the middle lies may hold gaps or not: the worse of both.
            more = np.where(twice - 2 < steps, self.reports - first, many - last)
            less = np.where(twice <= steps, self.reports - last, few - first)
            # Strictly above proves "above (j − 1)/r"; at most proves "below j/r".
            lower[place] = _last(ends[0] > more, spare) / steps
            upper[place] = steps - _last(ends[1][::-1] <= less[::-1], spare)
        middles = np.concatenate([[0.0], (np.arange(steps) + 0.5) / steps, [1.0]])
        below = np.concatenate([[0.0], 1.0 - self.share, [1.0]])
        guess = np.interp(np.asarray(probabilities, dtype=np.float64), below, middles)
        lower, upper = np.minimum(lower, upper / steps), np.maximum(lower, upper / steps)
        found = (lower, np.clip(guess, lower, upper), upper)
        return self.scale.place(found[0]), self.scale.place(found[1]), self.scale.place(found[2])

    def _rank(self, probability: float, people: int) -> int:
        """Return the rank of a quantile; a float stands for the decimal it is written as."""
        chance = checks.real("probability", probability, least=0.0, most=1.0)
        return max(1, math.ceil(Fraction(str(chance)) * people))


def survival(
    scale: Scale,
    tallies: ArrayLike,
    reports: int,
    level: float,
    answered: tuple[float, int, int] | None = None,
) -> _Survival:
    """Return the shares of people above each step, from one tally per slot.

    ``answered`` says how many people answered, where gaps were sent as the middle: an estimate
    and two ends. The brackets of quantiles hold together with ``level``, apart from that.
    """
    reports = checks.whole("reports", reports, least=1)
    seen = np.asarray(tallies)
    if seen.shape != (scale.resolution,):
        raise InvalidInput("tallies", f"{scale.resolution} numbers, one per slot", seen.shape)
    people = answered or (float(reports), reports, reports)
    raw = scale.noise.estimate(seen, reports) / reports
    # The part of each step that lies below the middle, which is where gaps set its bit.
    silent = np.clip(scale.resolution * GAP_SHARE - np.arange(scale.resolution), 0.0, 1.0)
    raw = (raw * reports - (reports - people[0]) * silent) / people[0]
    return _Survival(scale, seen, reports, people, level, raw, np.clip(_falling(raw), 0.0, 1.0))


def _last(tests: NDArray[np.bool_], spare: int) -> int:
    """Return the last place that passes before more than ``spare`` have failed; 0 for none.

    >>> _last(np.array([True, False, True, False, True]), 1)
    2
    """
    failed = np.flatnonzero(~tests)
    tried = tests[: failed[spare]] if len(failed) > spare else tests
    return int(np.flatnonzero(tried).max(initial=0))


def _falling(values: ArrayLike) -> Floats:
    """Return the nearest sequence, in the sum of squares, that never rises.

    Neighbours that rise are pooled into their mean until none do [Ayer et al. 1955].

    Examples
    --------
    >>> _falling([3.0, 1.0, 2.0, 0.0])
    array([3. , 1.5, 1.5, 0. ])
    """
    pools: list[tuple[float, int]] = []
    for value in np.asarray(values, dtype=np.float64):
        total, size = float(value), 1
        # Means are compared without dividing: before/members < total/size.
        while pools and pools[-1][0] * size < total * pools[-1][1]:
            before, members = pools.pop()
            total, size = total + before, size + members
        pools.append((total, size))
    return np.repeat([total / size for total, size in pools], [size for _, size in pools])
