"""Which parts of a whole several sets share: a linear diagram.

One row for each set, all on one axis. The axis is cut into the parts that exactly some sets
have, each as long as its number; a set's row is filled where a part is its own. Unlike circles,
lengths are never off, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from chaffinch.charts import rounding
from chaffinch.charts.axis import Axis
from chaffinch.charts.svg import Drawing, Picture, across, element, full_width, upright
from chaffinch.charts.text_tables import shorten_text
from chaffinch.errors import InvalidInput

MOST_SETS = 4
_Sets = frozenset[str]

# Pixels of the drawing.
_ROW = 40
_BAR = 14
_AXIS = 22
_LINES, _NUMBER = 4, 16
"""Numbers stand in up to so many lines, each so tall."""
_LABEL_COLUMNS = 26
_LETTER = 0.022
"""Of the width of a narrow screen, with a little room."""


@dataclass(frozen=True, slots=True)
class _Part:
    sets: _Sets
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PartsFigure(Picture):
    """A linear diagram: the first set is the uppermost."""

    title: str
    x: Axis
    sets: tuple[str, ...]
    parts: tuple[_Part, ...]
    alternative: str
    note: str = ""
    """What the lengths do not show."""

    def spans(self, name: str) -> list[tuple[float, float]]:
        """Return where the row of a set is filled; neighbouring parts are one span."""
        found: list[tuple[float, float]] = []
        for part in self.parts:
            if name not in part.sets:
                continue
            if found and found[-1][1] == part.low:
                found[-1] = (found[-1][0], part.high)
            else:
                found.append((part.low, part.high))
        return found

    def _draw(self, *, name: str, styled: bool) -> Drawing:  # noqa: ARG002 - alike on any page
        bottom = _ROW * len(self.sets)
        body: list[str] = []
        for number, one in enumerate(self.sets):
            body.extend(_row(self, one, _ROW * number))
        numbers, lines = _sizes(self, bottom)
        body.extend([*_edges(self, bottom), *numbers])
        return Drawing(body, full_width(bottom + _AXIS + _NUMBER * (lines - 1)), self.note)


def _exclusive_parts(names: Sequence[str], common: Mapping[_Sets, float]) -> dict[_Sets, float]:
    """Return what exactly some sets have, from what some have at least, by inclusion–exclusion.

    >>> both = {frozenset("a"): 5.0, frozenset("b"): 4.0, frozenset("ab"): 3.0}
    >>> found = _exclusive_parts("ab", both)
    >>> found[frozenset("a")], found[frozenset("b")], found[frozenset("ab")]
    (2.0, 1.0, 3.0)
    """
    every = [
        frozenset(some) for size in range(1, len(names) + 1) for some in combinations(names, size)
    ]
    return {
        some: sum((-1) ** (len(more) - len(some)) * common[more] for more in every if more >= some)
        for some in every
    }


def parts_chart(
    title: str, names: Sequence[str], common: Mapping[_Sets, float], *, unit: str
) -> PartsFigure:
    """Return the diagram of 2 to 4 sets; ``common`` says how much any of them share at least.

    A part below zero, which an estimate can be, has no length, and the note says so.
    """
    if not 2 <= len(names) <= MOST_SETS:
        raise InvalidInput("number of sets", f"2 to {MOST_SETS}", len(names))
    found = _exclusive_parts(names, common)
    parts, place = [], 0.0
    for some in _gray_order(names):
        length = max(found[some], 0.0)
        if length > 0:
            parts.append(_Part(some, place, place + length))
            place += length
    below = [some for some in found if found[some] < 0]
    note = (
        f"Each column is a group of {unit}: those whose bars are filled have them, and below it "
        "stands how many they are, where there is room. All of it is estimated."
    )
    if below:
        listed = "; ".join(_sets_in_words(some, names) for some in below)
        note += f" Estimated below 0, and drawn without length: {listed}."
    told = ". ".join(
        f"{_sets_in_words(part.sets, names)}: {rounding.nearest_text(part.high - part.low, 0)}"
        for part in parts
    )
    return PartsFigure(
        title=title,
        x=Axis(unit, 0.0, place or 1.0),
        sets=tuple(names),
        parts=tuple(parts),
        alternative=f"The parts of all {unit} that exactly some have. {told}.",
        note=note,
    )


def _gray_order(names: Sequence[str]) -> list[_Sets]:
    # Neighbours in a Gray code differ by one set, so that bars have few gaps.
    codes = (number ^ number >> 1 for number in range(1, 1 << len(names)))
    return [
        frozenset(name for place, name in enumerate(names) if code >> place & 1) for code in codes
    ]


def _sets_in_words(some: _Sets, names: Sequence[str]) -> str:
    listed = [name for name in names if name in some]
    return f"only {listed[0]}" if len(listed) == 1 else f"exactly {' and '.join(listed)}"


def _row(figure: PartsFigure, name: str, top: int) -> Iterator[str]:
    spans = figure.spans(name)
    total = rounding.nearest_text(sum(high - low for low, high in spans), 0)
    yield element("text", shorten_text(name, _LABEL_COLUMNS), x=0, y=top + 14)
    said = f"{total} {figure.x.label}"
    yield element("text", said, x="100%", y=top + 14, text_anchor="end", class_="cf-soft")
    yield _bar(figure.x, (figure.x.low, figure.x.high), top + 20, "cf-track")
    for span in spans:
        yield _bar(figure.x, span, top + 20, "cf-part")


def _edges(figure: PartsFigure, bottom: int) -> Iterator[str]:
    for part in figure.parts[:-1]:
        at = across(figure.x, part.high)
        for top in range(0, bottom, _ROW):
            # Through the bars, and not through the names above them.
            yield upright(at, top + 18, top + 38, "cf-edge")


def _sizes(figure: PartsFigure, bottom: int) -> tuple[list[str], int]:
    """Return the number of each part below its column, and how many lines they take.

    A part that is narrower than its number has it further down, at the end of a line of its own;
    what would stand on another number there is left out.
    """
    drawn: list[str] = []
    taken = [0.0] * _LINES
    used = 1
    for part in figure.parts:
        written = rounding.nearest_text(part.high - part.low, 0)
        low, high = figure.x.place(part.low), figure.x.place(part.high)
        wide, middle = _LETTER * len(written), (low + high) / 2
        # Nothing stands outside of the picture.
        left = min(max(middle - wide / 2, 0.0), 1.0 - wide)
        first = 0 if high - low > wide else 1
        line = next((one for one in range(first, _LINES) if left >= taken[one]), None)
        if line is None:
            continue
        taken[line], used = left + wide, max(used, line + 1)
        at, anchor, y = 100 * middle, "middle", bottom + 14 + _NUMBER * line
        if left in (0.0, 1.0 - wide):
            at, anchor = (0.0, "start") if left == 0.0 else (100.0, "end")
        if line:
            drawn.append(upright(f"{100 * middle:.2f}%", bottom, y - 10, "cf-reference"))
        drawn.append(
            element("text", written, x=f"{at:.2f}%", y=y, text_anchor=anchor, class_="cf-soft")
        )
    return drawn, used


def _bar(axis: Axis, ends: tuple[float, float], top: int, kind: str) -> str:
    low, high = (100 * axis.place(end) for end in ends)
    return element(
        "rect", x=f"{low:.2f}%", y=top, width=f"{high - low:.2f}%", height=_BAR, class_=kind
    )
