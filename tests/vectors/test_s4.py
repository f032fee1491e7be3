"""S4's procedures on a grid: the referee reproduces the file, and the package the values."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.privacy import published
from chaffinch.privacy.mechanisms.filters import SignalToNoise, _flip_counts, flip_probability_for
from chaffinch.privacy.published.one_filter import exact_one_filter_ratio
from tests.cases import each_case
from tests.vectors import make_s4

STORED: list[dict[str, Any]] = json.loads(make_s4.FILE.read_text(encoding="utf-8"))


def rows(function: str, quantity: str = "") -> list[Any]:
    found = [
        row
        for row in STORED
        if row["function"] == function and row["quantity"].startswith(quantity)
    ]
    assert found
    return [pytest.param(row, id=json.dumps(row["parameters"])) for row in found]


def number(text: str) -> float:
    """Return a stored value as the float next to it."""
    return float(Fraction(text) if "/" in text else Fraction(Decimal(text)))


def signal(row: dict[str, Any]) -> SignalToNoise:
    counts = row["parameters"]["d"]
    filters = (len(counts) - 1).bit_length()
    mechanism = privacy.FlippedFilters(
        filters=filters, bits=sum(counts), flip_probability=row["parameters"]["q"]
    )
    return mechanism.signal_to_noise(counts)


@pytest.mark.long
def test_the_script_still_writes_the_same_rows() -> None:
    made = [row for make in make_s4.MAKERS if make is not make_s4.searches for row in make()]
    assert json.loads(json.dumps(made)) == STORED[: len(made)]


@pytest.mark.long
def test_the_script_still_writes_the_same_searches() -> None:
    made = list(make_s4.searches())
    assert json.loads(json.dumps(made)) == STORED[-len(made) :]


def test_every_function_of_the_document_is_there() -> None:
    assert {row["function"] for row in STORED} == {
        "transition matrix",
        "signal to noise",
        "evaluate_privacy_for_one_bloom_filter",
        "ratio_of_hypergeometric_mgf",
        "evaluate_gauss_continued_fraction",
        "evaluate_privacy_for_bloom_filter",
        "estimate_flip_prob",
    }
    assert all(row["section"] and row["computed"] for row in STORED)


@each_case("row", rows("transition matrix"))
def test_transition_matrix(row: dict[str, Any]) -> None:
    count, flip = row["parameters"]["k"], float(Fraction(row["parameters"]["q"]))
    expected = [number(value) for value in row["value"]]
    assert _flip_counts(np.eye(2**count), flip)[0] == pytest.approx(expected, rel=1e-13)


@each_case("row", rows("signal to noise", "every move"))
def test_signal_to_noise(row: dict[str, Any]) -> None:
    found = signal(row)
    matrix = found.matrix()
    for here, there, value in row["value"]:
        assert matrix[here, there] == pytest.approx(number(value), rel=1e-9)
        assert matrix[there, here] == pytest.approx(number(value), rel=1e-9)
        assert found.of((there, here)) == pytest.approx(number(value), rel=1e-9)
    move, largest = found.largest()
    assert largest == pytest.approx(number(row["largest"]), rel=1e-9)
    assert list(move) in row["loudest"]


@each_case("row", rows("signal to noise", "best coefficients"))
def test_best_coefficients(row: dict[str, Any]) -> None:
    best = signal(row).coefficients(tuple(row["parameters"]["move"]))
    assert best == pytest.approx([number(value) for value in row["value"]], abs=1e-9)


def test_the_last_coefficient_is_not_alone() -> None:
    """S4's shape (s, …, s, −1) is told from the true one by these values."""
    farthest = max(
        np.ptp([number(value) for value in row["value"][:-1]])
        for row in STORED
        if row["quantity"].startswith("best") and set(row["parameters"]["d"][1:]) == {0}
    )
    assert farthest > 0.1


@each_case("row", rows("ratio_of_hypergeometric_mgf", "R(y_x | y_d)"))
@each_case("way", ["expectations", "continued-fraction"])
def test_ratio_of_expectations(row: dict[str, Any], way: str) -> None:
    here = row["parameters"]
    for shown, text in shown_values(row):
        value = number(text)
        found = exact_one_filter_ratio(
            bits=here["m"],
            input_ones=here["y_d"],
            output_ones=shown,
            flip_probability=here["q"],
            by=way,
        )
        assert found == pytest.approx(value, rel=1e-11)
        if here["y_d"] + shown < here["m"]:
            printed = published.one_filter_ratio(
                bits=here["m"],
                input_ones=here["y_d"],
                output_ones=shown,
                flip_probability=float(Fraction(here["q"])),
            )
            assert printed == pytest.approx(value, rel=1e-11)


def shown_values(row: dict[str, Any]) -> list[tuple[int, str]]:
    if "y_x" in row["parameters"]:
        return [(row["parameters"]["y_x"], row["value"])]
    return list(enumerate(row["value"]))


@each_case("row", rows("evaluate_gauss_continued_fraction"))
def test_continued_fraction(row: dict[str, Any]) -> None:
    """The package has no name for it: it is read back from the loss it serves."""
    here = row["parameters"]
    before, shown = -here["a"] - 1, -here["b"]
    size, odds = here["c"] + before + shown, math.sqrt(Fraction(here["z"]))
    flip = Fraction(1, 1 + Fraction(odds))
    loss = exact_one_filter_ratio(
        bits=size,
        input_ones=before,
        output_ones=shown,
        flip_probability=flip,
        by="continued-fraction",
    )
    found = here["c"] / (size - before) / (loss * odds)
    assert found == pytest.approx(number(row["value"]), rel=1e-12)


@each_case("row", rows("evaluate_privacy_for_one_bloom_filter"))
def test_one_filter(row: dict[str, Any]) -> None:
    """The quantile is the least epsilon that is exceeded with a chance of at most delta."""
    here = row["parameters"]
    bits = privacy.FlippedBits(users=here["m"], flip_probability=here["q"])
    crowd = bits.crowd(ones=here["y_d"])
    epsilon, delta = math.log(number(row["value"])), Fraction(here["delta"])
    assert crowd.pointwise(epsilon + 1e-9).upper <= delta
    assert crowd.pointwise(epsilon - 1e-9).lower > delta


@each_case("row", rows("evaluate_privacy_for_bloom_filter"))
def test_several_filters(row: dict[str, Any]) -> None:
    here, drawn = row["parameters"], row["monte_carlo"]
    mechanism = privacy.FlippedFilters(
        filters=here["k"], bits=here["m"], flip_probability=here["q"]
    )
    # Every value of R that the whole multiset can take, from the package's ratios.
    ratios = [float(ratio) for ratio in mechanism.words.ratios]
    means = {0.0}
    for _ in range(here["m"]):
        means = {round(total + ratio, 9) for total in means for ratio in ratios}
    expected = [number(value) * here["m"] for value in row["values_of_R"]]
    assert sorted(means) == pytest.approx(expected, abs=1e-7)
    estimate = mechanism.monte_carlo(
        delta=number(here["delta"]), samples=drawn["samples"], seed=drawn["seed"]
    )
    found = math.exp(estimate.epsilon)
    # A false alarm has a chance of 1e-6; the seed is fixed, so it would always or never ring.
    assert number(drawn["low"]) * (1 - 1e-9) <= found <= number(drawn["high"]) * (1 + 1e-9)


def test_the_monte_carlo_band_tells_a_wrong_law() -> None:
    """A flip probability that is a tenth too large, or one column more, leaves some band."""
    for wrong in ({"q": Fraction(11, 10)}, {"m": 1}):
        outside = 0
        for row in (param.values[0] for param in rows("evaluate_privacy_for_bloom_filter")):
            here, drawn = row["parameters"], row["monte_carlo"]
            mechanism = privacy.FlippedFilters(
                filters=here["k"],
                bits=here["m"] + int(wrong.get("m", 0)),
                flip_probability=Fraction(here["q"]) * wrong.get("q", 1),
            )
            estimate = mechanism.monte_carlo(
                delta=number(here["delta"]), samples=drawn["samples"], seed=drawn["seed"]
            )
            found = math.exp(estimate.epsilon)
            inside = number(drawn["low"]) * (1 - 1e-9) <= found <= number(drawn["high"])
            outside += not inside
        assert outside


@pytest.mark.parametrize("row", rows("estimate_flip_prob", "least flip probability, S4's pair"))
def test_search_with_the_assumed_pair(row: dict[str, Any]) -> None:
    found, (low, high) = searched(row, "assumed")
    assert low < found
    assert float(found) == pytest.approx(float(high), rel=1e-4)


@pytest.mark.parametrize("row", rows("estimate_flip_prob", "least flip probability, every crowd"))
def test_search_with_a_proof(row: dict[str, Any]) -> None:
    found, (low, high) = searched(row, "proven")
    assert low < found
    if row["parameters"]["k"] == 1:  # then the worst crowd is known exactly
        assert float(found) == pytest.approx(float(high), rel=1e-4)


def searched(row: dict[str, Any], method: str) -> tuple[Fraction, tuple[Fraction, Fraction]]:
    here = row["parameters"]
    found = flip_probability_for(
        epsilon=here["epsilon"],
        delta=number(here["delta"]),
        filters=here["k"],
        bits=here["m"],
        method=method,
    )
    return found, (Fraction(row["value"][0]), Fraction(row["value"][1]))
