"""Plans as files: written once, loaded and verified by every party."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from chaffinch.errors import ChaffinchError, InvalidFile
from chaffinch.planning.documents import (
    PLAN_FORMAT,
    PlanModel,
    exact_text,
    guarantee_document,
    protocol_document,
    question_document,
    real_text,
)
from chaffinch.planning.plan import Part, Plan
from chaffinch.tables.small import read_small
from chaffinch.tables.write import atomic

LARGEST_FILE = 256 << 20
_RULE = f"a plan in the format {PLAN_FORMAT}"

_VERSION = "a plan of another version needs the chaffinch that wrote it"
_KINDS = {
    "chaffinch/plan": "this is the plan of a survey, for chaffinch encode, shuffle and analyze",
    "chaffinch/reach-plan": "this is a plan for audiences, for chaffinch reach",
}

Document = TypeVar("Document", bound=BaseModel)
Made = TypeVar("Made")


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


def read_document(
    text: str | bytes, model: type[Document], form: str, *, name: str
) -> tuple[Document, dict[str, Any]]:
    """Return a document of that form and its body; refuse one that was changed or is another's."""
    rule = f"a plan in the format {form}"
    try:
        document = json.loads(text, object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as fault:
        raise InvalidFile(f"file {name}", rule, [f"no JSON document ({fault})"]) from None
    found = document.get("format") if isinstance(document, dict) else None
    if found != form:
        kind = str(found).partition("@")[0]
        hint = _VERSION if form.startswith(f"{kind}@") else _KINDS.get(kind, "")
        raise InvalidFile(f"file {name}", rule, [f"format {found!r:.80}"], hint=hint)
    try:
        made = model.model_validate(document)
    except ValidationError as fault:
        raise InvalidFile(f"file {name}", rule, faults_of(fault)) from None
    body = {key: value for key, value in document.items() if key not in ("format", "id")}
    try:
        unchanged = digest(form, body) == document["id"]
    except UnicodeEncodeError:
        raise InvalidFile(f"file {name}", rule, ["a text with half a character"]) from None
    if not unchanged:
        raise InvalidFile(
            f"file {name}",
            "unchanged since it was written",
            ["content that does not match its id"],
            hint="ask for the original file; do not mend the id by hand",
        )
    return made, body


def same_again(
    build: Callable[[], Made],
    describe: Callable[[Made], dict[str, Any]],
    body: dict[str, Any],
    *,
    name: str,
    rule: str,
) -> Made:
    """Return what a document describes, if describing it again says nothing else."""
    try:
        made = build()
        same = describe(made) == body
    except (ChaffinchError, ValueError, OverflowError) as fault:
        raise InvalidFile(f"file {name}", rule, [str(fault).splitlines()[0]]) from None
    if not same:
        raise InvalidFile(
            f"file {name}",
            "a plan whose guarantee, sizes and shares follow from its parameters",
            ["a document that contradicts itself"],
        )
    return made


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


def digest(form: str, body: dict[str, Any]) -> str:
    """Return the SHA-256 of the canonical form of a document without its id."""
    return hashlib.sha256(canonical({"format": form, **body})).hexdigest()


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


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that is there twice: readers would not agree on what the plan says."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found
