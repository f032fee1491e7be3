"""The shapes of plan and survey files, checked field by field so that all faults show at once.

A number that must be exact is a text: JSON readers disagree about digits. Unknown fields are
refused everywhere, and what a version means never changes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import Field

from chaffinch.privacy import Guarantee
from chaffinch.protocols.protocols import Decoys, Encoded, FlippedDecoys, Flips, Protocol
from chaffinch.questions import LARGEST_VALUE, Bit, Choice, Flags, Number, Question
from chaffinch.wire.documents import Exact, RealNumber, RealText, Strict, exact_text, real_text

PLAN_FORMAT = "chaffinch/plan@1"
End = Annotated[int, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]


class Range(Strict):
    """Whole numbers from ``first`` to ``last``, both included."""

    first: End
    last: End


class BitModel(Strict):
    """Yes or no."""

    kind: Literal["bit"]
    missing: str = "no"

    def build(self) -> Question:
        """Return the question."""
        return Bit(self.missing)


class ChoiceModel(Strict):
    """One of several values."""

    kind: Literal["choice"]
    values: list[str] | Range
    missing: str = "count"
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
    missing: float | RealNumber | Literal["refuse"] | None = None
    clip: bool = False
    quantiles: bool = False

    def build(self) -> Question:
        """Return the question."""
        missing = self.missing
        if isinstance(missing, str) and missing != "refuse":
            missing = float(missing)
        return Number(
            float(self.low), float(self.high), self.unit, missing, self.clip, self.quantiles
        )


class FlagsModel(Strict):
    """Several yes/no answers."""

    kind: Literal["flags"]
    names: list[str]
    missing: str = "none"

    def build(self) -> Question:
        """Return the question."""
        return Flags(self.names, missing=self.missing)


QuestionModel = Annotated[
    BitModel | ChoiceModel | NumberModel | FlagsModel, Field(discriminator="kind")
]


class FlipsModel(Strict):
    """Flips, perhaps with copies."""

    kind: Literal["flips"]
    flip_probability: Exact
    copies: int
    slots: int | None = None

    def build(self) -> Protocol:
        """Return the protocol."""
        return Flips(Fraction(self.flip_probability), self.copies, self.slots)


class DecoysModel(Strict):
    """Clear answers among decoys."""

    kind: Literal["decoys"]
    decoy_slots: int
    decoy_rate: Exact

    def build(self) -> Protocol:
        """Return the protocol."""
        return Decoys(self.decoy_slots, Fraction(self.decoy_rate))


class FlippedDecoysModel(Strict):
    """Flips among flipped decoys."""

    kind: Literal["flipped-decoys"]
    flip_probability: Exact
    decoys: int
    slots: int

    def build(self) -> Protocol:
        """Return the protocol."""
        return FlippedDecoys(Fraction(self.flip_probability), self.decoys, self.slots)


class EncodedModel(Strict):
    """A number in bits."""

    kind: Literal["encoded"]
    flip_probability: Exact
    resolution: int
    together: bool

    def build(self) -> Protocol:
        """Return the protocol."""
        return Encoded(Fraction(self.flip_probability), self.resolution, self.together)


ProtocolModel = Annotated[
    FlipsModel | DecoysModel | FlippedDecoysModel | EncodedModel, Field(discriminator="kind")
]


class PartModel(Strict):
    """One question with its protocol."""

    name: str
    question: QuestionModel
    protocol: ProtocolModel


class CrowdModel(Strict):
    """Who takes part, and whom the guarantee counts on."""

    users: int
    reports: int
    counted_on: int
    rounds: int


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
    """The size of what is sent."""

    slots: int
    codes: int


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
            document["missing"] = real_text(float(question.missing or 0.0))
    elif isinstance(question, Flags):
        document["names"] = list(question.names)
    return document


def protocol_document(protocol: Protocol) -> dict[str, Any]:
    """Return a protocol as it stands in a file."""
    fields = {
        name: exact_text(value) if isinstance(value, Fraction) else value
        for name, value in vars(protocol).items()
        if value is not None
    }
    return {"kind": protocol.kind, **fields}
