from __future__ import annotations

import pytest

from chaffinch import charts
from chaffinch.errors import InvalidInput
from tests.cases import each_case

TERMS = charts.Terms("replace-one", "messages", "9 honest users", "exact")


def simple(*series: charts.Series) -> charts.Figure:
    return charts.Figure(
        title="A title",
        x=charts.Axis("across", 0.0, 1.0),
        y=charts.Axis("up", 0.0, 1.0),
        series=series,
        alternative="",
        terms=TERMS,
    )


def picture(drawn: str) -> list[str]:
    """Return what stands right of the y axis, row by row."""
    rows = drawn.splitlines()
    first = rows.index("up") + 1
    last = next(i for i, row in enumerate(rows) if i >= first and "+-" in row.replace("++", "+-"))
    edge = rows[last].index("+")
    return [row[edge + 1 :] for row in rows[first:last]]


@each_case("width", [40, 60, 72, 80, 120])
def test_no_line_is_too_long(curve: charts.Figure, tradeoff: charts.Figure, width: int) -> None:
    for figure in (curve, tradeoff):
        assert max(map(len, figure.text(width=width).splitlines())) <= width


def test_title_axes_legend_and_terms_are_there(curve: charts.Figure) -> None:
    drawn = curve.text(width=72)
    assert drawn.startswith("Flipped bits, 1,000 honest users, flip probability 0.03")
    for word in (
        "delta",
        "epsilon",
        "10⁻⁶",
        "# exact, worst crowd",
        "Zhilyaev 2020 (4.48) (published)",
    ):
        assert word in drawn
    assert "Neighbours: replace-one; view: messages;" in drawn
    assert "method: exact (proven)" in drawn


def test_a_falling_line_falls_from_corner_to_corner() -> None:
    rows = picture(simple(charts.Series("s", (0.0, 1.0), (1.0, 0.0), "proven")).text())
    assert rows[0].startswith("#")
    assert rows[-1].endswith("#")
    starts = [row.index("#") for row in rows]
    assert starts == sorted(starts)
    assert len(set(starts)) == len(rows)


def test_an_upright_line_fills_one_column() -> None:
    rows = picture(simple(charts.Series("s", (0.5, 0.5), (0.0, 1.0), "published")).text())
    assert {row.index("o") for row in rows} == {len(rows[0]) - 1}
    assert all(row.count("o") == 1 for row in rows)


def test_what_is_proven_lies_on_top() -> None:
    proven = charts.Series("p", (0.0, 1.0), (0.5, 0.5), "proven")
    claim = charts.Series("c", (0.0, 1.0), (0.5, 0.5), "published")
    drawn = "\n".join(picture(simple(proven, claim).text()))
    assert "#" in drawn
    assert "o" not in drawn


def test_values_off_the_axes_are_not_drawn() -> None:
    outside = charts.Series("s", (-2.0, -1.0, 3.0), (5.0, 5.0, 5.0), "proven")
    assert "#" not in "\n".join(picture(simple(outside).text()))


def test_zero_on_a_logarithmic_axis_breaks_the_line(curve: charts.Figure) -> None:
    broken = charts.Series("s", (0.0, 1.0, 2.0), (0.1, 0.0, 0.0), "proven")
    figure = charts.Figure(curve.title, curve.x, curve.y, (broken,), "", curve.terms)
    above_the_legend = figure.text().partition("  # s")[0]
    assert above_the_legend.count("#") == 1


@pytest.mark.parametrize(("width", "height"), [(39, 20), (True, 20), (72, 7), (72.5, 20)])
def test_sizes_too_small_to_read_are_refused(curve: charts.Figure, width: int, height: int) -> None:
    with pytest.raises(InvalidInput):
        curve.text(width=width, height=height)
