"""Noise that many devices share out: a Poisson number of bursts, each of one of a few kinds.

Sums of bursts at given rates are compound Poisson, and a 1/n share of such noise is the same with
rates n times smaller (Poisson splitting). All chances are whole numbers of 2⁻¹²⁸. Protocols that
send clear answers among such noise have a base here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch import protocols, sampling
from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.numerics.floods import NoiseMessages
from chaffinch.protocols.base import GRAIN, LITTLE_NOISE, Coded, Protocol, Setting
from chaffinch.questions import Question
from chaffinch.sampling import SCALE, ChanceTable, Words, bernoulli

if TYPE_CHECKING:
    from chaffinch.protocols.noise import MessageNoise

Codes = NDArray[np.int64]
Kind = tuple[int, int, int, Decimal]
"""Three parts, which a protocol knows the meaning of, and the rate of such bursts."""

LARGEST_RATIO, LARGEST_ROOM = Fraction((1 << 30) - 1, 1 << 30), 4096
"""No useful plan comes near these; work and memory of its laws follow them."""
_NEVER = Decimal("1e-55")
_NO_CODES = np.empty(0, np.int64)
EXACT = Context(prec=60)
"""Entries are whole numbers of 2⁻¹²⁸, about 3e-39: what 60 digits round is far below one."""


@dataclass(frozen=True, eq=False)
class Bursts:
    """How a device draws bursts: whether there are any, how many, and of which kinds.

    Each kind has a row of ``parts``; what is left over has the last one, of zeros.
    """

    any_burst: int
    """The chance of any burst, rounded up, in units of 2⁻⁶⁴."""
    number: ChanceTable
    kinds: ChanceTable
    parts: Codes
    rounding: float
    """A bound on the total variation between what is drawn and the law of the noise."""

    @classmethod
    def of(cls, kinds: Sequence[Kind], rates: Sequence[Decimal], share: Fraction) -> Bursts:
        """Return the tables of a share of bursts of these kinds.

        The sum of all ``rates`` may be larger than theirs: what the table leaves over is bursts
        that are left out, because they would be dropped.
        """
        total = reduce(EXACT.add, rates)
        mean = EXACT.divide(
            EXACT.multiply(total, Decimal(share.numerator)), Decimal(share.denominator)
        )
        # Not −mean: an operator would round to the digits of another context.
        none = EXACT.exp(EXACT.minus(mean))
        some = EXACT.subtract(Decimal(1), none)
        any_burst = min(int(EXACT.multiply(some, Decimal(GRAIN))) + 1, GRAIN)
        chances: list[Decimal] = []
        chance = none
        # Chances rise up to the mean: a tiny one before it is not the end of them.
        while not chances or chance > _NEVER or len(chances) < mean:
            chance = EXACT.divide(EXACT.multiply(chance, mean), Decimal(len(chances) + 1))
            # Given any burst, at the chance with which it is really drawn: the product is the
            # Poisson law.
            chances.append(EXACT.divide(EXACT.multiply(chance, Decimal(GRAIN)), Decimal(any_burst)))
        # A report draws ``mean`` kinds on average, and each draw may be off by every entry's
        # rounding.
        entries = len(chances) + len(kinds) * float(mean)
        return cls(
            any_burst=any_burst,
            number=ChanceTable((0, *_weights(chances))),
            kinds=ChanceTable(_weights([EXACT.divide(rate, total) for *_, rate in kinds])),
            parts=np.array([*(parts for *parts, _ in kinds), (0, 0, 0)], np.int64),
            # Each entry is rounded down by less than two units; what is never drawn is below 1e-50.
            rounding=2.0 * entries * 2.0**-128 + 1e-50,
        )

    def draw(self, words: Words, reports: int) -> tuple[Codes, Codes]:
        """Return of each burst the number of its report, and in a row the parts of its kind.

        Reports are numbered among those that have bursts.
        """
        if not reports:
            return _NO_CODES, self.parts[:0]
        # Many at the cost of those who send; one device by one coin, whatever its result.
        senders = (
            len(sampling.positions(words, self.any_burst, reports))
            if reports > 1
            else int(bernoulli(words, self.any_burst, 1)[0])
        )
        if not senders:
            return _NO_CODES, self.parts[:0]
        number = self.number.draw(words, senders)
        # `any_burst` is rounded up. What the table leaves over is that rounding: no burst after
        # all.
        number[number == len(self.number.weights)] = 0
        owner = np.repeat(np.arange(senders), number)
        return owner, self.parts[self.kinds.draw(words, len(owner))]


class SharedNoise(Protocol):
    """The answer in clear, and a share of noise that was cut for ``cut_for`` users.

    A report has room for ``room`` messages of noise; more are dropped, all of them. A subclass
    declares both fields, where they stand in its plan files.
    """

    cut_for: int
    room: int

    sizes_tell_noise: ClassVar[bool] = True
    clear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.whole("number of users that noise is cut for", self.cut_for, least=1)
        checks.whole("room for noise", self.room, most=LARGEST_ROOM)

    def check(self, question: Question) -> None:
        """Refuse a question about the spread: only sums are sent."""
        super().check(question)
        if getattr(question, "quantiles", False):
            raise InvalidInput("question", "one about the mean, without quantiles", question.kind)

    # -------------------------------------------------------------------- what a subclass says

    @property
    @abstractmethod
    def resolution(self) -> int:
        """Return the steps of a number; anything else has one."""

    @abstractmethod
    def answer_messages(self, question: Question) -> int:
        """Return how many messages an answer always has."""

    @abstractmethod
    def answer_codes(self, question: Question, answer: NDArray[Any], words: Words) -> Codes:
        """Return the codes of one answer."""

    @abstractmethod
    def answer_counts(self, question: Question, answers: NDArray[Any], words: Words) -> Codes:
        """Return how often many answers together send each code."""

    @abstractmethod
    def burst_table(self, values: int) -> Bursts:
        """Return the tables of one report's noise among so many values."""

    @abstractmethod
    def burst_codes(
        self, question: Question, owner: Codes, parts: Codes, words: Words
    ) -> tuple[Codes, Codes]:
        """Return codes of the bursts that ``fit``, and how often each is sent."""

    @abstractmethod
    def noise_messages(self, question: Question) -> NoiseMessages:
        """Return the law of the number of noise messages of one report."""

    # -------------------------------------------------------------------- what is sent

    def bursts(self, question: Question) -> Bursts:
        """Return the tables, made once: a device looks them up for every answer."""
        values = len(self.labels(question))
        if values not in self._tables:
            self._tables[values] = self.burst_table(values)
        return self._tables[values]

    @cached_property
    def _tables(self) -> dict[int, Bursts]:
        return {}

    def report_slots(self, question: Question) -> int:
        """Return the messages of the answer and the room for noise."""
        return self.answer_messages(question) + self.room

    def expected_messages(self, question: Question) -> float:
        """Return the messages of the answer and the mean of the noise."""
        return self.answer_messages(question) + self.noise_messages(question).mean

    def overflow(self, question: Question) -> float:
        """Return how far the noise of one report can be from its law: cut off, or rounded."""
        chance = self.noise_messages(question).tail(self.room + 1)
        # Tables of noise that does not fit anyway need not be made, and may be long.
        return chance if chance == 1 else chance + self.bursts(question).rounding

    def concentrated(self, question: Question, factor: Fraction) -> Self:
        """Return the same noise cut for fewer users, with room for nearly all of it."""
        cut = self.changed(cut_for=max(1, math.ceil(self.cut_for / factor)))
        room = cut.noise_messages(question).size_within(LITTLE_NOISE, most=LARGEST_ROOM)
        return cut.changed(room=max(room, self.room))

    def with_room(self, setting: Setting) -> Self:
        """Return the same noise with room for nearly all of it; none if no room is large enough."""
        noise = self.noise_messages(setting.question)
        return self.changed(room=room_for(noise, dropped_chance(setting)))

    def changed(self, **fields: int) -> Self:
        """Return the same protocol with other parameters."""
        return replace(self, **fields)

    def encode_one(self, question: Question, answer: Any, words: Words) -> Codes:
        """Send the answer and, now and then, bursts of noise, which know nothing of it."""
        held = self.answer_codes(question, np.asarray(answer), words)
        codes, times = self._noise_codes(question, 1, words)
        return np.concatenate([held, np.repeat(codes, times)])

    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> Coded:
        """Draw which reports have any noise, and their bursts; count what is sent in all."""
        sent = self.answer_counts(question, answers, words)
        codes, times = self._noise_codes(question, len(answers), words)
        sent = sent + np.bincount(codes, times, minlength=len(sent)).astype(np.int64)
        # In the order of the codes: which of them are noise must not show.
        return Coded(np.repeat(np.arange(len(sent), dtype=np.uint32), sent))

    def _noise_codes(self, question: Question, reports: int, words: Words) -> tuple[Codes, Codes]:
        owner, parts = self.bursts(question).draw(words, reports)
        if not len(owner):
            return _NO_CODES, _NO_CODES
        return self.burst_codes(question, owner, parts, words)

    def fit(self, owner: Codes, sizes: Codes) -> NDArray[np.bool_]:
        """Return which bursts of so many messages are sent.

        Noise that does not fit is dropped whole: the chance of that is charged to delta.
        """
        return np.asarray(np.bincount(owner, sizes)[owner] <= self.room)

    # -------------------------------------------------------------------- what it is worth

    def standard_error(self, question: Question, reports: int) -> float:
        """Return the standard error of a count, or of a sum in units of the range."""
        noise = float(self.noise(question).standard_error(reports * self.resolution))
        if question.shape != "number":
            return noise
        # Rounding to steps scatters by at most half of one for every person.
        return math.hypot(noise, math.sqrt(reports) / 2.0) / self.resolution

    def messages_of_all(self, question: Question, people: int) -> MessageNoise:
        """Return the messages of the answers, and those of bursts."""
        noise = self.noise_messages(question).of_all(people)
        answers = people * self.answer_messages(question)
        return protocols.noise.MessageNoise(answers + noise.mean, noise.variance, noise.grain)

    def least_messages(self, question: Question, users: int) -> int:
        """Return how many messages a batch must have: fewer would mean that noise is missing."""
        noise = self.noise_messages(question).of_all(users).least(LITTLE_NOISE)
        # Reports beyond the honest users may be empty: nobody promised that they are not.
        return users * self.answer_messages(question) + noise

    @property
    def share_words(self) -> str:
        """Return what a device sends of the noise, and who must not see how much, in words."""
        return (
            f"of which every device sends a 1/{self.cut_for:,} share (their number tells nothing "
            "of the answer and much of the noise: whoever opens reports must not work with the "
            "analyzer)"
        )


def dropped_chance(setting: Setting) -> float:
    """Return the chance with which noise of one report may not fit.

    What does not fit costs (1 + e^epsilon) times its chance, for every user; half of what it
    may cost is left to the rounding of tables.
    """
    return setting.cutting / (1.0 + math.exp(min(setting.epsilon, 700.0))) / setting.crowd / 2


def room_for(noise: NoiseMessages, chance: float) -> int:
    """Return a room that is too small with this chance; none at all if none is large enough.

    Nothing is proven of a report without room, quickly: the planner tries another one.
    """
    if noise.mean > LARGEST_ROOM:
        return 0
    room = noise.size_within(chance, most=LARGEST_ROOM)
    return room if room < LARGEST_ROOM else 0


def series(ratio: Decimal, size: int) -> list[Decimal]:
    """Return ratio^k/k for k = 1 … size: the rates of bursts of a geometric number."""
    power, found = Decimal(1), []
    for k in range(1, size + 1):
        power = EXACT.multiply(power, ratio)
        found.append(EXACT.divide(power, Decimal(k)))
    return found


def geometric_rate(ratio: Decimal) -> Decimal:
    """Return Σ ratio^k/k = −ln(1 − ratio)."""
    return EXACT.minus(EXACT.ln(EXACT.subtract(Decimal(1), ratio)))


def decimal_of(value: Fraction) -> Decimal:
    """Return a fraction to sixty digits."""
    return EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _weights(chances: Sequence[Decimal]) -> tuple[int, ...]:
    return tuple(int(EXACT.multiply(chance, Decimal(SCALE))) for chance in chances)
