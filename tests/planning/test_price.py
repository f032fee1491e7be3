"""What a promise costs: every point is the plan that would be made, and no point costs a proof."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput, NoPlanFound, UselessPlan
from chaffinch.planning import Price, price
from chaffinch.planning.baselines import central_margin, central_noises
from chaffinch.privacy.guarantee import right_guesses
from chaffinch.questions import Question, Survey
from tests.tiers import nightly

PEOPLE, DELTA = 2_000, 1e-8
DRINKS = cf.Choice(["tea", "coffee", "milk", "water"], missing="refuse")
GAPS = cf.Number(0, 60, missing="count")
TWO = Survey({"drink": cf.Bit(), "delay": cf.Number(0, 60)})
WAYS: dict[str, tuple[Question | Survey, dict[str, Any]]] = {
    "bit": (cf.Bit(), {}),
    "choice": (DRINKS, {}),
    "number": (cf.Number(0, 60), {}),
    "number with gaps": (GAPS, {}),
    "flags": (cf.Flags(["a", "b", "c"]), {"rounds": 2}),
    "survey": (TWO, {}),
    "one protocol": (cf.Bit(), {"protocol": "flips, 4 copies"}),
    "local wish": (DRINKS, {"local_epsilon": 3.0, "protocol": "flips"}),
    "local": (cf.Bit(), {"protocol": "local"}),
    "liars": (cf.Bit(), {"honest": 0.9}),
}


def prices(name: str, *epsilons: float, **more: Any) -> list[Price]:
    question, wishes = WAYS[name]
    asked = {"users": PEOPLE, "delta": DELTA, **wishes, **more}
    return list(price(question, epsilons=epsilons, **asked))


def made(name: str, epsilon: float, **more: Any) -> cf.Plan | None:
    question, wishes = WAYS[name]
    target = cf.Target(epsilon, more.pop("delta", DELTA))
    try:
        return cf.plan(question, **{"users": PEOPLE, "target": target, **wishes, **more})
    except (NoPlanFound, UselessPlan):
        return None


@pytest.mark.parametrize(
    ("name", "epsilons"),
    [
        ("bit", [1.0]),
        ("number", [0.5]),
        ("local", [1.0]),
        ("one protocol", [1.0]),
        *(nightly(name, [0.15, 0.3, 0.6, 1.0, 2.0]) for name in WAYS),
    ],
)
def test_each_point_is_the_plan_that_would_be_made(name: str, epsilons: list[float]) -> None:
    for one in prices(name, *epsilons):
        plan = made(name, one.epsilon)
        if plan is None:
            assert (one.plan, one.protocol) == (None, "")
            continue
        assert plan.own is not None
        # Protocols that are nearly as good as one another may change places.
        assert one.plan == pytest.approx(plan.margin(), rel=0.15)
        if one.protocol == plan.own.name:
            assert one.plan == plan.margin()
        assert one.right_guesses == right_guesses(one.epsilon, DELTA)


@pytest.mark.long
def test_most_points_take_the_very_protocol_that_a_plan_takes() -> None:
    grid = [0.15, 0.4, 0.8, 2.0]
    found = {one.epsilon: one.protocol for one in prices("choice", *grid)}
    chosen = [made("choice", epsilon) for epsilon in grid]
    assert all(plan is not None and plan.own is not None for plan in chosen)
    same = [plan.own.name == found[plan.epsilon] for plan in chosen if plan and plan.own]
    assert sum(same) >= 3


def test_nobody_is_trusted_as_in_the_local_plan() -> None:
    (one,) = prices("bit", 1.0)
    local = made("bit", 1.0, protocol="local")
    assert local is not None
    assert one.local == local.margin()
    assert one.centre is not None
    assert one.plan is not None
    assert one.centre <= one.plan <= one.local


@pytest.mark.long
def test_a_weaker_promise_is_never_dearer() -> None:
    found = prices("bit", *np.geomspace(0.1, 4.0, 6))
    epsilons = [one.epsilon for one in found]
    assert epsilons == sorted(epsilons, reverse=True)
    for name, room in (("centre", 1.0), ("local", 1.0), ("plan", 1.15)):
        line = [getattr(one, name) for one in found]
        # The largest epsilon comes first.
        assert all(left <= room * right for left, right in pairwise(line)), name
    assert [one.right_guesses for one in found] == sorted(
        (one.right_guesses for one in found), reverse=True
    )


def test_where_there_is_no_plan_there_is_no_point() -> None:
    # All guessers are right, so that a plan would be refused; nothing protects a handful of people.
    (useless,) = prices("bit", 7.0)
    assert (useless.plan, useless.protocol, useless.right_guesses) == (None, "", 100)
    assert made("bit", 7.0) is None
    (alone,) = prices("local", 0.01)
    assert alone.plan is None
    assert alone.local is None
    assert made("local", 0.01) is None


def test_a_centre_is_compared_with_one_answer_only() -> None:
    assert prices("bit", 1.0, rounds=2, protocol="decoys")[0].centre is None
    assert prices("number", 1.0)[0].centre is not None


def test_wishes_are_refused_before_the_first_point() -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        price(cf.Bit(), users=PEOPLE, epsilons=[1.0, 0.0])
    with pytest.raises(InvalidInput, match="protocol"):
        price(cf.Bit(), users=PEOPLE, epsilons=[1.0], protocol="magic")
    with pytest.raises(InvalidInput, match="level"):
        price(cf.Bit(), users=PEOPLE, epsilons=[1.0], confidence=1.0)


def test_points_come_one_by_one() -> None:
    started = time.process_time()
    points = price(cf.Bit(), users=PEOPLE, epsilons=[1.0] * 10_000)
    assert next(points).epsilon == 1.0
    # Ten thousand would take minutes.
    assert time.process_time() - started < 60.0


@pytest.mark.parametrize("question", [cf.Bit(), DRINKS, cf.Number(0, 60)])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_noise_of_a_centre_stays_within_its_margin(question: Question, alpha: float) -> None:
    for noise in central_noises(question, 0.7, 1e-6):
        steps, reach = noise.steps, np.arange(-4000, 4001)
        mass = (
            noise.parameter ** np.abs(reach.astype(float))
            if "Laplace" in noise.name
            else np.exp(-0.5 * (reach / (noise.parameter * steps)) ** 2)
        )
        beyond = {
            k: float(mass[np.abs(reach) > k].sum() / mass.sum())
            for k in (round(noise.margin(alpha) * steps) - 1, round(noise.margin(alpha) * steps))
        }
        wide, enough = beyond.values()
        assert enough <= alpha < wide
    assert central_margin(question, 0.7, 1e-6, alpha) == min(
        noise.margin(alpha) for noise in central_noises(question, 0.7, 1e-6)
    )


# ----------------------------------------------------------------------------
# The margin of a plan


def test_a_plan_says_how_wide_its_intervals_will_be() -> None:
    plan = made("number with gaps", 1.0, max_messages=2, users=1_000)
    assert plan is not None
    assert plan.margin() == cf.Error(1.0).margin(plan.parts, plan.reports)
    assert plan.margin(0.99, together=True) == cf.Error(1.0, 0.99, together=True).margin(
        plan.parts, plan.reports
    )
    assert plan.margin(0.99) > plan.margin()
    alone = [plan.margin(question=part.name) for part in plan.parts]
    assert max(alone) == plan.margin()
    with pytest.raises(InvalidInput, match="name of a question"):
        plan.margin(question="nobody")
    with pytest.raises(InvalidInput):
        plan.margin(1.0)


def test_a_release_prints_no_wider_intervals() -> None:
    plan = made("choice", 1.0, protocol="decoys")
    assert plan is not None
    wider = replace(plan, reports=plan.reports + 10)
    answers = ["tea"] * (wider.reports // 2) + ["milk"] * (wider.reports - wider.reports // 2)
    release = cf.analyze(cf.shuffle(cf.encode_many(answers, wider)), wider)
    rows = list(release.answer().rows())
    widest = max(max(row.high - row.estimate, row.estimate - row.low) for row in rows)
    assert widest <= wider.margin() * wider.reports * (1 + 1e-9)
    # How many decoys a batch has is left to chance: most have fewer than they may have.
    assert widest >= 0.6 * wider.margin() * wider.reports
