from __future__ import annotations

from typing import Any

import pytest

from chaffinch import charts, privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy import published
from tests.cases import each_case
from tests.tiers import nightly

BITS = privacy.FlippedBits(users=1000, flip_probability="0.03")


def named(figure: charts.Figure, name: str) -> charts.Series:
    (found,) = [series for series in figure.series if series.name.startswith(name)]
    return found


def test_delta_axis_is_in_powers_of_ten(curve: charts.Figure) -> None:
    assert (curve.y.scale, curve.y.low, curve.y.high) == ("log", 1e-12, 1.0)
    assert all(label == "1" or label.startswith("10⁻") for _, label in curve.y.ticks())
    assert curve.x.label == "epsilon"
    assert curve.y.label == "delta"


def test_the_own_line_is_the_bracket_of_the_mechanism(curve: charts.Figure) -> None:
    own = named(curve, "exact")
    assert own.style == "proven"
    for index in (0, 10, 20, 30):
        truth = BITS.delta(own.x[index])
        assert own.other_end[index] <= truth.upper
        assert truth.lower <= own.y[index] <= truth.upper * 1.1


def test_the_own_line_runs_down_to_the_least_delta() -> None:
    figure = charts.privacy_curve(BITS, least_delta=1e-6)
    assert named(figure, "exact").x[-1] == BITS.epsilon(1e-6).upper
    assert figure.y.low == 1e-6


def test_claims_are_the_published_formulas(curve: charts.Figure) -> None:
    line = named(curve, "Zhilyaev 2020 (4.48)")
    assert line.style == "published"
    for epsilon, delta in list(zip(line.x, line.y, strict=True))[::40]:
        assert delta == published.any_crowd_delta(
            users=1000, flip_probability=0.03, epsilon=epsilon
        )
    assert named(curve, "Cheu").style == "published"


def test_a_claim_without_delta_stands_upright(curve: charts.Figure) -> None:
    line = named(curve, "Zhilyaev and Zeber 2016a (4.45)")
    claimed = published.three_sigma_epsilon(users=1000, flip_probability=0.03)
    assert line.x == (claimed, claimed)
    assert line.y == (curve.y.low, curve.y.high)


def test_claims_can_be_left_out() -> None:
    figure = charts.privacy_curve(BITS, epsilons=[0.5, 1.0], published=False)
    assert [series.style for series in figure.series] == ["proven"]
    assert figure.series[0].x == (0.5, 1.0)


@pytest.mark.parametrize(
    ("mechanism", "claims"),
    [
        (
            privacy.FlippedBits(users=50, flip_probability="0.1", copies=3),
            ["Zhilyaev and Zeber 2016a (5.24), no delta"],
        ),
        (privacy.FlippedBits(users=50, flip_probability="0.1", decoys=3), []),
        (privacy.DecoyedValues(decoys=900, values=10), ["Zhilyaev 2020 (5.10)"]),
        (privacy.DecoyedValues(users=900, decoy_rate="0.5", values=10), []),
        nightly(
            privacy.FlippedValues(users=60, values=3, flip_probability="0.2"),
            ["Zhilyaev 2020 (5.16)"],
        ),
        (privacy.FlippedVectors(users=60, bits=2, flip_probability="0.2"), []),
        (privacy.EncodedNumbers(users=30, resolution=2, flip_probability="0.2"), []),
    ],
    ids=["copies", "fake bits", "decoys", "decoys at a rate", "values", "vectors", "numbers"],
)
def test_only_formulas_that_apply_are_shown(mechanism: Any, claims: list[str]) -> None:
    figure = charts.privacy_curve(mechanism)
    assert [series.name for series in figure.series[1:]] == claims
    # Room on the right is for claims alone.
    assert (figure.x.high > figure.series[0].x[-1]) is bool(claims)


def test_a_curve_that_never_falls_far_is_shown_as_far_as_it_goes() -> None:
    # (1 − 1/20)^100 = 0.0059 is the least delta there is: no decoy on the value left.
    figure = charts.privacy_curve(privacy.DecoyedValues(decoys=100, values=20))
    assert 0.0059 < named(figure, "exact").y[-1] < 0.012
    assert figure.y.low == 1e-3


def test_terms_are_those_of_the_guarantee(curve: charts.Figure) -> None:
    guarantee, terms = BITS.guarantee(delta=1e-6), curve.terms
    assert not isinstance(terms, str)
    assert terms.neighbours == guarantee.neighbours
    assert terms.view == guarantee.view
    assert terms.crowd == guarantee.crowd
    assert terms.method == guarantee.method


def test_the_caption_warns_of_claims_where_there_are_any(curve: charts.Figure) -> None:
    alone = charts.privacy_curve(BITS, epsilons=[0.5, 1.0], published=False)
    assert curve.caption == f"{curve.terms} Published lines are claims, not guarantees."
    assert alone.caption == str(alone.terms)


def test_a_composition_is_called_by_its_parts() -> None:
    small = privacy.FlippedBits(users=50, flip_probability="0.2")
    figure = charts.privacy_curve(privacy.compose(small, times=3), epsilons=[0.5, 1.0])
    assert figure.title == "3 × (Flipped bits, 50 honest users, flip probability 0.2)"
    assert [series.style for series in figure.series] == ["proven"]


def test_the_text_alternative_says_what_is_seen(curve: charts.Figure) -> None:
    words = curve.alternative
    assert "1,000 honest users" in words
    assert f"at epsilon about {BITS.epsilon(1e-6).upper:.3g} reaches delta 1e-6" in words
    assert "'Zhilyaev 2020 (4.48)' does not reach delta 1e-6" in words


@each_case("epsilons", [[], [0.0], [-1.0, 1.0], [float("nan")], [float("inf")]])
def test_epsilons_that_make_no_axis_are_refused(epsilons: list[float]) -> None:
    with pytest.raises(InvalidInput):
        charts.privacy_curve(BITS, epsilons=epsilons)


@each_case("least", [0.0, 1.0, -1.0, float("nan"), True])
def test_a_least_delta_that_makes_no_axis_is_refused(least: float) -> None:
    with pytest.raises(InvalidInput):
        charts.privacy_curve(BITS, least_delta=least)
