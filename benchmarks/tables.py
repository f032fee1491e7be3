"""One question put to several tools: a plain table for people, a document for machines."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: who answered, what, how exactly and how fast."""

    tool: str
    epsilon: float | None = None
    reference: float | None = None
    """What the answer is measured against: a certified lower end, or what the notes say."""
    seconds: float | None = None
    ours: float | None = None
    """How long chaffinch took for the same question."""
    note: str = ""

    @property
    def above(self) -> float | None:
        """Return by what share of the reference the answer is above it."""
        if self.epsilon is None or not self.reference:
            return None
        return self.epsilon / self.reference - 1.0

    @property
    def ratio(self) -> float | None:
        """Return how many times as long as chaffinch this took."""
        return None if self.seconds is None or not self.ours else self.seconds / self.ours


@dataclass(frozen=True, slots=True)
class Case:
    """One question put to several tools."""

    title: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return a table: every row names its tool, and times stand as ratios too."""
        width = max(len(row.tool) for row in self.rows)
        head = f"  {'tool':{width}} {'epsilon':>10} {'above':>9} {'seconds':>8} {'x ours':>7}"
        lines = [self.title, head]
        for row in self.rows:
            cells = (_epsilon(row), _above(row), _seconds(row), _ratio(row))
            line = f"  {row.tool:{width}} {cells[0]:>10} {cells[1]:>9} {cells[2]:>8} {cells[3]:>7}"
            lines.append(line.rstrip())
            if row.note:
                lines.append(f"      {row.note}")
        lines += [f"  * {note}" for note in self.notes]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return the table for JSON."""
        rows = [asdict(row) | {"above": row.above, "ratio": row.ratio} for row in self.rows]
        return {"title": self.title, "notes": self.notes, "rows": rows}


def surroundings(packages: Sequence[str]) -> dict[str, str]:
    """Return what the numbers depend on besides the code."""
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in packages},
        "cores": str(os.cpu_count()),
        "load average": load,
    }


def in_words(seconds: float) -> str:
    """Return a long time in the unit people would use."""
    for size, unit in ((86_400 * 365, "years"), (86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds > 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _epsilon(row: Row) -> str:
    return "none" if row.epsilon is None else f"{row.epsilon:.6g}"


def _above(row: Row) -> str:
    if row.above is None:
        return ""
    share = 100.0 * row.above
    if abs(share) < 1e-3:
        return "< 0.001 %"
    return f"{share:+.2g} %" if abs(share) < 10 else f"{share:+.0f} %"


def _seconds(row: Row) -> str:
    if row.seconds is None:
        return ""
    digits = max(0, 2 - math.floor(math.log10(max(row.seconds, 1e-6))))
    return f"{row.seconds:.{min(digits, 5)}f}"


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return ""
    return f"{row.ratio:.2g}" if row.ratio < 10 else f"{row.ratio:.0f}"
