"""Heat maps: every cell stands where it belongs, as dark as its number, and can be read."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.charts import Axis, HeatFigure
from chaffinch.charts.heat import short_number
from chaffinch.charts.svg import STYLE
from chaffinch.errors import InvalidInput
from tests.cases import each_case

SPACE = "{http://www.w3.org/2000/svg}"
SCALE = Axis("loud", 1.0, 100.0, scale="log")


def chart(**more: Any) -> HeatFigure:
    parts: dict[str, Any] = {
        "title": "a <map>",
        "x_label": "to",
        "y_label": "from",
        "columns": ("p", "q", "r"),
        "rows": ("a", "b"),
        "values": ((1.0, 10.0, 100.0), (math.nan, 31.6, 3.16)),
        "scale": SCALE,
        "alternative": "Darker to the right.",
        "marked": ((0, 2),),
    }
    return HeatFigure(**(parts | more))


def drawn(figure: HeatFigure) -> ET.Element:
    return ET.fromstring(figure.svg(name="one"))  # noqa: S314 - our own words


def test_a_map_says_what_it_shows() -> None:
    root = drawn(chart(note="Not a promise."))
    assert root.attrib["aria-label"] == "a <map>"
    words = root.find(f"{SPACE}desc")
    assert words is not None
    assert words.text == "Darker to the right. Not a promise."
    texts = [part.text for part in root.iter(f"{SPACE}text")]
    assert {"to", "from", "p", "q", "r", "a", "b", "loud"} <= set(texts)
    assert [text for text in texts if text in {"1.0", "10", "100"}].count("10") == 2  # cell, scale


def test_cells_stand_in_their_places_and_grow_dark_with_their_numbers() -> None:
    figure = chart()
    cells = [r for r in drawn(figure).iter(f"{SPACE}rect") if r.attrib["class"] == "cf-cell"]
    shades = {}
    for cell, (row, column) in zip(cells, figure.cells(), strict=False):
        left = float(cell.attrib["x"][:-1])
        assert left == pytest.approx(14 + 86 * column / 3, abs=0.01)
        assert float(cell.attrib["y"]) == 38 + 30 * row
        shades[figure.values[row][column]] = float(cell.attrib["fill-opacity"])
    assert len(shades) == 5
    ordered = [shades[value] for value in sorted(shades)]
    assert ordered == sorted(set(ordered))
    assert ordered[0] == pytest.approx(0.04)
    assert ordered[-1] == 1


def test_marked_cells_have_a_frame() -> None:
    (mark,) = [r for r in drawn(chart()).iter(f"{SPACE}rect") if r.attrib["class"] == "cf-mark"]
    assert float(mark.attrib["x"][:-1]) == pytest.approx(14 + 86 * 2 / 3, abs=0.01)
    assert mark.attrib["y"] == "38"


@pytest.mark.parametrize("size", [8, 9, 40])
def test_numbers_stand_in_up_to_64_cells(size: int) -> None:
    numbered = size == 8
    names = tuple(f"n{i}" for i in range(size))
    values = tuple(tuple(1.0 + i for i in range(size)) for _ in range(size))
    figure = chart(columns=names, rows=names, values=values, marked=())
    assert figure.numbered is numbered
    root = drawn(figure)
    numbers = [t for t in root.iter(f"{SPACE}text") if t.attrib["class"] == "cf-number"]
    assert len(numbers) == (size * size if numbered else 0)
    # Names do not run into one another: rows leave room for letters.
    heights = [
        float(t.attrib["y"])
        for t in root.iter(f"{SPACE}text")
        if (t.text or "").startswith("n") and t.attrib["text-anchor"] == "end"
    ]
    assert min(b - a for a, b in pairwise(heights)) >= 12


@each_case(
    "wrong",
    [
        {"values": ((1.0, 2.0, 3.0),)},
        {"values": ((1.0, 2.0), (1.0, 2.0))},
        {"values": ((1.0, 2.0, 3.0), (1.0, 2.0))},
        {"values": ((1.0, 2.0, 3.0), (1.0, 2.0, 101.0))},
        {"marked": ((2, 0),)},
        {"marked": ((0, 3),)},
        {"rows": (), "values": ()},
    ],
)
def test_a_map_is_whole(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        chart(**wrong)


def test_a_map_can_be_read_aloud() -> None:
    lines = chart().text().splitlines()
    assert lines[0] == "a <map>"
    assert [line.split() for line in lines[4:7]] == [
        ["p", "q", "r"],
        ["a", "1.0", "10", "100*"],
        ["b", "·", "32", "3.2"],
    ]


@given(st.floats(1e-12, 1e12))
def test_short_numbers_are_short_and_right(value: float) -> None:
    text = short_number(value)
    assert len(text) <= 7
    scale = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1], 1.0)
    assert float(text.rstrip("kMG")) * scale == pytest.approx(value, rel=0.051)


def luminance(colour: tuple[float, ...]) -> float:
    """Return the relative luminance of the web's accessibility guidelines."""
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def colour(text: str) -> tuple[float, ...]:
    return tuple(int(text[i : i + 2], 16) / 255 for i in (0, 2, 4))


@pytest.mark.parametrize(("place", "paper"), [(0, "fbfaf7"), (1, "131517")])
def test_letters_can_be_read_on_every_shade(place: int, paper: str) -> None:
    """WCAG asks for a contrast of 4.5 and here it never falls below, in light and dark."""
    heat, ink = (
        colour(re.findall(rf"--cf-{name}:#([0-9a-f]{{6}})", STYLE)[place])
        for name in ("heat", "ink")
    )
    back, lights = colour(paper), []
    for step in range(101):
        share = step / 100
        mixed = tuple(share * h + (1 - share) * b for h, b in zip(heat, back, strict=True))
        light, letters = luminance(mixed), luminance(ink)
        lights.append(light)
        assert (max(light, letters) + 0.05) / (min(light, letters) + 0.05) >= 4.5
    # One hue, and lightness alone tells the order: no colour sight is needed.
    assert lights == sorted(lights, reverse=place == 0)
