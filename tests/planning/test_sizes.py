"""Plan files say where the number of messages in a report follows the noise, and whom to trust."""

from __future__ import annotations

import pytest

from chaffinch.errors import InvalidFile
from chaffinch.plans.plan import Plan, plan_from
from chaffinch.protocols import Protocol
from chaffinch.questions import Question
from chaffinch.wire.documents import canonical, identified
from tests.simulate.settings import SMALL, planned


def sized(*asked: tuple[Question, Protocol]) -> Plan:
    plan = planned(100, *asked)
    assert plan_from(canonical(plan.document())).document() == plan.document()
    return plan


def test_a_plan_says_where_sizes_follow_the_noise() -> None:
    flips, clear, apart = SMALL["bit flips"], SMALL["choice decoys"], SMALL["bit signed"]
    mixed = sized(flips, clear, apart)
    assert mixed.document()["messages"]["varying"] == ["q1", "q2"]
    hop = "100 honest users and a first hop that does not work with the analyzer"
    assert mixed.guarantee.crowd == sized(apart).guarantee.crowd == hop
    # Sizes tell nothing more of uniform decoys, and nobody sees those of flips.
    assert sized(clear).guarantee.crowd == sized(flips).guarantee.crowd == "100 honest users"
    assert sized(clear).document()["messages"]["varying"] == ["q0"]
    assert "varying" not in sized(flips).document()["messages"]
    said = mixed.explain()
    assert said.count("how many are filled follows the noise, never the answer") == 2


def test_a_plan_that_says_other_sizes_is_refused() -> None:
    body = sized(SMALL["choice decoys"]).document()
    form = body.pop("format")
    del body["id"], body["messages"]["varying"]
    with pytest.raises(InvalidFile, match="follow from its parameters"):
        plan_from(canonical(identified(form, body)))
