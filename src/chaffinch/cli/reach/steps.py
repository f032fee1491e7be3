"""The two steps of a reach: a publisher encodes, the analyzer counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from chaffinch.cli import paths, stages
from chaffinch.cli.charges import Charged
from chaffinch.cli.output import Output, counted
from chaffinch.cli.reach.plan import opened

if TYPE_CHECKING:
    from chaffinch.encoding.publisher.filters import Loaded
    from chaffinch.ledger import Ledger
    from chaffinch.planning.audiences.audience import Audience, Group
    from chaffinch.wire.filter_files import Filter

_OUT = Parameter(name=["--out", "-o"])
_MANY = Parameter(name=["--out", "-o"], negative=())
_LIST = Parameter(negative=())


@Parameter(name="*")
@dataclass(frozen=True)
class Budget:
    """Which budget pays."""

    ledger: Path | None = None
    """The budget that is charged before anything is handed out."""
    mark: Path | None = None
    """The ledger's high-water mark."""

    def opened(self) -> tuple[Ledger | None, str]:
        """Return the ledger, if one was named, and its name."""
        found = paths.opened_ledger(self.ledger, self.mark)
        return found, "" if self.ledger is None else self.ledger.name


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
    out: Annotated[Path, _OUT],
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
    found = opened(plan)
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


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """What a release says."""

    any: Annotated[tuple[str, ...], _LIST, Parameter(show_default=False)] = ()
    """Also count ids that any of these publishers has: daily,radio; may be given several times."""
    all: Annotated[tuple[str, ...], _LIST, Parameter(show_default=False)] = ()
    """Also count ids that all of these publishers have: daily,radio; may be given several times."""
    level: str = "95%"
    """How surely an interval holds the truth, such as 95% or 0.95."""
    adjust: Literal["none", "non-negative"] = "none"
    """Set estimates below 0 to 0, which biases small ones upwards."""

    def groups(self, audience: Audience) -> list[Group]:
        """Return the groups that are asked for, publishers in the order of the plan."""
        from chaffinch.reach import Group

        def named(words: str) -> tuple[str, ...]:
            return tuple(sorted((word.strip() for word in words.split(",")), key=audience.place))

        return [
            *(Group(any_of=named(words)) for words in self.any),
            *(Group(all_of=named(words)) for words in self.all),
        ]


def analyze(
    filters: list[Path],
    /,
    *,
    plan: Path,
    out: Annotated[list[Path] | None, _MANY] = None,
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
    budget: Budget = Budget(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Count ids from the filters of all publishers: reach, overlaps, frequency.

    Parameters
    ----------
    filters
        One filter file from each publisher of the plan, in any order.
    plan
        The plan file.
    out
        A file for the release: .html, .json, .csv or .parquet; may be given several times.
    """
    from chaffinch import reach
    from chaffinch.planning.survey_file import share_of

    targets = stages.release_files(out or [])
    paths.apart(targets, [plan, *filters])
    found = opened(plan)
    groups, level = wanted.groups(found.audience), share_of(wanted.level)
    ledger, name = budget.opened()
    charged = set() if ledger is None else {entry.key for entry in ledger.entries()}
    sources: Sequence[Path] = [paths.present(paths.named(one)) for one in filters]
    with output.counting("counting", "columns") as tell:
        release = reach.analyze(
            sources,
            found,
            groups=groups,
            level=level,
            adjustment=wanted.adjust,
            ledger=ledger,
            progress=tell,
        )
    for path in targets:
        release.save(path)
        output.say(f"wrote {path}")
    charge = None
    if ledger is not None:
        charge = Charged(ledger, name, release.key, release.key in charged)
    if output.json:
        paid = {} if charge is None else {"charge": charge.document()}
        output.document(release.document() | paid)
        return
    from chaffinch.release.audience_text import text

    output.drawing(text(release, width=output.width))
    if charge is not None:
        charge.show(output)
