"""A run as Python calls it: the command `chaffinch run`, with frames as well as files."""

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
from chaffinch.runs.results import NoFiles, Results, ResultsFolder
from chaffinch.tables.settings import settings_from

if TYPE_CHECKING:
    from chaffinch.disk.files import AnyPath
    from chaffinch.plans.plan import Plan
    from chaffinch.release.surveys import Release

_COMMAND = "the same call of chaffinch.run in Python"
"""What finishes a run that was stopped after it had paid."""


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
    """Check a table of answers, plan, encode, shuffle and analyze: what ``chaffinch run`` does.

    Every cell is checked first, and all faults are raised at once. All parties are this process,
    which holds the table anyway; what is protected is what is released. Nothing is printed.

    **What is asked.** ``survey`` is the path of a survey file (.toml) or of a plan file (.json), or
    a ``Plan``; ``plan`` is that of a survey which was planned before. ``round`` says which round
    this is, of a plan of several; ``group`` which public group, of a survey with ``by_public``.

    **The table** is a path (CSV, TSV, JSONL, Parquet, Arrow), an address, a stream, an Arrow table,
    a frame of pandas or polars, or a mapping of columns. ``columns`` says which column answers
    which question where the names differ, ``person`` which one tells people apart;
    ``rows_are_people`` that every row is another person. Without either, a release protects rows.
    ``format`` and ``written`` (the keys of ``[table]`` in a survey file) say how it is written.

    **What is kept where.** The record of releases of this user
    (``$XDG_STATE_HOME/chaffinch/releases.record``) is the one of the command: it holds of every
    release its mechanism and keyed names of its data, of a file by its bytes, of a table in memory
    by all of its columns, and of both by the rows and by the answers that were read. So a table
    that the command has released is refused here, and the other way round, in a frame as in a
    file; only other questions to the same rows are not recognized when they come in a file one
    time and in memory the other. The folder ``out`` gets the plan and the release (JSON, CSV and a
    page), as with the command; results of another plan are replaced with ``replace`` alone.
    Without ``out`` no file is written, and a new plan is not kept either.

    **Payment.** The release is recorded, and charged to the ``ledger`` if there is one (under the
    name ``key``), before anybody has it. Stopped after that, the same call with the same ``out``
    finishes it and pays nothing. Without ``out`` a process that ends between payment and return
    has lost what it paid for. A second release of the same data is refused (``DataRepeated``)
    unless it is wanted ``again``, and then says what all of them promise together, or a ledger
    pays. ``anyway`` allows a plan of no use, and with ``again`` also releases that together
    protect nobody.

    ``level`` is how surely an interval holds the truth; ``adjustment`` moves estimates to what is
    possible (``analyze``). ``tell`` is told notes and warnings, ``progress`` each step;
    ``show_progress`` shows long searches.

    >>> import chaffinch as cf
    >>> plan = cf.plan(cf.Survey({"tea": cf.Bit()}), users=200, target=cf.Target(2, 1e-6))
    >>> table = {"tea": ["yes", "no"] * 100, "cup": range(200)}
    >>> release = cf.run(plan, table, rows_are_people=True)
    >>> release.reports, release.unit
    (200, 'person')
    >>> cf.run(plan, table, rows_are_people=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    chaffinch.errors.DataRepeated: The data of a run must be released once. Got data with 1 ...
    """
    listener = Callbacks(tell, progress)
    account = None
    if ledger is not None:
        account = Account(_checked_ledger(ledger), "ledger")
    terms = ReleaseTerms(checks.real("level", level, least=0.0, most=1.0), adjustment, account, key)
    asked = open_collection(survey, plan, listener)
    if group is None and asked.is_of_all_groups and asked.group is not None:
        raise InvalidInput(
            "group",
            f"one of {', '.join(map(repr, asked.group.question.labels))}",
            Unquoted("none"),
            hint="name one: group=...; the command `chaffinch run` takes all of them",
        )
    results: Results = NoFiles()
    if out is not None:
        inputs = [one for one in (survey, table, plan) if isinstance(one, (str, os.PathLike))]
        results = ResultsFolder(Path(out), [Path(one) for one in inputs], replaces=replace)
    options = RunOptions(results, round, again, anyway, terms, command=_COMMAND, listener=listener)
    settings = settings_from(written or {})
    given = TableInput(table, format, settings, columns or {}, person, rows_are_people)
    (made,) = run_all(asked, given, options, group=group)
    return made.release


def finish_run(
    out: AnyPath,
    ledger: Ledger | None = None,
    *,
    tell: Callable[[str], object] | None = None,
) -> list[Release]:
    """Put the release in place that an earlier run has paid for before it was stopped, as it is.

    Its table is not read, and may be another one by now. Of public groups all that wait in ``out``
    are put in place. ``ledger`` is the one that has paid; without one it is the record of releases.
    """
    account = None if ledger is None else Account(_checked_ledger(ledger), "ledger")
    options = RunOptions(terms=ReleaseTerms(account=account), listener=Callbacks(tell))
    return [made.release for made in finish_all(ResultsFolder(Path(out)), options)]


def _checked_ledger(ledger: Ledger) -> Ledger:
    if not isinstance(ledger, Ledger):
        raise InvalidInput("ledger", "a Ledger", type(ledger).__name__, hint="use Ledger.open")
    return ledger
