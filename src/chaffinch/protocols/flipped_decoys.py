"""Flipped decoys: the answer and whole decoy records, every bit of all of them flipped.

Source: S0 §5.3, messages view only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch import privacy, protocols
from chaffinch.errors import checks
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
from chaffinch.protocols.flipped_records import flip_values, overflow, slots_for
from chaffinch.questions import Question
from chaffinch.sampling import Words, below, bernoulli, permutation
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.protocols.joint import FlippedTogether
    from chaffinch.protocols.noise import Draws, Noise, Places, Truth

_NAME = "flips with decoys"


@dataclass(frozen=True)
class FlippedDecoys(Protocol):
    """The answer and ``decoys`` uniform values, all as one-hot records, every bit flipped.

    ``slots`` limits the set bits of each record.
    """

    flip_probability: Fraction
    decoys: int
    slots: int

    kind: ClassVar[str] = "flipped-decoys"
    shapes: ClassVar[tuple[str, ...]] = ("choice",)
    seconds: ClassVar[EncodingSeconds] = EncodingSeconds(2.9e-5, 7.1e-7, 1.3e-7, 8.4e-9)

    def __post_init__(self) -> None:
        check_chance("flip probability", self.flip_probability, below=Fraction(1, 2))
        checks.whole("number of decoys per user", self.decoys, least=1, most=1_000)
        checks.whole("number of slots", self.slots, least=1, most=MOST_SLOTS)

    @property
    def records(self) -> int:
        """Return the answer's record and the decoys."""
        return 1 + self.decoys

    def report_slots(self, question: Question) -> int:
        """Return the slots of all records."""
        return self.records * min(self.slots, len(answer_labels(question)))

    def expected_messages(self, question: Question) -> float:
        """Return the mean number of set bits of all records."""
        flip, bits = self.flip_probability, len(answer_labels(question))
        return float(self.records * (1 - flip + (bits - 1) * flip))

    def overflow(self, question: Question) -> float:
        """Return a bound on the chance that one record sets more bits than it has slots."""
        return overflow(len(answer_labels(question)), self.flip_probability, self.slots)

    def encode_one(self, question: Question, answer: Any, words: Words) -> NDArray[np.int64]:
        """Flip the answer's record and those of the decoys, each cut to its slots."""
        bits = len(answer_labels(question))
        fakes = below(words, bits, self.decoys).astype(np.int64)
        flip = numerator(self.flip_probability)
        parts = []
        for value in (answer, *fakes):
            held = bernoulli(words, flip, bits)
            held[value] ^= True
            parts.append(np.flatnonzero(held)[: self.slots])
        return np.concatenate(parts)

    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> Coded:
        """Flip all records alike: decoys are records like any other."""
        bits = len(answer_labels(question))
        fakes = below(words, bits, len(answers) * self.decoys)
        records = np.concatenate([answers.astype(np.int64), fakes.astype(np.int64)])
        # Records may leave as rows, in their order: it must not tell answers from decoys.
        mixed = records[permutation(words, len(records))]
        return flip_values(mixed, bits, self.flip_probability, self.slots, words)

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:
        """Return flipped values with the decoys of the honest users."""
        return privacy.FlippedValues(
            users=users,
            decoys=users * self.decoys,
            values=len(answer_labels(question)),
            flip_probability=self.flip_probability,
        )

    def noise(self, question: Question) -> Noise:
        """Return Bin(h, p) + Bin(n − h, q) + Bin(n·decoys, p/d + q·(1 − 1/d))."""
        return protocols.noise.Noise.flips_with_decoys(
            self.flip_probability,
            decoy_slots=self.decoys,
            rate=Fraction(1),
            values=len(answer_labels(question)),
        )

    def joint(self, question: Question, counts: Counts, reports: int) -> FlippedTogether:  # noqa: ARG002
        """Return the law of flipped bits of answers and decoys."""
        values, flip = len(answer_labels(question)), float(self.flip_probability)
        return protocols.joint.FlippedTogether(flip, reports, values, reports * self.decoys)

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Draw the values of the decoys first; given them all bits are flipped independently."""
        values, fakes = len(answer_labels(question)), truth.people * self.decoys
        drawn = protocols.noise.scatter_evenly(fakes, 1.0 / values, runs, draws, places)
        held = truth.held(values)[places] + drawn
        return protocols.noise.flip_counts(
            held, truth.people + fakes, float(self.flip_probability), draws
        )

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:  # noqa: ARG003
        """Return one decoy record from each user."""

        def make(setting: Setting, mu: float) -> FlippedDecoys:
            # Decoys double the records among which a changed value moves two bits.
            flip = protocols.tuning.flip_for_shift(mu, setting.crowd * 2, 2.0)
            return FlippedDecoys(flip, 1, slots_for(setting, flip, 2))

        return [Variant(_NAME, make)]

    @property
    def name(self) -> str:
        """Return the name."""
        return _NAME

    def sentence(self) -> str:
        """Return what a device does."""
        flip = float(self.flip_probability)
        return (
            f"the answer and {self.decoys} decoy are sent, "
            f"each bit flipped with probability {flip:.3g}"
        )
