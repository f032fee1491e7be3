"""Signed decoys: the answer in clear, among noise of both signs that the crowd sends together.

Source: Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021. Every value has two codes, plus and minus,
and its count is plus minus minus. The noise of all users together is what a trusted centre would
add; each user sends a small share of it, mostly nothing. There is no local protection: whoever
sees a report alone sees the answer. And the number of messages of a report tells about the noise,
never about the answer, so whoever sees sizes of reports must not be the analyzer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from chaffinch import checks, privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy.numerics.floods import NoiseMessages
from chaffinch.protocols.base import (
    GRAIN,
    LITTLE_NOISE,
    Coded,
    Protocol,
    ProtocolModel,
    Reading,
    Setting,
    Thermometer,
    Variant,
    answer_labels,
    check_chance,
    round_by_chance,
)
from chaffinch.protocols.likelihoods import SignedLikelihood
from chaffinch.protocols.noise import (
    Draws,
    MessageNoise,
    Places,
    SignedNoise,
    Truth,
    draw_thermometer,
)
from chaffinch.protocols.tuning import SignedGoal, tune_signed
from chaffinch.questions import Question
from chaffinch.sampling import SCALE, ChanceTable, Words, below, bernoulli, positions
from chaffinch.wire.batches import Counts
from chaffinch.wire.documents import Exact, exact_text

_NEVER = Decimal("1e-55")
_SPLITS = (0.6, 0.75, 0.83, 0.9)
"""Which part of epsilon goes to the noise of the count; the rest goes to the flood."""
_LARGEST_RATIO, _LARGEST_ROOM = Fraction((1 << 30) - 1, 1 << 30), 4096
"""No useful plan comes near these; work and memory of its laws follow them."""
_MOST_ROOM = 200
"""A report has room for at most so many messages of noise, if that can be: a few kilobytes."""


class SignedModel(ProtocolModel):
    """Clear answers among signed decoys."""

    kind: Literal["signed-decoys"]
    ratio: Exact
    flood: list[Exact]
    cut_for: int
    room: int
    steps: int | None = None

    def build(self) -> Signed:
        """Return the protocol."""
        flood = tuple(Fraction(rate) for rate in self.flood)
        return Signed(Fraction(self.ratio), flood, self.cut_for, self.room, self.steps)


@dataclass(frozen=True)
class Signed(Protocol):
    """The answer in clear, and a share of noise that was cut for ``cut_for`` users.

    All of them together send, for every value, a number of pluses and one of minuses that are
    geometric with ``ratio``, and bursts of k pairs of a plus and a minus at the rate
    ``flood[k − 1]``. A report has room for ``room`` messages of noise; more are dropped, all of
    them. ``steps`` is the resolution of a number.
    """

    ratio: Fraction
    flood: tuple[Fraction, ...]
    cut_for: int
    room: int
    steps: int | None = None

    kind: ClassVar[str] = "signed-decoys"
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice", "flags", "number")
    model: ClassVar[type[ProtocolModel]] = SignedModel
    sizes_tell_noise: ClassVar[bool] = True
    only_by_wish: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_chance("ratio", self.ratio, below=_LARGEST_RATIO)
        checks.whole("number of users that noise is cut for", self.cut_for, least=1)
        checks.whole("room for noise", self.room, most=_LARGEST_ROOM)
        if self.steps is not None:
            checks.whole("number of steps", self.steps, least=1, most=1000)
        for rate in self.flood:
            if rate:
                check_chance("rate of the flood", rate, below=Fraction(1000))

    def check(self, question: Question) -> None:
        """Refuse steps of anything but a number, and a question about the spread."""
        super().check(question)
        if (question.shape == "number") != (self.steps is not None):
            raise InvalidInput("number of steps", "given for numbers and only there", self.steps)
        if getattr(question, "quantiles", False):
            raise InvalidInput("question", "one about the mean, without quantiles", question.kind)

    # -------------------------------------------------------------------- what is sent

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the names of what is counted: yes, the values, the flags, or the total."""
        if question.shape == "number":
            return ("total",)
        return ("yes",) if question.shape == "bit" else answer_labels(question)

    def codes(self, question: Question) -> int:
        """Return two codes for each value: plus, and behind it minus."""
        return 2 * len(self.labels(question))

    def answer_messages(self, question: Question) -> int:
        """Return how many messages an answer always has."""
        if self.steps is not None:
            return self.steps
        return len(self.labels(question)) if question.shape == "flags" else 1

    def report_slots(self, question: Question) -> int:
        """Return the messages of the answer and the room for noise."""
        return self.answer_messages(question) + self.room

    def expected_messages(self, question: Question) -> float:
        """Return the messages of the answer and the mean of the noise."""
        return self.answer_messages(question) + self._bursts(question).mean

    def influence(self, question: Question, slots: int) -> float:
        """Return by how much one report can move a count, or how many ranges a sum.

        Where a no is a minus, a report of pluses alone also takes the minuses of an honest one.
        """
        gain = self.noise(question).gain
        return (slots + self.resolution * (gain - 1)) / gain / self.resolution

    def concentrated(self, question: Question, factor: Fraction) -> Signed:
        """Return the same noise cut for fewer users, with room for nearly all of it."""
        cut = replace(self, cut_for=max(1, math.ceil(self.cut_for / factor)), room=_LARGEST_ROOM)
        room = cut._bursts(question).size_within(LITTLE_NOISE, most=_LARGEST_ROOM)  # noqa: SLF001 - of its own class
        return replace(cut, room=max(room, self.room))

    def overflow(self, question: Question) -> float:
        """Return how far the noise of one report can be from its law: cut off, or rounded."""
        chance = self._bursts(question).tail(self.room + 1)
        # Tables of noise that does not fit anyway need not be made, and may be long.
        return chance if chance == 1 else chance + self._table(len(self.labels(question))).rounding

    def encode_one(self, question: Question, answer: Any, words: Words) -> NDArray[np.int64]:
        """Send the answer and, now and then, bursts of noise, which know nothing of it."""
        held = self._answer_codes(question, np.asarray(answer), words)
        noise = self._noise_codes(question, 1, words)
        return np.concatenate([held, noise])

    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> Coded:
        """Draw which reports have any noise, and their bursts; count what is sent in all."""
        sent = np.zeros(self.codes(question), np.int64)
        if question.shape == "number":
            pluses = int(round_by_chance(answers, self.resolution, words).sum())
            sent[:] = pluses, len(answers) * self.resolution - pluses
        elif question.shape == "choice":
            sent[::2] = np.bincount(np.asarray(answers, np.int64), minlength=len(sent) // 2)
        else:
            yes = np.asarray(answers, np.int64).reshape(len(answers), -1).sum(axis=0)
            sent[::2], sent[1::2] = yes, len(answers) - yes
        noise = self._noise_codes(question, len(answers), words)
        sent += np.bincount(noise, minlength=len(sent))
        # In the order of the codes: which of them are noise must not show.
        return Coded(np.repeat(np.arange(len(sent), dtype=np.uint32), sent))

    def _answer_codes(
        self, question: Question, answer: NDArray[Any], words: Words
    ) -> NDArray[np.int64]:
        if question.shape == "number":
            pluses = int(round_by_chance(answer.reshape(1), self.resolution, words)[0])
            return np.repeat(np.array([0, 1]), [pluses, self.resolution - pluses])
        if question.shape == "choice":
            return np.array([2 * int(answer)])
        if question.shape == "bit":
            return np.array([0 if answer else 1])
        codes = 2 * np.arange(len(self.labels(question))) + 1
        codes[answer.astype(np.intp)] -= 1
        return codes

    def _noise_codes(self, question: Question, reports: int, words: Words) -> NDArray[np.int64]:
        """Return the codes of the noise of so many reports."""
        values = len(self.labels(question))
        table = self._table(values)
        senders = (
            len(positions(words, table.any_burst, reports))
            if reports > 1
            else int(bernoulli(words, table.any_burst, 1)[0])
        )
        if not senders:
            return np.empty(0, np.int64)
        bursts = table.bursts.draw(words, senders)
        bursts[bursts == len(table.bursts.weights)] = 0
        owner = np.repeat(np.arange(senders), bursts)
        kinds = table.kinds.draw(words, len(owner))
        places = below(words, values, len(owner)).astype(np.int64)
        plus, minus = table.pluses[kinds], table.minuses[kinds]
        # Noise that does not fit is dropped whole: the chance of that is charged to delta.
        sizes = np.bincount(owner, weights=plus + minus, minlength=senders)
        fits = sizes[owner] <= self.room
        plus, minus, places = plus[fits], minus[fits], places[fits]
        return np.concatenate([np.repeat(2 * places, plus), np.repeat(2 * places + 1, minus)])

    def _table(self, values: int) -> _BurstTable:
        if values not in self._tables:
            self._tables[values] = _burst_table(self, values)
        return self._tables[values]

    @cached_property
    def _tables(self) -> dict[int, _BurstTable]:
        """Return the tables that are made already: a device looks one up for every answer."""
        return {}

    def _bursts(self, question: Question) -> NoiseMessages:
        """Return the law of the number of noise messages of one report."""
        return _messages(self, len(self.labels(question)))

    # -------------------------------------------------------------------- what it is worth

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return the view of signed decoys from so many honest users."""
        shape = "bit" if question.shape == "flags" else question.shape
        one = privacy.SignedDecoys(
            question=shape,
            plus_ratio=self.ratio,
            minus_ratio=self.ratio,
            flood=self.flood,
            steps=self.resolution,
            share=min(Fraction(users, self.cut_for), Fraction(1)),
        )
        flags = len(self.labels(question)) if question.shape == "flags" else 1
        return one if flags == 1 else privacy.compose(one, times=flags)

    @property
    def resolution(self) -> int:
        """Return the steps of a number; anything else has one."""
        return self.steps or 1

    @property
    def thermometer(self) -> Thermometer:
        """Return pluses and minuses as steps of which only the total is seen."""
        if self.steps is None:
            raise InvalidInput("protocol", "one for numbers", self.kind)
        return Thermometer(self.steps, together=True, noise=self._noise(2))

    def noise(self, question: Question) -> SignedNoise:
        """Return the law of plus minus minus."""
        return self._noise(1 if question.shape == "choice" else 2)

    def _noise(self, gain: int) -> SignedNoise:
        return SignedNoise(self.ratio, self.cut_for * self.resolution, gain)

    def standard_error(self, question: Question, reports: int) -> float:
        """Return the standard error of a count, or of a sum in units of the range."""
        noise = float(self.noise(question).standard_error(reports * self.resolution))
        if self.steps is None:
            return noise
        return math.hypot(noise, math.sqrt(reports) / 2.0) / self.steps

    def read(self, question: Question, counts: Counts, reports: int) -> Reading:  # noqa: ARG002
        """Return plus minus minus of every value."""
        return Reading(counts[..., ::2] - counts[..., 1::2], self.noise(question))

    def likelihood(self, question: Question, held: int, people: int) -> SignedLikelihood:
        """Return what pluses and minuses tell of one more person who holds the value."""

        def sent(count: int) -> tuple[int, int]:
            others = 0 if question.shape == "choice" else people - count
            return count * self.resolution, others * self.resolution

        share = Fraction(people, self.cut_for)
        return SignedLikelihood(self.ratio, self.flood, share, (sent(held), sent(held + 1)))

    def messages_of_all(self, question: Question, people: int) -> MessageNoise:
        """Return the messages of the answers, and those of bursts of one sign and of pairs."""
        noise = self._bursts(question).times(people)
        answers = people * self.answer_messages(question)
        # Bursts of at most 2K messages, or of any number that grows rare like ratio^k.
        longest = max(1.0 / float(1 - self.ratio), 2.0 * len(self.flood) / 3.0)
        return MessageNoise(answers + noise.mean, noise.variance, longest)

    def least_messages(self, question: Question, users: int) -> int:
        """Return how many messages a batch must have: fewer would mean that noise is missing."""
        noise = self._bursts(question).times(users).least(LITTLE_NOISE)
        # Reports beyond the honest users may be empty: nobody promised that they are not.
        return users * self.answer_messages(question) + noise

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Draw pluses and minuses of all people together: a pair of columns for each place."""
        share, size = truth.people / self.cut_for, (runs, len(places))
        counts = np.zeros((runs, len(places), 2), np.int64)
        for sign in (0, 1):
            counts[..., sign] = draws.negative_binomial(share, float(1 - self.ratio), size)
        for pairs, rate in enumerate(self.flood, start=1):
            counts += pairs * draws.poisson(share * float(rate), size)[..., None]
        if question.shape == "number":
            ones = draw_thermometer(self.resolution, truth, runs, draws).sum(axis=1, keepdims=True)
            total = truth.people * self.resolution
        else:
            ones, total = truth.held(len(self.labels(question)))[places], truth.people
        counts[..., 0] += ones
        if question.shape != "choice":
            counts[..., 1] += total - ones
        return counts.reshape(runs, -1)

    # -------------------------------------------------------------------- for planner and people

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:  # noqa: ARG003
        """Return ways to part epsilon between the count and the flood.

        None for numbers: noise of many steps, now and then from one device, makes reports long.
        """
        splits = {"bit": _SPLITS, "choice": _SPLITS, "flags": _SPLITS[-2:-1]}
        return [_variant(split) for split in splits.get(question.shape, ())]

    @property
    def name(self) -> str:
        """Return the name."""
        return _name(self.steps)

    def sentence(self) -> str:
        """Return what a device does."""
        what = "the answer is sent" if self.steps is None else f"{self.steps} messages are sent"
        return (
            f"{what} in clear, among signed decoys of which every device sends a 1/{self.cut_for} "
            "share (their number tells nothing of the answer and much of the noise: whoever opens "
            "reports must not work with the analyzer)"
        )

    def document(self) -> dict[str, Any]:
        """Return the protocol as it stands in a plan file."""
        document = super().document()
        return {**document, "flood": [exact_text(rate) for rate in self.flood]}


def _name(steps: int | None) -> str:
    return "signed decoys" if steps is None else f"signed decoys, {steps} steps"


def _variant(split: float) -> Variant:
    """Return signed decoys with so much of epsilon for the count."""

    def make(setting: Setting, mu: float) -> Signed:
        shape = setting.question.shape
        values = 1 if shape == "bit" else len(answer_labels(setting.question))
        goal = SignedGoal(split, mu, setting.delta)
        # What does not fit costs (1 + e^epsilon) times its chance, for every user.
        allowed = setting.cutting / (1.0 + math.exp(min(setting.epsilon, 700.0))) / setting.crowd
        ratio, flood = tune_signed(goal, values / setting.crowd, _MOST_ROOM, allowed / 2)
        found = Signed(ratio, flood, setting.crowd, 0)
        room = _messages(found, values).size_within(allowed / 2, most=2 * _MOST_ROOM)
        return Signed(ratio, flood, setting.crowd, room)

    return Variant(f"{_name(None)}, {split:.0%} of epsilon for the count", make)


# ----------------------------------------------------------------------------
# Tables of one report's noise, in whole numbers of 2⁻¹²⁸.


@dataclass(frozen=True, eq=False)
class _BurstTable:
    """How a device draws noise: whether there is any, how many bursts, and of which kind."""

    any_burst: int
    """The chance of any burst, rounded up, in units of 2⁻⁶⁴."""
    bursts: ChanceTable
    kinds: ChanceTable
    pluses: NDArray[np.int64]
    minuses: NDArray[np.int64]
    rounding: float
    """A bound on the total variation between what is drawn and the law of the noise."""


def _messages(protocol: Signed, values: int) -> NoiseMessages:
    """Return the law of how many messages of noise one report has."""
    flood = tuple(float(rate) for rate in protocol.flood)
    return NoiseMessages(float(protocol.ratio), flood, values / protocol.cut_for)


def _burst_table(protocol: Signed, values: int) -> _BurstTable:
    """Return the tables of one report's noise among so many values.

    The noise of one report is a Poisson number of bursts, each of a uniform value and one of
    these kinds: k pluses or k minuses with chance (ratio^k/k)/Λ, k pairs with λ_k/Λ. Kinds that
    do not fit into a report are left out: they would be dropped.
    """
    exact = Context(prec=60)
    ratio = _decimal(protocol.ratio, exact)
    flood = [_decimal(rate, exact) for rate in protocol.flood]
    sizes = range(1, protocol.room + 1)
    single = [exact.divide(exact.power(ratio, k), Decimal(k)) for k in sizes]
    pairs = flood[: protocol.room // 2]
    total = exact.multiply(Decimal(-2), exact.ln(exact.subtract(Decimal(1), ratio)))
    for rate in flood:
        total = exact.add(total, rate)
    kinds = [*single, *single, *pairs]
    mean = exact.divide(exact.multiply(total, Decimal(values)), Decimal(protocol.cut_for))
    # Not −mean: an operator would round to the digits of another context.
    none = exact.exp(exact.minus(mean))
    some = exact.subtract(Decimal(1), none)
    any_burst = min(int(exact.multiply(some, Decimal(GRAIN))) + 1, GRAIN)
    chances: list[Decimal] = []
    chance = none
    while not chances or chance > _NEVER or len(chances) < mean:
        chance = exact.divide(exact.multiply(chance, mean), Decimal(len(chances) + 1))
        chances.append(exact.divide(exact.multiply(chance, Decimal(GRAIN)), Decimal(any_burst)))
    pluses = [*sizes, *(0 for _ in sizes), *range(1, len(pairs) + 1), 0]
    minuses = [*(0 for _ in sizes), *sizes, *range(1, len(pairs) + 1), 0]
    entries = len(chances) + len(kinds) * float(mean)
    return _BurstTable(
        any_burst=any_burst,
        bursts=ChanceTable((0, *_weights(chances, exact))),
        kinds=ChanceTable(_weights([exact.divide(one, total) for one in kinds], exact)),
        pluses=np.array(pluses, np.int64),
        minuses=np.array(minuses, np.int64),
        # Each entry is rounded down by less than two units; what is never drawn is below 1e-50.
        rounding=2.0 * entries * 2.0**-128 + 1e-50,
    )


def _weights(chances: Sequence[Decimal], exact: Context) -> tuple[int, ...]:
    return tuple(int(exact.multiply(chance, Decimal(SCALE))) for chance in chances)


def _decimal(value: Fraction, exact: Context) -> Decimal:
    return exact.divide(Decimal(value.numerator), Decimal(value.denominator))
