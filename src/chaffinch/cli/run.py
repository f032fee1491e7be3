"""The main job: from a table of answers to a release, in one command."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.collection import PLAN, Collection, PrivacyUnit, TableOptions, open_collection
from chaffinch.cli.groups import all_repeated, group_folders, group_runs
from chaffinch.cli.output import Output
from chaffinch.cli.releasing import (
    Charged,
    ReleaseOptions,
    Releasing,
    finish_release,
    hand_out_release,
    refuse_to_replace,
    show_release,
)
from chaffinch.disk.faults import storage_fault
from chaffinch.disk.kinds import Kind
from chaffinch.disk.leftovers import alone_in, remove_leftovers
from chaffinch.disk.protected import refuse_all_but, refuse_to_overwrite
from chaffinch.disk.staged import StagedFiles, Writer, staged_folders
from chaffinch.errors import ChaffinchError, InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.cli.again import RepeatCheck, Seen
    from chaffinch.disk.paid_files import Bill
    from chaffinch.plans.plan import Plan
    from chaffinch.release.surveys import Release
    from chaffinch.tables.read import Table
    from chaffinch.tables.substitutions import Substitutions
    from chaffinch.wire.messages import Tally

RELEASES = ("release.html", "release.json", "release.csv")


def run(  # noqa: PLR0913 - one for each option
    survey: Path,
    *,
    data: str,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    plan: Path | None = None,
    where: TableOptions = TableOptions(),  # noqa: B008 - frozen
    round: int | None = None,  # noqa: A002
    replace: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    finish: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    anyway: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    again: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    group: str | None = None,
    wanted: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Check a table of answers, plan, encode, shuffle and analyze.

    Every cell is checked first, and all faults are told at once. The plan is kept in the folder
    from the moment it is made, and the same survey uses it again. All parties run on this
    machine, so whoever runs this sees the table anyway; what is protected is what is released.

    Parameters
    ----------
    survey
        A survey file (.toml; `chaffinch plan --example` prints one) or a plan file (.json).
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - reads a pipe.
    out
        The folder for the plan and the release. The release is there only when all went well.
    plan
        The plan file of the survey, where one was made before.
    round
        Which round this is, for a plan of several.
    replace
        Overwrite a release of another plan that is in the folder.
    finish
        Read no table: put the release in place that an earlier run has paid for before it was
        stopped, as it is, also if its table or its options were others; of public groups all.
    anyway
        Also with a plan that is of no use: it protects nobody, or its error is the whole crowd.
        With --again also if all releases together protect nobody.
    again
        Also if the same data, or the folder, has a release already. Every release tells more
        about the same people; this one will say what all of them promise together.
    group
        The public group to take, of a survey with `by_public`. Without it all groups are taken
        that are large enough, each into a folder of its own; the same command again goes on
        where one was stopped.
    """
    released = wanted.prepare()
    inputs: list[str | Path] = [survey, data, *([] if plan is None else [plan])]
    if finish:
        _finish_runs(out, released, inputs, output)
        return
    asked = open_collection(survey, plan, output)
    how = _Options(data, where, round, replace, anyway, again, released, inputs, output)
    if group is not None:
        _release_table(asked.of_group(group), out, how)
    elif asked.group is None or asked.group.value is not None:
        _release_table(asked, out, how)
    else:
        groups = group_runs(asked, data, out, where, output, anyway=anyway)
        made = [_release_table(one, folder, how, resuming=not again) for one, folder in groups]
        if not any(made):
            raise all_repeated(len(made))


def _finish_runs(
    out: Path, released: Releasing, inputs: Sequence[str | Path], output: Output
) -> None:
    """Put in place what waits in a folder, or in those of its public groups."""
    from chaffinch.ledger.runs import Runs

    payer = released.payer or Runs()
    done = False
    for folder in [one for one in (out, *group_folders(out)) if _waits(one)] or [out]:
        with _only_run(folder) if folder.is_dir() else nullcontext():
            found = finish_release(_targets(folder), payer, output, inputs=inputs)
        if found:
            _show_finished(found, folder, released, output)
            done = True
    if not done:
        raise InvalidInput(
            "release to finish",
            "one that was paid for and that waits in the folder",
            Unquoted("none"),
            hint="without --finish the command makes a new one",
        )


def _waits(folder: Path) -> bool:
    return bool(staged_folders(folder, None, refuse_strangers=False))


@dataclass(frozen=True)
class _Options:
    """How a table becomes a release."""

    data: str
    where: TableOptions
    round: int | None
    replace: bool
    anyway: bool
    again: bool
    released: Releasing
    inputs: Sequence[str | Path]
    output: Output

    @property
    def facts(self) -> list[Any]:
        """Return what a release follows from, beside its table, plan and columns."""
        released = self.released
        return [released.level, released.adjustment, released.key, self.round, self.where.format]


def _release_table(asked: Collection, out: Path, how: _Options, *, resuming: bool = False) -> bool:
    """Check, plan, encode, shuffle and analyze what one collection asks.

    Where an earlier run is resumed, a release that it has put in place stays; return whether
    there was something to do.
    """
    released, output = how.released, how.output
    targets = _targets(out)
    remove_leftovers(out)  # here, because what comes may be refused
    paths.require_folder(out)
    _refuse_outputs(out, how)
    table = _read_table(asked, out, how)
    used = asked.make_plan(out, output, anyway=how.anyway)
    occasion = used, how.round, table.whose.unit

    def check() -> None:
        _refuse_outputs(out, how)
        if not how.replace:
            _refuse_other_results(out, used)

    request = table.request(used.id, repr(how.where.settings(asked.table)), how.facts)
    check()
    with paths.fill_folder(out) as folder, _only_run(out):
        payer = released.payer or table.people.runs
        finished = finish_release(targets, payer, output, inputs=how.inputs, request=request)
        if finished:
            if not Path(how.data).is_file():
                refuse_to_replace(finished, "")  # nobody knows whether a pipe carries the same
            _show_finished(finished, out, released, output)
            return True
        if resuming and table.people.is_released(*occasion):
            output.say(f"released by an earlier run, and left as it is: {out}")
            return False
        table.people.check(*occasion)
        if _other_results(out, used) is None:
            asked.keep_plan(out, used)
        columns = table.named
        tally = tally_table(table.answers, used, folder, output, columns=columns, round=how.round)
        _say_stand_ins(table.answers.substitutions, output)
        release, bill = _make_release(tally, used, table, how, request)
        writers = _release_writers(out, used, release)
        charge = hand_out_release(writers, released.account, bill, check, output)
    _show(release, charge, out, output)
    return True


@dataclass(frozen=True)
class _CheckedTable:
    """A table whose cells are checked, and what is known of its rows."""

    state: _TableState
    answers: Table
    named: Mapping[str, str]
    whose: PrivacyUnit
    people: RepeatCheck
    """As far as it is known before the table is encoded."""
    seen: Seen
    """What knows the rows of a pipe once they were read."""
    readable_again: bool

    def request(self, plan_id: str, written: str, facts: Sequence[Any]) -> str:
        """Return a name for all that a release follows from.

        Keyed, as it waits beside the release: who knows all rows but one could try that one.
        """
        asked_for = [plan_id, self.named, written, repr(self.whose), *facts]
        return self.people.runs.name_of("request", self.state.request(asked_for))

    def people_read(self) -> RepeatCheck:
        """Return the people of a table that was read to its end, unchanged meanwhile."""
        self.state.check()
        return self.people if self.readable_again else self.people.known_by(self.seen)


def _read_table(asked: Collection, out: Path, how: _Options) -> _CheckedTable:
    """Check every cell of a table, and whether its people may have one more release."""
    from chaffinch.cli.again import RepeatCheck

    state = _TableState.of(how.data)
    paid = how.released.account is not None
    people = RepeatCheck.of(state.digest, out, again=how.again, anyway=how.anyway, paid=paid)
    named = asked.columns(how.where)
    whose = asked.whose(how.where)
    table = asked.resolve_formats(
        how.where.open(how.data, how.output, asked.table), named, how.output
    )
    table = asked.group_table(table, named)
    places = dict(zip(asked.questions, asked.answer_columns(table, named), strict=True))
    watched, seen = people.watch(table, places)
    answers = _check_table(asked, watched, named, whose, how.output)
    again = table.readable_again
    if again:
        people = people.known_by(seen)
    if asked.group is None:  # other groups of the same table are other people
        people.check_before_planning()
    return _CheckedTable(state, answers, named, whose, people, seen, again)


def _make_release(
    tally: Tally, plan: Plan, table: _CheckedTable, how: _Options, request: str
) -> tuple[Release, Bill]:
    """Return the release of a tally, and what has to be paid before anybody sees it."""
    unit, released = table.whose.unit, how.released
    drawn = table.whose.person is not None
    people = table.people_read()
    before = people.check(plan, how.round, unit)
    with how.output.thinking("intervals"):
        release = released.release(tally, plan, one_party=True)
        release = replace(release, unit=unit, rows_were_drawn=drawn)
        release = people.say_together(release, plan, how.round, before)
    paid = released.bill(tally, plan, request, one_party=True)
    return release, people.bill(tally, plan, before, request, paid, unit=unit)


def _targets(out: Path) -> list[Path]:
    return [paths.require_name(out) / name for name in (PLAN, *RELEASES)]


def _show(release: Release, charge: Charged | None, out: Path, output: Output) -> None:
    files = [str(path) for path in _targets(out)]
    show_release(release, charge, output, files=files)
    if not output.json:
        output.say("\nwrote " + "\n      ".join(files))


def _only_run(out: Path) -> AbstractContextManager[None]:
    """Refuse to fill a folder, or to finish a release there, while another run does.

    Both would pay, and one release would be lost.
    """
    return alone_in(out, "run", patience=0.0)


def _release_writers(out: Path, plan: Plan, release: Release) -> dict[Path, Writer]:
    """Return what goes into the folder; a plan that is there already stays as it is."""
    files: dict[Path, Writer] = {out / name: release.save for name in RELEASES}
    if not _holds_plan(out / PLAN, plan):
        files[out / PLAN] = plan.save
    return files


@dataclass(frozen=True)
class _TableState:
    """What a table held at a moment: a digest of its bytes, and when its file was changed."""

    path: Path
    digest: str
    changed: tuple[int, ...]

    @classmethod
    def of(cls, data: str) -> _TableState:
        """Return the state of a table now; of a pipe, that it is one."""
        path = Path(data)
        if not path.is_file():
            return cls(path, "", ())
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                found = os.fstat(file.fileno())
        except OSError as error:
            raise storage_fault(path.name, error, verb="read") from None
        # A file that was changed and changed back has the same bytes, but not the same time.
        return cls(path, digest, (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns))

    def request(self, how: Sequence[Any]) -> bytes:
        """Return all that a release follows from: the table, and ``how``."""
        return json.dumps([self.digest, *how], sort_keys=True).encode()

    def check(self) -> None:
        """Refuse a table that has changed since: nobody knows what was read of it."""
        if self.of(str(self.path)) != self:
            raise InvalidInput(
                "table",
                "the same from the beginning to the end of a run",
                Unquoted("one that was changed meanwhile"),
                hint="nothing was charged: run the same command again when it is complete",
            )


def _show_finished(
    finished: Sequence[StagedFiles], out: Path, released: Releasing, output: Output
) -> None:
    """Show the release that an earlier run has paid for, which is in its place now."""
    output.say("finished an earlier run that was stopped after it had paid: this is its release")
    account = released.account
    charge = None if account is None else Charged(account, finished[0].key, before=True)
    _show(cf.load_release(out / "release.json"), charge, out, output)


def _refuse_outputs(out: Path, how: _Options) -> None:
    """Refuse a folder where a plan or a release would replace anything else."""
    for name, kind in ((PLAN, Kind.PLAN), *((name, Kind.RELEASE) for name in RELEASES)):
        # A plan that is there may be the one that was named.
        given = how.inputs if kind is Kind.RELEASE else ()
        refuse_to_overwrite(out / name, inputs=given, replaceable=kind)
        refuse_all_but(kind, out / name)


def _holds_plan(path: Path, plan: Plan) -> bool:
    """Return whether a file holds this very plan."""
    try:
        return cf.load_plan(path).id == plan.id
    except ChaffinchError:
        return False


def tally_table(
    table: Any,
    plan: Plan,
    folder: Path,
    output: Output,
    *,
    columns: Mapping[str, str] | None = None,
    round: int | None = None,  # noqa: A002
) -> Tally:
    """Return the tally of a table: encoded, shuffled and counted through files in ``folder``."""
    from chaffinch.engines import engine

    local = engine()
    encoded, shuffled = folder / "encoded.parquet", folder / "shuffled.parquet"
    record = folder / "record"
    with output.thinking("verifying the plan"):
        plan.verify()
    with output.counting("encoding", "reports") as tell:
        local.encode(table, plan, encoded, round=round, columns=columns or None, progress=tell)
    with output.counting("shuffling", "messages") as tell:
        # The encoded file is gone with this run, so nothing has to be remembered of it.
        local.shuffle([encoded], plan, shuffled, record=record, progress=tell)
    encoded.unlink()
    record.unlink()
    with output.counting("counting", "messages") as tell:
        tally = local.tally([shuffled], plan, progress=tell)
    shuffled.unlink()
    return tally


def _refuse_other_results(out: Path, plan: Plan) -> None:
    """Refuse a folder with the plan or the release of something else, which would be lost."""
    name = _other_results(out, plan)
    if name is not None:
        raise InvalidInput(
            "output",
            "a folder without results of another plan",
            Unquoted(f"one with such a {name}"),
            hint="name another folder, or add --replace to overwrite what is there",
        )


def _other_results(out: Path, plan: Plan) -> str | None:
    """Return the name of a file in a folder that is of another plan, or None."""
    for name, key in ((PLAN, "id"), ("release.json", "plan")):
        try:
            document = json.loads((out / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise storage_fault(name, error, verb="read") from None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get(key) != plan.id:
            return name
    return None


def _check_table(
    asked: Collection, table: Table, columns: Mapping[str, str], whose: PrivacyUnit, output: Output
) -> Table:
    """Return the rows that count; refuse a table before a minute is spent on planning."""
    from chaffinch.tables.substitutions import Substitutions

    if whose.unit == "row" and not output.json:
        output.say(f"note: {whose.hint(table, asked.group)}")
    if table.readable_again or whose.person is not None:
        substitutions = Substitutions()
        found = asked.check(table, columns, whose, output, substitutions)
        _say_stand_ins(substitutions, output)
        return found
    asked.answer_columns(table, columns)
    output.say("the table comes through a pipe: its cells are checked while it is encoded")
    return replace(table, substitutions=Substitutions())


def _say_stand_ins(substitutions: Substitutions | None, output: Output) -> None:
    """Tell whoever holds a table how many of its cells are no plain answers."""
    for words in () if substitutions is None else substitutions.words:
        output.say(words)
