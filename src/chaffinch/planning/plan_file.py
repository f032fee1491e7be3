"""Plans as files: written once, loaded and verified by every party."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from chaffinch.files import atomic, read_small
from chaffinch.planning.documents import (
    PLAN_FORMAT,
    PlanModel,
    guarantee_document,
    protocol_document,
    question_document,
)
from chaffinch.planning.plan import Part, Plan
from chaffinch.wire.documents import (
    digest,
    exact_text,
    read_document,
    real_text,
    same_again,
)

LARGEST_FILE = 256 << 20
_RULE = f"a plan in the format {PLAN_FORMAT}"


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as it stands in its file."""
    body = _body(plan)
    return {"format": PLAN_FORMAT, "id": digest(PLAN_FORMAT, body), **body}


def plan_id(plan: Plan) -> str:
    """Return the SHA-256 of the canonical form of everything but the id itself."""
    return digest(PLAN_FORMAT, _body(plan))


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan; the file is complete or not there."""
    text = json.dumps(plan_document(plan), indent=2, ensure_ascii=False)
    with atomic(path) as file:
        file.write(text.encode() + b"\n")


def load_plan(path: str | Path) -> Plan:
    """Return the plan in a file; refuse one that is not whole, unchanged and well-formed.

    Whether its guarantee holds is another question: ``plan.verify()`` recomputes it, and
    encoding does so by itself.
    """
    text = read_small(path, most=LARGEST_FILE, must_be=_RULE)
    return plan_from(text, name=Path(path).name)


def plan_from(text: str | bytes, *, name: str = "plan") -> Plan:
    """Return the plan in a text."""
    model, body = read_document(text, PlanModel, PLAN_FORMAT, name=name)
    return same_again(lambda: _build(model), _body, body, name=name, rule=_RULE)


def _body(plan: Plan) -> dict[str, Any]:
    return {
        "title": plan.title,
        "crowd": {
            "users": plan.users,
            "reports": plan.reports,
            "counted_on": plan.crowd,
            "rounds": plan.rounds,
        },
        "questions": [
            {
                "name": part.name,
                "question": question_document(part.question),
                "protocol": protocol_document(part.protocol),
            }
            for part in plan.parts
        ],
        "guarantee": guarantee_document(plan.guarantee),
        "honest_shares": [
            {"share": exact_text(share), "epsilon": real_text(epsilon)}
            for share, epsilon in plan.shares
        ],
        "messages": {"slots": plan.slots, "codes": plan.codes},
    }


def _build(model: PlanModel) -> Plan:
    return Plan(
        title=model.title,
        parts=tuple(
            Part(one.name, one.question.build(), one.protocol.build()) for one in model.questions
        ),
        users=model.crowd.users,
        reports=model.crowd.reports,
        crowd=model.crowd.counted_on,
        rounds=model.crowd.rounds,
        epsilon=float(model.guarantee.epsilon),
        delta=float(model.guarantee.delta),
        shares=tuple((Fraction(one.share), _real(one.epsilon)) for one in model.honest_shares),
    )


def _real(text: str) -> float:
    return float("inf") if text == "infinite" else float(text)
