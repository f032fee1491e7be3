"""The sampler of tallies has the law of the real path: encode, shuffle, tally.

Two samples are compared by chi-square on the histograms of every tally and of sums and
differences of neighbouring tallies, which see the covariances (`judging.same_law`). The
false-alarm rate of one comparison is 1e-6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch.analysis.tally import tally
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.encoding.device import encode_with
from chaffinch.plans.plan import Plan
from chaffinch.protocols.noise import draw_thermometer
from chaffinch.questions import Flags, Number, Question
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate import SeededWords, Truth, judging, uniform, zipf
from chaffinch.simulate.populations import draw_tallies
from chaffinch.simulate.seeded import generator
from tests.simulate.settings import ALARM, SMALL, changed, planned, reflooded
from tests.tiers import all_but, some

PEOPLE = 20
REAL, DRAWN = 4000, 50_000
Tallies = NDArray[np.int64]


def truth_of(plan: Plan) -> Truth:
    if plan.parts[0].question.shape == "number":
        # Whole steps, half steps and the bounds: every branch of the rounding.
        shares = np.array([0.0, 0.2, 0.25, 0.37, 0.5, 0.98, 1.0])
        return Truth("number", PEOPLE, np.array([9, 3, 3, 2, 1, 1, 1]), shares)
    # Far from one half, where flips would cancel and a wrong chance of them would not show.
    return zipf(plan, PEOPLE, seed=5, exponent=3.0).truths[0]


def many_path(plan: Plan, truth: Truth, runs: int, seed: int) -> Tallies:
    words, numbers = SeededWords(seed), truth.numbers()
    batches = (encode_numbers(plan, [numbers], PEOPLE, words) for _ in range(runs))
    return np.array([tally(shuffle_with(batch, words)).counts for batch in batches])


def one_path(plan: Plan, truth: Truth, runs: int, seed: int) -> Tallies:
    words = SeededWords(seed)
    answers = [said(plan.parts[0].question, number) for number in truth.numbers()]
    found = []
    for _ in range(runs):
        reports = [encode_with(answer, plan, words) for answer in answers]
        found.append(tally(shuffle_with(reports, words)).counts)
    return np.array(found)


def said(question: Question, number: Any) -> object:
    if isinstance(question, Number):
        return question.low + float(number) * (question.high - question.low)
    if isinstance(question, Flags):
        return [name for name, held in zip(question.names, number, strict=True) if held]
    label = question.labels[int(number)]
    return None if label == "(missing)" else label


def drawn(plan: Plan, truth: Truth, runs: int = DRAWN) -> Tallies:
    return draw_tallies(plan.parts[0], truth, runs, generator(9, "tallies"))


def same_law(first: Tallies, second: Tallies) -> bool:
    return judging.same_law(first, second) > ALARM


@pytest.mark.parametrize(
    "name",
    all_but(
        SMALL,
        "bit flips",
        "choice flips packed",
        "bit signed",
        "flags signed",
        "number weighted",
        "whole weighted",
    ),
)
def test_many_at_once_has_the_law_of_the_sampler(name: str) -> None:
    plan = planned(PEOPLE, SMALL[name])
    truth = truth_of(plan)
    real = many_path(plan, truth, REAL, seed=21)
    assert same_law(real, drawn(plan, truth))
    assert not same_law(real, drawn(changed(plan, 1.1), truth))
    assert not same_law(real, drawn(changed(plan, 0.9), truth))


@pytest.mark.parametrize("name", some(SMALL, "bit decoys", "choice flips", "number separate"))
def test_one_device_has_the_law_of_the_sampler(name: str) -> None:
    plan = planned(PEOPLE, SMALL[name])
    truth = truth_of(plan)
    real = one_path(plan, truth, 800, seed=22)
    assert same_law(real, drawn(plan, truth))
    assert not same_law(real, drawn(changed(plan, 1.25), truth))


@pytest.mark.parametrize(
    "name",
    some((name for name in SMALL if name.endswith("signed")), "choice signed", "digits signed"),
)
def test_floods_that_are_off_do_not_have_the_law(name: str) -> None:
    plan = planned(PEOPLE, SMALL[name])
    truth = truth_of(plan)
    real = many_path(plan, truth, REAL, seed=26)
    assert not same_law(real, drawn(reflooded(plan, 1.15), truth))
    assert not same_law(real, drawn(reflooded(plan, 0.85), truth))


@pytest.mark.long
@pytest.mark.parametrize("name", SMALL)
def test_both_paths_have_the_law_of_the_sampler_closely(name: str) -> None:
    plan = planned(PEOPLE, SMALL[name])
    truth = truth_of(plan)
    many, one = many_path(plan, truth, 60_000, seed=23), one_path(plan, truth, 10_000, seed=24)
    expected = drawn(plan, truth, 1_000_000)
    assert same_law(many, expected)
    assert same_law(one, expected)
    assert not same_law(many, drawn(changed(plan, 1.03), truth, 1_000_000))


def test_covariances_of_decoys_are_seen() -> None:
    plan = planned(PEOPLE, SMALL["choice decoys"])
    truth = truth_of(plan)
    real, columns = many_path(plan, truth, REAL, seed=25), drawn(plan, truth)
    draws = generator(1, "tallies")
    # The same margins, without what the decoys have in common.
    loose = np.array([draws.permutation(column) for column in columns.T]).T
    assert same_law(real, columns)
    assert not same_law(real, loose)


@pytest.mark.parametrize("name", ["choice flips", "choice decoys", "choice flipped decoys"])
def test_some_codes_have_their_law_among_all(name: str) -> None:
    plan = planned(PEOPLE, SMALL[name])
    truth, codes = truth_of(plan), np.array([0, 2])
    some = draw_tallies(plan.parts[0], truth, 20_000, generator(2, "tallies"), codes)
    assert same_law(some, drawn(plan, truth)[:, codes])
    assert not same_law(some, drawn(changed(plan, 1.1), truth)[:, codes])


def test_pieces_are_drawn_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(PEOPLE, SMALL["choice flips"])
    whole = drawn(plan, truth_of(plan), 4000)
    monkeypatch.setattr("chaffinch.simulate.populations._MOST_CELLS", 100)
    pieces = drawn(plan, truth_of(plan), 4000)
    assert pieces.shape == whole.shape
    assert same_law(pieces, whole)


def test_rounding_is_exact_at_whole_steps() -> None:
    truth = Truth("number", 7, np.array([1, 4, 2]), np.array([0.0, 0.5, 1.0]))
    ones = draw_thermometer(4, truth, 5, generator(1, "tallies"))
    assert (ones == [6, 6, 2, 2]).all()


def test_a_billion_people_cost_no_more_than_ten() -> None:
    # With more decoys than a billion there is no plan; whom it is drawn for is another matter.
    plan = planned(10**8, SMALL["choice flipped decoys"])
    found = draw_tallies(
        plan.parts[0], uniform(plan, 10**9).truths[0], 100, generator(1, "tallies")
    )
    assert abs(found.mean() / (3e9 * (0.25 + 0.5 / 4)) - 1) < 1e-4
