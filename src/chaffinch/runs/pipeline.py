"""From a table to a release: check, plan, add up, analyze, pay, put in place.

Whoever runs this holds the table, so one party adds up and adds the noise; a plan for devices is
encoded, shuffled and counted instead.

Each step takes the results of the steps before it. Whether another release of the data is
permitted is decided twice: before anything is encoded, to save the time, and after the table was
read to its end, because another run may have been quicker and because the rows of a pipe are known
only then. ``runs.payment`` has the order of staging, payment and commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.encoding.bulk import group_column
from chaffinch.engines.local import Local
from chaffinch.errors import DataRepeated, InvalidInput, Unquoted, checks
from chaffinch.ledger.release_record import ReleaseRecord
from chaffinch.protocols.base import TOTALS
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
from chaffinch.runs.repeats import Permit, RepeatRules, is_released
from chaffinch.runs.results import Results, ResultsFolder, ReturnedOnly
from chaffinch.tables.checking import answer_batches, read_answers
from chaffinch.tables.substitutions import Substitutions

if TYPE_CHECKING:
    from chaffinch.disk.paid_files import Bill
    from chaffinch.disk.staged import StagedFiles
    from chaffinch.plans.plan import Plan
    from chaffinch.release.surveys import Release
    from chaffinch.runs.asked import Collection
    from chaffinch.tables.read import Table
    from chaffinch.wire.messages import Tally

_LONGEST_NAME = 40
_FOLDER = re.compile("[0-9]{3,}(-[a-z0-9-]*)?")


@dataclass(frozen=True)
class RunOptions:
    """Options of a run."""

    results: Results = field(default_factory=ReturnedOnly)
    round: int | None = None
    again: bool = False
    anyway: bool = False
    terms: ReleaseTerms = field(default_factory=ReleaseTerms)
    command: str = ""
    """What finishes the run after an interruption; it is stored with the staged files."""
    listener: Listener = field(default_factory=Callbacks)

    def __post_init__(self) -> None:
        for name in ("again", "anyway"):
            object.__setattr__(self, name, checks.truth(name, getattr(self, name)))
        if isinstance(self.round, np.integer):
            object.__setattr__(self, "round", int(self.round))

    @property
    def rules(self) -> RepeatRules:
        """Return what the caller permits about other releases of the same data."""
        return RepeatRules(self.again, self.anyway, self.terms.account is not None)


@dataclass(frozen=True)
class RunResult:
    """A release that is paid for, and in place if there is an output folder."""

    release: Release
    charge: Charged | None
    files: list[Path]


@dataclass(frozen=True)
class CheckedTable:
    """A table whose cells were checked, and what is known of its data."""

    answers: AnswerTable
    rows: Table
    """The rows that count."""
    data: KnownData

    def request(self, plan: Plan, given: TableInput, options: RunOptions) -> str:
        """Return a name for everything that determines the release, and for who pays."""
        terms, answers = options.terms, self.answers
        written = repr(given.joined_settings(answers.asked.settings))
        table = [plan.id, answers.columns, written, repr(answers.privacy_unit), given.format]
        # A release that another ledger has paid for, or none, was never charged to this one.
        payer = (terms.payer or self.data.record).id
        return self.data.request(
            [*table, terms.level, terms.adjustment, terms.key, payer, options.round]
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
    options.results.prepare(asked)
    table = open_answers(asked, given, listener)
    labels = _large_groups(table, listener)
    plan = options.results.find_plan(asked, listener, anyway=options.anyway)
    options.results.keep_plan(asked, plan)
    planned, done = asked.planned_by(plan), 0
    for label, folder in labels.items():
        own = replace(options, results=options.results.of_group(folder))
        made = release_table(planned.of_group(label), given, own, resuming=not options.again)
        if made is not None:
            done += 1
            yield made
    if not done:
        raise _all_groups_repeated(len(labels))


def release_table(
    asked: Collection, given: TableInput, options: RunOptions, *, resuming: bool = False
) -> RunResult | None:
    """Release one collection: check, plan, encode, shuffle, analyze, pay, put in place.

    With ``resuming``, a release that an earlier run has put in place stays as it is, and None is
    returned.
    """
    results, listener, round_ = options.results, options.listener, options.round
    results.prepare(asked)
    table = _check_table(asked, given, options)
    plan = results.find_plan(asked, listener, anyway=options.anyway)
    request = table.request(plan, given, options)
    if table.data.can_be_recognized:  # of other tables nobody knows whether the call is the same
        results = results.of_request(request)
    results.check(plan, round_)
    # The lock of the folder is held up to the end: two runs there would both pay for a release, and
    # one of these would be lost.
    with results.filling() as folder:
        # First finish what an interrupted run has paid for: the rules below would refuse to release
        # the same data again.
        finished = _finish_interrupted(table.data, request, results, options)
        if finished is not None:
            return finished
        unit = table.answers.privacy_unit.unit
        if resuming and is_released(table.data, plan, round_, unit, results.standing):
            listener.say(f"released by an earlier run, and left as it is: {results.folder}")
            return None
        # Asked here to save the time of encoding, and asked again when the data is known in full.
        permit = options.rules.permit(table.data, plan, round_, unit, results.standing)
        results.refuse_standing()
        if permit.same_round:
            listener.say(permit.same_round)
        if not results.keeps_other(plan):
            # Before the long work, so that a run that fails in it finds its plan again.
            results.keep_plan(asked, plan)
        tally = tally_table(table, plan, folder, options)
        _tell_substitutions(table.rows.substitutions, listener)
        data = table.data.after_encoding()
        permit = options.rules.permit(data, plan, round_, unit, results.standing)
        if permit.note:
            listener.say(permit.note)
        release = _make_release(tally, plan, table.answers, permit, options)
        bill = _make_bill(tally, plan, permit, request, options)
        charge = hand_out_release(
            results.writers(plan, release),
            options.terms.account,
            bill,
            lambda: results.check(plan, round_),
            listener.say,
        )
        # Inside, so that a release that is only returned is kept until here.
        return RunResult(release, charge, results.files)


def _check_table(asked: Collection, given: TableInput, options: RunOptions) -> CheckedTable:
    """Check every cell, and refuse a repeated release if no plan could cover it.

    This comes before planning, which can take a minute.
    """
    listener = options.listener
    data = KnownData.of(given.source)  # before anything is read of a file
    opened = open_answers(asked, given, listener)
    if opened.table.in_memory:
        with listener.counting("identifying the table", "columns") as tell:
            data = data.opened(opened.table, tell)
    answers = opened.of_chosen_group()
    watched, data = data.watch(answers.table, answers.answer_columns)
    answers = replace(answers, table=watched)
    if answers.privacy_unit.unit == "row":
        listener.advise(f"note: {answers.privacy_unit.hint(watched, asked.group)}")
    if watched.readable_again or answers.privacy_unit.person is not None:
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
    return CheckedTable(answers, rows, data)


def _tell_substitutions(substitutions: Substitutions | None, listener: Listener) -> None:
    for words in () if substitutions is None else substitutions.words:
        listener.say(words)


def _finish_interrupted(
    data: KnownData, request: str, results: Results, options: RunOptions
) -> RunResult | None:
    finished = finish_release(
        results.targets,
        options.terms.payer or data.record,
        options.listener.say,
        inputs=results.inputs,
        request=request,
    )
    if finished and not data.can_be_recognized:
        # Whether a pipe has the same content is unknown.
        refuse_to_replace(finished, "", how="the same command with --replace (replace=True)")
    return _finished_result(finished, results, options)


def tally_table(table: CheckedTable, plan: Plan, folder: Path, options: RunOptions) -> Tally:
    """Return the tally of a table: encoded, shuffled and counted through files in ``folder``.

    Of a plan for totals the answers are added up in memory instead, and the noise is drawn once.
    """
    local, listener = Local(), options.listener
    encoded, shuffled = folder / "encoded.parquet", folder / "shuffled.parquet"
    record, columns = folder / "record", table.answers.columns or None
    with listener.thinking("verifying the plan"):
        plan.verify()
    if plan.view == TOTALS:
        with listener.counting("adding up", "rows") as tell:
            return local.add_up(
                table.rows, plan, round=options.round, columns=columns, progress=tell
            )
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
    with options.listener.thinking("intervals"):
        release = options.terms.release(tally, plan, one_party=True)
        drawn = answers.privacy_unit.person is not None
        # A run draws its noise once, and an interrupted one is finished from its files: so its day
        # is known. A tally may be analyzed again on another day, and gives the same release.
        release = replace(
            release,
            unit=answers.privacy_unit.unit,
            rows_were_drawn=drawn,
            published_by="",
            made_on=datetime.now(UTC).date(),
            digest=tally.digest,
        )
        return permit.say_together(release)


def _make_bill(tally: Tally, plan: Plan, permit: Permit, request: str, options: RunOptions) -> Bill:
    command = options.command
    paid = options.terms.bill(tally, plan, command=command, request=request, one_party=True)
    standing = options.results.standing
    return permit.bill(tally, standing, paid, command=command, request=request)


# ----------------------------------------------------------------------------
# Public groups: each group that is large enough is a collection of its own.


def _large_groups(table: AnswerTable, listener: Listener) -> dict[str, str]:
    """Return the groups that are large enough, each with the name of its folder.

    Every cell is checked. Groups are public, so the names and sizes of groups that are too small
    are reported; nothing else about them is ever released.
    """
    asked, group = table.asked, table.asked.group
    assert group is not None  # noqa: S101 - asked of surveys with public groups only
    if not table.table.readable_again:
        raise InvalidInput(
            "table of public groups",
            "one that can be read several times",
            Unquoted("a pipe"),
            hint="name a file, or take one group with --group (group=...)",
        )
    table.check(listener)
    labels = group.question.labels
    sizes = dict(zip(labels, _group_sizes(table), strict=True))
    small = {label: size for label, size in sizes.items() if size < asked.reports}
    if small:
        listed = ", ".join(f"{label} ({size:,})" for label, size in small.items())
        listener.say(
            f"left out, with fewer than {asked.reports:,} reports: {listed}; nothing is released "
            "of them"
        )
    if len(small) == len(labels):
        raise InvalidInput(
            f"groups of {group.name!r}",
            f"at least one of {asked.reports} reports",
            Unquoted(f"none of {len(labels)}"),
            hint="ask for fewer users, or for a private group with `by`",
        )
    numbered = enumerate(labels, 1)
    return {label: _folder_name(place, label) for place, label in numbered if label not in small}


def _group_folders(out: Path) -> list[str]:
    try:
        found = sorted(out.iterdir())
    except OSError:
        return []
    return [one.name for one in found if _FOLDER.fullmatch(one.name) and one.is_dir()]


def _all_groups_repeated(groups: int) -> DataRepeated:
    return DataRepeated(
        f"groups that are all released already, {groups} of {groups}",
        hint="nothing was released; add --again (again=True) to make another release of each, "
        "which will say what all of them promise together",
    )


def _group_sizes(table: AnswerTable) -> list[int]:
    group = table.asked.group
    assert group is not None  # noqa: S101 - asked where there is one
    places = [group_column(group, table.table, table.columns)]
    sizes = np.zeros(len(group.question.labels), np.int64)
    for first, batch in answer_batches(table.table, places):
        (numbers,) = read_answers(places, first, batch)
        sizes += np.bincount(numbers, minlength=len(sizes))
    return [int(size) for size in sizes]


def _folder_name(place: int, label: str) -> str:
    """Return a name that every disk takes, and no two groups share.

    >>> _folder_name(3, "New York / JFK")
    '003-new-york-jfk'
    """
    plain = re.sub("[^a-z0-9]+", "-", label.lower()).strip("-")[:_LONGEST_NAME]
    return f"{place:03d}-{plain}".strip("-")


# ----------------------------------------------------------------------------
# Finishing an interrupted run without its table.


def finish_all(results: ResultsFolder, options: RunOptions) -> Iterator[RunResult]:
    """Put in place all paid releases that are staged in a folder or in those of its groups."""
    payer = options.terms.payer or ReleaseRecord()
    places = [results, *map(results.of_group, _group_folders(results.folder))]
    done = False
    for place in [one for one in places if one.waits] or [results]:
        finished: list[StagedFiles] = []
        if place.folder.is_dir():
            with place.alone():
                finished = finish_release(
                    place.targets, payer, options.listener.say, inputs=place.inputs
                )
        made = _finished_result(finished, place, options)
        if made is not None:
            yield made
            done = True
    if not done:
        raise InvalidInput(
            "release to finish",
            "one that was charged and is staged in the folder",
            Unquoted("none"),
            hint="without --finish the command (chaffinch.run) makes a new one",
        )


def _finished_result(
    finished: list[StagedFiles], results: Results, options: RunOptions
) -> RunResult | None:
    release = results.paid_release(finished=bool(finished))
    if release is None:
        return None
    options.listener.say(
        "finished an earlier run that was interrupted after the charge: this is its release"
    )
    account = options.terms.account
    charge = None
    if account is not None and finished:
        charge = Charged(account, finished[0].key, before=True)
    return RunResult(release, charge, results.files)
