"""The shuffler's step: the filters of all publishers become columns without an order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.output import Output, count_of
from chaffinch.disk.leftovers import remove_leftovers
from chaffinch.disk.protected import Kind, refuse_all_but
from chaffinch.errors import InvalidInput

if TYPE_CHECKING:
    from chaffinch.wire.filter_files import ShuffledColumns


def shuffle(
    filters: list[Path],
    /,
    *,
    plan: Path,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    record: Path | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Flip the filters of all publishers again, and forget the order of their columns.

    For plans with a shuffler, who is no publisher and never has the campaign key. It is done once
    for each key: the same filters again give the very same columns, and others are refused.

    Parameters
    ----------
    filters
        One filter file from each publisher of the plan, in any order.
    plan
        The plan file.
    out
        The file for the analyzer, such as campaign.columns.
    record
        The folder in which this shuffler keeps what it has handed over; without one, a folder of
        this user in $XDG_STATE_HOME/chaffinch (~/.local/state/chaffinch).
    """
    remove_leftovers(paths.require_name(out).parent)
    paths.require_writable(out, [plan, *filters], replaceable=Kind.COLUMNS)
    refuse_all_but(Kind.COLUMNS, out)
    found = paths.open_reach_plan(plan)
    sources = [paths.require_file(paths.require_name(one)) for one in filters]
    with output.counting("shuffling", "columns") as tell:
        columns = cf.reach.shuffle(sources, found, record=record, progress=tell)
    _refuse_other(out, columns)
    columns.save(out)
    if output.json:
        output.document(
            {
                "plan": columns.plan_id,
                "key": columns.key,
                "batch": columns.batch,
                "bits": columns.bits,
                "rows": columns.rows,
                "file": str(out),
            }
        )
        return
    rows = count_of(columns.rows, "row")
    output.say(f"wrote {out}: {columns.bits:,} columns of {rows} for the analyzer, in no order")


def _refuse_other(out: Path, columns: ShuffledColumns) -> None:
    """Refuse to replace columns of another hand-over; the same ones may be written again."""
    if out.is_file() and out.stat().st_size and out.read_bytes() != columns.content():
        raise InvalidInput(
            "output",
            "another file than that of other shuffled columns",
            out.name,
            hint="name another file; what was shuffled is kept, and the same command gives it",
        )
