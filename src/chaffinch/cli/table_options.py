"""Where the answers are in a table, by the options of a verb, and what they answer."""

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
    """The column with the answers to a single question."""
    map: Annotated[list[str] | None, Parameter(negative=())] = None
    """QUESTION=COLUMN, for each question whose column has another name."""
    format: str | None = None
    """csv, tsv, jsonl, parquet or arrow, where the file's name does not tell."""
    missing_values: str | None = None
    """The texts that stand for a missing answer, in any case, with commas between them; an empty
    cell always does. Otherwise those of the survey, or NA, N/A, #N/A, `<NA>`, NaN, null, None, ?
    and -. A value that a question lists is an answer, however it is spelled."""
    separator: str | None = None
    """Between the cells of a CSV file: comma, semicolon, tab or bar, where it is not certain."""
    encoding: str | None = None
    """utf-8, utf-16, latin-1 or cp1252, where the file does not tell."""
    line_breaks: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Quoted cells may go on in the next line."""
    decimal: str | None = None
    """A point or a comma: what stands before the fraction of a number, where it is not certain."""
    thousands: str | None = None
    """What stands between thousands: a comma, a point, a space, an apostrophe, or none."""
    percent: str | None = None
    """What 12% is: the number 12 (number), or 0.12 (share)."""
    date_format: str | None = None
    """How dates are written (%d.%m.%Y), where the year does not come first."""
    person: str | None = None
    """The column that tells people apart, where one person may have many rows."""
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


def open_collection(path: Path, plan: Path | None, output: Output) -> Collection:
    """Return what a survey file or a plan file asks, with the plan if there is one."""
    from chaffinch.runs.asked import collection_of

    planned = path.suffix.lower() == ".json"
    found = paths.open_plan(path, output) if planned else paths.open_survey(path)
    return collection_of(found, None if plan is None else paths.open_plan(plan, output))
