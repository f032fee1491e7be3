"""Plans hold what they promise, and are about the best there is."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pytest

from chaffinch.errors import GuaranteeNotProven, InvalidInput, NoPlanFound, UselessPlan
from chaffinch.privacy import Target
from chaffinch.privacy.mechanisms.filters import audience_flip_probability, flip_probability_for
from chaffinch.reach.planning import estimator
from chaffinch.reach.planning.audience import Audience
from chaffinch.reach.planning.reach_plan import ReachPlan, require_plan
from chaffinch.reach.planning.reach_planner import (
    _HASHES,
    _MOST_ERROR,
    ENOUGH,
    MAX_BITS,
    _guessed_flip,
    plan,
)
from tests.cases import each_case
from tests.reach.test_estimates import audience
from tests.tiers import nightly

TARGET = Target(epsilon=1, delta=1e-9)
SETTINGS: list[Any] = [
    (1, 1000, 1.0, 1e-9),
    (2, 10_000, 1.0, 1e-6),
    (2, 50_000, 3.0, 1e-9),
    (3, 1_000_000, 0.2, 1e-12),
    (5, 100_000, 1.0, 1e-9),
    nightly(8, 100_000, 2.0, 1e-9),
]


@lru_cache
def made(publishers: int, size: int, epsilon: float, delta: float, **more: Any) -> ReachPlan:
    target = Target(epsilon=epsilon, delta=delta)
    return plan(audience(publishers), sizes=[size] * publishers, target=target, **more)


@pytest.mark.parametrize(("publishers", "size", "epsilon", "delta"), SETTINGS)
def test_plans_hold_what_they_promise(
    publishers: int, size: int, epsilon: float, delta: float
) -> None:
    found = made(publishers, size, epsilon, delta)
    found.verify()
    found.verify(within=Target(epsilon=epsilon, delta=delta))
    assert found.mechanism.delta_bound(epsilon) <= delta
    assert (found.guarantee.epsilon, found.guarantee.delta) == (epsilon, delta)
    # Not safer than asked for: a thousandth fewer flips and the promise is broken.
    fewer = Fraction(int(found.numerator * 0.999), 2**64)
    with pytest.raises(GuaranteeNotProven):
        replace(found, flip_probability=fewer).verify()
    assert found.limit < found.standard_error <= _MOST_ERROR * sum(found.sizes)
    assert found.bits <= MAX_BITS
    assert found.column_guarantee.epsilon <= epsilon
    assert found.assumed_epsilon <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize(("publishers", "size", "epsilon", "delta"), SETTINGS)
def test_what_was_weighed_stands_beside_what_was_chosen(
    publishers: int, size: int, epsilon: float, delta: float
) -> None:
    found = made(publishers, size, epsilon, delta)
    assert [one.hashes for one in found.options] == list(_HASHES)
    chosen = next(one for one in found.options if one.hashes == found.hashes)
    assert (chosen.bits, chosen.flip) == (found.bits, float(found.flip_probability))
    assert chosen.standard_error == found.standard_error
    assert chosen.limit == found.limit


def good(best: float, task: tuple[int, int, float, float]) -> float:
    """Return the error that counts as good: near the best one, or next to nothing."""
    return max(1.08 * best, ENOUGH * task[0] * task[1])


def exact_error(task: tuple[int, int, float, float], bits: int, hashes: int) -> float:
    publishers, size, epsilon, delta = task
    flip = audience_flip_probability(
        epsilon=epsilon, delta=delta, filters=publishers, bits=bits, hashes=hashes
    )
    return estimator.apart([size] * publishers, bits=bits, hashes=hashes, flip=float(flip))


@pytest.mark.parametrize(
    ("task", "bits", "hashes"),
    [
        ((2, 50_000, 1.0, 1e-9), (2**19, 2**21, 2**23, 2**25), (1, 4, 16)),
        nightly((3, 50_000, 3.0, 1e-9), (2**18, 2**20, 2**22, 2**23), (1, 4, 16)),
        nightly((1, 1000, 3.0, 1e-6), (2**18, 2**20), (1, 4)),
    ],
)
def test_no_other_size_is_much_better(
    task: tuple[int, int, float, float], bits: tuple[int, ...], hashes: tuple[int, ...]
) -> None:
    best = min(exact_error(task, m, h) for m in bits for h in hashes)
    assert made(*task).standard_error <= good(best, task)


@pytest.mark.long
@pytest.mark.parametrize(
    "task",
    [
        (1, 1000, 3.0, 1e-6),
        (2, 50_000, 3.0, 1e-9),
        (2, 10_000, 3.0, 1e-6),
        (2, 1000, 1.0, 1e-6),
        (3, 50_000, 3.0, 1e-9),
        (5, 100_000, 3.0, 1e-9),
    ],
)
def test_no_size_on_a_fine_grid_is_much_better(task: tuple[int, int, float, float]) -> None:
    balls = task[0] * task[1]
    grid = [
        (round(hashes * balls / load / 64) * 64, hashes)
        for hashes in _HASHES
        for load in (3.0, 1.5, 0.75, 0.4, 0.2, 0.1, 0.05, 0.025)
    ]
    best = min(exact_error(task, bits, hashes) for bits, hashes in grid if bits <= MAX_BITS)
    assert made(*task).standard_error <= good(best, task)


def test_the_fewest_hashes_that_are_good_enough() -> None:
    found = made(2, 100_000, 1.0, 1e-9)
    enough = ENOUGH * sum(found.sizes)
    fewer = [one for one in found.options if one.hashes < found.hashes]
    assert found.standard_error <= enough
    assert all(one.standard_error > enough for one in fewer)
    assert made(2, 10**6, 1.0, 1e-9).hashes == 1
    assert made(5, 50_000, 1.0, 1e-9).hashes > 4


def guess_over_truth(rows: int, bits: int, hashes: int, epsilon: float, delta: float) -> float:
    true = audience_flip_probability(
        epsilon=epsilon, delta=delta, filters=rows, bits=bits, hashes=hashes
    )
    return _guessed_flip(Target(epsilon=epsilon, delta=delta), rows, bits, hashes) / float(true)


def room(rows: int, step: float) -> tuple[float, float]:
    """Return what the guess is worth: good for small steps, too low for large ones."""
    if rows == 1:
        return (0.997, 1.003)
    return (0.97, 1.03) if step <= 0.5 else (0.58, 1.05)


@each_case(
    ("rows", "bits", "hashes", "epsilon", "delta"),
    [
        (1, 10**4, 4, 1.0, 1e-12),
        (1, 10**6, 1, 1.0, 1e-6),
        (1, 10**4, 1, 3.0, 1e-12),
        (2, 10**4, 16, 1.0, 1e-6),
        (2, 10**9, 1, 0.1, 1e-12),
        (2, 10**9, 1, 3.0, 1e-6),
        (2, 10**6, 16, 3.0, 1e-9),
        (3, 10**6, 4, 1.0, 1e-12),
        (5, 10**9, 2, 1.0, 1e-9),
        (5, 10**9, 1, 3.0, 1e-6),
        nightly(8, 10**6, 4, 1.0, 1e-9),
        nightly(10, 10**9, 1, 3.0, 1e-12),
        nightly(10, 10**4, 16, 0.1, 1e-12),
    ],
)
def test_the_guess_steers_well(
    rows: int, bits: int, hashes: int, epsilon: float, delta: float
) -> None:
    low, high = room(rows, epsilon / hashes)
    assert low <= guess_over_truth(rows, bits, hashes, epsilon, delta) <= high


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rows", [2, 3, 4, 5, 6, 8, 10])
def test_the_guess_steers_well_everywhere(rows: int) -> None:
    grid = itertools.product((10**4, 10**6, 10**9), (1, 4, 16), (0.1, 0.5, 1.0, 3.0), (1e-6, 1e-12))
    for bits, hashes, epsilon, delta in grid:
        low, high = room(rows, epsilon / hashes)
        found = guess_over_truth(rows, bits, hashes, epsilon, delta)
        assert low <= found <= high, (bits, hashes, epsilon, delta)


@pytest.mark.parametrize("publishers", [2, nightly(5)])
@pytest.mark.parametrize("hashes", [None, 1])
def test_more_epsilon_is_never_more_error(publishers: int, hashes: int | None) -> None:
    errors = [
        made(publishers, 50_000, epsilon, 1e-9, hashes=hashes).standard_error
        for epsilon in (0.5, 1.0, 1.02, 2.0, 4.0)
    ]
    # Rounding to sizes of filters may turn a step of 2 % round, but not by more than the
    # share of the least error that is given away for a smaller filter.
    # An error that is small enough may also grow, for fewer hashes.
    enough = ENOUGH * publishers * 50_000
    assert all(later <= max(1.08 * before, enough) for before, later in itertools.pairwise(errors))
    assert errors[3] < errors[0]


@pytest.mark.parametrize(("bits", "hashes"), [(2**20, 2), (2**17, None), (None, 3)])
def test_what_is_fixed_stays(bits: int | None, hashes: int | None) -> None:
    found = plan(audience(2), sizes=[20_000, 10_000], target=TARGET, bits=bits, hashes=hashes)
    found.verify()
    assert found.bits == (bits or found.bits)
    assert found.hashes == (hashes or found.hashes)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_with_fixed_filters_more_epsilon_is_less_error(epsilon: float) -> None:
    errors = [
        made(3, 20_000, epsilon * factor, 1e-9, bits=2**20, hashes=2).standard_error
        for factor in (1.0, 1.01, 1.1, 2.0)
    ]
    assert errors == sorted(errors, reverse=True)


def test_one_hash_is_the_calibration_of_the_source() -> None:
    # S4's estimate_flip_prob, with the proven bound instead of the assumed pair.
    found = made(3, 50_000, 1.0, 1e-9, bits=2**20, hashes=1)
    assert found.flip_probability == flip_probability_for(
        epsilon=1.0, delta=1e-9, filters=3, bits=2**20
    )
    assumed = flip_probability_for(epsilon=1.0, delta=1e-9, filters=3, bits=2**20, method="assumed")
    assert assumed < found.flip_probability


def test_frequencies_are_rows_to_hide() -> None:
    twice = Audience(["a", "b"], frequencies=2)
    found = plan(twice, sizes=[50_000, 50_000], target=TARGET, bits=2**20, hashes=1)
    four = made(4, 25_000, 1.0, 1e-9, bits=2**20, hashes=1)
    assert found.flip_probability == four.flip_probability
    assert found.filter_bytes == 2 * four.filter_bytes


def test_sizes_may_be_named() -> None:
    two = Audience(["daily", "radio"])
    listed = plan(two, sizes=[20_000, 10_000], target=TARGET)
    assert plan(two, sizes={"radio": 10_000, "daily": 20_000}, target=TARGET) == listed
    assert listed.sizes == (20_000, 10_000)


@each_case(
    "sizes",
    [
        [1000],
        [1000, 1000, 1000],
        {"daily": 1000},
        {"daily": 1000, "radio": 1000, "print": 1000},
        [1000, 0],
        [1000, -1],
        [1000, 1000.5],
        [1000, True],
        [1000, 10**13],
        "12",
        b"12",
        1000,
    ],
)
def test_impossible_sizes_are_refused(sizes: Any) -> None:
    with pytest.raises(InvalidInput):
        plan(Audience(["daily", "radio"]), sizes=sizes, target=TARGET)


@each_case(
    "wrong",
    [
        {"bits": 63},
        {"bits": 2**30},
        {"bits": 100_000},
        {"bits": 1e6},
        {"hashes": 0},
        {"hashes": 65},
        {"max_bits": 10},
        {"max_bits": 2**40},
        {"target": Target(1.0, 1e-300)},
        {"title": "a\nb"},
        {"target": 1.0},
        {"audience": ["daily"]},
    ],
)
def test_impossible_wishes_are_refused(wrong: dict[str, Any]) -> None:
    wishes: dict[str, Any] = {"audience": Audience(["daily"]), "sizes": [1000], "target": TARGET}
    wishes |= wrong
    with pytest.raises(InvalidInput):
        plan(wishes.pop("audience"), **wishes)


@each_case(
    ("publishers", "size", "epsilon", "more"),
    [
        (2, 10, 1.0, {}),
        (2, 1, 1.0, {}),
        (20, 1000, 0.1, {}),
        (8, 1000, 0.01, {}),
        (2, 10**6, 1.0, {"bits": 64}),
        (2, 10**6, 1.0, {"max_bits": 1024}),
        (2, 10**6, 1.0, {"bits": 2**13, "hashes": 64}),
    ],
)
def test_what_cannot_be_counted_has_no_plan(
    publishers: int, size: int, epsilon: float, more: dict[str, Any]
) -> None:
    with pytest.raises(NoPlanFound) as caught:
        made(publishers, size, epsilon, 1e-9, **more)
    assert "The standard error of the reach must be at most 25%" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(("size", "publishers", "bits"), [(20_000, 1, 4096), (9000, 2, 4096)])
def test_filters_that_would_be_refused_are_not_planned(
    size: int, publishers: int, bits: int
) -> None:
    with pytest.raises(NoPlanFound, match="columns empty") as caught:
        made(publishers, size, 3.0, 1e-6, bits=bits, hashes=1)
    assert caught.value.hint == "more bits"


def test_progress_is_told_in_words() -> None:
    told: list[str] = []
    made(2, 10_000, 1.0, 1e-6, progress=told.append)
    assert told == ["weighing sizes of filters", "calibrating the flips"]


def test_a_plan_must_stay_within_what_a_party_accepts() -> None:
    found = made(2, 10_000, 1.0, 1e-9)
    for within in (Target(epsilon=0.9, delta=1e-9), Target(epsilon=1, delta=1e-10)):
        with pytest.raises(InvalidInput):
            found.verify(within=within)
    with pytest.raises(InvalidInput, match="a Target"):
        found.verify(within=0.5)  # type: ignore[arg-type]


def test_only_flips_stand_against_a_publisher_who_helps() -> None:
    found = made(3, 50_000, 1.0, 1e-9, bits=2**20, hashes=2)
    odds = float((1 - found.flip_probability) / found.flip_probability)
    assert found.colluding_epsilon == pytest.approx(2 * 2 * math.log(odds))
    assert made(1, 50_000, 1.0, 1e-9, bits=2**20, hashes=1).colluding_epsilon == 0.0


@each_case(
    "wrong",
    [
        {"sizes": (1000,)},
        {"sizes": (1000, 0)},
        {"sizes": (1000, 1000.0)},
        {"bits": 10},
        {"bits": 2.0**18},
        {"hashes": 0},
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"delta": 2.0},
        {"flip_probability": Fraction(1, 3)},
        {"flip_probability": Fraction(1, 2)},
        {"flip_probability": Fraction(0)},
        {"audience": ["a", "b"]},
    ],
)
def test_impossible_plans_are_never_born(wrong: dict[str, Any]) -> None:
    good = made(2, 10_000, 1.0, 1e-9, bits=2**18, hashes=1)
    with pytest.raises(InvalidInput):
        replace(good, **wrong)


def test_a_promise_that_protects_nobody_is_refused_unless_it_is_wanted_anyway() -> None:
    with pytest.raises(UselessPlan, match="whether an id is in these audiences") as caught:
        made(2, 10_000, 6.0, 1e-9)
    assert "anyway" in caught.value.hint
    found = made(2, 10_000, 6.0, 1e-9, anyway=True)
    (warning,) = found.warnings
    assert found.explain().startswith(f"Warning: {warning}")
    assert made(2, 10_000, 4.0, 1e-9).warnings == []


def test_what_is_no_plan_is_refused() -> None:
    good = made(2, 10_000, 1.0, 1e-9, bits=2**18, hashes=1)
    assert require_plan(good) is good
    others: list[object] = ["plan.json", None, {}]
    for other in others:
        with pytest.raises(InvalidInput):
            require_plan(other)


def test_a_notebook_shows_a_plan_and_a_line_tells_it() -> None:
    found = plan(Audience(["a", "<b>"]), sizes=[1e4, 2000], target=Target(1.0, 1e-6))  # type: ignore[list-item]
    assert found.sizes == (10_000, 2000)
    assert all(type(size) is int for size in found.sizes)
    assert repr(found).startswith(f"<ReachPlan '' {found.id[:16]} (a, <b>), epsilon=")
    shown = found._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<td>10,000</td>" in shown
