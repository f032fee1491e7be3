"""Answers in clear among signed decoys: the users send the noise that a trusted centre would add.

Over all honest users the noise of one value is Z⁺ messages "plus" and Z⁻ messages "minus", both
geometric (ratios p and q), and F pairs of one plus and one minus, the flood. Write D = Z⁺ − Z⁻
and W = F + min(Z⁺, Z⁻). Then D and W are independent: D is a two-sided geometric law, which is
the noise of the estimate, and W = F + Geom(pq) covers the number of messages. What is seen of a
value are plus − minus and min(plus, minus), so the view of one changed answer is a sum over D of
one-dimensional hockey-sticks of W against W moved by a few steps (Ghazi, Kumar, Manurangsi, Pagh
and Sinha 2021 have the idea; the independence makes it exact).

Noise on a bit may be *doubled*: every message of one sign is sent twice. A changed answer moves
D by two, so noise of odd size would protect nothing; D = 2(Z⁺ − Z⁻), W = F + 2·min(Z⁺, Z⁻).

If only a share g of the users is honest, Z± are negative binomial with exponent g and the flood
comes at g times its rates. D and W then depend on one another, and the sum is two-dimensional.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from chaffinch.errors import GuaranteeNotProven, InvalidInput, Unquoted, checks
from chaffinch.privacy import forms
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics.floods import Flood, negative_binomial_masses
from chaffinch.privacy.numerics.positive_parts import Doubt, PositiveParts, on_few_ratios
from chaffinch.privacy.numerics.precision import (
    LARGEST_EXPONENT,
    LEAST_TAIL,
    Floats,
    Wide,
    WideArray,
    down,
    exp_minus_one,
    gamma,
    log_of,
    up,
    wide,
)
from chaffinch.privacy.numerics.roots import find_crossing
from chaffinch.privacy.progress import count_step

_LARGEST_RATIO = np.finfo(Wide).max ** Wide(0.25)
"""Lower ends of ratios are capped here, so that products of a few of them stay finite."""

_QUESTIONS = ("bit", "choice", "number")
_MOST_STEPS = 1024
_MOST_RATE = 700
"""Of all bursts together: e^−rate must stay a float."""
_MOST_BURST = 10_000
_MOST_SHARE = Fraction(2**64)
_LEAST_RATIO = Fraction(1, 2**64)
"""Ratios lie so far from 0 and 1 at least: what a device can draw."""
_MOST_CELLS = 3_000_000
"""Outcomes of the two-dimensional law, or of all laws of a number together, that are kept."""
_FIRST_TAIL, _FIRST_TAIL_OF_SHARE, _TAIL_OF_BOUND = Wide(1e-40), Wide(1e-12), Wide(1e-18)
_LEAST_TAIL_OF_DOUBLES = 1e-100
_MOST_SUMS = 1e9
"""Every change of a number, at every place, over the whole law: about half a minute."""
_INSTANCE_TAIL, _INSTANCE_ERROR = Wide(1e-20), 1e-11
"""What ``instance`` promises of its masses."""


_PARAMETERS = ("question", "plus_ratio", "minus_ratio", "flood", "steps", "share")
_DOUBLED = (*_PARAMETERS, "doubled")
"""Noise that is not doubled is written as ever, without that word."""


@dataclass(frozen=True, init=False)
class SignedDecoys(Mechanism):
    """Answers in clear, with geometric noise of either sign and a flood of pairs per value.

    ``flood`` holds the rates of bursts of 1, 2, … pairs, of all honest users together. A bit
    sends one plus or one minus, a number in ``steps`` steps that many, a choice one plus for
    its value. ``share`` is how many users are honest, over how many the noise was cut for. More
    of them add noise, which never hurts: above 1 only the upper end, that of 1, is proven. Of a
    bit noise may be ``doubled``: each plus and minus of it comes twice, but no pair.

    >>> flat = SignedDecoys(
    ...     question="bit", plus_ratio="2/3", minus_ratio="2/3", flood=["3/4", "5/12"]
    ... )
    >>> flat.delta(1.0).relative_width < 1e-9
    True
    """

    question: str
    plus_ratio: Fraction
    minus_ratio: Fraction
    flood: tuple[Fraction, ...]
    steps: int
    share: Fraction
    doubled: bool

    view = "messages"
    document_name = "signed-decoys"
    document_fractions = ("plus_ratio", "minus_ratio", "share")
    profile_nodes: ClassVar[int] = 1025
    """A profile is cheap here, and its infinite loss makes it bend sharply."""

    def __init__(
        self,
        *,
        question: str,
        plus_ratio: float | str | Fraction,
        minus_ratio: float | str | Fraction,
        flood: Sequence[float | str | Fraction],
        steps: int = 1,
        share: float | str | Fraction = 1,
        doubled: bool = False,
    ) -> None:
        kind = checks.choice("question", question, _QUESTIONS)
        most = _MOST_STEPS if kind == "number" else 1
        if checks.truth("doubled", doubled) and kind != "bit":
            raise InvalidInput("doubled noise", "for a bit", question)
        settled = {
            "question": kind,
            "plus_ratio": _check_ratio("plus ratio", plus_ratio),
            "minus_ratio": _check_ratio("minus ratio", minus_ratio),
            "flood": _check_flood(flood),
            "steps": checks.whole("number of steps", steps, least=1, most=most),
            "share": checks.probability(
                "honest share", share, below=_MOST_SHARE, rule="above 0 and below 2^64"
            ),
            "doubled": doubled,
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    def written(self, document_of: Callable[[Mechanism], dict[str, Any]]) -> dict[str, Any]:  # noqa: ARG002
        """Return its parameters; the rates of a flood are a list."""
        names = _DOUBLED if self.doubled else _PARAMETERS
        plain = forms.written_fields(self, names, self.document_fractions)
        flood = [forms.fraction_text("flood", rate) for rate in self.flood]
        return {name: flood if name == "flood" else value for name, value in plain.items()}

    @classmethod
    def from_written(
        cls,
        fields: dict[str, Any],
        mechanism_of: Callable[[object], Mechanism],  # noqa: ARG003
    ) -> SignedDecoys:
        """Return the mechanism with these parameters."""
        forms.check_fields(cls.__name__, fields, _DOUBLED if "doubled" in fields else _PARAMETERS)
        if not isinstance(fields["flood"], (list, tuple)):
            raise InvalidInput("flood", "a list of rates", fields["flood"])
        flood = [forms.fraction_from("flood", rate) for rate in fields["flood"]]
        exact = cls.document_fractions
        ratios = {name: forms.fraction_from(name, fields[name]) for name in exact}
        return cls(**{**fields, **ratios, "flood": flood})

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        who = "all" if self.share >= 1 else f"a share of {float(self.share):.6g} of the"
        return f"{who} users among whom the noise was divided, each of them honest"

    @property
    def method(self) -> Method:  # type: ignore[override]
        """Return ``upper-bound`` where more users are honest than the noise was cut for."""
        return "exact" if self.share <= 1 else "upper-bound"

    @property
    def _counted_share(self) -> Fraction:
        # More honest users than the noise was cut for add noise, which never hurts and is not
        # counted on.
        return min(self.share, Fraction(1))

    @property
    def local_epsilon(self) -> float:
        """Return infinity: a clear report hides nothing from who sees its sender."""
        return math.inf

    @property
    def takes_minutes(self) -> bool:
        """Return whether a number has fewer honest users, or more steps than are quickly summed."""
        if self.steps == 1:
            return False
        return self.share < 1 or self.steps**2 * self._cover.window(_FIRST_TAIL) > _MOST_SUMS

    # -------------------------------------------------------------------- the profile

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta, both directions and every change of the answer.

        Promises   relative width 1e-9 with 80-bit floats; with fewer honest users, below an
                   epsilon of 20. Beyond it the lower end is what an infinite epsilon leaves.
        """
        lower, upper = self.profile(np.array([checks.epsilon(epsilon)]))
        return Bracket(float(lower[0]), float(upper[0]))

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        tail = _FIRST_TAIL if self.share >= 1 else _FIRST_TAIL_OF_SHARE
        return self._bracket(epsilons, tail, width=1e-13)

    def delta_bound(self, epsilon: float) -> float:
        """Return an upper end of delta that may be a hundredth too large where it is tiny."""
        return float(self.profile_bound(np.array([checks.epsilon(epsilon)]))[0])

    def profile_bound(self, epsilons: Floats) -> Floats:
        """Return upper ends of delta that may be a hundredth too large where it is tiny."""
        if self.share >= 1:
            return self.profile(epsilons)[1]
        # Two-dimensional laws take long; one that leaves out a little more is soon done.
        return self._bracket(epsilons, _TAIL_OF_BOUND, width=1e-2, rough=True)[1]

    def profile_end(self) -> float:
        """Return about the epsilon where delta falls below the profile's floor."""
        if self._delta_at_infinity >= self.profile_floor:
            return math.inf
        if self.share >= 1:
            return self._upper_epsilon(self.profile_floor)

        def reached(epsilon: float) -> float:
            powers = _powers(np.array([epsilon]))
            return float(self._ends(powers, _TAIL_OF_BOUND, rough=True)[1][0])

        return find_crossing(reached, self.profile_floor, top=math.inf, tolerance=1e-2)[1]

    def _bracket(
        self, epsilons: Floats, tail: Any, width: float, *, rough: bool = False
    ) -> tuple[Floats, Floats]:
        """Return both ends; what laws leave out is at most so small a part of the upper one.

        A ``rough`` search has no lower end to speak of.
        """
        powers = _powers(np.asarray(epsilons, dtype=np.float64))
        low, high = self._ends(powers, tail, rough=rough)
        # Laws whose tail shows beside the smallest delta are summed again with a smaller one, its
        # square or less: that takes few turns.
        while tail > LEAST_TAIL and (least := high.min()) * Wide(width) < tail and least > 1e-306:
            tail = max(min(least * Wide(width) / 10, tail * tail), LEAST_TAIL)
            try:
                low, high = self._ends(powers, tail, rough=rough)
            except GuaranteeNotProven:
                # A law too long to follow: what was found with a larger tail stands.
                break
        upper = np.array([min(up(value), 1.0) for value in high])
        if self.share > 1:
            return np.zeros_like(upper), upper
        lower = np.array([max(down(value), self._delta_at_infinity) for value in low])
        return np.minimum(lower, upper), upper

    def _ends(
        self, powers: _Powers, tail: Any, *, rough: bool = False
    ) -> tuple[WideArray, WideArray]:
        # Doubles hold the laws of fewer users as far as such a tail.
        rough = rough and self.share < 1 and tail > _LEAST_TAIL_OF_DOUBLES
        if self.question == "choice":
            return self._ends_of_choice(powers, tail, rough=rough)
        if self.share < 1:
            return self._ends_of_share(powers, tail, rough=rough)
        return self._ends_of_steps(powers, tail)

    def _ends_of_steps(self, powers: _Powers, tail: Any) -> tuple[WideArray, WideArray]:
        """Return both ends for a bit or a number, by the place k = plus − minus.

        An answer that is s steps higher makes D = k − s instead of k + s, and W stands at t less
        what the answer adds to min(plus, minus). Beyond ±s all k share one ratio; between them
        the two positions of W are k steps apart:

            δ = Σ_k P[D = k − s]·Σ_u (w(u) − x_k·w(u − k))₊,  x_k = e^ε·P[D = k + s]/P[D = k − s]

        where D is even if noise is doubled, so that k is −1 or 1 for a bit,

        and the same with the two laws exchanged: then plus and minus exchange their parts.
        """
        low = np.zeros((2, self.steps, len(powers[0])), dtype=Wide)
        high = np.zeros_like(low)
        moved = np.arange(1, self.steps + 1)
        # A set: with equal ratios both directions are one, and the second row of the ends stays 0.
        ratios = {(self.plus_ratio, self.minus_ratio), (self.minus_ratio, self.plus_ratio)}
        unit = self._unit
        few = self.steps == 1 or self._cover.window(tail) * (2 * self.steps + 1) <= _MOST_CELLS
        for place in range(-self.steps, self.steps + 1, unit):
            count_step("sums over noise")
            # A change by s steps shows at the places −s to s; the ends stand for all beyond.
            among = moved >= max(abs(place), 1)
            # Past the cache where laws are long: all places together would fill the memory.
            parts = (_parts if few else _parts.__wrapped__)(self._cover, self.steps, place, tail)
            for direction, (plus, minus) in enumerate(ratios):
                weight, odds, doubt = _side(plus, minus, place, moved[among], unit)
                found = parts.ends(*_around(odds[:, None], powers, doubt))
                low[direction, among] += weight[:, None] * found[0] * (1 - doubt)
                high[direction, among] += weight[:, None] * found[1] * (1 + doubt)
        # Weights below the smallest float count as that.
        lost = (2 * self.steps + 1) * np.finfo(Wide).tiny
        return low.max(axis=(0, 1)), high.max(axis=(0, 1)) + lost

    def _ends_of_choice(
        self, powers: _Powers, tail: Any, *, rough: bool
    ) -> tuple[WideArray, WideArray]:
        """Return both ends where one value gains an answer and another loses one.

        With G₁ and G₀ the view of one value with and without the answer the pair is G₁ × G₀
        against G₀ × G₁: Σ over the first value of G₁·h(e^ε·G₀/G₁), h the hockey-stick of G₀
        against G₁ at the second. It is the same in both directions.
        """
        losing, here, odds = _parts_of_value(self, tail, rough=rough)
        doubt = losing.doubt
        total = doubt.relative + gamma(len(here) + 4.0)
        low, high = [], []
        for power in zip(*powers, strict=True):
            count_step("sums over noise")
            least, most = losing.ends(*_around(odds, power, 2 * doubt.relative + gamma(12.0)))
            low.append((here * least).sum() * (1 - total) - doubt.below(power[1]))
            high.append((here * np.minimum(most, 1)).sum() * (1 + total) + doubt.above(power[0]))
        return np.array(low, dtype=Wide), np.array(high, dtype=Wide)

    def _view_of_value(
        self, tail: Any, *, rough: bool = False
    ) -> tuple[WideArray, WideArray, Doubt, tuple[Any, Any]]:
        """Return the two laws of what is seen of one value, with and without an answer more.

        And how far they are off, and a ratio of the second to the first beyond which only what
        has no answer at all is left.
        """
        if self.share < 1:
            without, with_answer, doubt = self._views_of_share(0, 1, tail, rough=rough)
            return with_answer, without, doubt, (0, 1)
        # All places with plus > minus share one ratio, whatever W is; at the others it is q or
        # b/p times the quotient of two neighbouring masses of W.
        plus, minus = self.plus_ratio, self.minus_ratio
        # P[D ≥ 0] and P[D ≤ 0]. With the answer D ≤ −1 is left of the second, which is q times as
        # likely, and min(plus, minus) is one higher.
        above = wide((1 - minus) / (1 - plus * minus))
        below = wide((1 - plus) / (1 - plus * minus))
        law = self._cover.law(tail, beyond=1)
        first = np.concatenate([np.zeros(1, dtype=Wide), law.mass[:-1]])
        with_answer = np.concatenate([[above], wide(minus) * below * first])
        without = np.concatenate([[wide(plus) * above], below * law.mass])
        doubt = Doubt(law.relative + gamma(10.0), self._cover.noise(len(law.mass)), law.missing)
        # w(t) ≤ c·w(t−1) for t ≥ 1: without an answer over with one is at most c/q, or p above.
        largest = wide(max(self._cover.growth() / minus, plus)) * (1 + gamma(4.0))
        left = without[1] * (1 + doubt.relative) + doubt.noise
        return with_answer, without, doubt, (largest, left)

    # -------------------------------------------------------------------- fewer honest users

    def _views_of_share(
        self, one: int, other: int, tail: Any, *, rough: bool
    ) -> tuple[WideArray, WideArray, Doubt]:
        """Return the laws of what is seen after two answers, and how far they are off.

        Rough ones are on a few outcomes. Their hockey-stick is above that of the true ones; and so
        is a sum of hockey-sticks at their ratios, one for each outcome, because that is convex in
        the ratio, too.
        """
        joint, doubt = self._joint(tail, rough=rough)
        views = _shifted(joint, one, other, self._unit)
        return on_few_ratios(*views, doubt) if rough else (*views, doubt)

    def _ends_of_share(
        self, powers: _Powers, tail: Any, *, rough: bool
    ) -> tuple[WideArray, WideArray]:
        least, most = _around(np.ones(1, dtype=Wide), powers, gamma(8.0))
        low, high = np.zeros(len(least), dtype=Wide), np.zeros(len(least), dtype=Wide)
        for one, other in self._changes():
            count_step("sums over noise")
            found = _share_parts(self, one, other, tail, rough=rough).ends(least, most)
            low, high = np.maximum(low, found[0]), np.maximum(high, found[1])
        return low, high

    def _changes(self) -> list[tuple[int, int]]:
        """Return what an answer can add to plus − minus before and after a change, in steps."""
        changes = [(moved, -moved) for moved in range(1, self.steps + 1)]
        # With equal ratios the law is its own mirror image.
        return changes if self.plus_ratio == self.minus_ratio else _both_ways(changes)

    @property
    def rounds(self) -> tuple[tuple[Mechanism, int], ...]:
        """Return a choice among fewer users as two values, each with an answer more or less.

        The pair of laws of a choice is the product of these two pairs, in opposite order. The
        composition takes the worse order of each, and sums of products are what takes long.
        """
        if self.question != "choice" or self.share >= 1:
            return ((self, 1),)
        value = _OneValue(
            question="choice",
            plus_ratio=self.plus_ratio,
            minus_ratio=self.minus_ratio,
            flood=self.flood,
            share=self.share,
        )
        return ((value, 2),)

    def _joint(self, tail: Any, *, rough: bool = False) -> tuple[WideArray, Doubt]:
        """Return P[D = k, W = t] with rows k = −K … K, and how far it is off.

        An answer moves rows by at most ``steps``, and a place by as much.
        """
        # With an exponent g ≤ 1 either sign stays below a geometric number, so P[Z ≥ k] ≤ r^k. The
        # larger end of ln r makes the reach longer.
        reach = self.steps + max(
            math.ceil(float(np.log(Wide(tail))) / log_of(ratio)[1]) + 2
            for ratio in (self.plus_ratio, self.minus_ratio)
        )
        window = self._cover.window(tail) + self.steps
        cells = (2 * reach + 1) * window
        if cells > _MOST_CELLS:
            raise GuaranteeNotProven(
                "delta",
                asked=1.0,
                upper=1.0,
                hint=f"the noise of a share of the users has {cells} outcomes, and at most "
                f"{_MOST_CELLS} are followed; take ratios farther from 1, or a smaller flood",
            )
        return _joint_law(self, reach, window, tail, rough=rough)

    # -------------------------------------------------------------------- epsilon and instances

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon; infinite below what always leaks.

        Without any cover the number of messages gives the answer away, whatever epsilon is.
        """
        target = checks.delta(delta)
        if self._delta_at_infinity >= target:
            return Bracket(math.inf if self.share <= 1 else 0.0, math.inf)
        if self.share > 1:
            return Bracket(0.0, self._upper_epsilon(target))
        low = find_crossing(lambda e: self.delta(e).lower, target, top=math.inf, tolerance=1e-10)
        upper = self._upper_epsilon(target)
        return Bracket(min(low[0], upper), upper)

    def _upper_epsilon(self, target: float) -> float:
        above = find_crossing(lambda e: self.delta(e).upper, target, top=math.inf, tolerance=1e-10)
        return above[1]

    @cached_property
    def _delta_at_infinity(self) -> float:
        """Return a lower end of delta at an infinite epsilon: what only one answer can show.

        It is that of no more users than the noise was cut for.

        Fewer than s minuses are never seen after an answer that is s steps lower; and no plus
        at a value never after an answer of that value.
        """
        flood, relative = self._cover.bursts(self.steps)
        found = []
        for ratio in (self.plus_ratio, self.minus_ratio)[: 1 if self.question == "choice" else 2]:
            mass, error = negative_binomial_masses(ratio, self._counted_share, self.steps)
            # P[Z + F < s] = Σ_z P[Z = z]·P[F ≤ s − 1 − z].
            few = (mass * np.cumsum(flood)[::-1]).sum()
            found.append(down(few * (1 - relative - error - gamma(2.0 * self.steps + 4.0))))
        return max(found)

    def instance(self) -> tuple[Floats, Floats] | None:
        """Return the two laws of the view, at the largest change that a number can have."""
        window = self._cover.window(_INSTANCE_TAIL) + self.steps
        size = (window + 1) ** 2 if self.question == "choice" else window * (2 * self.steps + 1)
        if self.share != 1 or size > _MOST_CELLS:
            return None
        if self.question == "choice":
            gains, loses, doubt, _ = self._view_of_value(_INSTANCE_TAIL)
            here, there = np.outer(gains, loses).ravel(), np.outer(loses, gains).ravel()
        else:
            here, there, doubt = self._views_of_change(self.steps)
        if 2 * doubt.relative > _INSTANCE_ERROR:
            return None
        return here.astype(np.float64), there.astype(np.float64)

    def _views_of_change(self, moved: int) -> tuple[WideArray, WideArray, Doubt]:
        law = self._cover.law(_INSTANCE_TAIL, beyond=moved)
        here, there = [], []
        for place in range(-moved, moved + 1, self._unit):
            weight, odds, _ = _side(
                self.plus_ratio, self.minus_ratio, place, np.array([moved]), self._unit
            )
            # The place of W is counted from the same end for both laws.
            empty = np.zeros(abs(place), dtype=Wide)
            ends = np.concatenate([empty, law.mass])[: len(law.mass)], law.mass
            first, second = ends if place < 0 else ends[::-1]
            here.append(weight[0] * first)
            there.append(weight[0] * odds[0] * second)
        return np.concatenate(here), np.concatenate(there), Doubt(law.relative)

    @cached_property
    def _cover(self) -> Flood:
        rates = tuple(rate * self._counted_share for rate in self.flood)
        return Flood(rates, self.plus_ratio * self.minus_ratio, self._unit)

    @property
    def _unit(self) -> int:
        """Return the size that all noise of the count is a multiple of."""
        return 2 if self.doubled else 1


class _OneValue(SignedDecoys):
    """One value of a choice by itself, among fewer users: somebody who holds it comes, or goes."""

    def _ends(
        self, powers: _Powers, tail: Any, *, rough: bool = False
    ) -> tuple[WideArray, WideArray]:
        rough = rough and tail > _LEAST_TAIL_OF_DOUBLES
        return self._ends_of_share(powers, tail, rough=rough)

    def _changes(self) -> list[tuple[int, int]]:
        return _both_ways([(1, 0)])

    @property
    def rounds(self) -> tuple[tuple[Mechanism, int], ...]:
        return ((self, 1),)


def _both_ways(changes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*changes, *((other, one) for one, other in changes)]


def _check_ratio(name: str, value: object) -> Fraction:
    rule = "at least 2^-64 and at most 1 - 2^-64"
    ratio = checks.probability(name, value, below=Fraction(1), rule=rule)
    if not _LEAST_RATIO <= ratio <= 1 - _LEAST_RATIO:
        raise InvalidInput(name, rule, value)
    return ratio


def _check_flood(flood: object) -> tuple[Fraction, ...]:
    rule = f"a list of at most {_MOST_BURST} rates of at least 0, together at most {_MOST_RATE}"
    if isinstance(flood, str) or not isinstance(flood, Sequence) or len(flood) > _MOST_BURST:
        raise InvalidInput("flood", rule, flood)
    rates = [checks.rate("rate of the flood", rate, most=_MOST_RATE) for rate in flood]
    if sum(rates) > _MOST_RATE:
        raise InvalidInput("flood", rule, Unquoted(f"a sum of {float(sum(rates)):.6g}"))
    return tuple(rates)


_Powers = tuple[WideArray, WideArray]
"""Both ends of e^epsilon."""


def _powers(epsilons: Floats) -> _Powers:
    """Return e^epsilon, off by a few roundoffs; above what floats hold, anything up to infinity."""
    largest = LARGEST_EXPONENT / 8
    capped = np.minimum(epsilons, largest)
    least = np.array([exp_minus_one(float(one)) + 1 for one in capped], dtype=Wide)
    return least, np.where(epsilons <= largest, least, np.inf)


def _around(odds: WideArray, powers: _Powers, doubt: Any) -> _Powers:
    """Return both ends of e^epsilon·odds, where odds may have become 0, infinite or neither."""
    # Odds that underflowed, or are no number, may be anything: their upper end is infinite.
    odds = np.where(odds >= 0, odds, Wide(0))
    lost = odds < np.finfo(Wide).tiny
    with np.errstate(over="ignore", under="ignore"):
        least = np.minimum(odds * powers[0], _LARGEST_RATIO) * (1 - doubt)
        most = np.where(lost, np.inf, odds) * powers[1] * (1 + doubt)
    return least, most


def _side(
    plus: Fraction, minus: Fraction, place: int, moved: Any, unit: int
) -> tuple[WideArray, WideArray, Any]:
    """Return P[D = k − s], the quotient P[D = k + s]/P[D = k − s], and how far they are off.

    For every s in ``moved``; at k = ±s all k beyond are taken together. D is a multiple of the
    ``unit``, and so are k + s and k − s.
    """
    top = wide((1 - plus) * (1 - minus) / (1 - plus * minus))
    high, low = wide(plus), wide(minus)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # P[D = d·unit] is top·plus^d above 0 and top·minus^−d below.
        weight = top * low ** ((moved - place) // unit)
        # plus^(s + k)/minus^(s − k), without what both powers share.
        odds = (high if place > 0 else 1 / low) ** (2 * abs(place) // unit)
        odds = odds * wide(plus / minus) ** ((moved - abs(place)) // unit)
    # At k = ±s the whole geometric tail beyond it: 1/(1 − ratio) times its first mass.
    rest = 1 - (plus if place > 0 else minus)
    weight = np.where((moved == abs(place)) & (place != 0), weight / wide(rest), weight)
    return weight, odds, gamma(16.0 * int(moved.max()) + 32.0)


@lru_cache(maxsize=160)
def _parts(cover: Flood, beyond: int, place: int, tail: Any) -> PositiveParts:
    """Return the outcomes u of W with the masses w(u) and w(u − place)."""
    if place == 0:
        one = np.ones(1, dtype=Wide)
        return PositiveParts.of(one, one, Doubt(Wide(0)), settled=(1, 0))
    law = cover.law(tail, beyond=beyond)
    size = len(law.mass) - beyond
    first = law.mass[:size]
    doubt = Doubt(law.relative, cover.noise(len(law.mass)), law.missing)
    error = 1 + law.relative + gamma(16.0 * beyond + 16.0)
    if cover.times > 1:
        # Of neighbours at odd and even places nothing is proven but their masses.
        shifted = np.concatenate([np.zeros(1, dtype=Wide), law.mass[: size + 1]])
        return PositiveParts.of(first, shifted[1 - place :][:size], doubt)
    # What is proven of all quotients w(u)/w(u − 1) settles what is too close to call.
    # w(u) ≤ c^k·w(u − k) for u ≥ k, and w(u) ≤ b^−k·w(u + k): beyond that ratio only u < k is left.
    if place > 0:
        second = np.concatenate([np.zeros(place, dtype=Wide), law.mass[: size - place]])[:size]
        quotient, left = wide(cover.growth()), law.mass[:place].sum() * error + doubt.noise
    else:
        second = law.mass[-place : size - place]
        quotient, left = 1 / wide(cover.ratio), Wide(0)
    with np.errstate(over="ignore"):
        settled = (quotient ** abs(place) * error, left)
    return PositiveParts.of(first, second, doubt, settled=settled)


@lru_cache(maxsize=4)
def _parts_of_value(
    mechanism: SignedDecoys, tail: Any, *, rough: bool
) -> tuple[PositiveParts, WideArray, WideArray]:
    views = mechanism._view_of_value(tail, rough=rough)  # noqa: SLF001 - its other half
    with_answer, without, doubt, settled = views
    held = with_answer > 0
    here = with_answer[held]
    return (
        PositiveParts.of(without, with_answer, doubt, settled=settled),
        here,
        without[held] / here,
    )


def _shifted(joint: WideArray, one: int, other: int, unit: int) -> tuple[WideArray, WideArray]:
    """Return the laws of what is seen after the answers ``one`` and ``other``, flat.

    An answer of s > 0 adds s pluses, one of s < 0 adds −s minuses: D moves by s, and
    min(plus, minus) by as much as the opposite sign had been ahead, at most |s|. A row of noise is
    a ``unit`` of D; if that is 2, rows of what is seen are the odd differences.
    """
    reach = len(joint) // 2
    views = []
    for answer in (one, other):
        view = np.zeros_like(joint)
        for row in range(len(joint)):
            before = row - (answer + 1 - unit) // unit
            if not 0 <= before < len(joint):
                continue
            ahead = (reach - before) if answer > 0 else (before - reach)
            shift = min(max(unit * ahead, 0), abs(answer))
            view[row, shift:] = joint[before, : joint.shape[1] - shift]
        views.append(view.ravel())
    return views[0], views[1]


@lru_cache(maxsize=8)
def _share_parts(
    mechanism: SignedDecoys, one: int, other: int, tail: Any, *, rough: bool
) -> PositiveParts:
    views = mechanism._views_of_share(one, other, tail, rough=rough)  # noqa: SLF001 - its half
    return PositiveParts.of(*views)


@lru_cache(maxsize=2)
def _joint_law(
    mechanism: SignedDecoys, reach: int, window: int, tail: Any, *, rough: bool
) -> tuple[WideArray, Doubt]:
    """Return the masses of all (D, W): the difference of the signs, and the pairs that cover it.

    A rough law is of doubles, and leaves out what is many signs of either kind together.
    """
    cover = mechanism._cover  # noqa: SLF001 - its other half
    real = np.float64 if rough else Wide
    flood, relative = cover.bursts(window)
    short = min(reach, window)
    plus, error = negative_binomial_masses(mechanism.plus_ratio, mechanism.share, reach + short)
    minus, _ = negative_binomial_masses(mechanism.minus_ratio, mechanism.share, reach + short)
    flood, plus, minus = (law.astype(real) for law in (flood, plus, minus))
    signs = _most_signs(mechanism, tail) if rough else reach + 2 * short
    joint = np.zeros((2 * reach + 1, window), dtype=real)
    for place in range(reach + 1):
        count_step("rows of noise")
        # D = k and min(Z⁺, Z⁻) = m: one sign has m, the other m + k. The flood adds the rest of W.
        most = min(short, (signs - place) // 2 + 1)
        if most < 1:
            break
        pairs = _spread(plus[place : place + most] * minus[:most], cover.times)
        joint[reach + place] = np.convolve(pairs, flood)[:window]
        if place and mechanism.plus_ratio != mechanism.minus_ratio:
            pairs = _spread(plus[:most] * minus[place : place + most], cover.times)
            joint[reach - place] = np.convolve(pairs, flood)[:window]
        else:
            joint[reach - place] = joint[reach + place]
    # One tail each for Z⁺ and Z⁻ above the reach, min(Z⁺, Z⁻) above it, W beyond the window, and
    # for more signs than were followed.
    missing = (5 if rough else 4) * Wide(tail)
    # Masses that underflow are off by a smallest float for every factor that they have.
    lost = joint.size * Wide(short) * (4 * (reach + short)) * np.finfo(real).smallest_subnormal
    operations = short + 4.0
    if rough:
        # A rounding to doubles is as many of the working float, and three factors are rounded.
        operations = (operations + 4.0) * float(np.finfo(real).eps / np.finfo(Wide).eps)
    relative = relative + 2 * error + gamma(operations)
    return joint, Doubt(relative, cover.noise(window) + lost, missing, lacking=missing)


def _spread(law: WideArray, times: int) -> WideArray:
    """Return the law of so many times a number."""
    found = np.zeros(times * (len(law) - 1) + 1, dtype=law.dtype)
    found[::times] = law
    return found


def _most_signs(mechanism: SignedDecoys, tail: Any) -> int:
    """Return a number that Z⁺ + Z⁻ is above with a chance of at most ``tail``.

    With exponents g ≤ 1 both are below geometric numbers. Of two of these with a ratio r (the
    larger one) the sum is above n with the chance r^(n+1)·(1 + (n + 1)(1 − r)) ≤ (n + 2)·r^(n+1).
    """
    fall = -max(log_of(ratio)[1] for ratio in (mechanism.plus_ratio, mechanism.minus_ratio))
    least = -float(np.log(Wide(tail)))
    found = math.ceil(least / fall)
    while (found + 1) * fall - math.log(found + 2.0) < least:
        found += math.ceil(math.log(found + 2.0) / fall)
    return found + 1
