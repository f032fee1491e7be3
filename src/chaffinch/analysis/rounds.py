"""One question in one release of a trend: estimates, and intervals that miss with any chance.

Counts become shares of the reports. With the plan of the release the law of its noise is known,
and intervals are those that a release would have; without it they follow from the standard errors
(see ``differences``). Means of those who answered a number are quotients of two noisy numbers: the
law of their difference is not known even then. While both of two intervals hold, so does the one
from the lower end of one to the upper end of the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from chaffinch.analysis.answered import Answerers, answered_mean
from chaffinch.analysis.differences import EstimateError, UnknownError, error_of, half_widths
from chaffinch.analysis.number_estimates import Scale, mean_ends
from chaffinch.errors import InvalidInput
from chaffinch.plans.expansion import COUNT_SHARE, counts_gaps
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols.base import number_question
from chaffinch.protocols.intervals import two_sided
from chaffinch.protocols.noise import Floats, TallyNoise
from chaffinch.release.surveys import Answer, Release
from chaffinch.wire.batches import Counts

Ends = tuple[Floats, Floats]


@dataclass(frozen=True)
class RoundAnswer:
    """What one release says about one question, with its plan where that is known."""

    answer: Answer
    reports: int
    in_clear: bool
    """Whether anything was sent in clear, as far as the release tells."""
    plan: Plan | None

    @classmethod
    def of(cls, release: Release, question: str, plan: Plan | None) -> RoundAnswer:
        """Return the answer to a question."""
        in_clear = math.isinf(release.guarantee.local_epsilon)
        return cls(release.answer(question), release.reports, in_clear, plan)

    @property
    def measured(self) -> bool:
        """Return whether it is a mean, in its own unit, and not shares."""
        return self.answer.summary is not None

    @property
    def size(self) -> float:
        """Return what counts are divided by."""
        return 1.0 if self.measured else float(self.reports)

    @property
    def bounds(self) -> tuple[float, float]:
        """Return between which numbers the truth is, as far as the release tells."""
        return (-math.inf, math.inf) if self.measured else (0.0, 1.0)

    @property
    def estimates(self) -> Floats:
        """Return a share for each value, or a mean."""
        return self.answer.estimates / self.size

    @property
    def standard_errors(self) -> Floats:
        """Return their standard errors."""
        return self.answer.standard_errors / self.size

    @property
    def released(self) -> Ends:
        """Return the intervals of the release, each of which holds by itself."""
        return self.answer.low / self.size, self.answer.high / self.size

    def ends(self, chance: float) -> Ends:
        """Return intervals that each miss with a chance of at most ``chance``."""
        if self.plan is None:
            errors = [self.error(place) for place in range(len(self.answer.labels))]
            far = np.array([half_widths(None, one, chance) for one in errors if one is not None])
            # Where an estimate is too high by as much as it can be, the truth is so far below it.
            low, high = self.estimates - far[:, 0], self.estimates + far[:, 1]
        elif not self.measured:
            found = two_sided(self._noise, self.answer.tallies, self.reports, chance)
            low, high = (one / self.reports for one in found)
        elif self._answered is None:
            total = self.answer.tallies.sum(keepdims=True)
            low, high = mean_ends(self._scale, total, self.reports, chance)
        else:
            low, high = self._answered_ends(self._answered, chance)
        return np.clip(low, *self.bounds), np.clip(high, *self.bounds)

    def error(self, place: int) -> EstimateError | None:
        """Return the error of one estimate; None where it is no sum of what is known."""
        if self.plan is None:
            error = float(self.standard_errors[place])
            people = None if self.measured else self.reports
            return UnknownError(error, people, flipped=not self.in_clear)
        if not self.measured:
            return error_of(self._noise, self.reports, 1.0 / self.reports)
        if self._answered is not None:
            return None
        scale = self._scale
        step = (scale.high - scale.low) / (scale.resolution * self.reports)
        trials = scale.resolution * self.reports
        return error_of(scale.noise, trials, step, rounding=self.reports * step**2)

    # ------------------------------------------------------------------ from the plan

    @cached_property
    def _part(self) -> Part:
        assert self.plan is not None  # noqa: S101 - asked for with a plan only
        part = self.plan.part(self.answer.question)
        if not self.measured and len(self.answer.tallies) != len(part.labels):
            raise InvalidInput("release", "one of its plan", "another number of tallies")
        return part

    @cached_property
    def _answered(self) -> Part | None:
        """Return the part of the plan that counts who answered a number, if one does."""
        assert self.plan is not None  # noqa: S101 - asked for with a plan only
        if not counts_gaps(self._part.question):
            return None
        return self.plan.parts[self.plan.parts.index(self._part) + 1]

    @cached_property
    def _noise(self) -> TallyNoise:
        return _noise_given(self._part, self.answer.tallies, self.reports)

    @cached_property
    def _scale(self) -> Scale:
        question, steps = number_question(self._part.question), self._part.protocol.thermometer
        return Scale(question.low, question.high, steps.resolution, steps.noise)

    def _answered_ends(self, answered: Part, chance: float) -> Ends:
        # Behind the tallies of the number stand those of who answered, the last one that of yes.
        bits = self._scale.resolution if not self._part.protocol.thermometer.together else 1
        number, rest = self.answer.tallies[:bits], self.answer.tallies[bits:]
        noise = _noise_given(answered, rest, self.reports)
        people = Answerers.of(noise, rest[-1:], self.reports, chance * COUNT_SHARE)
        return answered_mean(self._scale, number.sum(keepdims=True), people, chance).mean_ends


def _noise_given(part: Part, tallies: Counts, reports: int) -> TallyNoise:
    """Return the law of the tallies of a release."""
    law = part.protocol.noise(part.question)
    if isinstance(law, TallyNoise):
        return law
    # That of decoys depends on how many arrived, which the tallies tell.
    return part.protocol.read(part.question, tallies, reports).noise


def change_ends(first: RoundAnswer, last: RoundAnswer, chance: float) -> Ends:
    """Return how the values have changed: intervals that each miss with ``chance`` at most."""
    moved = last.estimates - first.estimates
    pairs = [(first.error(place), last.error(place)) for place in range(len(moved))]
    far = [half_widths(*pair, chance) for pair in pairs if pair[1] is not None]
    if len(far) < len(pairs) or any(before is None for before, _ in pairs):
        # A hair less than half: the chance may have been rounded up by a division.
        before, after = (one.ends(0.5 * chance * (1 - 1e-12)) for one in (first, last))
        return after[0] - before[1], after[1] - before[0]
    up, down = np.array(far).T
    low, high = first.bounds
    most = (low - high, high - low)
    return np.clip(moved - up, *most), np.clip(moved + down, *most)
