"""Randomizers that people bring: their tables in files, and what is known of them side by side."""

from __future__ import annotations

import csv
import json
import math
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.charts.rounding import promise_text
from chaffinch.cli.output import Output
from chaffinch.disk.files import read_small
from chaffinch.disk.inputs import require_file
from chaffinch.errors import InvalidFile

if TYPE_CHECKING:
    from chaffinch.charts import Bound
    from chaffinch.privacy.amplification import ShuffledRandomizer

_LARGEST_TABLE = 4 << 20
_RULE = "rows of chances such as 0.75 or 3/4, an input each, in CSV or as a JSON list of lists"


def read_table(path: Path) -> list[list[str]]:
    """Return the rows of a randomizer's table, every chance as it is written."""
    content = read_small(require_file(path), most=_LARGEST_TABLE, must_be=_RULE)
    text = content.decode(errors="replace")
    if path.suffix.lower() != ".json":
        return [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if row]
    try:
        # As texts: 0.1 means one tenth here, not the float that is nearest to it.
        rows = json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        rows = None
    if not (isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
        raise InvalidFile(path.name, _RULE, ["it is no JSON list of lists"])
    return [[str(cell) for cell in row] for row in rows]


def bounds_at(mechanism: ShuffledRandomizer, delta: float) -> list[dict[str, Any]]:
    """Return every bound of a shuffled randomizer at ``delta``, as JSON-ready rows."""
    from chaffinch.charts import amplification_bounds

    rows = [_row(bound, delta) for bound in amplification_bounds(mechanism)]
    truth = next(row["epsilon"] for row in rows if row["kind"] in ("exact", "at least"))
    for row in rows:
        known = row["epsilon"] is not None and truth > 0
        row["ratio"] = row["epsilon"] / truth if known else None
    return rows


def _row(bound: Bound, delta: float) -> dict[str, Any]:
    found = bound.epsilon(delta)
    return {
        "name": bound.label,
        "source": bound.source,
        "kind": bound.kind,
        "epsilon": found,
        "note": bound.note,
    }


def _epsilon_text(row: dict[str, Any]) -> str:
    if row["epsilon"] is None:
        return "nothing"
    return (lower_text if row["kind"] == "at least" else upper_text)(row["epsilon"])


def upper_text(value: float) -> str:
    """Return the upper end of something, rounded up."""
    return "infinite" if math.isinf(value) else promise_text(value, 6)


def lower_text(value: float) -> str:
    """Return the lower end of something, rounded down."""
    if value == 0 or math.isinf(value):
        return "0" if value == 0 else "infinite"
    return f"{float(Context(prec=6, rounding=ROUND_FLOOR).create_decimal(Decimal(value))):.6g}"


def show_bounds(rows: list[dict[str, Any]], delta: float, output: Output) -> None:
    """Print the bounds as a table, and what must be known of them."""
    truth = "the exact one" if rows[0]["kind"] == "exact" else "the worst crowd found"
    output.table(
        ["bound", "source", "kind", "epsilon", "× first"],
        [
            [
                row["name"],
                row["source"],
                row["kind"],
                _epsilon_text(row),
                "" if row["ratio"] is None else f"{row['ratio']:.3f}",
            ]
            for row in rows
        ],
        texts=3,
    )
    output.words("")
    output.words(
        f"epsilon: at delta {delta:g}. × first: over that of {truth}. Exact: the worst of all "
        "crowds. At least: a crowd that can exist. Proven: never below the truth. Published: a "
        "claim, never a guarantee."
    )
    for row in rows:
        if row["note"]:
            output.words(f"note: {row['name']}: {row['note']}.")
