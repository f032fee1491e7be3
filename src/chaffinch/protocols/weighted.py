"""Weighted numbers: a sum in a message or two, among noise that cancels but for the sum's own.

Source: Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021 for clear messages among zero-sum noise; the
codes and the chain of units are proved in docs/concepts/weighted-numbers.md. A number is rounded to
C·2^D steps and sent as one code for each group of binary levels; every message has a weight, and
the weights of an answer add up to it. The noise of all users together is what a trusted centre
would add, hidden by atoms that add up to nothing. There is no local protection, and the number of
messages of a report tells about its noise, never about its answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch import privacy, protocols
from chaffinch.errors import InvalidInput
from chaffinch.privacy.mechanisms.weighted import attack_laws
from chaffinch.privacy.numerics import special
from chaffinch.privacy.numerics.floods import NoiseMessages
from chaffinch.protocols.base import (
    GRAIN,
    EncodingSeconds,
    Reading,
    Setting,
    Thermometer,
    Variant,
    amount_text,
    check_chance,
    number_question,
    round_by_chance,
)
from chaffinch.protocols.bursts import (
    EXACT,
    LARGEST_RATIO,
    Bursts,
    Codes,
    SharedNoise,
    decimal_of,
    geometric_rate,
    series,
)
from chaffinch.protocols.weighted_codes import Layout
from chaffinch.questions import Question
from chaffinch.sampling import Words, below
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.protocols.likelihoods import WeightedLikelihood
    from chaffinch.protocols.noise import Draws, Places, SignedNoise, Truth
    from chaffinch.protocols.tuning import SignedGoal

_MOST_STEPS, _MOST_CODES = 1 << 20, 1 << 17
_SPLIT, _LARGER_SPLIT = 0.81, 0.87
"""Which part of epsilon goes to the noise of the sum; the rest goes to the floods.

With the larger one errors are 7 % smaller and messages up to twice as many: it is weighed by wish.
"""


@dataclass(frozen=True)
class Weighted(SharedNoise):
    """A number of ``tops``·2^levels steps as clear codes, and a share of noise cut for ``cut_for``.

    ``levels`` has the rates of single units at the levels of each code, the lowest first. The sum
    has geometric noise with ``ratio`` in tops of either sign. ``code_flood``, ``link_flood`` and
    ``top_flood`` hold the rates of bursts of 1, 2, … atoms of each code, of each level's links, and
    of pairs of tops. With a ``whole_flood`` an answer is a single code. A report has room for
    ``room`` messages of noise; more are dropped, all of them.
    """

    tops: int
    levels: tuple[tuple[Fraction, ...], ...]
    ratio: Fraction
    code_flood: tuple[Fraction, ...]
    link_flood: tuple[Fraction, ...]
    top_flood: tuple[Fraction, ...]
    cut_for: int
    room: int
    whole_flood: tuple[Fraction, ...] | None = None

    kind: ClassVar[str] = "weighted"
    shapes: ClassVar[tuple[str, ...]] = ("number",)
    seconds: ClassVar[EncodingSeconds] = EncodingSeconds(7.1e-5, 3.1e-7, 4.5e-8, 2.0e-8)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_chance("ratio", self.ratio, below=LARGEST_RATIO)
        self._seen(Fraction(1))  # which checks all other parameters
        if self.resolution > _MOST_STEPS or self.layout.size > _MOST_CODES:
            rule = f"of at most {_MOST_STEPS:,} steps and {_MOST_CODES:,} codes"
            raise InvalidInput("weighted number", rule, self.resolution)

    @cached_property
    def resolution(self) -> int:
        """Return the steps of a number."""
        return self.tops << sum(map(len, self.levels))

    @cached_property
    def layout(self) -> Layout:
        """Return which codes there are, and what they weigh."""
        return Layout.of(
            self.tops, tuple(map(len, self.levels)), whole=self.whole_flood is not None
        )

    def _seen(self, share: Fraction) -> privacy.WeightedNumbers:
        return privacy.WeightedNumbers(
            tops=self.tops,
            levels=self.levels,
            ratio=self.ratio,
            code_flood=self.code_flood,
            link_flood=self.link_flood,
            top_flood=self.top_flood,
            whole_flood=self.whole_flood,
            share=share,
        )

    # -------------------------------------------------------------------- what is sent

    def labels(self, question: Question) -> tuple[str, ...]:  # noqa: ARG002
        """Return the total: that is all that is counted."""
        return ("total",)

    def codes(self, question: Question) -> int:  # noqa: ARG002
        """Return the codes of answers, units and tops."""
        return self.layout.size

    def message_names(self, question: Question) -> tuple[str, ...]:
        """Return by how much each message moves the sum; those that are alike are told apart."""
        number, found = number_question(question), []
        for code, weight in enumerate(self.layout.weights.tolist()):
            part, sign = self.layout.part_of(code), "+" if weight > 0 else "\N{MINUS SIGN}"
            moved = amount_text(number, abs(weight) / self.resolution, sign=sign if weight else "")
            found.append(f"{part}: {moved}")
        return tuple(found)

    def answer_messages(self, question: Question) -> int:  # noqa: ARG002
        """Return a code of each group, or one whole code."""
        return len(self.levels) if self.whole_flood is None else 1

    def influence(self, question: Question, slots: int) -> float:  # noqa: ARG002
        """Return how many ranges one report can move a sum: all its messages of the largest weight.

        And the answer that it should have sent is missing.
        """
        most = int(np.abs(self.layout.weights).max())
        return slots * most / self.resolution + 1.0

    def answer_codes(self, question: Question, answer: NDArray[Any], words: Words) -> Codes:  # noqa: ARG002
        """Return the codes of a number."""
        steps = round_by_chance(answer.reshape(1), self.resolution, words)
        return self.layout.answer(steps).ravel()

    def answer_counts(self, question: Question, answers: NDArray[Any], words: Words) -> Codes:  # noqa: ARG002
        """Return how often numbers send each code."""
        steps = round_by_chance(answers, self.resolution, words)
        held = self.layout.answer(steps).ravel()
        return np.asarray(np.bincount(held, minlength=self.layout.size))

    def burst_codes(
        self, question: Question, owner: Codes, parts: Codes, words: Words
    ) -> tuple[Codes, Codes]:
        """Draw the atom of each burst, where it has several to choose from."""
        del question
        atoms, (first, choices, times) = self.layout.atoms, parts.T
        atom = first.copy()
        for number in np.unique(choices[choices > 1]):
            # Of kinds with several atoms each is as likely as another.
            some = choices == number
            atom[some] += below(words, int(number), int(some.sum())).astype(np.int64)
        lengths = atoms.lengths[atom]
        fits = self.fit(owner, times * lengths)
        return atoms.codes_of(atom[fits]), np.repeat(times[fits], lengths[fits])

    @cached_property
    def _kinds(self) -> list[tuple[int, int, int, Fraction]]:
        """Return all bursts but single tops: their first atom, its choices, atoms, and the rate."""
        parts = self.layout.atoms.parts
        rates = [rate for group in self.levels for rate in group]
        found = [(parts["units"][0] + level, 1, 1, rate) for level, rate in enumerate(rates)]
        floods = {"codes": self.code_flood, "links": self.link_flood, "pairs": self.top_flood}
        if self.whole_flood is not None:
            floods["whole"] = self.whole_flood
        for name, flood in floods.items():
            first, choices = parts[name]
            found += [(first, choices, k, choices * rate) for k, rate in enumerate(flood, start=1)]
        return found

    def burst_table(self, values: int) -> Bursts:
        """Return the tables of noise: parts of a kind are its first atom, choices and atoms."""
        kinds = [(*one[:3], decimal_of(one[3])) for one in self._kinds]
        first, _ = self.layout.atoms.parts["tops"]
        ratio = decimal_of(self.ratio)
        # Of tops also those that do not fit, which the table leaves over.
        tops = EXACT.multiply(Decimal(2), geometric_rate(ratio))
        rates = [*(rate for *_, rate in kinds), tops]
        for sign in (0, 1):
            single = enumerate(series(ratio, self.room), start=1)
            kinds += [(first + sign, 1, k, rate) for k, rate in single]
        return Bursts.of(kinds, rates, Fraction(values, self.cut_for))

    def noise_messages(self, question: Question) -> NoiseMessages:  # noqa: ARG002
        """Return the law of atoms, tops and pairs of tops."""
        return self._messages

    @cached_property
    def _messages(self) -> NoiseMessages:
        atoms, bursts = self.layout.atoms, dict[int, float]()
        pairs, _ = atoms.parts["pairs"]
        for first, choices, times, rate in self._kinds:
            if first == pairs:
                continue
            lengths, number = np.unique(atoms.lengths[first : first + choices], return_counts=True)
            for length, share in zip(lengths.tolist(), (number / choices).tolist(), strict=True):
                size = times * length
                bursts[size] = bursts.get(size, 0.0) + float(rate) * share
        tops = float(self.ratio), tuple(map(float, self.top_flood))
        return NoiseMessages((tops,), 1 / self.cut_for, tuple(sorted(bursts.items())))

    # -------------------------------------------------------------------- what it is worth

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:  # noqa: ARG002
        """Return the view of weighted numbers from so many honest users."""
        return self._seen(Fraction(users, self.cut_for))

    @property
    def thermometer(self) -> Thermometer:
        """Return the steps of numbers, of which only the total is seen."""
        return Thermometer(self.resolution, together=True, noise=self._law)

    def noise(self, question: Question) -> SignedNoise:  # noqa: ARG002
        """Return the law of the sum."""
        return self._law

    @cached_property
    def _law(self) -> SignedNoise:
        rates = [rate for group in self.levels for rate in group]
        top = (1 << len(rates), self.ratio)
        units = tuple(((-2) ** level, rate) for level, rate in enumerate(rates))
        # A number counts its steps as reports, so its noise is cut for as many times more of them.
        return protocols.noise.SignedNoise((top,), self.cut_for * self.resolution, 1, units)

    def read(self, question: Question, counts: Counts, reports: int) -> Reading:  # noqa: ARG002
        """Return the weight of all messages, counted from the low end of the range."""
        total = counts @ self.layout.weights + reports * (self.resolution // 2)
        return Reading(np.asarray(total)[..., None], self._law)

    def likelihood(self, question: Question, held: int, people: int) -> WeightedLikelihood:  # noqa: ARG002
        """Return what two codes and the sum tell of one more person at the upper end."""
        ends = self.layout.answer(np.array([0, self.resolution]))[:, -1]
        laws = attack_laws(self._seen(Fraction(people, self.cut_for)))
        return protocols.likelihoods.WeightedLikelihood(
            weights=tuple(self.layout.weights.tolist()),
            ends=(int(ends[0]), int(ends[1])),
            tops=self.tops,
            grain=1 << self.layout.levels,
            seen=laws,
            held=held,
            people=people,
        )

    def draw_tallies(
        self,
        question: Question,  # noqa: ARG002 - it is a number
        truth: Truth,
        runs: int,
        draws: Draws,
        places: Places,
    ) -> Counts:
        """Draw the counts of all codes together; there is one place, the total."""
        share, atoms = truth.people / self.cut_for, self.layout.atoms
        found = np.zeros((runs, self.layout.size), np.int64)
        sent = np.zeros((runs, len(atoms.lengths)), np.int64)
        for first, choices, times, rate in self._kinds:
            each = draws.poisson(share * float(rate) / choices, (runs, choices))
            sent[:, first : first + choices] += times * each
        first, _ = atoms.parts["tops"]
        sent[:, first : first + 2] += draws.negative_binomial(
            share, float(1 - self.ratio), (runs, 2)
        )
        for atom, codes in enumerate(atoms.lists):
            for code in codes:
                found[:, code] += sent[:, atom]
        shares = truth.shares
        assert shares is not None  # noqa: S101 - numbers have them
        full, chances = truth.rounding(self.resolution)
        for run in range(runs):
            more = draws.binomial(truth.counts, chances)
            for steps, number in ((full, truth.counts - more), (full + 1, more)):
                held = number > 0
                answers = self.layout.answer(steps[held])
                np.add.at(found[run], answers, number[held][:, None])
        assert len(places) == 1  # noqa: S101 - the total
        return found

    # -------------------------------------------------------------------- for planner and people

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:  # noqa: ARG003
        """Return ways to part epsilon between the sum and the floods, with one code or two."""
        if getattr(question, "quantiles", False):
            return []
        splits = (_SPLIT, _LARGER_SPLIT)
        return [_variant(split, whole=whole) for whole in (False, True) for split in splits]

    @property
    def name(self) -> str:
        """Return the name."""
        return f"weighted, {self.resolution} steps"

    def sentence(self) -> str:
        """Return what a device does."""
        count = "one code" if self.whole_flood is not None else f"{len(self.levels)} codes"
        return (
            f"the number is rounded to {self.resolution:,} steps and sent in clear as {count}, "
            f"among messages that add up to nothing, {self.share_words}"
        )


def _variant(split: float, *, whole: bool) -> Variant:
    """Return weighted numbers with so much of epsilon for the sum."""

    def make(setting: Setting, mu: float) -> Weighted:
        """Return the protocol of about the shift mu, with room for nearly all its noise."""
        goal = protocols.tuning.SignedGoal(split, mu, setting.delta)
        return _tuned(goal, setting.crowd, whole=whole).with_room(setting)

    codes = "one code" if whole else "two codes"
    name = f"weighted, {codes}, {split:.0%} of epsilon for the sum"
    return Variant(name, make, wished=split == _LARGER_SPLIT)


# ----------------------------------------------------------------------------
# The planner's rule: how many steps and levels, and floods that are cheap together.

_MOST_RATES = 4000.0
"""Of one flood: a larger one is of no use where others are what costs."""
_LARGE_WORTH = 1.4e5
"""Crowds of more than so many people times epsilon squared have messages to spare."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A flood: its longest burst, how much its shifts weigh, and what one unit of it costs."""

    longest: int
    weight: float
    cost: float

    @property
    def rates(self) -> NDArray[np.float64]:
        """Return γ^k/k for bursts of k = 1 … K, with γ = 1 + 4.5/K: near the best for every K."""
        sizes = np.arange(1.0, self.longest + 1)
        return np.asarray((1 + 4.5 / self.longest) ** sizes / sizes)

    @property
    def moments(self) -> tuple[float, float]:
        """Return the mean and the variance of the flood with these rates."""
        sizes = np.arange(1.0, self.longest + 1)
        return float(sizes @ self.rates), float(sizes**2 @ self.rates)

    @property
    def price(self) -> float:
        """Return what a unit of variance costs, in messages."""
        mean, variance = self.moments
        return self.cost * mean / variance

    @property
    def most(self) -> float:
        """Return the variance of the largest flood that is considered."""
        return _MOST_RATES / float(self.rates.sum()) * self.moments[1]


def _tuned(goal: SignedGoal, crowd: int, *, whole: bool) -> Weighted:
    """Return a number for so many people, without any room yet.

    C is as large as a report has room for; Δ about √n·epsilon, so that rounding is a small part of
    the error. A flood of variance V that moves by one loses about a normal number of variance 1/V,
    and all losses together have to fit into what the sum's noise leaves of epsilon.
    """
    epsilon = goal.epsilon
    tops = min(max(1, round(2.9 * epsilon)), 16)
    worth = crowd * epsilon**2
    # Of a large crowd a level more costs hardly any messages.
    finer = 1.7 if worth > _LARGE_WORTH else 1.2
    levels = round(math.log2(max(finer * math.sqrt(worth) / tops, 2.0)))
    low = min(max(1, round((levels + math.log2(tops)) / 2)), max(levels - 1, 1))
    sizes = (low, levels - low) if levels > low else (low,)
    layout = Layout.of(tops, sizes, whole=whole)
    parts = _parts(layout, _longest(worth))
    # 0.79 of the quantile was found to meet delta for every crowd: losses are not all at their
    # worst at once. The search for the promise corrects what is left.
    quantile = -0.79 * float(special.ndtri(goal.delta))
    variances = _cheapest(list(parts.values()), ((1 - goal.split) * epsilon / quantile) ** 2)
    floods = {
        name: _drawable(one.rates * (variance / one.moments[1]))
        for (name, one), variance in zip(parts.items(), variances, strict=True)
    }
    smoothing = [_drawable_rate(min(8.0, 4.0 + 0.7 * (levels - 1 - k))) for k in range(levels)]
    ratio = math.exp(-goal.split * epsilon / tops)
    return Weighted(
        tops=tops,
        levels=tuple(
            tuple(smoothing[end - size : end])
            for end, size in zip(accumulate(sizes), sizes, strict=True)
        ),
        ratio=Fraction(min(math.ceil(ratio * GRAIN), GRAIN - GRAIN // 2**29), GRAIN),
        code_flood=floods["codes"],
        link_flood=floods["links"],
        top_flood=floods["pairs"],
        cut_for=crowd,
        room=0,
        whole_flood=floods.get("whole"),
    )


def _longest(worth: float) -> dict[str, int]:
    """Return the longest bursts of a crowd: long ones take fewer messages, and more room."""
    codes, links, pairs = (10, 12, 16) if worth < 3e4 else (6, 8, 12) if worth < 7e4 else (2, 3, 5)
    return {"codes": codes, "links": links, "pairs": pairs, "whole": 3}


def _parts(layout: Layout, longest: dict[str, int]) -> dict[str, _Part]:
    groups, atoms = len(layout.groups), layout.atoms
    # How many floods a changed answer moves by one, up and down; about 0.6 links of each level; and
    # tops by up to C, on one side as a rule.
    weights = {"codes": 2.0 * groups, "links": 0.6 * layout.levels, "pairs": 0.5 * layout.tops**2}
    if layout.whole:
        weights["whole"] = 2.0
    found = {}
    for name, weight in weights.items():
        first, number = atoms.parts[name]
        cost = float(atoms.lengths[first : first + number].sum())
        found[name] = _Part(longest[name], weight, cost)
    return found


def _cheapest(parts: Sequence[_Part], budget: float) -> list[float]:
    """Return variances V of floods with Σ weight/V = budget that cost least, none above its most.

    With Lagrange V is in proportion to √(weight/price); those that would be too large are set to
    what they may have, and the others share what is left.
    """
    found = [one.most for one in parts]
    free = set(range(len(parts)))
    while free:
        left = budget - sum(one.weight / found[i] for i, one in enumerate(parts) if i not in free)
        total = sum(math.sqrt(parts[i].weight * parts[i].price) for i in free)
        if left <= 0:
            break
        wanted = {i: math.sqrt(parts[i].weight / parts[i].price) * total / left for i in free}
        over = {i for i in free if wanted[i] > parts[i].most}
        if not over:
            for i in free:
                found[i] = wanted[i]
            break
        free -= over
    return found


def _drawable(rates: NDArray[np.float64]) -> tuple[Fraction, ...]:
    return tuple(map(_drawable_rate, rates.tolist()))


def _drawable_rate(rate: float) -> Fraction:
    """Return a rate as a whole number of 2⁻⁴⁰, rounded up: to more noise."""
    return Fraction(math.ceil(rate * 2.0**40), 1 << 40)
