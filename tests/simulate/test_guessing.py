"""The best guesser keeps to the promise, and is far beyond it where the noise is missing.

With a false-alarm rate of 1e-6 each: a Clopper-Pearson bound of how often the guesser is right is
compared with (e^ε + δ)/(1 + e^ε), the exact promise.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput
from chaffinch.plans.plan import Plan
from chaffinch.questions import Question
from chaffinch.simulate import Score, guessing_game, uniform, zipf
from chaffinch.simulate.judging import clopper_pearson
from tests.planned_once import plans_are_made_once  # noqa: F401 - the same few surveys
from tests.simulate.settings import ALARM, NOISE, chance
from tests.tiers import nightly

ROUNDS = 100_000
PEOPLE = 300
DRINKS = cf.Choice(["tea", "coffee", "milk"], missing="refuse")
WAYS: dict[str, tuple[Question, str]] = {
    "bit flips": (cf.Bit(), "flips"),
    "bit copies": (cf.Bit(), "flips, 4 copies"),
    "bit decoys": (cf.Bit(), "decoys"),
    "bit signed": (cf.Bit(), "signed decoys"),
    "choice flips": (DRINKS, "flips"),
    "choice decoys": (DRINKS, "decoys"),
    "choice signed": (DRINKS, "signed decoys"),
    "choice flipped decoys": (DRINKS, "flipped-decoys"),
    "flags": (cf.Flags(["a", "b"]), "flips"),
    "flags signed": (cf.Flags(["a", "b"]), "signed decoys"),
    "number": (cf.Number(0, 10), "encoded"),
    "number signed": (cf.Number(0, 10), "signed decoys"),
    "steps": (cf.Number(0, 10, quantiles=True), "encoded"),
    "local": (cf.Bit(), "local"),
}
GATE = ("bit flips", "bit signed", "choice decoys", "flags", "number", "local")


def planned(name: str, epsilon: float = 1.0) -> Plan:
    question, way = WAYS[name]
    target = cf.Target(epsilon, 1e-4)
    return cf.plan(
        question, users=PEOPLE, target=target, protocol=way, max_messages=10_000, anyway=True
    )


def certainly(score: Score) -> tuple[float, float]:
    """Return how often the guesser is right at the least and at the most."""
    low, high = clopper_pearson(score.right, score.rounds, ALARM)
    return float(low), float(high)


def promised(plan: Plan) -> float:
    power = math.exp(plan.epsilon)
    return (power + plan.delta) / (1.0 + power)


def broken(plan: Plan, factor: float = 1 / 1000) -> Plan:
    """Return the plan of devices that leave nearly all noise out."""
    protocol: Any = plan.parts[0].protocol
    name = NOISE[type(protocol)]
    wrong: dict[str, Any] = {name: chance(float(getattr(protocol, name)) * factor)}
    if getattr(protocol, "flood", None):
        wrong["flood"] = tuple(chance(float(rate) * factor) for rate in protocol.flood)
    if getattr(protocol, "finer", None):
        finer = protocol.finer
        wrong["finer"] = tuple(
            replace(one, ratio=chance(float(one.ratio) * factor), flood=wrong["flood"])
            for one in finer
        )
    part = replace(plan.parts[0], protocol=replace(protocol, **wrong))
    return replace(plan, parts=(part,))


@pytest.mark.parametrize("name", [name if name in GATE else nightly(name) for name in WAYS])
def test_no_guesser_beats_the_promise_and_one_without_noise_does(name: str) -> None:
    plan = planned(name)
    game = guessing_game(plan, others=uniform(plan, PEOPLE - 1, seed=3))
    score = game.score(ROUNDS, seed=4)
    low, _ = certainly(score)
    assert low <= promised(plan)
    assert score.promise == game.promise == math.ceil(100 * promised(plan))
    # A guesser who learns nothing is none: this one does better than a coin.
    assert low > 0.5
    if name == "choice flipped decoys":
        return  # Its whole records of decoys are noise enough by themselves.
    others = uniform(plan, PEOPLE - 1, seed=3)
    seen = guessing_game(plan, others=others, devices=broken(plan)).score(20_000, seed=4)
    assert certainly(seen)[0] > promised(plan)


def test_a_local_plan_alone_is_guessed_as_often_as_it_says() -> None:
    """Of one other person who is known, randomized response is all that hides the answer."""
    question, epsilon = cf.Bit(), 1.0
    plan = cf.plan(
        question, users=2, target=cf.Target(epsilon, 1e-6), protocol="local", anyway=True
    )
    low, high = certainly(guessing_game(plan).score(ROUNDS, seed=1))
    # The tally of two flipped bits, one of which is known before it is flipped.
    flip = 1.0 / (1.0 + math.exp(epsilon))
    law = {1: np.array([flip, 1 - flip]), 0: np.array([1 - flip, flip])}
    other = law[int(uniform(plan, 1).truths[0].counts[1])]
    exact = 0.5 * np.maximum(np.convolve(law[0], other), np.convolve(law[1], other)).sum()
    assert low <= exact <= high


@pytest.mark.parametrize(
    ("question", "pair", "shown"),
    [
        (cf.Bit(), ("no", "yes"), ("yes",)),
        (DRINKS, ("milk", "tea"), ("tea", "milk")),
        nightly(cf.Flags(["a", "b", "c"]), (["a", "b"], ["b", "c"]), ("a", "c")),
        (cf.Number(0, 10), (0, 10), ("sum",)),
    ],
)
def test_any_two_answers_can_be_played(question: Question, pair: Any, shown: Any) -> None:
    plan = cf.plan(question, users=PEOPLE, target=cf.Target(8.0, 1e-4), protocol=None, anyway=True)
    game = guessing_game(plan, *pair)
    rounds = game.play(400, seed=5)
    assert {one.holds for one in rounds} == {game.first, game.second}
    assert all(tuple(name for name, _ in one.differences) == shown for one in rounds)
    right = sum(one.is_right for one in rounds)
    assert right > 300
    # What is released is higher, on average, where it is held.
    for place, name in enumerate(shown):
        held = {
            truth: np.mean([one.differences[place][1] for one in rounds if one.holds == truth])
            for truth in (game.first, game.second)
        }
        if name == "sum":
            assert held["10"] - held["0"] == pytest.approx(10, abs=6)
        elif name == "yes":
            assert held["yes"] > held["no"] + 0.4
        else:
            first = name in game.first.split(", ")
            assert (held[game.first] > held[game.second]) == first


def test_a_game_is_repeated_by_its_seed() -> None:
    game = guessing_game(planned("bit flips"))
    assert game.score(1000, seed=6) == game.score(1000, seed=6)
    assert game.score(1000, seed=6).right != game.score(1000, seed=7).right
    assert game.play(5, seed=6) == game.play(5, seed=6)
    assert game.score().seed != game.score().seed


def test_a_thousand_rounds_are_quick() -> None:
    plan = planned("choice signed")
    game = guessing_game(plan, others=zipf(plan, 2_000))
    game.score(10, seed=1)
    started = time.process_time()
    game.score(1000, seed=2)
    assert time.process_time() - started < 0.05


@pytest.mark.parametrize("name", ["bit flips", "choice signed", "choice decoys"])
def test_in_a_crowd_far_larger_than_planned_there_is_less_to_guess(name: str) -> None:
    plan = planned(name)
    score = guessing_game(plan, others=zipf(plan, 1_000_000)).score(20_000, seed=2)
    low, high = certainly(score)
    assert high > 0.5
    assert low < promised(plan) - 0.1


def test_answers_that_make_no_game_are_refused() -> None:
    plan, number = planned("choice decoys"), planned("number")
    with pytest.raises(InvalidInput, match="differ"):
        guessing_game(plan, "tea", "tea")
    with pytest.raises(InvalidInput, match="bounds"):
        guessing_game(number, 0, 5)
    with pytest.raises(InvalidInput, match="other people"):
        guessing_game(plan, others=uniform(plan, 10))
    with pytest.raises(InvalidInput, match="rounds"):
        guessing_game(plan).score(0)


def test_a_cross_is_played_at_its_levels() -> None:
    cross = cf.Cross({"late": cf.Bit(), "hours": cf.Number(0, 4)}, levels=3)
    plan = cf.plan(cross, users=PEOPLE, target=cf.Target(1.0, 1e-4))
    game = guessing_game(plan)
    assert (game.first, game.second) == ("no × 0", "no × 2")
    with pytest.raises(InvalidInput, match="levels"):
        guessing_game(plan, {"late": False, "hours": 1}, {"late": True, "hours": 2})
