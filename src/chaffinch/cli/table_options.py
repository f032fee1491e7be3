"""Options that say where the answers are in a table, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chaffinch.cli import paths

if TYPE_CHECKING:
    from chaffinch.cli.output import Output
    from chaffinch.runs.answer_table import TableInput
    from chaffinch.runs.asked import Collection
    from chaffinch.tables.dialect import Settings


@Parameter(name="*")
@dataclass(frozen=True)
class TableOptions:
    """Where the answers are in a table."""

    column: str | None = None
    """The column with the answers to a single question, if its name is another one."""
    map: Annotated[list[str] | None, Parameter(negative=())] = None
    """QUESTION=COLUMN, for each question whose column has another name."""
    format: str | None = None
    """csv, tsv, jsonl, parquet or arrow, if the file's name does not tell."""
    missing_values: str | None = None
    """The texts that mean a missing answer, separated by commas, in upper or lower case; an empty
    cell always means one. By default those of the survey, or NA, N/A, #N/A, `<NA>`, NaN, null,
    None, ? and -. A value that a question lists is always an answer."""
    separator: str | None = None
    """The separator of the cells of a CSV file, if it is not certain: comma, semicolon, tab or
    bar."""
    encoding: str | None = None
    """utf-8, utf-16, latin-1 or cp1252, if the file does not tell."""
    line_breaks: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Allow quoted cells that continue on the next line."""
    decimal: str | None = None
    """The decimal sign of numbers, if it is not certain: a point or a comma."""
    thousands: str | None = None
    """The separator of thousands: a comma, a point, a space, an apostrophe, or none."""
    percent: str | None = None
    """What 12% means: the number 12 (number), or 0.12 (share)."""
    date_format: str | None = None
    """How dates are written (%d.%m.%Y), if the year does not come first."""
    person: str | None = None
    """The column that identifies people, if one person may have several rows."""
    rows_are_people: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Every row is another person."""

    def input(self, data: str | None, asked: Collection | None = None) -> TableInput:
        """Return the table in a file, or in what is piped in, with what was said of it."""
        from chaffinch.runs.answer_table import TableInput

        columns = {}
        if asked is not None:
            columns = paths.answer_columns(list(asked.questions), self.column, self.map or [])
        return TableInput(
            paths.file_or_pipe(data),
            self.format,
            self.settings(),
            columns,
            self.person,
            self.rows_are_people,
        )

    def settings(self) -> Settings:
        """Return how the table is written, as far as it was said."""
        from chaffinch.tables.dialect import Settings

        words = None if self.missing_values is None else tuple(self.missing_values.split(","))
        return Settings(
            separator=self.separator,
            encoding=self.encoding,
            line_breaks=self.line_breaks,
            decimal=self.decimal,
            thousands=self.thousands,
            percent=self.percent,
            date_format=self.date_format,
            missing_values=words,
        )


def open_collection(
    path: Path, plan: Path | None, output: Output, *, as_devices: bool = False
) -> Collection:
    """Return what a survey file or a plan file asks, with the plan; either may be piped in."""
    from chaffinch.runs import opened_survey

    readers = opened_survey.Readers(paths.read_plan, paths.open_survey)
    return opened_survey.open_collection(path, plan, output, readers, as_devices=as_devices)
