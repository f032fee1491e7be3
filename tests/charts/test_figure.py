from __future__ import annotations

import dataclasses
import math
import re

import pytest

from chaffinch import charts
from chaffinch.errors import InvalidInput
from chaffinch.privacy.guarantee import Method


@pytest.mark.parametrize(
    ("low", "high", "scale"),
    [(1.0, 1.0, "linear"), (2.0, 1.0, "linear"), (0.0, 1.0, "log"), (math.nan, 1.0, "linear")],
)
def test_an_axis_leads_somewhere(low: float, high: float, scale: charts.axis.Scale) -> None:
    with pytest.raises(InvalidInput):
        charts.Axis("x", low, high, scale=scale)


def test_places_on_a_logarithmic_axis() -> None:
    axis = charts.Axis("delta", 1e-8, 1.0, scale="log")
    assert axis.place(1e-8) == 0.0
    assert axis.place(1e-4) == pytest.approx(0.5)
    assert axis.place(1.0) == 1.0
    assert math.isnan(axis.place(0.0))


def test_series_are_as_long_in_x_as_in_y() -> None:
    with pytest.raises(InvalidInput):
        charts.Series("s", (1.0, 2.0), (1.0,), "proven")
    with pytest.raises(InvalidInput):
        charts.Series("s", (1.0, 2.0), (1.0, 2.0), "proven", other_end=(1.0,))


@pytest.mark.parametrize(
    ("method", "words"), [("exact", "(proven)"), ("monte-carlo", "not proven")]
)
def test_terms_say_whether_there_is_a_proof(method: Method, words: str) -> None:
    terms = charts.Terms("replace-one", "messages", "9 honest users", method)
    assert words in str(terms)
    assert "replace-one" in str(terms)
    assert "9 honest users" in str(terms)


def test_a_figure_never_changes(curve: charts.Figure) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        curve.title = "other"  # type: ignore[misc]
    assert hash(curve) == hash(dataclasses.replace(curve))


def test_a_notebook_shows_a_figure_by_itself(curve: charts.Figure, tradeoff: charts.Figure) -> None:
    one, two = curve._repr_svg_(), tradeoff._repr_svg_()
    for drawn in (one, two):
        assert drawn.startswith("<svg")
        assert drawn.rstrip().endswith("</svg>")
    # Both may stand on one page: no id is used twice.
    ids = [set(re.findall(r' id="([^"]+)"', drawn)) for drawn in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
    assert one == curve._repr_svg_()
    assert repr(curve).startswith("<Figure 'Flipped bits, 1,000 honest users")
    assert len(repr(curve)) < 300
