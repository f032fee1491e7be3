"""One name for both audits: of a plan's pipeline, and of a randomizer that somebody brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from chaffinch.errors import InvalidInput
from chaffinch.planning.plan import Plan
from chaffinch.simulate.audits import Audit
from chaffinch.simulate.audits import audit as audit_plan
from chaffinch.simulate.randomizers import RandomizerAudit, audit_randomizer


@overload
def audit(subject: Plan, **options: Any) -> Audit: ...


@overload
def audit(
    subject: Callable[[Any], object] | Sequence[Sequence[Any]], **options: Any
) -> RandomizerAudit: ...


def audit(subject: Any, **options: Any) -> Audit | RandomizerAudit:
    """Return what attacks prove: of a plan's own pipeline, or of a randomizer somebody brings.

    ``options`` are those of `simulate.audit` for a plan, and of `simulate.audit_randomizer` for a
    function that makes messages of an answer or for a table of chances. An audit refutes a claim
    and never proves one.

    >>> silent = audit(lambda answer: "" if answer else "no", answers=[True, False], epsilon=1)
    >>> silent.ok
    False
    """
    if isinstance(subject, Plan):
        return audit_plan(subject, **options)
    if isinstance(subject, (str, bytes)):
        rule = "a plan, a function of an answer, or a table of chances"
        raise InvalidInput("subject of an audit", rule, subject, hint="load a plan with load_plan")
    return audit_randomizer(subject, **options)
