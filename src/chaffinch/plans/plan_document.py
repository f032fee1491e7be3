"""The shapes of plan and survey files, checked field by field so that all faults show at once.

A number that must be exact is a text: JSON readers disagree about digits. Unknown fields are
refused everywhere, and what a version means never changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, Any, Literal, Union, get_args

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic_core import SchemaValidator, core_schema

from chaffinch.plans.honest_share import HonestShare
from chaffinch.plans.parties import Parties, PartiesForm
from chaffinch.plans.parts import Part
from chaffinch.privacy import Guarantee
from chaffinch.protocols import Protocol, every_protocol, known_kinds, protocol_named
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
from chaffinch.wire.document_forms import (
    Exact,
    Form,
    Listed,
    Many,
    RealNumber,
    RealText,
    Written,
    real_text,
)

# ---------------------------------------------------------------------- questions

_End = Annotated[int, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]


class Range(Form):
    """Whole numbers from ``first`` to ``last``, both included."""

    first: _End
    last: _End

    def build(self) -> range:
        """Return the numbers."""
        return range(self.first, self.last + 1)


def _read_values(values: list[str] | Range) -> list[str] | range:
    return values.build() if isinstance(values, Range) else values


def _write_values(values: Sequence[str] | range) -> list[str] | dict[str, int]:
    return {"first": values[0], "last": values[-1]} if isinstance(values, range) else [*values]


Values = Annotated[list[str] | range, Written(list[str] | Range, _read_values, _write_values)]
"""The values of a choice: a list, or a range of whole numbers."""


class QuestionForm(Form):
    """A question, with nothing left to a default."""

    leaves_out_defaults = False


class BitForm(QuestionForm):
    """Yes or no."""

    makes = Bit

    kind: Literal["bit"]
    missing: str = REFUSE


class ChoiceForm(QuestionForm):
    """One of several values."""

    makes = Choice

    kind: Literal["choice"]
    missing: str = REFUSE
    values: Values
    unknown: str | None = None


def _read_missing(missing: float | str) -> float | str:
    return missing if missing in (COUNT, REFUSE) else float(missing)


def _write_missing(missing: float | str) -> str:
    return missing if isinstance(missing, str) else real_text(float(missing))


_Bound = Annotated[float, Written(float | RealNumber, float, real_text)]
_GapOfNumber = float | RealNumber | Literal["count", "refuse"]


class NumberForm(QuestionForm):
    """A number between bounds."""

    makes = Number

    kind: Literal["number"]
    missing: Annotated[float | str, Written(_GapOfNumber, _read_missing, _write_missing)] = REFUSE
    low: _Bound
    high: _Bound
    unit: str = ""
    clip: bool = False
    quantiles: bool = False
    spread: bool = False

    @classmethod
    def document(cls, described: object) -> dict[str, Any]:
        """Return it as before there was ``spread`` where that is not asked for."""
        said = super().document(described)
        return said if said["spread"] else {key: said[key] for key in said if key != "spread"}


class FlagsForm(QuestionForm):
    """Several yes/no answers."""

    makes = Flags

    kind: Literal["flags"]
    missing: str = REFUSE
    names: Many[str]


def _one_of(*forms: type[Form]) -> Written:
    """Return how a question of one of several kinds is written."""
    known = {get_args(form.model_fields["kind"].annotation)[0]: form for form in forms}
    either: Any = Annotated[Union[forms], Field(discriminator="kind")]  # noqa: UP007 - made at run time
    return Written(either, Form.build, lambda question: known[question.kind].document(question))


class CrossedForm(Form):
    """One of the questions of a cross."""

    name: str
    question: Annotated[Bit | Choice | Number, _one_of(BitForm, ChoiceForm, NumberForm)]


def _read_crossed(forms: Sequence[CrossedForm]) -> dict[str, Question]:
    return {one.name: one.question for one in forms}


def _write_crossed(questions: Mapping[str, Question]) -> list[dict[str, Any]]:
    return [CrossedForm.as_tuple().write(pair) for pair in questions.items()]


class CrossForm(Form):
    """Questions planned as one choice; a number among them, the last, has so many levels."""

    makes = Cross

    kind: Literal["cross"]
    questions: Annotated[
        Mapping[str, Bit | Choice | Number],
        Written(Annotated[list[CrossedForm], Field(min_length=2)], _read_crossed, _write_crossed),
    ]
    levels: int | None = None


AnyQuestion = Annotated[Question, _one_of(BitForm, ChoiceForm, NumberForm, FlagsForm, CrossForm)]


# ---------------------------------------------------------------------- protocols


class _ByKind:
    """Any protocol, told apart by its kind: one line in the registry is all that a new one needs.

    pydantic's own union would load all protocols to read a plan that has one.
    """

    @staticmethod
    def __get_pydantic_core_schema__(
        source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda document: _union_of(known_kinds()).validate_python(document),
            serialization=core_schema.plain_serializer_function_ser_schema(Protocol.document),
        )

    @staticmethod
    def __get_pydantic_json_schema__(
        schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        forms = tuple(protocol.form() for protocol in every_protocol())
        every: Any = Annotated[Union[forms], Field(discriminator="kind")]  # noqa: UP007 - made at run time
        return handler(TypeAdapter(every).core_schema)


@lru_cache(maxsize=4)
def _union_of(kinds: tuple[str, ...]) -> SchemaValidator:
    """Return what reads a protocol of any of these kinds; each is loaded with the first of it."""
    choices: dict[Hashable, core_schema.CoreSchema] = {
        kind: core_schema.no_info_plain_validator_function(partial(_read_protocol, kind))
        for kind in kinds
    }
    return SchemaValidator(core_schema.tagged_union_schema(choices, discriminator="kind"))


def _read_protocol(kind: str, document: object) -> Protocol:
    made: Protocol = protocol_named(kind).form().model_validate(document).build()
    return made


# ---------------------------------------------------------------------- plans


class PartForm(Form):
    """One question with its protocol.

    ``answers_to`` names the number before it that this follows from, which nobody is asked: a bit
    says whether that was answered, where missing answers are counted; a number is its squared
    distance from the middle of its range, where the spread is asked for.
    """

    makes = Part

    name: str
    question: AnyQuestion
    protocol: Annotated[Protocol, _ByKind]
    answers_to: str | None = None


class HonestForm(Form):
    """How likely each of the others in a batch is to be honest, and how that is meant.

    ``independent``: each of them with this chance, independently of one another, of the answers,
    and of who is in a batch together. Liars are people, not reports.
    """

    makes = HonestShare

    share: Exact
    reading: Literal["independent"]


class CrowdForm(Form):
    """Who takes part, and whom the guarantee counts on.

    With ``honest`` the chance that too few of the people behind the reports are honest is part
    of delta. Without it, whatever the number of reports, ``counted_on`` people are honest.
    """

    users: int
    reports: int
    crowd: Annotated[int, Field(alias="counted_on")]
    rounds: int
    contributions: Annotated[int, Field(ge=2)] = 1
    honest: Annotated[HonestShare, HonestForm.written()] | None = None


class GuaranteeForm(Form):
    """The promise in full; everything except epsilon and delta follows from the rest."""

    makes = Guarantee

    epsilon: RealText
    delta: RealText
    neighbours: str
    view: str
    crowd: str
    local_epsilon: RealText
    method: Literal["exact", "upper-bound"]


class ShareForm(Form):
    """What is left when only a share of the users is honest."""

    share: Exact
    epsilon: RealText


class MessagesForm(Form):
    """The size of what is sent: all reports of a plan have one length, whatever is in them.

    ``varying`` names the questions whose number of messages in a report follows the noise, and
    never the answer: their empty slots are padding. The slots of all others are sealed, empty or
    not, so that their number is a constant of the plan; no other dummies reach the analyzer.
    """

    slots: int
    codes: int
    varying: Annotated[tuple[str, ...], Listed(at_least=1)] = ()


class PublicGroupForm(Form):
    """The question whose answers are public, and the group that this plan is for."""

    makes = PublicGroup

    name: str
    question: Annotated[Bit | Choice, _one_of(BitForm, ChoiceForm)]
    value: str | None = None


class PlanForm(Form):
    """A plan file."""

    makes = dict  # a plan is above this file: it is made where it is declared

    title: str
    counted: Annotated[CrowdForm, Field(alias="crowd")]
    parts: Annotated[
        tuple[Annotated[Part, PartForm.written()], ...],
        Listed(at_least=1),
        Field(alias="questions"),
    ]
    promise: Annotated[Guarantee, GuaranteeForm.written(), Field(alias="guarantee")]
    shares: Annotated[
        Many[Annotated[tuple[Fraction, float], ShareForm.as_tuple()]], Field(alias="honest_shares")
    ]
    sizes: Annotated[MessagesForm, Field(alias="messages")]
    group: Annotated[
        Annotated[PublicGroup, PublicGroupForm.written()] | None, Field(alias="public_group")
    ] = None
    parties: Annotated[Parties, PartiesForm.written()] | None = None
