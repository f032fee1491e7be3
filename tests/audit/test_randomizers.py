"""Randomizers that people bring: faults are found, and honest ones are not accused."""

from __future__ import annotations

import math
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput
from chaffinch.simulate import RandomizerAudit, audit_randomizer
from chaffinch.simulate.judging import miss_limit
from tests.cases import each_case
from tests.tiers import all_but, nightly, some

EPSILON = math.log(4)
"""Of flips with chance 1/5."""
TRIALS = 20_000


def flipping(draws: random.Random, chance: float) -> Callable[[int], int]:
    return lambda bit: bit if draws.random() >= chance else 1 - bit


def noisy(draws: random.Random, scale: float) -> Callable[[float], float]:
    return lambda number: number + scale * (draws.expovariate(1) - draws.expovariate(1))


def audited(randomizer: Callable[[Any], object], **more: Any) -> RandomizerAudit:
    given: dict[str, Any] = {"answers": [0, 1], "epsilon": EPSILON, "trials": TRIALS} | more
    return audit_randomizer(randomizer, **given)


# ------------------------------------------------------------------ honest ones


def honest(draws: random.Random) -> dict[str, tuple[Callable[[Any], object], dict[str, Any]]]:
    flip = flipping(draws, 0.2)
    return {
        "bit": (flip, {}),
        "several messages": (lambda x: [flip(x), "dummy"], {}),
        "an array": (lambda x: np.array([flip(x), 7]), {}),
        "noise": (noisy(draws, 1 / EPSILON), {}),
        "silence": (lambda _: None, {"epsilon": 0.0}),
        "a crowd": (flip, {"users": 6, "delta": 0.01, "trials": 4000}),
    }


@pytest.mark.parametrize("name", some(honest(random.Random(0)), "bit", "noise", "a crowd"))
def test_an_honest_randomizer_is_not_accused(name: str) -> None:
    randomizer, more = honest(random.Random(5))[name]
    result = audited(randomizer, **more)
    assert result.ok, result.verdict
    assert "never prove" in result.verdict


def test_the_bound_is_near_the_truth() -> None:
    result = audited(flipping(random.Random(6), 0.2), trials=100_000)
    assert 0.95 * EPSILON < result.lower_bound <= EPSILON


def test_a_false_alarm_is_as_rare_as_stated() -> None:
    """At a confidence of 0.8 a fifth of the audits may accuse; more pass the limit with 1e-6."""
    audits = 150
    alarms = sum(
        not audit_randomizer(
            [["0.7", "0.3"], ["0.3", "0.7"]], trials=1000, confidence=0.8, seed=seed
        ).ok
        for seed in range(audits)
    )
    assert 0 < alarms <= miss_limit(0.2, audits, 1e-6)


# ------------------------------------------------------------------ planted faults


def forgetful(draws: random.Random) -> Callable[[int], object]:
    """Forget to randomize, one time in twenty, and show it."""
    flip = flipping(draws, 0.2)
    return lambda x: ("clear", x) if draws.random() < 0.05 else flip(x)


def lengthy(draws: random.Random) -> Callable[[int], object]:
    """Flip as promised, and send as many dummies as the answer says."""
    flip = flipping(draws, 0.2)
    return lambda x: [flip(x)] + ["dummy"] * x


def seeded(draws: random.Random) -> Callable[[int], object]:
    """Flip twice with the same coin: the second message undoes the first."""

    def send(x: int) -> object:
        flipped = draws.random() < 0.2
        return (x ^ flipped, flipped)

    return send


PLANTS: dict[str, tuple[Callable[[random.Random], Callable[[Any], object]], dict[str, Any]]] = {
    "half the flips": (lambda draws: flipping(draws, 0.1), {}),
    "a tenth fewer flips": (lambda draws: flipping(draws, 0.18), {"trials": 200_000}),
    "no flips": (lambda _: lambda x: x, {}),
    "one side never flips": (lambda draws: lambda x: x or int(draws.random() < 0.2), {}),
    "forgets": (forgetful, {}),
    "number of messages": (lengthy, {}),
    "the coin is sent": (seeded, {}),
    "too little noise": (lambda draws: noisy(draws, 0.5 / EPSILON), {}),
    "noise beyond a bound": (lambda draws: lambda x: x + draws.random(), {}),
    "third answer": (
        lambda draws: lambda x: x if x == 2 else flipping(draws, 0.2)(x),
        {"answers": [0, 1, 2]},
    ),
    "in a crowd": (
        lambda draws: flipping(draws, 0.02),
        {"users": 8, "epsilon": 1.0, "delta": 0.01},
    ),
}


@pytest.mark.parametrize("name", all_but(PLANTS, "a tenth fewer flips", "one side never flips"))
def test_every_planted_fault_is_found(name: str) -> None:
    make, more = PLANTS[name]
    result = audited(make(random.Random(7)), **more)
    assert not result.ok, result.verdict
    assert result.verdict.startswith("Refuted")


# ------------------------------------------------------------------ tables and words


def test_a_table_is_judged_by_the_accountant() -> None:
    table = [["1/2", "1/4", "1/4"], ["1/4", "1/2", "1/4"], ["1/4", "1/4", "1/2"]]
    alone = cf.audit(table, seed=1, trials=TRIALS)
    assert alone.claimed == pytest.approx(math.log(2))
    assert 0.8 * math.log(2) < alone.lower_bound <= alone.claimed
    crowd = cf.audit(table, users=5, delta=0.01, seed=1, trials=TRIALS)
    exact = cf.privacy.amplification.ShuffledTable(table, users=5).epsilon(0.01)
    assert crowd.claimed == exact.upper
    assert 0 < crowd.lower_bound <= exact.upper
    assert cf.audit(table, seed=1, trials=TRIALS) == alone


def test_one_name_for_plans_and_randomizers() -> None:
    plan = cf.plan(cf.Bit(), users=100, target=cf.Target(1, 1e-3), local_epsilon=2)
    assert cf.audit(plan, trials=1000, seed=3) == cf.simulate.audit(plan, trials=1000, seed=3)
    with pytest.raises(InvalidInput, match="load_plan"):
        cf.audit("plan.json")


def test_what_is_looked_at_can_be_said() -> None:
    draws = random.Random(8)

    def send(x: int) -> str:
        return f"{draws.getrandbits(64):x}-{x}"

    with pytest.raises(InvalidInput, match="`see`"):
        audited(send, trials=1000)
    result = audited(send, trials=1000, see=lambda view: str(view[0])[-1])
    assert not result.ok


def test_without_a_claim_nothing_is_refuted() -> None:
    result = audited(lambda x: x, epsilon=None)
    assert result.ok
    assert result.verdict.startswith("Nothing was claimed")
    document = result.document()
    assert document["lower_bound"] == result.lower_bound > 5
    assert "epsilon at least" in result._repr_html_()


@each_case(
    "bad",
    [{"answers": None}, {"answers": [1]}, {"answers": "ab"}, {"trials": 10}, {"users": 0},
     {"delta": -0.1}, {"confidence": 1.0}, {"epsilon": math.nan}],
)  # fmt: skip
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        audited(lambda x: x, **bad)


def test_a_message_that_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InvalidInput, match="message"):
        audited(lambda x: {"bit": x})


def test_a_message_of_another_type_that_comes_late_is_told() -> None:
    calls = iter(range(10**6))
    draws = random.Random(3)

    def late(number: float) -> object:
        return number + draws.random() if next(calls) < TRIALS else None

    with pytest.raises(InvalidInput, match="NoneType") as caught:
        audited(late)
    assert "see" in caught.value.hint


@pytest.mark.parametrize("see", [None, nightly(sum)])
def test_a_crowd_is_drawn_in_parts(see: Callable[..., Any] | None) -> None:
    """A million messages were held at once, in some 120 MiB."""
    tracemalloc.start()
    try:
        rows = [["0.8", "0.2"], ["0.2", "0.8"]]
        found = audit_randomizer(rows, users=100, delta=1e-6, epsilon=1.0, trials=1000, see=see)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.ok
    assert most < 16 << 20
