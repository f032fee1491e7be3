"""What was measured, with the goal it was measured for: tables for people, JSON for machines."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness import tell

Cell = float | str | None


@dataclass(frozen=True, slots=True)
class Goal:
    """A number that was aimed at, and the one that was reached."""

    aim: float
    reached: float | None
    at_least: bool = True

    @property
    def met(self) -> bool:
        """Return whether the aim was reached; an impossible competitor counts as beaten."""
        if self.reached is None:
            return True
        return self.reached >= self.aim if self.at_least else self.reached <= self.aim

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return f"{sign} {self.aim:g}: {'met' if self.met else 'NOT MET'}"


@dataclass(frozen=True, slots=True)
class Line:
    """One row: a name, its cells in the order of the columns, and perhaps a goal."""

    name: str
    cells: tuple[Cell, ...]
    goal: Goal | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One table."""

    title: str
    columns: tuple[str, ...]
    lines: list[Line]
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        rows = [("", *self.columns, "goal")]
        rows += [(line.name, *map(_short, line.cells), str(line.goal or "")) for line in self.lines]
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        text = [self.title]
        for row, line in zip(rows, [None, *self.lines], strict=True):
            cells = [
                cell.ljust(width) if place in (0, len(row) - 1) else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            text.append(f"  {'  '.join(cells)}".rstrip())
            if line is not None and line.note:
                text.append(f"      {line.note}")
        return "\n".join([*text, *(f"  * {note}" for note in self.notes)])

    def document(self) -> dict[str, Any]:
        """Return the table for JSON."""
        return {
            "title": self.title,
            "notes": self.notes,
            "rows": [
                {"name": line.name, **dict(zip(self.columns, line.cells, strict=True))}
                | ({"note": line.note} if line.note else {})
                | (
                    {"goal": line.goal.aim, "reached": line.goal.reached, "met": line.goal.met}
                    if line.goal
                    else {}
                )
                for line in self.lines
            ],
        }


TURN = 0.02


def processor_seconds(
    jobs: Mapping[str, Callable[[], object]], *, repeats: int = 7, least_seconds: float = TURN
) -> dict[str, list[float]]:
    """Return the processor time of each job, all threads together, run in turn.

    The first turn only warms up. In each turn a job is run for at least ``least_seconds``, so
    that short ones are measured as they run in a stream of batches and not as they start; with 0
    it is run once.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(repeats + 1):
        for name, job in jobs.items():
            tell(name)
            runs, start, spent = 0, time.process_time(), 0.0
            while not runs or spent < least_seconds:
                job()
                runs, spent = runs + 1, time.process_time() - start
            if turn:
                seconds[name].append(spent / runs)
    tell("")
    return seconds


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """Return the median of the ratios turn by turn: a slow moment hits both."""
    return statistics.median(s / f for s, f in zip(slow, fast, strict=True))


def milliseconds(seconds: Sequence[float]) -> float:
    """Return the median in milliseconds."""
    return 1e3 * statistics.median(seconds)


def _short(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if 0 < cell < 1e-300:
        return "< 1e-300"
    if cell == 0 or 1e-3 <= abs(cell) < 1e6:
        digits = 0 if cell == 0 else max(0, 2 - math.floor(math.log10(abs(cell))))
        return f"{cell:.{digits}f}"
    return f"{cell:.2e}"
