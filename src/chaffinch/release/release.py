"""A release: the public result, with everything needed to judge it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import chaffinch
from chaffinch.errors import InvalidInput
from chaffinch.planning.plan import Plan
from chaffinch.privacy import Guarantee
from chaffinch.protocols.noise import Floats
from chaffinch.wire.messages import Counts

if TYPE_CHECKING:
    from pathlib import Path

    from chaffinch.wire.messages import Tally

FORMAT = "chaffinch/release@1"


class Row(NamedTuple):
    """One line of a release: an estimate and its interval."""

    question: str
    value: str
    estimate: float
    standard_error: float | None
    """None for a quantile, which has a bracket only."""
    low: float
    high: float
    low_together: float
    """With ``high_together``: intervals that hold for all values of the question at once."""
    high_together: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of a number besides its mean."""

    unit: str
    total: float
    quantiles: tuple[tuple[float, float, float, float], ...]
    """(probability, lower end, estimate, upper end), all brackets holding together."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a release says about one question."""

    question: str
    labels: tuple[str, ...]
    tallies: Counts
    estimates: Floats
    standard_errors: Floats
    low: Floats
    high: Floats
    low_together: Floats
    high_together: Floats
    notes: tuple[str, ...] = ()
    summary: Summary | None = None

    def rows(self) -> Iterator[Row]:
        """Yield one row for each value."""
        columns = (self.estimates, *self._spans)
        for label, *numbers in zip(self.labels, *(c.tolist() for c in columns), strict=True):
            yield Row(self.question, label, *numbers)

    def summary_rows(self, reports: int) -> Iterator[Row]:
        """Yield the sum of a number, which is the mean times all, and its quantiles."""
        if self.summary is None:
            return
        from chaffinch.charts.estimates import quantile_name

        spans = (reports * float(column[0]) for column in self._spans)
        yield Row(self.question, "sum", self.summary.total, *spans)
        for chance, low, middle, high in self.summary.quantiles:
            yield Row(self.question, quantile_name(chance), middle, None, low, high, low, high)

    @property
    def _spans(self) -> tuple[Floats, ...]:
        """Return the columns of a row after the estimate."""
        ends = (self.low, self.high, self.low_together, self.high_together)
        return (self.standard_errors, *ends)


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """The public result of one collection."""

    plan_id: str
    title: str
    guarantee: Guarantee
    rounds: int
    reports: int
    batch: str
    """The random name of the batch: two collections never share it, even with equal counts."""
    level: float
    version: str
    answers: tuple[Answer, ...]

    @classmethod
    def of(cls, plan: Plan, tally: Tally, level: float, answers: Sequence[Answer]) -> Release:
        """Return the release of a tally under its plan."""
        return cls(
            plan_id=plan.id,
            title=plan.title,
            guarantee=plan.guarantee,
            rounds=plan.rounds,
            reports=tally.reports,
            batch=tally.batch,
            level=level,
            version=chaffinch.__version__,
            answers=tuple(answers),
        )

    def answer(self, question: str | None = None) -> Answer:
        """Return the answer to the question of that name, or to the only one."""
        for answer in self.answers:
            if question == answer.question or (question is None and len(self.answers) == 1):
                return answer
        names = ", ".join(repr(answer.question) for answer in self.answers)
        raise InvalidInput("name of a question", f"one of {names}", question)

    def table(self) -> list[Row]:
        """Return all rows: question, value, estimate, standard error and both intervals.

        A number has a row for its mean, one for its sum, and one for each quantile.
        """
        return [
            row
            for answer in self.answers
            for row in (*answer.rows(), *answer.summary_rows(self.reports))
        ]

    def document(self) -> dict[str, Any]:
        """Return the release as JSON-ready data; an infinite local epsilon is ``"infinite"``."""
        return {
            "format": FORMAT,
            "plan": self.plan_id,
            "title": self.title,
            "version": self.version,
            "guarantee": guarantee_fields(self.guarantee),
            "rounds": self.rounds,
            "reports": self.reports,
            "batch": self.batch,
            "level": self.level,
            "questions": [_document(answer) for answer in self.answers],
        }

    def save(self, path: str | Path) -> None:
        """Write the release; the suffix says how: .json, .csv, .parquet or .html."""
        from chaffinch.release.survey_files import save_release

        save_release(self, path)

    def __eq__(self, other: object) -> bool:
        # Arrays have no equality of their own; the document holds everything.
        if not isinstance(other, Release):
            return NotImplemented
        return self.document() == other.document()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        from chaffinch.release.survey_text import text

        return text(self)

    def _repr_html_(self) -> str:
        from chaffinch.release.survey_page import summary

        return summary(self)


_GUARANTEE = ("epsilon", "delta", "neighbours", "view", "crowd", "local_epsilon", "method")
_PROMISED = attrgetter(*_GUARANTEE)


def guarantee_fields(promise: Guarantee) -> dict[str, Any]:
    """Return a promise as JSON-ready data."""
    return {
        name: "infinite" if value == math.inf else value
        for name, value in zip(_GUARANTEE, _PROMISED(promise), strict=True)
    }


def _document(answer: Answer) -> dict[str, Any]:
    document: dict[str, Any] = {
        "question": answer.question,
        "tallies": answer.tallies.tolist(),
        "values": [
            {name: value for name, value in row._asdict().items() if name != "question"}
            for row in answer.rows()
        ],
        "notes": list(answer.notes),
    }
    if answer.summary is not None:
        document["unit"] = answer.summary.unit
        document["sum"] = answer.summary.total
        document["quantiles"] = [
            dict(zip(("probability", "low", "estimate", "high"), one, strict=True))
            for one in answer.summary.quantiles
        ]
    return document
