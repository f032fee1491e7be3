"""SVG is well-formed, describes itself, and puts every mark where its number is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.cards import escape
from chaffinch.charts import Figure, estimates_chart
from chaffinch.charts.axis import Axis
from chaffinch.charts.estimates import DotFigure, counts_chart, measured_chart
from chaffinch.charts.svg import element

SPACE = "{http://www.w3.org/2000/svg}"
NASTY = ["<script>alert(1)</script>", '"><img src=x onerror=y>', "]]>", "\x00\x1b\ud800", "茶" * 99]


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own words


@pytest.fixture(scope="module")
def dots() -> DotFigure:
    return estimates_chart(
        '<title> & "quotes"',
        NASTY,
        [50, 40, 30, 20, -10],
        each=([45, 35, 25, 15, 0], [55, 45, 35, 25, 5]),
        together=([40, 30, 20, 10, 0], [60, 50, 40, 30, 10]),
        level=0.95,
    )


def test_a_picture_says_what_it_shows(dots: DotFigure, curve: Figure) -> None:
    for figure in (dots, curve):
        root = parsed(figure.svg(name="one"))
        assert root.tag == f"{SPACE}svg"
        assert root.attrib["role"] == "img"
        assert root.attrib["aria-label"] == figure.title
        assert root.findtext(f"{SPACE}title") == figure.title
        words = root.find(f"{SPACE}desc")
        assert words is not None
        assert root.attrib["aria-describedby"] == words.attrib["id"] == "one-words"
        assert (words.text or "").startswith(escaped_back(figure.alternative))


def escaped_back(text: str) -> str:
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if c < " " or "\ud800" <= c <= "\udfff" else c for c in text
    )


def test_labels_are_texts(dots: DotFigure) -> None:
    root = parsed(dots.svg())
    tags = {part.tag.removeprefix(SPACE) for part in root.iter()}
    assert tags == {"svg", "title", "desc", "style", "text", "tspan", "line", "rect"}
    texts = [part.text for part in root.iter(f"{SPACE}text")]
    assert NASTY[0] in texts
    assert NASTY[1] in texts
    assert any(re.fullmatch("茶{12,20}…", one or "") for one in texts)


def span(bar: ET.Element) -> tuple[float, float]:
    left, width = (float(bar.attrib[name][:-1]) for name in ("x", "width"))
    return left, left + width


def test_bars_and_whiskers_stand_where_their_numbers_are(dots: DotFigure) -> None:
    bars: dict[str, list[tuple[float, float]]] = {}
    for part in parsed(dots.svg()).iter(f"{SPACE}rect"):
        bars.setdefault(part.attrib["class"], []).append(span(part))

    def place(value: float) -> float:
        return 100 * dots.x.place(value)

    for dot, bar, cap in zip(dots.dots, bars["cf-bar"], bars["cf-cap"], strict=True):
        assert dot.each is not None
        # An estimate below 0 is a bar to the other side, and never hidden.
        assert bar == pytest.approx([place(end) for end in sorted((0, dot.estimate))], abs=0.02)
        assert cap == pytest.approx([place(end) for end in dot.each], abs=0.02)
    assert dots.dots[-1].estimate < 0 <= dots.dots[-1].ends[1]
    lines = [
        [float(line.attrib[name][:-1]) for name in ("x1", "x2")]
        for line in parsed(dots.svg()).iter(f"{SPACE}line")
        if line.attrib["class"] == "cf-end" and line.attrib["x1"] != line.attrib["x2"]
    ]
    expected = [[place(end) for end in dot.together or ()] for dot in dots.dots]
    assert np.array(lines) == pytest.approx(np.array(expected), abs=0.02)


def test_rows_go_down_in_order(dots: DotFigure) -> None:
    root = parsed(dots.svg())
    heights = [float(c.attrib["y"]) for c in root.iter() if c.attrib.get("class") == "cf-bar"]
    assert heights == sorted(heights)
    assert heights[-1] < float(root.attrib["height"])


def test_ticks_have_their_numbers_below_them() -> None:
    rows = [("tea", 30.0, (25.0, 35.0), (20.0, 40.0)), ("milk", 90.0, (85.0, 95.0), (80.0, 99.0))]
    root = parsed(counts_chart("cups", rows, level=0.95, unit="people", crowd=200).svg())
    grid = {part.attrib["x1"] for part in root.iter() if part.attrib.get("class") == "cf-grid"}
    below = {
        part.attrib["x"]: part.text
        for part in root.iter(f"{SPACE}text")
        if (part.text or "").endswith("%")
    }
    assert list(below.values()) == ["0%", "10%", "20%", "30%", "40%", "50%"]
    assert grid == {place for place, text in below.items() if text != "0%"}


def test_a_number_is_a_place_on_its_range_and_no_bar() -> None:
    rows = [("mean", 20.0, (18.0, 22.0), None), ("median", 15.0, None, (12.0, 19.0))]
    figure = measured_chart("delay", rows, level=0.95, unit="min", within=(0.0, 60.0))
    root = parsed(figure.svg())
    assert not [one for one in root.iter() if one.attrib.get("class") == "cf-bar"]
    places = [float(one.attrib["cx"][:-1]) for one in root.iter(f"{SPACE}circle")]
    assert places == pytest.approx([100 * 20 / 60, 25], abs=0.01)
    assert (figure.x.low, figure.x.high) == (0.0, 60.0)


def test_a_notebook_shows_pictures_on_a_card_that_no_system_darkens(dots: DotFigure) -> None:
    shown = dots._repr_html_()
    assert shown.startswith('<div class="cf-card" style="color-scheme:light;background:#')
    assert "prefers-color-scheme" not in shown
    assert escape(dots.title) in shown
    assert escape(dots.note) in shown


def test_looks_can_be_left_to_the_page(dots: DotFigure, curve: Figure) -> None:
    for figure in (dots, curve):
        assert "prefers-color-scheme:dark" in figure.svg()
        assert "<style" not in figure.svg(styled=False)


def test_lines_have_all_their_points_and_differ(curve: Figure) -> None:
    root = parsed(curve.svg())
    lines = list(root.iter(f"{SPACE}polyline"))
    assert len(lines) == len(curve.series)
    points = lines[0].attrib["points"].split()
    assert len(points) == sum(y > 0 for y in curve.series[0].y)
    first = [float(number) for number in points[0].split(",")]
    _, frame = root.iter(f"{SPACE}svg")
    _, _, wide, tall = map(float, frame.attrib["viewBox"].split())
    # Stretched to its place: as tall as it is drawn, and as wide as the grid.
    assert tall == float(frame.attrib["height"])
    across = curve.x.place(curve.series[0].x[0]) * wide
    down = (1 - curve.y.place(curve.series[0].y[0])) * tall
    assert first == pytest.approx([across, down], abs=0.06)
    grid = next(line for line in root.iter(f"{SPACE}line") if line.get("y1") == line.get("y2"))
    left, right = (float(grid.attrib[end].rstrip("%")) for end in ("x1", "x2"))
    assert float(frame.attrib["x"].rstrip("%")) == left
    assert float(frame.attrib["width"].rstrip("%")) == right - left
    kinds = [line.attrib["class"] for line in lines]
    assert len(set(kinds)) == len(kinds)
    texts = " ".join(part.text or "" for part in root.iter(f"{SPACE}text"))
    assert all(series.name in texts for series in curve.series)


def test_a_tradeoff_is_drawn_too(tradeoff: Figure) -> None:
    root = parsed(tradeoff.svg())
    assert len(list(root.iter(f"{SPACE}polyline"))) == len(tradeoff.series)


@given(st.text(st.characters(codec=None), max_size=30))
def test_any_text_stays_a_text(text: str) -> None:
    written = element("text", text, title=text)
    root = parsed(written)
    assert len(root) == 0
    assert set(root.attrib) == {"title"}
    written.encode()
    assert "<" not in escape(text)


def test_only_a_picture_that_stands_alone_draws_its_title(curve: Figure) -> None:
    alone, on_page = parsed(curve.svg()), parsed(curve.svg(styled=False))
    drawn = [part for part in alone.iter(f"{SPACE}text") if part.get("class") == "cf-title"]
    assert " ".join(part.text or "" for part in drawn) == curve.title
    top = float(alone.attrib["viewBox"].split()[1])
    assert all(top < float(part.attrib["y"]) - 10 for part in drawn)
    assert max(float(part.attrib["y"]) for part in drawn) < 0
    assert not any(part.get("class") == "cf-title" for part in on_page.iter())
    # On a page it has the width of its place, and letters are not scaled with it.
    assert "viewBox" not in on_page.attrib
    assert on_page.attrib["width"] == "100%"


def test_a_count_has_ticks_at_whole_numbers() -> None:
    assert [text for _, text in Axis("bits", 0.0, 3.0, whole=True).ticks()] == list("0123")
    assert "0.5" in [text for _, text in Axis("share", 0.0, 3.0).ticks()]
