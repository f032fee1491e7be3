"""Numbers as weighted codes: the default where it is better, and for all that surveys ask."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.errors import GuaranteeNotProven
from chaffinch.planning.baselines import central_error
from chaffinch.planning.candidates import choose_variants, for_target, most_exact
from chaffinch.planning.wishes import Wishes
from chaffinch.plans.expansion import answers_of_parts
from chaffinch.plans.plan import Plan, plan_from
from chaffinch.protocols import protocol_variants
from chaffinch.protocols.weighted import Weighted
from chaffinch.questions import Question
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate import SeededWords
from chaffinch.wire.documents import identified
from tests.tiers import nightly

NUMBER = cf.Number(0, 100)
TARGET = cf.Target(2.0, 1e-6)
USERS = 2_000
ONE_WAY = "weighted, two codes, 81% of epsilon for the sum"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return cf.plan(NUMBER, users=USERS, target=TARGET)


def weighed(question: cf.Number | cf.Survey, **wishes: Any) -> list[str]:
    """Return the names of the ways that are chosen for the parts of a plan, before any search."""
    asked: dict[str, Any] = dict.fromkeys(Wishes.__dataclass_fields__)
    asked |= {"question": question, "users": USERS, "target": TARGET, "rounds": 1}
    asked |= {"contributions": 1, "max_messages": 64, "honest": 1.0, "view": "messages"}
    task = Wishes(**{**asked, **wishes}).task()
    return [one.name for one in choose_variants(task, (2.0, 1e-6))]


def test_a_number_is_weighted_unless_somebody_wishes_otherwise(plan: Plan) -> None:
    assert isinstance(plan.part().protocol, Weighted)
    assert plan.choice.startswith("Chosen for the fewest messages within 15 % of the smallest")
    others = [one for one in plan.alternatives if one.name.startswith("number in")]
    assert all(one.error > 2 * plan.part().standard_error(USERS) for one in others)
    assert weighed(NUMBER) == [ONE_WAY]
    assert weighed(NUMBER, local_epsilon=math.inf)[0].startswith(("weighted", "signed"))
    for wishes in ({"local_epsilon": 1000.0}, {"influence": 20.0}, {"users": 100}):
        assert weighed(NUMBER, **wishes)[0].startswith("number in")


def test_three_costs_are_told(plan: Plan) -> None:
    said, most = plan.explain(), plan.part().influence(plan.slots)
    assert "if they work together, no protection is left" in said
    assert "a first hop that does not work with the analyzer" in said
    told = said.partition("One dishonest report can move a sum by at most ")[2].split()[0]
    assert most <= float(told.replace(",", "")) <= 1.02 * most


@pytest.mark.parametrize(
    "users", [10**7, *map(nightly, (10**5, 150_000, 16 * 10**5, 10**6, 10**8, 10**9))]
)
def test_the_price_of_trusting_nobody_stays_the_same_in_every_crowd(users: int) -> None:
    asked: dict[str, Any] = dict.fromkeys(Wishes.__dataclass_fields__)
    asked |= {"question": NUMBER, "users": users}
    asked |= {"target": cf.Target(1.0, 1e-6), "rounds": 1, "contributions": 1}
    asked |= {"max_messages": 64, "honest": 1.0, "view": "messages"}
    task = Wishes(**asked).task()
    ways = [one for one in protocol_variants(NUMBER, 64, clear=True) if "weighted" in one.name]
    found = [for_target(one.name, [one], (1.0, 1e-6), task) for one in ways]
    best, _ = most_exact([one for one in found if one is not None], task)
    assert best.error <= 1.3 * central_error(NUMBER, 1.0, 1e-6)
    assert best.messages <= 4.5
    assert best.slots <= 90


def test_few_ways_are_weighed_unasked() -> None:
    def names(*, wished: bool = False) -> list[str]:
        found = protocol_variants(NUMBER, 64, clear=True, wished=wished)
        return [one.name for one in found if not one.name.startswith("number in")]

    assert names() == [ONE_WAY, ONE_WAY.replace("two codes", "one code")]
    assert set(names()) < set(names(wished=True))
    assert len(names(wished=True)) == 7


def test_who_answered_is_in_clear_only_if_the_answer_is() -> None:
    gaps = cf.Number(0, 100, missing="count")
    number, answered = weighed(gaps)
    assert (number, answered.partition(",")[0]) == (ONE_WAY, "signed decoys")
    # Here one report of weighted codes would move the sum by too much.
    number, answered = weighed(gaps, influence=20.0)
    assert number.startswith("number in")
    assert answered.startswith("flips")


MIXED: dict[str, Question] = {
    "hours": cf.Number(0, 60, missing="count"),
    "colour": cf.Choice(["red", "green", "blue"]),
}


@pytest.mark.parametrize(
    ("asked", "wishes"),
    [
        (cf.Survey(MIXED), {}),
        nightly(cf.Survey({**MIXED, "income": NUMBER, "member": cf.Bit()}), {}),
        nightly(cf.Number(0, 60, missing="count"), {"rounds": 3}),
        nightly(NUMBER, {"honest": 0.9}),
        nightly(cf.Number(0, 60, missing=0), {"contributions": 2}),
    ],
    ids=["survey", "longer survey", "rounds", "honest", "contributions"],
)
def test_weighted_numbers_serve_all_that_can_be_asked(
    asked: cf.Number | cf.Survey, wishes: dict[str, Any]
) -> None:
    """Every z-value below 6, and intervals that hold but for one in a million."""
    plan = cf.plan(asked, users=USERS, target=cf.Target(4.0, 1e-6), **wishes)
    kinds = {part.protocol.kind for part in plan.parts if part.question.shape == "number"}
    assert kinds == {"weighted"}
    again = plan_from(json.dumps(plan.document()))
    assert again.id == plan.id
    again.verify()
    words, draws = SeededWords(3), np.random.default_rng(4)
    given: list[Any] = []
    for part in plan.parts:
        if part.answers_to is None and part.question.shape == "number":
            shares = draws.random(plan.reports)
            if part.question.missing == "count":  # type: ignore[union-attr]
                shares[draws.random(plan.reports) < 0.2] = math.nan
            given.append(shares)
        elif part.answers_to is None:
            given.append(draws.integers(0, 2, plan.reports).astype(np.uint8))
    reports = encode_numbers(plan, answers_of_parts(plan.parts, given), plan.reports, words)
    release = cf.analyze(shuffle_with(reports, words), plan, level=1 - 1e-6)
    asked_parts = [part for part in plan.parts if part.answers_to is None]
    for answer, part, shares in zip(release.answers, asked_parts, given, strict=True):
        if isinstance(part.question, cf.Number):
            truth = part.question.high * np.nanmean(shares)
            assert float(answer.low[0]) <= truth <= float(answer.high[0])
            error = part.standard_error(plan.reports) / plan.reports * part.question.high
            # Shares of those who answered, and of how many they are, may each be off by as much.
            assert abs(float(answer.estimates[0]) - truth) < 6 * 2 * error


def test_a_plan_with_less_noise_is_not_verified(plan: Plan) -> None:
    document = plan.document()
    protocol = document["questions"][0]["protocol"]
    protocol["code_flood"] = protocol["code_flood"][:-1]
    del document["id"]
    forged = plan_from(json.dumps(identified(document.pop("format"), document)))
    with pytest.raises(GuaranteeNotProven):
        forged.verify()
