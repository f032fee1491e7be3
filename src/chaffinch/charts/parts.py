"""Which parts of a whole several sets share, as data: a linear diagram.

One row for each set, all on one axis. The axis is cut into the parts that exactly some sets
have, each as long as its number; a set's row is filled where a part is its own. Unlike circles,
lengths are never off, whatever the numbers are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from chaffinch import rounding
from chaffinch.charts.figure import Axis
from chaffinch.errors import InvalidInput

MOST_SETS = 4
Sets = frozenset[str]


@dataclass(frozen=True, slots=True)
class Part:
    """What exactly these sets have in common, and where it lies on the axis."""

    sets: Sets
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PartsFigure:
    """A linear diagram: the first set is the uppermost."""

    title: str
    x: Axis
    sets: tuple[str, ...]
    parts: tuple[Part, ...]
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

    def svg(self, *, name: str = "chart", styled: bool = True) -> str:
        """Return the figure as an SVG element; ``name`` must differ between those of a page."""
        from chaffinch.charts import svg_parts

        return svg_parts.draw(self, name=name, styled=styled)


def exclusive(names: Sequence[str], common: Mapping[Sets, float]) -> dict[Sets, float]:
    """Return what exactly some sets have, from what some have at least, by inclusion–exclusion.

    >>> both = {frozenset("a"): 5.0, frozenset("b"): 4.0, frozenset("ab"): 3.0}
    >>> found = exclusive("ab", both)
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
    title: str, names: Sequence[str], common: Mapping[Sets, float], *, unit: str
) -> PartsFigure:
    """Return the diagram of 2 to 4 sets; ``common`` says how much any of them share at least.

    A part below zero, which an estimate can be, has no length, and the note says so.
    """
    if not 2 <= len(names) <= MOST_SETS:
        raise InvalidInput("number of sets", f"2 to {MOST_SETS}", len(names))
    found = exclusive(names, common)
    parts, place = [], 0.0
    for some in _in_order(names):
        length = max(found[some], 0.0)
        if length > 0:
            parts.append(Part(some, place, place + length))
            place += length
    below = [some for some in found if found[some] < 0]
    note = (
        "A bar for each, filled where it has something; what is filled above one another is "
        "shared. Lengths are estimates; how sure they are is told below."
    )
    if below:
        listed = "; ".join(_said(some, names) for some in below)
        note += f" Estimated below 0, and drawn without length: {listed}."
    told = ". ".join(
        f"{_said(part.sets, names)}: {rounding.nearest(part.high - part.low, 0)}" for part in parts
    )
    return PartsFigure(
        title=title,
        x=Axis(unit, 0.0, place or 1.0),
        sets=tuple(names),
        parts=tuple(parts),
        alternative=f"The parts of all {unit} that exactly some have. {told}.",
        note=note,
    )


def _in_order(names: Sequence[str]) -> list[Sets]:
    """Return all combinations in an order in which neighbours differ by one set (a Gray code)."""
    codes = (number ^ number >> 1 for number in range(1, 1 << len(names)))
    return [
        frozenset(name for place, name in enumerate(names) if code >> place & 1) for code in codes
    ]


def _said(some: Sets, names: Sequence[str]) -> str:
    listed = [name for name in names if name in some]
    return f"only {listed[0]}" if len(listed) == 1 else f"exactly {' and '.join(listed)}"
