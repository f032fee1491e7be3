"""One value out of d, every bit of its one-hot vector flipped, with decoys (S0 §5.2, §5.3).

Only the messages view is offered: the sums at every value. Whole flipped records would give
their senders away (see docs/concepts/views.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from chaffinch import privacy
from chaffinch.errors import GuaranteeNotProven, InvalidInput, checks
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.mechanisms.bits import COARSE, FEW_CROWDS, FlippedBits
from chaffinch.privacy.mechanisms.value_crowds import ValueCrowds, clip_box
from chaffinch.privacy.numerics import crowds
from chaffinch.privacy.numerics.decoyed_sums import UniformDecoys
from chaffinch.privacy.numerics.laws import sum_of_flips, target_bits
from chaffinch.privacy.numerics.pairs import SideTests, pair_delta, side_tests
from chaffinch.privacy.numerics.precision import LEAST_TAIL, Floats, Wide, log_of_power

_WIDTH = 1e-3
_WIDE = 300.0
"""Sums of at least this variance are too wide for a search over pairs of crowds."""
_MOST_CROWDS = 4_000
_MOST_OUTCOMES = 1_000_000
_DEEPEST = 1e-30
"""Below this delta a crowd among decoys is not searched: what holds for any crowd is told."""


@dataclass(frozen=True, init=False)
class FlippedValues(Mechanism):
    """Users and decoys send the indices of the set bits of their flipped one-hot vectors.

    ``users`` hold a value each (the target among them), ``decoys`` uniform ones are added,
    every bit is flipped with ``flip_probability``. Neighbours: one user's value changes, so
    two sums move.
    """

    users: int
    decoys: int
    values: int
    flip_probability: Fraction

    view = "messages"
    document_name = "flipped-values"
    document_fields = ("users", "values", "flip_probability", "decoys")
    document_fractions = ("flip_probability",)

    def __init__(
        self,
        *,
        users: int,
        values: int,
        flip_probability: float | str | Fraction,
        decoys: int = 0,
        view: str = "messages",
    ) -> None:
        if view == "records":
            raise InvalidInput(
                "view",
                "'messages' for flipped values",
                view,
                hint="the multiset of whole flipped records is not private at these settings: "
                "a record with one set bit names its sender's value; send the indices of the "
                "set bits as separate messages",
            )
        checks.choice("view", view, ("messages",))
        object.__setattr__(self, "users", checks.people("number of users", users))
        object.__setattr__(self, "decoys", checks.whole("number of decoys", decoys))
        object.__setattr__(
            self, "values", checks.whole("number of values", values, least=2, most=10**6)
        )
        object.__setattr__(self, "flip_probability", checks.flip_probability(flip_probability))

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return ``exact`` where every pair of crowds is searched.

        With decoys, and of wide sums, which are composed, the upper end is a proven bound.
        """
        return "upper-bound" if self.decoys or self._is_wide else "exact"

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        fakes = f" and {self.decoys} decoys" if self.decoys else ""
        return f"{self.users} honest users{fakes} over {self.values} values"

    @property
    def local_epsilon(self) -> float:
        """Return 2 ln(p/q): two bits of the one-hot vector differ."""
        flip = self.flip_probability
        return log_of_power((1 - flip) / flip, 2)

    def delta(self, epsilon: float, *, relative_width: float | None = None) -> Bracket:
        """Return the bracket of the worst delta over all crowds and both directions.

        Without decoys both ends close to 1e-3, or as far as a few thousand crowds allow; a
        ``relative_width`` that is asked for is reached or GuaranteeNotProven is raised. With
        decoys the upper end is of the two sums and how many decoys are on the two values, and
        the lower end of the two sums alone for a crowd that is often the worst (see
        `decoyed_sums`): a width of the bracket that no search closes.
        """
        epsilon = checks.epsilon(epsilon)
        width = _WIDTH
        if relative_width is not None:
            width = checks.real("relative width", relative_width, least=1e-9, most=1.0)
        if epsilon >= self.local_epsilon:
            return Bracket(0.0, 0.0)
        if self.decoys:
            return self._decoyed_delta(epsilon)
        if relative_width is None and self._is_wide:
            return self._delta_of_two_sums(epsilon)
        search = self._worst(epsilon, width)
        lower, upper = float(search.lower[0]), float(search.upper[0])
        if relative_width is not None and upper > 1e-300 and upper - lower > width * upper:
            raise GuaranteeNotProven("delta", asked=width, lower=lower, upper=upper)
        return Bracket(lower, upper)

    def delta_bound(self, epsilon: float) -> float:
        """Return what a short search proves: a few percent above delta where crowds differ."""
        epsilon = checks.epsilon(epsilon)
        if epsilon >= self.local_epsilon:
            return 0.0
        if self._is_wide:
            return self._two_sums.delta_bound(epsilon)
        # Given where the decoys fell they are users of some value, and every crowd is covered.
        # Only two values matter then, and whether there is a third.
        records = self.users + self.decoys
        return _short_search(records, min(self.values, 3), self.flip_probability, epsilon)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``.

        The lower end comes from the worst crowd found; the upper end is the first of a few
        growing steps above it at which the whole search proves a delta small enough.
        """
        target = checks.delta(delta)
        if self.decoys:
            return self._decoyed_epsilon(target)
        if self._is_wide:
            return self._epsilon_of_two_sums(target)
        lower = self._crowd_epsilon((self.users - 1, 0), target)
        for _ in range(4):
            found = self._worst(lower, _WIDTH).best[0].low
            higher = self._crowd_epsilon(found, target)
            if higher <= lower:
                break
            lower = higher
        # The worst crowd at the lower end need not be the worst above it: only the whole search
        # proves an epsilon, and each try costs one.
        step = 0.25 * _WIDTH
        while True:
            # An epsilon of 0 does not grow by shares: after a few tries a little is added.
            absolute = 1e-9 * (step / _WIDTH) if step > _WIDTH else 0.0
            upper = min(lower * (1 + step) + absolute, self.local_epsilon)
            if self.delta(upper).upper <= target:
                break
            step *= 2
        # Two bits one by one lose no less; close to the local epsilon a step may be longer.
        upper = min(upper, self._two_sums.summed_epsilon(target))
        return Bracket(min(lower, upper), upper)

    @property
    def _is_wide(self) -> bool:
        records = self.users - 1 + self.decoys
        return records * float(self.flip_probability * (1 - self.flip_probability)) >= _WIDE

    @property
    def _two_sums(self) -> privacy.Composition:
        """Return two rounds of one flipped bit: the same as these two sums, whatever the crowd.

        In the sum that the target leaves, exchange ones and zeros: both sums then show a 0
        against a 1, one among N − h₁ ones, the other among h₂. So every crowd (h₁, h₂) is a
        pair of crowds of two independent rounds, and what holds for all of these holds here.
        Decoys, given where they fell, are users of some value.
        """
        return _two_rounds(self.users + self.decoys, self.flip_probability)

    @property
    def rounds(self) -> tuple[tuple[Mechanism, int], ...]:
        """Return two rounds of one bit, whose profile is found far faster.

        With decoys the upper end would be as right, but a lower end would not hold.
        """
        return ((self, 1),) if self.decoys else self._two_sums.parts

    def _delta_of_two_sums(self, epsilon: float) -> Bracket:
        upper = self._two_sums.delta(epsilon).upper
        return Bracket(min(self._crowd_lower(epsilon), upper), upper)

    def _crowd_lower(self, epsilon: float) -> float:
        # All others, or all but two, on the value that is left: often the worst. Any crowd is a
        # lower end.
        others = self.users - 1
        tried = {(others, 0)} | ({(others - 2, 2)} if others > 2 and self.values > 1 else set())
        return max(
            self.crowd_delta(first=first, second=second, epsilon=epsilon).lower
            for first, second in tried
        )

    def _epsilon_of_two_sums(self, target: float) -> Bracket:
        upper = min(self._two_sums.epsilon(target).upper, self.local_epsilon)
        return Bracket(min(self._crowd_epsilon((self.users - 1, 0), target), upper), upper)

    def _crowd_epsilon(self, crowd: tuple[int, ...], target: float) -> float:
        first, second = crowd

        def given(epsilon: float) -> Bracket:
            return self.crowd_delta(first=first, second=second, epsilon=epsilon)

        return solve_epsilon(given, target, most=self.local_epsilon, tolerance=1e-9).lower

    profile_nodes: ClassVar[int] = 33

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        if self.decoys:
            return self._decoyed_profile(epsilons)
        ends = [self.delta(float(epsilon), relative_width=None) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])

    def nodes(self) -> Floats:
        """Return epsilons up to where the profile ends for a crowd that is often the worst."""
        if self._is_wide:
            return self._wide_nodes(self._two_sums.epsilon(self.profile_floor).upper)
        others = self.users - 1 + self.decoys
        last = self._crowd_epsilon((others, 0), self.profile_floor)
        return 1.02 * last * np.linspace(0.0, 1.0, self.profile_nodes) ** 1.5

    def quick_nodes(self) -> Floats:
        """Return epsilons to about where the profile ends, from the bound of the two sums."""
        return self._wide_nodes(self._two_sums.profile_end()) if self._is_wide else self.nodes()

    def _wide_nodes(self, last: float) -> Floats:
        return np.asarray(last * np.linspace(0.0, 1.0, 2 * self.profile_nodes - 1) ** 1.5)

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return what short searches prove of delta at many epsilons."""
        return np.array([self.delta_bound(float(epsilon)) for epsilon in epsilons])

    def instance(self) -> tuple[Floats, Floats] | None:
        """Return the laws of the two sums when all others hold the target's first value."""
        if self.decoys:
            return None
        flip, others = self.flip_probability, self.users - 1
        target = target_bits(1, flip)
        first = sum_of_flips(others, 0, flip, 1e-19, 1.0).mass
        second = sum_of_flips(0, others, flip, 1e-19, 1.0).mass
        if len(first) * len(second) > _MOST_OUTCOMES:
            return None
        stay = np.outer(np.convolve(first, target.one), np.convolve(second, target.zero)).ravel()
        move = np.outer(np.convolve(first, target.zero), np.convolve(second, target.one)).ravel()
        # Outcomes this rare are worth nothing to a lower end, and at a window's end not exact.
        kept = np.minimum(stay, move) > 1e-24
        return stay[kept].astype(np.float64), move[kept].astype(np.float64)

    def crowd_delta(self, *, first: int, second: int, epsilon: float) -> Bracket:
        """Return delta for a given crowd, in the direction from the first value to the second.

        ``first`` and ``second`` of the other records (users and decoys) are on the value that
        the target leaves and on the one it joins.
        """
        records = self.users - 1 + self.decoys
        first = checks.whole("records on the first value", first, most=records)
        second = checks.whole("records on the second value", second, most=records - first)
        # A box of one crowd: its bound is the crowd itself.
        box = crowds.Box((first, second), (first, second))
        epsilon, tail = checks.epsilon(epsilon), Wide(1e-40)
        while True:
            low, high = self._bound(box, records, epsilon, tail)
            if high[0] - low[0] <= 1e-9 * high[0] or high[0] < 1e-300 or tail <= LEAST_TAIL:
                return Bracket(float(low[0]), float(high[0]))
            tail = max(tail**2, LEAST_TAIL)

    def _bound(
        self, box: crowds.Box, records: int, epsilon: float, tail: Any
    ) -> tuple[Floats, Floats]:
        flip = self.flip_probability
        # Leaving is joining seen in the mirror: the target's one becomes a zero.
        leaving = sum_of_flips(box.low[0], records - box.high[0], flip, tail, 1.0)
        joining = _side_tests(box.low[1], records - box.high[1], flip, tail)
        low, high = pair_delta(leaving, joining, target_bits(1, flip), epsilon)
        return np.array([low]), np.array([high])

    def _worst(self, epsilon: float, width: float, most: int = _MOST_CROWDS) -> crowds.Search:
        others = self.users - 1

        # A window must miss so little that it does not show beside delta; delta is not known
        # before, so the tail shrinks until one crowd that is often bad says it is small enough.
        tail = Wide(1e-30)
        root = crowds.Box((0, 0), (others, others))
        while True:
            probe = self._bound(crowds.Box((others, 0), (others, 0)), others, epsilon, tail)
            if tail < probe[0][0] * width * 1e-3 or tail <= LEAST_TAIL or probe[1][0] < 1e-305:
                break
            tail = max(Wide(probe[0][0]) * width * 1e-4, tail**2, LEAST_TAIL)

        def bound(box: crowds.Box) -> tuple[Floats, Floats]:
            return self._bound(box, others, epsilon, tail)

        def clip(box: crowds.Box) -> crowds.Box | None:
            return clip_box(box, others, self.values)

        return crowds.find_worst(
            [root], bound, width=width / 2, floor=1e-300, most_evaluations=most, clip=clip
        )

    @cached_property
    def _among(self) -> ValueCrowds:
        return ValueCrowds(
            self.users - 1, UniformDecoys(self.decoys, self.values, self.flip_probability)
        )

    @property
    def _in_clear(self) -> privacy.DecoyedValues:
        # Flipping is post-processing of clear values, so this bound holds here, too.
        return privacy.DecoyedValues(decoys=self.decoys, values=self.values)

    def _decoyed_delta(self, epsilon: float) -> Bracket:
        lower, upper = self._decoyed_profile(np.array([epsilon]))
        return Bracket(float(lower[0]), float(upper[0]))

    def _decoyed_epsilon(self, target: float) -> Bracket:
        safe = min(self._in_clear.epsilon(target).upper, self.local_epsilon)
        if self._is_wide:
            safe = min(safe, self._two_sums.epsilon(target).upper)
        among = self._among
        upper = safe if among.is_too_wide else among.upper_epsilon(target, safe=safe)
        return Bracket(min(among.lower_epsilon(target, top=safe), upper), upper)

    def _decoyed_profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        nodes = np.array([checks.epsilon(float(epsilon)) for epsilon in epsilons])
        rising, places = np.unique(nodes, return_inverse=True)
        # Proven for every crowd: upper ends wherever no search is made, or none gets lower.
        safe = self._in_clear.profile(rising)[1]
        if self._is_wide:
            safe = np.minimum(safe, self._two_sums.profile(rising)[1])
        lower, upper = np.zeros(len(rising)), safe
        # Deeper than that a search takes many times as long, and nobody promises so little.
        searched = (safe > _DEEPEST) & (rising < self.local_epsilon)
        if searched.any():
            low, high = self._among.profile(rising[searched])
            lower[searched], upper[searched] = low, np.minimum(high, safe[searched])
        upper[rising >= self.local_epsilon] = 0.0
        return np.minimum(lower, upper)[places], upper[places]


@lru_cache(maxsize=4096)
def _short_search(users: int, values: int, flip: Fraction, epsilon: float) -> float:
    # Kept, because every plan asks it again.
    mechanism = FlippedValues(users=users, values=values, flip_probability=flip)
    search = mechanism._worst(epsilon, COARSE, FEW_CROWDS)  # noqa: SLF001
    return min(float(search.upper[0]), 1.0)


@lru_cache(maxsize=64)
def _two_rounds(users: int, flip: Fraction) -> privacy.Composition:
    # Kept, because its profile costs most.
    return privacy.compose(FlippedBits(users=users, flip_probability=flip), times=2)


@lru_cache(maxsize=512)
def _side_tests(ones: int, zeros: int, flip: Fraction, tail: Any) -> SideTests:
    return side_tests(sum_of_flips(ones, zeros, flip, tail, 1.0), target_bits(1, flip))
