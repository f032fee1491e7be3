"""Estimates, standard errors and intervals do what the plan says, and the tests can tell.

The false-alarm rate of one simulation is 1e-6, shared out over its tests (bias, standard
error and coverage of every value, and the simultaneous coverage): see `simulate.judging`.
"""

from __future__ import annotations

import pytest

from chaffinch.simulate import Simulation, simulate, zipf
from tests.simulate.settings import LARGE, changed, planned

RUNS = 20_000
PEOPLE = 20_000


def simulated(name: str, *, factor: float = 1.0, runs: int = RUNS) -> Simulation:
    plan = planned(PEOPLE, LARGE[name])
    people = zipf(plan, PEOPLE, seed=11, exponent=1.3)
    return simulate(plan, people, runs, seed=12, devices=changed(plan, factor))


@pytest.mark.parametrize("name", LARGE)
def test_estimates_are_as_exact_as_predicted(name: str) -> None:
    found = simulated(name)
    assert found.faults == ()
    assert found.worst.coverage >= 0.94
    assert all(coverage >= 0.94 for _, coverage in found.together)
    # The variance has about two degrees of freedom per run: 4 % is 5.6 standard deviations.
    for row in found.rows():
        assert row.error_observed == pytest.approx(row.error_predicted, rel=0.028)


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_tenth_more_or_less_noise_fails_every_test(name: str, factor: float) -> None:
    found = simulated(name, factor=factor)
    for what in ("the mean", "the standard error", "the coverage", "the simultaneous"):
        assert any(fault.startswith(what) for fault in found.faults), what
    assert found.worst.coverage < 0.94
    assert not found.ok
    assert "Not as predicted" in found.verdict


def test_surveys_are_judged_question_by_question() -> None:
    plan = planned(PEOPLE, LARGE["bit flips"], LARGE["choice decoys"], LARGE["number separate"])
    people = zipf(plan, PEOPLE, seed=1)
    found = simulate(plan, people, 1000, seed=2)
    assert found.ok
    assert [name for name, _ in found.together] == ["q0", "q1", "q2"]
    assert len(found.rows()) == 1 + 6 + 1


def test_no_false_alarms_over_many_seeds() -> None:
    # 60 simulations at 1e-6 each: a false alarm among them has a chance below 1e-4.
    plan = planned(400, LARGE["bit flips"], LARGE["choice decoys"], LARGE["number together"])
    people = zipf(plan, 400, seed=3)
    assert all(simulate(plan, people, 200, seed=seed).ok for seed in range(60))


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
def test_estimates_over_a_million_collections(name: str) -> None:
    assert simulated(name, runs=1_000_000).ok
    assert not simulated(name, factor=0.98, runs=1_000_000).ok
