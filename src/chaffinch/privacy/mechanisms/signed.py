"""Answers in clear among signed decoys: noise that a trusted centre would add, sent by the crowd.

Over all honest users the noise of one value is Z⁺ messages "plus" and Z⁻ messages "minus", both
geometric (ratios p and q), and F pairs of one plus and one minus, the flood. Write D = Z⁺ − Z⁻
and W = F + min(Z⁺, Z⁻). Then D and W are independent: D is a two-sided geometric law, which is
the noise of the estimate, and W = F + Geom(pq) covers the number of messages. What is seen of a
value are plus − minus and min(plus, minus), so the view of one changed answer is a sum over D of
one-dimensional hockey-sticks of W against W moved by a few steps (Ghazi, Kumar, Manurangsi, Pagh
and Sinha 2021 have the idea; the independence makes it exact).

If only a share g of the users is honest, Z± are negative binomial with exponent g and the flood
comes at g times its rates. D and W then depend on one another, and the sum is two-dimensional.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from chaffinch import checks
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy.guarantee import Bracket, Method
from chaffinch.privacy.mechanism import Mechanism, solve_epsilon
from chaffinch.privacy.numerics.floods import Flood, negative_binomial_masses
from chaffinch.privacy.numerics.laws import Law
from chaffinch.privacy.numerics.positive_parts import LARGEST_RATIO, PositiveParts
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

QUESTIONS = ("bit", "choice", "number")
MOST_STEPS = 1024
_MOST_RATE = 600
"""Of all bursts together: e^−rate must stay a float."""
_MOST_BURST = 10_000
_MOST_CELLS = 30_000_000
_FIRST_TAIL, _FIRST_TAIL_OF_SHARE = Wide(1e-40), Wide(1e-22)


@dataclass(frozen=True, init=False)
class SignedDecoys(Mechanism):
    """Answers in clear, with geometric noise of either sign and a flood of pairs per value.

    ``flood`` holds the rates of bursts of 1, 2, … pairs, of all honest users together. A bit
    sends one plus or one minus, a number in ``steps`` steps that many, a choice one plus for
    its value. ``share`` is the part of the users, for whom the noise was cut, that is honest.

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

    view = "messages"
    method: Method = "exact"

    def __init__(
        self,
        *,
        question: str,
        plus_ratio: float | str | Fraction,
        minus_ratio: float | str | Fraction,
        flood: Sequence[float | str | Fraction],
        steps: int = 1,
        share: float | str | Fraction = 1,
    ) -> None:
        kind = checks.choice("question", question, QUESTIONS)
        most = MOST_STEPS if kind == "number" else 1
        below_one = Fraction(1)
        above_one = Fraction(1) + Fraction(1, 2**70)
        settled = {
            "question": kind,
            "plus_ratio": checks.probability("plus ratio", plus_ratio, below=below_one),
            "minus_ratio": checks.probability("minus ratio", minus_ratio, below=below_one),
            "flood": _check_flood(flood),
            "steps": checks.whole("number of steps", steps, least=1, most=most),
            "share": checks.probability(
                "honest share", share, below=above_one, rule="above 0 and at most 1"
            ),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def crowd_words(self) -> str:
        """Return the crowd the guarantee counts on, in words."""
        honest = "all users for whom the noise was cut are honest"
        if self.share < 1:
            honest = f"a share of {float(self.share):.6g} of the users is honest"
        return f"noise from everybody, {honest}"

    @property
    def local_epsilon(self) -> float:
        """Return infinity: a clear report hides nothing from who sees its sender."""
        return math.inf

    # -------------------------------------------------------------------- the profile

    def delta(self, epsilon: float) -> Bracket:
        """Return the bracket of delta, both directions and every change of the answer.

        Promises   relative width 1e-9 with 80-bit floats, except where epsilon is so close to
                   the growth of the flood that nearly all outcomes are too close to call.
        """
        lower, upper = self.profile(np.array([checks.epsilon(epsilon)]))
        return Bracket(float(lower[0]), float(upper[0]))

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Return both ends of delta at many epsilons."""
        tail = _FIRST_TAIL if self.share == 1 else _FIRST_TAIL_OF_SHARE
        while True:
            low, high = self._ends(np.asarray(epsilons, dtype=np.float64), tail)
            least = high.min()
            if tail <= LEAST_TAIL or tail < least * Wide(1e-13) or least < 1e-306:
                break
            tail = max(min(least * Wide(1e-14), tail * tail), LEAST_TAIL)
        lower = np.array([min(down(value), 1.0) for value in low])
        upper = np.array([min(up(value), 1.0) for value in high])
        return np.minimum(lower, upper), upper

    def _ends(self, epsilons: Floats, tail: Any) -> tuple[WideArray, WideArray]:
        if self.question == "choice":
            return self._ends_of_choice(epsilons, tail)
        if self.share < 1:
            return self._ends_of_share(epsilons, tail)
        return self._ends_of_steps(epsilons, tail)

    def _ends_of_steps(self, epsilons: Floats, tail: Any) -> tuple[WideArray, WideArray]:
        """Return both ends for a bit or a number, by the place k = plus − minus.

        An answer that is s steps higher makes D = k − s instead of k + s, and W stands at t less
        what the answer adds to min(plus, minus). Beyond ±s all k share one ratio; between them
        the two positions of W are k steps apart:

            δ = Σ_k P[D = k − s]·Σ_u (w(u) − x_k·w(u − k))₊,  x_k = e^ε·P[D = k + s]/P[D = k − s]

        and the same with the two laws exchanged.
        """
        low = np.zeros((2, self.steps, len(epsilons)), dtype=Wide)
        high = np.zeros_like(low)
        powers = _powers(epsilons)
        moved = np.arange(1, self.steps + 1)
        # In the other direction plus and minus exchange their parts.
        ratios = [(self.plus_ratio, self.minus_ratio), (self.minus_ratio, self.plus_ratio)]
        for direction, (plus, minus) in enumerate(ratios):
            for place in range(-self.steps, self.steps + 1):
                among = moved >= max(abs(place), 1)
                weight, odds, doubt = _side(plus, minus, place, moved[among])
                found = self._moved(place, odds[:, None] * powers, doubt, tail)
                low[direction, among] += weight[:, None] * found[0]
                high[direction, among] += weight[:, None] * found[1]
        return low.max(axis=(0, 1)), high.max(axis=(0, 1)) * (1 + gamma(8.0 * self.steps))

    def _moved(self, place: int, odds: WideArray, doubt: Any, tail: Any) -> tuple[Any, Any]:
        """Return both ends of Σ_u (w(u) − x·w(u − place))₊, where x is off by ``doubt``."""
        least, most = _around(odds, doubt)
        if place == 0:
            return np.maximum(1 - most, 0) * (1 - doubt), np.maximum(1 - least, 0)
        parts, law = _parts(self._cover, self.steps, place, tail)
        low, high = parts.ends(least, most)
        high = high + law.missing
        # What is proven of all quotients w(u)/w(u − 1) settles what is too close to call.
        if place > 0:
            sure = least >= wide(self._cover.growth() ** place) * (1 + doubt)
            lost = law.mass[:place].sum() * (1 + law.relative + gamma(place + 2.0))
        else:
            sure = least >= wide(self._cover.ratio**place) * (1 + doubt)
            lost = Wide(0)
        return low * (1 - doubt), np.where(sure, np.minimum(high, lost), high)

    def _ends_of_choice(self, epsilons: Floats, tail: Any) -> tuple[WideArray, WideArray]:
        """Return both ends where one value gains an answer and another loses one.

        With G₁ and G₀ the view of one value with and without the answer the pair is G₁ × G₀
        against G₀ × G₁: Σ over the first value of G₁·h(e^ε·G₀/G₁), h the hockey-stick of G₀
        against G₁ at the second. It is the same in both directions.
        """
        with_answer, without, relative, missing = self._view_of_value(tail)
        losing = PositiveParts.of(without, with_answer, relative)
        held = with_answer > 0
        here, there = with_answer[held], without[held]
        doubt = 2 * relative + gamma(12.0)
        low, high = [], []
        for power in _powers(epsilons):
            least, most = _around(power * (there / here), doubt)
            ends = losing.ends(least, most)
            total = relative + gamma(len(here) + 4.0)
            low.append((here * ends[0]).sum() * (1 - total))
            high.append((here * np.minimum(ends[1] + missing, 1)).sum() * (1 + total) + missing)
        return np.array(low, dtype=Wide), np.array(high, dtype=Wide)

    def _view_of_value(self, tail: Any) -> tuple[WideArray, WideArray, Any, Any]:
        """Return the two laws of what is seen of one value, with and without an answer more."""
        if self.share < 1:
            joint, relative, missing = self._joint(tail)
            return *_shifted(joint, 1, 0), relative, missing
        # All places with plus > minus share one ratio, whatever W is; at the others it is q or
        # b/p times the quotient of two neighbouring masses of W.
        plus, minus = self.plus_ratio, self.minus_ratio
        above = wide((1 - minus) / (1 - plus * minus))
        below = wide((1 - plus) / (1 - plus * minus))
        law = self._cover.law(tail, beyond=1)
        first = np.concatenate([np.zeros(1, dtype=Wide), law.mass[:-1]])
        with_answer = np.concatenate([[above], wide(minus) * below * first])
        without = np.concatenate([[wide(plus) * above], below * law.mass])
        return with_answer, without, law.relative + gamma(10.0), law.missing

    # -------------------------------------------------------------------- fewer honest users

    def _ends_of_share(self, epsilons: Floats, tail: Any) -> tuple[WideArray, WideArray]:
        """Return both ends from the two-dimensional law of D and W."""
        missing = self._joint(tail)[2]
        powers = _powers(epsilons)
        least, most = _around(powers, gamma(8.0))
        low, high = np.zeros(len(powers), dtype=Wide), np.zeros(len(powers), dtype=Wide)
        for moved in range(1, self.steps + 1):
            for order in (1, -1):
                found = _share_parts(self, moved, order, tail).ends(least, most)
                # An outcome at the edge may lack all of its second mass.
                low = np.maximum(low, found[0] - most * missing)
                high = np.maximum(high, found[1] + missing)
        return low, high

    def _joint(self, tail: Any) -> tuple[WideArray, Any, Any]:
        """Return P[D = k, W = t] with rows k = −K … K, its relative error, and what it lacks."""
        reach = max(
            math.ceil(float(np.log(Wide(tail))) / log_of(ratio)[1]) + 2
            for ratio in (self.plus_ratio, self.minus_ratio)
        )
        window = self._cover.window(tail) + self.steps
        if (2 * reach + 1) * window > _MOST_CELLS:
            if tail < _FIRST_TAIL_OF_SHARE:
                return self._joint(min(tail * Wide(1e10), _FIRST_TAIL_OF_SHARE))
            raise GuaranteeNotProven("delta", asked=float(tail), lower=0.0, upper=1.0)
        return _joint_law(self, reach, window, tail)

    # -------------------------------------------------------------------- epsilon and instances

    def epsilon(self, delta: float) -> Bracket:
        """Return the bracket of the smallest epsilon; infinite below what always leaks.

        Without any cover the number of messages gives the answer away, whatever epsilon is.
        """
        target = checks.delta(delta)
        if self._always >= target:
            return Bracket(math.inf, math.inf)
        try:
            return solve_epsilon(self.delta, target, most=math.inf)
        except GuaranteeNotProven as wide_open:
            return Bracket(wide_open.lower, wide_open.upper)

    @cached_property
    def _always(self) -> float:
        """Return a lower end of delta at an infinite epsilon."""
        return self.delta(LARGEST_EXPONENT / 8).lower

    def instance(self) -> tuple[Floats, Floats] | None:
        """Return the two laws of the view: of a bit, or of the largest change of a number."""
        if self.question == "choice" or self.share < 1:
            return None
        law = self._cover.law(Wide(1e-20), beyond=2 * self.steps)
        if len(law.mass) * (2 * self.steps + 1) > _MOST_CELLS // 10:
            return None
        # The place of W is counted from the same end for both laws.
        size, moved = len(law.mass) - self.steps, np.array([self.steps])
        here, there = [], []
        for place in range(-self.steps, self.steps + 1):
            weight, odds, _ = _side(self.plus_ratio, self.minus_ratio, place, moved)
            behind = np.zeros(max(place, 0), dtype=Wide)
            ahead = np.zeros(max(-place, 0), dtype=Wide)
            here.append(weight[0] * np.concatenate([ahead, law.mass])[:size])
            there.append(weight[0] * odds[0] * np.concatenate([behind, law.mass])[:size])
        return (
            np.concatenate(here).astype(np.float64),
            np.concatenate(there).astype(np.float64),
        )

    @property
    def _cover(self) -> Flood:
        """Return what covers the number of messages."""
        rates = tuple(rate * self.share for rate in self.flood)
        return Flood(rates, self.plus_ratio * self.minus_ratio)


def _check_flood(flood: object) -> tuple[Fraction, ...]:
    rule = f"a list of at most {_MOST_BURST} rates of at least 0, together at most {_MOST_RATE}"
    if isinstance(flood, str) or not isinstance(flood, Sequence) or len(flood) > _MOST_BURST:
        raise InvalidInput("flood", rule, flood)
    rates = []
    for rate in flood:
        exact = Fraction(0)
        if rate != 0:
            exact = checks.probability("rate of the flood", rate, below=Fraction(_MOST_RATE))
        rates.append(exact)
    if sum(rates) > _MOST_RATE:
        raise InvalidInput("flood", rule, f"a sum of {float(sum(rates)):.6g}")
    return tuple(rates)


def _powers(epsilons: Floats) -> WideArray:
    """Return e^epsilon, off by a few roundoffs, never above what floats hold."""
    capped = np.minimum(epsilons, LARGEST_EXPONENT / 8)
    return np.array([exp_minus_one(float(one)) + 1 for one in capped], dtype=Wide)


def _around(odds: WideArray, doubt: Any) -> tuple[WideArray, WideArray]:
    capped = np.minimum(odds, LARGEST_RATIO)
    return capped * (1 - doubt), capped * (1 + doubt)


def _side(
    plus: Fraction, minus: Fraction, place: int, moved: Any
) -> tuple[WideArray, WideArray, Any]:
    """Return P[D = k − s], the quotient P[D = k + s]/P[D = k − s], and how far they are off.

    For every s in ``moved``; at k = ±s all k beyond are taken together.
    """
    size = abs(place)
    top = wide((1 - plus) * (1 - minus) / (1 - plus * minus))
    high, low = wide(plus), wide(minus)
    # P[D = d] is top·plus^d above 0 and top·minus^−d below.
    weight = top * low ** (moved - place)
    odds = high ** (moved + place) / low ** (moved - place)
    if size:
        edge = moved == size
        rest = top / wide(1 - plus) if place > 0 else top / wide(1 - minus)
        weight = np.where(edge, rest * low ** (moved - place), weight)
    return weight, odds, gamma(16.0 * int(moved.max()) + 24.0)


@lru_cache(maxsize=160)
def _parts(cover: Flood, beyond: int, place: int, tail: Any) -> tuple[PositiveParts, Law]:
    """Return the outcomes u of W with the masses w(u) and w(u − place)."""
    law = cover.law(tail, beyond=beyond)
    size = len(law.mass) - beyond
    first = law.mass[:size]
    if place > 0:
        second = np.concatenate([np.zeros(place, dtype=Wide), law.mass[: size - place]])[:size]
    else:
        second = law.mass[-place : size - place]
    return PositiveParts.of(first, second, law.relative), law


def _shifted(joint: WideArray, one: int, other: int) -> tuple[WideArray, WideArray]:
    """Return the laws of what is seen after the answers ``one`` and ``other``, flat.

    An answer of s > 0 adds s pluses, one of s < 0 adds −s minuses: D moves by s, and
    min(plus, minus) by as much as the opposite sign had been ahead, at most |s|.
    """
    reach = len(joint) // 2
    views = []
    for answer in (one, other):
        view = np.zeros_like(joint)
        for row in range(len(joint)):
            before = row - answer
            if not 0 <= before < len(joint):
                continue
            ahead = (reach - before) if answer > 0 else (before - reach)
            shift = min(max(ahead, 0), abs(answer))
            view[row, shift:] = joint[before, : joint.shape[1] - shift]
        views.append(view.ravel())
    return views[0], views[1]


@lru_cache(maxsize=8)
def _share_parts(mechanism: SignedDecoys, moved: int, order: int, tail: Any) -> PositiveParts:
    """Return what is seen of two answers, one ``moved`` steps above the other, in either order."""
    joint, relative, _ = mechanism._joint(tail)  # noqa: SLF001 - its other half
    views = _shifted(joint, moved, -moved)[::order]
    return PositiveParts.of(views[0], views[1], relative)


@lru_cache(maxsize=4)
def _joint_law(
    mechanism: SignedDecoys, reach: int, window: int, tail: Any
) -> tuple[WideArray, Any, Any]:
    flood, relative = mechanism._cover.bursts(window)  # noqa: SLF001 - its other half
    size = reach + window + 1
    plus, error = negative_binomial_masses(mechanism.plus_ratio, mechanism.share, size)
    minus, _ = negative_binomial_masses(mechanism.minus_ratio, mechanism.share, size)
    short = min(reach, window)
    joint = np.empty((2 * reach + 1, window), dtype=Wide)
    for place in range(-reach, reach + 1):
        up_by, down_by = max(place, 0), max(-place, 0)
        pairs = plus[up_by : up_by + short] * minus[down_by : down_by + short]
        joint[place + reach] = np.convolve(pairs, flood)[:window]
    # Z± above the reach, min(Z±) above it, and W beyond the window.
    missing = 4 * Wide(tail)
    return joint, relative + 2 * error + gamma(short + 4.0), missing
