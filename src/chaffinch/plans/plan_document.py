"""The shapes of plan and survey files, checked field by field so that all faults show at once.

A number that must be exact is a text: JSON readers disagree about digits. Unknown fields are
refused everywhere, and what a version means never changes.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, Union

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import SchemaValidator, core_schema

from chaffinch.plans.honest_share import HonestShare
from chaffinch.plans.parties import PartiesModel
from chaffinch.privacy import Guarantee
from chaffinch.protocols import every_protocol, known_kinds, protocol_named
from chaffinch.protocols.base import ProtocolModel
from chaffinch.questions import (
    COUNT,
    LARGEST_VALUE,
    REFUSE,
    Bit,
    Choice,
    Cross,
    Flags,
    Number,
    PublicGroup,
    Question,
)
from chaffinch.wire.documents import Exact, RealNumber, RealText, Strict, exact_text, real_text

_End = Annotated[int, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]


class Range(Strict):
    """Whole numbers from ``first`` to ``last``, both included."""

    first: _End
    last: _End


class BitModel(Strict):
    """Yes or no."""

    kind: Literal["bit"]
    missing: str = REFUSE

    def build(self) -> Question:
        """Return the question."""
        return Bit(self.missing)


class ChoiceModel(Strict):
    """One of several values."""

    kind: Literal["choice"]
    values: list[str] | Range
    missing: str = REFUSE
    unknown: str | None = None

    def build(self) -> Question:
        """Return the question."""
        values = self.values
        listed = range(values.first, values.last + 1) if isinstance(values, Range) else values
        return Choice(listed, missing=self.missing, unknown=self.unknown)


class NumberModel(Strict):
    """A number between bounds."""

    kind: Literal["number"]
    low: float | RealNumber
    high: float | RealNumber
    unit: str = ""
    missing: float | RealNumber | Literal["count", "refuse"] = REFUSE
    clip: bool = False
    quantiles: bool = False

    def build(self) -> Question:
        """Return the question."""
        missing = self.missing
        if isinstance(missing, str) and missing not in (COUNT, REFUSE):
            missing = float(missing)
        return Number(
            float(self.low), float(self.high), self.unit, missing, self.clip, self.quantiles
        )


class FlagsModel(Strict):
    """Several yes/no answers."""

    kind: Literal["flags"]
    names: list[str]
    missing: str = REFUSE

    def build(self) -> Question:
        """Return the question."""
        return Flags(self.names, missing=self.missing)


class CrossedModel(Strict):
    """One of the questions of a cross."""

    name: str
    question: Annotated[BitModel | ChoiceModel | NumberModel, Field(discriminator="kind")]


class CrossModel(Strict):
    """Questions planned as one choice; a number among them, the last, has so many levels."""

    kind: Literal["cross"]
    questions: Annotated[list[CrossedModel], Field(min_length=2)]
    levels: int | None = None

    def build(self) -> Question:
        """Return the question."""
        named: dict[str, Any] = {one.name: one.question.build() for one in self.questions}
        return Cross(named, self.levels)


QuestionModel = Annotated[
    BitModel | ChoiceModel | NumberModel | FlagsModel | CrossModel, Field(discriminator="kind")
]


class _ByKind:
    """Any protocol, told apart by its kind: one line in the registry is all that a new one needs.

    pydantic's own union would load all protocols to read a plan that has one.
    """

    @staticmethod
    def __get_pydantic_core_schema__(
        source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda document: _union_of(known_kinds()).validate_python(document)
        )

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        models = tuple(protocol.model for protocol in every_protocol())
        every: Any = Annotated[Union[models], Field(discriminator="kind")]  # noqa: UP007 - made at run time
        return handler(TypeAdapter(every).core_schema)


@lru_cache(maxsize=4)
def _union_of(kinds: tuple[str, ...]) -> SchemaValidator:
    """Return what reads a protocol of any of these kinds; each is loaded with the first of it."""
    choices: dict[Hashable, core_schema.CoreSchema] = {
        kind: core_schema.no_info_plain_validator_function(partial(_read_protocol, kind))
        for kind in kinds
    }
    return SchemaValidator(core_schema.tagged_union_schema(choices, discriminator="kind"))


def _read_protocol(kind: str, document: object) -> ProtocolModel:
    return protocol_named(kind).model.model_validate(document)


class PartModel(Strict):
    """One question with its protocol.

    ``answers_to`` names the number before it whose missing answers are counted: then this bit,
    which nobody is asked, says whether that was answered.
    """

    name: str
    question: QuestionModel
    protocol: Annotated[ProtocolModel, _ByKind]
    answers_to: str | None = None


class HonestModel(Strict):
    """How likely each of the others in a batch is to be honest, and how that is meant.

    ``independent``: each of them with this chance, independently of one another, of the answers,
    and of who is in a batch together. Liars are people, not reports.
    """

    share: Exact
    reading: Literal["independent"]

    def build(self) -> HonestShare:
        """Return the share."""
        return HonestShare(Fraction(self.share), self.reading)


class CrowdModel(Strict):
    """Who takes part, and whom the guarantee counts on.

    With ``honest`` the chance that too few of the people behind the reports are honest is part
    of delta. Without it, whatever the number of reports, ``counted_on`` people are honest.
    """

    users: int
    reports: int
    counted_on: int
    rounds: int
    contributions: Annotated[int, Field(ge=2)] | None = None
    honest: HonestModel | None = None


class GuaranteeModel(Strict):
    """The promise in full; everything except epsilon and delta follows from the rest."""

    epsilon: RealText
    delta: RealText
    neighbours: str
    view: str
    crowd: str
    local_epsilon: RealText
    method: Literal["exact", "upper-bound"]


class ShareModel(Strict):
    """What is left when only a share of the users is honest."""

    share: Exact
    epsilon: RealText


class MessagesModel(Strict):
    """The size of what is sent: all reports of a plan have one length, whatever is in them.

    ``varying`` names the questions whose number of messages in a report follows the noise, and
    never the answer: their empty slots are padding. The slots of all others are sealed, empty or
    not, so that their number is a constant of the plan; no other dummies reach the analyzer.
    """

    slots: int
    codes: int
    varying: Annotated[list[str], Field(min_length=1)] | None = None


class PublicGroupModel(Strict):
    """The question whose answers are public, and the group that this plan is for."""

    name: str
    question: Annotated[BitModel | ChoiceModel, Field(discriminator="kind")]
    value: str | None = None

    def build(self) -> PublicGroup:
        """Return the group."""
        return PublicGroup(self.name, self.question.build(), self.value)  # type: ignore[arg-type]


class PlanModel(Strict):
    """A plan file."""

    format: Literal["chaffinch/plan@1"]
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    title: str
    crowd: CrowdModel
    questions: Annotated[list[PartModel], Field(min_length=1)]
    guarantee: GuaranteeModel
    honest_shares: list[ShareModel]
    messages: MessagesModel
    public_group: PublicGroupModel | None = None
    parties: PartiesModel | None = None


def group_document(group: PublicGroup) -> dict[str, Any]:
    """Return a public group as it stands in a plan file."""
    chosen = {} if group.value is None else {"value": group.value}
    return {"name": group.name, "question": question_document(group.question)} | chosen


def honest_document(honest: HonestShare) -> dict[str, Any]:
    """Return a share of honest people as it stands in a plan file."""
    return {"share": exact_text(honest.share), "reading": honest.reading}


def guarantee_document(promise: Guarantee) -> dict[str, str]:
    """Return a promise as it stands in a plan file."""
    return {
        "epsilon": real_text(promise.epsilon),
        "delta": real_text(promise.delta),
        "neighbours": promise.neighbours,
        "view": promise.view,
        "crowd": promise.crowd,
        "local_epsilon": real_text(promise.local_epsilon),
        "method": promise.method,
    }


def question_document(question: Question) -> dict[str, Any]:
    """Return a question as it stands in a file, with nothing left to a default."""
    if isinstance(question, Cross):
        crossed = [
            {"name": name, "question": question_document(one)}
            for name, one in question.questions.items()
        ]
        levels = {} if question.levels is None else {"levels": question.levels}
        return {"kind": question.kind, "questions": crossed} | levels
    document: dict[str, Any] = {"kind": question.kind, "missing": question.missing}
    if isinstance(question, Choice):
        values = question.values
        listed = isinstance(values, tuple)
        document["values"] = list(values) if listed else {"first": values[0], "last": values[-1]}
        document["unknown"] = question.unknown
    elif isinstance(question, Number):
        document |= {
            "low": real_text(question.low),
            "high": real_text(question.high),
            "unit": question.unit,
            "clip": question.clip,
            "quantiles": question.quantiles,
        }
        if not isinstance(question.missing, str):
            document["missing"] = real_text(float(question.missing))
    elif isinstance(question, Flags):
        document["names"] = list(question.names)
    return document
