"""One bit per user, flipped and shuffled; copies of it; fake bits among them (S0 §4, S1 §5).

``SumMechanism`` is everything of which the analyzer sees one sum of flipped bits: these, and
the total of encoded numbers. Which crowd the others are is not known, so every number is a
maximum over crowds (see ``crowds``), in both directions.
"""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from chaffinch.errors import GuaranteeNotProven, InvalidInput, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.mechanisms.bit_crowds import (
    SMALL_CROWD,
    BitCrowds,
    Crowd,
    as_arrays,
    ask_delta,
    ask_mu,
)
from chaffinch.privacy.mechanisms.crowd_runs import proven_by_runs
from chaffinch.privacy.numerics import crowds
from chaffinch.privacy.numerics.laws import target_bits
from chaffinch.privacy.numerics.loss import Knots
from chaffinch.privacy.numerics.precision import (
    LARGEST_EXPONENT,
    LEAST_TAIL,
    Floats,
    Wide,
    exp_minus_one,
)
from chaffinch.privacy.numerics.roots import find_crossing
from chaffinch.privacy.progress import count_step
from chaffinch.privacy.tradeoff import TradeOff, check_levels, local_mu, lower_hull, search_mu

_SMALLEST_DELTA = 1e-300
_LEAST_EPSILON = 1e-9
"""Below this an epsilon is as good as none: only its upper end is kept tight."""
_MOST_ENUMERATED = 10_000
COARSE = 0.02
"""A relative width of delta that costs about a thousandth of epsilon."""
FEW_CROWDS = 300
"""How many boxes of crowds a short search may look at."""
_FINE = 1e-3
"""The relative width of delta that a quick answer along the ridge has."""
_WIDER = 4.0
"""How much wider a delta is asked for along the ridge where it could not be had so narrow."""
_MANY_COPIES = 64
_ROUGH = 0.5
"""The relative width of a delta that only says where a profile ends."""
_WIDENING = 2.0
"""How much wider a bracket of the profile may be for each factor e that its delta is smaller."""
_STEEP = 250.0
"""From this variance on a short search over crowds proves too little."""
_MOST_CORNERS = 50
_CELLS, _FEWEST_CELLS, _MOST_CELLS = 200.0, 3, 20
"""So many cells times the skewness of one bit's sum, by which crowds differ; from three on."""
_RUNS = 1_000
"""So many runs lose a forty-thousandth of epsilon to the records that differ within each."""
_MOST_PRODUCTS, _ALL_PRODUCTS = 2 * 10**8, 10**10
"""A sum of two kinds of others in a search for mu, and all of them: some seconds."""
_MOST_ADDED = 1_000
"""Rounds with so many bits of the target in all are also added up and seen as one sum."""
_FEWER = 0.9
"""The share of the records that is tried where all of them are too many."""
_MU_ON_RIDGE, _SHARE_ON_RIDGE, _MOST_LINES = 1e-3, 1e-4, 500
"""The relative width of a mu along the ridge and of the deltas for it, and how many of these."""
_FEWEST_SUMS, _MOST_SUMS = 150, 5_000
"""So many crowds are asked for mu at least, and at most."""
_DELTA_WIDTH = {True: 1e-9, False: 1e-4}
_EPSILON_WIDTH = {True: 1e-9, False: 4e-6}
_CURVE_WIDTH = {True: 1e-9, False: 1e-4}
_WIDE_WIDTH = 1e-5
"""Relative widths of a delta that is to give a line below the trade-off curve."""


class SumMechanism(Mechanism):
    """A mechanism whose view is one sum: everything follows from its ``bit_crowds``."""

    method: Method = "exact"

    @property
    @abstractmethod
    def bit_crowds(self) -> BitCrowds:
        """Return the crowds this collection may have."""

    @property
    def local_epsilon(self) -> float:
        """Return copies · ln(p/q), rounded up."""
        return self.bit_crowds.steepest

    def delta(self, epsilon: float, *, relative_width: float | None = None) -> Bracket:
        """Return the bracket of the worst hockey-stick delta over all crowds.

        Promises   lower ≤ truth ≤ upper; the relative width is at most ``relative_width``
                   (1e-9 up to 10⁴ others, 1e-4 beyond) or GuaranteeNotProven is raised.
                   Below 1e-300 only the upper end is kept tight.
        """
        epsilon = checks.epsilon(epsilon)
        width = self._width(relative_width, _DELTA_WIDTH)
        if epsilon >= self.bit_crowds.steepest:
            return Bracket(0.0, 0.0)
        on_ridge = self._ridge_bracket(epsilon, width)
        if on_ridge is not None and on_ridge.upper - on_ridge.lower <= width * on_ridge.upper:
            return on_ridge
        tail, aim = self._tail(epsilon, width)
        # Half the width for the search, the other half for windows and rounding.
        search = crowds.find_worst(
            self.bit_crowds.boxes,
            self.bit_crowds.bound_of(ask_delta(epsilon), tail, aim),
            width=width / 2,
            floor=_SMALLEST_DELTA,
        )
        return _bracket_of("delta", search, width, floor=_SMALLEST_DELTA)

    def delta_bound(self, epsilon: float) -> float:
        """Return what a short search proves: a few percent above delta where crowds differ."""
        epsilon = checks.epsilon(epsilon)
        if epsilon >= self.bit_crowds.steepest:
            return 0.0
        on_ridge = self._ridge_bracket(epsilon, _FINE)
        if on_ridge is not None:
            return on_ridge.upper
        tail, aim = self._tail(epsilon, COARSE)
        search = crowds.find_worst(
            self.bit_crowds.boxes,
            self.bit_crowds.bound_of(ask_delta(epsilon), tail, aim),
            width=COARSE / 2,
            floor=_SMALLEST_DELTA,
            most_evaluations=FEW_CROWDS,
        )
        return min(float(search.upper[0]), 1.0)

    def delta_within(self, epsilon: float, most: float) -> float:
        """Return an upper end of delta that is at most ``most``, if that is true and proven.

        Of a narrow sum a few runs of crowds answer that to eight digits, and sooner than
        ``delta_bound`` finds a number that is a percent too large. Wide sums have quick brackets.
        """
        among = self.bit_crowds
        if epsilon < self.local_epsilon and not (among.is_wide or among.fixed_zeros):
            judged = proven_by_runs(among, epsilon, most)
            if judged is not None:
                return judged
        return super().delta_within(epsilon, most)

    def epsilon(self, delta: float, *, relative_width: float | None = None) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta`` for every crowd.

        Its relative width is at most ``relative_width`` (1e-9 up to 10⁴ others, 4e-6 beyond) or
        GuaranteeNotProven is raised. Unless it was asked for, more than 64 copies near a flip
        probability of one half may have a wider one, which takes seconds instead of minutes.
        """
        delta = checks.delta(delta)
        width = self._width(relative_width, _EPSILON_WIDTH)
        on_ridge = self._ridge_epsilon(delta, width)
        if on_ridge is not None:
            narrow = on_ridge.upper - on_ridge.lower <= width * on_ridge.upper
            # A search over crowds with so many bits each takes minutes: nobody asked for that.
            if narrow or (relative_width is None and self.bit_crowds.copies > _MANY_COPIES):
                return on_ridge
        # A test is judged by its level, about delta·e^−epsilon: the tail must not show there.
        about = Crowd(self.bit_crowds, 0).epsilon(delta).upper
        tail = max(Wide(delta) * width * 1e-4 * np.exp(Wide(-about)), LEAST_TAIL)

        def ask(knots: Knots, spread: float) -> crowds.Ends:
            return as_arrays(knots.epsilon(delta, spread=spread))

        search = crowds.find_worst(
            self.bit_crowds.boxes,
            self.bit_crowds.bound_of(ask, tail, delta),
            width=width / 2,
            floor=_LEAST_EPSILON,
        )
        return _bracket_of("epsilon", search, width, floor=_LEAST_EPSILON)

    def _ridge_bracket(self, epsilon: float, width: float) -> Bracket | None:
        """Return delta along the ridge of best thresholds, where the sum is wide enough."""
        if not self.bit_crowds.is_wide:
            return None
        if epsilon >= self.bit_crowds.steepest:
            return Bracket(0.0, 0.0)
        found = self.bit_crowds.ridge_delta(epsilon, width)
        return None if found is None else found[0]

    def _require_ridge_bracket(self, epsilon: float, width: float) -> Bracket:
        found = self._ridge_bracket(epsilon, width)
        if found is None:
            raise GuaranteeNotProven("delta", asked=width, lower=0.0, upper=1.0)
        return found

    def _ridge_epsilon(self, delta: float, width: float) -> Bracket | None:
        if not self.bit_crowds.is_wide:
            return None
        seen: dict[float, float] = {}

        def rough(epsilon: float) -> float:
            seen[epsilon] = self._require_ridge_bracket(epsilon, COARSE).upper
            return seen[epsilon]

        guess = self.bit_crowds.guess_epsilon(delta)
        try:
            _, near = find_crossing(
                rough, delta, top=self.local_epsilon, tolerance=_FINE, guess=guess
            )
            # ln(delta) falls ``slope`` times as fast as ln(epsilon) rises: as much wider may
            # delta be. A wrong slope costs steps, or a bracket that is refused for its width.
            places = [(e, d) for e, d in seen.items() if 0 < e < 0.97 * near and d > 0]
            slope = max((math.log(d / delta) / math.log(near / e) for e, d in places), default=1.0)
        except GuaranteeNotProven:
            return None
        if near == 0:
            return Bracket(0.0, 0.0)
        share = min(max(slope, 1.0) * width / 8, COARSE)
        # Near q = 1/2 rounding takes a part of delta that no work brings back: the next is wider.
        while share <= COARSE:
            with suppress(GuaranteeNotProven):
                return solve_epsilon(
                    partial(self._require_ridge_bracket, width=share),
                    delta,
                    most=self.local_epsilon,
                    tolerance=width / 3,
                    guess=near,
                )
            share *= _WIDER
        return None

    def profile(
        self, epsilons: Floats, *, relative_width: float = 1e-3, steady: bool = False
    ) -> tuple[Floats, Floats]:
        """Return both ends of the worst delta at many epsilons, from one search.

        The width is ``relative_width`` where delta is largest and grows with its logarithm, so
        that it stays about even in epsilon; with ``steady`` it is the same everywhere. Below
        1e-17 (1e-13 beyond 10⁴ others) only the upper end is kept, and not tight.
        """
        on_ridge = self._ridge_profile(epsilons, min(relative_width, _FINE), steady=steady)
        if on_ridge is not None:
            return on_ridge
        search = self._profile_search(epsilons, relative_width, steady=steady)
        return search.lower, search.upper

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return what a short search proves of delta at many epsilons."""
        # Where crowds differ little a short search over them covers all epsilons at once.
        if self.bit_crowds.variance >= _STEEP:
            on_ridge = self._ridge_profile(epsilons, COARSE, steady=False)
            if on_ridge is not None:
                return on_ridge[1]
        return self._profile_search(epsilons, COARSE, steady=False, most=FEW_CROWDS).upper

    def _ridge_profile(
        self, epsilons: Floats, width: float, *, steady: bool
    ) -> tuple[Floats, Floats] | None:
        """Return both ends of delta at many epsilons (rising ones, unless steady) on the ridge."""
        found: list[tuple[float, float]] = []
        share = width
        for epsilon in epsilons:
            bracket = self._ridge_bracket(checks.epsilon(float(epsilon)), share)
            if bracket is None:
                return None
            found.append((bracket.lower, bracket.upper))
            if not steady and bracket.lower > 0:
                # About as wide in epsilon everywhere: a small delta falls faster.
                share = width * max(1.0, 1.0 + _WIDENING * math.log(found[0][1] / bracket.lower))
        lower, upper = np.array(found).T
        return lower, upper

    def _profile_search(
        self, epsilons: Floats, relative_width: float, *, steady: bool, most: int = 5_000
    ) -> crowds.Search:
        nodes = np.array([checks.epsilon(float(e)) for e in epsilons])

        def ask(knots: Knots, spread: float) -> crowds.Ends:
            return knots.deltas(nodes, spread=spread)

        def width_at(base: Floats) -> Floats:
            # A small delta falls faster in epsilon, so it may be off by more: about as wide in
            # epsilon.
            widths: Floats = relative_width * (1.0 + _WIDENING * np.log(base.max() / base))
            return widths

        return crowds.find_worst(
            self.bit_crowds.boxes,
            # No aim: a law that was tilted and cut is not for `Knots.deltas`.
            self.bit_crowds.bound_of(ask, 1e-24),
            width=relative_width if steady else width_at,
            floor=self.profile_floor,
            most_evaluations=most,
        )

    def profile_end(self) -> float:
        """Return about the epsilon where delta falls below the profile's floor, from above."""

        def rough(epsilon: float) -> float:
            return self._require_ridge_bracket(epsilon, _ROUGH).upper

        floor = self.profile_floor
        if self.bit_crowds.is_wide:
            guess, top = self.bit_crowds.guess_epsilon(floor), self.local_epsilon
            with suppress(GuaranteeNotProven):
                return find_crossing(rough, floor, top=top, tolerance=COARSE, guess=guess)[1]
        return super().profile_end()

    @property
    def profile_floor(self) -> float:  # type: ignore[override]
        """Return the delta below which the profile is not followed."""
        return 1e-17 if self.bit_crowds.last <= SMALL_CROWD or self.bit_crowds.is_wide else 1e-13

    @property
    def profile_nodes(self) -> int:  # type: ignore[override]
        """Return how many epsilons to describe the profile by: fewer where they cost more."""
        if self.bit_crowds.is_wide:
            return 129
        return 257 if self.bit_crowds.last <= SMALL_CROWD else 65

    def pointwise(self, epsilon: float) -> Bracket:
        """Return the worst P[loss > epsilon] by asking every crowd.

        It is not monotone in the crowd (adding a record can raise it), so nothing but
        enumeration proves a maximum: refused above 10,000 others.
        """
        epsilon = checks.epsilon(epsilon)
        others = self.bit_crowds.last
        if others > _MOST_ENUMERATED:
            raise InvalidInput(
                "number of others",
                f"at most {_MOST_ENUMERATED} for the point-wise quantity",
                others,
                hint="ask a given crowd instead: mechanism.crowd(ones=…).pointwise(epsilon)",
            )
        # Adding a record can raise it: no box of crowds has a bound.
        ends = [self.crowd(ones=ones).pointwise(epsilon) for ones in range(others + 1)]
        return Bracket(max(e.lower for e in ends), max(e.upper for e in ends))

    def gaussian_mu(self, *, relative_width: float | None = None) -> Bracket:
        """Return the bracket of the smallest mu with mu-GDP for every crowd (S3, corrected).

        Any single test may decide mu, however rare its outcomes. Where these are rarer than
        1e-4000, or too many sums would have to be searched, mu follows from deltas at hundreds
        of epsilons, which are known to any depth: both ends are then about 1e-3 apart, at most a
        few percent. With ``relative_width`` GuaranteeNotProven is raised where that is not
        narrow enough; without, the width is 1e-6 where that is possible.
        """
        width = checks.real(
            "relative width",
            1e-6 if relative_width is None else relative_width,
            least=1e-12,
            most=1.0,
        )
        found = _mu_of(self.bit_crowds, width)
        if relative_width is not None and found.relative_width > width:
            raise GuaranteeNotProven("mu", asked=width, lower=found.lower, upper=found.upper)
        return found

    def seen_mu(self, times: int) -> float:
        """Return a lower end of mu of so many rounds: what their total shows of zeros alone."""
        among = self.bit_crowds.added_up(times)
        few = among.copies <= _MOST_ADDED
        return max(among.corner_mu, _mu_of_zeros(among) if few else 0.0)

    def tradeoff(self, alphas: Floats) -> TradeOff:
        """Return both ends of the exact trade-off curve at the levels ``alphas``.

        The lower end is the largest line 1 − delta − e^epsilon·alpha over the slopes that
        matter (worst crowd, both orders), a lower convex envelope by construction; the
        upper end is what the best tests achieve against the worst crowds seen.
        """
        levels = check_levels(alphas)
        among, tail = self.bit_crowds, 1e-20
        width = _CURVE_WIDTH[among.last <= SMALL_CROWD]

        def ask(knots: Knots, _: float) -> crowds.Ends:
            return knots.power(levels)

        # Crowds that are worst at some level; each may bring corners at which another one is.
        seen = {0}
        if not among.is_wide:
            bound = among.bound_of(ask, tail)
            search = crowds.find_worst(among.boxes, bound, width=width, most_evaluations=2000)
            seen = {crowd.low[0] for crowd in search.best}
        while True:
            corners = [
                among.knots(ones, ones, mirrored=mirrored, tail=tail).vertices()
                for ones in seen
                for mirrored in (False, True)
            ]
            x, y = lower_hull(*(np.concatenate(part) for part in zip(*corners, strict=True)))
            nodes = _hull_slopes(x, y, levels, among.steepest)
            proven, worst = self._worst_crowds(nodes, width)
            if worst <= seen or len(seen) > _MOST_CORNERS:
                break
            seen |= worst
        return TradeOff.from_profile(levels, nodes, proven, upper=np.interp(levels, x, y))

    def _worst_crowds(self, epsilons: Floats, width: float) -> tuple[Floats, set[int]]:
        found = [
            self.bit_crowds.ridge_delta(checks.epsilon(float(epsilon)), max(width, _WIDE_WIDTH))
            for epsilon in (epsilons if self.bit_crowds.is_wide else ())
        ]
        on_ridge = [one for one in found if one is not None]
        if on_ridge and len(on_ridge) == len(epsilons):
            return np.array([one.upper for one, _ in on_ridge]), {crowd for _, crowd in on_ridge}
        # Of a narrow sum, or where the ridge fails at one epsilon, one search answers for all.
        search = self._profile_search(epsilons, width, steady=True)
        return search.upper, {crowd.low[0] for crowd in search.best}

    def sides(self) -> tuple[Mechanism, Mechanism]:
        """Return the crowds in one order, and in the other."""
        one, two = self.bit_crowds.sides
        return _OneOrder(one), _OneOrder(two)

    def cells(self, epsilons: Floats) -> list[tuple[Floats, Floats]] | None:
        """Return upper ends of delta for crowds by their share of ones, in both orders.

        A crowd with more ones than zeros is the mirror image of one with fewer. Each cell is cut
        into runs of crowds, which stay below the records that all crowds of a run have.
        """
        among = self.bit_crowds
        if among.fixed_zeros or not among.last:
            return None
        # The skewness of one bit's sum: to the first order it is all by which crowds differ.
        skew = (1 - 2 * float(among.flip)) / math.sqrt(among.variance)
        number = min(math.ceil(_CELLS * skew), _MOST_CELLS)
        if number < _FEWEST_CELLS:
            return None
        edges = _cut(0, among.last // 2 + 1, number)
        found = []
        for cell in edges:
            runs = _cut(*cell, _RUNS // number)
            ends = [
                self._upper_deltas_of_runs(runs, epsilons, mirrored=order)
                for order in (False, True)
            ]
            found.append((ends[0], ends[1]))
        return found

    def _upper_deltas_of_runs(
        self, runs: list[tuple[int, int]], epsilons: Floats, *, mirrored: bool
    ) -> Floats:
        worst = np.zeros(len(epsilons))
        for first, end in runs:
            count_step("runs of crowds")
            # No aim, so nothing is tilted and cut: `Knots.upper_deltas` does not look behind a cut.
            knots = self.bit_crowds.knots(first, end - 1, mirrored=mirrored, tail=1e-24)
            worst = np.maximum(worst, knots.upper_deltas(epsilons))
        return worst

    def instance(self) -> tuple[Floats, Floats]:
        """Return the laws of the sum when nobody else holds a one."""
        others = self.bit_crowds.others(0, 0, mirrored=False, tail=1e-19, aim=1.0)
        target = target_bits(self.bit_crowds.copies, self.bit_crowds.flip)
        zero, one = np.convolve(others.mass, target.zero), np.convolve(others.mass, target.one)
        return zero.astype(np.float64), one.astype(np.float64)

    def crowd(self, *, ones: int) -> Crowd:
        """Return the same questions for one given crowd instead of the worst."""
        return Crowd(
            self.bit_crowds, checks.whole("number of ones", ones, most=self.bit_crowds.last)
        )

    def _width(self, asked: float | None, default: dict[bool, float]) -> float:
        if asked is None:
            return default[self.bit_crowds.last <= SMALL_CROWD]
        return checks.real("relative width", asked, least=1e-12, most=1.0)

    def _tail(self, epsilon: float, width: float) -> tuple[Any, Any]:
        """Return a tail too small to be seen beside delta, and a guess of delta, by trying."""
        ratio = exp_minus_one(min(epsilon, LARGEST_EXPONENT)) + 1
        tail, aim = Wide(1e-30), Wide(1.0)
        while True:
            low, high = Crowd(self.bit_crowds, 0).ends(ask_delta(epsilon), tail, aim)
            # A thousandth of the width, and e^−ε of that: a test is judged by its level.
            enough = Wide(low[0]) * width * 1e-3 / ratio
            if tail <= enough or tail == LEAST_TAIL or high[0] < _SMALLEST_DELTA * 1e-6:
                return tail, max(Wide(low[0]), Wide(_SMALLEST_DELTA))
            aim = min(Wide(high[0]), aim)
            tail = max(enough * 0.1 if enough > 0 else tail**2, LEAST_TAIL)


def _mu_of(among: BitCrowds, width: float) -> Bracket:
    """Return both ends of the worst mu; the upper one of fewer records where sums are too long.

    Adding records never hurts, so what is proven of fewer holds of these.
    """
    seen = _mu_of_zeros(among)
    tail = among.mu_tail(seen)
    products = among.products(tail)
    if products > _MOST_PRODUCTS or (tail <= LEAST_TAIL and among.last > SMALL_CROWD):
        seen = max(seen, among.corner_mu)
        if among.is_wide:
            found = Bracket(*_mu_on_ridge(among, seen, width))
            if not math.isinf(found.upper):
                return found
        # A window is about as long as there are records, both for their number and their mu.
        fewer = among.fewer(min(math.sqrt(_MOST_PRODUCTS / products), _FEWER))
        return Bracket(seen, max(_mu_of(fewer, width).upper, seen))
    search = crowds.find_worst(
        among.boxes,
        among.bound_of(ask_mu, tail, with_miss=True),
        width=width / 2,
        floor=1e-300,
        most_evaluations=max(_FEWEST_SUMS, min(_MOST_SUMS, _ALL_PRODUCTS // products)),
    )
    # Whatever is searched, nobody loses more than the local guarantee.
    upper = min(float(search.upper[0]), local_mu(among.steepest))
    return Bracket(min(float(search.lower[0]), upper), upper)


def _mu_on_ridge(among: BitCrowds, seen: float, width: float) -> tuple[float, float]:
    def ends(epsilon: float) -> tuple[float, float] | None:
        found = among.ridge_logs(epsilon, _SHARE_ON_RIDGE)
        return None if found is None else found[:2]

    return search_mu(
        ends, among.steepest, seen=seen, width=max(width, _MU_ON_RIDGE), most=_MOST_LINES
    )


def _mu_of_zeros(among: BitCrowds) -> float:
    # One binomial law, which can be followed as far as floats go.
    bound = among.bound_of(ask_mu, LEAST_TAIL, with_miss=True)
    zeros = [crowds.Box((0,), (0,), mirrored) for mirrored in among.directions]
    return max(float(bound(box)[0][0]) for box in zeros)


def _cut(first: int, end: int, number: int) -> list[tuple[int, int]]:
    """Return at most so many intervals, end excluded, that make up the one from first to end.

    >>> _cut(0, 10, 3)
    [(0, 3), (3, 6), (6, 10)]
    """
    edges = sorted({first + (end - first) * place // number for place in range(number + 1)})
    return [*itertools.pairwise(edges)]


def _hull_slopes(x: Floats, y: Floats, levels: Floats, steepest: float) -> Floats:
    """Return the |log slopes| of the hull's edges around each level, as epsilons to ask at."""
    # Vertical and flat edges have no logarithm of a slope; a tiny number stands for 0.
    runs = np.maximum(np.diff(x), 1e-300)
    slopes = np.abs(np.log(np.maximum(-np.diff(y), 1e-300) / runs))
    right = np.clip(np.searchsorted(x, levels, side="right") - 1, 0, len(slopes) - 1)
    left = np.clip(np.searchsorted(x, levels, side="left") - 1, 0, len(slopes) - 1)
    return np.unique(np.minimum(np.concatenate([slopes[right], slopes[left], [0.0]]), steepest))


def _bracket_of(quantity: str, search: crowds.Search, width: float, *, floor: float) -> Bracket:
    lower, upper = float(search.lower[0]), float(search.upper[0])
    if math.isnan(upper) or (upper > floor and upper - lower > width * upper):
        raise GuaranteeNotProven(quantity, asked=width, lower=lower, upper=upper)
    return Bracket(lower, upper)


@dataclass(frozen=True)
class _OneOrder(SumMechanism):
    """Some crowds, and only one order of the pair in each: for the losses of many rounds."""

    among: BitCrowds

    view = "messages"

    @property
    def bit_crowds(self) -> BitCrowds:
        return self.among

    @property
    def crowd_words(self) -> str:
        return f"{self.among.last} others"


@dataclass(frozen=True, init=False)
class FlippedBits(SumMechanism):
    """Each user flips a bit with ``flip_probability``, ``copies`` times over, and sends them all.

    ``decoys`` more records of value zero are flipped and sent alike. The analyzer sees the
    sum. ``users`` are the honest ones a guarantee counts on, the target among them.

    >>> FlippedBits(users=20, flip_probability="0.05").delta(0.2).upper.__round__(9)
    0.378258922
    """

    users: int
    flip_probability: Fraction
    copies: int
    decoys: int

    view = "messages"
    document_name = "flipped-bits"
    document_fields = ("users", "flip_probability", "copies", "decoys")
    document_fractions = ("flip_probability",)

    def __init__(
        self,
        *,
        users: int,
        flip_probability: float | str | Fraction,
        copies: int = 1,
        decoys: int = 0,
    ) -> None:
        object.__setattr__(self, "users", checks.people("number of users", users))
        object.__setattr__(self, "flip_probability", checks.flip_probability(flip_probability))
        object.__setattr__(
            self, "copies", checks.whole("number of copies", copies, least=1, most=10_000)
        )
        object.__setattr__(self, "decoys", checks.whole("number of decoys", decoys))

    @property
    def bit_crowds(self) -> BitCrowds:
        """Return the crowds: every other user holds 0 or 1, every decoy holds 0."""
        return BitCrowds(
            flip=self.flip_probability,
            copies=self.copies,
            step=self.copies,
            last=self.users - 1,
            fixed_zeros=self.decoys * self.copies,
        )

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        fakes = f" and {self.decoys} decoys" if self.decoys else ""
        return f"{self.users} honest users{fakes}"
