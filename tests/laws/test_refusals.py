"""Every public parameter of every mechanism refuses garbage, with InvalidInput and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chaffinch import errors, privacy
from tests.cases import each_case

COUNT: list[Any] = [math.nan, math.inf, -math.inf, True, False, np.True_, None, "7", "x", b"7"]
COUNT += [
    -1,
    0.5,
    3.0,
    Fraction(7, 2),
    1 + 2j,
    10**30,
    -(10**30),
    [3],
    {},
    np.array([3, 4]),
    object(),
]
CHANCE: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    True,
    False,
    np.True_,
    None,
    "x",
    "",
    "nan",
    "inf",
]
CHANCE += [
    "1/0",
    0,
    0.0,
    -0.0,
    -0.1,
    1,
    1.0,
    1.5,
    10**400,
    1j,
    [0.1],
    {},
    np.array([0.1]),
    object(),
]
FLIP: list[Any] = [*CHANCE, 0.5, "0.5", Fraction(1, 2), 0.75]
REAL: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    True,
    np.True_,
    None,
    "1",
    -1e-9,
    1j,
    [1.0],
    object(),
]
REAL += [-(10**400), 10**400]

BITS: dict[str, Any] = {"users": 10, "flip_probability": 0.1, "copies": 1, "decoys": 0}
CLEAR: dict[str, Any] = {"decoys": 10, "values": 3}
RATED: dict[str, Any] = {"users": 10, "decoy_rate": 0.5, "values": 3}
VALUES: dict[str, Any] = {"users": 3, "decoys": 0, "values": 3, "flip_probability": 0.1}
VECTORS: dict[str, Any] = {"users": 4, "bits": 2, "flip_probability": 0.1}
NUMBERS: dict[str, Any] = {
    "users": 3,
    "resolution": 2,
    "flip_probability": 0.1,
    "slots": "together",
}
FILTERS: dict[str, Any] = {"filters": 2, "bits": 4, "flip_probability": 0.1}
MECHANISMS: list[tuple[str, dict[str, Any]]] = [
    ("FlippedBits", BITS),
    ("DecoyedValues", CLEAR),
    ("DecoyedValues", RATED),
    ("FlippedValues", VALUES),
    ("FlippedVectors", VECTORS),
    ("EncodedNumbers", NUMBERS),
    ("FlippedFilters", FILTERS),
]
TOO_SMALL = {"users": 0, "copies": 0, "values": 1, "bits": 0, "resolution": 0, "filters": 0}
"""What is one too few, where nought is not already allowed."""

GARBAGE = {"flip_probability": FLIP, "decoy_rate": CHANCE}
WORDS: list[Any] = ["", "apart", "SEPARATE", None, True, 1, ["together"]]


def label(value: object) -> str:
    """Return a short name that is the same in every process."""
    text = repr(value)
    return type(value).__name__ if len(text) > 20 else text


def bad_parameters() -> Iterator[Any]:
    for name, good in MECHANISMS:
        for parameter in good:
            bad = GARBAGE.get(parameter, WORDS if parameter == "slots" else COUNT)
            if parameter in TOO_SMALL:
                bad = [*bad, TOO_SMALL[parameter]]
            if parameter == "decoy_rate":
                bad = [value for value in bad if value is not None and value not in (1, 1.0)]
            elif (name, good) == ("DecoyedValues", CLEAR) and parameter == "decoys":
                bad = [value for value in bad if value is not None]  # None means "not given"
            elif parameter == "users":
                # A whole float is a number of people.
                bad = [value for value in bad if not (isinstance(value, float) and value == 3.0)]
            for value in bad:
                yield pytest.param(
                    name, good, parameter, value, id=f"{name}-{parameter}-{label(value)}"
                )


@each_case(("name", "good", "parameter", "value"), list(bad_parameters()))
def test_a_parameter_refuses_garbage(
    name: str, good: dict[str, Any], parameter: str, value: object
) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        getattr(privacy, name)(**(good | {parameter: value}))
    assert "must be" in str(refused.value)


@pytest.mark.parametrize(("name", "good"), MECHANISMS)
def test_a_whole_float_is_a_number_of_people(name: str, good: dict[str, Any]) -> None:
    make = getattr(privacy, name)
    if "users" in good:
        found = make(**(good | {"users": float(good["users"])}))
        assert found == make(**good)
        assert repr(found) == repr(make(**good))


@pytest.mark.parametrize(("name", "good"), MECHANISMS)
def test_the_good_parameters_are_good(name: str, good: dict[str, Any]) -> None:
    assert getattr(privacy, name)(**good).delta(1.0).upper <= 1.0


@each_case("value", REAL, ids=label)
@each_case(("name", "good"), MECHANISMS)
def test_epsilon_refuses_garbage(name: str, good: dict[str, Any], value: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        getattr(privacy, name)(**good).delta(value)


@each_case("value", [*REAL, 1.1, 0.0, 0], ids=label)
@each_case(("name", "good"), MECHANISMS)
def test_delta_refuses_garbage(name: str, good: dict[str, Any], value: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        getattr(privacy, name)(**good).epsilon(value)


@each_case("value", REAL, ids=label)
def test_pointwise_refuses_garbage(value: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        privacy.FlippedBits(**BITS).pointwise(value)
    with pytest.raises(errors.InvalidInput):
        privacy.FlippedBits(**BITS).crowd(ones=1).delta(value)
    with pytest.raises(errors.InvalidInput):
        privacy.FlippedBits(**BITS).crowd(ones=1).pointwise(value)


@each_case("value", [*COUNT, 10], ids=label)
def test_a_crowd_refuses_garbage(value: Any) -> None:
    """``ones`` may be 0..9 among nine others."""
    with pytest.raises(errors.InvalidInput):
        privacy.FlippedBits(**BITS).crowd(ones=value)


BAD_LEVELS: list[Any] = [
    [-0.1],
    [1.1],
    [math.nan],
    [math.inf],
    "x",
    [[0.1, 0.2]],
    None,
    ["a"],
    [1j],
]


@each_case("value", BAD_LEVELS, ids=label)
def test_trade_off_levels_refuse_garbage(value: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        privacy.FlippedBits(**BITS).tradeoff(value)


@each_case("value", [*COUNT, 0], ids=label)
def test_composition_refuses_garbage_times(value: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        privacy.compose(privacy.FlippedBits(**BITS), times=value)


@pytest.mark.parametrize("value", [None, 3, "x", [3], [None], [FILTERS]], ids=label)
def test_composition_refuses_what_is_no_mechanism(value: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        privacy.compose(value)


@pytest.mark.parametrize(
    "given",
    [{}, {"values": 3}, {"values": 3, "users": 5}, {"values": 3, "decoy_rate": 0.5}],
    ids=label,
)
def test_decoys_come_from_one_rule(given: dict[str, Any]) -> None:
    with pytest.raises((errors.InvalidInput, TypeError)):
        privacy.DecoyedValues(**given)


def test_decoys_do_not_come_from_two_rules() -> None:
    with pytest.raises(errors.InvalidInput):
        privacy.DecoyedValues(values=3, decoys=5, users=5, decoy_rate=0.5)


@pytest.mark.parametrize("value", ["0.05", "1/20", 0.05, Fraction(1, 20), np.float64(0.05)])
def test_a_flip_probability_may_be_written_in_many_ways(value: Any) -> None:
    mechanism = privacy.FlippedBits(users=10, flip_probability=value)
    assert mechanism.flip_probability == Fraction(value)
