"""Kinds of plans: a survey asks people, a reach counts the audiences of publishers.

Every party that runs plans runs those of any kind. What is the same for all of them is a
``RunPlan``. What differs stands with the kind, in a class for each party: ``HopWork`` is what a
shuffler does with what arrives for the plans of a kind, ``PlanAnalysis`` what the analyzer does
with the batches of a plan. Services find these classes by ``plan.kind``, and know nothing else of
a kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from chaffinch.disk.files import read_small
from chaffinch.errors import checks
from chaffinch.plans.parties import Parties
from chaffinch.wire.arrivals import Lengths, Run

LARGEST_FILE = 256 << 20

_P_co = TypeVar("_P_co", bound="RunPlan", covariant=True)


NAMES = ("survey", "reach")
"""The kinds that every party runs."""


@dataclass(frozen=True)
class Kind(Generic[_P_co]):
    """A kind of plan, whose plans are objects of one class."""

    name: str

    def among(self, plans: Iterable[RunPlan]) -> dict[str, _P_co]:
        """Return the plans of this kind by their ids."""
        return {plan.id: cast("_P_co", plan) for plan in plans if plan.kind == self}


class RunLengths(Lengths, Protocol):
    """How long everything is that travels, and what reaches the first hop is sealed with."""

    @property
    def outer_kem(self) -> int:
        """Return the number of the KEM of the outer envelopes."""
        ...


class RunPlan(Run, Protocol):
    """What whoever runs plans must know of every plan; ``Run`` has what a receiver must know."""

    kind: ClassVar[Kind[Any]]

    @property
    def id(self) -> str:
        """Return the name of the plan: the digest of its document."""
        ...

    @property
    def title(self) -> str:
        """Return what people call it."""
        ...

    @property
    def parties(self) -> Parties | None:
        """Return who runs it; None where nobody is named."""
        ...

    @property
    def layout(self) -> RunLengths:
        """Return how long everything is that travels; refuse a plan that names no parties."""
        ...

    def verify(self) -> None:
        """Recompute the guarantee from the parameters; raise if it does not hold."""

    def document(self) -> dict[str, Any]:
        """Return the plan as it stands in its file."""
        ...


def require_kind(plan: RunPlan) -> None:
    """Refuse a plan of a kind for which no party here has any work."""
    checks.choice("kind of a plan", plan.kind.name, NAMES)


READERS = {
    "chaffinch/plan@1": "chaffinch.plans.plan:plan_from",
    "chaffinch/reach-plan@1": "chaffinch.reach.planning.reach_plan:plan_from",
}
"""What reads a plan of each format, by its name: a service of surveys loads nothing of a reach."""


def load_any_plan(path: str | Path) -> Any:
    """Return the plan in a file, of a survey or of a reach, by the format that it names."""
    content = read_small(path, most=LARGEST_FILE, must_be="a plan")
    read = resolve_name(READERS.get(_format_of(content), READERS["chaffinch/plan@1"]))
    return read(content, name=Path(path).name)


def _format_of(content: bytes) -> str:
    """Return the format that a document names; its reader checks it all."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    return str(document.get("format")) if isinstance(document, dict) else ""
