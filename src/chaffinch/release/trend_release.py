"""A repeated survey: its releases side by side, what has changed, and what all of it promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from chaffinch.charts.rounding import decimal_places, percent_text, promise_text
from chaffinch.plans.protected_units import ROWS_ONLY, Unit
from chaffinch.privacy import Guarantee
from chaffinch.questions import BETWEEN
from chaffinch.release.headlines import change_headline
from chaffinch.release.publication import Publication, question_sections
from chaffinch.release.release_document import (
    Amount,
    Count,
    GuaranteeForm,
    Real,
    ReleaseFormat,
    Text,
)
from chaffinch.release.statement import (
    Course,
    Line,
    Section,
    Statement,
    guarantee_terms,
    promise_sentence,
    promise_warnings,
)
from chaffinch.wire.document_forms import Form, Listed, Many

_PERCENT = 100.0
_GUESS = "which of two sets of answers someone gave"


class TrendRow(NamedTuple):
    """One estimate of a round, or one change from a round to another."""

    question: str
    value: str
    round: str
    until: str
    """The round that is compared with the first one; empty for an estimate."""
    estimate: float
    standard_error: float
    low: float
    high: float
    low_together: float
    """With ``high_together``: intervals that hold for all estimates, or all changes, at once."""
    high_together: float


class Round(NamedTuple):
    """One release of the survey."""

    name: str
    plan_id: str
    batch: str
    reports: int
    guarantee: Guarantee


@dataclass(frozen=True, slots=True)
class TrendAnswer:
    """What became of the answers to one question."""

    question: str
    labels: tuple[str, ...]
    unit: str | None
    """That of a number, whose mean is shown; None where shares of the reports are."""
    estimates: tuple[TrendRow, ...]
    changes: tuple[TrendRow, ...]
    of_answers: bool = False
    """Whether shares are of those who answered in a group, and not of all reports."""


@dataclass(frozen=True, slots=True)
class Trend(Publication):
    """Several releases of a repeated survey; it follows from them and costs no privacy."""

    _row: ClassVar = TrendRow
    _detail: ClassVar = "questions"

    title: str
    guarantee: Guarantee
    """What somebody has who took part in every round."""
    rounds: tuple[Round, ...]
    level: float
    version: str
    answers: tuple[TrendAnswer, ...]
    left_out: tuple[str, ...] = ()
    """Questions that not every release asks in the same way."""
    protects: Unit = "person"
    """What all releases promise to protect: a person, or no more than a row of a table."""
    laws_known: bool | None = False
    """Whether the plans of all releases were given, so that the law of their noise is known; None
    where nobody knows any more, as no file says it."""

    def table(self) -> list[TrendRow]:
        """Return all rows; shares are parts of 1."""
        return [row for answer in self.answers for row in (*answer.estimates, *answer.changes)]

    def document(self) -> dict[str, Any]:
        """Return the trend as JSON-ready data."""
        return TrendDocument.document(self)

    def statement(self) -> Statement:
        """Return what the trend says, in sentences and rows."""
        return _trend_statement(self)

    def _charted(self, statement: Statement) -> Mapping[str, Section]:
        return question_sections((answer.question for answer in self.answers), statement)


# ---------------------------------------------------------------------- files


class RoundForm(Form):
    """One release of the survey."""

    makes = Round

    name: Text
    plan_id: Annotated[Text, Field(alias="plan")]
    batch: Text
    reports: Count
    guarantee: Annotated[Guarantee, GuaranteeForm.written()]


class RowForm(Form):
    """An estimate, or a change; the question stands above it."""

    makes = dict

    value: Text
    round: Text
    until: Text = ""
    estimate: Real
    standard_error: Amount
    low: Real
    high: Real
    low_together: Real
    high_together: Real


class TrendAnswerForm(Form):
    """What became of the answers to one question."""

    leaves_out_defaults = False

    question: Text
    unit: Text | None
    estimates: Annotated[tuple[Annotated[Any, RowForm.written()], ...], Listed(at_least=1)]
    changes: Many[Annotated[Any, RowForm.written()]]
    of_answers: bool = False

    def build(self) -> TrendAnswer:
        """Return the answer, whose values are those of its estimates."""
        estimates, changes = (
            tuple(TrendRow(question=self.question, **one) for one in some)
            for some in (self.estimates, self.changes)
        )
        labels = tuple(dict.fromkeys(row.value for row in estimates))
        return TrendAnswer(self.question, labels, self.unit, estimates, changes, self.of_answers)


class TrendDocument(Form):
    """A file of a trend."""

    makes = Trend
    leaves_out_defaults = False

    format: Literal["chaffinch/trend@1"]
    title: Text
    version: Text
    guarantee: Annotated[Guarantee, GuaranteeForm.written()]
    protects: Unit
    rounds: Annotated[tuple[Annotated[Round, RoundForm.written()], ...], Listed(at_least=2)]
    level: Annotated[float, Field(gt=0, lt=1)]
    left_out: Many[Text]
    answers: Annotated[
        tuple[Annotated[TrendAnswer, TrendAnswerForm.written()], ...],
        Listed(at_least=1),
        Field(alias="questions"),
    ]

    def build(self) -> Trend:
        """Return the trend; whether all plans were given when it was made, no file says."""
        return Trend(**self.attributes(), laws_known=None)


def load_trend(path: str | Path) -> Trend:
    """Return the trend in a JSON file; refuse one of another format or with any fault."""
    return _FORMAT.load(path)


def _trend_faults(trend: Trend) -> Iterator[str]:
    """Yield what no trend can say."""
    names = [one.name for one in trend.rounds]
    if len(set(names)) < len(names):
        yield "two rounds of one name"
    questions = [answer.question for answer in trend.answers]
    if len(set(questions)) < len(questions):
        yield "two questions of one name"
    for answer in trend.answers:
        expected = [(label, name, "") for label in answer.labels for name in names]
        if [(row.value, row.round, row.until) for row in answer.estimates] != expected:
            yield "estimates that are not one of each value in each round"
        if not all(
            {row.round, row.until} <= {*names} and row.value in answer.labels
            for row in answer.changes
        ):
            yield "a change between rounds, or of a value, that there is not"
    if any(row.low > row.high or row.low_together > row.high_together for row in trend.table()):
        yield "an interval that ends before it begins"


_FORMAT: ReleaseFormat[Trend] = ReleaseFormat(
    "chaffinch/trend@1",
    lambda document: TrendDocument.model_validate(document).build(),
    _trend_faults,
)


# ---------------------------------------------------------------------- what a trend says


_PROTECTED: dict[Unit, str] = {
    "person": "all answers of one person who took part in {}",
    "report": "all answers of one person who took part in {}, with one report in each",
    "row": "one row's answers in each of {1} releases",
}


def _all_of(releases: int) -> str:
    return "both releases" if releases == 2 else f"all {releases:,} releases"


def _trend_statement(trend: Trend) -> Statement:
    count = len(trend.rounds)
    unit = _PROTECTED[trend.protects].format(_all_of(count), count)
    left_out = ", ".join(trend.left_out)
    return Statement(
        title=f"{trend.title or 'A repeated survey'}: {count} releases",
        byline=(f"{trend.rounds[0].name} to {trend.rounds[-1].name}",),
        warnings=promise_warnings(trend.guarantee, guess=_GUESS),
        odds=trend.guarantee.odds,
        promise=promise_sentence(trend.guarantee, guess=_GUESS, seen=_all_of(count)),
        covers=f"The promise covers {unit}.",
        trust=_one_round_sentence(trend),
        guarantee=str(trend.guarantee),
        terms=tuple(guarantee_terms(trend.guarantee, unit=unit)),
        level=trend.level,
        legend=(
            "s.e. is one standard error; low and high are the ends of an interval that holds with "
            f"probability {percent_text(trend.level)} for each row by itself."
        ),
        sections=tuple(_sections(trend)),
        notes=(
            *((ROWS_ONLY,) if trend.protects == "row" else ()),
            *_LAWS[trend.laws_known],
            *((f"Not the same in all releases, and left out: {left_out}.",) if left_out else ()),
        ),
        reading=_reading_advice(trend),
        facts=(
            *((one.name, f"batch {one.batch} of plan {one.plan_id}") for one in trend.rounds),
            ("Level", percent_text(trend.level)),
            ("Made with", f"chaffinch {trend.version}"),
        ),
    )


def _one_round_sentence(trend: Trend) -> str:
    worst = max(trend.rounds, key=lambda one: one.guarantee.epsilon).guarantee
    delta = max(one.guarantee.delta for one in trend.rounds)
    return (
        "What is in a single release is protected by the promise of that release: at "
        f"worst ({promise_text(worst.epsilon, 6)}, {promise_text(delta, 3)}). What each promise "
        "counts on stands in its release."
    )


_WIDER = (
    "intervals are wider than they need be, and those of means of who answered, and of groups, "
    "hold with about their level. With all plans they follow from the laws themselves."
)
_GIVEN_NOT = "The plan of some release was not given, so the law of its noise is not known here:"
_GIVEN_UNSAID = "The file does not say whether the plans of all releases were given. If not,"
_LAWS: dict[bool | None, tuple[str, ...]] = {
    True: (),
    False: (f"{_GIVEN_NOT} {_WIDER}",),
    None: (f"{_GIVEN_UNSAID} {_WIDER}",),
}


def _reading_advice(trend: Trend) -> tuple[str, ...]:
    level = percent_text(trend.level)
    return (
        (
            "A change is the difference of two estimates. Its error comes from the chance that "
            "was added on purpose in both rounds, which is independent; it does not cover who "
            "took part, so other people in another one may answer differently for no reason."
        ),
        (
            f"The {level} interval of a change holds the truth with at least that probability, if "
            "you had it in mind before looking. For changes picked out because they are the "
            "largest or a surprise, use the interval for all together: with a probability of at "
            f"least {level}, all changes of the question lie in theirs at once."
        ),
        "A change whose interval holds 0 may be no change at all.",
        "Shares are parts of the reports of their own release, whose number may differ.",
    )


def _sections(trend: Trend) -> Iterator[Section]:
    sizes = ", ".join(f"{one.reports:,} in {one.name}" for one in trend.rounds)
    for number, answer in enumerate(trend.answers, 1):
        scale = _PERCENT if answer.unit is None else 1.0
        unit = _whose(answer) if answer.unit is None else answer.unit
        points = "percentage points" if answer.unit is None else answer.unit
        yield Section(
            name=f"question-{number}",
            heading=answer.question,
            caption=_caption(unit, f"reports: {sizes}"),
            label="value, release",
            rows=tuple(_lines(answer.estimates, scale)),
            unit=unit,
            counted=False,
            notes=_cell_notes(answer),
            courses=tuple(_courses(answer, scale)),
        )
        yield Section(
            name=f"question-{number}-changes",
            heading=f"{answer.question}: what has changed",
            caption=_caption(points, _compared(len(trend.rounds))),
            label="value, releases",
            rows=tuple(_lines(answer.changes, scale)),
            unit=points,
            counted=False,
            headline=change_headline(tuple(_lines(answer.changes, scale)), points),
        )


def _whose(answer: TrendAnswer) -> str:
    return f"percent of {'those who answered' if answer.of_answers else 'the reports'}"


def _cell_notes(answer: TrendAnswer) -> tuple[str, ...]:
    """Return what the rows of a crossed question are, which has no other labels."""
    if answer.unit is not None or not all(BETWEEN in label for label in answer.labels):
        return ()
    words = (
        f"“{answer.labels[0]}” is a cell: those who gave each of these answers. Where one is a "
        "number, it was rounded by chance to one of a few levels, which does not move its mean."
    )
    return (words,)


def _compared(releases: int) -> str:
    if releases == 2:
        return "the second release less the first"
    return "each release less the one before, and the last less the first"


def _caption(unit: str, more: str) -> str:
    return f"in {unit}; {more}" if unit else more


def _lines(rows: Sequence[TrendRow], scale: float) -> Iterator[Line]:
    errors = [row.standard_error * scale for row in rows if row.standard_error > 0]
    digits = decimal_places(min(errors, default=0.0))
    for row in rows:
        label = f"{row.value}, {row.round}" + f" → {row.until}" * bool(row.until)
        yield Line(
            label,
            row.estimate * scale,
            row.standard_error * scale,
            (row.low * scale, row.high * scale),
            (row.low_together * scale, row.high_together * scale),
            digits,
        )


def _courses(answer: TrendAnswer, scale: float) -> Iterator[Course]:
    for label in answer.labels:
        rows = [row for row in answer.estimates if row.value == label]
        yield Course(
            label,
            tuple(row.round for row in rows),
            tuple(row.estimate * scale for row in rows),
            tuple((row.low_together * scale, row.high_together * scale) for row in rows),
        )
