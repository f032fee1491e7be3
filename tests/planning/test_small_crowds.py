"""A handful of people: a plan whose every promise is proven, or one refusal with a way out."""

from __future__ import annotations

import re
from typing import Any

import pytest

import chaffinch as cf
from chaffinch.errors import NoPlanFound, UselessPlan
from chaffinch.planning.wishes import default_delta
from tests.tiers import nightly

KINDS: dict[str, cf.Question | cf.Survey] = {
    "bit": cf.Bit(),
    "bit with gaps": cf.Bit(missing="count"),
    "choice of 2": cf.Choice(["a", "b"], missing="refuse"),
    "choice of 20": cf.Choice(range(20), missing="refuse"),
    "number": cf.Number(0, 60),
    "quantiles": cf.Number(0, 60, quantiles=True),
    "flag": cf.Flags(["a"]),
    "flags": cf.Flags(["a", "b", "c"]),
    "survey": cf.Survey({"one": cf.Bit(), "two": cf.Choice(["a", "b"], missing="count")}),
}
_SOME = {("bit", 5), ("number", 1), ("quantiles", 17), ("flag", 3)}
CROWDS = [
    (kind, users) if (kind, users) in _SOME else nightly(kind, users)
    for kind in KINDS
    for users in range(1, 31)
]


def planned(kind: str, users: int, epsilon: float = 1.0, **wishes: Any) -> cf.Plan:
    target = cf.Target(epsilon, default_delta(users))
    return cf.plan(KINDS[kind], users=users, target=target, **wishes)


def way_out(kind: str, users: int, hint: str) -> cf.Plan:
    """Do the first thing that a hint names."""
    if found := re.search(r"work: (\d+) users", hint):
        return planned(kind, int(found[1]))
    if found := re.search(r"work: (\d+) messages", hint):
        return planned(kind, users, max_messages=int(found[1]))
    found = re.search(r"work: an influence of ([\d.]+) people", hint)
    assert found, hint
    return planned(kind, users, influence=float(found[1]))


@pytest.mark.parametrize(("kind", "users"), CROWDS)
def test_every_small_crowd_is_planned_or_told_what_would_do(kind: str, users: int) -> None:
    try:
        made = planned(kind, users)
    except UselessPlan:
        made = planned(kind, users, anyway=True)
        assert "the answer will say nothing" in made.warnings[0]
    except NoPlanFound as refused:
        made = way_out(kind, users, refused.hint)
        assert not made.warnings
    made.verify(shares=True)


@pytest.mark.parametrize(
    "users", [nightly(users) if users != 5 else users for users in range(1, 31)]
)
def test_an_error_of_a_small_crowd_leads_to_a_promise(users: int) -> None:
    made = cf.plan(cf.Bit(), users=users, error=cf.Error(0.5), anyway=True)
    made.verify(shares=True)


@pytest.mark.long
def test_a_way_out_is_never_a_plan_of_no_use() -> None:
    """Of two people a larger influence would give a plan, and one that says nothing."""
    with pytest.raises(NoPlanFound, match=r"at most 10 people \(the default\)") as refused:
        planned("bit with gaps", 2)
    assert refused.value.hint == "any one of these would work: 32 users; epsilon 4"
    assert planned("bit with gaps", 2, epsilon=4.0).crowd == 2


def test_what_never_fits_a_report_is_not_looked_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of one person alone: a search down to nothing took twenty tries for each."""
    from chaffinch.planning import candidates

    tries: list[float] = []
    real = candidates.tuned_parts

    def counted(chosen: Any, strength: float, *others: Any) -> Any:
        tries.append(strength)
        return real(chosen, strength, *others)

    monkeypatch.setattr(candidates, "tuned_parts", counted)
    with pytest.raises(UselessPlan):
        planned("bit", 1)
    assert min(tries) > 1e-3
