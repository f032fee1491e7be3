"""Counts of a sample, published from a threshold on (Bharadwaj and Cormode 2022).

Each user is in the sample with probability p, independently. The values in the sample are counted,
and a count below K is not published at all. Nothing else is seen: neither the size of the sample
nor the counts below K, nor how many of these there are.

**One user is added.** Only the count of that user's value changes, from Bin(m − 1, p) to
Bin(m, p), both with all outcomes below K merged; m − 1 others hold the value. The ratio of the two
laws, (1 − p)m/(m − j), rises with j, so the best tests are tails. With n = m − 1,
b(j) = P[Bin(n, p) = j] and a = e^ε − 1:

    added      δ(m) = max over k ≥ K of  p·b(k − 1) − a·P[Bin(n, p) ≥ k]
    removed    δ(m) = max over k ≥ K of  e^ε·p·b(k − 1) − a·P[Bin(n, p) < k]

With k = K both rise with m as long as b_(n+1)(K − 1)/b_n(K − 1) = (n + 1)(1 − p)/(n + 2 − K), which
falls with n, is above e^ε (removed: above e^−ε), and fall from there on. That is up to

    m₀ = ⌈(K − 1)/θ⌉,  θ = 1 − (1 − p)e^−ε   (removed: θ = 1 − (1 − p)e^ε, δ = 0 where that is ≤ 0).

From m₀ on the best tail is one of counts that are published (removed: holds all that are not), so
the threshold does not matter, and without it more people never hurt: adding a record is
post-processing. So the worst m is m₀ with k = K, for every number of users: one evaluation, exact.

**One user replaces another.** Two counts change, one up and one down, independently. Merged
counts tell less than counts, and δ is an expectation over the loss of the second, so a pair that
dominates the worst of all second counts (the chords of its profile) gives an upper end with the
worst first count inside. The lower end is the worst of some pairs of counts that can exist.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.numerics.precision import (
    Floats,
    Wide,
    down,
    exp_ends,
    exp_minus_one,
    gamma,
    up,
    wide,
    wide_exponential,
)

_MOST_THRESHOLD = 1_000
_LEAST_RATE = Fraction(1, 10**6)
_CHUNK = 4_096
_NEGLIGIBLE = 1e-25
_NODES = 48
"""Nodes of the profile of the second count."""
_FEW_COUNTS = 2_000
"""Up to so many people of one value a lower end is looked for among pairs of counts."""
_LARGEST_EPSILON = 700.0
"""From here on only a sure sign is above e^ε: delta is p^K, whatever epsilon is."""
_DOUBLE = 1e-9
"""What logarithms and products in double precision may be off, many times over."""


@dataclass(frozen=True, init=False)
class SampleAndThreshold(Mechanism):
    """Each user is sampled with ``sampling_rate``; counts from ``threshold`` on are published.

    ``neighbours`` are ``"add-remove"`` (exact) or ``"replace-one"`` (a proven bracket). Whoever
    samples and counts is trusted: there is no local guarantee.

    >>> counts = SampleAndThreshold(sampling_rate="0.105", threshold=20, neighbours="add-remove")
    >>> f"{counts.delta(1.0).upper:.3g}"
    '6.48e-15'
    """

    sampling_rate: Fraction
    threshold: int
    neighbours: str  # type: ignore[misc]

    view = "counts"
    document_name = "sample-and-threshold"
    document_fields = ("sampling_rate", "threshold", "neighbours")
    document_fractions = ("sampling_rate",)

    def __init__(
        self,
        *,
        sampling_rate: float | str | Fraction,
        threshold: int,
        neighbours: str = "replace-one",
    ) -> None:
        rate = checks.probability("sampling rate", sampling_rate, below=Fraction(1))
        if not _LEAST_RATE <= rate <= 1 - _LEAST_RATE:
            raise InvalidInput("sampling rate", "from 1e-6 to 1 - 1e-6", sampling_rate)
        object.__setattr__(self, "sampling_rate", rate)
        least = checks.whole("threshold", threshold, least=1, most=_MOST_THRESHOLD)
        object.__setattr__(self, "threshold", least)
        kind = checks.choice("neighbours", neighbours, ("add-remove", "replace-one"))
        object.__setattr__(self, "neighbours", kind)

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return ``exact`` where one count changes; where two do, the upper end is a bound."""
        return "exact" if self.neighbours == "add-remove" else "upper-bound"

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words: none."""
        return (
            f"any number of users, each sampled with probability {float(self.sampling_rate):.6g}, "
            f"counts from {self.threshold} on published"
        )

    @property
    def local_epsilon(self) -> float:
        """Return infinity: whoever counts sees values in clear."""
        return math.inf

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta over all counts, in both directions."""
        wanted = min(checks.epsilon(epsilon), _LARGEST_EPSILON)
        if self.neighbours == "add-remove":
            return self._one_count(wanted)
        upper = self._two_counts_upper(wanted)
        return Bracket(min(self._two_counts_lower(wanted), upper), upper)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon; infinite for a delta below p^K.

        K people of one value who are all in the sample give the last of them away.
        """
        target = checks.delta(delta)
        always = wide_exponential([(self.threshold, self.sampling_rate)])
        if always * (1 - 1e-15) >= target:
            return Bracket(math.inf, math.inf)
        if self.neighbours == "add-remove":
            return solve_epsilon(self._one_count, target, most=math.inf)
        return solve_epsilon(
            self.delta,
            target,
            most=math.inf,
            tolerance=1e-6,
            lower=self._two_counts_lower,
            upper=self._two_counts_upper,
        )

    def worst_count(self, epsilon: float) -> int:
        """Return how many hold the value in the worst case, the added user among them."""
        growth = exp_ends(min(checks.epsilon(epsilon), _LARGEST_EPSILON))[0]
        found = math.ceil((self.threshold - 1) / (1 - (1 - self.sampling_rate) / growth))
        return max(found, self.threshold)

    # ---------------------------------------------------------------- one count

    def _one_count(self, epsilon: float) -> Bracket:
        added, removed = _ends_added(self, epsilon), _ends_removed(self, epsilon)
        return Bracket(max(added.lower, removed.lower), max(added.upper, removed.upper))

    # ---------------------------------------------------------------- two counts

    def _two_counts_upper(self, epsilon: float) -> float:
        """Return Σ over the second count's losses of mass·δ(ε − loss), δ of the first one added."""
        total = 0.0
        for loss, mass in _dominating_losses(self.sampling_rate, self.threshold):
            rest = epsilon - loss
            if rest >= 0:
                # A hair to the left, for the rounding of the difference.
                near = max(math.nextafter(rest, -math.inf), 0.0)
                total += mass * _ends_added(self, near).upper
            else:
                # The chord of a hockey-stick from 1 at e^ε = 0 to its value at 1.
                total += mass * (1.0 - math.exp(rest) * (1.0 - _ends_added(self, 0.0).upper))
        return min(total * (1.0 + 1e-12), 1.0)

    def _two_counts_lower(self, epsilon: float) -> float:
        best = self._one_count(epsilon).lower
        # Any pair of counts that can exist gives a lower end.
        first = self.worst_count(epsilon)
        most = math.ceil(4 * self.threshold / self.sampling_rate)
        if max(first, most) > _FEW_COUNTS:
            return best
        # A little of the loss is the second count's: the first is worst for a smaller epsilon.
        largest = -math.log1p(-float(self.sampling_rate))
        firsts = {self.worst_count(max(epsilon - share * largest, 0.0)) for share in (0, 0.25, 0.5)}
        seconds = np.unique(np.geomspace(self.threshold, most, 16).astype(int))
        growth = math.exp(epsilon)
        for one in firsts:
            up_to, less = (_merged(people, self, size=one) for people in (one, one - 1))
            for two in seconds.tolist():
                fewer, more = (_merged(people, self, size=two) for people in (two - 1, two))
                gain = np.outer(up_to, fewer) * (1.0 - _DOUBLE)
                gain -= growth * (1.0 + _DOUBLE) * np.outer(less, more)
                best = max(best, float(np.maximum(gain, 0.0).sum()) * (1.0 - _DOUBLE))
        return best


@lru_cache(maxsize=4096)
def _ends_added(counts: SampleAndThreshold, epsilon: float) -> Bracket:
    rate, least = counts.sampling_rate, counts.threshold
    excess = exp_minus_one(epsilon)
    found = []
    # e^ε is known between two rationals, which nearly always have the same worst count.
    sizes = {math.ceil((least - 1) / (1 - (1 - rate) / growth)) for growth in exp_ends(epsilon)}
    for size in range(max(min(sizes), least), max(*sizes, least) + 1):
        mass, error = _mass(size - 1, least - 1, rate)
        tail, tail_error, rest = _tail_above(size - 1, least - 1, rate)
        # δ = p·b(K − 1) − a·P[Bin ≥ K], the tail as a multiple of b(K − 1). What is left out of the
        # tail is taken away from the lower end only.
        own = wide(rate) * mass
        low = own * (1 - error) - excess * mass * (tail * (1 + tail_error + error) + rest)
        high = own * (1 + error) - excess * mass * (tail * (1 - tail_error - error))
        found.append((down(low), up(high)))
    return Bracket(max(low for low, _ in found), min(max(high for _, high in found), 1.0))


@lru_cache(maxsize=4096)
def _ends_removed(counts: SampleAndThreshold, epsilon: float) -> Bracket:
    rate, least = counts.sampling_rate, counts.threshold
    under, over = exp_ends(epsilon)
    if (1 - rate) * under >= 1:
        return Bracket(0.0, 0.0)
    excess = exp_minus_one(epsilon)
    # Where θ is not surely positive nothing is found, and delta at a smaller epsilon is above.
    if (1 - rate) * over >= 1:
        return Bracket(0.0, _ends_removed(counts, math.nextafter(epsilon, 0.0)).upper)
    found = []
    sizes = {math.ceil((least - 1) / (1 - (1 - rate) * growth)) for growth in (under, over)}
    for size in {max(min(sizes), least), max(*sizes, least)}:
        mass, error = _mass(size - 1, least - 1, rate)
        below, below_error = _sum_below(size - 1, least - 1, rate)
        # δ = e^ε·p·b(K − 1) − a·P[Bin < K], the sum as a multiple of b(K − 1).
        own = (excess + 1) * wide(rate) * mass
        low = own * (1 - error) - excess * mass * below * (1 + below_error + error)
        high = own * (1 + error) - excess * mass * below * (1 - below_error - error)
        found.append((down(low), up(high)))
    return Bracket(max(low for low, _ in found), min(max(high for _, high in found), 1.0))


def _mass(trials: int, at: int, rate: Fraction) -> tuple[Any, float]:
    if at > trials:
        return Wide(0), 0.0
    ways = Fraction(math.comb(trials, at))
    mass = wide_exponential([(1, ways), (at, rate), (trials - at, 1 - rate)])
    return mass, float(gamma(8.0))


def _tail_above(trials: int, at: int, rate: Fraction) -> tuple[Any, float, Any]:
    """Return P[Bin > at]/P[Bin = at], its relative error, and what was left out at most."""
    odds = wide(rate / (1 - rate))
    total, last, begin = Wide(0), Wide(1), at
    while begin < trials:
        places = np.arange(begin, min(begin + _CHUNK, trials), dtype=Wide)
        terms = np.cumprod((trials - places) / (places + 1) * odds) * last
        total, last, begin = total + terms.sum(), terms[-1], begin + len(terms)
        ratio = (trials - begin) / Wide(begin + 1) * odds
        # Ratios fall, so from one below 1 on the rest is below a geometric series.
        if ratio < 1 and last * ratio <= _NEGLIGIBLE * total * (1 - ratio):
            rest = last * ratio / (1 - ratio)
            return total, float(gamma(6.0 * (begin - at) + 8.0)), rest
    return total, float(gamma(6.0 * (trials - at) + 8.0)), Wide(0)


def _sum_below(trials: int, at: int, rate: Fraction) -> tuple[Any, float]:
    """Return P[Bin ≤ at]/P[Bin = at] and its relative error: a sum of at + 1 positive terms."""
    places = np.arange(at, 0, -1, dtype=Wide)
    inverse = wide((1 - rate) / rate)
    terms = np.cumprod(places / (trials - places + 1) * inverse)
    return 1 + terms.sum(), float(gamma(6.0 * at + 8.0))


@lru_cache(maxsize=64)
def _dominating_losses(rate: Fraction, least: int) -> tuple[tuple[float, float], ...]:
    """Return losses and masses of a pair above every count that may be the second one.

    The profile Φ(x) = Σ (P − xQ)₊ of a pair is convex in x = e^ε and 1 at x = 0, so the chords
    between some of its upper ends are above it; they are the profile of the pair that has the
    ratio x at each node, with x times the change of slope there for its mass. Beyond 1/(1 − p)
    it is 0.
    """
    counts = SampleAndThreshold(sampling_rate=rate, threshold=least, neighbours="add-remove")
    # Up: no ratio is above the last node.
    nodes = np.linspace(1.0, up(1 / (1 - rate)), _NODES).tolist()
    heights = [1.0]
    for node in nodes[:-1]:
        # Down: a profile at a smaller epsilon is above.
        logarithm = math.nextafter(math.nextafter(math.log(node), 0.0), 0.0)
        heights.append(_ends_removed(counts, logarithm).upper)
    # Exactly: the rarest losses have masses far below the rounding of the slopes.
    places = [Fraction(0), *map(Fraction, nodes)]
    values = [*map(Fraction, heights), Fraction(0)]
    slopes = [
        (after - before) / (there - here)
        for (before, after), (here, there) in zip(pairwise(values), pairwise(places), strict=True)
    ]
    changes = [
        max(after - before, Fraction(0)) for before, after in pairwise([*slopes, Fraction(0)])
    ]
    # Up: a loss that is larger, and a mass that is, promise less.
    return tuple(
        (up(math.log(node)), up(wide(Fraction(node) * change)))
        for node, change in zip(nodes, changes, strict=True)
    )


def _merged(people: int, counts: SampleAndThreshold, *, size: int) -> Floats:
    """Return the law of a published count (none, K, …, size) of so many people, in doubles."""
    rate, least = float(counts.sampling_rate), counts.threshold
    factorials = np.cumsum(np.log(np.maximum(np.arange(size + 1), 1.0)))
    places = np.arange(people + 1)
    ways = factorials[people] - factorials[places] - factorials[people - places]
    law = np.exp(ways + places * math.log(rate) + (people - places) * math.log1p(-rate))
    found = np.zeros(size + 2 - least)
    found[0] = law[:least].sum()
    found[1 : 1 + max(people + 1 - least, 0)] = law[least:]
    return found
