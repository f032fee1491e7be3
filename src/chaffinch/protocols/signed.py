"""Signed decoys: the answer in clear, among noise of both signs that the crowd sends together.

Source: Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021. Every value has two codes, plus and minus,
and its count is plus minus minus. The noise of all users together is what a trusted centre would
add; each user sends a small share of it, mostly nothing. There is no local protection: whoever
sees a report alone sees the answer. And the number of messages of a report tells about the noise,
never about the answer, so whoever sees sizes of reports must not be the analyzer.

A number is sent in steps, written in one or more digits: each digit is a thermometer of as many
messages as its largest value, x of them plus and the others minus, with noise of its own. Two
digits of 15 and 9 steps tell 159 steps apart with 24 messages. The answer changes all digits at
once, so their losses compose, and the noise of a digit counts as often as its place is worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch import privacy, protocols
from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.privacy.numerics.floods import NoiseMessages
from chaffinch.protocols.base import (
    LEAST_SHARE,
    EncodingSeconds,
    Reading,
    Setting,
    Thermometer,
    Variant,
    amount_text,
    answer_labels,
    check_chance,
    number_question,
    round_by_chance,
)
from chaffinch.protocols.bursts import (
    EXACT,
    LARGEST_RATIO,
    Bursts,
    Codes,
    Kind,
    SharedNoise,
    decimal_of,
    dropped_chance,
    geometric_rate,
    series,
)
from chaffinch.questions import Question
from chaffinch.sampling import Words, below
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.protocols.joint import SignedTogether
    from chaffinch.protocols.likelihoods import DigitsLikelihood, SignedLikelihood
    from chaffinch.protocols.noise import Draws, Places, SignedNoise, Truth

_SIGNS = "+\N{MINUS SIGN}"
_SPLITS = (0.6, 0.75, 0.83, 0.9)
"""Which part of epsilon goes to the noise of the count; the rest goes to the flood."""
_YES_OR_NO = ("bit", "flags")
_MOST_STEPS = 1000
_NUMBER_WAYS = ((1, 0.75), (1, 0.9), (2, 0.9))
"""In how many digits a number is sent, and which part of epsilon goes to the noise of the sum."""
_MANY_STEPS = 250
"""From here on the first of two digits is worth twice the messages."""
_MOST_ROOM = 200
"""A report has room for at most so many messages of noise, if that can be: a few kilobytes."""


@dataclass(frozen=True)
class Digit:
    """One digit of a number, from 0 to ``steps``, and the noise of all users in its place."""

    ratio: Fraction
    flood: tuple[Fraction, ...]
    steps: int

    def __post_init__(self) -> None:
        check_chance("ratio", self.ratio, below=LARGEST_RATIO)
        checks.whole("number of steps", self.steps, least=1, most=_MOST_STEPS)
        for rate in self.flood:
            if rate:
                check_chance("rate of the flood", rate, below=Fraction(1000))

    def mechanism(
        self, shape: str, share: Fraction, *, doubled: bool = False
    ) -> privacy.SignedDecoys:
        """Return what is seen of it, if so large a share of the users is honest."""
        return privacy.SignedDecoys(
            question=shape,
            plus_ratio=self.ratio,
            minus_ratio=self.ratio,
            flood=self.flood,
            steps=self.steps,
            share=share,
            doubled=doubled,
        )


@dataclass(frozen=True)
class Signed(SharedNoise):
    """The answer in clear, and a share of noise that was cut for ``cut_for`` users.

    All of them together send, for every value, a number of pluses and one of minuses that are
    geometric with ``ratio``, and bursts of k pairs of a plus and a minus at the rate
    ``flood[k − 1]``. A report has room for ``room`` messages of noise; more are dropped, all of
    them. ``steps`` is the resolution of a number, or the largest value of its first digit, and
    ``finer`` are the digits behind it. Where every answer is a plus or a minus, pluses and minuses
    of noise may be ``doubled``: a changed answer moves their difference by two.
    """

    ratio: Fraction
    flood: tuple[Fraction, ...]
    cut_for: int
    room: int
    steps: int | None = None
    finer: tuple[Digit, ...] | None = None
    doubled: bool | None = None

    kind: ClassVar[str] = "signed-decoys"
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice", "flags", "number")
    seconds: ClassVar[EncodingSeconds] = EncodingSeconds(1.9e-5, 6.6e-7, 3.6e-8, 4.0e-8)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.finer is not None and not (self.finer and self.steps is not None):
            raise InvalidInput("finer digits", "some, behind a first digit", Unquoted("others"))
        if self.doubled is not None and self.doubled is not True:
            raise InvalidInput("doubled", "true, or left out", self.doubled)
        checks.whole("number of steps", self.resolution, least=1, most=_MOST_STEPS)

    def check(self, question: Question) -> None:
        """Refuse steps of anything but a number, and doubled noise of what is not yes or no."""
        super().check(question)
        if (question.shape == "number") != (self.steps is not None):
            raise InvalidInput("number of steps", "given for numbers and only there", self.steps)
        if self.doubled and question.shape not in _YES_OR_NO:
            raise InvalidInput("doubled noise", "for a bit or flags", question.kind)

    @cached_property
    def digits(self) -> tuple[Digit, ...]:
        """Return the digits of an answer; anything but a number has one, from 0 to 1."""
        steps = 1 if self.steps is None else self.steps
        return Digit(self.ratio, self.flood, steps), *(self.finer or ())

    @property
    def _unit(self) -> int:
        """Return how often each plus and each minus of noise is sent."""
        return 2 if self.doubled else 1

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Return what one step of each digit is worth, in steps of the last."""
        sizes = [digit.steps + 1 for digit in self.digits]
        return tuple(math.prod(sizes[place + 1 :]) for place in range(len(sizes)))

    @cached_property
    def resolution(self) -> int:
        """Return the steps of a number; anything else has one."""
        return math.prod(digit.steps + 1 for digit in self.digits) - 1

    def _split(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the digits of numbers of steps, in a last axis of their own."""
        sizes = [digit.steps + 1 for digit in self.digits]
        # Mixed radix: a digit counts in units of the product of the sizes behind it.
        return np.asarray(steps[..., None] // np.array(self.weights) % np.array(sizes))

    # -------------------------------------------------------------------- what is sent

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the names of what is counted: yes, the values, the flags, or the total."""
        if question.shape == "number":
            return ("total",)
        return ("yes",) if question.shape == "bit" else answer_labels(question)

    def codes(self, question: Question) -> int:
        """Return two codes for each value or digit: plus, and behind it minus."""
        return 2 * len(self.labels(question)) * len(self.digits)

    def message_names(self, question: Question) -> tuple[str, ...]:
        """Return what a plus says and what a minus says, for each value or digit.

        Of a choice a minus takes a plus back. Of a bit or a flag plus is yes and minus is no, and
        their noise takes both back. Of a number every message of an answer moves it by as much to
        either side of the middle of the range.

        >>> from chaffinch.questions import Number
        >>> Signed(Fraction(1, 2), (), 10, 8, steps=4).message_names(Number(0, 60))
        ('+7.5', '−7.5')
        """
        if self.steps is not None:
            # All pluses are the upper bound and all minuses the lower one: half a range away.
            number = number_question(question)
            moves = [weight / self.resolution / 2 for weight in self.weights]
            return tuple(amount_text(number, move, sign=s) for move in moves for s in _SIGNS)
        if question.shape == "choice":
            return tuple(f"{sign}{label}" for label in self.labels(question) for sign in _SIGNS)
        if question.shape == "bit":
            return ("yes", "no")
        return tuple(f"{label}: {s}" for label in self.labels(question) for s in ("yes", "no"))

    def answer_messages(self, question: Question) -> int:
        """Return how many messages an answer always has."""
        if self.steps is not None:
            return sum(digit.steps for digit in self.digits)
        return len(self.labels(question)) if question.shape == "flags" else 1

    def influence(self, question: Question, slots: int) -> float:
        """Return by how much one report can move a count, or how many ranges a sum.

        All its messages can have the sign that its honest answer has not, and that answer is
        missing too: of a bit the other way round, of a choice at a value that is held.
        """
        most = slots * self.weights[0] + self.resolution
        return most / self.noise(question).gain / self.resolution

    def answer_codes(self, question: Question, answer: NDArray[Any], words: Words) -> Codes:
        """Return a plus or a minus for each value or flag; of each digit of a number, its steps."""
        if question.shape == "number":
            steps, signs = int(round_by_chance(answer.reshape(1), self.resolution, words)[0]), []
            for digit, weight in zip(self.digits, self.weights, strict=True):
                pluses = steps // weight % (digit.steps + 1)
                signs += [pluses, digit.steps - pluses]
            return np.repeat(np.arange(len(signs)), signs)
        if question.shape == "choice":
            return np.array([2 * int(answer)])
        if question.shape == "bit":
            return np.array([0 if answer else 1])
        # Minus for every flag; those that are held move to the plus before it.
        codes = 2 * np.arange(len(self.labels(question))) + 1
        codes[answer.astype(np.intp)] -= 1
        return codes

    def answer_counts(self, question: Question, answers: NDArray[Any], words: Words) -> Codes:
        """Return how many pluses and minuses many answers have."""
        sent = np.zeros(self.codes(question), np.int64)
        if question.shape == "number":
            pluses = self._split(round_by_chance(answers, self.resolution, words)).sum(axis=0)
            # Codes alternate: a plus at every even place, its minus behind it.
            sent[::2], sent[1::2] = pluses, len(answers) * self._digit_steps - pluses
        elif question.shape == "choice":
            sent[::2] = np.bincount(np.asarray(answers, np.int64), minlength=len(sent) // 2)
        else:
            yes = np.asarray(answers, np.int64).reshape(len(answers), -1).sum(axis=0)
            sent[::2], sent[1::2] = yes, len(answers) - yes
        return sent

    def burst_codes(
        self, question: Question, owner: Codes, parts: Codes, words: Words
    ) -> tuple[Codes, Codes]:
        """Draw a value for each burst: one answer has several values or several digits."""
        digits, plus, minus = parts.T
        drawn = below(words, len(self.labels(question)), len(owner)).astype(np.int64)
        fits = self.fit(owner, plus + minus)
        places = 2 * (drawn + digits)[fits]
        return np.concatenate([places, places + 1]), np.concatenate([plus[fits], minus[fits]])

    def burst_table(self, values: int) -> Bursts:
        """Return the tables of one report's noise among so many values.

        The noise of one report is a Poisson number of bursts, each of a uniform value and one of
        these kinds: k pluses or k minuses with chance (ratio^k/k)/Λ, or 2k of them where noise is
        doubled, and k pairs with λ_k/Λ. Kinds that do not fit into a report are left out: they
        would be dropped. The kinds of several digits stand one behind another, and Λ is the sum of
        theirs. Parts of a kind are its digit, pluses and minuses.
        """
        rates, kinds = list[Decimal](), list[Kind]()
        for place, digit in enumerate(self.digits):
            ratio = decimal_of(digit.ratio)
            flood = [decimal_of(rate) for rate in digit.flood]
            # Λ also counts the kinds that are left out: what the table leaves over is theirs.
            rates += [EXACT.multiply(Decimal(2), geometric_rate(ratio)), *flood]
            single = series(ratio, self.room // self._unit)
            sizes = range(self._unit, self.room + 1, self._unit)
            kinds += [(place, k, 0, rate) for k, rate in zip(sizes, single, strict=True)]
            kinds += [(place, 0, k, rate) for k, rate in zip(sizes, single, strict=True)]
            # k pairs are 2k messages.
            pairs = enumerate(flood[: self.room // 2], start=1)
            kinds += [(place, k, k, rate) for k, rate in pairs]
        return Bursts.of(kinds, rates, Fraction(values, self.cut_for))

    def noise_messages(self, question: Question) -> NoiseMessages:
        """Return the law of bursts of one sign and of pairs, at all values and digits."""
        parts = tuple(
            (float(digit.ratio), tuple(float(rate) for rate in digit.flood))
            for digit in self.digits
        )
        scale = len(self.labels(question)) / self.cut_for
        return NoiseMessages(parts, scale, times=self._unit)

    # -------------------------------------------------------------------- what it is worth

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return the view of signed decoys from so many honest users.

        An answer changes every flag, or every digit of a number, each among noise of its own.
        """
        shape = "bit" if question.shape == "flags" else question.shape
        share = Fraction(users, self.cut_for)
        seen = [digit.mechanism(shape, share, doubled=bool(self.doubled)) for digit in self.digits]
        if question.shape == "flags":
            seen *= len(self.labels(question))
        return seen[0] if len(seen) == 1 else privacy.compose(seen)

    @property
    def thermometer(self) -> Thermometer:
        """Return pluses and minuses as steps of which only the total is seen."""
        if self.steps is None:
            raise InvalidInput("protocol", "one for numbers", self.kind)
        return Thermometer(self.resolution, together=True, noise=self._noise(2))

    def noise(self, question: Question) -> SignedNoise:
        """Return the law of plus minus minus."""
        return self._noise(1 if question.shape == "choice" else 2)

    def _noise(self, gain: int) -> SignedNoise:
        ratios = [digit.ratio for digit in self.digits]
        weights = [self._unit * weight for weight in self.weights]
        parts = tuple(zip(weights, ratios, strict=True))
        # A number counts its steps as reports, so its noise is cut for as many times more of them.
        return protocols.noise.SignedNoise(parts, self.cut_for * self.resolution, gain)

    def read(self, question: Question, counts: Counts, reports: int) -> Reading:  # noqa: ARG002
        """Return plus minus minus of every value, digits counted by what they are worth."""
        moved = counts[..., ::2] - counts[..., 1::2]
        # A row for each value, a column for each digit.
        each = moved.reshape(*moved.shape[:-1], -1, len(self.digits))
        return Reading(each @ np.array(self.weights), self.noise(question))

    def joint(self, question: Question, counts: Counts, reports: int) -> SignedTogether:  # noqa: ARG002
        """Return the law of plus minus minus of values, each with noise of its own."""
        return protocols.joint.SignedTogether(float(self.ratio), reports / self.cut_for)

    def likelihood(self, question: Question, held: int, people: int) -> DigitsLikelihood:
        """Return what pluses and minuses tell of one more person who holds the value."""
        share = Fraction(people, self.cut_for)

        def tells(digit: Digit) -> SignedLikelihood:
            """Return what the pluses and minuses of one digit tell."""
            # Of a choice only the value held is sent; of all else what is not held is a minus.
            without, with_one = (
                (count * digit.steps, 0 if question.shape == "choice" else none * digit.steps)
                for count, none in ((held, people - held), (held + 1, people - held - 1))
            )
            return protocols.likelihoods.SignedLikelihood(
                digit.ratio, digit.flood, share, (without, with_one), self._unit
            )

        return protocols.likelihoods.DigitsLikelihood(tuple(tells(digit) for digit in self.digits))

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Draw pluses and minuses of all people together: two columns for each place or digit."""
        # The exponent of the noise of so many people, each of whom sends 1/``cut_for`` of it.
        share, size = truth.people / self.cut_for, (runs, len(places))
        counts = np.zeros((*size, len(self.digits), 2), np.int64)
        for place, digit in enumerate(self.digits):
            for sign in (0, 1):
                # NumPy asks for the chance to stop, which is 1 − ratio.
                own = draws.negative_binomial(share, float(1 - digit.ratio), size)
                counts[:, :, place, sign] = self._unit * own
            for pairs, rate in enumerate(digit.flood, start=1):
                counts[:, :, place] += pairs * draws.poisson(share * float(rate), size)[..., None]
        if question.shape == "number":
            # A digit moves with every step of the number: up by one, or back to 0.
            moves = np.diff(self._split(np.arange(self.resolution + 1)), axis=0)
            ones = (protocols.noise.draw_thermometer(self.resolution, truth, runs, draws) @ moves)[
                :, None
            ]
        else:
            ones = truth.held(len(self.labels(question)))[places, None]
        counts[..., 0] += ones
        if question.shape != "choice":
            counts[..., 1] += truth.people * self._digit_steps - ones
        return counts.reshape(runs, -1)

    @property
    def _digit_steps(self) -> NDArray[np.int64]:
        return np.array([digit.steps for digit in self.digits])

    # -------------------------------------------------------------------- for planner and people

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:
        """Return ways to part epsilon between the count and the flood.

        A number has as many steps as its crowd is worth, in one digit or in two. It is weighed only
        by wish: reports are long, and nothing is proven of fewer honest users.
        """
        if question.shape == "number":
            if getattr(question, "quantiles", False):
                return []
            return [_number_variant(*way, most_messages) for way in _NUMBER_WAYS]
        if question.shape == "flags":
            # Of several counts that hold together single noise may be more exact.
            return [signed_variant(_SPLITS[-2], doubled=doubled) for doubled in (True, False)]
        doubled = question.shape == "bit"
        return [signed_variant(split, doubled=doubled) for split in _SPLITS]

    @property
    def name(self) -> str:
        """Return the name."""
        return _name(None if self.steps is None else self.resolution, len(self.digits))

    def sentence(self) -> str:
        """Return what a device does."""
        what = "the answer is sent"
        if self.steps is not None:
            what = f"{' + '.join(str(digit.steps) for digit in self.digits)} messages are sent"
        if self.finer is not None:
            what = f"the number is rounded to {self.resolution} steps, and {what} for its digits"
        return f"{what} in clear, among signed decoys {self.share_words}"


def _name(steps: int | None, digits: int = 1) -> str:
    if steps is None:
        return "signed decoys"
    written = "" if digits == 1 else f" in {digits} digits"
    return f"signed decoys, {steps} steps{written}"


def signed_variant(
    split: float, least_share: float = LEAST_SHARE, *, doubled: bool = False
) -> Variant:
    """Return signed decoys with so much of epsilon for the count.

    With a smaller share of honest users than ``least_share`` nothing is promised.
    """

    def make(setting: Setting, mu: float) -> Signed:
        """Return the protocol of about the shift mu, with room for nearly all its noise."""
        shape = setting.question.shape
        values = 1 if shape == "bit" else len(answer_labels(setting.question))
        goal = protocols.tuning.SignedGoal(
            split, mu, setting.delta, 2 if shape == "choice" else 1, least_share, doubled
        )
        allowed = dropped_chance(setting)
        # Noise is shared out per value: a device has as many shares as there are values.
        ratio, flood = protocols.tuning.tune_signed(
            goal, values / setting.crowd, _MOST_ROOM, allowed
        )
        found = Signed(ratio, flood, setting.crowd, 0, doubled=doubled or None)
        return replace(found, room=_room(found.noise_messages(setting.question), allowed))

    way = f"doubled, {split:.0%}" if doubled else f"{split:.0%} of epsilon"
    return Variant(f"{_name(None)}, {way} for the count", make)


@lru_cache(maxsize=1024)
def _room(noise: NoiseMessages, chance: float) -> int:
    """Return the room that is too small with this chance, which is asked for again and again.

    A hint for a survey of fifty choices tunes the same noise for several limits of messages.
    """
    return noise.size_within(chance, most=2 * _MOST_ROOM)


def _number_variant(count: int, split: float, most_messages: int) -> Variant:
    """Return a number in one digit or in two, with so much of epsilon for the sum."""

    def make(setting: Setting, mu: float) -> Signed:
        """Return the protocol of about the shift mu, with room for nearly all its noise."""
        goal = protocols.tuning.SignedGoal(split, mu, setting.delta)
        steps = _steps_for(setting.crowd, goal.epsilon, count, most_messages)
        digits = [
            Digit(*noise, most)
            for noise, most in zip(protocols.tuning.tune_digits(goal, steps), steps, strict=True)
        ]
        first, finer = digits[0], tuple(digits[1:]) or None
        found = Signed(first.ratio, first.flood, setting.crowd, 0, first.steps, finer)
        return found.with_room(setting)

    digits = "one digit" if count == 1 else "two digits"
    name = f"{_name(None)}, {digits}, {split:.0%} of epsilon for the sum"
    return Variant(name, make, wished=True)


def _steps_for(crowd: int, epsilon: float, count: int, most_messages: int) -> tuple[int, ...]:
    """Return the largest values of the digits of a number that so many people send.

    Rounding to r steps costs √crowd/(2r) ranges, and noise about 1.6/epsilon: with √crowd·epsilon
    steps, or a few less, rounding is a small part of both. Noise takes room in a report like
    steps over epsilon, which bounds all of them. The second digit costs less the more steps the
    first one has.
    """
    most = max(1, 3 * most_messages // 4)
    wanted = math.sqrt(crowd) * epsilon
    if count == 1:
        return (max(1, min(round(0.75 * wanted), round(45 * epsilon), most)),)
    large = 31 if wanted > _MANY_STEPS else 15
    first = max(1, min(large, round(31 * epsilon), 2 * most // 3))
    second = math.ceil(1.3 * wanted / (first + 1)) - 1
    spare = min(most_messages - first - 2, _MOST_STEPS // (first + 1) - 1)
    return first, max(1, min(second, round(14 * epsilon), spare))
