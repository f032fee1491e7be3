"""Releases read back from JSON, checked field by field so that all faults show at once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from chaffinch.errors import InvalidFile
from chaffinch.files import read_small
from chaffinch.privacy import Guarantee
from chaffinch.release.release import FORMAT, Answer, Release, Summary
from chaffinch.wire.documents import faults_of

LARGEST_FILE = 1 << 30
_RULE = f"a release in the format {FORMAT}"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must hold no control characters and no halves of characters")
    return text


Text = Annotated[str, AfterValidator(_printable)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """A model that knows its fields and takes no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ValueModel(Strict):
    """One estimate with its standard error and both intervals."""

    value: Text
    estimate: FiniteFloat
    standard_error: Amount
    low: FiniteFloat
    high: FiniteFloat
    low_together: FiniteFloat
    high_together: FiniteFloat


class QuantileModel(Strict):
    """One quantile in its bracket."""

    probability: Annotated[float, Field(ge=0, le=1)]
    low: FiniteFloat
    estimate: FiniteFloat
    high: FiniteFloat


class AnswerModel(Strict):
    """What is said about one question; a number has also a unit, a sum and quantiles."""

    question: Text
    tallies: list[Annotated[int, Field(ge=0, lt=2**63)]]
    values: Annotated[list[ValueModel], Field(min_length=1)]
    notes: list[Text]
    unit: Text | None = None
    sum: FiniteFloat | None = None
    quantiles: list[QuantileModel] | None = None

    def build(self) -> Answer:
        """Return the answer."""
        summary = None
        if self.sum is not None:
            spread = tuple(
                (one.probability, one.low, one.estimate, one.high) for one in self.quantiles or ()
            )
            summary = Summary(self.unit or "", self.sum, spread)
        return Answer(
            question=self.question,
            labels=tuple(one.value for one in self.values),
            tallies=np.array(self.tallies, dtype=np.int64),
            estimates=np.array([float(one.estimate) for one in self.values]),
            standard_errors=np.array([float(one.standard_error) for one in self.values]),
            low=np.array([float(one.low) for one in self.values]),
            high=np.array([float(one.high) for one in self.values]),
            low_together=np.array([float(one.low_together) for one in self.values]),
            high_together=np.array([float(one.high_together) for one in self.values]),
            notes=tuple(self.notes),
            summary=summary,
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
        local = self.local_epsilon
        fields = dict(self)
        return Guarantee(**fields | {"local_epsilon": math.inf if local == "infinite" else local})


class ReleaseModel(Strict):
    """A release file."""

    format: Literal["chaffinch/release@1"]
    plan: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    title: Text
    version: Text
    guarantee: GuaranteeModel
    rounds: Count
    reports: Count
    batch: Annotated[str, Field(pattern=r"^([0-9a-f]{32})?$")]
    level: Annotated[float, Field(gt=0, lt=1)]
    questions: Annotated[list[AnswerModel], Field(min_length=1)]

    def build(self) -> Release:
        """Return the release."""
        return Release(
            plan_id=self.plan,
            title=self.title,
            guarantee=self.guarantee.build(),
            rounds=self.rounds,
            reports=self.reports,
            batch=self.batch,
            level=self.level,
            version=self.version,
            answers=tuple(one.build() for one in self.questions),
        )


def load_release(path: str | Path) -> Release:
    """Return the release in a JSON file; refuse one of another format or with any fault.

    That it is the release of a plan cannot be seen from the file: compare ``plan_id``.
    """
    text = read_small(path, most=LARGEST_FILE, must_be=_RULE)
    return release_from(text, name=Path(path).name)


def release_from(text: str | bytes, *, name: str = "release") -> Release:
    """Return the release in a text."""
    document = read_back(text, FORMAT, name=name)
    with listing_faults(FORMAT, name):
        release = ReleaseModel.model_validate(document).build()
    # What was left out or is there in part would come back different.
    if release.document() != document or not all(map(_ordered, release.answers)):
        raise contradiction(FORMAT, name)
    return release


def read_back(text: str | bytes, form: str, *, name: str) -> dict[str, Any]:
    """Return the JSON document of a release in a certain format."""
    file, rule = f"file {name}", f"a release in the format {form}"
    try:
        document = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise InvalidFile(file, rule, ["no JSON document"]) from None
    found = document.get("format") if isinstance(document, dict) else None
    if found != form:
        hint = "a release of another version needs the chaffinch that wrote it"
        raise InvalidFile(file, rule, [f"format {found!r:.80}"], hint=hint)
    return dict(document)


@contextmanager
def listing_faults(form: str, name: str) -> Iterator[None]:
    """Turn what a model refuses into one error with all faults."""
    try:
        yield
    except ValidationError as fault:
        rule = f"a release in the format {form}"
        raise InvalidFile(f"file {name}", rule, faults_of(fault)[:20]) from None


def contradiction(form: str, name: str) -> InvalidFile:
    """Return the error about a release whose parts do not fit together."""
    rule = f"a release in the format {form}"
    return InvalidFile(f"file {name}", rule, ["a document that contradicts itself"])


def release_schema() -> dict[str, Any]:
    """Return the JSON Schema of release files."""
    return ReleaseModel.model_json_schema()


def _ordered(answer: Answer) -> bool:
    pairs = ((answer.low, answer.high), (answer.low_together, answer.high_together))
    spread = answer.summary.quantiles if answer.summary else ()
    return all(bool((low <= high).all()) for low, high in pairs) and all(
        low <= high for _, low, _, high in spread
    )


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")
