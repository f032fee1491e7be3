"""A device's step by itself: a table of answers becomes messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.collection import PlannedCollection, TableOptions, planned_collection
from chaffinch.cli.output import Output, show_batch

if TYPE_CHECKING:
    from chaffinch.tables.read import Table

_OUT = Parameter(name=["--out", "-o"])


def encode(
    data: str | None = None,
    *,
    plan: Path,
    out: Annotated[str | None, _OUT] = None,
    round: int | None = None,  # noqa: A002
    where: TableOptions = TableOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Turn a table of answers into messages, as their senders would.

    The plan is verified first. What comes out is for the shuffler only.

    Parameters
    ----------
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - or nothing reads a pipe.
    plan
        The plan file.
    out
        Where the messages go: a Parquet file, or - (the default) for the next command.
    round
        Which round this is, for a plan of several.
    """
    from chaffinch.engines import engine

    target = paths.message_target(out, as_json=output.json, inputs=[plan, data])
    asked = planned_collection(paths.open_plan(plan, output))
    named = asked.columns(where)
    table = asked.settle(where.open(data, output), named, output)
    table = _reports(asked, table, named, where, output)
    with output.counting("encoding", "reports") as tell:
        facts = engine().encode(
            table, asked.plan, target, round=round, columns=named or None, progress=tell
        )
    show_batch(facts, target, output)
    if facts.reports > 1 and asked.whose(where).unit == "row":
        output.say(
            "note: every row became the report of one person; where one person has several rows, "
            "--person COLUMN tells people apart"
        )


def _reports(
    asked: PlannedCollection,
    table: Table,
    named: Mapping[str, str],
    where: TableOptions,
    output: Output,
) -> Table:
    """Return a row for each report: of people whom a column tells apart, some drawn at random."""
    whose = asked.whose(where)
    if whose.person is not None:
        output.say(
            "note: all rows of a person must be in this table; in another one they would be "
            "another person's report"
        )
        return asked.draw(table, named, whose, output).table
    return table
