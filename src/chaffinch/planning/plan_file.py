"""Plans as files: written once, loaded and verified by every party."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from chaffinch.errors import ChaffinchError, InvalidFile
from chaffinch.planning.documents import (
    PLAN_FORMAT,
    PlanModel,
    exact_text,
    protocol_document,
    question_document,
    real_text,
)
from chaffinch.planning.plan import Part, Plan
from chaffinch.tables.small import read_small
from chaffinch.tables.write import atomic

LARGEST_FILE = 256 << 20
_RULE = f"a plan in the format {PLAN_FORMAT}"


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as it stands in its file."""
    body = _body(plan)
    return {"format": PLAN_FORMAT, "id": _digest(body), **body}


def plan_id(plan: Plan) -> str:
    """Return the SHA-256 of the canonical form of everything but the id itself."""
    return _digest(_body(plan))


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
    try:
        document = json.loads(text, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as fault:
        raise InvalidFile(f"file {name}", _RULE, [f"no JSON document ({fault})"]) from None
    found = document.get("format") if isinstance(document, dict) else None
    if found != PLAN_FORMAT:
        raise InvalidFile(
            f"file {name}",
            _RULE,
            [f"format {found!r:.80}"],
            hint="a plan of another version needs the chaffinch that wrote it",
        )
    try:
        model = PlanModel.model_validate(document)
    except ValidationError as fault:
        raise InvalidFile(f"file {name}", _RULE, faults_of(fault)) from None
    return _build(model, document, name)


def faults_of(fault: ValidationError) -> list[str]:
    """Return every fault as "place: what is wrong"."""
    return [
        f"{'.'.join(map(_step, one['loc'])) or 'document'}: {one['msg']}"
        for one in fault.errors(include_url=False, include_context=False, include_input=False)
    ]


def _step(step: int | str) -> str:
    # A key that nobody can print must not be what stops the message from being printed.
    return str(step) if str(step).isprintable() else ascii(step)


def canonical(document: object) -> bytes:
    """Return the canonical form of RFC 8785; documents hold texts and whole numbers only.

    Keys are plain ASCII here, for which sorting by code point is the order the RFC asks for.
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def _body(plan: Plan) -> dict[str, Any]:
    promise = plan.guarantee
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
        "guarantee": {
            "epsilon": real_text(promise.epsilon),
            "delta": real_text(promise.delta),
            "neighbours": promise.neighbours,
            "view": promise.view,
            "crowd": promise.crowd,
            "local_epsilon": real_text(promise.local_epsilon),
            "method": promise.method,
        },
        "honest_shares": [
            {"share": exact_text(share), "epsilon": real_text(epsilon)}
            for share, epsilon in plan.shares
        ],
        "messages": {"slots": plan.slots, "codes": plan.codes},
    }


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(canonical({"format": PLAN_FORMAT, **body})).hexdigest()


def _build(model: PlanModel, document: dict[str, Any], name: str) -> Plan:
    """Return the plan, after checking that the document says nothing else about it."""
    body = {key: value for key, value in document.items() if key not in ("format", "id")}
    try:
        unchanged = _digest(body) == model.id
    except UnicodeEncodeError:
        raise InvalidFile(f"file {name}", _RULE, ["a text with half a character"]) from None
    if not unchanged:
        raise InvalidFile(
            f"file {name}",
            "unchanged since it was written",
            ["content that does not match its id"],
            hint="ask for the original file; do not mend the id by hand",
        )
    try:
        plan = Plan(
            title=model.title,
            parts=tuple(
                Part(one.name, one.question.build(), one.protocol.build())
                for one in model.questions
            ),
            users=model.crowd.users,
            reports=model.crowd.reports,
            crowd=model.crowd.counted_on,
            rounds=model.crowd.rounds,
            epsilon=float(model.guarantee.epsilon),
            delta=float(model.guarantee.delta),
            shares=tuple((Fraction(one.share), _real(one.epsilon)) for one in model.honest_shares),
        )
        same = _body(plan) == body
    except (ChaffinchError, ValueError, OverflowError) as fault:
        raise InvalidFile(f"file {name}", _RULE, [str(fault).splitlines()[0]]) from None
    if not same:
        raise InvalidFile(
            f"file {name}",
            "a plan whose guarantee, sizes and shares follow from its parameters",
            ["a document that contradicts itself"],
        )
    return plan


def _real(text: str) -> float:
    return float("inf") if text == "infinite" else float(text)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that is there twice: readers would not agree on what the plan says."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
