"""Releases read back from JSON, checked field by field so that all faults show at once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NoReturn, TypeVar

import numpy as np
from pydantic import (
    AfterValidator,
    Field,
    FiniteFloat,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from chaffinch.disk.files import read_small
from chaffinch.errors import ChaffinchError, InvalidFile
from chaffinch.privacy import Guarantee
from chaffinch.protocols.noise import Floats
from chaffinch.release import surveys
from chaffinch.release.crossed import Crossed, Derived
from chaffinch.release.publication import Publication
from chaffinch.release.surveys import Answer, Answered, Release, Share, Span, Summary, Together
from chaffinch.wire.documents import Hex64, Strict, faults_of, unique_keys

_LARGEST_FILE = 1 << 30
_LARGEST_NUMBER = 1e280
# Releases of a reach are read in reach.release, above this room: only their format is known here.
_OTHERS = {
    surveys.FORMAT: "this is the release of a survey: use chaffinch.load_release",
    "chaffinch/reach-release@1": "this is the release of a reach: use chaffinch.reach.load_release",
}
_VERSION = "a release of another version needs the chaffinch that wrote it"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must hold no control characters and no halves of characters")
    return text


def _countable(number: int) -> int:
    # Beyond this a number is no float any more, and nobody has so many of anything.
    if number >= 2**63:
        raise ValueError("must be below 2^63")
    return number


def _moderate(number: float) -> float:
    # Sums of such numbers, and their products with any count, are still finite.
    if abs(number) > _LARGEST_NUMBER:
        raise ValueError(f"must lie within ±{_LARGEST_NUMBER:g}")
    return number


Text = Annotated[str, AfterValidator(_printable)]
Real = Annotated[FiniteFloat, AfterValidator(_moderate)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(_moderate)]
Count = Annotated[int, Field(ge=1), AfterValidator(_countable)]


class ValueModel(Strict):
    """One estimate with its standard error and both intervals."""

    value: Text
    estimate: Real
    standard_error: Amount
    low: Real
    high: Real
    low_together: Real
    high_together: Real


class QuantileModel(Strict):
    """One quantile in its bracket."""

    probability: Annotated[float, Field(ge=0, le=1)]
    low: Real
    estimate: Real
    high: Real


class DerivedModel(Strict):
    """A margin, or a share or a mean of a group, from the cells of a crossed question.

    A share or a mean is that of those who answered, unless it says that it is of all.
    """

    kind: Literal["margin", "share", "mean"]
    question: Text
    value: Text
    given: list[Text]
    estimate: Real
    standard_error: Amount
    low: Real
    high: Real
    low_together: Real
    high_together: Real
    of: Literal["all"] | None = None

    def build(self) -> Derived:
        """Return the row."""
        return Derived(**dict(self) | {"given": tuple(self.given)})


class AxisModel(Strict):
    """One of the questions that are crossed, and its answers."""

    question: Text
    values: Annotated[list[Text], Field(min_length=1)]


class CrossedModel(Strict):
    """What follows from the cells of a crossed question, which are in the order of the product."""

    questions: Annotated[list[AxisModel], Field(min_length=2)]
    unit: Text
    derived: list[DerivedModel]
    unknown: list[list[Text]]

    def build(self) -> Crossed:
        """Return what follows."""
        return Crossed(
            questions=tuple(one.question for one in self.questions),
            axes=tuple(tuple(one.values) for one in self.questions),
            rows=tuple(one.build() for one in self.derived),
            unknown=tuple(map(tuple, self.unknown)),
            unit=self.unit,
        )


class ShareModel(Strict):
    """A share of those who answered, or of all for those who did not."""

    value: Text
    estimate: Real
    low: Real
    high: Real
    low_together: Real
    high_together: Real


class SpanModel(Strict):
    """An estimate with its error and an interval."""

    estimate: Real
    standard_error: Amount
    low: Real
    high: Real

    def build(self) -> Span:
        """Return the estimate."""
        return Span(**dict(self))


class AnsweredModel(Strict):
    """How many people answered a number, and the sum of their numbers."""

    people: SpanModel
    total: SpanModel


class AnswerModel(Strict):
    """What is said about one question; a number has also a unit, a sum and quantiles.

    Where missing answers are counted, a number says of how many people these are, and others
    have shares of those who answered.
    """

    question: Text
    # Plus minus minus may be below zero.
    tallies: list[Annotated[int, Field(gt=-(2**63), lt=2**63)]]
    values: Annotated[list[ValueModel], Field(min_length=1)]
    notes: list[Text]
    unit: Text | None = None
    sum: Real | None = None
    quantiles: list[QuantileModel] | None = None
    crossed: CrossedModel | None = None
    answered: AnsweredModel | None = None
    shares: Annotated[list[ShareModel], Field(min_length=1)] | None = None

    def build(self) -> Answer:
        """Return the answer."""
        summary = None
        if self.sum is not None:
            brackets = tuple(
                (one.probability, one.low, one.estimate, one.high) for one in self.quantiles or ()
            )
            answered = None
            if self.answered is not None:
                answered = Answered(self.answered.people.build(), self.answered.total.build())
            summary = Summary(self.unit or "", self.sum, brackets, answered)

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
            notes=tuple(self.notes),
            summary=summary,
            crossed=None if self.crossed is None else self.crossed.build(),
            shares=tuple(Share(**dict(one)) for one in self.shares or ()),
        )


class GuaranteeModel(Strict):
    """The promise, with everything it depends on."""

    epsilon: Amount
    delta: Annotated[float, Field(ge=0, le=1)]
    neighbours: Text
    view: Text
    crowd: Text
    local_epsilon: Amount | Literal["infinite"]
    method: Literal["exact", "upper-bound", "worst-pair-assumed", "monte-carlo", "published"]

    def build(self) -> Guarantee:
        """Return the guarantee."""
        return Guarantee(**dict(self) | {"local_epsilon": float_of(self.local_epsilon)})


class TogetherModel(Strict):
    """What several releases of the same data promise together."""

    releases: Annotated[int, Field(ge=2), AfterValidator(_countable)]
    guarantee: GuaranteeModel
    unit: Literal["row"] | None = None

    def build(self) -> Together:
        """Return the promise."""
        return Together(self.releases, self.guarantee.build(), self.unit or "person")


class ReleaseModel(Strict):
    """A release file."""

    format: Literal["chaffinch/release@1"]
    plan: Hex64
    title: Text
    version: Text
    guarantee: GuaranteeModel
    together: TogetherModel | None = None
    contributions: Annotated[int, Field(ge=2)] | None = None
    unit: Literal["person", "row"] | None = None
    public_group: Annotated[list[Text], Field(min_length=2, max_length=2)] | None = None
    rounds: Count
    round: Count | None = None
    reports: Count
    batch: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")]
    level: Annotated[float, Field(gt=0, lt=1)]
    one_party: Annotated[bool, Field(strict=True)] = False
    trust: Text = ""
    rows_were_drawn: Annotated[bool, Field(strict=True)] = False
    questions: Annotated[list[AnswerModel], Field(min_length=1)]

    @field_validator("round")
    @classmethod
    def _of_these_rounds(cls, number: int | None, known: ValidationInfo) -> int | None:
        if number is not None and number > known.data.get("rounds", number):
            raise ValueError("must be one of the rounds")
        return number

    def build(self) -> Release:
        """Return the release."""
        return Release(
            plan_id=self.plan,
            title=self.title,
            guarantee=self.guarantee.build(),
            rounds=self.rounds,
            round=self.round,
            reports=self.reports,
            batch=self.batch,
            level=self.level,
            version=self.version,
            answers=tuple(one.build() for one in self.questions),
            together=None if self.together is None else self.together.build(),
            one_party=self.one_party,
            trust=self.trust,
            rows_were_drawn=self.rows_were_drawn,
            contributions=self.contributions or 1,
            unit=self.unit or "report",
            group=None if self.public_group is None else (*self.public_group,),  # type: ignore[arg-type]
        )


# ---------------------------------------------------------------------- reading

_Made = TypeVar("_Made", bound=Publication)


@dataclass(frozen=True)
class ReleaseForm(Generic[_Made]):
    """One kind of release files: its format, what is built of one, what none of them can say."""

    name: str
    build: Callable[[dict[str, Any]], _Made]
    contradictions: Callable[[_Made], Iterator[str]]

    @property
    def _rule(self) -> str:
        return f"a release in the format {self.name}"

    def load(self, path: str | Path) -> _Made:
        """Return the release in a file; refuse one of another format or with any fault."""
        text = read_small(path, most=_LARGEST_FILE, must_be=self._rule)
        return self.read(text, name=Path(path).name)

    def read(self, text: str | bytes, *, name: str = "release") -> _Made:
        """Return the release in a text, or raise one error with everything that is wrong."""
        document = self._document(text, name)
        try:
            release = self.build(document)
            # What was left out, or is there in part, would come back different.
            changed = release.document() != document
        except ValidationError as fault:
            raise InvalidFile(f"file {name}", self._rule, faults_of(fault)) from None
        except (ChaffinchError, ArithmeticError, ValueError) as fault:
            raise InvalidFile(f"file {name}", self._rule, [str(fault).splitlines()[0]]) from None
        found = self.contradictions(release)
        faults = [f"a document that contradicts itself: {one}" for one in found]
        if changed and not faults:
            faults = ["a document that contradicts itself"]
        if faults:
            raise InvalidFile(f"file {name}", self._rule, faults)
        return release

    def _document(self, text: str | bytes, name: str) -> dict[str, Any]:
        try:
            document = json.loads(text, parse_constant=_refuse_word, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError):
            raise InvalidFile(f"file {name}", self._rule, ["no JSON document"]) from None
        found = document.get("format") if isinstance(document, dict) else None
        if found != self.name:
            hint = _OTHERS.get(found, _VERSION) if isinstance(found, str) else ""
            raise InvalidFile(f"file {name}", self._rule, [f"format {found!r:.80}"], hint=hint)
        return dict(document)


def load_release(path: str | Path) -> Release:
    """Return the release in a JSON file; refuse one of another format or with any fault.

    That it is the release of a plan cannot be seen from the file: compare ``plan_id``.
    """
    return _FORM.load(path)


def read_release(text: str | bytes, *, name: str = "release") -> Release:
    """Return the release in a text."""
    return _FORM.read(text, name=name)


def release_schema() -> dict[str, Any]:
    """Return the JSON Schema of release files."""
    return ReleaseModel.model_json_schema()


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


def float_of(value: float | Literal["infinite"]) -> float:
    """Return a number that JSON may have had to call "infinite"."""
    return math.inf if value == "infinite" else float(value)


def _refuse_word(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


_FORM = ReleaseForm(
    surveys.FORMAT,
    lambda document: ReleaseModel.model_validate(document).build(),
    _survey_faults,
)
