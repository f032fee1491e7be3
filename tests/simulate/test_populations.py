from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput
from chaffinch.simulate import Population, SeededWords, Truth, from_column, simulate, uniform, zipf
from chaffinch.simulate.accuracy import _Row
from chaffinch.simulate.seeded import _BRANCHES, branch, chosen
from tests.simulate.settings import SMALL, choice, planned


@pytest.mark.parametrize("name", SMALL)
def test_everyone_holds_an_answer(name: str) -> None:
    plan = planned(20, SMALL[name])
    for people in (uniform(plan, 1000, 1), zipf(plan, 1000, 1, exponent=2.0)):
        people.fits(plan)
        numbers = people.truths[0].numbers()
        assert len(numbers) == people.people == 1000
        again = uniform(plan, 1000, 1) if people.words == "uniform" else zipf(plan, 1000, 1, 2.0)
        assert (again.truths[0].counts == people.truths[0].counts).all()


def test_shapes_of_made_up_answers() -> None:
    flat = uniform(choice(4), 40_000, 1).truths[0].counts
    steep = zipf(choice(4), 40_000, 1).truths[0].counts
    # Six standard deviations of a binomial count.
    assert np.abs(flat - 10_000).max() < 6 * np.sqrt(7500)
    assert np.abs(steep - 40_000 * 12 / 25 / np.arange(1, 5)).max() < 600
    flags = cf.Flags(["a", "b"])
    assert np.abs(zipf(flags, 40_000, 1).truths[0].counts - [20_000, 40_000 / 3]).max() < 600
    assert np.abs(uniform(flags, 40_000, 1).truths[0].counts - 20_000).max() < 600


def test_given_answers_are_counted() -> None:
    drinks = from_column(choice(3), ["v1", "v1", "v0"]).truths[0]
    assert drinks.counts.tolist() == [1, 2, 0]
    times = from_column(cf.Number(0, 10), [5, 10, 5]).truths[0]
    assert times.shares is not None
    assert (times.shares.tolist(), times.counts.tolist()) == ([0.5, 1.0], [2, 1])
    flags = from_column(cf.Flags(["a", "b"], missing="none"), ["a;b", "b", ""]).truths[0]
    assert flags.counts.tolist() == [1, 2]
    table = {"q0": ["yes", "no"], "q1": ["v1", "v4"]}
    plan = planned(2, SMALL["bit flips"], SMALL["choice flips"])
    people = from_column(plan, table)
    assert [truth.counts.tolist() for truth in people.truths] == [[1, 1], [0, 1, 0, 0, 1]]
    named = from_column(plan, {"x": ["yes"], "q1": ["v1"]}, columns={"q0": "x"})
    assert named.people == 1


def test_a_population_must_fit_its_plan() -> None:
    plan = planned(20, SMALL["choice flips"])
    for people in (uniform(cf.Bit(), 20), uniform(choice(4), 20), uniform(choice(5), 19)):
        with pytest.raises(InvalidInput):
            simulate(plan, people, 100)
    with pytest.raises(InvalidInput):
        simulate(plan, uniform(plan, 20), 100, devices=planned(20, SMALL["bit flips"]))
    with pytest.raises(InvalidInput):
        uniform("yes", 20)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Truth("bit", 3, np.array([1, 1])),
        lambda: Truth("flags", 3, np.array([4])),
        lambda: Truth("bit", 2, np.array([1, 1]), np.array([0.0, 1.0])),
        lambda: Truth("number", 2, np.array([1, 1]), np.array([1.0, 0.0])),
        lambda: Truth("number", 2, np.array([1, 1]), np.array([0.0, 1.5])),
        lambda: Population(3, (Truth("bit", 2, np.array([1, 1])),)),
        lambda: Population(3, ()),
    ],
)
def test_impossible_people_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput):
        wrong()  # type: ignore[operator]


def test_words_repeat_and_do_not_depend_on_how_they_are_taken() -> None:
    whole = SeededWords(3).take(5000)
    pieces = SeededWords(3)
    assert (np.concatenate([pieces.take(n) for n in (1, 0, 999, 4000)]) == whole).all()
    assert whole.dtype == np.uint64
    assert len(np.unique(whole)) == 5000
    whole[:] = 0
    assert SeededWords(3).take(1)[0] != 0


def test_words_are_owned_by_who_took_them() -> None:
    words = SeededWords(3)
    first = words.take(4)
    kept = first.copy()
    words.take(4)[:] = 0
    assert (first == kept).all()


def test_branches_share_nothing() -> None:
    paths: list[Any] = [(name, *path) for name in _BRANCHES for path in ((), (0,), (1,), (0, 1))]
    states = {tuple(branch(5, *path).generate_state(4).tolist()) for path in paths}
    assert len(states) == len(paths)


def test_seeds_are_written_down_and_repeat() -> None:
    plan = planned(20, SMALL["bit flips"])
    people = uniform(plan, 20)
    fresh = simulate(plan, people, 100)
    assert simulate(plan, people, 100, seed=fresh.seed) == fresh
    assert simulate(plan, people, 100).seed != fresh.seed
    assert chosen(0) == 0
    with pytest.raises(InvalidInput):
        chosen(-1)


def test_a_simulation_is_a_document() -> None:
    plan = planned(20, SMALL["choice decoys"])
    told: list[int] = []
    found = simulate(plan, uniform(plan, 20), 100, seed=1, progress=told.append)
    document = found.document()
    assert document["seed"] == 1
    assert document["values"][0].keys() == set(_Row._fields)
    assert document["verdict"] == found.verdict
    assert told == [1]


def test_real_verbs_take_no_seeded_words() -> None:
    plan = planned(20, SMALL["bit flips"])
    words = SeededWords(1)
    verbs: list[Any] = [cf.encode, cf.encode_many, cf.shuffle]
    for verb in verbs:
        with pytest.raises(TypeError):
            verb(1, plan, words)
        with pytest.raises(TypeError):
            verb(1, words=words)
