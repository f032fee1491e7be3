"""The certificate of a plan: what a stranger needs to check its promise without trusting us.

It restates the promise and the exact parameters, and adds what takes a search to find: runs of
crowds that cover all of them. ``tools/check_certificate.py`` proves the promise from that with
whole numbers alone; it imports nothing of this library, and the search proves nothing to it.
No certificate leaves here that it refuses: it has the last word on each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from chaffinch import privacy
from chaffinch.disk.files import atomic
from chaffinch.disk.protected import refuse_to_overwrite
from chaffinch.errors import GuaranteeNotProven, InvalidInput, Unquoted
from chaffinch.plans import check_certificate as checker
from chaffinch.plans.plan_document import GuaranteeForm, HonestForm
from chaffinch.privacy.covers import Cover, cover_of
from chaffinch.privacy.forms import fraction_text
from chaffinch.privacy.shortened_reports import cutting_cost
from chaffinch.protocols.base import answer_labels
from chaffinch.wire.documents import identified

if TYPE_CHECKING:
    from chaffinch.plans.parts import Part
    from chaffinch.plans.plan import Plan

_CERTIFICATE_FORMAT = "chaffinch/certificate@1"
_ROOM = 1e-9
"""The share of delta that is left to roundings of whoever checks."""
_ONE_BY_ONE = Lock()
"""The checker counts its work in one place: two checks at once would share their allowance."""


@dataclass(frozen=True)
class Certificate:
    """A promise with its proof, as a document."""

    body: dict[str, Any]

    def __repr__(self) -> str:
        claim = self.body["claim"]
        promise = f"epsilon {claim['epsilon']}, delta {claim['delta']}"
        return f"<Certificate of plan {self.body['plan'][:16]}: {promise}>"

    def document(self) -> dict[str, Any]:
        """Return the certificate as it stands in its file."""
        return identified(_CERTIFICATE_FORMAT, self.body)

    def save(self, path: str | Path) -> None:
        """Write it to a file for ``tools/check_certificate.py``."""
        refuse_to_overwrite(path)
        with atomic(path) as file:
            file.write(json.dumps(self.document(), ensure_ascii=False).encode() + b"\n")


def certify(plan: Plan) -> Certificate:
    """Return the certificate of a plan that the checker proves, or raise GuaranteeNotProven.

    InvalidInput is raised at once where no certificate of such a plan can be checked.
    """
    if plan.contributions > 1:
        raise InvalidInput(
            "plan to certify",
            "of one report of each person",
            Unquoted(f"{plan.contributions} of each"),
            hint="the promise may hold all the same: `plan --check` recomputes it",
        )
    _require_known(plan)
    mechanisms = [part.mechanism(plan.crowd) for part in plan.parts]
    cut = sum((m.distance for m in mechanisms if isinstance(m, privacy.Shortened)), Fraction(0))
    short = plan.shortfall * plan.rounds
    cost = cutting_cost(cut * plan.rounds, plan.epsilon, shortfall=short)
    if plan.epsilon >= plan.promise.local_epsilon:
        cost = 0.0  # neither cutting an own report nor liars take from the local guarantee
    spared = plan.delta * (1 - _ROOM) - cost
    if not spared > 0:
        what = "delta of cut messages" + " and of too few honest people" * bool(short)
        raise GuaranteeNotProven(what, upper=cost, most=plan.delta)
    units = [_units(mechanism) for mechanism in mechanisms]
    counted = [(unit, times * plan.rounds) for part in units for unit, times in part]
    try:
        cover = cover_of(counted, plan.epsilon, spared)
        found = Certificate(_body(plan, cover, [len(part) for part in units]))
        _require_proven(found, plan.delta)
    except GuaranteeNotProven as refused:
        refused.hint = (
            "no certificate was found, which says nothing against the plan: `plan --check` "
            "recomputes its guarantee; a plan for a slightly larger delta has more room for one"
        )
        raise
    return found


def _require_proven(certificate: Certificate, delta: float) -> None:
    """Refuse a certificate that proves nothing to the checker."""
    reason = _refusal(lambda: checker.check(_read_back(certificate.document())))
    if reason:
        quantity = f"delta of this plan, to a check that ends with {reason!r},"
        raise GuaranteeNotProven(quantity, upper=1.0, most=delta)


def _require_known(plan: Plan) -> None:
    """Refuse a plan that the checker would not take for one, before anything is searched."""
    for part in plan.parts:
        if (part.protocol.kind, part.question.shape) not in checker.KNOWN:
            raise InvalidInput(
                "plan to certify",
                "one whose protocols tools/check_certificate.py knows",
                Unquoted(f"one with {part.protocol.kind!r} for a {part.question.shape}"),
                hint="the promise may hold all the same: `plan --check` recomputes it",
            )
    bare = Certificate(_body(plan, Cover(tuple(() for _ in plan.parts)), [1] * len(plan.parts)))
    document = _read_back(bare.document())

    def known() -> None:
        checker.check_claim(document["claim"])
        checker.check_plan(_read_back(plan.document()), document)

    refused = _refusal(known)
    if refused:
        more = [
            name
            for name, there in (("public groups", plan.group), ("named parties", plan.parties))
            if there is not None
        ]
        raise InvalidInput(
            "plan to certify",
            "one that tools/check_certificate.py knows in full",
            " and ".join(["one with", *more]) if more else refused,
            hint="certify the same plan without them: what is promised does not follow from them"
            if more
            else "the promise may hold all the same: `plan --check` recomputes it",
        )


def _refusal(check: Callable[[], object]) -> str:
    """Return why the checker refuses something; nothing where it does not."""
    with _ONE_BY_ONE:
        try:
            check()
        except checker.Refused as reason:
            return str(reason)
    return ""


def _read_back(document: dict[str, Any]) -> Any:
    """Return a document as whoever reads its file has it."""
    return json.loads(json.dumps(document))


def _units(mechanism: privacy.Mechanism) -> list[tuple[privacy.Mechanism, int]]:
    """Return the mechanisms of which a question shows so many independent rounds each.

    It is one, but for a number in digits.
    """
    if isinstance(mechanism, privacy.Shortened):
        mechanism = mechanism.inner
    if isinstance(mechanism, privacy.FlippedValues):
        # The sums at the value that is left and at the one that is joined; decoys, given where
        # they fell, are users of some value.
        records = mechanism.users + mechanism.decoys
        flip = mechanism.flip_probability
        return [(privacy.FlippedBits(users=records, flip_probability=flip), 2)]
    if isinstance(mechanism, privacy.EncodedNumbers):
        mechanism = mechanism.inner
    units = [(mechanism, 1)]
    if isinstance(mechanism, privacy.Composition):
        units = [*mechanism.parts]
    shared = (privacy.SignedDecoys, privacy.WeightedNumbers)
    if any(isinstance(unit, shared) and unit.share < 1 for unit, _ in units):
        raise GuaranteeNotProven(
            "delta with noise that was cut for more users", upper=1.0, most=0.0
        )
    return units


def _body(plan: Plan, cover: Cover, units: list[int]) -> dict[str, Any]:
    """Return everything that a certificate holds but its format and its id.

    ``units`` says how many of the mechanisms that were covered belong to each part.
    """
    promise, runs = GuaranteeForm.document(plan.promise), iter(cover.runs)
    grid = None
    if cover.growth is not None:
        numerator, denominator = cover.growth.as_integer_ratio()
        grid = {"growth": f"{numerator}/{denominator}", "nodes": cover.nodes}
    return {
        "plan": plan.id,
        "claim": {
            "epsilon": promise["epsilon"],
            "delta": promise["delta"],
            "neighbours": promise["neighbours"],
            "view": promise["view"],
            "crowd": plan.crowd,
            "rounds": plan.rounds,
        }
        | _honest(plan),
        "parts": [
            # Of several units, which are the digits of a number, none has crowds to cover.
            {**_part(part), "runs": [list(run) for _ in range(count) for run in next(runs)]}
            for part, count in zip(plan.parts, units, strict=True)
        ],
        "grid": grid,
    }


def _honest(plan: Plan) -> dict[str, Any]:
    """Return of how many people the crowd is, where some of them may lie."""
    if plan.honest is None:
        return {}
    return {"reports": plan.reports, "honest": HonestForm.document(plan.honest)}


def _part(part: Part) -> dict[str, Any]:
    named = part.question.shape != "number"
    return {
        "name": part.name,
        "question": part.question.shape,
        "answers": len(answer_labels(part.question)) if named else 0,
        "protocol": part.protocol.kind,
        "parameters": {
            field.name: _text(field.name, getattr(part.protocol, field.name))
            for field in fields(part.protocol)
            if getattr(part.protocol, field.name) is not None
        },
    }


def _text(name: str, value: Any) -> Any:
    """Return a parameter as it stands in a certificate: rationals are texts."""
    if isinstance(value, tuple):
        return [_text(name, one) for one in value]
    if is_dataclass(value):
        return {
            field.name: _text(field.name, getattr(value, field.name)) for field in fields(value)
        }
    return fraction_text(name, value) if isinstance(value, Fraction) else value
