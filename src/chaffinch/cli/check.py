"""Check every cell of a table against a survey, and report all faults at once."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.cli.table_options import TableOptions, open_collection
from chaffinch.errors import InvalidCells, InvalidInput, InvalidTable, Unquoted
from chaffinch.runs.listener import Callbacks

if TYPE_CHECKING:
    from chaffinch.runs.answer_table import TableInput
    from chaffinch.runs.asked import Collection

_LONGEST_CELL = 60


def check(
    survey: Path,
    *,
    data: str,
    show: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    as_devices: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    where: TableOptions = TableOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Check every cell of a table against a survey, before anything is planned.

    All faults are reported at once: how many cells of which column break which rule, and the first
    rows. The content of cells is shown only with --show. Cells that are no fault but count as
    something else are reported, too: blank cells, unlisted values, clipped numbers. The report is
    for whoever holds the table: its counts are exact, so no release contains them.

    Parameters
    ----------
    survey
        A survey file (.toml) or a plan file (.json).
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - reads a pipe.
    show
        Print what faulty cells hold, each spelling once with the number of its cells, and the names
        of the columns if one is not found. They are private: for whoever holds the table, and for
        no log.
    as_devices
        Say how many rows `run --as-devices` needs: more, where the survey has people who may lie.
    """
    from chaffinch.runs.table_check import check_table

    if show and (output.json or paths.is_piped(data)):
        raise InvalidInput(
            "option --show",
            "given for a table in a file, and without --json",
            Unquoted("--json" if output.json else "a pipe"),
            hint="what it prints is for people who hold the table, and for no program",
        )
    asked = open_collection(survey, None, output, as_devices=as_devices)
    given = where.input(data, asked)
    try:
        found = check_table(asked, given, output)
    except InvalidTable as fault:
        if show:
            _show_private(asked, given, fault, output)
        raise
    if output.json:
        output.document(found.document())
        return
    heads, rows = found.table()
    output.table(heads, rows, texts=3)
    output.words("")
    output.words(found.verdict)
    if found.advice:
        output.words(f"Note: {found.advice}.")


def _show_private(
    asked: Collection, given: TableInput, fault: InvalidTable, output: Output
) -> None:
    from chaffinch.runs.table_check import faulty_spellings

    if isinstance(fault, InvalidCells):
        rows = [
            [one.column, _written(one.cell), f"{one.cells:,}", f"{one.row:,}"]
            for one in faulty_spellings(asked, given)
        ]
        output.table(["column", "cell", "cells", "first row"], rows, texts=2)
    elif fault.column is not None and fault.row is None:
        columns = given.open(Callbacks(), asked.settings).columns
        output.words(f"The columns are {', '.join(map(_written, columns))}.")
    else:
        return
    output.words("")
    output.words("These are private data, for whoever holds the table alone.")


def _written(cell: object) -> str:
    """Return a cell so that its spaces, and letters of an unusual form, are seen."""
    shown = repr(cell)
    shown = shown if unicodedata.is_normalized("NFKC", shown) else ascii(cell)
    return shown if len(shown) <= _LONGEST_CELL else f"{shown[:_LONGEST_CELL]}…"
