"""Several mechanisms, or many rounds of one, asked of the same people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from chaffinch import checks
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.numerics.loss_grids import GridLoss, Rounds, dominating_loss, split_losses
from chaffinch.privacy.numerics.precision import Floats, down, up
from chaffinch.privacy.shortened_reports import Shortened, cutting_cost

_MOST_GRID = 30_000
_FINER = 32
"""How much finer than the upper end's the grid of the lower end is."""
_MANY_NODES = 100
_LEAST_STEP = 1e-9
_STILL = 1e-9
"""A loss this close to the grid, in steps, has not moved."""
_SURE = 1e-15
"""The chance that is given away to bound the sum of random moves to the grid."""


def compose(
    mechanisms: Mechanism | Sequence[Mechanism],
    *,
    times: int = 1,
    resolution: float | None = None,
) -> Composition:
    """Return the composition of one mechanism ``times`` over, or of several, as a mechanism.

    The crowd may differ in every round, and which crowd is worst depends on epsilon, so the
    upper end composes, for each mechanism, a pair that dominates its worst-crowd profile
    (every convex profile belongs to such a pair); the lower end composes one crowd that can
    exist. ``resolution`` fixes the grid of losses; by default it follows their spread.

    >>> from chaffinch.privacy import FlippedBits
    >>> ten = compose(FlippedBits(users=1000, flip_probability="0.1"), times=10)
    >>> 1.1 < ten.epsilon(1e-6).upper < 1.2
    True
    """
    rounds = checks.whole("number of times", times, least=1, most=10**6)
    parts = [mechanisms] if isinstance(mechanisms, Mechanism) else mechanisms
    if not isinstance(parts, (list, tuple)):
        raise InvalidInput("mechanisms", "a mechanism or a list of mechanisms", parts)
    counts: Counter[Mechanism] = Counter()
    for part in parts:
        if not isinstance(part, Mechanism):
            raise InvalidInput("mechanisms", "a mechanism or a list of mechanisms", part)
        # Equal parts are counted, not listed: many rounds of one mechanism are one power.
        whole = part.opened
        inner = whole.parts if isinstance(whole, Composition) else ((whole, 1),)
        for mechanism, count in inner:
            counts[mechanism] += count * rounds
    if resolution is not None:
        checks.real("resolution", resolution, least=1e-9, most=1.0)
    kinds = {mechanism.neighbours for mechanism in counts}
    if len(kinds) > 1:
        # A loss per person and a loss per column are about different changes: no sum bounds both.
        raise InvalidInput("neighbours of all mechanisms", "of one kind", ", ".join(sorted(kinds)))
    chosen = tuple((mechanism, count) for mechanism, count in counts.items() if count)
    return Composition(chosen, resolution)


@dataclass(frozen=True)
class Composition(Mechanism):
    """All rounds together, in whatever order: what one person is exposed to in total."""

    parts: tuple[tuple[Mechanism, int], ...]
    resolution: float | None = None

    @property
    def neighbours(self) -> str:  # type: ignore[override]
        """Return the neighbours of the parts."""
        kinds = {mechanism.neighbours for mechanism, _ in self.parts}
        return " and ".join(sorted(kinds)) or Mechanism.neighbours

    @property
    def view(self) -> str:  # type: ignore[override]
        """Return the views of the parts."""
        return " and ".join(sorted({mechanism.view for mechanism, _ in self.parts})) or "nothing"

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return ``upper-bound``: the crowds of the rounds are not searched jointly."""
        return "upper-bound"

    @property
    def profile_floor(self) -> float:  # type: ignore[override]
        """Return the delta below which nothing is proven of these rounds."""
        return max(1e-15, 4.0 * self._upper.infinite)

    @property
    def crowd_words(self) -> str:
        """Return the crowds the guarantee counts on, in words."""
        words = [f"{count} × ({mechanism.crowd_words})" for mechanism, count in self.parts]
        return " + ".join(words) or "nobody"

    @property
    def local_epsilon(self) -> float:
        """Return the sum of the local guarantees."""
        return up(math.fsum(count * mechanism.local_epsilon for mechanism, count in self.parts))

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta over all rounds."""
        epsilon = checks.epsilon(epsilon)
        if not self.parts or epsilon >= self.local_epsilon:
            return Bracket(0.0, 0.0)
        if len(self.parts) == 1 and self.parts[0][1] == 1:
            return self.parts[0][0].delta(epsilon)
        upper = self._upper_delta(epsilon)
        return Bracket(min(self._lower_delta(epsilon), upper), upper)

    @cached_property
    def _distance(self) -> Fraction:
        """Return a bound on the chance that anything was cut in any round: chances add up."""
        cut = [part.distance * count for part, count in self.parts if isinstance(part, Shortened)]
        return sum(cut, Fraction(0))

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon over all rounds."""
        target = checks.delta(delta)
        if len(self.parts) == 1 and self.parts[0][1] == 1:
            return self.parts[0][0].epsilon(target)
        if not self.parts:
            return Bracket(0.0, 0.0)
        if self._upper.infinite >= target:
            raise GuaranteeNotProven(
                "epsilon",
                asked=1.0,
                lower=0.0,
                upper=self.local_epsilon,
                hint=f"the losses of these rounds are followed down to delta "
                f"{self._upper.infinite:.1e}; ask for a delta above that",
            )
        guess = None
        if self.resolution is not None:
            guess = Composition(self.parts).epsilon(target).upper
        return solve_epsilon(
            self.delta,
            target,
            most=self.local_epsilon,
            tolerance=1e-5,
            lower=self._lower_delta,
            upper=self._upper_delta,
            guess=guess,
        )

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])

    def delta_bound(self, epsilon: float) -> float:
        """Return an upper end of delta from profiles that were searched only shortly."""
        epsilon = checks.epsilon(epsilon)
        if not self.parts or epsilon >= self.local_epsilon:
            return 0.0
        if len(self.parts) == 1 and self.parts[0][1] == 1:
            return self.parts[0][0].delta_bound(epsilon)
        return min(up(_delta_of(self._quick, epsilon) + cutting_cost(self._distance, epsilon)), 1.0)

    @cached_property
    def _rounds(self) -> tuple[tuple[Mechanism, int], ...]:
        """Return the parts without cutting, in the rounds that each of them is, counted."""
        counts: Counter[Mechanism] = Counter()
        for mechanism, count in self.parts:
            for inner, times in _whole(mechanism).rounds:
                counts[inner] += count * times
        return tuple(counts.items())

    @cached_property
    def _step(self) -> float:
        return self._step_for([_profile(mechanism)[0] for mechanism, _ in self._rounds])

    def _step_for(self, nodes: Sequence[Floats]) -> float:
        """Return the grid of losses: fine for the narrowest profile, short for the widest."""
        if self.resolution is not None:
            return self.resolution
        # About 200 steps across the narrowest profile, but at most 4000 across the widest.
        spreads = [float(places[-1]) for places in nodes]
        step = max(min(spreads) / 200.0, max(spreads) / 4000.0, _LEAST_STEP)
        # The largest loss falls on the grid: for few users it is where the mass is.
        return max(spreads) / max(1, round(max(spreads) / step)) or step

    @cached_property
    def _upper(self) -> Rounds:
        return Rounds(
            tuple((dominating_loss(*_profile(m), self._step), count) for m, count in self._rounds)
        )

    @cached_property
    def _quick(self) -> Rounds:
        profiles = [_quick_profile(mechanism) for mechanism, _ in self._rounds]
        step = self._step_for([nodes for nodes, _ in profiles])
        counts = [count for _, count in self._rounds]
        return Rounds(
            tuple(
                (dominating_loss(*profile, step), count)
                for profile, count in zip(profiles, counts, strict=True)
            )
        )

    @cached_property
    def _crowds(self) -> list[tuple[Rounds, float, float]]:
        """Return compositions of crowds that exist: rounds, mass kept, shift to the grid."""
        found = []
        rounds = sum(count for _, count in self._rounds)
        reach = max(_profile(mechanism)[0][-1] for mechanism, _ in self._rounds)
        step = max(self._step / _FINER, math.sqrt(rounds) * reach / _MOST_GRID)
        step = reach / max(1, round(reach / step)) or _LEAST_STEP
        for direction in (1, -1):
            parts = []
            kept = 1.0
            for mechanism, count in self._rounds:
                pair = mechanism.instance()
                if pair is None:
                    return []
                first, second = pair[::direction]
                grid, finite = _crowd_loss(first, second, step)
                parts.append((grid, count))
                kept *= finite**count
            still = all(grid.moved <= _STILL for grid, _ in parts)
            # Losses that all lie on the grid hardly move; of others Hoeffding bounds the sum.
            moves = rounds * _STILL * step if still else 0.0
            shift = moves or math.sqrt(0.5 * rounds * -math.log(_SURE)) * step
            found.append((Rounds(tuple(parts)), kept, shift))
        return found

    def _upper_delta(self, epsilon: float) -> float:
        return min(up(_delta_of(self._upper, epsilon) + cutting_cost(self._distance, epsilon)), 1.0)

    def _lower_delta(self, epsilon: float) -> float:
        """Return a lower end: one crowd in all rounds, or the best single part.

        Moving losses to the grid shifts their sum by more than s with a chance of at most
        exp(−2s²/(rounds·step²)) [Hoeffding 1963], so delta(ε) ≥ delta_grid(ε + s) − that chance.
        """
        if not self._crowds:
            return max(mechanism.delta(epsilon).lower for mechanism, _ in self.parts)
        best, cut = 0.0, cutting_cost(self._distance, epsilon)
        for rounds, kept, shift in self._crowds:
            value, doubt = rounds.delta(epsilon + shift)
            best = max(best, down(value * (1 - 1e-12) - doubt - _SURE - (1.0 - kept) - cut))
        return best


def _whole(mechanism: Mechanism) -> Mechanism:
    """Return a mechanism without the cutting, which is added to the total at the end."""
    return mechanism.inner if isinstance(mechanism, Shortened) else mechanism


def _delta_of(rounds: Rounds, epsilon: float) -> float:
    """Return the safe end of delta of composed losses; it may be above 1."""
    value, doubt = rounds.delta(epsilon)
    return up((value + doubt) * (1 + 1e-12) + rounds.infinite)


@lru_cache(maxsize=64)
def _quick_profile(mechanism: Mechanism) -> tuple[Floats, Floats]:
    """Return nodes and upper ends of a profile that was searched only shortly."""
    nodes = mechanism.nodes()
    # Every second node of many: delta comes out up to 2 % larger, epsilon about 0.1 %.
    nodes = nodes[::2] if len(nodes) > _MANY_NODES else nodes
    upper = mechanism.profile_bound(nodes)
    # From the local epsilon on delta is 0, whatever the search proved there.
    if nodes[-1] >= mechanism.local_epsilon:
        upper[-1] = 0.0
    return nodes, upper


@lru_cache(maxsize=256)
def _profile(mechanism: Mechanism) -> tuple[Floats, Floats]:
    """Return nodes and proven upper ends of the worst-crowd profile of one mechanism.

    Nodes reach up to the profile's floor, behind which a loss counts as infinite;
    the local guarantee ends the profile at 0 where it comes first.
    """
    nodes = mechanism.nodes()
    upper = mechanism.profile(nodes)[1]
    if nodes[-1] >= mechanism.local_epsilon:
        upper[-1] = 0.0
    return nodes, upper


def _crowd_loss(first: Floats, second: Floats, step: float) -> tuple[GridLoss, float]:
    """Return the losses of one pair of laws and how much of the first law they cover."""
    sure = (first > 0) & (second > 0)
    losses = np.log(first[sure] / second[sure])
    return split_losses(losses, first[sure], step), min(1.0, float(first[sure].sum()) * (1 - 1e-13))
