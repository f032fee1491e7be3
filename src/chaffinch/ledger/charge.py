"""What is charged, what is recorded of it, and what all charges together cost.

A charge says what was asked (plan, mechanism, times), never an epsilon: a stored epsilon would
be stuck with the accounting of its day, and epsilons add up to more than was lost.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

from chaffinch.errors import GuaranteeNotProven, InvalidInput, checks
from chaffinch.privacy import Composition, Guarantee, Mechanism, Target, compose
from chaffinch.privacy.guarantee import PROVEN
from chaffinch.privacy.mechanism_documents import mechanism_from, mechanism_text

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan

_MOST_TIMES = 10**6
_LONGEST_WORD = 200
"""Keys, plan ids and subjects are at most this long."""

_GROUP = re.compile("([0-9a-f]{64})/group/[0-9]+")
"""The plan id of a charge for one public group: that of the plan for all of them, and a number.

Whoever charges rounds of a plan under names of their own, as PLAN/3, means no groups.
"""

_KEPT_TOTALS = 64
"""A composed total holds arrays, so only the latest are kept."""


def word(parameter: str, value: object, *, least: int = 1) -> str:
    """Return a key, plan id or subject: printable text of ``least`` to 200 characters."""
    if not (
        isinstance(value, str) and least <= len(value) <= _LONGEST_WORD and value.isprintable()
    ):
        rule = f"{least} to {_LONGEST_WORD} printable characters"
        raise InvalidInput(parameter, rule, value)
    return value


class _Planned(Protocol):
    @property
    def id(self) -> str: ...

    def round_mechanism(self) -> Mechanism: ...


@dataclass(frozen=True)
class Charge:
    """One plan's mechanism, asked ``times`` over of the same people."""

    plan_id: str
    mechanism: Mechanism
    times: int = 1

    def __post_init__(self) -> None:
        word("plan id", self.plan_id)
        if not isinstance(self.mechanism, Mechanism):
            raise InvalidInput("mechanism", "a mechanism of chaffinch.privacy", self.mechanism)
        if self.mechanism.method not in PROVEN:
            raise InvalidInput("method of a charge", "a proof", self.mechanism.method)
        times = checks.whole("number of times", self.times, least=1, most=_MOST_TIMES)
        object.__setattr__(self, "times", times)
        _ = self.document, self.neighbours

    @classmethod
    def of(cls, plan: _Planned) -> Charge:
        """Return what one round of a plan costs each person who takes part."""
        return cls(plan.id, plan.round_mechanism())

    @classmethod
    def of_table(cls, plan: Plan) -> Charge:
        """Return what one round of a plan costs each row of a table that one party holds.

        A row is in one public group, so the charge says which group of which plan it is for.
        Where devices send the reports nobody knows that: there each group is charged by itself.
        """
        if plan.group is None:
            return cls.of(plan)
        shared = plan_of_all_groups(plan).id
        return cls(f"{shared}/group/{plan.group.number}", plan.round_mechanism())

    @cached_property
    def document(self) -> str:
        """Return the mechanism's document as canonical JSON, from which it is read again."""
        return mechanism_text(self.mechanism)

    @cached_property
    def neighbours(self) -> str:
        """Return which neighbours the mechanism protects: one kind, or the charge is refused."""
        parts = [part for part, _ in compose(self.mechanism).parts]
        return _one_kind({part.neighbours for part in parts} or {self.mechanism.neighbours})


@dataclass(frozen=True)
class Entry:
    """One line of a ledger. ``replayed``: the key was charged before, and nothing was now."""

    sequence: int
    key: str
    charge: Charge
    subject: str
    hash: str
    replayed: bool = False
    content: str = ""
    """The digest of what was handed out, where the ledger keeps it; otherwise nothing."""


@lru_cache(maxsize=1024, typed=True)
def charge_from(plan_id: str, document: str, times: int) -> Charge:
    """Return the charge whose mechanism is written in ``document``."""
    return Charge(plan_id, mechanism_from(json.loads(document)), times)


def plan_of_all_groups(plan: Plan) -> Plan:
    """Return the plan of which each public group has a copy; without groups the plan itself."""
    return plan if plan.group is None else replace(plan, group=replace(plan.group, value=None))


def total(charges: Iterable[Charge]) -> Mechanism:
    """Return everything charged as one mechanism: the same one whatever the order.

    A single mechanism asked once is itself; of all else the composed losses are bounded. Of the
    public groups of one plan only the one with the most charges counts.
    """
    counted = sorted(
        Counter(_of_one_group(charges)).items(), key=lambda pair: (pair[0].document, pair[0].times)
    )
    _one_kind({charge.neighbours for charge, _ in counted} or {Mechanism.neighbours})
    if len(counted) == 1 and counted[0][0].times * counted[0][1] == 1:
        return counted[0][0].mechanism
    parts: Counter[Mechanism] = Counter()
    for charge, count in counted:
        for part, rounds in compose(charge.mechanism, times=charge.times).parts:
            parts[part] += rounds * count
    return Composition(tuple(parts.items()))


def _of_one_group(charges: Iterable[Charge]) -> list[Charge]:
    """Return what one row can be charged: of each plan with groups, the group with the most.

    All groups of a plan have one mechanism. Which one a row is in may differ from plan to plan:
    taking the largest of each plan bounds what any row is exposed to.
    """
    listed = list(charges)
    groups: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in listed:
        if found := _GROUP.fullmatch(one.plan_id):
            groups[found[1], one.document][one.plan_id] += one.times
    others = {
        (plan_id, document)
        for (_, document), times in groups.items()
        for plan_id, _ in times.most_common()[1:]
    }
    return [one for one in listed if (one.plan_id, one.document) not in others]


@lru_cache(maxsize=_KEPT_TOTALS)
def fits(everything: Mechanism, cap: Target) -> bool:
    """Return whether a total is proven to stay within the cap.

    Compares the upper end of delta at the cap's epsilon, which needs no search for epsilon.
    What cannot be proven does not fit.
    """
    try:
        if everything.delta(cap.epsilon).upper <= cap.delta:
            return True
        # A delta falls with epsilon, but its proven end rises again where reports may be cut, by
        # (1 + e^epsilon) times the chance of that: then a smaller epsilon has the proof.
        return everything.epsilon(cap.delta).upper <= cap.epsilon
    except GuaranteeNotProven:
        return False


@lru_cache(maxsize=_KEPT_TOTALS)
def promised(everything: Mechanism, cap: Target) -> Guarantee:
    """Return the guarantee of a total at the cap's delta."""
    found = promised_at(everything, cap.delta)
    if fits(everything, cap):
        # The search for epsilon stops a little above; the cap itself was proven.
        found = replace(found, epsilon=min(found.epsilon, cap.epsilon))
    return found


def promised_at(everything: Mechanism, delta: float) -> Guarantee:
    """Return the guarantee of a total at a delta."""
    try:
        epsilon = everything.epsilon(delta).upper
    except GuaranteeNotProven:
        epsilon = everything.local_epsilon
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        neighbours=everything.neighbours,
        view=everything.view,
        crowd=everything.crowd_words,
        local_epsilon=everything.local_epsilon,
        method=everything.method,
    )


def _one_kind(kinds: set[str]) -> str:
    # Losses per person and losses per column do not compose.
    if len(kinds) != 1:
        raise InvalidInput(
            "neighbours of all charges in a ledger", "of one kind", ", ".join(sorted(kinds))
        )
    return next(iter(kinds))
