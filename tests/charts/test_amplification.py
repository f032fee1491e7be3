"""What is known of a shuffled randomizer: every proof above the truth, in one table and figure."""

from __future__ import annotations

import math

import pytest

from chaffinch import charts, privacy
from chaffinch.charts import amplification_bounds
from chaffinch.privacy.amplification import ShuffledRandomizer, ShuffledResponse, ShuffledTable
from chaffinch.privacy.randomizers import OptimizedUnary
from tests.tiers import nightly


def found_at(mechanism: ShuffledRandomizer, delta: float) -> dict[str, float | None]:
    return {one.label: one.epsilon(delta) for one in amplification_bounds(mechanism)}


def test_bounds_of_two_values_stand_in_order() -> None:
    mechanism = ShuffledResponse(local_epsilon=2, values=2, users=10_000)
    rows = found_at(mechanism, 1e-6)
    ordered = [rows[name] for name in (
        "worst crowd found", "exact, worst crowd", "privacy blanket", "clones, numerical",
        "clones, closed form",
    )]  # fmt: skip
    known = [value for value in ordered if value is not None]
    assert len(known) == 5
    assert known == sorted(known)
    bits = privacy.FlippedBits(users=10_000, flip_probability=1 / (1 + math.exp(2)))
    assert rows["exact, worst crowd"] == pytest.approx(bits.epsilon(1e-6).upper, rel=1e-9)


def test_a_claim_below_the_truth_is_a_claim() -> None:
    bounds = amplification_bounds(ShuffledResponse(local_epsilon=1, values=4, users=100))
    kinds = {one.label: one.kind for one in bounds}
    rows = {one.label: one.epsilon(1e-6) for one in bounds}
    assert kinds["variation ratio"] == "published"
    assert rows["variation ratio"] == pytest.approx(0.39253, abs=1e-5)
    assert (rows["worst crowd found"] or 0) > 0.3942
    # A crowd too small for the closed form.
    assert rows["clones, closed form"] is None
    assert "exact, worst crowd" not in rows


@pytest.mark.parametrize("values", [2, 4])
def test_delta_and_epsilon_are_inverse(values: int) -> None:
    for one in amplification_bounds(ShuffledResponse(local_epsilon=2, values=values, users=2000)):
        epsilon = one.epsilon(1e-6)
        assert epsilon is not None
        assert one.delta(epsilon) == pytest.approx(1e-6, rel=5e-3)


def test_a_table_without_a_local_guarantee_has_a_blanket_only() -> None:
    table = [["1/2", "1/2", "0"], ["1/2", "0", "1/2"]]
    rows = found_at(ShuffledTable(table, users=50), 1e-3)
    assert list(rows) == ["worst crowd found", "privacy blanket"]


@pytest.mark.parametrize(("values", "own"), [nightly(2, "exact, worst crowd"), (4, "proven bound")])
def test_one_figure_shows_them_all(values: int, own: str) -> None:
    mechanism = ShuffledResponse(local_epsilon=2, values=values, users=2000)
    figure = charts.privacy_curve(mechanism, least_delta=1e-6)
    names = [line.name for line in figure.series]
    assert names[0].startswith(own)
    assert ("privacy blanket, Balle et al. 2019" in names) is (values == 2)
    assert names[-1] == "variation ratio, Wang et al. 2024"
    # Clones are a theorem about this very number; inequalities in doubles and claims are not.
    styles = {line.name.split(",")[0]: line.style for line in figure.series[1:]}
    assert styles["clones"] == "bound"
    assert styles["blanket"] == styles["variation ratio"] == "published"
    assert f"{values}-ary, local epsilon 2" in figure.title


def test_closed_forms_know_k_ary_response_and_stay_above() -> None:
    rows = found_at(ShuffledResponse(local_epsilon=1, values=10, users=10_000), 1e-6)
    blanket = rows["privacy blanket"] or 0
    for name in ("blanket, Hoeffding", "blanket, Bennett"):
        assert blanket < (rows[name] or 0) < 3 * blanket
    other = found_at(OptimizedUnary(local_epsilon=1, values=10, users=10_000), 1e-6)
    assert (other["blanket, Bennett"] or 0) > 2 * (rows["blanket, Bennett"] or 0)
