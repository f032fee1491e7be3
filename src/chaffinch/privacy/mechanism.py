"""The base class of all mechanisms, and the questions that can be asked of them.

A mechanism answers ``delta(epsilon)`` with a proven bracket. Everything else has a default that
follows from it; a family that knows a sharper bound overrides the default.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from chaffinch.cards import card, paragraph
from chaffinch.errors import GuaranteeNotProven, checks
from chaffinch.privacy import forms
from chaffinch.privacy.guarantee import Bracket, Guarantee, Method, commas_in
from chaffinch.privacy.numerics.precision import Floats, up
from chaffinch.privacy.numerics.roots import (
    Curve,
    find_crossing,
    find_crossing_below,
    narrow_crossing,
)
from chaffinch.privacy.tradeoff import TradeOff, check_levels, mu_from_ends, tradeoff_from_ends

_LARGEST_NODE = 600.0
"""A profile is not followed further: e^epsilon must stay a double."""
_CLOSE = 0.002

BETWEEN_MODULES = frozenset(
    {
        *("cells", "cutting", "delta_bound", "delta_within", "document_fields"),
        *("document_fractions", "document_name", "epsilon_reach", "from_written", "instance"),
        *("bit_crowds", "inner", "nodes", "opened", "profile_bound", "profile_end"),
        *("profile_floor", "profile_nodes", "quick_nodes", "rounds", "seen_mu", "sides"),
        *("spread", "takes_minutes", "written"),
    }
)
"""What accountants, planners and documents ask a mechanism. A protocol of your own may define it;
whoever computes a guarantee needs none of it: `dir` and the reference do not list it."""


class Mechanism(ABC):
    """Something that randomizes, shuffles, and shows one view of the result."""

    neighbours: ClassVar[str] = "replace-one"
    view: str
    method: Method

    document_name: ClassVar[str] = ""
    """What documents call it. Without a name it stands in no file, and no ledger charges it."""
    document_fields: ClassVar[tuple[str, ...]] = ()
    """Its parameters: arguments of the class, and attributes that hold them."""
    document_fractions: ClassVar[tuple[str, ...]] = ()
    """Those of them that are fractions; all others are whole numbers and words."""

    def written(
        self,
        document_of: Callable[[Mechanism], dict[str, Any]],  # noqa: ARG002 - for those with parts
    ) -> dict[str, Any]:
        """Return its parameters as they stand in its document, of JSON types only.

        Equal mechanisms have equal ones. ``document_of`` gives the document of another mechanism.
        """
        return forms.written_fields(self, self.document_fields, self.document_fractions)

    @classmethod
    def from_written(
        cls,
        fields: dict[str, Any],
        mechanism_of: Callable[[object], Mechanism],  # noqa: ARG003 - for those with parts
    ) -> Mechanism:
        """Return the mechanism with these parameters; refuse missing, unknown and wrong ones.

        ``mechanism_of`` gives the mechanism of another document.
        """
        forms.check_fields(cls.__name__, fields, cls.document_fields)
        return cls(**forms.read_fields(fields, cls.document_fractions))

    @property
    @abstractmethod
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""

    @property
    @abstractmethod
    def local_epsilon(self) -> float:
        """Return what is left when shuffler and analyzer collude (rounded up; may be inf)."""

    @abstractmethod
    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of the hockey-stick delta, worst crowd and both directions."""

    def delta_bound(self, epsilon: float) -> float:
        """Return a proven upper end of delta, quickly: made for judging plans by the hundred.

        Never below the truth; above the upper end of ``delta`` by a few percent where crowds
        differ much, by a factor of two or so where they are all nearly as bad.
        """
        return self.delta(epsilon).upper

    def delta_within(self, epsilon: float, most: float) -> float:
        """Return an upper end of delta that is at most ``most``, if that is true and proven.

        A yes-or-no question: a family that can answer it sooner than it finds a bracket does.
        """
        reached = self.delta_bound(epsilon)
        # The short search proves a little less than holds: the long one has the last word.
        return reached if reached <= most else self.delta(epsilon).upper

    def cutting(self, epsilon: float) -> float:  # noqa: ARG002 - only of use where something is cut
        """Return the part of ``delta_bound`` that needs no search: what cutting costs."""
        return 0.0

    @property
    def opened(self) -> Mechanism:
        """Return the mechanism as it should stand in a composition: in parts, if it has any."""
        return self

    @property
    def takes_minutes(self) -> bool:
        """Return whether no quick way to its delta is known: a plan then claims nothing of it."""
        return False

    @property
    def rounds(self) -> tuple[tuple[Mechanism, int], ...]:
        """Return independent mechanisms, each with how often, that together are this one.

        Every crowd of this mechanism must be one of theirs, and the first crowd of each of them
        together one of this mechanism's. A composition works with them where that is faster.
        """
        return ((self, 1),)

    @abstractmethod
    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return lower and upper ends of delta at many epsilons (all ≥ 0) at once."""

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return proven upper ends of delta at many epsilons, quickly (see ``delta_bound``)."""
        return self.profile(epsilons)[1]

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon that holds with ``delta``."""
        return solve_epsilon(self.delta, checks.delta(delta), most=self.local_epsilon)

    def tradeoff(self, alphas: Floats) -> TradeOff:
        """Return both ends of the trade-off curve: the largest convex one below all crowds' own."""
        levels = check_levels(alphas)
        nodes = self.nodes()
        return tradeoff_from_ends(levels, nodes, *self.profile(nodes))

    def gaussian_mu(self) -> Bracket:
        """Return the bracket of the smallest mu with mu-GDP, from the profile at many epsilons.

        Of several rounds it is at most the root of the sum of their squares [Dong, Roth, Su 2022,
        corollary 3.3; S3, corollary 3.3, with the mu of each round put right]. The upper end is
        infinite where an infinite loss is not ruled out.
        """
        nodes = self.nodes()
        lower, upper = self.profile(nodes)
        low, high = mu_from_ends(nodes, lower, upper, self.local_epsilon)
        if self.rounds != ((self, 1),):
            # Every round has a curve above that of its mu, whatever crowd it has.
            each = [(unit.gaussian_mu().upper, times) for unit, times in self.rounds]
            high = min(high, up(math.sqrt(math.fsum(times * mu * mu for mu, times in each))))
            low = max(low, *(unit.seen_mu(times) for unit, times in self.rounds))
        return Bracket(min(low, high), high)

    def seen_mu(
        self,
        times: int,  # noqa: ARG002 - of use where there is a way
    ) -> float:
        """Return a lower end of mu of so many rounds whose crowds are all the first one.

        0 says nothing. A profile does not reach the rare outcomes that often decide mu.
        """
        return 0.0

    def nodes(self) -> Floats:
        """Return epsilons from 0 to where the profile ends, denser where delta is large."""
        last = self.profile_end()
        if not 0 < last < math.inf:
            last = self.epsilon_reach()
        last = min(last, _LARGEST_NODE)
        return last * np.linspace(0.0, 1.0, self.profile_nodes) ** 2

    def quick_nodes(self) -> Floats:
        """Return epsilons for ``profile_bound``: to about where the profile ends is far enough."""
        return self.nodes()

    def profile_end(self) -> float:
        """Return about the epsilon where delta falls below the profile's floor."""
        return self.epsilon(self.profile_floor).upper

    profile_nodes: ClassVar[int] = 129
    """How many epsilons describe the profile well enough to compose it."""

    profile_floor: ClassVar[float] = 1e-15
    """A profile is followed down to this delta; in a composition what is below is infinite loss."""

    def sides(self) -> tuple[Mechanism, Mechanism] | None:
        """Return some pairs in one order and the same pairs in the other, if they can be parted.

        Every pair of this mechanism must be one of the first, or one of them the other way round.
        A composition of both kinds is tighter than one that takes every round for the worse.
        """
        return None

    def cells(
        self,
        epsilons: Floats,  # noqa: ARG002 - of use where there are cells
    ) -> list[tuple[Floats, Floats]] | None:
        """Return upper ends of delta in both orders for a few kinds of pairs, if worth it.

        Every pair of this mechanism must be below one of them in both orders, or so with its laws
        exchanged; neighbours should be alike. A composition of large crowds is tighter with them.
        """
        return None

    def instance(self) -> tuple[Floats, Floats] | None:
        """Return the two laws of the view for one crowd that can exist, if they are at hand.

        Masses over the same outcomes (target holds 0, target holds 1), each off by less than
        1e-11 of itself and lacking less than 1e-18 in all. Used for lower ends only.
        """
        return None

    def epsilon_reach(self) -> float:
        """Return the largest epsilon worth describing when some loss is infinite."""
        return 20.0

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - BETWEEN_MODULES)

    def _repr_html_(self) -> str:
        facts = f"view: {self.view}; neighbours: {self.neighbours}; method: {self.method}"
        return card(type(self).__name__, paragraph(commas_in(f"{self.crowd_words}; {facts}")))

    def guarantee(self, delta: float) -> Guarantee:
        """Return the promise at ``delta`` with everything it depends on."""
        return Guarantee(
            epsilon=self.epsilon(delta).upper,
            delta=delta,
            neighbours=self.neighbours,
            view=self.view,
            crowd=self.crowd_words,
            local_epsilon=self.local_epsilon,
            method=self.method,
        )


def solve_epsilon(
    curve: Callable[[float], Bracket],
    delta: float,
    *,
    most: float,
    tolerance: float = 1e-10,
    lower: Curve | None = None,
    upper: Curve | None = None,
    guess: float | None = None,
) -> Bracket:
    """Return the bracket of the smallest epsilon at which ``curve`` is at most ``delta``.

    The upper end is an epsilon where the upper end of the curve was seen to be small enough;
    below the lower end its lower end was seen to be too large. ``most`` is an epsilon that
    is known to be enough (the local guarantee), or infinity. Where one end of the curve can
    be had without the other, ``lower`` and ``upper`` give it; a ``guess`` saves steps.
    """
    seen: dict[float, Bracket] = {}

    def at(epsilon: float) -> Bracket:
        if epsilon not in seen:
            seen[epsilon] = curve(epsilon)
        return seen[epsilon]

    above = upper or (lambda epsilon: at(epsilon).upper)
    below = lower or (lambda epsilon: at(epsilon).lower)
    # A good guess saves the search for a place to begin, a bad one costs two evaluations at most.
    high = _cross_near(above, delta, tolerance, guess)
    if high is None:
        high = find_crossing(above, delta, top=most, tolerance=tolerance)
    if math.isinf(high[1]):
        raise GuaranteeNotProven("epsilon", asked=tolerance, lower=0.0, upper=math.inf)
    low = find_crossing_below(below, delta, top=high[1], tolerance=tolerance, near=4.0 * tolerance)
    return Bracket(min(low[0], high[1]), high[1])


def _cross_near(
    curve: Curve, delta: float, tolerance: float, guess: float | None
) -> tuple[float, float] | None:
    if not guess:
        return None
    low, high = guess * (1 - _CLOSE), guess * (1 + _CLOSE)
    if not curve(high) <= delta < curve(low):
        return None
    return narrow_crossing(curve, delta, low, high, tolerance=tolerance)
