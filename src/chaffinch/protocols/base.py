"""What a protocol is: everything the rest of chaffinch asks about one way to protect an answer.

Every protocol sends *codes*: whole numbers that each stand for a set bit. A report is a
fixed number of slots, each with a code or empty. What the analyzer sees of a question is
how often each code was sent. A subclass says how codes are chosen (on one device, and for
many answers at once), what the accountant makes of that, how a tally scatters, how the
planner tunes it, and how files and people call it. Nothing outside its file knows more.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import PydanticSerializationError

from chaffinch import privacy, protocols
from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.questions import Bit, Choice, Cross, Flags, Number, Question
from chaffinch.sampling import Words
from chaffinch.wire.batches import Codes, Counts
from chaffinch.wire.document_forms import Form, form_of
from chaffinch.wire.messages import Rows

if TYPE_CHECKING:
    from chaffinch.protocols.joint import JointNoise
    from chaffinch.protocols.likelihoods import Likelihood
    from chaffinch.protocols.noise import (
        Draws,
        MessageNoise,
        Noise,
        Places,
        Scatter,
        TallyNoise,
        Truth,
    )

GRAIN = 1 << 64
"""Every probability a device uses is a whole number of 1/GRAIN."""
MESSAGES, TOTALS = VIEWS = ("messages", "totals")
"""What a plan can be for: messages that devices send, or totals that one party adds up."""
MOST_SLOTS = 10**6
LEAST_SHARE = 0.5
"""The smallest share of honest users with which a plan still promises something."""
LITTLE_NOISE = 1e-9
"""A batch whose noise is so improbably little, or much, is refused: somebody has touched it."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """The messages of many answers to one question, counted from its first code."""

    codes: Codes
    rows: Rows | None = None
    """Answers with many set bits, which are smaller as packed bits than as codes."""


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What the analyzer makes of the counts of all codes: a tally for each label, and its law."""

    tallies: Counts
    noise: TallyNoise
    lowered: bool = False
    """Whether a code was sent more often than honest reports can."""


@dataclass(frozen=True, slots=True)
class Thermometer:
    """How a number became messages: in so many steps, each of which has this noise."""

    resolution: int
    together: bool
    """Whether only the total of the steps is seen, or each position by itself."""
    noise: TallyNoise
    summed: TallyNoise | None = None
    """The noise of the sum of all steps, where that does not follow from the number of trials."""

    @property
    def of_sum(self) -> TallyNoise:
        """Return the noise of the sum of all steps, given the trials of all of them."""
        return self.noise if self.summed is None else self.summed


@dataclass(frozen=True, slots=True)
class Setting:
    """What a protocol has to be tuned for."""

    question: Question
    crowd: int
    epsilon: float
    """The epsilon of the whole plan, at which cut messages are charged."""
    cutting: float
    """How much of delta cut messages may cost here."""
    delta: float
    """The part of the plan's delta that one answer may take, about."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A protocol with everything fixed except its strength.

    The strength is mu, the shift that one person causes in what is seen, in standard
    deviations (the Gaussian limit of the exact laws); for the local baseline it is an
    epsilon. It only steers the search: the exact accountant judges every plan afterwards.
    """

    name: str
    make: Callable[[Setting, float], Protocol]
    wished: bool = False
    """Weighed only where somebody said that nothing need be left of a single report, or by name."""


@dataclass(frozen=True, slots=True)
class EncodingSeconds:
    """What encoding takes, in seconds of one core: measured by ``python -m benchmarks.costs``."""

    device_report: float
    """A report on a device, whatever it holds."""
    device_message: float
    """Each message of it."""
    table_answer: float
    """An answer in a table, read and encoded with many others."""
    table_message: float
    """Each message of it, encoded and written."""


@dataclass(frozen=True)
class Protocol(ABC):
    """One way to protect one question, with exact parameters."""

    kind: ClassVar[str]
    view: ClassVar[str] = MESSAGES
    """What is seen: ``messages`` of devices, or ``totals`` that one party adds up."""
    shapes: ClassVar[tuple[str, ...]]
    sizes_tell_noise: ClassVar[bool] = False
    """Whether who knows the number of messages of each report knows more than from their sum."""
    seconds: ClassVar[EncodingSeconds]
    """What encoding takes, for the costs of a collection."""
    mechanisms: ClassVar[tuple[type[privacy.Mechanism], ...]] = ()
    """Mechanisms that it brings along: those of ``mechanism`` that chaffinch does not have."""
    clear: ClassVar[bool] = False
    """Whether a report shows its answer to who sees it alone: no candidate where that matters."""

    # -------------------------------------------------------------------- what is sent

    @classmethod
    def carries(cls, question: Question) -> bool:
        """Return whether this can protect a question.

        Crossed questions are told apart by how all tallies scatter together (``joint``).
        """
        crossed = isinstance(question, Cross)
        return question.shape in cls.shapes and not (crossed and cls.joint is Protocol.joint)

    def check(self, question: Question) -> None:
        """Refuse a question that this protocol cannot carry."""
        if question.shape in self.shapes and not self.carries(question):
            rule = f"no cross: of {self.kind!r} it is not known how all tallies scatter together"
            raise InvalidInput("question", rule, question.kind)
        if question.shape not in self.shapes:
            raise InvalidInput(
                "question",
                f"of a shape that {self.kind!r} carries: {', '.join(self.shapes)}",
                question.kind,
            )

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return a name for everything that is counted."""
        return answer_labels(question)

    def codes(self, question: Question) -> int:
        """Return how many different messages there are: one for each label, or more."""
        return len(self.labels(question))

    def message_names(self, question: Question) -> tuple[str, ...]:
        """Return for every code, in order, what it says, in words that people read.

        As a rule a code says that its label holds: "chrome", or of flags "dark mode: yes". Where
        a label has several codes they are numbered, unless a protocol says more. No two are alike.
        """
        labels = self.labels(question)
        if question.shape == "flags":
            labels = tuple(f"{label}: yes" for label in labels)
        each, rest = divmod(self.codes(question), len(labels))
        if rest:
            return tuple(f"message {code + 1}" for code in range(self.codes(question)))
        if each == 1:
            return labels
        return tuple(f"{label}, message {one + 1}" for label in labels for one in range(each))

    @abstractmethod
    def report_slots(self, question: Question) -> int:
        """Return how many slots a report has."""

    def answer_messages(self, question: Question) -> int | None:  # noqa: ARG002
        """Return how many messages every answer has; None if that depends on the answer."""
        return None

    def sealed_messages(self, question: Question) -> int:
        """Return for how many messages a report costs public-key work.

        Where the number of messages depends on the answer, empty slots are sealed like full
        ones. Where it follows the noise alone, the rest of a report is padding and costs nothing.
        """
        if self.answer_messages(question) is None:
            return self.report_slots(question)
        return math.ceil(self.expected_messages(question))

    @abstractmethod
    def expected_messages(self, question: Question) -> float:
        """Return how many of them are filled, on average, for the answer that fills most."""

    def overflow(self, question: Question) -> float:  # noqa: ARG002
        """Return a bound on the chance that a record has more messages than slots."""
        return 0.0

    def influence(self, question: Question, slots: int) -> float:
        """Return by how much one report of a plan with ``slots`` can move an estimate.

        It can fill all of them, also those of other questions, with one code: nobody sees what
        is in one report.
        """
        return slots / float(self.noise(question).slope)

    def concentrated(self, question: Question, factor: Fraction) -> Protocol:  # noqa: ARG002
        """Return the protocol of a crowd so many times smaller that sends as much noise together.

        It is for audits: noise that a large crowd shares out is next to none in a small one.
        """
        return self

    @property
    def records(self) -> int:
        """Return how many records a report holds, decoys included."""
        return 1

    @abstractmethod
    def encode_one(self, question: Question, answer: Any, words: Words) -> NDArray[np.int64]:
        """Return the codes of one answer; as many words are drawn whatever the answer is."""

    @abstractmethod
    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> Coded:
        """Return the messages of many answers, with the law of ``encode_one`` for each.

        Their order must not tell which of them came from an answer.
        """

    def add_up(self, question: Question, answers: NDArray[Any], words: Words) -> Counts:
        """Return the exact sums of many answers, where one party adds them up."""
        del question, answers, words
        raise InvalidInput("protocol", "one for totals", self.kind)

    def add_noise(self, question: Question, sums: Counts, words: Words) -> Counts:
        """Return what is released of the exact sums of everybody's answers."""
        del question, sums, words
        raise InvalidInput("protocol", "one for totals", self.kind)

    # -------------------------------------------------------------------- what it is worth

    @abstractmethod
    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return what the view of so many honest users is, for the accountant."""

    @abstractmethod
    def noise(self, question: Question) -> Scatter:
        """Return how far estimates scatter, before anything is seen."""

    def read(self, question: Question, counts: Counts, reports: int) -> Reading:
        """Return the tallies in the counts of all codes (in the last axis), and their law.

        A sender who breaks the rules can fill every slot with one code; an answer is still due.
        """
        noise = self._noise_of_bits(question)
        # Intervals are for tallies that can be: what is above counts as the largest of them.
        most = noise.largest(reports)
        return Reading(np.minimum(counts, most), noise, bool((counts > most).any()))

    def joint(self, question: Question, counts: Counts, reports: int) -> JointNoise:  # noqa: ARG002
        """Return how the tallies of a choice scatter together, given the counts of all codes."""
        raise InvalidInput("protocol", "one for choices", self.kind)

    def likelihood(self, question: Question, held: int, people: int) -> Likelihood:
        """Return what a label's codes tell of one more than ``held`` people who hold it.

        Of a number: who is at its upper end and not at its lower one. It is for attacks.
        """
        return protocols.likelihoods.TallyLikelihood(self._noise_of_bits(question), held, people)

    def _noise_of_bits(self, question: Question) -> Noise:
        noise = self.noise(question)
        if not isinstance(noise, protocols.noise.Noise):
            raise InvalidInput("noise", "that of one code", type(noise).__name__)
        return noise

    @property
    def thermometer(self) -> Thermometer:
        """Return how a number is sent, or refuse a protocol that sends none."""
        raise InvalidInput("protocol", "one for numbers", self.kind)

    def messages_of_all(self, question: Question, people: int) -> MessageNoise | None:  # noqa: ARG002
        """Return how many messages so many people send; None if that depends on their answers."""
        return None

    def least_messages(self, question: Question, users: int) -> int:  # noqa: ARG002
        """Return how many messages an honest batch has at the least, but for a chance of 1e-9."""
        return 0

    def most_messages(self, question: Question, users: int) -> int | None:  # noqa: ARG002
        """Return how many messages so many honest users send at the most, but for 1e-9.

        None where an honest number does not say much.
        """
        return None

    def standard_error(self, question: Question, reports: int) -> float:
        """Return the largest standard error of a count, in people."""
        return float(self.noise(question).standard_error(reports))

    @abstractmethod
    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Return the counts of the codes of some labels, from their exact joint law.

        A row for each run; the codes of one label stand side by side.

        What it leaves out is cutting: messages that do not fit into the slots of a report.
        """

    # -------------------------------------------------------------------- for planner and people

    @classmethod
    @abstractmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:
        """Return the ways to tune this protocol for a question of a shape that it carries.

        The shortest way is always there, even if it is too long: the planner says so.
        """

    @classmethod
    def local_variant(cls, question: Question) -> Variant | None:  # noqa: ARG003
        """Return the baseline that trusts no shuffler, if this protocol has one."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """Return what tables of candidates call it."""

    @abstractmethod
    def sentence(self) -> str:
        """Return what a device does, as part of a sentence."""

    @classmethod
    def form(cls) -> type[Form]:
        """Return how it stands in a plan file: its kind, and its parameters by their names."""
        return form_of(cls, kind=cls.kind)

    def document(self) -> dict[str, Any]:
        """Return the protocol as it stands in a plan file; refuse parameters that cannot."""
        form = self.form()
        try:
            document = form.document(self)
        except PydanticSerializationError as fault:
            rule = "whole numbers, texts, and fractions that are finite decimals"
            why = Unquoted(str(fault).partition("\n")[0])
            raise InvalidInput(f"parameters of {self.kind!r}", rule, why) from fault
        again = form.model_validate(document).build()
        if again != self:
            rule = "read back as they were written: compared by value, and one type for each form"
            raise InvalidInput(f"parameters of {self.kind!r}", rule, again)
        return document


def cut_chance(chance: float, records: int) -> Fraction:
    """Return records·τ, rounded up to three digits: the chance that anything is cut at all."""
    if chance == 0:
        return Fraction(0)
    text = Context(prec=3, rounding=ROUND_CEILING).create_decimal(
        Decimal(chance) * Decimal(records)
    )
    return min(Fraction(text), Fraction(1))


def number_question(question: Question) -> Number:
    """Return a question about a number as one, or refuse it."""
    if not isinstance(question, Number):
        raise InvalidInput("question", "a Number", question.kind)
    return question


def check_chance(parameter: str, value: object, *, below: Fraction) -> Fraction:
    """Refuse a probability that a device cannot draw exactly: it must be k/2⁶⁴."""
    exact = checks.probability(parameter, value, below=below)
    if not isinstance(value, Fraction) or GRAIN % exact.denominator:
        raise InvalidInput(parameter, "a whole number of 1/2**64", value)
    return exact


def numerator(chance: Fraction) -> int:
    """Return k of a chance k/2⁶⁴."""
    # The denominator divides 2⁶⁴: `check_chance` has refused all others.
    return chance.numerator * (GRAIN // chance.denominator)


def round_by_chance(shares: NDArray[Any], steps: int, words: Words) -> NDArray[np.int64]:
    """Return shares·steps as whole numbers: the one below, or by chance the next, a word each."""
    # Where all steps are full no share is left for one more.
    return _round_heights(np.minimum(shares * steps, steps), words)


def _round_heights(heights: NDArray[Any], words: Words) -> NDArray[np.int64]:
    """Return the whole number below each height, or by chance the next: their mean is kept."""
    full = heights.astype(np.int64)
    # A float just below 1 times 2⁶⁴ may round to 2⁶⁴, which no 64-bit word holds.
    chance = np.minimum((heights - full) * float(GRAIN), np.nextafter(float(GRAIN), 0.0))
    # The chance is cut to a whole number of 2⁻⁶⁴, so the mean is low by less than that.
    return np.asarray(full + (words.take(len(heights)) < chance.astype(np.uint64)))


def settle_levels(question: Question, places: NDArray[Any], words: Words) -> NDArray[Any]:
    """Return answers with a number in a cross moved to one of its levels, a word for each."""
    if isinstance(question, Cross) and question.levels is not None:
        return _round_heights(places, words)
    return places


def amount_text(question: Number, share: float, *, sign: str = "") -> str:
    """Return a part of a number's range in words: how far a message moves the sum.

    >>> amount_text(Number(0, 60, unit="minutes"), 0.25, sign="+")
    '+15 minutes'
    """
    return unit_text(question, f"{sign}{share * (question.high - question.low):.5g}")


def unit_text(question: Number, written: str) -> str:
    """Return a number that is written already with the unit of its question behind it."""
    return f"{written} {question.unit}" if question.unit else written


def answer_labels(question: Question) -> tuple[str, ...]:
    """Return the names of the answers to a question that has named answers."""
    if not isinstance(question, (Bit, Choice, Cross, Flags)):
        raise InvalidInput("question", "one with named answers", question.kind)
    return question.labels
