"""Composition: several mechanisms, or many rounds of one, asked of the same people."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from chaffinch.errors import GuaranteeNotProven, InvalidInput, Unquoted, checks
from chaffinch.privacy import forms
from chaffinch.privacy.guarantee import Bracket, Method, bound_of
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.numerics.chosen_rounds import Losses, WorstProfile, worst_profile
from chaffinch.privacy.numerics.loss_grids import Kinks, Rounds, TooFineGrid, dominated_loss
from chaffinch.privacy.numerics.precision import Floats, down, up
from chaffinch.privacy.numerics.roots import find_crossing
from chaffinch.privacy.shortened_reports import Shortened, cutting_cost
from chaffinch.privacy.tradeoff import mu_from_ends

_MOST_TIMES = 10**12
"""More rounds of one part than this are refused: ``compose`` of ``compose`` makes no more."""
_STEPS = 32.0
"""So many steps of the grid make one standard deviation of the narrowest losses of a round."""
_FINER = 32.0
"""How much finer the grid of the lower end is, where it stays small enough."""
_COARSER = (1, 2**2, 2**4, 2**8, 2**12)
"""How much coarser it is made where losses lie too far apart for it."""
_FEW_GRID, _MOST_GRID = 2**14, 2**19
"""A grid of fewer points costs next to nothing, one of more takes long."""
_LEAST_STEP = 1e-9
"""Losses of one crowd are not known more exactly than a small part of this."""
_TOLERANCE = 1e-7
_TOLD_APART = range(16, 4_001)
"""For so many rounds of one mechanism crowds are told apart; fewer gain little, more take long."""
_FEW_ROUNDS = 64
_BLOCK, _BLOCK_NODES = 400, 513
"""More rounds come in blocks of so many, whose profiles have so many nodes."""
_CELL_NODES = 192
"""So many steps up to the largest loss: the grid on which crowds are told apart."""
_MOST_APART = 3
"""So many of the largest local parts are also tried apart from the others."""
_LACKING = 1e-18
"""What the laws of one crowd may lack in all."""
_LAW_ERROR = 1e-10
"""How far the masses of one crowd, and the logarithms of their ratios, are off at most."""
_MOST_FOLLOWED, _MU_NODES = 200, 513
"""Of so many rounds mu is also asked of all losses that there are, at so many epsilons."""
_FARTHEST, _LEAST_DELTA = 600.0, 1e-290
"""e^epsilon must stay a double, and so must what is left behind it."""
_MANY_NODES = 100
_Profile = tuple[Floats, Floats]
"""Epsilons from 0 on, and upper ends of delta there."""
_NEARLY = 0.9
"""A delta that is so near to what the parts come to one by one may be above it."""
_MOSTLY = 4.0
"""A delta below so many times the infinite losses is mostly these, and a plain sum may be less."""
_SHARED = 1e-12
"""Shares are smaller by this much, which covers the rounding of their sum."""


def compose(
    *mechanisms: Mechanism | Sequence[Mechanism],
    times: int = 1,
    resolution: float | None = None,
) -> Composition:
    """Return the composition of one mechanism ``times`` over, or of several, as a mechanism.

    Several are given one after the other, or as one list.
    The crowd may differ in every round, and follow from what earlier rounds have shown; and
    which crowd is worst depends on epsilon. So the upper end composes, for each mechanism, a
    pair that dominates its worst-crowd profile (every convex profile belongs to such a pair), or
    lets somebody choose every crowd who has seen the rounds before. The lower end composes one
    crowd that can exist. ``resolution`` fixes the grid of losses, which follows their spread.

    >>> from chaffinch.privacy import FlippedBits
    >>> ten = compose(FlippedBits(users=1000, flip_probability="0.1"), times=10)
    >>> 1.1 < ten.epsilon(1e-6).upper < 1.2
    True
    """
    rounds = checks.whole("number of times", times, least=1, most=10**6)
    alone = len(mechanisms) == 1 and not isinstance(mechanisms[0], Mechanism)
    parts: object = mechanisms[0] if alone else mechanisms
    if not isinstance(parts, (list, tuple)) or not mechanisms:
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
    chosen = tuple((mechanism, count) for mechanism, count in counts.items() if count)
    return Composition(chosen, resolution)


@dataclass(frozen=True)
class Composition(Mechanism):
    """All rounds together, in whatever order: what one person is exposed to in total."""

    parts: tuple[tuple[Mechanism, int], ...]
    resolution: float | None = None
    document_name = "composition"

    def __post_init__(self) -> None:
        # A part that stands twice is one part that is done more often.
        counts: Counter[Mechanism] = Counter()
        for mechanism, count in self.parts:
            counts[mechanism] += checks.whole("number of times", count, least=1, most=_MOST_TIMES)
        kinds = {mechanism.neighbours for mechanism in counts}
        if len(kinds) > 1:
            # A loss per person and one per column are about different changes: no sum bounds both.
            words = ", ".join(sorted(kinds))
            raise InvalidInput("neighbours of all mechanisms", "of one kind", words)
        object.__setattr__(self, "parts", tuple(counts.items()))

    def written(self, document_of: Callable[[Mechanism], dict[str, Any]]) -> dict[str, Any]:
        """Return how often each part is done, and its document."""
        parts = [
            {"times": _rounds(count), "part": document_of(_single(part))}
            for part, count in self.parts
        ]
        if self.resolution is None:
            return {"parts": parts}
        return {"parts": parts, "resolution": self.resolution.hex()}

    @classmethod
    def from_written(
        cls, fields: dict[str, Any], mechanism_of: Callable[[object], Mechanism]
    ) -> Composition:
        """Return the mechanism with these parts."""
        resolution = _read_resolution(fields.pop("resolution")) if "resolution" in fields else None
        forms.check_fields(cls.__name__, fields, ("parts",))
        if not isinstance(fields["parts"], (list, tuple)):
            raise InvalidInput("parts of a composition", "a list", fields["parts"])
        parts = []
        for entry in fields["parts"]:
            part = forms.named_fields("part of a composition", entry)
            forms.check_fields("a part of a composition", part, ("times", "part"))
            parts.append((_single(mechanism_of(part["part"])), _rounds(part["times"])))
        return cls(tuple(parts), resolution)

    @property
    def neighbours(self) -> str:  # type: ignore[override]
        """Return the neighbours of the parts."""
        return next((part.neighbours for part, _ in self.parts), Mechanism.neighbours)

    @property
    def view(self) -> str:  # type: ignore[override]
        """Return the views of the parts."""
        return " and ".join(sorted({mechanism.view for mechanism, _ in self.parts})) or "nothing"

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return ``upper-bound``: crowds are taken in cells, and losses on a grid."""
        return bound_of(mechanism.method for mechanism, _ in self.parts)

    @property
    def takes_minutes(self) -> bool:
        """Return whether a part has no quick way."""
        return any(mechanism.takes_minutes for mechanism, _ in self.parts)

    @property
    def profile_floor(self) -> float:  # type: ignore[override]
        """Return the delta below which nothing is proven of these rounds."""
        return max(1e-15, 4.0 * self._infinite)

    def profile_end(self) -> float:
        """Return about the epsilon where delta falls below what is proven of these rounds."""
        if not self._rounds:
            return 0.0
        floor = min(max(1e-15, 4.0 * self._quick_rounds.infinite), 1.0)
        return find_crossing(self.delta_bound, floor, top=self.local_epsilon, tolerance=1e-2)[1]

    @property
    def crowd_words(self) -> str:
        """Return the crowds the guarantee counts on, in words."""
        times: Counter[str] = Counter()
        for mechanism, count in self.parts:
            times[mechanism.crowd_words] += count
        if len(times) < 2:
            return next(iter(times), "nobody") + ", every time" * (times.total() > 1)
        each = (f"{words} ({count} time{'s' * (count > 1)})" for words, count in times.items())
        return " and ".join(each)

    @property
    def rounds(self) -> tuple[tuple[Mechanism, int], ...]:
        """Return all rounds one by one, so that a composition of compositions is one of them."""
        return ((self, 1),) if self._distance or self._shortfall else self._rounds

    @property
    def local_epsilon(self) -> float:
        """Return the sum of the local guarantees."""
        return up(math.fsum(count * mechanism.local_epsilon for mechanism, count in self.parts))

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta over all rounds."""
        epsilon = checks.epsilon(epsilon)
        if not self._rounds or epsilon >= self.local_epsilon:
            return Bracket(0.0, 0.0)
        if len(self.parts) == 1 and self.parts[0][1] == 1:
            return self.parts[0][0].delta(epsilon)
        upper = self._upper_delta(epsilon)
        # Deltas of the parts take long, and help only where the composed one is nearly their sum.
        if upper >= _NEARLY * self._plain_delta(epsilon, self._profiles):
            upper = min(upper, self.summed_delta(epsilon))
        return Bracket(min(self._lower_delta(epsilon), upper), upper)

    def summed_delta(self, epsilon: float) -> float:
        """Return what the parts' deltas come to one by one, each at its share of ``epsilon``.

        A composition that is followed down to some delta only says no more below it; the parts
        themselves may be followed farther. Any shares that add up to ``epsilon`` are right.
        """
        shares = [*zip(self.parts, self._reach, strict=True)]
        # Shares in proportion to how far the losses of each part reach.
        each = epsilon * (1 - _SHARED) / sum(count * reach for (_, count), reach in shares)
        ends = ((part.delta(each * reach).upper, count) for (part, count), reach in shares)
        return _joined(ends)

    def _plain_delta(self, epsilon: float, profiles: Sequence[_Profile]) -> float:
        counts = [count for _, count in self._rounds]
        rounds = [*zip(profiles, counts, strict=True)]
        # The same as `summed_delta` from profiles at hand. A profile is convex in e^ε, so its
        # chords lie above it: these are upper ends, too.
        each = epsilon * (1 - _SHARED) / sum(count * float(p[0][-1]) for p, count in rounds)
        # Behind its last node a profile is flat.
        ends = (
            (_chord_at(nodes, upper, min(each, 1.0) * float(nodes[-1])), count)
            for (nodes, upper), count in rounds
        )
        return min(up(_joined(ends) * (1 + 1e-9) + self._cost(epsilon)), 1.0)

    @cached_property
    def _profiles(self) -> list[_Profile]:
        return [full_profile(mechanism) for mechanism, _ in self._rounds]

    @cached_property
    def _quick_profiles(self) -> list[_Profile]:
        return [_quick_profile(mechanism) for mechanism, _ in self._rounds]

    def summed_epsilon(self, delta: float) -> float:
        """Return the plain sum of the parts' epsilons, each at an equal share of ``delta``."""
        each = delta / sum(count for _, count in self.parts) * (1 - _SHARED)
        if not 0 < each < 1:
            return self.local_epsilon
        try:
            ends = [count * part.epsilon(each).upper for part, count in self.parts]
        except GuaranteeNotProven:
            return self.local_epsilon
        return min(up(math.fsum(ends)), self.local_epsilon)

    @cached_property
    def _reach(self) -> list[float]:
        """Return how far the losses of each part are followed."""
        return [
            sum(times * float(_nodes(unit)[-1]) for unit, times in _without_cutting(part).rounds)
            for part, _ in self.parts
        ]

    @cached_property
    def _distance(self) -> Fraction:
        # Union bound: the chance that anything was cut is at most the sum over all rounds.
        cut = [part.distance * count for part, count in self.parts if isinstance(part, Shortened)]
        return sum(cut, Fraction(0))

    @cached_property
    def _shortfall(self) -> Fraction:
        # The same bound, for rounds in which too few people were honest.
        few = [part.shortfall * count for part, count in self.parts if isinstance(part, Shortened)]
        return sum(few, Fraction(0))

    def _cost(self, epsilon: float) -> float:
        return cutting_cost(self._distance, epsilon, shortfall=self._shortfall)

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon over all rounds."""
        target = checks.delta(delta)
        if len(self.parts) == 1 and self.parts[0][1] == 1:
            return self.parts[0][0].epsilon(target)
        if not self._rounds:
            return Bracket(0.0, 0.0)
        # Infinite losses are a part of delta at every epsilon: nothing below them is proven.
        if self._infinite >= target:
            raise GuaranteeNotProven(
                "epsilon",
                asked=1.0,
                lower=0.0,
                upper=self.local_epsilon,
                hint=f"the losses of these rounds are followed down to delta "
                f"{self._infinite:.1e}; ask for a delta above that",
            )
        plain = Composition(self.parts).epsilon(target).upper if self.resolution else math.inf
        found = solve_epsilon(
            self.delta,
            target,
            most=self.local_epsilon,
            tolerance=_TOLERANCE,
            lower=self._lower_delta,
            upper=self._upper_delta,
            guess=None if math.isinf(plain) else plain,
        )
        # What the usual grid proves, or the parts one by one, holds as well.
        sums = (local + rest.epsilon(target).upper for local, rest in self._local_parts_apart)
        upper = min(found.upper, plain, self.summed_epsilon(target), *(up(end) for end in sums))
        return Bracket(min(found.lower, upper), upper)

    def gaussian_mu(self) -> Bracket:
        """Return the bracket of the smallest mu with mu-GDP over all rounds.

        Promises   never above √(Σ mu²) of the rounds, whatever crowd each has and whatever it
                   follows from [Dong, Roth, Su 2022, corollary 3.3]; less where the law of the
                   total loss can be followed to its end.
        """
        if len(self.parts) == 1 and self.parts[0][1] == 1:
            return self.parts[0][0].gaussian_mu()
        if not self._rounds:
            return Bracket(0.0, 0.0)
        found = super().gaussian_mu()
        upper = min(found.upper, self._mu_of_all_losses())
        return Bracket(min(found.lower, upper), upper)

    def _mu_of_all_losses(self) -> float:
        """Return an upper end of mu from losses up to the local guarantee, none of them infinite.

        Of few people the rarest outcomes, which often decide mu, are within reach of a tilt.
        """
        counts = [count for _, count in self._rounds]
        local = self.local_epsilon
        # What was cut, or who was missing, is charged beside the losses: no mu covers that.
        more = self._distance or self._shortfall
        if more or sum(counts) > _MOST_FOLLOWED or not local <= _FARTHEST:
            return math.inf
        kinks = [
            Kinks.of_profile(*_ended_at_local_epsilon(mechanism, *profile))
            for (mechanism, _), profile in zip(self._rounds, self._profiles, strict=True)
        ]
        step = _grid_step(kinks, counts)
        rounds = Rounds(tuple((k.on_grid(step), c) for k, c in zip(kinks, counts, strict=True)))
        nodes = local * np.linspace(0.0, 1.0, _MU_NODES)
        upper = np.array([max(rounds.upper_delta(float(node)), _LEAST_DELTA) for node in nodes])
        upper[-1] = 0.0
        return mu_from_ends(nodes, np.zeros_like(upper), upper, local)[1]

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return upper ends of delta at many epsilons, quickly."""
        return np.array([self.delta_bound(float(epsilon)) for epsilon in epsilons])

    def cutting(self, epsilon: float) -> float:
        """Return what cutting costs of delta, in all rounds together."""
        return 0.0 if epsilon >= self.local_epsilon else cutting_cost(self._distance, epsilon)

    @property
    def spread(self) -> float:
        """Return about the root of the second moment of all losses: a guess that proves nothing."""
        counts = [count for _, count in self._rounds]
        moments = zip(self._quick_kinks, counts, strict=True)
        return math.sqrt(math.fsum(count * kinks.variance for kinks, count in moments))

    def delta_bound(self, epsilon: float) -> float:
        """Return an upper end of delta from profiles that were searched only shortly."""
        epsilon = checks.epsilon(epsilon)
        if not self._rounds or epsilon >= self.local_epsilon:
            return 0.0
        if len(self.parts) == 1 and self.parts[0][1] == 1:
            return self.parts[0][0].delta_bound(epsilon)
        cut = self._cost(epsilon)
        if cut >= 1:
            return 1.0
        reached = up(self._quick_rounds.upper_delta(epsilon) + cut)
        if reached <= _MOSTLY * self._quick_rounds.infinite:
            reached = min(reached, self.summed_delta(epsilon))
        return min(reached, self._plain_delta(epsilon, self._quick_profiles))

    @cached_property
    def _rounds(self) -> tuple[tuple[Mechanism, int], ...]:
        # Without the cutting, which `_cost` charges once for all rounds.
        counts: Counter[Mechanism] = Counter()
        for mechanism, count in self.parts:
            for inner, times in _without_cutting(mechanism).rounds:
                counts[inner] += count * times
        return tuple(counts.items())

    @cached_property
    def _dominating_rounds(self) -> Rounds:
        """Return rounds of pairs that dominate: in each round the worst crowd at every loss."""
        counts = [count for _, count in self._rounds]
        kinks = [Kinks.of_profile(*profile) for profile in self._profiles]
        step = _grid_step(kinks, counts, wanted=self.resolution)
        return Rounds(tuple((k.on_grid(step), c) for k, c in zip(kinks, counts, strict=True)))

    @cached_property
    def _adaptive_profiles(self) -> list[WorstProfile]:
        """Return profiles of adaptive rounds: whoever has seen the rounds before chooses a crowd.

        Only for rounds of one mechanism whose crowds, or orders, can be told apart.
        """
        ((mechanism, count), *others) = self._rounds
        if others or count not in _TOLD_APART:
            return []
        # Orders alone are known at more epsilons than cells, which tells in the fewest rounds.
        apart = [_cells(mechanism), *([_orders(mechanism)] if count <= _FEW_ROUNDS else [])]
        found = []
        for choices in dict.fromkeys(apart):
            with suppress(TooFineGrid):
                found += [worst_profile(choices, count)] if choices else []
        return found

    @cached_property
    def _adaptive_blocks(self) -> Rounds | None:
        """Return rounds of one mechanism in blocks, in each of which crowds are told apart.

        Whatever the rounds before a block have shown, what somebody makes of its rounds is below
        the worst profile of so many rounds, and so below the pair that has this profile.
        """
        ((mechanism, count), *others) = self._rounds
        block = None if others or count < _TOLD_APART.stop else _block(mechanism)
        if block is None:
            return None
        # The rounds that are left over are taken one by one.
        kinks = [block, Kinks.of_profile(*self._profiles[0])][: 2 if count % _BLOCK else 1]
        counts = [count // _BLOCK, count % _BLOCK][: len(kinks)]
        step = _grid_step(kinks, counts, wanted=self.resolution)
        return Rounds(tuple((k.on_grid(step), c) for k, c in zip(kinks, counts, strict=True)))

    @cached_property
    def _quick_kinks(self) -> list[Kinks]:
        return [Kinks.of_profile(*profile) for profile in self._quick_profiles]

    @cached_property
    def _quick_rounds(self) -> Rounds:
        counts = [count for _, count in self._rounds]
        kinks = self._quick_kinks
        step = _grid_step(kinks, counts, wanted=self.resolution)
        return Rounds(tuple((k.on_grid(step), c) for k, c in zip(kinks, counts, strict=True)))

    @property
    def _infinite(self) -> float:
        return self._dominating_rounds.infinite if self._rounds else 0.0

    @cached_property
    def _crowd_rounds(self) -> dict[int, list[tuple[Rounds, float]]]:
        """Return compositions of crowds that exist, by how much coarser their grid was made."""
        return {}

    def _crowd_rounds_on(self, coarser: int) -> list[tuple[Rounds, float]]:
        """Return compositions of crowds that exist: rounds, and how far they are off the grid."""
        kinks = [Kinks.of_profile(*profile) for profile in self._profiles]
        counts = [count for _, count in self._rounds]
        step = _grid_step(kinks, counts, finer=_FINER) * coarser
        found = []
        for direction in (1, -1):
            parts, shift = [], 0.0
            for (mechanism, count), part in zip(self._rounds, kinks, strict=True):
                pair = mechanism.instance()
                if pair is None:
                    return []
                most = max(part.reach, step)
                first, second = pair[::direction]
                loss = dominated_loss(first, second, step, lacking=_LACKING, most=most)
                parts.append((loss, count))
                shift += count * (loss.moved + _LAW_ERROR)
            found.append((Rounds(tuple(parts)), shift))
        return found

    def _upper_delta(self, epsilon: float) -> float:
        worst = self._dominating_rounds.upper_delta(epsilon)
        worst = min([worst, *(up(chosen.delta(epsilon)) for chosen in self._adaptive_profiles)])
        if self._adaptive_blocks is not None:
            worst = min(worst, self._adaptive_blocks.upper_delta(epsilon))
        # Charged once for all rounds: the chances that anything was cut or missing add up.
        whole = worst + self._cost(epsilon)
        apart = (
            # Down: at a smaller epsilon delta is larger.
            rest._upper_delta(down(epsilon - local))  # noqa: SLF001 - of its own class
            for local, rest in self._local_parts_apart
            if local < epsilon
        )
        return min(up(whole), self._plain_delta(epsilon, self._profiles), *apart)

    @cached_property
    def _local_parts_apart(self) -> list[tuple[float, Composition]]:
        """Return the local epsilon of the largest parts, and the composition of all others.

        Losses of very different sizes share a grid that is too coarse for the small ones. A part
        that may lose its whole local epsilon is instead taken for that, and the others have a
        grid of their own: delta(ε) of all is at most that of the others at ε less the local one.
        """
        reach = {m: _nodes(m)[-1] for m, _ in self._rounds}
        pure = [
            (part, count)
            for part, count in self.parts
            if all(reach[m] >= m.local_epsilon for m, _ in _without_cutting(part).rounds)
        ]
        pure.sort(key=lambda pair: -pair[0].local_epsilon)
        found = []
        for size in range(1, min(len(pure), _MOST_APART) + 1):
            gone = pure[:size]
            rest = tuple(pair for pair in self.parts if pair not in gone)
            if rest:
                local = Composition(tuple(gone)).local_epsilon
                found.append((local, Composition(rest, self.resolution)))
        return found

    def _lower_delta(self, epsilon: float) -> float:
        """Return a lower end: one crowd in all rounds, or the best single part.

        A law whose masses and ratios are off by the relative error r has, over all rounds, losses
        that are off by rounds·2r: a delta at an epsilon larger by that much is reached, but for
        a share of rounds·r of it.
        """
        best, cut = 0.0, cutting_cost(self._distance, epsilon)
        for coarser in _COARSER:
            crowds = self._crowd_rounds
            if coarser not in crowds:
                crowds[coarser] = self._crowd_rounds_on(coarser)
            try:
                for rounds, shift in crowds[coarser]:
                    value, doubt = rounds.delta(epsilon + shift)
                    best = max(best, down(value * (1 - shift) - doubt - cut))
                break
            except TooFineGrid:
                continue
        # Whoever sees all rounds sees each of them: a single part is a lower end.
        return best or max(mechanism.delta(epsilon).lower for mechanism, _ in self.parts)


def _ended_at_local_epsilon(mechanism: Mechanism, nodes: Floats, upper: Floats) -> _Profile:
    # No loss is above the local epsilon: from there on delta is 0. A profile that ends there
    # already has that node twice, which changes no hull.
    return np.append(nodes, mechanism.local_epsilon), np.append(upper, 0.0)


def _without_cutting(mechanism: Mechanism) -> Mechanism:
    return mechanism.inner if isinstance(mechanism, Shortened) else mechanism


def _grid_step(
    kinks: Sequence[Kinks],
    counts: Sequence[int],
    *,
    wanted: float | None = None,
    finer: float = 1.0,
) -> float:
    """Return the step: fine for the narrowest losses, but no more steps than can be added up.

    It is the largest loss over a power of two. So that loss lies on the grid (for few users it
    is where the mass is), and a finer grid holds all points of a coarser one: splitting a mass
    between closer points of it never gives a larger delta.
    """
    reach = max(part.reach for part in kinks) or 1.0
    # No total spreads farther than 40 standard deviations, nor than all losses together.
    spread = sum(
        min(40.0 * math.sqrt(count * part.variance), 4.0 * count * part.reach)
        for part, count in zip(kinks, counts, strict=True)
    )
    if wanted is None:
        narrowest = min(math.sqrt(part.variance) for part in kinks)
        wanted = min(narrowest / (_STEPS * finer), spread / _FEW_GRID)
    step = max(min(wanted, reach), spread / _MOST_GRID) or reach
    # Up to the next power of two: the grid is as fine as was asked for, or finer.
    return max(reach / 2.0 ** math.ceil(math.log2(reach / step)), _LEAST_STEP)


@lru_cache(maxsize=64)
def _sides(mechanism: Mechanism) -> Kinks | None:
    """Return a pair that dominates, one way round or the other, every pair of a mechanism."""
    sides = mechanism.sides()
    if sides is None:
        return None
    nodes, upper = full_profile(mechanism)
    # The worst of all is an upper end of either side, too.
    ends = [np.minimum(side.profile(nodes)[1], upper) for side in sides]
    return Kinks.of_profile(nodes, *ends)


@lru_cache(maxsize=64)
def _cells(mechanism: Mechanism) -> tuple[Losses, ...]:
    """Return losses, each of which dominates some pairs of a mechanism, all together every pair."""
    nodes = _cell_nodes(mechanism)
    cells = [Kinks.of_profile(nodes, *ends) for ends in mechanism.cells(nodes) or ()]
    return _both_ways(cells, nodes) if cells else _orders(mechanism)


@lru_cache(maxsize=64)
def _orders(mechanism: Mechanism) -> tuple[Losses, ...]:
    both = _sides(mechanism)
    return () if both is None else _both_ways([both], _cell_nodes(mechanism))


def _cell_nodes(mechanism: Mechanism) -> Floats:
    return np.linspace(0.0, float(full_profile(mechanism)[0][-1]), _CELL_NODES + 1)


def _both_ways(cells: list[Kinks], nodes: Floats) -> tuple[Losses, ...]:
    cells = [*cells, *(cell.swapped for cell in cells)]
    return tuple(Losses.of_grid(cell.on_grid(float(nodes[1]))) for cell in cells)


@lru_cache(maxsize=16)
def _block(mechanism: Mechanism) -> Kinks | None:
    """Return a pair that dominates a block of rounds whose crowds are chosen one after the other.

    Choices come in both orders, so the worst profile is that of either order.
    """
    cells = _cells(mechanism)
    try:
        worst = worst_profile(cells, _BLOCK) if cells else None
    except TooFineGrid:
        return None
    return None if worst is None else Kinks.of_profile(*worst.profile(_BLOCK_NODES))


def _joined(deltas: Iterable[tuple[float, int]]) -> float:
    """Return 1 − Π(1 − δ)^count, rounded up: what parts with these deltas come to at most.

    Of every part the measure min(P, e^ε·Q) has the mass 1 − δ or more. The product of these
    is below the product of all P, and below that of all Q times e^Σε.
    """
    total = 0.0
    for delta, count in deltas:
        if not delta < 1:
            return 1.0
        # Logarithms keep the digits of a δ far below the roundoff of 1 − δ.
        total += count * math.log1p(-delta)
    return min(up(-math.expm1(total) * (1 + 1e-14)), 1.0)


def _chord_at(nodes: Floats, upper: Floats, epsilon: float) -> float:
    return float(np.interp(math.expm1(epsilon), np.expm1(nodes), upper))


@lru_cache(maxsize=256)
def _nodes(mechanism: Mechanism) -> Floats:
    # Kept, because finding where a profile ends takes a search.
    return mechanism.nodes()


@lru_cache(maxsize=64)
def _quick_profile(mechanism: Mechanism) -> _Profile:
    nodes = _nodes(mechanism)
    # Every second node of many: delta comes out up to 2 % larger, epsilon about 0.1 %.
    nodes = nodes[::2] if len(nodes) > _MANY_NODES else nodes
    upper = mechanism.profile_bound(nodes)
    # From the local epsilon on delta is 0, whatever the search proved there.
    if nodes[-1] >= mechanism.local_epsilon:
        upper[-1] = 0.0
    return nodes, upper


@lru_cache(maxsize=256)
def full_profile(mechanism: Mechanism) -> _Profile:
    """Return nodes and proven upper ends of the worst-crowd profile of one mechanism.

    Nodes reach up to the profile's floor, behind which a loss counts as infinite;
    the local guarantee ends the profile at 0 where it comes first.
    """
    nodes = _nodes(mechanism)
    upper = mechanism.profile(nodes)[1]
    if nodes[-1] >= mechanism.local_epsilon:
        upper[-1] = 0.0
    return nodes, upper


# ----------------------------------------------------------------------------
# What a document says of a composition.


def _single(part: Mechanism) -> Mechanism:
    if isinstance(part, Composition):
        raise InvalidInput("part of a composition", "a single mechanism", Unquoted("a composition"))
    return part


def _rounds(count: object) -> int:
    return checks.whole("number of times", count, least=1, most=_MOST_TIMES)


def _read_resolution(text: object) -> float:
    try:
        value = float.fromhex(text) if isinstance(text, str) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    return checks.real("resolution", value, least=1e-9, most=1.0)
