"""Numbers that other people published, to their printed digits."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from chaffinch import privacy
from chaffinch.privacy import amplification
from tests.oracles import balls, clones, rounds

STORED: dict[str, dict[str, Any]] = {
    row["id"]: row
    for row in json.loads(Path(__file__).with_name("external.json").read_text(encoding="utf-8"))
}
ONE_ROUND = [row for row in STORED.values() if row["parameters"].get("rounds") == 1]
TEN_ROUNDS = [row for row in STORED.values() if row["parameters"].get("rounds") == 10]
SIGNED = [row for row in STORED.values() if row["parameters"].get("times") == 10]
GRID = 1e-6
"""Another accountant's loss grid: rounding up costs at most this much in every round."""


def names(row: dict[str, Any]) -> str:
    return str(row["id"])


def half_unit(printed: str) -> float:
    """Return half a unit of the last printed digit, with room for the float it is read into."""
    exponent = Decimal(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    return 0.5001 * 10.0**exponent


def laws_of(row: dict[str, Any]) -> tuple[balls.Law, balls.Law]:
    users = row["parameters"]["users"]
    return balls.bit_laws(0, users - 1, Fraction(row["parameters"]["flip_probability"]), 1)


@pytest.mark.parametrize("row", ONE_ROUND, ids=names)
def test_one_round_epsilon_of_the_all_zero_crowd(row: dict[str, Any]) -> None:
    parameters = row["parameters"]
    mechanism = privacy.FlippedBits(
        users=parameters["users"], flip_probability=parameters["flip_probability"]
    )
    bracket = mechanism.crowd(ones=0).epsilon(parameters["delta"])
    printed = float(row["value"])
    assert bracket.upper == pytest.approx(printed, abs=half_unit(row["value"]))
    flip, others = Fraction(parameters["flip_probability"]), parameters["users"] - 1
    half = half_unit(row["value"])
    assert balls.bits_delta(0, others, flip, printed - half) > parameters["delta"]
    assert balls.bits_delta(0, others, flip, printed + half) < parameters["delta"]
    assert not balls.bits_delta(0, others, flip, bracket.upper) > parameters["delta"]
    assert not balls.bits_delta(0, others, flip, bracket.lower) < parameters["delta"]


@pytest.mark.parametrize("row", TEN_ROUNDS, ids=names)
def test_ten_rounds_of_the_all_zero_crowd(row: dict[str, Any]) -> None:
    """The published figure rounds losses up: it stands above the truth, by at most ten grids."""
    with balls.precision(300):
        zero, one = laws_of(row)
        losses, weights = rounds.losses_of(zero.weights, one.weights)
    truth = rounds.composed_epsilon(losses, weights, 10, row["parameters"]["delta"], 2e-5)
    half = half_unit(row["value"])
    assert truth - half <= float(row["value"]) <= truth + 10 * GRID + half


@pytest.mark.parametrize("row", TEN_ROUNDS, ids=names)
def test_ten_rounds_cover_the_all_zero_crowd(row: dict[str, Any]) -> None:
    parameters = row["parameters"]
    mechanism = privacy.FlippedBits(
        users=parameters["users"], flip_probability=parameters["flip_probability"]
    )
    bracket = privacy.compose(mechanism, times=10).epsilon(parameters["delta"])
    assert bracket.upper >= float(row["value"]) - 10 * GRID - half_unit(row["value"])


@pytest.mark.parametrize("row", SIGNED, ids=names)
def test_ten_rounds_of_signed_decoys(row: dict[str, Any]) -> None:
    """The published figures enclose the pair that the lower end composes; the upper is near."""
    parameters = dict(row["parameters"])
    times, delta = parameters.pop("times"), parameters.pop("delta")
    bracket = privacy.compose(privacy.SignedDecoys(**parameters), times=times).epsilon(delta)
    low, high = float(row["low"]), float(row["high"])
    assert low <= bracket.lower <= high
    assert low <= bracket.upper <= high * 1.0002


@pytest.mark.long
def test_clone_pair_lies_in_the_published_interval() -> None:
    row = STORED["clone bound, numerical"]
    users, local = row["parameters"]["users"], row["parameters"]["local_epsilon"]
    assert clones.clone_pair_delta(users, local, float(row["low"])) > 1e-6
    assert clones.clone_pair_delta(users, local, float(row["high"])) < 1e-6


def test_the_package_finds_the_clone_pair_there_too() -> None:
    row = STORED["clone bound, numerical"]
    bracket = amplification.clone_epsilon(**row["parameters"])
    assert float(row["low"]) <= bracket.lower <= bracket.upper <= float(row["high"])


def test_the_package_knows_the_closed_form_of_the_clone_bound() -> None:
    row = STORED["clone bound, closed form"]
    found = amplification.clone_epsilon_closed_form(**row["parameters"])
    assert found == pytest.approx(float(row["value"]), rel=1e-14)


def test_local_epsilon_of_a_one_hot_vector() -> None:
    row = STORED["OpenDP bit vector randomized response"]
    mechanism = privacy.FlippedValues(
        users=10, decoys=0, values=5, flip_probability=row["parameters"]["flip_probability"]
    )
    printed = float(row["value"])
    # both round to the safe side, so either may be a few units of the last place above 2 ln 3
    assert mechanism.local_epsilon == pytest.approx(printed, rel=1e-15)
    with balls.precision(200):
        assert balls.ball(mechanism.local_epsilon) >= 2 * balls.ball(3).log()
