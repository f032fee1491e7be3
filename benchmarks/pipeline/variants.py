"""One way to protect a question, asked for by the name that the planner's tables show."""

from __future__ import annotations

from chaffinch.planning.candidates import Candidate, Task, for_target
from chaffinch.plans.expansion import Asked
from chaffinch.protocols import protocol_variants
from chaffinch.questions import Question

MANY = 10**6


def calibrated(
    question: Question, name: str, users: int, promise: tuple[float, float]
) -> Candidate:
    """Return the most accurate parameters of the variant of that name that keep a promise."""
    (variant,) = (one for one in protocol_variants(question, MANY, clear=True) if one.name == name)
    task = Task((Asked("answer", question),), users, users, 1, MANY)
    found = for_target(variant.name, [variant], promise, task)
    assert found is not None
    return found
