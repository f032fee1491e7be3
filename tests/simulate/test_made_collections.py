"""Twenty thousand collections that were really made: encoded, shuffled and counted, or added up.

`simulate` judges them as it judges draws from the law of the noise: bias, standard error, coverage
and number of messages, with a false alarm of 1e-6 in all. Each collection is a call of its own, so
no two share anything but the stream of random words. A law of the noise that is a tenth wider or
narrower than that of the encoder must fail.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import chaffinch as cf
from chaffinch.analysis.tally import tally
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Totals
from chaffinch.protocols.weighted import Weighted
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate import SeededWords, Simulation, simulate, zipf
from tests.simulate.settings import SMALL, chance, planned, weighted
from tests.tiers import nightly

RUNS, FEWER_RUNS = 20_000, 8_000
NUMBER = cf.Number(0, 10)
SEEDS = {"people": 3, "words": 4}


@dataclass(frozen=True)
class Setting:
    """A plan that the planner makes for so many people."""

    question: cf.Bit | cf.Choice | cf.Number
    users: int
    epsilon: float
    wishes: tuple[tuple[str, Any], ...]

    def plan(self) -> Plan:
        target = cf.Target(self.epsilon, 1e-6)
        wishes = dict(self.wishes)
        return cf.plan(self.question, users=self.users, target=target, anyway=True, **wishes)


TOTALS = (("view", "totals"),)
WEIGHTED = (("protocol", "weighted"), ("local_epsilon", math.inf))
SETTINGS: dict[str, Setting] = {
    "weighted, 1,000": Setting(NUMBER, 1_000, 2.0, WEIGHTED),
    "weighted, 10,000": Setting(NUMBER, 10_000, 1.0, WEIGHTED),
    "totals of a bit": Setting(cf.Bit(), 344, 1.0, TOTALS),
    "totals of a choice": Setting(cf.Choice(["a", "b", "c"]), 344, 2.0, (*TOTALS, ("rounds", 52))),
    "totals of numbers": Setting(NUMBER, 1_000, 1.0, TOTALS),
}
# Of many steps and few people: hardly any of the error is rounding, so that intervals are tight,
# and every person sends much of the noise, so that a collection is small.
FEW = {
    "weighted": weighted(20, 4, 3),
    "weighted, one code": weighted(20, 3, 3, whole_flood=(chance(0.1),)),
}


@cache
def plan_of(name: str) -> Plan:
    return planned(20, (NUMBER, FEW[name])) if name in FEW else SETTINGS[name].plan()


def numbers_of(plan: Plan) -> NDArray[Any]:
    (truth,) = zipf(plan, plan.users, seed=SEEDS["people"]).truths
    return truth.numbers()


def made(plan: Plan, runs: int) -> NDArray[np.int64]:
    """Return what is counted in each of many collections of the same people."""
    words, numbers, (part,) = SeededWords(SEEDS["words"]), numbers_of(plan), plan.parts
    if isinstance(part.protocol, Totals):
        how, question = part.protocol, part.question
        rows = (
            how.add_noise(question, how.add_up(question, numbers, words), words)
            for _ in range(runs)
        )
    else:
        batches = (encode_numbers(plan, [numbers], plan.users, words) for _ in range(runs))
        rows = (tally(shuffle_with(batch, words)).counts for batch in batches)
    return np.array([*rows])


def off(plan: Plan, factor: float) -> Plan:
    """Return the plan of noise that is so many times as wide."""
    (part,) = plan.parts
    how: Any = part.protocol
    if isinstance(how, Weighted):
        how = replace(how, ratio=chance(float(how.ratio) ** (1 / factor)))
    else:
        how = replace(how, scale=how.scale * Fraction(str(factor)))
    return replace(plan, parts=(replace(part, protocol=how),))


def judged(believed: Plan, seen: NDArray[np.int64], patch: pytest.MonkeyPatch) -> Simulation:
    """Return how collections do by the law of a plan."""
    rows, protocol = iter(seen), type(believed.parts[0].protocol)

    def replayed(*given: Any) -> NDArray[np.int64]:
        *_, runs, _draws, _places = given
        return np.array([next(rows) for _ in range(runs)])

    with patch.context() as within:
        within.setattr(protocol, "draw_tallies", replayed)
        people = zipf(believed, believed.users, seed=SEEDS["people"])
        return simulate(believed, people, len(seen), seed=1)


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("weighted", FEWER_RUNS),
        ("totals of a bit", RUNS),
        *(nightly(name, RUNS) for name in (*FEW, *SETTINGS) if name != "totals of a bit"),
    ],
)
def test_collections_are_as_exact_as_told(
    name: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(name)
    seen = made(plan, runs)
    found = judged(plan, seen, monkeypatch)
    assert found.faults == (), found.verdict
    assert found.worst.coverage >= 0.945
    wider, narrower = (judged(off(plan, factor), seen, monkeypatch) for factor in (1.1, 1 / 1.1))
    for wrong in (wider, narrower):
        assert any(fault.startswith("the standard error") for fault in wrong.faults), wrong.verdict
    if name in FEW and runs == RUNS:
        # Where an interval has no room for much rounding it is too short as well.
        assert any(fault.startswith("the coverage") for fault in narrower.faults), narrower.verdict


def test_rounding_down_is_a_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of few steps, and little noise: what is lost is half a step for every person.
    plan = planned(20, SMALL["number weighted"])

    def down(shares: NDArray[Any], steps: int, _words: object) -> NDArray[np.int64]:
        return np.asarray(np.floor(shares * steps), np.int64)

    with monkeypatch.context() as patch:
        patch.setattr("chaffinch.protocols.weighted.round_by_chance", down)
        seen = made(plan, runs=500)
    found = judged(plan, seen, monkeypatch)
    assert any(fault.startswith("the mean") for fault in found.faults)
    assert judged(plan, made(plan, runs=500), monkeypatch).ok
