"""Encoded: a number as a thermometer of bits, every bit flipped.

Source: S3 algorithms 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch import privacy, protocols
from chaffinch.errors import InvalidInput, checks
from chaffinch.protocols.base import (
    GRAIN,
    Coded,
    EncodingSeconds,
    Protocol,
    Setting,
    Thermometer,
    Variant,
    amount_text,
    check_chance,
    number_question,
    numerator,
    round_by_chance,
    unit_text,
)
from chaffinch.protocols.flipped_records import flip_row
from chaffinch.questions import Number, Question
from chaffinch.sampling import Words, bernoulli
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.protocols.noise import Draws, Noise, Places, Truth

_RESOLUTIONS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_FEWEST_STEPS = 8
"""A spread read from fewer steps than this says little."""


@dataclass(frozen=True)
class Encoded(Protocol):
    """A number as a thermometer of ``resolution`` bits, every bit flipped.

    ``together``: the bits carry no position, and only their total is seen. Otherwise each
    position has its own code, and the spread can be read too.
    """

    flip_probability: Fraction
    resolution: int
    together: bool

    kind: ClassVar[str] = "encoded"
    shapes: ClassVar[tuple[str, ...]] = ("number",)
    seconds: ClassVar[EncodingSeconds] = EncodingSeconds(2.2e-5, 8.4e-8, 3.7e-8, 1.7e-8)

    def __post_init__(self) -> None:
        check_chance("flip probability", self.flip_probability, below=Fraction(1, 2))
        checks.whole("resolution", self.resolution, least=1, most=1_000)
        if not isinstance(self.together, bool):
            raise InvalidInput("together", "true or false", self.together)

    def check(self, question: Question) -> None:
        """Refuse a question about the spread where only the total is sent."""
        super().check(question)
        if isinstance(question, Number) and question.quantiles and self.together:
            raise InvalidInput("together", "false where quantiles are asked for", self.together)

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return one name for the total, or the step at which each position begins."""
        if self.together or not isinstance(question, Number):
            return ("total",)
        width = (question.high - question.low) / self.resolution
        return tuple(f"{question.low + step * width:g}" for step in range(self.resolution))

    def message_names(self, question: Question) -> tuple[str, ...]:
        """Return what a bit adds to the lower bound, or that the number is above its step.

        >>> steps = Encoded(Fraction(1, 4), 4, together=True)
        >>> steps.message_names(Number(0, 60, unit="minutes"))
        ('+15 minutes',)
        """
        number = number_question(question)
        if self.together:
            return (amount_text(number, 1 / self.resolution, sign="+"),)
        width = (number.high - number.low) / self.resolution
        steps = [number.low + step * width for step in range(self.resolution)]
        # Few digits read well; of a narrow range far from 0 all of them are needed.
        for digits in (10, 17):
            written = [f"{step:.{digits}g}" for step in steps]
            if len({*written}) == len(steps):
                break
        return tuple(f"above {unit_text(number, one)}" for one in written)

    def report_slots(self, question: Question) -> int:  # noqa: ARG002
        """Return a slot for each bit."""
        return self.resolution

    def expected_messages(self, question: Question) -> float:  # noqa: ARG002
        """Return the mean number of set bits of the largest number."""
        return float(self.resolution * (1 - self.flip_probability))

    def encode_one(
        self,
        question: Question,  # noqa: ARG002
        answer: Any,
        words: Words,
    ) -> NDArray[np.int64]:
        """Send x·r in bits: as many ones as fit below it, and one more by chance."""
        bits = self.resolution
        height = answer * bits
        full = min(int(height), bits)
        # One more by chance, so that the mean of the bits is the number itself, not the step below
        # it. The chance is rounded down to a multiple of 2⁻⁶⁴.
        more = bernoulli(words, int((height - full) * float(GRAIN)), 1)[0]
        # A thermometer: the first bits are ones, so these coins are turned over.
        held = bernoulli(words, numerator(self.flip_probability), bits)
        held[: min(full + int(more), bits)] ^= True
        codes = np.flatnonzero(held)
        return np.zeros_like(codes) if self.together else codes

    def encode_many(
        self,
        question: Question,  # noqa: ARG002
        answers: NDArray[Any],
        words: Words,
    ) -> Coded:
        """Round all numbers at once, and flip their bits in one long row."""
        bits = self.resolution
        full = round_by_chance(answers, bits, words)
        # A row for each person, one behind the other: the first ``full`` bits of it are set.
        held = (np.arange(bits) < full[:, None]).ravel()
        codes = flip_row(held, self.flip_probability, words, bits)
        return Coded(np.zeros_like(codes) if self.together else codes)

    def mechanism(self, question: Question, users: int) -> privacy.Mechanism:  # noqa: ARG002
        """Return encoded numbers."""
        return privacy.EncodedNumbers(
            users=users,
            resolution=self.resolution,
            flip_probability=self.flip_probability,
            slots="together" if self.together else "separate",
        )

    def noise(self, question: Question) -> Noise:  # noqa: ARG002
        """Return the law of a tally, given how many people hold the largest number.

        Whoever holds it sets all bits, so a total of r bits is one bit in r copies.
        """
        copies = self.resolution if self.together else 1
        return protocols.noise.Noise.flips(self.flip_probability, copies=copies)

    def standard_error(self, question: Question, reports: int) -> float:  # noqa: ARG002
        """Return the standard error of the sum in units of the range.

        A number also scatters by its rounding to bits: at most half a step per person.
        """
        bits = self.resolution
        flips = (
            float(protocols.noise.Noise.flips(self.flip_probability).standard_error(reports * bits))
            / bits
        )
        return math.hypot(flips, math.sqrt(reports) / (2.0 * bits))

    def influence(self, question: Question, slots: int) -> float:  # noqa: ARG002
        """Return how many ranges one report can move the sum by."""
        steps = self.thermometer
        return slots / float(steps.noise.slope) / steps.resolution

    @property
    def thermometer(self) -> Thermometer:
        """Return the bits as steps, each with the noise of its flip."""
        return Thermometer(
            self.resolution, self.together, protocols.noise.Noise.flips(self.flip_probability)
        )

    def draw_tallies(
        self,
        question: Question,  # noqa: ARG002
        truth: Truth,
        runs: int,
        draws: Draws,
        places: Places,
    ) -> Counts:
        """Draw the rounding of every number, which gives the set bits per position; flip them."""
        ones = protocols.noise.draw_thermometer(self.resolution, truth, runs, draws)
        flip = float(self.flip_probability)
        if self.together:
            total = ones.sum(axis=1, keepdims=True)
            return protocols.noise.flip_counts(total, self.resolution * truth.people, flip, draws)
        return protocols.noise.flip_counts(ones[:, places], truth.people, flip, draws)

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:
        """Return every resolution within the messages; steps are seen only where asked for."""
        steps = isinstance(question, Number) and question.quantiles
        least = _FEWEST_STEPS if steps else 1
        fitting = [bits for bits in _RESOLUTIONS if least <= bits <= max(most_messages, least)]
        return [_variant(bits, together=not steps) for bits in fitting]

    @classmethod
    def local_variant(cls, question: Question) -> Variant | None:
        """Return the fewest bits that answer the question; they share the epsilon."""
        steps = isinstance(question, Number) and question.quantiles
        bits = _FEWEST_STEPS if steps else 1

        def make(setting: Setting, epsilon: float) -> Encoded:  # noqa: ARG001
            return Encoded(
                protocols.tuning.flip_for_local(epsilon / bits), bits, together=not steps
            )

        return Variant("local", make)

    @property
    def name(self) -> str:
        """Return the name with the resolution and what is seen."""
        return _name(self.resolution, together=self.together)

    def sentence(self) -> str:
        """Return what a device does."""
        flip = float(self.flip_probability)
        return (
            f"the number becomes {self.resolution} bits, each flipped with probability {flip:.3g}"
        )


def _name(resolution: int, *, together: bool) -> str:
    return f"number in {resolution} bits, {'total' if together else 'steps'} seen"


def _variant(resolution: int, *, together: bool) -> Variant:
    """Return a number in so many bits."""

    def make(setting: Setting, mu: float) -> Encoded:
        return Encoded(
            protocols.tuning.flip_for_shift(mu, setting.crowd, resolution), resolution, together
        )

    return Variant(_name(resolution, together=together), make)
