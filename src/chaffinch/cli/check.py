"""Check every cell of a table against a survey, and report all faults at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.charts.rounding import count_of
from chaffinch.cli.output import Output
from chaffinch.cli.table_options import TableOptions, open_collection

if TYPE_CHECKING:
    from chaffinch.runs.table_check import TableCheck

_HEADS = {"missing": "blank", "unknown": "unlisted", "clipped": "clipped"}
"""What the counts of cells that count as something else are called."""


def check(
    survey: Path,
    *,
    data: str,
    where: TableOptions = TableOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Check every cell of a table against a survey, before anything is planned.

    All faults are reported at once: how many cells of which column break which rule, and the first
    rows. The content of cells is never shown. Cells that are no fault but count as something else
    are reported, too: blank cells, unlisted values, clipped numbers. The report is for whoever
    holds the table: its counts are exact, so no release contains them.

    Parameters
    ----------
    survey
        A survey file (.toml) or a plan file (.json).
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - reads a pipe.
    """
    from chaffinch.runs.table_check import check_table

    asked = open_collection(survey, None, output)
    found = check_table(asked, where.input(data, asked), output)
    if output.json:
        output.document(found.document())
        return
    _show_questions(found, output)
    output.words("")
    counted = count_of(found.rows, "report" if found.of_people else "row")
    output.words(f"{counted}, {found.rows_needed:,} needed; {_verdict(found)}")
    if found.advice:
        output.words(f"Note: {found.advice}.")


def _show_questions(found: TableCheck, output: Output) -> None:
    told = {
        how: words
        for how, words in _HEADS.items()
        if any(how in one for asked in found.questions for one in asked.counted.values())
    }
    rows = []
    for asked in found.questions:
        sums = [sum(one.get(how, 0) for one in asked.counted.values()) for how in told]
        shown = [f"{number:,}" if number else "" for number in sums]
        rows.append([asked.name, asked.kind, ", ".join(asked.columns), *shown])
    output.table(["question", "kind", "column", *told.values()], rows, texts=3)


def _verdict(found: TableCheck) -> str:
    if found.answers_plainly:
        return "every cell answers its question."
    return (
        "every cell answers its question, or counts as the survey says; how many do stands above. "
        "These are exact counts of private data, for whoever holds the table alone; no release "
        "tells them."
    )
