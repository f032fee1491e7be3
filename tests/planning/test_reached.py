"""What a plan says of its noise: the epsilon reached, never more than a report alone leaves."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import chaffinch as cf
from chaffinch import privacy
from chaffinch.plans.plan import Plan, plan_from
from chaffinch.privacy.guarantee import left_words, right_guesses
from chaffinch.protocols import Flips

USERS, DELTA = 10_000, 1e-6
LOCALS = (4.0, 0.5)


@cache
def wished(local: float | None, **other: Any) -> Plan:
    asked = {"users": USERS, "target": cf.Target(1.0, DELTA), "max_messages": 1, **other}
    return cf.plan(cf.Bit(), local_epsilon=local, **asked)


def exact_epsilon(plan: Plan, crowd: int) -> float:
    """Return the upper end of the exact epsilon of the plan's own flips, for the worst crowd."""
    protocol = plan.part().protocol
    assert isinstance(protocol, Flips)
    flipped = privacy.FlippedBits(users=crowd, flip_probability=protocol.flip_probability)
    return flipped.epsilon(DELTA).upper


@pytest.mark.parametrize("local", LOCALS)
def test_more_noise_than_the_promise_needs_is_told(local: float) -> None:
    plan = wished(local)
    exact = exact_epsilon(plan, USERS)
    assert exact < 0.5 * min(local, 1.0)
    # Proven, so never below; and a search to two thousandths, rounded up.
    assert exact <= plan.guarantee.epsilon <= 1.01 * exact
    assert plan.guarantee.method == "upper-bound"
    for share, epsilon in plan.reached.shares:
        among = exact_epsilon(plan, int(USERS * share))
        assert among <= epsilon <= 1.01 * among, share


@pytest.mark.parametrize("local", LOCALS)
def test_collusion_never_looks_safer_than_honesty(local: float) -> None:
    """Every epsilon that is said is at most the local one; only the file's promise is larger."""
    plan = wished(local)
    left = plan.guarantee.local_epsilon
    assert left <= local
    assert [e for _, e in plan.reached.shares] == sorted(e for _, e in plan.reached.shares)
    assert max(e for _, e in plan.reached.shares) <= left
    said = plan.explain()
    odds = right_guesses(plan.guarantee.epsilon, DELTA)
    assert f"at most {odds} after" in said
    assert odds <= right_guesses(left, 0)
    assert said.count("promises epsilon 1, as was asked for") == 1
    told = said.replace("promises epsilon 1,", "")
    numbers = [float(one) for one in re.findall(r"epsilon ([\d.]*\d)", told.split("\n\n")[2])]
    assert len(numbers) == 4
    assert max(numbers) <= local
    assert "promised: epsilon 1)" in str(plan)


def test_a_plan_that_keeps_just_its_promise_says_the_promise() -> None:
    for plan in (wished(None), wished(50.0), cf.plan(cf.Bit(), users=USERS, error=cf.Error(0.1))):
        assert plan.guarantee == plan.promise
        assert plan.reached.shares == plan.shares
        assert "as was asked for" not in plan.explain()
        assert "as stated in the plan" in plan.explain()


def test_the_file_keeps_what_was_asked_for() -> None:
    """What is reached is computed from the parameters: files and ids are those of before."""
    plan = wished(0.5)
    document = plan.document()
    assert document["guarantee"]["epsilon"] == "1"
    assert document["guarantee"]["method"] == "exact"
    assert {one["epsilon"] for one in document["honest_shares"]} == {"1"}
    again = plan_from(json.dumps(document))
    again.verify(shares=True)
    assert again.guarantee == plan.guarantee


def test_a_release_never_says_more_than_a_report_leaves() -> None:
    plan = wished(0.5, users=40, anyway=True)
    release = cf.analyze(cf.shuffle(cf.encode_many(["no"] * 40, plan)), plan)
    assert plan.promise.epsilon == 1.0
    assert release.guarantee.epsilon == release.guarantee.local_epsilon <= 0.5
    said = release.statement()
    assert said.odds.right == right_guesses(0.5, DELTA)


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        (3.4761, "epsilon 3.477 is left"),
        (227.61, "practically no protection (epsilon 227.7) is left"),
        (float("inf"), "no protection is left"),
    ],
)
def test_a_large_epsilon_is_not_called_a_protection(epsilon: float, said: str) -> None:
    assert f"{left_words(epsilon)} is left" == said
    shown = str(replace(wished(None).promise, local_epsilon=epsilon))
    assert ("no protection" in shown) == (epsilon > 4.6)


def test_people_and_ranges_are_told_apart() -> None:
    """Of a survey the largest influence on a count and that on a sum have units of their own."""
    number = cf.Number(0, 10)
    survey = cf.Survey({"tool": cf.Choice(list("abcd"), missing="refuse"), "time": number})
    plan = cf.plan(survey, users=500, target=cf.Target(2.0, DELTA), local_epsilon=20)
    people, ranges = (part.influence(plan.slots) for part in plan.parts)
    assert abs(people / ranges - 1) > 0.1
    trust = plan.explain().split("\n\n")[2]
    found = re.search(
        r"can move a count by at most ([\d.,]+) people and a sum by at most ([\d.,]+) ranges", trust
    )
    assert found is not None
    assert [float(one) for one in found.groups()] == [
        pytest.approx(people, rel=1e-3),
        pytest.approx(ranges, rel=1e-3),
    ]


def test_shares_of_a_crowd_are_those_of_whole_people() -> None:
    plan = wished(0.5, users=7, anyway=True)
    assert [share for share, _ in plan.reached.shares] == [
        Fraction(9, 10),
        Fraction(7, 10),
        Fraction(1, 2),
    ]
