"""The steps of the operators: the shuffler shuffles filters, the analyzer counts ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.charts.rounding import count_of
from chaffinch.cli import paths
from chaffinch.cli.engines import EngineOptions
from chaffinch.cli.output import Output, spoken_command
from chaffinch.cli.release_options import Budget, release_files, write_release
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.inputs import is_pattern, require_file
from chaffinch.disk.leftovers import remove_leftovers
from chaffinch.disk.locations import is_address
from chaffinch.disk.paid_files import Bill
from chaffinch.disk.protected import refuse_all_but
from chaffinch.errors import InvalidInput
from chaffinch.runs.payment import Account, finish_release, refuse_to_replace

if TYPE_CHECKING:
    from chaffinch.reach.planning.audience import Audience, Group
    from chaffinch.reach.planning.reach_plan import ReachPlan
    from chaffinch.reach.release import ReachRelease
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

    For plans with a shuffler, who is no publisher and never has the campaign key. This is done once
    for each key: the same filters again give the same columns, and other filters are refused.

    Parameters
    ----------
    filters
        One filter file from each publisher of the plan, in any order.
    plan
        The plan file.
    out
        The file for the analyzer, such as campaign.columns.
    record
        The folder in which this shuffler records what it has shuffled; by default a folder of this
        user in $XDG_STATE_HOME/chaffinch (~/.local/state/chaffinch).
    """
    remove_leftovers(paths.require_name(out).parent)
    paths.require_writable(out, [plan, *filters], replaceable=Kind.COLUMNS)
    refuse_all_but(Kind.COLUMNS, out)
    found = paths.open_reach_plan(plan)
    sources = [require_file(paths.require_name(one)) for one in filters]
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
    output.say(
        f"wrote {out}: {columns.bits:,} columns of {rows} for the analyzer, without their order"
    )


def _refuse_other(out: Path, columns: ShuffledColumns) -> None:
    """Refuse to replace columns of another hand-over; the same ones may be written again."""
    if out.is_file() and out.stat().st_size and out.read_bytes() != columns.content():
        raise InvalidInput(
            "output",
            "a new file, or that of the same shuffled columns",
            out.name,
            hint="name another file; what was shuffled is kept, and the same command gives it",
        )


# ----------------------------------------------------------------------------
# The filters of all publishers, or what the shuffler made of them, become a release.

_LIST = Parameter(negative=())


@Parameter(name="*")
@dataclass(frozen=True)
class _ReachOptions:
    any: Annotated[tuple[str, ...], _LIST, Parameter(show_default=False)] = ()
    """Also count ids that any of these publishers has: daily,radio; may be given several times."""
    all: Annotated[tuple[str, ...], _LIST, Parameter(show_default=False)] = ()
    """Also count ids that all of these publishers have: daily,radio; may be given several times."""
    level: str = "95%"
    """The confidence level of the intervals, such as 95% or 0.95."""
    adjust: Literal["none", "non-negative"] = "none"
    """Set estimates below 0 to 0, which biases small ones upwards."""

    def groups(self, audience: Audience) -> list[Group]:
        from chaffinch.reach import Group

        def named(words: str) -> tuple[str, ...]:
            return tuple(sorted((word.strip() for word in words.split(",")), key=audience.place))

        return [
            *(Group(any_of=named(words)) for words in self.any),
            *(Group(all_of=named(words)) for words in self.all),
        ]


def analyze(
    filters: list[str],
    /,
    *,
    plan: Path,
    out: Annotated[list[Path] | None, Parameter(name=["--out", "-o"], negative=())] = None,
    wanted: _ReachOptions = _ReachOptions(),  # noqa: B008 - frozen
    budget: Budget = Budget(),  # noqa: B008 - frozen
    work: EngineOptions = EngineOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Count ids from the filters of all publishers: reach, overlaps, frequency.

    Parameters
    ----------
    filters
        One filter file from each publisher of the plan, in any order; for a plan with a shuffler,
        the one file that `reach shuffle` made of them. A folder means all of its files, a pattern
        such as 'filters/*.filter' the files that match. With --engine spark also addresses.
    plan
        The plan file.
    out
        A file for the release: .html, .json, .csv or .parquet; may be given several times.
    """
    from chaffinch.planning.survey_file import share_of

    inputs: list[str | Path] = [plan, *filters]
    targets = release_files(out or [], inputs)
    found = paths.open_reach_plan(plan)
    groups, level = wanted.groups(found.audience), share_of(wanted.level)
    account = budget.open()
    if account is not None:
        account.ledger.of("analyzer")
    finished = finish_release(
        targets, None if account is None else account.ledger, output.say, inputs=inputs
    )
    sources = [_named_file(one) for one in filters]
    with output.counting("counting", "filters" if work.on_cluster else "columns") as tell:
        release = cf.reach.analyze(
            sources,
            found,
            groups=groups,
            level=level,
            adjustment=wanted.adjust,
            progress=tell,
            engine=work.open(tell.words) if work.on_cluster else None,
        )
    refuse_to_replace(finished, release.batch)
    bill = None if account is None else _bill(found, release, account)
    write_release(release, targets, account, bill, inputs=inputs, output=output)


def _named_file(name: str) -> str:
    if is_address(name) or is_pattern(name):
        return name
    return str(require_file(paths.require_name(Path(name))))


def _bill(plan: ReachPlan, release: ReachRelease, account: Account) -> Bill:
    from chaffinch.reach.analyzer.reach_analysis import charge_release

    pay = partial(charge_release, account.ledger, plan, release)
    return account.bill(plan.id, release.key, release.batch, pay, spoken_command())
