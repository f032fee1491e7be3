"""From a table to a release: check, plan, encode, shuffle, analyze, pay, put in place.

Each step takes the results of the steps before it. Whether another release of the data is
permitted is decided twice: before anything is encoded, to save the time, and after the table was
read to its end, because another run may have been quicker and because the rows of a pipe are known
only then. ``runs.payment`` has the order of staging, payment and commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.engines import engine
from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.ledger.release_record import ReleaseRecord
from chaffinch.release.surveys import load_release
from chaffinch.runs.answer_table import AnswerTable, TableInput, open_answers
from chaffinch.runs.known_data import KnownData
from chaffinch.runs.listener import Callbacks, Listener
from chaffinch.runs.payment import (
    Charged,
    ReleaseTerms,
    finish_release,
    hand_out_release,
    refuse_to_replace,
)
from chaffinch.runs.public_groups import all_repeated, group_folders, large_groups
from chaffinch.runs.repeats import Permit, RepeatRules, is_released
from chaffinch.runs.results import NoFiles, Results, ResultsFolder
from chaffinch.tables.substitutions import Substitutions

if TYPE_CHECKING:
    from chaffinch.disk.paid_files import Bill
    from chaffinch.disk.staged import StagedFiles
    from chaffinch.plans.plan import Plan
    from chaffinch.release.surveys import Release
    from chaffinch.runs.asked import Collection
    from chaffinch.tables.read import Table
    from chaffinch.wire.messages import Tally


@dataclass(frozen=True)
class RunOptions:
    """Options of a run."""

    results: Results = field(default_factory=NoFiles)
    round: int | None = None
    again: bool = False
    anyway: bool = False
    terms: ReleaseTerms = field(default_factory=ReleaseTerms)
    command: str = ""
    """What finishes the run after an interruption; it is stored with the staged files."""
    listener: Listener = field(default_factory=Callbacks)

    @property
    def rules(self) -> RepeatRules:
        """Return what the caller permits about other releases of the same data."""
        return RepeatRules(self.again, self.anyway, self.terms.account is not None)


@dataclass(frozen=True)
class RunResult:
    """A release that is paid for, and in place if there is an output folder."""

    release: Release
    charge: Charged | None
    folder: Path | None


@dataclass(frozen=True)
class _CheckedTable:
    """A table in which every cell was checked, and the names of its data."""

    answers: AnswerTable
    rows: Table
    """The rows that count."""
    data: KnownData

    def request(self, plan: Plan, given: TableInput, options: RunOptions) -> str:
        """Return a name for everything that determines the release."""
        terms, answers = options.terms, self.answers
        written = repr(given.joined_settings(answers.asked.table))
        table = [plan.id, answers.columns, written, repr(answers.whose)]
        return self.data.request(
            [*table, terms.level, terms.adjustment, terms.key, options.round, given.format]
        )


def run_all(
    asked: Collection, given: TableInput, options: RunOptions, *, group: str | None = None
) -> Iterator[RunResult]:
    """Yield the release of a collection; with public groups one of each large enough group.

    With ``group`` only that group is released. A run of several groups that was interrupted goes
    on with the groups that are left.
    """
    if group is not None:
        asked = asked.of_group(group)
    if not asked.is_of_all_groups:
        made = release_table(asked, given, options)
        assert made is not None  # noqa: S101 - only what was resumed may have nothing to do
        yield made
        return
    listener = options.listener
    table = open_answers(asked, given, listener)
    labels = large_groups(table, listener)
    plan = asked.make_plan(options.results.folder, listener, anyway=options.anyway)
    if options.results.folder is not None:
        options.results.folder.mkdir(parents=True, exist_ok=True)
        asked.keep_plan(options.results.folder, plan)
    planned, done = asked.planned_by(plan), 0
    for label, folder in labels.items():
        own = replace(options, results=options.results.of_group(folder))
        made = release_table(planned.of_group(label), given, own, resuming=not options.again)
        if made is not None:
            done += 1
            yield made
    if not done:
        raise all_repeated(len(labels))


def release_table(
    asked: Collection, given: TableInput, options: RunOptions, *, resuming: bool = False
) -> RunResult | None:
    """Release one collection: check, plan, encode, shuffle, analyze, pay, put in place.

    With ``resuming``, a release that an earlier run has put in place stays as it is, and None is
    returned.
    """
    results, listener, round_ = options.results, options.listener, options.round
    results.prepare()
    table = _check_table(asked, given, options)
    plan = asked.make_plan(results.folder, listener, anyway=options.anyway)
    request = table.request(plan, given, options)
    results.check(plan)
    with results.filling() as folder:
        finished = _finish_stopped(table.data, request, options)
        if finished is not None:
            return finished
        unit = table.answers.whose.unit
        if resuming and is_released(table.data, plan, round_, unit, results.standing):
            listener.say(f"released by an earlier run, and left as it is: {results.folder}")
            return None
        options.rules.permit(table.data, plan, round_, unit, results.standing)
        if results.folder is not None and not results.keeps_other(plan):
            asked.keep_plan(results.folder, plan)
        tally = tally_table(table, plan, folder, options)
        _tell_substitutions(table.rows.substitutions, listener)
        data = table.data.after_encoding()
        permit = options.rules.permit(data, plan, round_, unit, results.standing)
        release = _make_release(tally, plan, table.answers, permit, options)
        bill = _make_bill(tally, plan, permit, request, options)
        charge = hand_out_release(
            results.writers(plan, release),
            options.terms.account,
            bill,
            lambda: results.check(plan),
            listener.say,
        )
    return RunResult(release, charge, results.folder)


def _check_table(asked: Collection, given: TableInput, options: RunOptions) -> _CheckedTable:
    """Check every cell, and refuse a repeated release if no plan could cover it.

    This comes before planning, which can take a minute.
    """
    listener = options.listener
    unread = KnownData.of(given.source)
    answers = open_answers(asked, given, listener).of_chosen_group()
    watched, data = unread.watch(answers.table, answers.answer_columns)
    answers = replace(answers, table=watched)
    if answers.whose.unit == "row":
        listener.advise(f"note: {answers.whose.hint(watched, asked.group)}")
    if watched.readable_again or answers.whose.person is not None:
        substitutions = Substitutions()
        rows = answers.check(listener, substitutions)
        _tell_substitutions(substitutions, listener)
    else:
        listener.say("the table comes through a pipe: its cells are checked while it is encoded")
        rows = replace(watched, substitutions=Substitutions())
    if watched.readable_again:
        data = data.after_check()
    # Other groups of the same table are other people. What waits has to be finished first.
    if asked.group is None and not options.results.waits:
        options.rules.check_before_planning(data, options.results.standing)
    return _CheckedTable(answers, rows, data)


def _tell_substitutions(substitutions: Substitutions | None, listener: Listener) -> None:
    """Report to whoever holds the table how many cells count as something else."""
    for words in () if substitutions is None else substitutions.words:
        listener.say(words)


def _finish_stopped(data: KnownData, request: str, options: RunOptions) -> RunResult | None:
    """Put in place the release of an earlier, interrupted run with the same request."""
    results = options.results
    finished = finish_release(
        results.targets,
        options.terms.payer or data.record,
        options.listener.say,
        inputs=results.inputs,
        request=request,
    )
    if not finished or results.folder is None:
        return None
    if not data.can_be_recognized:
        refuse_to_replace(finished, "")  # whether a pipe has the same content is unknown
    return _finished_result(finished, results.folder, options)


def tally_table(table: _CheckedTable, plan: Plan, folder: Path, options: RunOptions) -> Tally:
    """Return the tally of a table: encoded, shuffled and counted through files in ``folder``."""
    local, listener = engine(), options.listener
    encoded, shuffled = folder / "encoded.parquet", folder / "shuffled.parquet"
    record, columns = folder / "record", table.answers.columns or None
    with listener.thinking("verifying the plan"):
        plan.verify()
    with listener.counting("encoding", "reports") as tell:
        local.encode(table.rows, plan, encoded, round=options.round, columns=columns, progress=tell)
    with listener.counting("shuffling", "messages") as tell:
        # The encoded file is gone with this run, so nothing has to be remembered of it.
        local.shuffle([encoded], plan, shuffled, record=record, progress=tell)
    encoded.unlink()
    record.unlink()
    with listener.counting("counting", "messages") as tell:
        tally = local.tally([shuffled], plan, progress=tell)
    shuffled.unlink()
    return tally


def _make_release(
    tally: Tally, plan: Plan, answers: AnswerTable, permit: Permit, options: RunOptions
) -> Release:
    """Return the release of a tally, with the joint guarantee if there are earlier ones."""
    with options.listener.thinking("intervals"):
        release = options.terms.release(tally, plan, one_party=True)
        drawn = answers.whose.person is not None
        release = replace(release, unit=answers.whose.unit, rows_were_drawn=drawn)
        return permit.say_together(release)


def _make_bill(tally: Tally, plan: Plan, permit: Permit, request: str, options: RunOptions) -> Bill:
    """Return the bill that must be paid before anybody sees the release."""
    command = options.command
    paid = options.terms.bill(tally, plan, command=command, request=request, one_party=True)
    standing = options.results.standing
    return permit.bill(tally, standing, paid, command=command, request=request)


# ----------------------------------------------------------------------------
# Finishing an interrupted run without its table.


def finish_all(results: ResultsFolder, options: RunOptions) -> Iterator[RunResult]:
    """Put in place all paid releases that are staged in a folder or in those of its groups."""
    payer = options.terms.payer or ReleaseRecord()
    places = [results, *map(results.of_group, group_folders(results.folder))]
    done = False
    for place in [one for one in places if one.waits] or [results]:
        finished: list[StagedFiles] = []
        if place.folder.is_dir():
            with place.alone():
                finished = finish_release(
                    place.targets, payer, options.listener.say, inputs=place.inputs
                )
        if finished:
            yield _finished_result(finished, place.folder, options)
            done = True
    if not done:
        raise InvalidInput(
            "release to finish",
            "one that was paid for and that waits in the folder",
            Unquoted("none"),
            hint="without --finish the command (chaffinch.run) makes a new one",
        )


def _finished_result(finished: list[StagedFiles], folder: Path, options: RunOptions) -> RunResult:
    """Return the release of an interrupted run, which is in place now."""
    options.listener.say(
        "finished an earlier run that was stopped after it had paid: this is its release"
    )
    account = options.terms.account
    charge = None if account is None else Charged(account, finished[0].key, before=True)
    release = load_release(folder / "release.json")
    return RunResult(release, charge, folder)
