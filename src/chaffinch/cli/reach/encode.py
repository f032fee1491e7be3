"""A publisher's step: its ids become a filter for the analyzer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output, counted
from chaffinch.cli.releasing import Budget, Charged

if TYPE_CHECKING:
    from chaffinch.encoding.publisher.filters import Loaded
    from chaffinch.wire.filter_files import Filter


@Parameter(name="*")
@dataclass(frozen=True)
class Columns:
    """Where the ids stand in a table."""

    column: str | None = None
    """The column with the ids; not needed where there is only one."""
    counts: str | None = None
    """A column that says how often each id was seen; without one every row is one view."""
    missing: Literal["refuse", "skip"] = "refuse"
    """What becomes of a row without an id."""
    format: str | None = None
    """csv, tsv, jsonl, parquet or arrow, where the file's name does not tell."""


@Parameter(name="*")
@dataclass(frozen=True)
class Terms(Budget):
    """What a plan must promise at least, and which budget pays."""

    max_epsilon: float = 10.0
    """Refuse a plan that promises a larger epsilon than this."""
    max_delta: float = 1e-3
    """Refuse a plan that promises a larger delta than this."""


def encode(
    data: str | None = None,
    *,
    plan: Path,
    key: Path,
    publisher: str,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    columns: Columns = Columns(),  # noqa: B008 - frozen
    terms: Terms = Terms(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Turn one publisher's ids into a filter for the analyzer.

    The plan is verified first. What comes out holds no id and does not say how many there are.
    With a ledger the filter is charged before it is there, and the same key never makes a
    second one.

    Parameters
    ----------
    data
        The table of ids: CSV, TSV, JSONL, Parquet or Arrow; - or nothing reads a pipe.
    plan
        The plan file.
    key
        The campaign key that all publishers of this collection share.
    publisher
        Whose ids these are: a name in the plan.
    out
        Where the filter goes, such as daily.filter.
    """
    from chaffinch import Target, reach
    from chaffinch.encoding.publisher.charging import fresh, hand_out
    from chaffinch.errors import InvalidInput
    from chaffinch.rounding import bytes_for_people
    from chaffinch.tables.read import open_table

    target = paths.writable(out)
    paths.apart([target], [plan, key, data or "-"])
    found = paths.opened_reach_plan(plan)
    secret = reach.load_key(key)
    found.audience.place(publisher)
    ledger, name = terms.opened()
    if ledger is not None:
        fresh(ledger, found, secret, publisher)
    if target.exists():
        raise InvalidInput(
            "filter file",
            "one that does not exist yet",
            target.name,
            hint="send that one; two filters of one key show the same columns twice",
        )
    output.say(f"the plan promises {found.guarantee}")
    table = open_table(paths.source(data, "ids"), format=columns.format)
    with output.counting("encoding", "rows") as tell:
        made = reach.encode(
            table,
            found,
            publisher=publisher,
            key=secret,
            column=columns.column,
            counts=columns.counts,
            missing=columns.missing,
            within=Target(terms.max_epsilon, terms.max_delta),
            progress=tell,
            told=lambda loaded: _say_loaded(loaded, output),
        )
    charge = None
    if ledger is None:
        made.save(target)
    else:
        occasion = hand_out(made, found, target, ledger, tell=output.say)
        charge = Charged(ledger, name, occasion, before=False)
    if output.json:
        paid = {} if charge is None else {"charge": charge.document()}
        output.document(_facts(made, target) | paid)
        return
    output.say(
        f"wrote {target}, a filter of {bytes_for_people(found.filter_bytes)} for the analyzer"
    )
    if charge is not None:
        charge.show(output)


def _say_loaded(loaded: Loaded, output: Output) -> None:
    """Tell a publisher what only it may know: what went into its filter."""
    output.say(
        f"{counted(loaded.rows, 'row')} read, about {counted(loaded.ids, 'different id')}; "
        f"the plan expects {loaded.expected:,}"
    )
    if loaded.surprising:
        output.say("warning: is this the right table? Otherwise plan again with true sizes")


def _facts(made: Filter, target: Path) -> dict[str, Any]:
    return {
        "plan": made.plan_id,
        "publisher": made.publisher,
        "key": made.key,
        "batch": made.batch,
        "bits": made.bits,
        "frequencies": made.frequencies,
        "file": str(target),
    }
