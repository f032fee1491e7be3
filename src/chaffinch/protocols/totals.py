"""Totals: one party that may see the answers adds them up, and adds noise to what it releases.

Nothing is sent: there are no messages, no shuffler, and nothing is hidden from whoever adds up.
What is protected is the release, whose view is ``totals``. A plan for devices never takes this
protocol; a run of a table that somebody holds does (``chaffinch run``), because the noise of
devices would protect nobody there from whoever holds the table anyway.

Numbers are added up in whole numbers: each as a multiple of 2⁻⁴⁰ of its range, rounded to the
nearest. Only their sum is then rounded to ``resolution`` steps of the range: one person still moves
it by at most ``resolution``, and rounding costs half a step of a sum whose noise has hundreds. For
quantiles every number is rounded by chance to a step, and every step counts who is above it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from chaffinch import privacy, protocols, sampling
from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.protocols.base import (
    TOTALS,
    EncodingSeconds,
    Protocol,
    Reading,
    Setting,
    Thermometer,
    Variant,
    answer_labels,
    round_by_chance,
)
from chaffinch.questions import Number, Question
from chaffinch.sampling import Words
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.protocols.joint import JointNoise
    from chaffinch.protocols.noise import Draws, Places, TotalsNoise, Truth

_FINE = 40
"""Numbers are added up in multiples of 2⁻⁴⁰ of their range: thousands fit into 64 bits."""
_HALF = _FINE // 2
_STEPS_OF_NOISE = 256
"""So many steps make a standard deviation of a sum, if that many are allowed."""
_MOST_STEPS = 1000
_MOST_LEVELS = 512
"""The most steps that are told one by one, for quantiles."""
_NAMES = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}


@dataclass(frozen=True)
class Totals(Protocol):
    """Totals with noise of one ``law`` and ``scale``, which is what is drawn exactly.

    ``resolution`` is in how many steps of its range a sum of numbers is told; not ``together`` are
    these told one by one, for quantiles.
    """

    law: str
    scale: Fraction
    resolution: int | None = None
    together: bool = True

    kind: ClassVar[str] = "totals"
    view: ClassVar[str] = TOTALS
    shapes: ClassVar[tuple[str, ...]] = ("bit", "choice", "flags", "number")
    seconds: ClassVar[EncodingSeconds] = EncodingSeconds(0.0, 0.0, 2e-8, 0.0)
    clear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.choice("law", self.law, tuple(_NAMES))
        privacy.NoisyTotals(law=self.law, scale=self.scale)
        if self.resolution is not None:
            checks.whole("resolution", self.resolution, least=1, most=_MOST_STEPS)
        if not isinstance(self.together, bool):
            raise InvalidInput("together", "true or false", self.together)

    def check(self, question: Question) -> None:
        """Refuse steps of anything but a number, and steps that a question does not ask for."""
        super().check(question)
        if (question.shape == "number") != (self.resolution is not None):
            rule = "given for numbers and only there"
            raise InvalidInput("resolution", rule, self.resolution)
        if self.together == _asks_for_quantiles(question):
            rule = "false where quantiles are asked for, and only there"
            raise InvalidInput("together", rule, self.together)

    def labels(self, question: Question) -> tuple[str, ...]:
        """Return the names of what is counted: yes, the values, the flags, the total or steps."""
        if isinstance(question, Number):
            if self.together or self.resolution is None:
                return ("total",)
            width = (question.high - question.low) / self.resolution
            return tuple(f"{question.low + step * width:g}" for step in range(self.resolution))
        return ("yes",) if question.shape == "bit" else answer_labels(question)

    # -------------------------------------------------------------------- what is added up

    def add_up(self, question: Question, answers: NDArray[Any], words: Words) -> Counts:
        """Return the exact counts of many answers, and of numbers the sum in 2⁻⁴⁰ of the range."""
        if question.shape == "choice":
            held: Counts = np.bincount(
                np.asarray(answers, np.int64), minlength=self.codes(question)
            )
            return held
        if self.resolution is None:
            return np.asarray(np.asarray(answers, np.int64).reshape(len(answers), -1).sum(axis=0))
        if self.together:
            shares = np.asarray(answers, np.float64)
            if not ((shares >= 0) & (shares <= 1)).all():
                raise InvalidInput("answers", "from 0 to 1", Unquoted("others"))
            fine = np.rint(shares * (1 << _FINE)).astype(np.int64)
            # Upper and lower bits apart: a sum over millions of people has no room in 64 bits.
            upper, lower = int((fine >> _HALF).sum()), int((fine & ((1 << _HALF) - 1)).sum())
            return np.array([(upper << _HALF) + lower], dtype=object)
        # Who is above a step is above all before it.
        steps = round_by_chance(answers, self.resolution, words)
        above = np.bincount(steps, minlength=self.resolution + 1)
        return np.cumsum(above[:0:-1])[::-1].astype(np.int64)

    def add_noise(self, question: Question, sums: Counts, words: Words) -> Counts:
        """Return what is released of exact sums: everybody's answers with fresh noise, once."""
        draw = {"laplace": sampling.discrete_laplace, "gaussian": sampling.discrete_gaussian}
        exact = sums.tolist()
        if question.shape == "number" and self.together:
            # To the nearest step. A sum of at most one range more is so many steps more at most.
            steps, half = self.resolution or 1, 1 << (_FINE - 1)
            exact = [(one * steps + half) >> _FINE for one in exact]
        return np.array(exact, np.int64) + draw[self.law](words, self.scale, len(exact))

    # -------------------------------------------------------------------- what is sent: nothing

    def report_slots(self, question: Question) -> int:  # noqa: ARG002
        """Return 0: nothing is sent."""
        return 0

    def expected_messages(self, question: Question) -> float:  # noqa: ARG002
        """Return 0: nothing is sent."""
        return 0.0

    def influence(self, question: Question, slots: int) -> float:  # noqa: ARG002
        """Return 1: a row of a table moves a count by one person, or a sum by one range."""
        return 1.0

    def encode_one(self, question: Question, answer: Any, words: Words) -> NoReturn:
        """Refuse: a device has nothing to send."""
        del question, answer, words
        raise _nothing_to_send()

    def encode_many(self, question: Question, answers: NDArray[Any], words: Words) -> NoReturn:
        """Refuse: devices have nothing to send."""
        del question, answers, words
        raise _nothing_to_send()

    # -------------------------------------------------------------------- what it is worth

    def mechanism(self, question: Question, users: int) -> privacy.NoisyTotals:  # noqa: ARG002
        """Return totals of which one person moves some, however many people there are."""
        counts, steps = _moved(question, self.resolution)
        return privacy.NoisyTotals(law=self.law, scale=self.scale, counts=counts, steps=steps)

    def noise(self, question: Question) -> TotalsNoise:
        """Return the law of one total."""
        whole = question.shape == "number" and self.together
        return protocols.noise.TotalsNoise(self.law, self.scale, whole=whole)

    @property
    def thermometer(self) -> Thermometer:
        """Return the steps of a number, whose noise is drawn once for each of them, or for all."""
        if self.resolution is None:
            raise InvalidInput("protocol", "one for numbers", self.kind)
        terms = 1 if self.together else self.resolution
        one = protocols.noise.TotalsNoise(self.law, self.scale, whole=self.together)
        of_sum = protocols.noise.TotalsNoise(self.law, self.scale, terms, whole=self.together)
        return Thermometer(self.resolution, self.together, one, of_sum)

    def standard_error(self, question: Question, reports: int) -> float:
        """Return the standard error of a count, or of a sum in units of the range."""
        if self.resolution is None:
            return float(self.noise(question).standard_error(reports))
        noise = self.thermometer.of_sum
        spread = float(noise.standard_error(reports)) ** 2 + noise.rounding_variance(reports)
        return math.sqrt(spread) / self.resolution

    def read(self, question: Question, counts: Counts, reports: int) -> Reading:  # noqa: ARG002
        """Return the totals as they are."""
        return Reading(counts, self.noise(question))

    def joint(self, question: Question, counts: Counts, reports: int) -> JointNoise:  # noqa: ARG002
        """Return the law of totals, each with noise of its own."""
        if self.law == "laplace":
            return protocols.joint.SignedTogether(math.exp(-1 / self.scale), 1.0)
        return protocols.joint.GaussianTogether(float(self.scale), self.noise(question).one)

    def draw_tallies(
        self, question: Question, truth: Truth, runs: int, draws: Draws, places: Places
    ) -> Counts:
        """Draw totals of many collections of the same people."""
        if self.resolution is None:
            exact = truth.held(len(self.labels(question)))[places]
        elif self.together:
            exact = np.array([round(truth.mean * truth.people * self.resolution)])
        else:
            exact = protocols.noise.draw_thermometer(self.resolution, truth, runs, draws)
            exact = exact[:, places]
        noise = self.noise(question).draw((runs, exact.shape[-1]), draws)
        return np.asarray(exact + noise)

    # -------------------------------------------------------------------- for planner and people

    @classmethod
    def variants(cls, question: Question, most_messages: int) -> Sequence[Variant]:  # noqa: ARG003
        """Return the two laws of noise."""
        return [_variant(law) for law in _NAMES]

    @property
    def name(self) -> str:
        """Return the name with the law of the noise."""
        return f"totals, {_NAMES[self.law]}"

    def sentence(self) -> str:
        """Return what whoever adds up does."""
        what = "the answers are added up"
        if self.resolution is not None:
            what = f"the numbers are added up in steps of 1/{self.resolution:,} of the range"
            if not self.together:
                what = f"it is counted how many numbers are above each of {self.resolution} steps"
        noise = f"{_NAMES[self.law]} noise of scale {float(self.scale):.4g}"
        return f"{what}, and {noise} is added to every total, once"


def _asks_for_quantiles(question: Question) -> bool:
    return isinstance(question, Number) and question.quantiles


def _nothing_to_send() -> InvalidInput:
    return InvalidInput(
        "plan",
        "one for devices",
        Unquoted("one for totals, of which nothing is sent"),
        hint="whoever holds the table runs it: `chaffinch run` (chaffinch.run); for devices plan "
        "again without a view",
    )


def _moved(question: Question, resolution: int | None) -> tuple[int, int]:
    """Return how many totals one person moves, and by how much each."""
    if question.shape == "number":
        most = resolution or 1
        return (most, 1) if _asks_for_quantiles(question) else (1, most)
    ways = {"bit": 1, "choice": 2}
    return ways.get(question.shape) or len(answer_labels(question)), 1


def _variant(law: str) -> Variant:
    """Return totals with noise of this law."""

    def make(setting: Setting, mu: float) -> Totals:
        """Return the protocol in which one person moves totals by mu standard deviations."""
        question, resolution = setting.question, None
        if question.shape == "number":
            resolution = min(_MOST_STEPS, 1 << max(0, math.ceil(math.log2(_STEPS_OF_NOISE * mu))))
        together = not _asks_for_quantiles(question)
        if not together:
            resolution = protocols.tuning.steps_for_quantiles(mu, setting.crowd, _MOST_LEVELS)
        counts, steps = _moved(question, resolution)
        spread = math.sqrt(counts) * steps / mu
        # The standard deviation of discrete Laplace noise is 1/(√2·sinh(1/2b)).
        scale = spread if law == "gaussian" else 0.5 / math.asinh(1.0 / (math.sqrt(2.0) * spread))
        # Up: to more noise.
        return Totals(law, Fraction(math.ceil(scale * 2**20), 2**20), resolution, together)

    return Variant(f"totals, {_NAMES[law]}", make)
