"""What is said beforehand of a release whose errors depend on the answers: it is not too little."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.analyze import analyze
from chaffinch.planning.plan_card import expected
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Encoded, Flips
from chaffinch.simulate import from_column
from chaffinch.simulate.populations import draw_tallies
from chaffinch.wire.batches import new_name
from chaffinch.wire.messages import Tally
from tests.simulate.settings import chance

PEOPLE = 6_000
WAIT = cf.Number(0, 240, unit="minutes", missing="count")


def released(plan: Plan, table: Any) -> cf.Release:
    """Return the release of a table, its noise drawn with a seed."""
    draws = np.random.default_rng(5)
    people = from_column(plan, table)
    counts = [
        draw_tallies(part, truth, 1, draws)[0]
        for part, truth in zip(plan.parts, people.truths, strict=True)
    ]
    return analyze(Tally(plan.id, PEOPLE, np.concatenate(counts), new_name(), 1), plan)


def numbers(words: str) -> list[float]:
    return [float(one) for one in re.findall(r"± ([\d.]+)", words)]


@pytest.fixture(scope="module")
def gaps() -> Plan:
    steps = Encoded(chance(0.06), 8, together=True)
    parts = (
        Part("wait", WAIT, steps),
        Part("wait (answered)", cf.Bit(), Flips(chance(0.05)), "wait"),
    )
    return Plan("", parts, PEOPLE, PEOPLE, PEOPLE, 1, 40.0, 0.5)


@pytest.fixture(scope="module")
def crossed() -> Plan:
    wards = cf.Choice(list("ABCDEF"), missing="refuse")
    question = cf.questions.Cross({"ward": wards, "wait": WAIT}, levels=5)
    part = Part("wait by ward", question, Flips(chance(0.01), slots=9))
    return Plan("", (part,), PEOPLE, PEOPLE, PEOPLE, 1, 40.0, 0.5)


@pytest.mark.parametrize(("answered", "place"), [(1.0, 0), (0.5, 1)])
@pytest.mark.parametrize("at", [0.0, 120.0, 240.0])
def test_the_interval_of_a_mean_is_as_wide_as_said(
    gaps: Plan, answered: float, place: int, at: float
) -> None:
    people = int(answered * PEOPLE)
    release = released(gaps, [at] * people + [None] * (PEOPLE - people))
    (row,) = [one for one in release.table() if one.kind == "mean"]
    half = max(row.estimate - row.low, row.high - row.low - (row.estimate - row.low))
    ((_, words),) = expected(gaps, gaps.parts[0])
    said = numbers(words)[place] / 100 * 240
    # Said for the estimated share of answers; to two digits; and cut at the ends of the range.
    assert half <= 1.1 * said
    # And for the worst mean, at an end of the range.
    if answered < 1 and at != 120.0:
        assert said <= 1.6 * half
    # What holds if everybody answers is far too little where half do.
    assert half <= 1.1 * numbers(words)[0] / 100 * 240 or answered == 0.5


def test_half_of_the_answers_are_not_told_as_all_of_them(gaps: Plan) -> None:
    whole, half = gaps.margin(), gaps.margin(answered=0.5)
    assert 1.9 * whole < half < 2.3 * whole
    assert gaps.margin(answered=0.001) == 1.0
    assert "if everybody answers" in gaps.explain()
    with pytest.raises(cf.errors.InvalidInput, match="share of answers"):
        gaps.margin(answered=0.0)


@pytest.mark.parametrize("at", [2.0, 60.0, 120.0, 238.0])
def test_the_error_of_a_group_is_within_what_is_said(crossed: Plan, at: float) -> None:
    """At any mean: the smallest error is that of one in the middle, the largest at an end."""
    spread = np.random.default_rng(1).uniform(-2, 2, PEOPLE)
    table = {"ward": list("ABCDEF") * (PEOPLE // 6), "wait": (at + spread).tolist()}
    release = released(crossed, table)
    told = re.search(r"about ([\d.]+) of the range .*and of ([\d.]+) at an end", crossed.explain())
    assert told is not None
    least, most = (240 * float(one) for one in told.groups())
    errors = [one.standard_error for one in release.table() if one.kind == "mean" and one.group]
    assert len(errors) == 6
    for error in errors:
        assert error is not None
        # Groups are as large as estimated: within a twentieth of what they are.
        assert 0.95 * least <= error <= 1.05 * most


def test_the_card_says_what_pages_show(crossed: Plan) -> None:
    """Counts of people in a group and means of it, not cells that no page shows."""
    found = dict(expected(crossed, crossed.parts[0]))
    assert list(found) == ["mean of wait per ward", "people per ward"]
    table = {"ward": list("ABCDEF") * (PEOPLE // 6), "wait": [120.0] * PEOPLE}
    release = released(crossed, table)
    margins = [one for one in release.table() if one.kind == "margin"]
    half = max(one.high - one.estimate for one in margins)
    said = re.search(r"\(([\d.,]+) people\)", found["people per ward"])
    assert said is not None
    assert half - 1 <= float(said[1].replace(",", "")) <= 1.15 * half
    means = [one for one in release.table() if one.kind == "mean" and one.group]
    widths = [(one.high - one.low) / 2 for one in means]
    told = re.search(r"± ([\d.]+) to ([\d.]+) minutes", found["mean of wait per ward"])
    assert told is not None
    least, most = map(float, told.groups())
    assert 0.9 * least <= max(widths) <= 1.1 * most
    assert "cell" not in crossed._repr_html_()
