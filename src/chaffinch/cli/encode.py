"""The step of the devices: encode a table of answers as messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.engines import EngineOptions
from chaffinch.cli.output import Output, show_batch
from chaffinch.cli.table_options import TableOptions
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.runs.answer_table import TableInput
    from chaffinch.runs.asked import PlannedCollection
    from chaffinch.tables.pieces import TableFiles
    from chaffinch.tables.read import Table
    from chaffinch.tables.substitutions import Substitutions

_OUT = Parameter(name=["--out", "-o"])


def encode(
    data: str | None = None,
    *,
    plan: Path,
    out: Annotated[str | None, _OUT] = None,
    round: int | None = None,  # noqa: A002
    where: TableOptions = TableOptions(),  # noqa: B008 - frozen
    work: EngineOptions = EngineOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Encode a table of answers as messages, as people's devices would.

    The plan is verified first. The messages are for the shuffler only. The numbers of blank,
    unlisted and clipped cells are reported on standard error, for whoever holds the table; with
    --engine spark they are not counted.

    Parameters
    ----------
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - or no argument reads a pipe. It may be in
        many files: name their folder, or a pattern such as 'part-*.parquet'; the first file tells
        how all of them are written.
    plan
        The plan file.
    out
        The Parquet file for the messages, or - (the default) for a pipe to the next command; with
        --engine spark a new folder.
    round
        The number of this round, for a plan of several rounds.
    """
    target = work.message_target(out, as_json=output.json, inputs=[plan, data])
    from chaffinch.runs.asked import planned_collection
    from chaffinch.tables.pieces import names_files
    from chaffinch.tables.substitutions import Substitutions

    asked = planned_collection(paths.open_plan(plan, output))
    given = where.input(data, asked)
    source: TableFiles | Table
    substitutions = None if work.on_cluster else Substitutions()
    if work.on_cluster or names_files(data):
        source = _files(asked, given, output)
        source = replace(source, first=replace(source.first, substitutions=substitutions))
    else:
        source = _table(asked, given, output, substitutions)
    named = given.columns or None
    with output.counting("encoding", _unit(source) if work.on_cluster else "reports") as tell:
        facts = work.open(tell.words).encode(
            source, asked.plan, target, round=round, columns=named, progress=tell
        )
    for words in () if substitutions is None else substitutions.words:
        output.say(words)
    show_batch(facts, target, output)
    whose = asked.unit_of(given.person, rows_are_people=given.rows_are_people)
    if facts.reports > 1 and whose.unit == "row":
        output.say(
            "note: every row became the report of one person; where one person has several rows, "
            "--person COLUMN tells people apart"
        )


def _unit(source: TableFiles | Table) -> str:
    pieces = getattr(source, "pieces", ())
    return "files" if any(piece.rows is None for piece in pieces) else "reports"


def _table(
    asked: PlannedCollection,
    given: TableInput,
    output: Output,
    substitutions: Substitutions | None,
) -> Table:
    from chaffinch.runs.answer_table import open_answers

    answers = open_answers(asked, given, output)
    if answers.privacy_unit.person is not None:
        output.say(
            "note: all rows of a person must be in this table; in another one they would be "
            "another person's report"
        )
        return answers.draw(output, substitutions).table
    return replace(answers.table, substitutions=substitutions)


def _files(asked: PlannedCollection, given: TableInput, output: Output) -> TableFiles:
    from chaffinch.runs.answer_table import read_as_asked
    from chaffinch.tables.pieces import TableFiles

    source = paths.input_source(given.source, "answers")
    if source == "-":
        raise InvalidInput("answers", "in files with --engine spark", Unquoted("a pipe"))
    whose = asked.unit_of(given.person, rows_are_people=given.rows_are_people)
    if whose.person is not None:
        raise InvalidInput(
            "people",
            "told apart by rows with --engine spark, and where a table is in many files",
            Unquoted("a column of people"),
            hint="choose one row of each person first: the rows of a person may be in different "
            "files or on different machines",
        )
    files = TableFiles.of(source, format=given.format, settings=given.settings)
    for words in files.first.notes:
        output.say(f"the table: {words}")
    return replace(files, first=read_as_asked(asked, files.first, given.columns, output))
