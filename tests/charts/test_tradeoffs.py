from __future__ import annotations

import numpy as np
import pytest

from chaffinch import charts, privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy import published

BITS = privacy.FlippedBits(users=100, flip_probability="0.005")


def test_the_three_lines(tradeoff: charts.Figure) -> None:
    assert [(series.name, series.style) for series in tradeoff.series] == [
        ("exact, worst crowd", "proven"),
        ("Chen and Long 2021, Theorem 2", "published"),
        ("perfect privacy", "reference"),
    ]
    assert tradeoff.series[2].x == (0.0, 1.0)
    assert tradeoff.series[2].y == (1.0, 0.0)


def test_the_safe_end_is_below_and_convex(tradeoff: charts.Figure) -> None:
    own = tradeoff.series[0]
    x, y = np.array(own.x), np.array(own.y)
    assert np.all(y <= np.array(own.other_end))
    assert np.all(y <= 1.0 - x + 1e-12)
    slopes = np.diff(y) / np.diff(x)
    assert np.all(np.diff(slopes) >= -1e-9)


def test_the_own_line_is_the_curve_of_the_mechanism() -> None:
    levels = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    figure = charts.tradeoff(BITS, alphas=levels, published=False)
    truth = BITS.tradeoff(levels)
    assert figure.series[0].y == tuple(truth.lower)
    assert figure.series[0].other_end == tuple(truth.upper)
    assert len(figure.series) == 2


def test_the_claim_is_the_published_formula(tradeoff: charts.Figure) -> None:
    line = tradeoff.series[1]
    claimed = published.shifted_binomial_tradeoff(line.x, users=100, flip_probability=0.005)
    assert line.y == tuple(claimed)


@pytest.mark.parametrize("more", [{"copies": 2}, {"decoys": 5}])
def test_the_claim_stays_away_where_it_does_not_speak(more: dict[str, int]) -> None:
    mechanism = privacy.FlippedBits(users=30, flip_probability="0.1", **more)
    figure = charts.tradeoff(mechanism, alphas=[0.0, 0.5, 1.0])
    assert [series.style for series in figure.series] == ["proven", "reference"]


def test_the_text_alternative_names_the_over_claim(tradeoff: charts.Figure) -> None:
    # n = 100, λ = 1: S3 Theorem 2 claims 0.088 too much around α = 0.6.
    assert "claims too much, by up to 0.088 at type I error 0.594" in tradeoff.alternative


@pytest.mark.parametrize("alphas", [[], [-0.1], [1.1], [float("nan")]])
def test_levels_out_of_range_are_refused(alphas: list[float]) -> None:
    with pytest.raises(InvalidInput):
        charts.tradeoff(BITS, alphas=alphas)
