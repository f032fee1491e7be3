"""Flips: every bit of the answer is flipped by chance, perhaps several copies of it.

Source: S0 §4 and §5.2; copies: S1 §5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch import privacy, protocols
from chaffinch.errors import InvalidInput, checks
from chaffinch.protocols.base import (
    MOST_SLOTS,
    Coded,
    EncodingSeconds,
    Protocol,
    Setting,
    Variant,
    answer_labels,
    check_chance,
    numerator,
)
from chaffinch.protocols.flipped_records import flip_row, flip_values, overflow, slots_for
from chaffinch.questions import Question
from chaffinch.sampling import Words, bernoulli
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.protocols.joint import FlippedTogether
    from chaffinch.protocols.noise import Draws, Noise, Places, Truth

_COPIES = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Flips(Protocol):
    """Every bit of the answer is flipped with ``flip_probability``, ``copies`` times over.

    ``slots`` limits the set bits of a flipped choice.
    """

    flip_probability: Fraction
    copies: int = 1
    slots: int | None = None

    kind: ClassVar[str] = "flips"
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice", "flags")
    seconds: ClassVar[EncodingSeconds] = EncodingSeconds(1.8e-5, 4.2e-7, 0.0, 1.1e-7)

    def __post_init__(self) -> None:
        check_chance("flip probability", self.flip_probability, below=Fraction(1, 2))
        checks.whole("number of copies", self.copies, least=1, most=10_000)
        if self.slots is not None:
            checks.whole("number of slots", self.slots, least=1, most=MOST_SLOTS)

    def check(self, question: Question) -> None:
        """Refuse copies of a choice, and a choice without a number of slots."""
        super().check(question)
        if (question.shape == "choice") != (self.slots is not None):
            raise InvalidInput("number of slots", "given for choices and only there", self.slots)
        if question.shape == "choice" and self.copies != 1:
            raise InvalidInput("number of copies", "1 for a choice", self.copies)

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the names of the bits; a bit has one code, which says yes."""
        return ("yes",) if question.shape == "bit" else answer_labels(question)

    def report_slots(self, question: Question) -> int:
        """Return a slot for each copy of each bit, or the slots of the choice."""
        if self.slots is not None:
            return min(self.slots, len(answer_labels(question)))
        return self.copies * len(self.labels(question))

    def expected_messages(self, question: Question) -> float:
        """Return the mean number of set bits of the fullest answer."""
        keep, bits = 1 - self.flip_probability, len(self.labels(question))
        if question.shape == "choice":
            return float(keep + (bits - 1) * self.flip_probability)
        return float(self.copies * bits * keep)

    def overflow(self, question: Question) -> float:
        """Return a bound on the chance that more bits are set than there are slots."""
        if self.slots is None:
            return 0.0
        return overflow(len(answer_labels(question)), self.flip_probability, self.slots)

    def encode_one(self, question: Question, answer: Any, words: Words) -> NDArray[np.int64]:
        """Flip the bits of one answer: yes or no, the place of a value, or those of flags."""
        bits = len(self.labels(question))
        # Coins first, then the answer is put upon them: the same words whatever it is.
        flipped = bernoulli(words, numerator(self.flip_probability), bits * self.copies)
        held = flipped.reshape(self.copies, bits)
        if question.shape == "bit":
            held ^= bool(answer)
        else:
            held[:, np.asarray(answer, dtype=np.intp)] ^= True
        # What has no slot is cut off. ``overflow`` bounds how often that happens, and the
        # accountant adds it to delta.
        return np.nonzero(held)[1][: self.report_slots(question)]

    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> Coded:
        """Draw only the places of the flipped bits, in one long row of all bits."""
        chance, bits = self.flip_probability, len(self.labels(question))
        if question.shape == "choice":
            return flip_values(answers, bits, chance, self.report_slots(question), words)
        held = np.repeat(answers.astype(np.bool_), self.copies, axis=0).ravel()
        return Coded(flip_row(held, chance, words, bits))

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return flipped bits, as many of them composed as there are flags, or flipped values."""
        if question.shape == "choice":
            return privacy.FlippedValues(
                users=users,
                values=len(answer_labels(question)),
                flip_probability=self.flip_probability,
            )
        bit = privacy.FlippedBits(
            users=users, flip_probability=self.flip_probability, copies=self.copies
        )
        # One answer changes all flags at once, so they compose.
        flags = len(self.labels(question))
        return bit if flags == 1 else privacy.compose(bit, times=flags)

    def noise(self, question: Question) -> Noise:  # noqa: ARG002
        """Return Bin(k·h, p) + Bin(k·(n − h), q)."""
        return protocols.noise.Noise.flips(self.flip_probability, copies=self.copies)

    def joint(self, question: Question, counts: Counts, reports: int) -> FlippedTogether:  # noqa: ARG002
        """Return the law of independent bits."""
        return protocols.joint.FlippedTogether(
            float(self.flip_probability), reports, len(self.labels(question))
        )

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Draw the noise of every code, all independent."""
        held = np.broadcast_to(truth.held(len(self.labels(question)))[places], (runs, len(places)))
        records = self.copies * truth.people
        return protocols.noise.flip_counts(
            self.copies * held, records, float(self.flip_probability), draws
        )

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:
        """Return one copy, and more of a bit or of flags as far as messages go."""
        if question.shape == "choice":
            return [_variant(1)]
        bits = 1 if question.shape == "bit" else len(answer_labels(question))
        return [_variant(1), *(_variant(k) for k in _COPIES if k * bits <= most_messages)]

    @classmethod
    def local_variant(cls, question: Question) -> Variant | None:  # noqa: ARG003
        """Return plain randomized response; one choice moves two bits, so each gets half."""

        def make(setting: Setting, epsilon: float) -> Flips:
            """Return flips that are epsilon private without any crowd."""
            question = setting.question
            if question.shape == "choice":
                flip = protocols.tuning.flip_for_local(epsilon / 2)
                return Flips(flip, 1, slots_for(setting, flip, 1))
            bits = 1 if question.shape == "bit" else len(answer_labels(question))
            return Flips(protocols.tuning.flip_for_local(epsilon / bits))

        return Variant("local", make)

    @property
    def name(self) -> str:
        """Return the name, with the copies if there are several."""
        return _name(self.copies)

    def sentence(self) -> str:
        """Return what a device does."""
        times = "" if self.copies == 1 else f", {self.copies} times over"
        flip = float(self.flip_probability)
        return f"each bit of the answer is flipped with probability {flip:.3g}{times}"


def _name(copies: int) -> str:
    return "flips" if copies == 1 else f"flips, {copies} copies"


def _variant(copies: int) -> Variant:
    """Return flips with so many copies."""

    def make(setting: Setting, mu: float) -> Flips:
        """Return flips among which one person moves the view by mu, about."""
        question = setting.question
        if question.shape != "choice":
            bits = 1 if question.shape == "bit" else len(answer_labels(question))
            # All bits may change at once.
            return Flips(protocols.tuning.flip_for_shift(mu, setting.crowd, copies * bits), copies)
        # Another value changes two bits: that of the old one and that of the new one.
        flip = protocols.tuning.flip_for_shift(mu, setting.crowd, 2.0)
        return Flips(flip, 1, slots_for(setting, flip, 1))

    return Variant(_name(copies), make)
