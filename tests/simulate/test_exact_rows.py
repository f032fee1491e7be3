"""The exact numbers beside a release of made-up people: every interval holds them often enough.

Over ``RUNS`` collections an interval that holds with 95 % misses more often than ``MOST`` with a
chance of 1e-7; ten rows: 1e-6 in all. A number that is off by a quarter of it must miss more often.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.analyze import analyze
from chaffinch.errors import InvalidInput
from chaffinch.plans.expansion import GAP_SHARE
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Encoded, Flips
from chaffinch.protocols.noise import Truth
from chaffinch.simulate import Population, collect, uniform
from chaffinch.simulate.populations import draw_tallies, exact_rows
from chaffinch.wire.batches import new_name
from chaffinch.wire.messages import Tally
from tests.simulate.settings import chance
from tests.tiers import all_but

RUNS, MOST = 100, 20  # P[Bin(100, 0.05) > 20] < 1e-7
PEOPLE, OFF = 400, 0.25


def made(question: Any, *protocols: Any) -> Plan:
    parts = [Part("q", question, protocols[0])]
    parts += [Part("q (answered)", cf.Bit(), one, "q") for one in protocols[1:]]
    return Plan("", tuple(parts), PEOPLE, PEOPLE, PEOPLE, 1, 40.0, 0.5)


FLIPS, SLOTS = Flips(chance(0.05)), Flips(chance(0.05), slots=3)
STEPS = Encoded(chance(0.06), 8, together=True)
PLANS = {
    "gaps": (made(cf.Number(-5, 20, missing="count"), STEPS, FLIPS), ["mean", "answered", "sum"]),
    "number": (made(cf.Number(-5, 20), STEPS), ["mean", "sum"]),
    "choice": (made(cf.Choice(["a", "b"], missing="count"), SLOTS), ["a", "b", "(missing)"] * 2),
    "bit": (made(cf.Bit(), FLIPS), ["yes"]),
}


def misses(plan: Plan, people: Population) -> list[Counter[tuple[str, str]]]:
    """Return how often each row's interval misses the exact number, and one that is ``OFF``."""
    exact = exact_rows(plan, people)
    missed = [Counter[tuple[str, str]]() for _ in range(2)]
    draws = np.random.default_rng(7)
    rows = [
        draw_tallies(part, truth, RUNS, draws)
        for part, truth in zip(plan.parts, people.truths, strict=True)
    ]
    for counts in np.concatenate(rows, axis=1):
        found = analyze(Tally(plan.id, people.people, counts, new_name(), 1), plan).statement()
        for section in found.sections:
            for line in section.rows:
                named = section.heading, line.name or line.label
                low, high = line.ends
                for counter, told in zip(missed, (1.0, 1.0 + OFF), strict=True):
                    counter[named] += not low - 1e-9 <= exact[named] * told <= high + 1e-9
    assert set(missed[0]) == set(exact)
    return missed


@pytest.mark.parametrize("name", all_but(PLANS, "number", "bit"))
def test_every_row_holds_the_exact_number(name: str) -> None:
    plan, rows = PLANS[name]
    people = uniform(plan, PEOPLE, seed=3)
    missed, wrong = misses(plan, people)
    assert [row for _, row in missed] == rows
    assert max(missed.values()) <= MOST, missed
    assert max(wrong.values()) > MOST, wrong


def test_gaps_are_taken_off_a_sum() -> None:
    """Half of the people are gaps: the sum is not the mean times all of them."""
    plan, _ = PLANS["gaps"]
    people = uniform(plan, PEOPLE, seed=3)
    number, answered = people.truths
    exact = exact_rows(plan, people)
    silent = int(answered.counts[0])
    assert exact["q", "answered"] == PEOPLE - silent
    assert exact["q", "sum"] == pytest.approx(exact["q", "mean"] * (PEOPLE - silent))
    assert number.shares is not None
    told = number.counts - np.where(number.shares == GAP_SHARE, silent, 0)
    assert told.min() >= 0
    held = told @ (-5 + 25 * number.shares)
    assert exact["q", "sum"] == pytest.approx(held)


def test_who_is_shown_is_one_of_the_people() -> None:
    """What they hold and what all others hold is together what everybody holds."""
    plan = made(cf.Number(0, 10, missing="count"), STEPS, FLIPS)
    shares, counts = np.array([0.0, 0.5, 1.0]), np.array([90, 200, 110])
    answered = Truth("bit", PEOPLE, np.array([200, 200]))
    people = Population(PEOPLE, (Truth("number", PEOPLE, counts, shares), answered))
    seen = collect(plan, people, shown=40, seed=5)
    told = {one.answers["q"] for one in seen.devices}
    assert told == {"0", "10", "(missing)"}
    few = Truth("number", PEOPLE, np.array([190, 100, 110]), shares)
    with pytest.raises(InvalidInput, match="send the middle"):
        collect(plan, Population(PEOPLE, (few, answered)))
