"""Confidence intervals for true counts by inverting the exact law of the tally.

Write α for one minus the level. A count h is kept unless P_h[S ≥ s] ≤ α/2 or
P_h[S ≤ s] ≤ α/2; whatever h is true, it is lost with probability at most α/2 each way
[Clopper and Pearson 1934]. Two orders make this cheap for millions of values at once:

* S grows with h in the stochastic order: one more report that holds the value turns
  ``copies`` trials of chance ``miss`` into trials of chance ``hit`` > ``miss``. So a tally
  that rejects h from above rejects every smaller count too: the kept counts are a range.
* S − copies·h falls with h: the same trials gain at most 1 each. So if c is critical at h,
  P_h[S ≥ c] ≤ α/2, then c + copies·j is critical at h + j.

The critical tally of a single count thus gives a valid lower end for every tally, sharp
for those that reject counts just above it. Laws are summed at as few counts as reach the
wanted sharpness; fewer make intervals wider, never wrong. Upper ends are lower ends of
the mirrored noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.errors.checks import share, whole
from chaffinch.privacy.numerics import laws, special
from chaffinch.privacy.numerics.discrete_noise import GaussianSum
from chaffinch.privacy.numerics.floods import Flood, negative_binomial
from chaffinch.privacy.numerics.laws import Law
from chaffinch.privacy.numerics.precision import Wide, WideArray, gamma, grain_above
from chaffinch.privacy.numerics.roots import bisect_whole
from chaffinch.protocols.noise import (
    MOST_REPORTS,
    Floats,
    Noise,
    SeenDecoys,
    SignedNoise,
    TallyNoise,
    TotalsNoise,
)
from chaffinch.wire.batches import Counts

SHARPNESS = 0.02
"""How far, in standard deviations of the tally, an end may be from the exact one."""

_ROUNDING_SHARES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of the chance to miss that rounding may get; 0 stands for its largest effect."""

_PLACES = 4
"""At how many counts, and one more, it is asked how far intervals reach."""

_LONGEST_VARIANCE = 1e10
"""Beyond this variance of the tally only closed bounds are used."""

_WORK = 8e7
"""How many masses may be computed for one side of the intervals, all counts together."""

_ROUGH_WORK = 1e7
"""How much of that may be spent before it is known where to look closely."""

_OVERHEAD = 15_000
"""What one law costs besides its masses, in masses."""

_MOST_EXPONENT = 600.0
"""Where the chance of no noise at all is below e to minus this, a closed bound serves."""

_MOST_MASSES = 5_000_000
"""A law of one geometric number with more masses than about this has a closed bound only."""

_MOST_POINTS = 8_000
"""A law of more masses than this is rounded to a lattice before it is convolved."""

_FEW_ARRIVALS = 64
"""Up to so many different numbers of decoys, each has a law of its own."""

_ROUNDS = 40
"""A limit that is not met in practice: after a few rounds there is nothing left to try."""

_HALF = 0.5 * (1 - 1e-12)
"""The share of one side, a hair less than half: alpha may have been rounded up by a division."""


def intervals(
    noise: TallyNoise, tallies: ArrayLike, reports: int, level: float
) -> tuple[Counts, Counts]:
    """Return the ends of one confidence interval per tally.

    Each interval alone covers its true count with probability at least ``level``,
    whatever the count is.

    Examples
    --------
    >>> from fractions import Fraction
    >>> low, high = intervals(Noise.flips(Fraction(1, 10)), [10, 26], 100, 0.95)
    >>> low, high
    (array([ 0, 12]), array([ 7, 27]))
    """
    return two_sided(noise, tallies, reports, miss_chance(level))


def simultaneous(
    noise: TallyNoise,
    tallies: ArrayLike,
    reports: int,
    level: float,
    *,
    comparisons: int | None = None,
) -> tuple[Counts, Counts]:
    """Return intervals that cover all true counts at once with probability at least ``level``.

    The chance to miss is shared out equally (Bonferroni). Tallies of one-hot reports
    depend on one another through the data and the decoys, and the union bound is valid
    under any dependence. ``comparisons`` is the number of intervals that must hold
    together, by default the number of tallies.
    """
    share = whole("comparisons", np.size(tallies) if comparisons is None else comparisons)
    if share < np.size(tallies):
        raise InvalidInput("comparisons", "at least the number of tallies", share)
    return two_sided(noise, tallies, reports, miss_chance(level) / max(share, 1))


def miss_chance(level: float) -> float:
    """Return 1 − ``level``, which is exact from one half up, for a level short of 1."""
    level = share("level", level, least=0.5, most=1.0 - 1e-12)
    return 1.0 - level


def two_sided(
    noise: TallyNoise, tallies: ArrayLike, reports: int, alpha: float
) -> tuple[Counts, Counts]:
    """Return the ends where each side may miss with half of ``alpha``."""
    reports = whole("reports", reports, least=1, most=MOST_REPORTS)
    tail = _HALF * alpha
    if isinstance(noise, SeenDecoys):
        return _among_decoys(noise, tallies, reports, tail)
    if isinstance(noise, (SignedNoise, TotalsNoise)):
        return _around_tallies(noise, tallies, reports, tail)
    if not isinstance(noise, Noise):
        raise InvalidInput("noise", "that of bits, or signed", type(noise).__name__)
    largest = noise.largest(reports)
    seen = _possible_tallies(tallies, largest)
    distinct, where = np.unique(seen, return_inverse=True)
    low = _lower_ends(noise, distinct, reports, tail)
    # S mirrored is again a sum of flipped bits, so an upper end is the lower end of the mirrored
    # tally, read backwards: one routine, and one side to prove.
    high = reports - _lower_ends(noise.mirrored(), (largest - distinct)[::-1], reports, tail)[::-1]
    # Without noise, tallies between two multiples of `copies` reject every count.
    low, high = np.minimum(low, high), np.maximum(low, high)
    return low[where].reshape(seen.shape), high[where].reshape(seen.shape)


def rounding_share(
    noise: TallyNoise, trials: int, reports: int, alpha: float
) -> tuple[float, float]:
    """Return which share of ``alpha`` the rounding of numbers gets, and how many steps it takes.

    The sum of so many numbers, each rounded to a step by chance, is off by fewer steps than that
    but for this share [Hoeffding 1963]. The rest is for the noise of ``trials`` bits.
    """
    if isinstance(noise, TotalsNoise) and noise.whole:
        return 0.0, noise.room(trials)
    spread = float(noise.standard_error(trials))

    def room(part: float) -> float:
        if part == 0.0:
            return float(reports)
        return min(
            math.sqrt(reports * math.log(2 / (alpha * part)) / 2) * (1 + 1e-12), float(reports)
        )

    # By n, r and q alone: a split that the tallies choose would not keep the level.
    share = min(
        _ROUNDING_SHARES,
        key=lambda part: -float(special.ndtri(0.5 * alpha * (1 - part))) * spread + room(part),
    )
    return share, room(share)


def farthest_end(noise: TallyNoise, reports: int, alpha: float) -> float:
    """Return how far an end may be from its estimate, in people, before it is cut at 0 and n.

    Ends are whole people around whole tallies, so that the distance jumps by up to a tally from
    one count to the next, and from one number of reports to the next. It stays below the place
    between two tallies at which the tail is met, which hardly depends on them. Of flips, whose law
    depends on the count, it is the farthest place at a few counts, and a little more: as sharp as
    their intervals are.
    """
    tail = _HALF * alpha
    if isinstance(noise, SignedNoise):
        exponent, drift = noise.exponent(reports), float(noise.drift(reports))
        above, below = (
            _tail_of_difference(one, exponent, tail).met(tail) for one in (noise, noise.mirrored)
        )
        return max(above - drift, below + drift) / noise.gain
    if isinstance(noise, TotalsNoise):
        return _tail_of_totals(noise, tail).met(tail)
    if isinstance(noise, SeenDecoys):
        # Hardly ever do as many arrive as are counted with: ends are those of their number alone.
        arrived, share = int(noise.arrived.max()), Fraction(1, noise.values)
        sides = (share, 1 - share)
        return float(max(_critical_cover(arrived, p, tail) - 1 - arrived * p for p in sides))
    if not isinstance(noise, Noise):
        raise InvalidInput("noise", "that of bits, or signed", type(noise).__name__)
    variance = float(noise.tally_variance([0, reports], reports).max())
    spread = math.sqrt(variance)

    def met(tail_of: Callable[[Noise, int, int, float], _Tail], held: int) -> float:
        """Return how far from its mean the tail of a tally is met, on either side."""
        return max(
            tail_of(one, held, reports, tail).met(tail, float(one.base(reports) + one.slope * held))
            for one in (noise, noise.mirrored())
        )

    if variance > _LONGEST_VARIANCE:
        # Closed bounds see no more of a count than its variance, and may not reject 0 or n.
        half = reports // 2
        far = met(_bounded_tail, half) * spread
        far /= math.sqrt(float(noise.tally_variance(half, reports)))
    else:
        far = max(met(_tail_of_tally, reports * part // _PLACES) for part in range(_PLACES + 1))
    return (far + SHARPNESS * spread) / float(noise.slope)


def _whole_tallies(tallies: ArrayLike) -> Counts:
    """Return tallies as integers, or refuse them without showing them."""
    seen = np.asarray(tallies)
    if seen.size and not np.issubdtype(seen.dtype, np.integer):
        raise InvalidInput("tallies", "whole numbers", seen.dtype)
    return seen.astype(np.int64)


def _possible_tallies(tallies: ArrayLike, largest: int) -> Counts:
    """Return tallies as integers from 0 to ``largest``, or refuse them without showing them."""
    seen = _whole_tallies(tallies)
    if not ((seen >= 0) & (seen <= largest)).all():
        rule = f"whole numbers from 0 to {largest}, the most that so many reports can add up to"
        raise InvalidInput("tallies", rule, Unquoted("a number outside of that range"))
    return seen


def _lower_ends(noise: Noise, tallies: Counts, reports: int, tail: float) -> Counts:
    """Return for each of the sorted ``tallies`` a count below which all are rejected."""
    low = (_rejected(noise, tallies, reports, tail) + 1).astype(np.int64)
    variance = float(noise.tally_variance([0, reports], reports).max())
    if len(tallies) and variance <= _LONGEST_VARIANCE:
        low = np.maximum(low, _by_laws(noise, tallies, reports, tail, low))
    # What a tally rejects, every larger tally rejects too.
    return np.maximum.accumulate(np.minimum(low, reports))


def _by_laws(noise: Noise, tallies: Counts, reports: int, tail: float, low: Counts) -> Counts:
    """Return lower ends from laws that are summed where they are needed, ``low`` to begin with."""
    tried = _Tried(noise, reports, tail)
    tried.near(low, _ROUGH_WORK)
    for _ in range(_ROUNDS):
        # Where the slope of the mean points; then at the first count not yet rejected, which
        # moves on until that count is known to be kept.
        ahead = tried.near(tried.guesses(tallies), _WORK)
        low = np.maximum(low, tried.lower_ends(tallies))
        if not tried.near(low, _WORK) and not ahead:
            break
    return low


@dataclass(slots=True)
class _Tried:
    """Counts whose critical tally is known, in order, and what follows from them."""

    noise: Noise
    reports: int
    tail: float
    work: float = 0.0
    counts: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    critical: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def near(self, guess: Counts, most: float) -> bool:
        """Try a count just below each guess as far as the work allows; say whether any is new."""
        held = np.unique(np.clip(guess, 0, self.reports))
        step = self._steps(held)
        while True:
            fresh = np.setdiff1d(held // step * step, self.counts)
            cost = float(self._cost(fresh).sum())
            needed = len(self.counts) == 0 and len(fresh) == 1
            if needed or self.work + cost <= most:
                break
            if len(fresh) <= 1:
                return False
            # Too much: try half as many.
            step = step * 2
        self.work += cost
        self._add(fresh)
        return len(fresh) > 0

    def _steps(self, held: Counts) -> Counts:
        """Return the distance of tried counts that keeps ends as sharp as ``SHARPNESS``.

        Between two of them the critical tally is taken to grow by ``copies`` per count. It
        really grows by about the slope of the mean, which is less by ``loss``. Distances
        are powers of two, so that neighbours agree on what to try.
        """
        loss = float(self.noise.copies - self.noise.slope)
        if loss == 0.0:
            return np.full_like(held, self.reports + 1)
        sharp = SHARPNESS * np.sqrt(self.noise.tally_variance(held, self.reports)) / loss
        power = np.floor(np.log2(np.clip(sharp, 1.0, self.reports + 1.0)))
        return np.asarray(1 << power.astype(np.int64))

    def _cost(self, held: Counts) -> NDArray[np.float64]:
        """Return about what summing each law costs, in masses computed."""
        # Both sides of a normal window, 2·√(2·ln(1/cut)) standard deviations; `cut` as in the laws.
        reach = math.sqrt(-8.0 * math.log(self.tail * 1e-4))
        spread = np.sqrt(self.noise.tally_variance(held, self.reports))
        lattice = np.minimum(spread, float(_STEPS)) * reach
        return np.asarray(_OVERHEAD + 2.0 * spread * reach + lattice**2 / 16.0)

    def _add(self, counts: Counts) -> None:
        """Sum the laws of ``counts``."""
        at = np.searchsorted(self.counts, counts)
        laws_of = (_tail_of_tally(self.noise, int(h), self.reports, self.tail) for h in counts)
        found = np.insert(self.critical, at, [law.critical(self.tail) for law in laws_of])
        self.counts = np.insert(self.counts, at, counts)
        # Critical tallies grow with the count; raising one that rounding left behind is safe.
        self.critical = np.maximum.accumulate(found)

    def lower_ends(self, tallies: Counts) -> Counts:
        """Return one more than the largest count that each tally is known to reject."""
        at = np.searchsorted(self.critical, tallies, side="right") - 1
        # One report more adds `copies` to S at the most, so the critical tally of h + k is at most
        # that of h plus copies·k: a tally beyond it rejects h + k, too, although no law was summed.
        spare = (tallies - self.critical[at]) // self.noise.copies
        return np.where(at < 0, 0, self.counts[at] + spare + 1)

    def guesses(self, tallies: Counts) -> Counts:
        """Return about where the lower ends are, by the slope of the mean tally."""
        at = np.maximum(np.searchsorted(self.critical, tallies, side="right") - 1, 0)
        ahead = (tallies - self.critical[at]) / float(self.noise.slope)
        return np.floor(np.clip(self.counts[at] + ahead, 0, self.reports)).astype(np.int64)


# ----------------------------------------------------------------------------
# Proven bounds on the right tail of a tally. The left tail is that of the mirrored noise.
#
# Two tools. ``_tail_of_tally`` sums the exact law for one true count, with every error of
# arithmetic and truncation added to the tail. ``_rejected`` needs no law at all: it inverts
# closed bounds (Chernoff with the exact cumulant, and Berry–Esseen with its proven
# constant) for a million tallies at once, and is what remains where laws are too long.

_STEPS = 150
"""A long law is summed on a lattice with this many points per standard deviation."""

_PRODUCTS = 1_000_000
"""Up to this many multiplications the lattice is that of the integers."""

LYAPUNOV = 0.5600
"""Berry–Esseen for independent, unequal terms [Shevtsova 2010, Doklady Math. 82(3), 862–864]."""


_MOST_ERROR = 0.9
"""Where the error of the normal law takes more of the tail than this share, what is left asks for
so far a quantile that Chernoff is better."""

_LOG_TILTS = (-20.0, 4.0)
"""The best tilt is some deviations over the variance, so above e^−20, and below e^4: no tally is
as rare as e^−55, and the exponential of 55 stays far from overflow."""

_TILTS_TRIED = 30
"""So many golden sections leave 1e-5 of the range: a bound is flat where it is best."""

_GOLDEN = (3 - math.sqrt(5)) / 2
"""The golden section."""


class _Tail(NamedTuple):
    """Upper bounds of P[S ≥ s] for every tally s on a lattice, and between two of them."""

    start: int
    step: int
    above: WideArray

    @classmethod
    def of(cls, start: int, step: int, law: Law) -> _Tail:
        """Return the tail of a law on a lattice from ``start`` on."""
        above = np.cumsum(law.mass[::-1])[::-1]
        # Up: twice the relative error for these sums and three roundings here, and all that is
        # missing may lie in the tail.
        error = 1 + 2 * (law.relative + gamma(len(above)))
        return cls(start, step, above * error + law.missing)

    @classmethod
    def before(cls, critical: int) -> _Tail:
        """Return what a bound that rejects all from ``critical`` on leaves to be known."""
        return cls(critical - 1, 1, np.ones(1))

    def _last(self, tail: float) -> int:
        """Return the last point of the lattice that is too likely."""
        return int(np.count_nonzero(self.above > Wide(tail))) - 1

    def critical(self, tail: float) -> int:
        """Return the least c, or one a little above it, with P[S ≥ c] ≤ ``tail``."""
        # Nothing lies between two lattice points, so c stands right behind the last one that is
        # too likely.
        return self.start + self.step * self._last(tail) + 1

    def met(self, tail: float, mean: float = 0.0) -> float:
        """Return how far from the mean the tail is met, its logarithm straight between points.

        Where there is next to no noise, and nothing is too likely a whole tally away, it is how
        far the last point is that is too likely.
        """
        last = self._last(tail)
        far = self.start + self.step * last - mean
        if far < 1.0 or last + 1 == len(self.above):
            return far
        here, behind = np.log(self.above[last] / Wide(tail)), np.log(self.above[last + 1])
        return far + self.step * float(here / (here + np.log(Wide(tail)) - behind))


def _tail_of_tally(noise: Noise, held: int, reports: int, tail: float) -> _Tail:
    """Return the right tail of a tally when ``held`` of ``reports`` hold the value.

    It is exact where the parts of the law are short. Longer parts are first rounded up to a
    lattice, which moves tallies up by less than a step per part: the tail stays proven, and where
    it is met moves by at most 3/``_STEPS`` of a standard deviation. A law that is too long even
    for that is not summed, and closed bounds say from where on a tally is rejected.
    """
    variance = float(noise.tally_variance(held, reports))
    if variance > _LONGEST_VARIANCE:
        return _bounded_tail(noise, held, reports, tail)
    # What windows miss is added to the tail: a ten-thousandth of it costs next to nothing.
    cut = Wide(tail) * Wide(1e-4)
    trials = (
        (noise.copies * held, noise.hit),
        (noise.copies * (reports - held), noise.miss),
        (noise.cover_slots * reports, noise.cover),
    )
    parts = [_binomial(count, chance, cut) for count, chance in trials]
    step = 1
    # The work is the product of the two longest parts.
    if math.prod(sorted(len(part.mass) for part in parts)[1:]) > _PRODUCTS:
        step = math.ceil(math.sqrt(variance) / _STEPS)
    total = reduce(_sum, [_rounded_up(part, step) for part in parts])
    return _Tail.of(total.start, step, total)


def _bounded_tail(noise: Noise, held: int, reports: int, tail: float) -> _Tail:
    """Return what closed bounds say of the right tail of a tally."""
    # More than the largest cannot be: that end is rejected whatever the bounds say.
    critical = bisect_whole(
        lambda tally: bool(_rejected(noise, np.array([tally]), reports, tail)[0] >= held),
        good=noise.largest(reports) + 1,
        bad=int(noise.base(reports) + noise.slope * held),
    )
    return _Tail.before(critical)


def _sum(first: Law, second: Law) -> Law:
    """Return the law of a sum, never by FFT: its error is as large in the tail as in the middle."""
    return laws.convolve(first, second, most_products=sys.maxsize)


def _binomial(count: int, chance: Fraction, cut: object) -> Law:
    """Return a window that is not kept: hardly any is asked for twice, and they are large."""
    return laws.binomial.__wrapped__(count, chance, cut)


def _rounded_up(law: Law, step: int) -> Law:
    """Return the masses of blocks of ``step`` integers, from the top of the first block on."""
    if step == 1 or len(law.mass) == 1:
        return law
    mass = np.add.reduceat(law.mass, np.arange(0, len(law.mass), step))
    return Law(law.start + step - 1, mass, law.relative + gamma(float(step)), law.missing)


def _rejected(noise: Noise, tallies: NDArray[np.int64], reports: int, tail: float) -> Floats:
    """Return, per tally s, a count h (or −1) with P[S ≥ s] ≤ ``tail`` proven for h and below.

    S grows with h in the stochastic order, so the bound need only be shown at h itself.
    """
    seen = tallies.astype(np.float64)
    best = np.maximum(
        _by_chernoff(noise, seen, reports, tail), _by_normal(noise, seen, reports, tail)
    )
    # Room for the rounding of the formulas: far more than they lose, far less than matters.
    best = np.floor(best - 1e-6 - 1e-13 * noise.largest(reports) / float(noise.slope))
    return np.clip(best, -1.0, float(reports))


def _by_chernoff(noise: Noise, seen: Floats, reports: int, tail: float) -> Floats:
    """Return the largest h with E[exp(t·S)]·exp(−t·s) ≤ tail, searching t > 0 for the best.

    With A, B, C the logarithms of 1 + θ(e^t − 1) for hit, miss and cover, the cumulant is
    copies·(h·A + (n − h)·B) + slots·n·C: linear in h, so each t gives h at once. Every t
    gives a valid h; a golden-section search finds nearly the best.
    """
    wanted = math.log(tail)
    chances = [float(chance) for chance in (noise.hit, noise.miss, noise.cover)]

    def reached(log_tilt: Floats) -> Floats:
        """Return the h that a tilt proves: where its bound on the tail is just met."""
        tilt = np.exp(log_tilt)
        yes, no, decoy = (np.log1p(chance * np.expm1(tilt)) for chance in chances)
        rest = reports * (noise.copies * no + noise.cover_slots * decoy)
        return np.asarray((tilt * seen + wanted - rest) / (noise.copies * (yes - no)))

    left, right = (np.full_like(seen, end) for end in _LOG_TILTS)
    best = np.full_like(seen, -np.inf)
    for _ in range(_TILTS_TRIED):
        third = _GOLDEN * (right - left)
        low, high = reached(left + third), reached(right - third)
        best = np.maximum.reduce([best, low, high])
        rising = low < high
        left, right = np.where(rising, left + third, left), np.where(rising, right, right - third)
    return best


def _by_normal(noise: Noise, seen: Floats, reports: int, tail: float) -> Floats:
    """Return an h with Φ(−(s − mean)/sd) + error ≤ tail, or −∞ where there is none.

    A bit of chance θ has third absolute moment θ(1 − θ)(θ² + (1 − θ)²), at most its
    variance, so the Lyapunov fraction is below 1/sd.
    """
    least = math.sqrt(float(noise.tally_variance([0, reports], reports).min()))
    # The error of the normal law, ``LYAPUNOV`` / least, is paid first.
    if not _MOST_ERROR * tail * least > LYAPUNOV:
        return np.full_like(seen, -np.inf)
    quantile = -float(special.ndtri((tail - LYAPUNOV / least) * (1 - 1e-9)))
    base, slope = float(noise.base(reports)), float(noise.slope)
    held = seen
    for _ in range(6):
        # The sd hardly depends on the count: a few steps are enough, and judged below.
        spread = np.sqrt(noise.tally_variance(np.clip(held, 0.0, float(reports)), reports))
        held = (seen - base - quantile * spread) / slope
    held = np.clip(np.floor(held), 0.0, float(reports))
    spread = np.sqrt(noise.tally_variance(held, reports))
    return np.where(seen - base - slope * held >= quantile * spread, held, -np.inf)


# ----------------------------------------------------------------------------
# Decoys do not depend on the count: given how many arrived, two critical values serve all tallies.


def _among_decoys(
    noise: SeenDecoys, tallies: ArrayLike, reports: int, tail: float
) -> tuple[Counts, Counts]:
    """Return the counts that a tally does not reject, where tally = count + Bin(arrived, 1/d)."""
    seen = _possible_tallies(tallies, reports + int(noise.arrived.max(initial=0)))
    step, share = _arrival_step(noise), Fraction(1, noise.values)
    below, place = np.unique(noise.arrived // step * step, return_inverse=True)
    # Fewer decoys than arrived are fewer on a value, and more are more: the safe side of each end.
    few = [int(m) - _critical_cover(int(m), 1 - share, tail) for m in below]
    many = [_critical_cover(int(m) + step - 1, share, tail) for m in below]
    # A count h is rejected if tally − h ≥ many, or ≤ few.
    place = place.reshape(noise.arrived.shape)
    low = np.clip(seen - np.array(many, np.int64)[place] + 1, 0, reports)
    high = np.clip(seen - np.array(few, np.int64)[place] - 1, 0, reports)
    return np.minimum(low, high), np.maximum(low, high)


def _arrival_step(noise: SeenDecoys) -> int:
    """Return 1, or how far many numbers of decoys may be rounded to keep ends ``SHARPNESS``."""
    if len(np.unique(noise.arrived)) <= _FEW_ARRIVALS:
        return 1
    # In standard deviations √(m·(1 − 1/d)/d) of the least m, of which a decoy more moves 1/d.
    return max(1, math.floor(SHARPNESS * math.sqrt(int(noise.arrived.min()) * (noise.values - 1))))


@lru_cache(maxsize=1 << 10)
def _critical_cover(arrived: int, chance: Fraction, tail: float) -> int:
    """Return a c with P[Bin(arrived, chance) ≥ c] ≤ ``tail``."""
    # As many reports as decoys, none of which holds the value.
    noise = Noise(1, Fraction(1), Fraction(0), 1, chance)
    return _tail_of_tally(noise, 0, arrived, tail).critical(tail)


# ----------------------------------------------------------------------------
# Signed noise, and that of totals, does not depend on the count: one critical value of either side
# serves every tally.

_TILTS = np.geomspace(1e-6, 1.0, 2_000)[:-1]
"""Where a generating function is looked at, in shares of the tilt at which it is infinite."""


def _around_tallies(
    noise: SignedNoise | TotalsNoise, tallies: ArrayLike, reports: int, tail: float
) -> tuple[Counts, Counts]:
    """Return the counts that a tally does not reject, where tally = base + slope·count + D."""
    seen, gain = _whole_tallies(tallies), int(noise.slope)
    if isinstance(noise, TotalsNoise):
        above = below = _critical_total(noise, tail)
    else:
        sides, exponent = (noise, noise.mirrored), noise.exponent(reports)
        above, below = (_critical_difference(one, exponent, tail) for one in sides)
    centre = seen - reports * (1 - gain)
    # A count h is rejected if tally − base − gain·h ≥ above, or ≤ −below. In whole numbers: the
    # least h with centre − gain·h < above, the largest with > −below.
    low = (centre - above) // gain + 1
    high = -((-centre - below) // gain) - 1
    low, high = np.clip(low, 0, reports), np.clip(high, 0, reports)
    return np.minimum(low, high), np.maximum(low, high)


@lru_cache(maxsize=64)
def _critical_difference(noise: SignedNoise, exponent: Fraction, tail: float) -> int:
    """Return the least c, or one a little above it, with P[D ≥ c] ≤ ``tail``.

    D is the sum of weight·(Z − Z′) over the parts, Z and Z′ negative binomial, and of the units. A
    long law is rounded up to a lattice, which moves c up only; what windows lack is added to the
    tail.
    """
    return _tail_of_difference(noise, exponent, tail).critical(tail)


def _tail_of_difference(noise: SignedNoise, exponent: Fraction, tail: float) -> _Tail:
    """Return the right tail of D, on a lattice; where the law is too long, what a bound leaves."""
    found = law_of_difference(noise, exponent, tail)
    if found is None:
        return _Tail.before(_chernoff_difference(noise, float(exponent), tail))
    step, law = found
    return _Tail.of(step * law.start, step, law)


def law_of_difference(
    noise: SignedNoise, exponent: Fraction, tail: float
) -> tuple[int, Law] | None:
    """Return a step, and the law of D in such steps, rounded up to one; None where it is too long.

    What windows lack is two ten-thousandths of ``tail``.
    """
    # All masses are worked out from P[Z = 0] = (1 − a)^g, or from P[R = 0], which must stay a
    # float.
    none = [-math.log1p(-float(ratio)) for _, ratio in noise.parts]
    none += [float(rate) for _, rate in noise.units]
    if float(exponent) * max(none) > _MOST_EXPONENT:
        return None
    # And their windows must be short enough to be followed: about so many masses.
    long = max(-math.log(tail * 1e-5) / -math.log(float(ratio)) for _, ratio in noise.parts)
    if long > _MOST_MASSES:
        return None
    cut = Wide(tail) * Wide(1e-4) / (len(noise.parts) + len(noise.units))
    scattered = [_difference(weight, ratio, exponent, cut) for weight, ratio in noise.parts]
    scattered += [_singles(weight, rate * exponent, cut) for weight, rate in noise.units]
    # Steps so long that about twice ``_MOST_POINTS`` are left.
    span = sum(int(np.ptp(places)) for places, _ in scattered)
    step = 1 + span // (2 * _MOST_POINTS)
    return step, reduce(_sum, [_on_lattice(places, law, step) for places, law in scattered])


def _difference(
    weight: int, ratio: Fraction, exponent: Fraction, cut: Any
) -> tuple[NDArray[np.int64], Law]:
    """Return places of weight·(Z − Z′), at or above where it is, and their masses."""
    law = negative_binomial(ratio, exponent, cut)
    step = math.ceil(len(law.mass) / _MOST_POINTS)
    blocks = _rounded_up(law, step)
    # The same blocks stand at their tops for Z and at their bottoms for Z′. Tops less bottoms,
    # step·(i − j) + step − 1, are never below Z − Z′.
    reach = len(blocks.mass) - 1
    places = step * np.arange(-reach, reach + 1) + step - 1
    return weight * places, _sum(blocks, replace(blocks, mass=blocks.mass[::-1]))


def _singles(weight: int, rate: Fraction, cut: Any) -> tuple[NDArray[np.int64], Law]:
    """Return places of weight times a Poisson number, in order, and their masses."""
    law = Flood((rate,), Fraction(0)).law(cut)
    places = weight * np.arange(len(law.mass))
    return (places, law) if weight > 0 else (places[::-1], replace(law, mass=law.mass[::-1]))


def _on_lattice(places: NDArray[np.int64], law: Law, step: int) -> Law:
    """Return a law on multiples of ``step``, each place moved up to the next of them."""
    points = -(-places // step)
    mass = np.zeros(int(points[-1] - points[0]) + 1, dtype=Wide)
    np.add.at(mass, points - points[0], law.mass)
    return Law(int(points[0]), mass, law.relative + gamma(float(step)), law.missing)


def _chernoff_difference(noise: SignedNoise, exponent: float, tail: float) -> int:
    """Return a c with P[D ≥ c] ≤ ``tail`` from the generating function of D (Chernoff)."""
    # E[e^(t·D)] is finite for weight·t < −ln(ratio) of every part.
    tilts = _TILTS * min(-math.log(ratio) / weight for weight, ratio in noise.parts)
    places = (cumulant_of_difference(noise, exponent, tilts) - math.log(tail)) / tilts
    # One more than the next whole number: the formulas lose less than 1e-12 of it by rounding.
    return math.ceil(float(places.min())) + 1


def cumulant_of_difference(noise: SignedNoise, exponent: float, tilts: Floats) -> Floats:
    """Return ln E[e^(t·D)]: g·ln((1 − a)²/((1 − a·e^(wt))(1 − a·e^(−wt)))) for every part.

    And g·μ·(e^(wt) − 1) for every kind of units.
    """
    total = np.zeros_like(tilts)
    for weight, rate in noise.units:
        total += exponent * float(rate) * np.expm1(weight * tilts)
    for weight, ratio in noise.parts:
        # The denominator is (1 − a)² − 4a·sinh²(wt/2), which keeps its digits near 0.
        fall = 4.0 * float(ratio / (1 - ratio) ** 2)
        total -= exponent * np.log1p(-fall * np.sinh(0.5 * weight * tilts) ** 2)
    return total


# ----------------------------------------------------------------------------
# Noise of totals: a sum of geometric differences, which signed noise is made of, or of Gaussians.

_LONGEST_SPREAD = 1 << 13
"""From about this standard deviation on tails have closed bounds."""


@lru_cache(maxsize=64)
def _critical_total(noise: TotalsNoise, tail: float) -> int:
    """Return the least c, or one a little above it, with P[D ≥ c] ≤ ``tail``."""
    return _tail_of_totals(noise, tail).critical(tail)


def _tail_of_totals(noise: TotalsNoise, tail: float) -> _Tail:
    """Return the right tail of noise; where its law is too long, what a bound leaves."""
    found = law_of_totals(noise, tail)
    if found is not None:
        step, law = found
        return _Tail.of(step * law.start, step, law)
    if noise.law == "laplace":
        return _Tail.before(_chernoff_difference(_geometric(noise), float(noise.terms), tail))
    # Masses are below those of the density a step to the left, and their sum is above σ√2π.
    spread = math.sqrt(noise.terms) * float(noise.scale)
    return _Tail.before(math.ceil(-float(special.ndtri(tail * (1 - 1e-9))) * spread) + 1)


def law_of_totals(noise: TotalsNoise, tail: float) -> tuple[int, Law] | None:
    """Return a step, and the law of noise in such steps, rounded up; None where it is too long."""
    law = GaussianSum(noise.terms, noise.scale)
    if law.variance > _LONGEST_SPREAD**2:
        return None
    if noise.law == "laplace":
        return law_of_difference(_geometric(noise), Fraction(noise.terms), tail)
    return 1, law.law(1e-4 * tail)


def _geometric(noise: TotalsNoise) -> SignedNoise:
    """Return geometric differences whose ratio is rounded up: to longer tails."""
    ratio = grain_above(Fraction(noise.ratio * (1 + 1e-15)))
    return SignedNoise(((1, min(ratio, 1 - Fraction(1, 1 << 64))),), cut_for=1)
