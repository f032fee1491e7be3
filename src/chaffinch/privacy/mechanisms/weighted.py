"""Numbers in clear codes of different weights, among noise that cancels: the sum is all that shows.

A number is a whole number of steps from 0 to C·2^D. It is sent as one code for each group of binary
levels, in clear; the codes of an answer add up to it. They hide in floods of *atoms*, sets of
messages that add up to nothing: a code with the units that cancel it, two units of one level with
one of the next (a *link*), a pair of opposite tops. Units of level k weigh (−2)^k, tops ±(−2)^D.
Noise that does not cancel is added at the top alone: the difference of two geometric numbers.
Ghazi, Kumar, Manurangsi, Pagh and Sinha (2021) began with sums from clear messages and zero-sum
noise; the chain of units is described and proved in docs/concepts/weighted-numbers.md.

What one changed answer moves. Its old code and its new one: one flood each, by one. Then units are
left over, at most one of each level. They are carried up by links, two units to one of the next
level; where their number is odd, the few units of smoothing noise of that level take the rest, and
their law changes by no more than the chances of "even" and "odd" differ. At the top a few tops are
left, at most C: that is what the noise of the sum hides.

So delta is bounded by the independent losses of a few shifted floods, of the parities and of the
top, in the worst order of digits. That order is found by going down from the top: what two numbers
can still have in common with the ends of the range is a handful of cases at each level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import GuaranteeNotProven, InvalidInput, Unquoted, checks
from chaffinch.privacy import forms
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics.floods import Flood, negative_binomial
from chaffinch.privacy.numerics.loss_budgets import Grid, Losses
from chaffinch.privacy.numerics.precision import Floats, down, up
from chaffinch.privacy.numerics.roots import find_crossing
from chaffinch.privacy.progress import count_step

_MOST_LEVELS, _MOST_TOPS = 24, 64
_MOST_RATE, _MOST_BURST = 5000, 1000
_LEAST_SMOOTHING, _MOST_SMOOTHING = Fraction(1, 2**16), 64
_LEAST_RATIO, _LARGEST_RATIO = Fraction(1, 2**64), 1 - Fraction(1, 2**30)
_MOST_CELLS = 6_000_000
"""Outcomes of the top that are followed where fewer users are honest."""
_MOST_SUMS = 2_000_000_000
"""Outcomes of all shifts of the top together: about twenty seconds."""
_MARGIN = _MOST_TOPS + 4
"""More than what moves the tops of any number."""
_LEAST_CELL = 1e-28
"""Outcomes of the top that are rarer are left out where fewer users are honest."""
_MOST_SHARE = Fraction(2**64)
_TAIL = 1e-24
"""What windows of laws leave out, each; it counts as infinite loss."""
_POINTS = 512
"""Points of the grid in the loss of the sum's noise."""
_LEFT, _RIGHT = 2, 5
"""The grid reaches from minus so many times that loss to so many times it."""
_LEAST_SCALE, _MOST_SCALE = 2.0**-10, 4.0
_DOUBT = 1e-13
"""More than what is rounded between a law and its use here, as a share of a mass."""

_FLOODS = ("code_flood", "link_flood", "top_flood", "whole_flood")
_PARAMETERS = ("tops", "levels", "ratio", *_FLOODS, "share")
_Block = tuple[int, bool]
"""A number's digits from a level up, as their sum; and whether any lower digits keep it inside."""


@dataclass(frozen=True, init=False)
class WeightedNumbers(Mechanism):
    """A number of up to ``tops``·2^levels steps as clear codes, among noise that cancels.

    ``levels`` has a list for each code of an answer, the lowest levels first, with the rates of
    single units at the levels that it carries; the last one carries the tops, too. All rates are of
    all honest users together. ``ratio`` is that of the geometric noise of the sum, which comes in
    tops. ``code_flood``, ``link_flood`` and ``top_flood`` hold the rates of bursts of 1, 2, …
    atoms: of each code, of the links of each level, and of pairs of tops. With a ``whole_flood`` an
    answer is a single code, one for each of its values; that is its flood, and the codes of the
    groups are in its atoms. ``share`` is how many users are honest, over how many the noise was cut
    for.

    >>> few = WeightedNumbers(
    ...     tops=1,
    ...     levels=[["2"]],
    ...     ratio="1/2",
    ...     code_flood=["2.6", "1.69"],
    ...     link_flood=["2.6", "1.69"],
    ...     top_flood=["1.95", "1.27"],
    ... )
    >>> few.steps, few.delta(1.0).upper < 0.11
    (2, True)
    """

    tops: int
    levels: tuple[tuple[Fraction, ...], ...]
    ratio: Fraction
    code_flood: tuple[Fraction, ...]
    link_flood: tuple[Fraction, ...]
    top_flood: tuple[Fraction, ...]
    whole_flood: tuple[Fraction, ...] | None
    share: Fraction

    view = "messages"
    method: Method = "upper-bound"
    document_name = "weighted-numbers"
    profile_nodes: ClassVar[int] = 1025
    """Its profile falls steeply: with fewer, several numbers together would take more noise."""

    def __init__(
        self,
        *,
        tops: int,
        levels: Sequence[Sequence[float | str | Fraction]],
        ratio: float | str | Fraction,
        code_flood: Sequence[float | str | Fraction],
        link_flood: Sequence[float | str | Fraction],
        top_flood: Sequence[float | str | Fraction],
        whole_flood: Sequence[float | str | Fraction] | None = None,
        share: float | str | Fraction = 1,
    ) -> None:
        settled = {
            "tops": checks.whole("number of tops", tops, least=1, most=_MOST_TOPS),
            "levels": _check_levels(levels),
            "ratio": _check_ratio(ratio),
            "code_flood": _check_flood("code flood", code_flood),
            "link_flood": _check_flood("link flood", link_flood),
            "top_flood": _check_flood("top flood", top_flood),
            "whole_flood": None
            if whole_flood is None
            else _check_flood("whole flood", whole_flood),
            "share": checks.probability(
                "honest share", share, below=_MOST_SHARE, rule="above 0 and below 2^64"
            ),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def written(self, document_of: Callable[[Mechanism], dict[str, Any]]) -> dict[str, Any]:  # noqa: ARG002
        """Return its parameters; rates are lists of fractions."""

        def texts(rates: Iterable[Fraction]) -> list[str]:
            return [forms.fraction_text("rate", rate) for rate in rates]

        floods = {name: texts(found) for name in _FLOODS if (found := getattr(self, name))}
        plain = forms.written_fields(self, ("tops", "ratio", "share"), ("ratio", "share"))
        return {**plain, "levels": [texts(one) for one in self.levels], **floods}

    @classmethod
    def from_written(
        cls,
        fields: dict[str, Any],
        mechanism_of: Callable[[object], Mechanism],  # noqa: ARG003
    ) -> WeightedNumbers:
        """Return the mechanism with these parameters."""
        optional = {"whole_flood"} - fields.keys()
        forms.check_fields(cls.__name__, fields, tuple(p for p in _PARAMETERS if p not in optional))
        found = forms.read_fields(
            {name: fields[name] for name in ("tops", "ratio", "share")}, ("ratio", "share")
        )
        for name in _FLOODS:
            if name in fields:
                found[name] = _rates_from(name, fields[name])
        levels = fields["levels"]
        if not isinstance(levels, (list, tuple)):
            raise InvalidInput("levels", "a list of lists of rates", levels)
        return cls(**found, levels=[_rates_from("levels", one) for one in levels])

    @cached_property
    def smoothing(self) -> tuple[Fraction, ...]:
        """Return the rates of single units, from the lowest level up."""
        return tuple(rate for group in self.levels for rate in group)

    @property
    def steps(self) -> int:
        """Return the largest number of steps, C·2^D."""
        return self.tops << len(self.smoothing)

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        who = "all" if self.share >= 1 else f"a share of {float(self.share):.6g} of the"
        return f"{who} users among whom the noise was divided, each of them honest"

    @property
    def local_epsilon(self) -> float:
        """Return infinity: a clear report hides nothing from who sees its sender."""
        return math.inf

    # -------------------------------------------------------------------- the profile

    def delta(self, epsilon: float) -> Bracket:
        """Return a proven upper end of delta, and what a real attack shows as the lower one."""
        lower, upper = self.profile(np.array([checks.epsilon(epsilon)]))
        return Bracket(float(lower[0]), float(upper[0]))

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        upper = self.profile_bound(epsilons)
        if self.share > 1:
            return np.zeros_like(upper), upper
        grid = _grid_of(self)
        seen = np.array([down(grid.shown(_attack(self), float(e))) for e in epsilons])
        return np.minimum(seen, upper), upper

    def delta_bound(self, epsilon: float) -> float:
        """Return a proven upper end of delta."""
        return float(self.profile_bound(np.array([checks.epsilon(epsilon)]))[0])

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return proven upper ends of delta."""
        left = _worst(self)
        found = _grid_of(self).read(left, np.asarray(epsilons, dtype=np.float64))
        return np.array([min(up(value), 1.0) for value in found])

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon; infinite below what is left at infinity."""
        target = checks.delta(delta)
        if self.delta_bound(_grid_of(self).reach) > target:
            return Bracket(0.0, math.inf)
        upper = find_crossing(self.delta_bound, target, top=math.inf, tolerance=1e-9)[1]
        lower = find_crossing(lambda e: self.delta(e).lower, target, top=upper, tolerance=1e-9)[0]
        return Bracket(min(lower, upper), upper)

    def profile_end(self) -> float:
        """Return about the epsilon where delta falls below the profile's floor."""
        return _grid_of(self).reach


# ----------------------------------------------------------------------------
# The laws of what moves.


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """The law of a flood: masses from 0 on, how far each is off, and what lies beyond."""

    mass: Floats
    relative: float
    missing: float

    def moved(self, grid: Grid, by: int) -> Losses:
        """Return the losses of the flood with one atom more, or less, against the flood."""
        none = np.zeros(1)
        # Without an atom nothing is seen below 0: P[F = 0] lies where the other law has nothing.
        here, there = (none, self.mass), (self.mass, none)
        first, second = (here, there) if by > 0 else (there, here)
        return grid.losses(
            np.concatenate(first),
            np.concatenate(second),
            relative=self.relative,
            missing=self.missing,
        )


def _counted(mechanism: WeightedNumbers) -> Fraction:
    # More honest users than the noise was cut for add noise, which never hurts and is not
    # counted on.
    return min(mechanism.share, Fraction(1))


def _flood(mechanism: WeightedNumbers, rates: Iterable[Fraction]) -> _Noise:
    share = _counted(mechanism)
    return _noise(tuple(rate * share for rate in rates))


@lru_cache(maxsize=64)
def _noise(rates: tuple[Fraction, ...]) -> _Noise:
    flood = Flood(rates, Fraction(0))
    size = flood.window(_TAIL)
    mass, relative = flood.bursts(size)
    # Twice the tail: masses too small for a double are less than the second one.
    return _Noise(mass.astype(np.float64), float(relative) + _DOUBT, 2 * _TAIL)


@dataclass(frozen=True, eq=False)
class _Tops:
    """P[Y, W]: rows of Y, the difference of tops that do not cancel, over W, the opposite pairs.

    With all users honest the two are independent: there is one row, and Y has a ``ratio``.
    """

    rows: Floats
    relative: float
    missing: float
    ratio: float | None = None

    def moved(self, grid: Grid, plus: int, minus: int) -> Losses:
        """Return the losses where so many tops of either sign are added, or taken if negative.

        Y moves by plus − minus, and W by min(max(Y, 0) + plus, max(−Y, 0) + minus).
        """
        if self.ratio is None:
            return self._moved_cells(grid, plus, minus)
        moved, most = plus - minus, max(abs(plus), abs(minus))
        before, first, second = self._pairs_of_rows(self.ratio, moved, most)
        shifts = np.minimum(np.maximum(before, 0) + plus, np.maximum(-before, 0) + minus)
        size, margin = self.rows.shape[1], int(np.abs(shifts).max())
        here, there = np.zeros((2, len(before), size + 2 * margin))
        there[:, margin : margin + size] = second
        for row, shift in enumerate(shifts):
            here[row, margin + shift : margin + shift + size] = first[row]
        # What either law leaves out may hold anything of the other one.
        return grid.losses(here, there, relative=self.relative, missing=self.missing)

    def _pairs_of_rows(
        self, ratio: float, moved: int, most: int
    ) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return places of Y, P[Y, W] there, and P[Y + moved, W]."""
        reach = abs(moved) + most + 1
        places = np.arange(-reach, reach + 1)
        chances = []
        for by in (0, moved):
            # P[Y = y] = (1 − a)/(1 + a)·a^|y|. The two ends stand for all beyond, where W moves by
            # as much: Σ a^k over k ≥ y is a^y/(1 − a).
            found = ratio ** np.abs(places + by) * (1 - ratio) / (1 + ratio)
            found[[0, -1]] /= 1 - ratio
            chances.append(found[:, None] * self.rows)
        return places, chances[0], chances[1]

    @cached_property
    def _cells(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
        """Return the cells that are not empty, by row and column, and all logarithms, padded."""
        rows, columns = np.nonzero(self.rows)
        logs = np.full(tuple(size + 2 * _MARGIN for size in self.rows.shape), -np.inf)
        mass = self.rows[rows, columns]
        logs[rows + _MARGIN, columns + _MARGIN] = np.log(mass)
        return rows, columns, mass, logs

    def _moved_cells(self, grid: Grid, plus: int, minus: int) -> Losses:
        rows, columns, mass, logs = self._cells
        # Outcomes of the first law are named as they were before they moved.
        places = np.arange(len(self.rows)) - len(self.rows) // 2
        shifts = np.minimum(np.maximum(places, 0) + plus, np.maximum(-places, 0) + minus)
        width = logs.shape[1]
        own = (rows + _MARGIN) * width + columns + _MARGIN
        other = own + (shifts + (plus - minus) * width)[rows]
        flat = logs.ravel()
        wider = math.log1p(self.relative) - math.log1p(-self.relative)
        loss = flat[own] - flat[other] + wider
        return grid.losses_of(mass * (1 + self.relative), loss, missing=self.missing)


@lru_cache(maxsize=8)
def _top_law(mechanism: WeightedNumbers) -> _Tops:
    share, ratio = _counted(mechanism), mechanism.ratio
    if share == 1:
        law = Flood(mechanism.top_flood, ratio**2).law(_TAIL)
        pairs = law.mass.astype(np.float64)[None, :]
        missing = _TAIL + float(law.missing)
        return _Tops(pairs, float(law.relative) + 4 * _DOUBT, missing, float(ratio))
    sign = negative_binomial(ratio, share, _TAIL)
    one = sign.mass.astype(np.float64)
    reach = len(one) - 1
    flood = _flood(mechanism, mechanism.top_flood)
    # Of a large flood the places far below its mean are as rare as those behind its window.
    rare = int(np.searchsorted(np.cumsum(flood.mass), _TAIL))
    bursts = flood.mass[rare:]
    cells = (2 * reach + 1) * (len(bursts) + reach)
    if cells > _MOST_CELLS:
        hint = (
            f"the noise of a share of the users has {cells} outcomes, and at most {_MOST_CELLS} "
            "are followed; take a ratio farther from 1, or a smaller flood"
        )
        raise GuaranteeNotProven("delta", asked=1.0, upper=1.0, hint=hint)
    rows = np.zeros((2 * reach + 1, len(bursts) + reach))
    for ahead in range(reach + 1):
        # Y = k and min(Z⁺, Z⁻) = m: one sign has m, the other m + k.
        both = np.convolve(one[ahead:] * one[: reach + 1 - ahead], bursts)
        rows[reach + ahead, : len(both)] = rows[reach - ahead, : len(both)] = both
    relative = 2 * float(sign.relative) + flood.relative + 4 * _DOUBT
    small = rows < _LEAST_CELL
    missing = 4 * _TAIL + flood.missing + 2 * float(rows[small].sum())
    rows[small] = 0.0
    return _Tops(rows, relative, missing)


# ----------------------------------------------------------------------------
# The worst pair of numbers.


@lru_cache(maxsize=64)
def _grid_of(mechanism: WeightedNumbers) -> Grid:
    """Return a grid that fits the loss of the sum's noise: a whole range moves it by C tops."""
    scale = -mechanism.tops * math.log(float(mechanism.ratio))
    scale = min(max(scale, _LEAST_SCALE), _MOST_SCALE)
    return Grid(scale / _POINTS, -_LEFT * _POINTS, _RIGHT * _POINTS)


@lru_cache(maxsize=16)
def _worst(mechanism: WeightedNumbers) -> Floats:
    """Return the delta of the worst change of an answer, as a function of epsilon."""
    grid = _grid_of(mechanism)
    search = _Descent(mechanism, grid)
    found = search.tops()
    for level in reversed(range(len(mechanism.smoothing))):
        count_step("levels of a number")
        found = search.below(level, found)
    left: Floats = np.maximum.reduce([carried[1] for carried in found.values()])
    for rates, times in _codes(mechanism):
        flood = _flood(mechanism, rates)
        for by in (1, -1) * times:
            left = grid.after(flood.moved(grid, by), left)
    left.setflags(write=False)
    return left


def _codes(mechanism: WeightedNumbers) -> list[tuple[tuple[Fraction, ...], int]]:
    """Return the floods that a changed answer moves up by one and down by one, and how often."""
    groups = len(mechanism.levels)
    if mechanism.whole_flood is None:
        return [(mechanism.code_flood, groups)]
    # The atoms of the old and of the new code hold a code of each group.
    return [(mechanism.whole_flood, 1), (mechanism.code_flood, groups)]


_Carried = tuple[Floats, Floats, Floats]
"""What is left of epsilon where −1, 0 or 1 units come from below."""
_Found = dict[tuple[_Block, _Block], _Carried]
"""The worst of all two numbers, by what their digits so far leave open."""


@dataclass(frozen=True, eq=False)
class _Descent:
    """The search for the worst two numbers, from the tops down."""

    mechanism: WeightedNumbers
    grid: Grid

    @cached_property
    def _links(self) -> dict[int, Losses]:
        flood = _flood(self.mechanism, self.mechanism.link_flood)
        return {by: flood.moved(self.grid, by) for by in (1, -1)}

    def tops(self) -> _Found:
        """Return what the tops cost."""
        most, level = self.mechanism.tops, len(self.mechanism.smoothing)
        # About 2·C² shifts, each of about 3·C rows where all users are honest.
        law = _top_law(self.mechanism)
        rows = 3 * most + 4 if law.ratio is not None else len(law.rows)
        sums = (2 * most * most + 8) * rows * law.rows.shape[1]
        if sums > _MOST_SUMS:
            hint = "too many shifts of a long law of tops; take fewer tops, or a smaller top flood"
            raise GuaranteeNotProven("delta", asked=1.0, upper=1.0, hint=hint)
        kept: dict[tuple[int, int], Floats] = {}
        found: _Found = {}
        blocks = [
            (top, block)
            for top in range(-most - 2, most + 3)
            if (block := self.block(top * (-2) ** level, level)) is not None
        ]
        for (old, before), (new, after) in product(blocks, repeat=2):
            plus, minus = max(new, 0) - max(old, 0), max(-new, 0) - max(-old, 0)
            carried = tuple(self._cost(plus + units, minus, kept) for units in (-1, 0, 1))
            _take(found, (before, after), carried)
        return found

    def _cost(self, plus: int, minus: int, kept: dict[tuple[int, int], Floats]) -> Floats:
        if abs(plus - minus) > self.mechanism.tops:
            # No two numbers are further apart than the range: no path leads here.
            return np.zeros(len(self.grid.points))
        # The law of both signs is the same: what is lost does not change if they are exchanged.
        pair = max(plus, minus), min(plus, minus)
        if pair not in kept:
            count_step("tops of a number")
            losses = _top_law(self.mechanism).moved(self.grid, *pair)
            kept[pair] = self.grid.deltas(losses)
        return kept[pair]

    def below(self, level: int, above: _Found) -> _Found:
        """Return what is left of epsilon below a level, from what is left of it above."""
        found: _Found = {}
        rate = float(self.mechanism.smoothing[level] * _counted(self.mechanism))
        parity = _Parity.of(rate, self.grid)
        for blocks, carried in above.items():
            # m links up carry −m units to the level above.
            links = {m: carried[1 - m] for m in (-1, 0, 1)}
            for by, losses in self._links.items():
                links[by] = self.grid.after(losses, links[by])
            costs = {
                units: links[units // 2] if units % 2 == 0 else parity.left(self.grid, links, units)
                for units in range(-2, 3)
            }
            for digits in product((0, 1), repeat=2):
                first, second = map(self._with_digit, blocks, digits, (level, level))
                if first is not None and second is not None:
                    units = digits[1] - digits[0]
                    _take(found, (first, second), tuple(costs[units + c] for c in (-1, 0, 1)))
        return found

    def _with_digit(self, block: _Block, digit: int, level: int) -> _Block | None:
        # A block that is inside stays inside, whatever its digits are.
        return block if block[1] else self.block(block[0] + digit * (-2) ** level, level)

    def block(self, prefix: int, level: int) -> _Block | None:
        """Return the numbers with these digits from a level up, if any of them is in the range.

        They are what an atom's units stand for: it cancels its code, and the range is as long to
        either side of its middle. The digits below, of base −2, can make any number from the sum
        of the negative weights to that of the positive ones. One block that is inside is as good
        as another.
        """
        end = self.mechanism.steps // 2
        weights = [(-2) ** lower for lower in range(level)]
        low = prefix + sum(weight for weight in weights if weight < 0)
        high = prefix + sum(weight for weight in weights if weight > 0)
        if high < -end or low > end:
            return None
        return (0, True) if -end <= low and high <= end else (prefix, False)


def _take(found: _Found, pair: tuple[_Block, _Block], carried: tuple[Floats, ...]) -> None:
    """Keep the worse of what is known and what is new, for every epsilon."""
    known = found.get(pair, carried)
    down_, none, up_ = (np.maximum(one, other) for one, other in zip(known, carried, strict=True))
    found[pair] = (down_, none, up_)


@dataclass(frozen=True, slots=True, eq=False)
class _Parity:
    """Losses where the smoothing noise of a level takes an odd unit.

    The noise moves by one, up or down, from its law given "even" to that given "odd" or back.
    After it the first law has the other parity's chance, so that the loss is ± ln(even/odd).
    """

    odd: Losses
    even: Losses
    up_to_odd: float
    """How likely the noise moves up if it was even, and down if it was odd."""

    @classmethod
    def of(cls, rate: float, grid: Grid) -> _Parity:
        # P[even] = (1 + e^−2μ)/2. The mean given "odd" less that given "even" is
        # μ·coth μ − μ·tanh μ = 2μ/sinh 2μ, which is 2·P[up] − 1.
        gap, rest = math.exp(-2 * rate), -math.expm1(-2 * rate)
        loss = math.log1p(gap) - math.log(rest)
        chances = np.array([1 + gap]) / 2, np.array([rest]) / 2
        return cls(
            grid.choice(chances[0], np.array([loss])),
            grid.choice(chances[1], np.array([-loss])),
            0.5 + (rate / math.sinh(2 * rate) if rate < 300 else 0.0),
        )

    def left(self, grid: Grid, links: dict[int, Floats], units: int) -> Floats:
        """Return what is left of epsilon if so many units, an odd number, have to be carried."""
        # Up: R′ = R + 1, and (units − 1)/2 links; down: one more.
        upwards, downwards = links[(units - 1) // 2], links[(units + 1) // 2]
        chance = self.up_to_odd
        sure = 1 + 4e-15  # for the rounding of two chances that add up to one
        to_odd = (chance * upwards + (1 - chance) * downwards) * sure
        to_even = ((1 - chance) * upwards + chance * downwards) * sure
        return np.asarray(grid.after(self.odd, to_odd) + grid.after(self.even, to_even))


# ----------------------------------------------------------------------------
# An attack.


@dataclass(frozen=True, slots=True, eq=False)
class AttackLaws:
    """What somebody judges by who counts two codes and adds everything up.

    The smallest number against the largest: their codes of the last group, or whole codes, differ,
    and the sum by C·2^D. In the sum all atoms cancel. What is left is the noise of the top and the
    smoothing of all levels, of which whole tops are seen, rounded down.
    """

    flood: Floats
    """The law of the flood of one code."""
    flood_relative: float
    total: Floats
    """The law of the sum's noise in whole tops, from ``start`` on."""
    start: int
    total_relative: float


@lru_cache(maxsize=16)
def attack_laws(mechanism: WeightedNumbers) -> AttackLaws:
    """Return the laws of what the lower end of delta is proven by."""
    rates = mechanism.code_flood if mechanism.whole_flood is None else mechanism.whole_flood
    flood = _flood(mechanism, rates)
    start, total, relative = _total(mechanism)
    return AttackLaws(flood.mass, flood.relative, total, start, relative)


@lru_cache(maxsize=16)
def _attack(mechanism: WeightedNumbers) -> Losses:
    """Return the losses of that attack, from below."""
    grid, laws = _grid_of(mechanism), attack_laws(mechanism)
    none = np.zeros(mechanism.tops)
    moved, rest = np.concatenate([none, laws.total]), np.concatenate([laws.total, none])
    # Each window lacks a tail or two, and the noise of all levels is that of many.
    many = 4 * (_MOST_LEVELS + 2) * _TAIL
    parts = [grid.losses_below(moved, rest, relative=laws.total_relative, lacking=many)]
    for by in (1, -1):
        pair = _pair(laws.flood, by)
        few = 4 * _TAIL
        parts.append(grid.losses_below(*pair, relative=laws.flood_relative, lacking=few))
    return grid.together(parts)


def _pair(mass: Floats, by: int) -> tuple[Floats, Floats]:
    more, less = np.concatenate([[0.0], mass]), np.concatenate([mass, [0.0]])
    return (more, less) if by > 0 else (less, more)


def _total(mechanism: WeightedNumbers) -> tuple[int, Floats, float]:
    """Return the law of the sum's noise in whole tops, rounded down, and how far masses are off.

    ⌊(r₀ + 2r₁ + 4r₂ + …)/2^D⌋ with r_k = (−1)^k·R_k: level by level, half of what is below is
    carried up, rounded down.
    """
    share = _counted(mechanism)
    start, relative = 0, 0.0
    law: Floats = np.ones(1)
    for level, rate in enumerate(mechanism.smoothing):
        noise = _noise((rate * share,))
        relative += noise.relative + (len(law) + len(noise.mass)) * 4e-16
        one, first = (noise.mass, 0) if level % 2 == 0 else (noise.mass[::-1], 1 - len(noise.mass))
        both, begin = np.convolve(law, one), start + first
        places = (begin + np.arange(len(both))) // 2
        start = int(places[0])
        law = np.asarray(np.bincount(places - start, both), dtype=np.float64)
    sign = negative_binomial(mechanism.ratio, share, _TAIL)
    one = sign.mass.astype(np.float64)
    # Z⁺ − Z⁻ is symmetric, so that the sign of (−2)^D does not matter.
    tops = np.convolve(one, one[::-1])
    found = np.convolve(law, tops)
    operations = (len(law) + 2 * len(one)) * 4e-16
    relative += 2 * float(sign.relative) + operations + _DOUBT
    return start - len(one) + 1, found, relative


# ----------------------------------------------------------------------------
# Checks.


def _check_ratio(value: object) -> Fraction:
    rule = "at least 2^-64 and at most 1 - 2^-30"
    ratio = checks.probability("ratio", value, below=Fraction(1), rule=rule)
    if not _LEAST_RATIO <= ratio <= _LARGEST_RATIO:
        raise InvalidInput("ratio", rule, value)
    return ratio


def _check_levels(levels: object) -> tuple[tuple[Fraction, ...], ...]:
    rule = f"lists of at least one rate each, together 1 to {_MOST_LEVELS}"
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise InvalidInput("levels", rule, levels)
    for group in levels:
        if isinstance(group, str) or not isinstance(group, Sequence) or not group:
            raise InvalidInput("levels", rule, levels)
    if not 1 <= sum(map(len, levels)) <= _MOST_LEVELS:
        raise InvalidInput("levels", rule, Unquoted(f"{sum(map(len, levels))} rates"))
    found = tuple(
        tuple(checks.rate("rate of a level", rate, most=_MOST_SMOOTHING) for rate in group)
        for group in levels
    )
    least = min(map(min, found))
    if least < _LEAST_SMOOTHING:
        raise InvalidInput("rate of a level", "at least 2^-16", least)
    return found


def _rates_from(name: str, value: object) -> list[Fraction]:
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(name, "a list of rates", value)
    return [forms.fraction_from(name, rate) for rate in value]


def _check_flood(name: str, flood: object) -> tuple[Fraction, ...]:
    rule = f"a list of 1 to {_MOST_BURST} rates of at least 0, together at most {_MOST_RATE}"
    if isinstance(flood, str) or not isinstance(flood, Sequence) or len(flood) > _MOST_BURST:
        raise InvalidInput(name, rule, flood)
    rates = tuple(checks.rate(f"rate of the {name}", rate, most=_MOST_RATE) for rate in flood)
    if not 0 < sum(rates) <= _MOST_RATE:
        raise InvalidInput(name, rule, Unquoted(f"a sum of {float(sum(rates)):.6g}"))
    return rates
