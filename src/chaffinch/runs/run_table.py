"""A run from Python: what the command `chaffinch run` does, with data frames as well as files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.ledger import Ledger
from chaffinch.runs.answer_table import TableInput
from chaffinch.runs.listener import Callbacks
from chaffinch.runs.opened_survey import open_collection
from chaffinch.runs.payment import Account, ReleaseTerms
from chaffinch.runs.pipeline import RunOptions, finish_all, run_all
from chaffinch.runs.results import Results, ResultsFolder, ReturnedOnly
from chaffinch.tables.dialect import settings_from

if TYPE_CHECKING:
    from chaffinch.disk.files import AnyPath
    from chaffinch.plans.plan import Plan
    from chaffinch.release.surveys import Release

_COMMAND = "the same call of chaffinch.run in Python"
"""What finishes a run that was interrupted after its payment."""


def run(  # noqa: PLR0913 - what the command has options for
    survey: AnyPath | Plan,
    table: Any,
    out: AnyPath | None = None,
    ledger: Ledger | None = None,
    *,
    plan: AnyPath | Plan | None = None,
    columns: Mapping[str, str] | None = None,
    person: str | None = None,
    rows_are_people: bool = False,
    as_devices: bool = False,
    group: str | None = None,
    round: int | None = None,  # noqa: A002
    again: bool = False,
    anyway: bool = False,
    replace: bool = False,
    level: float = 0.95,
    adjustment: str = "none",
    key: str | None = None,
    format: str | None = None,  # noqa: A002
    written: Mapping[str, Any] | None = None,
    tell: Callable[[str], object] | None = None,
    progress: Callable[[str], object] | None = None,
) -> Release:
    """Check a table of answers, plan, add up and release: what ``chaffinch run`` does.

    Every cell is checked first, and all faults are raised at once. This process holds the table
    anyway; what is protected is the release. So a survey is planned for the view ``totals``: the
    answers are added up, and noise is added once. ``as_devices`` takes the plan, and the larger
    error, of devices that send their answers instead: for rehearsals and comparisons. Nothing is
    printed.

    **What is asked.** ``survey`` is the path of a survey file (.toml) or of a plan file (.json), or
    a ``Plan``. ``plan`` is the plan of a survey that was planned before. ``round`` is the number of
    this round, for a plan of several; ``group`` the public group, for a survey with ``by_public``.

    **The table** is a path (CSV, TSV, JSONL, Parquet, Arrow), an address, a stream, a frame or a
    query (pandas, polars, DuckDB, whatever offers a stream of Arrow), a structured array, a mapping
    of columns, or rows that are mappings. ``columns`` says which column answers which question
    where the names differ. ``person`` is the column that identifies people, and
    ``rows_are_people`` says that every row is another person; without either, a release protects
    rows. ``format`` and ``written`` (the keys of ``[table]`` in a survey file) say how texts are
    written.

    **What is stored where.** The user's record of releases
    (``$XDG_STATE_HOME/chaffinch/releases.record``), which the command uses too, gets the mechanism
    of the release and keyed digests of its data: of the bytes of a file, of the rows of a table in
    memory over all columns, and in every case of the rows and of the answers that were read. So a
    table that the command has released is refused here, and the other way round, in any format. Not
    recognized are other questions to the same rows in another form: once in a file and once in
    memory, in a stream, in a frame with a column more or less, or with cells that are spelled
    differently; a ``ledger`` counts these, too.

    The folder ``out`` gets the plan and the release (JSON, CSV and a page), as from the command;
    a release that is there is replaced only with ``replace``, as it may be published. Without
    ``out`` no file stays, and a new plan is not saved. Encoded reports are in the temporary folder
    meanwhile; what a killed process leaves there is removed by the next run.

    **Payment.** The release is recorded, and charged to the ``ledger`` if there is one (under the
    name ``key``), before anybody has it. If the run is interrupted after that, the same call
    finishes it without another charge: in the same ``out``, or from the state folder, where the
    release is kept until it is returned. Only without ``out``, that of a stream or an address is
    lost. A process killed before the record leaves its results, unpaid, in a hidden folder in
    ``out`` until the next run, which draws noise anew: keep ``out`` where nobody reads along. One
    killed when the release is already in place has paid for it: the same call would make another
    one, and is refused without ``replace``. A second release of the same data is refused
    (``DataRepeated``) unless a ledger pays or it is wanted ``again``; then it states what all
    releases promise together. ``anyway`` accepts a plan of no use, and with ``again`` also releases
    that together protect nobody.

    ``level`` is the confidence level of the intervals, ``adjustment`` moves estimates to what is
    possible (``analyze``). ``tell`` receives notes and warnings, ``progress`` each step;
    ``show_progress`` shows the progress of long searches.

    >>> import chaffinch as cf
    >>> plan = cf.plan(cf.Survey({"tea": cf.Bit()}), users=200, target=cf.Target(2, 1e-6))
    >>> table = {"tea": ["yes", "no"] * 100, "cup": range(200)}
    >>> release = cf.run(plan, table, rows_are_people=True)
    >>> release.reports, release.unit
    (200, 'person')
    >>> cf.run(plan, table, rows_are_people=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chaffinch.errors.DataRepeated: The data of a run must be released at most once. ...
    """
    listener = Callbacks(tell, progress)
    account = None
    if ledger is not None:
        account = Account(_checked_ledger(ledger), "ledger")
    terms = ReleaseTerms(level, adjustment, account, key)
    asked = open_collection(
        survey, plan, listener, as_devices=checks.truth("as_devices", as_devices)
    )
    if group is None and asked.is_of_all_groups and asked.group is not None:
        raise InvalidInput(
            "group",
            f"one of {', '.join(map(repr, asked.group.question.labels))}",
            Unquoted("none"),
            hint="name one: group=...; the command `chaffinch run` takes all of them",
        )
    results: Results = ReturnedOnly()
    replaces = checks.truth("replace", replace)
    if out is not None:
        inputs = [one for one in (survey, table, plan) if isinstance(one, (str, os.PathLike))]
        results = ResultsFolder(_folder(out), [Path(one) for one in inputs], replaces=replaces)
    options = RunOptions(results, round, again, anyway, terms, command=_COMMAND, listener=listener)
    settings = settings_from({} if written is None else written)
    given = TableInput(table, format, settings, columns or {}, person, rows_are_people)
    (made,) = run_all(asked, given, options, group=group)
    return made.release


def finish_run(
    out: AnyPath,
    ledger: Ledger | None = None,
    *,
    tell: Callable[[str], object] | None = None,
) -> list[Release]:
    """Put in place the paid releases of interrupted runs in ``out``, without their tables.

    This includes those of public groups. ``ledger`` is the one that has paid; without it only
    releases are finished that no ledger paid for.
    """
    account = None if ledger is None else Account(_checked_ledger(ledger), "ledger")
    options = RunOptions(terms=ReleaseTerms(account=account), listener=Callbacks(tell))
    return [made.release for made in finish_all(ResultsFolder(_folder(out)), options)]


def _folder(out: object) -> Path:
    # An empty path would be the working folder, which nobody has named.
    if not isinstance(out, (str, os.PathLike)) or not os.fspath(out):
        raise InvalidInput("output", "the path of a folder", out)
    return Path(out)


def _checked_ledger(ledger: Ledger) -> Ledger:
    if not isinstance(ledger, Ledger):
        raise InvalidInput("ledger", "a Ledger", type(ledger).__name__, hint="use Ledger.open")
    return ledger
