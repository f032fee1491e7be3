"""Draft a survey file from a table, to be completed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.cli.table_options import TableOptions
from chaffinch.disk.files import atomic


def survey(
    data: str,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    with_values: Annotated[list[str] | None, Parameter(negative=())] = None,
    written: TableOptions = TableOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Draft a survey from the columns of a table.

    The kind of each question is guessed from the first rows of its column. No cell is written into
    the survey, because a survey is public: lists of values and bounds must be public facts, and you
    fill them in.

    Parameters
    ----------
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - reads a pipe.
    out
        The file for the survey, which must be new; by default the survey is printed.
    with_values
        A column whose values, or smallest and largest number, are written. You confirm that they
        are public; the file says so.
    """
    from chaffinch.runs.survey_draft import draft_opened

    if out is not None:
        paths.require_new(paths.require_writable(out, [data]), "output")
    table = written.input(data).open(output)
    with output.counting("reading values", "rows") as tell:
        draft = draft_opened(
            table,
            with_values=with_values or [],
            person=written.person,
            rows_are_people=written.rows_are_people,
            progress=tell,
        )
    if out is not None:
        with atomic(out, overwrite=False) as file:
            file.write(draft.text.encode())
        output.say(
            f"wrote {out}; complete what follows FILL IN, then: chaffinch check {out} --data {data}"
        )
    if output.json:
        output.document({"survey": draft.text, "columns": draft.kinds})
    elif out is None:
        output.drawing(draft.text.rstrip("\n"))
