"""The release of a survey: its data, its document, and what it says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
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
from chaffinch import cards
from chaffinch.charts.rounding import (
    decimal_places,
    error_text,
    lower_text,
    nearest_text,
    quantile_name,
    upper_text,
)
from chaffinch.plans.plan import Plan
from chaffinch.plans.protected_units import Unit, weakest_unit
from chaffinch.privacy import Guarantee
from chaffinch.protocols.noise import Floats
from chaffinch.questions import MISSING
from chaffinch.release.crossed import Crossed, CrossedForm
from chaffinch.release.publication import Publication, question_sections
from chaffinch.release.release_document import (
    Amount,
    Count,
    GuaranteeForm,
    Real,
    ReleaseFormat,
    Text,
    countable,
)
from chaffinch.release.statement import Section, Statement
from chaffinch.release.survey_statement import (
    ANSWERED,
    DEVIATION,
    counted_unit,
    release_statement,
)
from chaffinch.wire.batches import Counts
from chaffinch.wire.document_forms import Form, Hex64, Listed, Many, Written

if TYPE_CHECKING:
    from chaffinch.wire.messages import Tally

_SHARES = "parts of 1"

_SHOWN = 20
"""Values of an answer in a notebook; the table has all of them."""
_OF_ANSWER = (
    "Low and high are the ends of the interval of each value by itself. The release has the level, "
    "the guarantee and everything else."
)


class ReleaseRow(NamedTuple):
    """One row of the table of a release: an estimate and its interval."""

    question: str
    kind: str
    """count, share, mean, standard deviation, answered, sum, quantile, or margin."""
    group: str
    """Of whom it is, such as ``carrier = AA``: a public group, or one of a cross; or empty."""
    answer: str
    """The answer that is counted; empty for what is said of a number, and how many answered it."""
    value: str
    """The name of the row, which no other row of the question has."""
    estimate: float
    standard_error: float | None
    """None for a quantile, and for a share where missing answers are counted: these have a bracket
    only."""
    low: float
    high: float
    low_together: float
    """With ``high_together``: intervals that hold for all values of the question at once."""
    high_together: float
    unit: str
    """people, rows, reports, the unit of a number, or ``parts of 1`` for a share."""


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
    within: tuple[float, float] | None = None
    """The range that was asked for; releases of before do not say it."""
    deviation: Span | None = None
    """The standard deviation, where it was asked for."""


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

    def table(self, reports: int, counted: str) -> list[ReleaseRow]:
        """Return all rows, means before what they are means of; ``counted`` is what counts count.

        The sum of a number is the mean times all ``reports``, or times those who answered.
        """
        rows = [*self.rows(counted), *self.summary_rows(reports, counted)]
        return sorted([*rows, *self._derived_rows(counted)], key=lambda row: row.kind != "mean")

    def rows(self, counted: str = "people") -> Iterator[ReleaseRow]:
        """Yield one row for each value."""
        kind, unit = ("count", counted) if self.summary is None else ("mean", self.summary.unit)
        for whose, (label, *numbers) in zip(self._counted(), self.columns(), strict=True):
            yield ReleaseRow._make((self.question, kind, *whose, label, *numbers, unit))

    def columns(self) -> Iterator[tuple[Any, ...]]:
        """Yield each value, its estimate, its error, and the ends of both intervals."""
        numbers = (column.tolist() for column in (self.estimates, *self._spans))
        return zip(self.labels, *numbers, strict=True)

    def summary_rows(self, reports: int, counted: str = "people") -> Iterator[ReleaseRow]:
        """Yield what is said of a number besides its mean, or the shares of those who answered."""
        for share in self.shares:
            value, estimate, *ends = share
            named = (self.question, "share", "", value, _share_name(share))
            yield ReleaseRow._make((*named, estimate, None, *ends, _SHARES))
        if self.summary is None:
            return
        unit, answered = self.summary.unit, self.summary.answered
        if (deviation := self.summary.deviation) is not None:
            named = (self.question, DEVIATION, "", "", DEVIATION)
            yield ReleaseRow._make((*named, *deviation, *deviation[2:], unit))
        if answered is None:
            spans = (reports * float(column[0]) for column in self._spans)
            yield ReleaseRow._make(
                (self.question, "sum", "", "", "sum", self.summary.total, *spans, unit)
            )
        else:
            people, total = answered
            yield ReleaseRow._make(
                (self.question, "answered", "", "", ANSWERED, *people, *people[2:], counted)
            )
            yield ReleaseRow._make((self.question, "sum", "", "", "sum", *total, *total[2:], unit))
        for chance, low, middle, high in self.summary.quantiles:
            named = (self.question, "quantile", "", "", quantile_name(chance))
            yield ReleaseRow._make((*named, middle, None, low, high, low, high, unit))

    def _derived_rows(self, counted: str) -> Iterator[ReleaseRow]:
        """Yield what follows from the cells of a crossed question: margins, shares, means."""
        if self.crossed is None:
            return
        units = {"margin": counted, "share": _SHARES, "mean": self.crossed.unit}
        for one in self.crossed.rows:
            whose = self.crossed.group_name(one.given), "" if one.kind == "mean" else one.value
            name = self.crossed.row_name(one)
            yield ReleaseRow._make(
                (self.question, one.kind, *whose, name, *one.numbers, units[one.kind])
            )

    def _counted(self) -> Iterator[tuple[str, str]]:
        """Yield of each value the group and the answer in it."""
        if self.crossed is not None:
            for *given, answer in itertools.product(*self.crossed.axes):
                yield self.crossed.group_name(given), answer
        else:
            yield from (("", "" if self.summary else label) for label in self.labels)

    def _repr_html_(self) -> str:
        errors = self.standard_errors[self.standard_errors > 0]
        least = float(errors.min()) if len(errors) else 0.0
        digits = decimal_places(least, counted=self.summary is None)
        columns = (self.estimates, self.standard_errors, self.low, self.high)
        rows = [
            [
                label,
                nearest_text(estimate, digits),
                error_text(error),
                lower_text(low, digits),
                upper_text(high, digits),
            ]
            for label, estimate, error, low, high in zip(
                self.labels[:_SHOWN], *(column[:_SHOWN].tolist() for column in columns), strict=True
            )
        ]
        left_out = f"The first {_SHOWN} of {len(self.labels):,} values."
        return cards.card(
            self.question,
            cards.table(["value", "estimate", "standard error", "low", "high"], rows),
            notes=[left_out * (len(self.labels) > _SHOWN), _OF_ANSWER, *self.notes],
        )

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
    earlier: tuple[str, ...] = ()
    """The digests of the earlier ones; files of before do not say them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(Publication):
    """The public result of one collection."""

    _row: ClassVar = ReleaseRow
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
    published_by: str = ""
    """The analyzer, by the name that the plan gives it; empty where no parties are named."""
    made_on: date | None = None
    """The day in UTC on which one party made it; None where it may be made again from a tally."""
    digest: str = ""
    """The digest of what was counted, by which a later release of the same data names this one;
    empty where no record of releases is kept, and in files of before."""

    @classmethod
    def of(cls, plan: Plan, tally: Tally, level: float, answers: Sequence[Answer]) -> Release:
        """Return the release of a tally under its plan."""
        return cls(
            plan_id=plan.id,
            title=plan.title,
            guarantee=plan.promise.within_local,
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
            published_by="" if plan.parties is None else plan.parties.analyzer.name,
        )

    @property
    def of_totals(self) -> bool:
        """Return whether the noise was added to totals, once, and not to every answer."""
        return self.guarantee.view == "totals"

    def answer(self, question: str | None = None) -> Answer:
        """Return the answer to the question of that name, or to the only one."""
        return self._named(question, {answer.question: answer for answer in self.answers})

    def table(self) -> list[ReleaseRow]:
        """Return all rows, each with its kind, its group, its estimate and both intervals.

        A number has a row for its mean, one for its sum, and, where these were asked for, for its
        standard deviation and for each quantile. Where missing
        answers are counted, there are also shares of those who answered, and a count of them. A
        crossed question has its cells first, then margins and shares of groups; one about a number
        has the means of groups before them. Files and frames have the same rows.
        """
        counted = counted_unit(self)
        rows = [row for one in self.answers for row in one.table(self.reports, counted)]
        if self.group is None:
            return rows
        name, value = self.group
        public = f"{name} = {value}"
        return [
            row._replace(group=f"{public} and {row.group}" if row.group else public) for row in rows
        ]

    def document(self) -> dict[str, Any]:
        """Return the release as JSON-ready data; an infinite local epsilon is ``"infinite"``."""
        return ReleaseDocument.document(self)

    @property
    def promise(self) -> Guarantee:
        """Return what holds for a person, of all releases of the same data together."""
        return self.guarantee if self.together is None else self.together.guarantee

    @property
    def promised_unit(self) -> Unit:
        """Return what is protected, by this release and the earlier ones of the same data."""
        return self.unit if self.together is None else weakest_unit([self.unit, self.together.unit])

    def statement(self) -> Statement:
        """Return what the release says, in sentences and rows."""
        return release_statement(self)

    def _charted(self, statement: Statement) -> Mapping[str, Section]:
        return question_sections((answer.question for answer in self.answers), statement)

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


def _values_document(rows: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return the values of a question at once: there may be a hundred thousand."""
    return [dict(zip(ValueForm.model_fields, row, strict=True)) for row in rows]


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
    within: Annotated[
        Annotated[tuple[Real, ...], Listed(at_least=2, at_most=2)] | None, Field(alias="range")
    ] = None
    answered: Annotated[Answered, AnsweredForm.written()] | None = None
    standard_deviation: Annotated[Span, SpanForm.written()] | None = None
    shares: Annotated[tuple[Annotated[Share, ShareForm.written()], ...], Listed(at_least=1)] = ()
    crossed: Annotated[Crossed, CrossedForm.written()] | None = None

    def _range(self) -> tuple[float, float] | None:
        return None if self.within is None else (self.within[0], self.within[1])

    @classmethod
    def describe(cls, described: Any) -> AnswerForm:
        """Return the form of an answer: a value for each row of its columns."""
        told: dict[str, Any] = {}
        if described.summary is not None:
            told = {
                "unit": described.summary.unit,
                "sum": described.summary.total,
                "quantiles": described.summary.quantiles,
                "within": described.summary.within,
                "answered": described.summary.answered,
                "standard_deviation": described.summary.deviation,
            }
        return cls.model_construct(
            question=described.question,
            tallies=described.tallies.tolist(),
            values=[*described.columns()],
            notes=described.notes,
            shares=described.shares,
            crossed=described.crossed,
            **told,
        )

    def build(self) -> Answer:
        """Return the answer."""
        summary = None
        if self.sum is not None:
            summary = Summary(
                self.unit or "",
                self.sum,
                self.quantiles or (),
                self.answered,
                self._range(),
                self.standard_deviation,
            )

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
    earlier: Many[Hex64] = ()


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
    digest: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    level: Annotated[float, Field(gt=0, lt=1)]
    trust: Text = ""
    published_by: Text = ""
    made_on: Annotated[date, Written(str, date.fromisoformat, str)] | None = None
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
    known = release.together
    if known is not None and known.earlier and len(known.earlier) != known.releases - 1:
        yield f"{len(known.earlier)} earlier releases named of {known.releases - 1}"
    for answer in release.answers:
        quantiles = answer.summary.quantiles if answer.summary else ()
        answered = answer.summary.answered if answer.summary else None
        deviations = [answer.summary.deviation] if answer.summary else []
        spans = [
            *zip(answer.low, answer.high, strict=True),
            *zip(answer.low_together, answer.high_together, strict=True),
            *((low, high) for _, low, _, high in quantiles),
            *_together_spans(answer),
            *((one.low, one.high) for one in answer.shares),
            *((one.low_together, one.high_together) for one in answer.shares),
            *((one.low, one.high) for one in answered or ()),
            *((one.low, one.high) for one in deviations if one is not None),
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
    if summary.within is not None and not summary.within[0] < summary.within[1]:
        yield "a range that ends before it begins"
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
