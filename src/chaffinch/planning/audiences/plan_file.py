"""Reach plans as files: written once, loaded and verified by publishers and analyzer."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from chaffinch.files import atomic, read_small
from chaffinch.planning.audiences.audience import Audience
from chaffinch.planning.audiences.plan import ReachPlan
from chaffinch.planning.documents import GuaranteeModel, guarantee_document
from chaffinch.wire.documents import Exact, Strict, digest, exact_text, read_document, same_again

FORMAT = "chaffinch/reach-plan@1"
LARGEST_FILE = 1 << 20
_RULE = f"a plan in the format {FORMAT}"


class PublisherModel(Strict):
    """One publisher and the audience it expects."""

    name: str
    size: int


class FilterModel(Strict):
    """What all filters have in common."""

    bits: int
    hashes: int
    frequencies: int
    flip_probability: Exact
    hash: Literal["siphash-2-4"]


class ReachPlanModel(Strict):
    """A reach plan file."""

    format: Literal["chaffinch/reach-plan@1"]
    id: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    title: str
    publishers: Annotated[list[PublisherModel], Field(min_length=1)]
    filters: FilterModel
    guarantee: GuaranteeModel


def plan_document(plan: ReachPlan) -> dict[str, Any]:
    """Return the plan as it stands in its file."""
    body = _body(plan)
    return {"format": FORMAT, "id": digest(FORMAT, body), **body}


def plan_id(plan: ReachPlan) -> str:
    """Return the SHA-256 of the canonical form of everything but the id itself."""
    return digest(FORMAT, _body(plan))


def save_plan(plan: ReachPlan, path: str | Path) -> None:
    """Write a plan; the file is complete or not there."""
    text = json.dumps(plan_document(plan), indent=2, ensure_ascii=False)
    with atomic(path) as file:
        file.write(text.encode() + b"\n")


def load_plan(path: str | Path) -> ReachPlan:
    """Return the plan in a file; refuse one that is not whole, unchanged and well-formed."""
    text = read_small(path, most=LARGEST_FILE, must_be=_RULE)
    return plan_from(text, name=Path(path).name)


def plan_from(text: str | bytes, *, name: str = "plan") -> ReachPlan:
    """Return the plan in a text."""
    model, body = read_document(text, ReachPlanModel, FORMAT, name=name)
    return same_again(lambda: _build(model), _body, body, name=name, rule=_RULE)


def _body(plan: ReachPlan) -> dict[str, Any]:
    audience = plan.audience
    return {
        "title": plan.title,
        "publishers": [
            {"name": name, "size": size}
            for name, size in zip(audience.publishers, plan.sizes, strict=True)
        ],
        "filters": {
            "bits": plan.bits,
            "hashes": plan.hashes,
            "frequencies": audience.frequencies,
            "flip_probability": exact_text(plan.flip_probability),
            "hash": "siphash-2-4",
        },
        "guarantee": guarantee_document(plan.guarantee),
    }


def _build(model: ReachPlanModel) -> ReachPlan:
    names = [one.name for one in model.publishers]
    return ReachPlan(
        title=model.title,
        audience=Audience(names, frequencies=model.filters.frequencies),
        sizes=tuple(one.size for one in model.publishers),
        bits=model.filters.bits,
        hashes=model.filters.hashes,
        flip_probability=Fraction(model.filters.flip_probability),
        epsilon=float(model.guarantee.epsilon),
        delta=float(model.guarantee.delta),
    )
