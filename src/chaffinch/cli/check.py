"""A table against a survey: every cell is looked at, and all faults are told at once."""

from __future__ import annotations

from pathlib import Path

from chaffinch.cli.collection import TableOptions, open_collection
from chaffinch.cli.output import Output, count_of


def check(
    survey: Path,
    *,
    data: str,
    where: TableOptions = TableOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Check every cell of a table against a survey, before anything is planned.

    All faults are told at once: how many cells of which column break which rule, and the first
    rows. What the cells hold is not shown. This is for whoever holds the table: counts of faults
    are not protected, so they are no part of any release.

    Parameters
    ----------
    survey
        A survey file (.toml) or a plan file (.json).
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - reads a pipe.
    """
    asked = open_collection(survey, None, output)
    named = asked.columns(where)
    whose = asked.whose(where)
    table = asked.settle(where.open(data, output, asked.table), named, output)
    rows = asked.check(table, named, whose, output).rows
    places = dict(zip(asked.questions, asked.places(table, named), strict=True))
    if output.json:
        listed = [
            {"question": name, "kind": place.question.kind, "columns": list(place.columns)}
            for name, place in places.items()
        ]
        output.document(
            {
                "rows": rows,
                "protected": whose.unit,
                "rows_needed": asked.reports,
                "notes": list(table.notes),
                "questions": listed,
            }
        )
        return
    output.table(
        ["question", "kind", "column"],
        [[name, place.question.kind, ", ".join(place.columns)] for name, place in places.items()],
        texts=3,
    )
    output.words("")
    counted = count_of(rows or 0, "row" if whose.person is None else "report")
    output.words(f"{counted}, {asked.reports:,} needed; every cell answers its question.")
    if whose.unit == "row":
        output.words(f"Note: {whose.hint(table)}.")
