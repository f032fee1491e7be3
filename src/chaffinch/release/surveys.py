"""The release of a survey: its data, its document, and what it says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import (
    AfterValidator,
    FailFast,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_validator,
)

import chaffinch
from chaffinch.charts.rounding import quantile_name
from chaffinch.errors import InvalidInput
from chaffinch.plans.plan import Plan
from chaffinch.plans.protected_units import Unit, weakest_unit
from chaffinch.privacy import Guarantee
from chaffinch.protocols.noise import Floats
from chaffinch.questions import MISSING
from chaffinch.release.crossed import Crossed, CrossedForm
from chaffinch.release.export import TableColumns
from chaffinch.release.publication import Publication
from chaffinch.release.release_document import (
    Amount,
    Count,
    GuaranteeForm,
    Real,
    ReleaseFormat,
    Text,
    countable,
)
from chaffinch.release.statement import Statement
from chaffinch.release.survey_statement import ANSWERED, release_statement
from chaffinch.wire.batches import Counts
from chaffinch.wire.document_forms import Form, Hex64, Listed, Many, Written

if TYPE_CHECKING:
    from chaffinch.wire.messages import Tally


class _Row(NamedTuple):
    """One line of a release: an estimate and its interval."""

    question: str
    value: str
    estimate: float
    standard_error: float | None
    """None for a quantile or a share, which have a bracket only."""
    low: float
    high: float
    low_together: float
    """With ``high_together``: intervals that hold for all values of the question at once."""
    high_together: float


class Share(NamedTuple):
    """Which share of those who answered holds a value; of all, for those who did not answer."""

    value: str
    estimate: float
    low: float
    high: float
    low_together: float
    high_together: float


class Span(NamedTuple):
    """An estimate with its error and an interval."""

    estimate: float
    standard_error: float
    low: float
    high: float


class Answered(NamedTuple):
    """What is known of those who answered a number, where missing answers are counted."""

    people: Span
    """How many they are."""
    total: Span
    """The sum of their numbers."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of a number besides its mean."""

    unit: str
    total: float
    quantiles: tuple[tuple[float, float, float, float], ...]
    """(probability, lower end, estimate, upper end), all brackets holding together."""
    answered: Answered | None = None
    """Mean, sum and quantiles are those of these people, if there are any."""


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
    crossed: Crossed | None = None
    """What follows from the cells of a crossed question."""
    shares: tuple[Share, ...] = ()
    """Where missing answers are counted: shares of those who answered, and of those who did not."""

    def rows(self) -> Iterator[_Row]:
        """Yield one row for each value."""
        columns = (self.estimates, *self._spans)
        for label, *numbers in zip(self.labels, *(c.tolist() for c in columns), strict=True):
            yield _Row(self.question, label, *numbers)

    def summary_rows(self, reports: int) -> Iterator[_Row]:
        """Yield the sum of a number and its quantiles, or the shares of those who answered.

        The sum is the mean times all, or times those who answered: then their count is there too.
        """
        for share in self.shares:
            _, estimate, *ends = share
            yield _Row(self.question, _share_name(share), estimate, None, *ends)
        if self.summary is None:
            return
        if self.summary.answered is None:
            spans = (reports * float(column[0]) for column in self._spans)
            yield _Row(self.question, "sum", self.summary.total, *spans)
        else:
            for name, span in zip((ANSWERED, "sum"), self.summary.answered, strict=True):
                yield _Row(self.question, name, *span, *span[2:])
        for chance, low, middle, high in self.summary.quantiles:
            yield _Row(self.question, quantile_name(chance), middle, None, low, high, low, high)

    def derived_rows(self) -> Iterator[_Row]:
        """Yield what follows from the cells of a crossed question: margins, shares, means."""
        if self.crossed is not None:
            for one in self.crossed.rows:
                yield _Row(self.question, self.crossed.row_name(one), *one.numbers)

    @property
    def _spans(self) -> tuple[Floats, ...]:
        """Return the columns of a row after the estimate."""
        ends = (self.low, self.high, self.low_together, self.high_together)
        return (self.standard_errors, *ends)


@dataclass(frozen=True, slots=True)
class Together:
    """What a release and earlier ones of the same data promise together."""

    releases: int
    """How many they are, this one among them."""
    guarantee: Guarantee
    unit: Unit = "person"
    """What all of them protect: rows, where one of them promised no more."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(Publication):
    """The public result of one collection."""

    _columns: ClassVar = TableColumns(
        _Row._fields, texts=2, gaps=("standard_error",), repeated=("question",)
    )
    _detail: ClassVar = "questions"

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
    together: Together | None = None
    """Where the same data were released before: what is promised for all of it."""
    one_party: bool = False
    """Whether one party held all answers, added the noise and counted, as in ``chaffinch run``."""
    contributions: int = 1
    """How many reports each person sent."""
    unit: Unit = "report"
    """What is protected: a report, a person, or a row of a table of which one may have several."""
    trust: str = ""
    """What is counted on of the parties that the plan names, as a sentence."""
    rows_were_drawn: bool = False
    """Whether a person's reports are rows drawn from all that the person has in a table."""
    group: tuple[str, str] | None = None
    """The public group whose answers these are, by question and value; it is not protected."""
    round: int | None = None
    """Which round of its plan it is; None where there is only one, and in files of before."""

    @classmethod
    def of(cls, plan: Plan, tally: Tally, level: float, answers: Sequence[Answer]) -> Release:
        """Return the release of a tally under its plan."""
        return cls(
            plan_id=plan.id,
            title=plan.title,
            guarantee=plan.guarantee,
            rounds=plan.rounds,
            reports=tally.present,
            batch=tally.name,
            level=level,
            version=chaffinch.__version__,
            answers=tuple(answers),
            contributions=plan.contributions,
            trust=plan.trust,
            group=None if plan.group is None else (plan.group.name, str(plan.group.value)),
            round=tally.round if plan.rounds > 1 else None,
        )

    def answer(self, question: str | None = None) -> Answer:
        """Return the answer to the question of that name, or to the only one."""
        for answer in self.answers:
            if question == answer.question or (question is None and len(self.answers) == 1):
                return answer
        names = ", ".join(repr(answer.question) for answer in self.answers)
        raise InvalidInput("name of a question", f"one of {names}", question)

    def table(self) -> list[_Row]:
        """Return all rows: question, value, estimate, standard error and both intervals.

        A number has a row for its mean, one for its sum, and one for each quantile. Where missing
        answers are counted, there are also shares of those who answered, and a count of them. A
        crossed question has its cells first, then margins, then shares or means of groups.
        """
        return [
            row
            for answer in self.answers
            for row in (
                *answer.rows(),
                *answer.summary_rows(self.reports),
                *answer.derived_rows(),
            )
        ]

    def document(self) -> dict[str, Any]:
        """Return the release as JSON-ready data; an infinite local epsilon is ``"infinite"``."""
        return ReleaseDocument.document(self)

    @property
    def promised_unit(self) -> Unit:
        """Return what is protected, by this release and the earlier ones of the same data."""
        return self.unit if self.together is None else weakest_unit([self.unit, self.together.unit])

    def statement(self) -> Statement:
        """Return what the release says, in sentences and rows."""
        return release_statement(self)

    def __eq__(self, other: object) -> bool:
        # Arrays have no equality of their own; the document holds everything.
        if not isinstance(other, Release):
            return NotImplemented
        return self.document() == other.document()

    __hash__ = None  # type: ignore[assignment]


def _share_name(share: Share) -> str:
    """Return what files call a share."""
    return f"{share.value}, share of {'all' if share.value == MISSING else 'answers'}"


# ---------------------------------------------------------------------- as a document


class ValueForm(Form):
    """One estimate with its standard error and both intervals."""

    value: Text
    estimate: Real
    standard_error: Amount
    low: Real
    high: Real
    low_together: Real
    high_together: Real


def _values_document(rows: Iterable[_Row]) -> list[dict[str, Any]]:
    """Return the values of a question at once: there may be a hundred thousand."""
    return [{name: getattr(row, name) for name in ValueForm.model_fields} for row in rows]


class QuantileForm(Form):
    """One quantile in its bracket."""

    probability: Annotated[float, Field(ge=0, le=1)]
    low: Real
    estimate: Real
    high: Real


_Quantile = Annotated[tuple[float, float, float, float], QuantileForm.as_tuple()]


class ShareForm(Form):
    """A share of those who answered, or of all for those who did not."""

    makes = Share

    value: Text
    estimate: Real
    low: Real
    high: Real
    low_together: Real
    high_together: Real


class SpanForm(Form):
    """An estimate with its error and an interval."""

    makes = Span

    estimate: Real
    standard_error: Amount
    low: Real
    high: Real


class AnsweredForm(Form):
    """How many people answered a number, and the sum of their numbers."""

    makes = Answered

    people: Annotated[Span, SpanForm.written()]
    total: Annotated[Span, SpanForm.written()]


class AnswerForm(Form):
    """What is said about one question; a number has also a unit, a sum and quantiles.

    Where missing answers are counted, a number says of how many people these are, and others
    have shares of those who answered.
    """

    question: Text
    # Plus minus minus may be below zero.
    tallies: Annotated[list[Annotated[int, Field(gt=-(2**63), lt=2**63)]], FailFast()]
    values: Annotated[list[ValueForm], Field(min_length=1), PlainSerializer(_values_document)]
    notes: Many[Text]
    unit: Text | None = None
    sum: Real | None = None
    quantiles: Many[_Quantile] | None = None
    answered: Annotated[Answered, AnsweredForm.written()] | None = None
    shares: Annotated[tuple[Annotated[Share, ShareForm.written()], ...], Listed(at_least=1)] = ()
    crossed: Annotated[Crossed, CrossedForm.written()] | None = None

    @classmethod
    def describe(cls, described: Any) -> AnswerForm:
        """Return the form of an answer: a value for each row of its columns."""
        told: dict[str, Any] = {}
        if described.summary is not None:
            told = {
                "unit": described.summary.unit,
                "sum": described.summary.total,
                "quantiles": described.summary.quantiles,
                "answered": described.summary.answered,
            }
        return cls.model_construct(
            question=described.question,
            tallies=described.tallies.tolist(),
            values=[*described.rows()],
            notes=described.notes,
            shares=described.shares,
            crossed=described.crossed,
            **told,
        )

    def build(self) -> Answer:
        """Return the answer."""
        summary = None
        if self.sum is not None:
            summary = Summary(self.unit or "", self.sum, self.quantiles or (), self.answered)

        def column(name: str) -> Floats:
            return np.array([getattr(one, name) for one in self.values], dtype=np.float64)

        return Answer(
            question=self.question,
            labels=tuple(one.value for one in self.values),
            tallies=np.array(self.tallies, dtype=np.int64),
            estimates=column("estimate"),
            standard_errors=column("standard_error"),
            low=column("low"),
            high=column("high"),
            low_together=column("low_together"),
            high_together=column("high_together"),
            notes=self.notes,
            summary=summary,
            crossed=self.crossed,
            shares=self.shares,
        )


class TogetherForm(Form):
    """What several releases of the same data promise together."""

    makes = Together

    releases: Annotated[int, Field(ge=2), AfterValidator(countable)]
    guarantee: Annotated[Guarantee, GuaranteeForm.written()]
    unit: Annotated[Unit, Written(Literal["row"])] = "person"


class ReleaseDocument(Form):
    """A release file."""

    makes = Release

    format: Literal["chaffinch/release@1"]
    plan_id: Annotated[Hex64, Field(alias="plan")]
    title: Text
    version: Text
    guarantee: Annotated[Guarantee, GuaranteeForm.written()]
    together: Annotated[Together, TogetherForm.written()] | None = None
    contributions: Annotated[int, Field(ge=2)] = 1
    unit: Annotated[Unit, Written(Literal["person", "row"])] = "report"
    group: Annotated[
        Annotated[tuple[Text, ...], Listed(at_least=2, at_most=2)] | None,
        Field(alias="public_group"),
    ] = None
    rounds: Count
    round: Count | None = None
    reports: Count
    batch: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")]
    level: Annotated[float, Field(gt=0, lt=1)]
    trust: Text = ""
    one_party: bool = False
    rows_were_drawn: bool = False
    answers: Annotated[
        tuple[Annotated[Answer, AnswerForm.written()], ...],
        Listed(at_least=1),
        Field(alias="questions"),
    ]

    @field_validator("round")
    @classmethod
    def _of_these_rounds(cls, number: int | None, known: ValidationInfo) -> int | None:
        if number is not None and number > known.data.get("rounds", number):
            raise ValueError("must be one of the rounds")
        return number


def load_release(path: str | Path) -> Release:
    """Return the release in a JSON file; refuse one of another format or with any fault.

    That it is the release of a plan cannot be seen from the file: compare ``plan_id``.
    """
    return _FORMAT.load(path)


def read_release(text: str | bytes, *, name: str = "release") -> Release:
    """Return the release in a text."""
    return _FORMAT.read(text, name=name)


def release_schema() -> dict[str, Any]:
    """Return the JSON Schema of release files."""
    return ReleaseDocument.model_json_schema()


def _survey_faults(release: Release) -> Iterator[str]:
    """Yield what no release of a survey can say."""
    names = [answer.question for answer in release.answers]
    if len(set(names)) < len(names):
        yield "two questions of one name"
    for answer in release.answers:
        quantiles = answer.summary.quantiles if answer.summary else ()
        answered = answer.summary.answered if answer.summary else None
        spans = [
            *zip(answer.low, answer.high, strict=True),
            *zip(answer.low_together, answer.high_together, strict=True),
            *((low, high) for _, low, _, high in quantiles),
            *_together_spans(answer),
            *((one.low, one.high) for one in answer.shares),
            *((one.low_together, one.high_together) for one in answer.shares),
            *((one.low, one.high) for one in answered or ()),
        ]
        if any(low > high for low, high in spans):
            yield "an interval that ends before it begins"
        if answer.summary is None and len(answer.tallies) != len(answer.labels):
            yield f"{len(answer.tallies)} tallies for {len(answer.labels)} values"
        if answer.crossed is not None:
            yield from _cross_faults(answer, answer.crossed)
        if answer.summary is not None:
            yield from _number_faults(answer, answer.summary, release.reports)


def _together_spans(answer: Answer) -> Iterator[tuple[float, float]]:
    for one in answer.crossed.rows if answer.crossed else ():
        yield one.low, one.high
        yield one.low_together, one.high_together


def _cross_faults(answer: Answer, crossed: Crossed) -> Iterator[str]:
    cells = math.prod(map(len, crossed.axes))
    if cells != len(answer.labels):
        yield f"{cells} cells for {len(answer.labels)} values"
    if any(len(one.given) not in (0, len(crossed.axes) - 1) for one in crossed.rows):
        yield "a group that is none"
    if any(one.of and not one.of_all for one in crossed.rows):
        yield "a share of all that is one of those who answered"


def _number_faults(answer: Answer, summary: Summary, reports: int) -> Iterator[str]:
    if len(answer.labels) != 1:
        yield f"a number with {len(answer.labels)} means"
    elif summary.answered is not None:
        if summary.total != summary.answered.total.estimate:
            yield "two sums"
    elif not math.isclose(summary.total, reports * float(answer.estimates[0]), rel_tol=1e-9):
        yield "a sum that is not the mean times the reports"


_FORMAT: ReleaseFormat[Release] = ReleaseFormat(
    "chaffinch/release@1",
    lambda document: ReleaseDocument.model_validate(document).build(),
    _survey_faults,
)
