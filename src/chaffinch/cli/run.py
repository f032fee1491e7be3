"""The main job: from a table of answers to a release, in one command."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chaffinch.cli import paths
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
from chaffinch.outputs.protected import Kind, refuse_to_overwrite
from chaffinch.outputs.waiting import Waiting, Writer
from chaffinch.storage.faults import storage_fault

if TYPE_CHECKING:
    from chaffinch.planning.plan import Plan
    from chaffinch.questions import Question
    from chaffinch.release.surveys import Release
    from chaffinch.tables.read import Table
    from chaffinch.wire.messages import Tally

_PLAN = "survey.plan.json"
RELEASES = ("release.html", "release.json", "release.csv")


def run(  # noqa: PLR0913 - one for each option
    survey: Path,
    *,
    data: str,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    column: str | None = None,
    map: Annotated[list[str] | None, Parameter(negative=())] = None,  # noqa: A002
    format: str | None = None,  # noqa: A002
    round: int | None = None,  # noqa: A002
    replace: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    wanted: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Plan, encode, shuffle and analyze a table of answers.

    All parties run on this machine, so whoever runs this sees the table anyway; what is
    protected is what is released.

    Parameters
    ----------
    survey
        A survey file (.toml; `chaffinch plan --example` prints one) or a plan file (.json).
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - reads a pipe.
    out
        The folder for the plan and the release; it is filled only when all went well.
    column
        The column with the answers to a single question.
    map
        QUESTION=COLUMN, for each question whose column has another name.
    format
        csv, tsv, jsonl, parquet or arrow, where the file's name does not tell.
    round
        Which round this is, for a plan of several.
    replace
        Overwrite a release of another plan that is in the folder.
    """
    from chaffinch.tables.read import open_table

    released = wanted.prepare()
    asked = _open_collection(survey)
    targets = [paths.require_name(out) / name for name in (_PLAN, *RELEASES)]
    table = open_table(paths.input_source(data, "answers"), format=format)
    named = asked.columns | paths.answer_columns(asked.names, column, map or [])
    with paths.explaining_columns(asked.names, named):
        _check_table(table, asked, named)
    plan = asked.plan or asked.make_plan(output)
    inputs: list[str | Path] = [survey, data]

    def check() -> None:
        if not replace:
            _refuse_other_results(out, plan)
        _refuse_outputs(out, plan, inputs)

    def request() -> str:
        return _request(released, plan, data, [round, format, named])

    check()
    finished = finish_release(targets, released.account, output, inputs=inputs, request=request)
    if finished:
        release, charge = _load_finished(out, finished, data, released, output)
    else:
        asked_for = request() if released.account is not None else ""
        with paths.fill_folder(out) as folder:
            tally = tally_table(table, plan, folder, output, columns=named, round=round)
            with output.thinking("intervals"):
                release = released.release(tally, plan)
            charge = hand_out_release(
                _release_writers(out, plan, release),
                released.account,
                lambda account: released.bill(account, tally, plan, asked_for),
                check,
            )
    files = [str(path) for path in targets]
    show_release(release, charge, output, files=files)
    if not output.json:
        output.say("\nwrote " + "\n      ".join(files))


def _release_writers(out: Path, plan: Plan, release: Release) -> dict[Path, Writer]:
    """Return what goes into the folder; a plan that is there already stays as it is."""
    files: dict[Path, Writer] = {out / name: release.save for name in RELEASES}
    if not _holds_plan(out / _PLAN, plan):
        files[out / _PLAN] = plan.save
    return files


def _request(released: Releasing, plan: Plan, data: str, options: Sequence[Any]) -> str:
    """Return the digest of all that a release follows from; of a pipe, that it is one."""
    how = [plan.id, released.level, released.adjustment, released.key, *options]
    found = hashlib.sha256(json.dumps(how, sort_keys=True).encode())
    if Path(data).is_file():
        try:
            with Path(data).open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise storage_fault(Path(data).name, error, verb="read") from None
    return found.hexdigest()


def _load_finished(
    out: Path, finished: Sequence[Waiting], data: str, released: Releasing, output: Output
) -> tuple[Release, Charged | None]:
    """Return the release that an earlier run has paid for, which is in its place now."""
    from chaffinch import load_release

    if not Path(data).is_file():
        refuse_to_replace(finished, "")  # nobody knows whether a pipe carries the same answers
    output.say(
        "finished an earlier run that was stopped after it had paid: this is its release; "
        "run the command again for a new one"
    )
    charge = None
    if released.account is not None:
        charge = Charged(released.account, finished[0].key, before=True)
    return load_release(out / "release.json"), charge


def _refuse_outputs(out: Path, plan: Plan, inputs: Sequence[str | Path]) -> None:
    """Refuse a folder where a file of a release would replace something else."""
    for name in RELEASES:
        refuse_to_overwrite(out / name, inputs=inputs)
    if not _holds_plan(out / _PLAN, plan):
        refuse_to_overwrite(out / _PLAN, inputs=inputs, replaceable=Kind.PLAN)


def _holds_plan(path: Path, plan: Plan) -> bool:
    """Return whether a file holds this very plan."""
    from chaffinch import load_plan
    from chaffinch.errors import ChaffinchError

    try:
        return load_plan(path).id == plan.id
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


class _Collection:
    """What is to be collected: a plan, or a survey that has yet to become one."""

    def __init__(self, plan: Plan | None, survey: Any) -> None:
        self.plan = plan
        self._survey = survey
        self.questions: dict[str, Question] = (
            {part.name: part.question for part in plan.parts}
            if plan is not None
            else dict(survey.survey.questions)
        )
        self.names = list(self.questions)
        self.reports = (
            plan.reports if plan is not None else math.ceil(survey.users / Fraction(survey.honest))
        )
        self.columns: dict[str, str] = {} if plan is not None else dict(survey.columns)

    def make_plan(self, output: Output) -> Plan:
        """Return the plan of the survey."""
        with output.thinking("planning") as tell:
            plan: Plan = self._survey.plan(tell)
        return plan


def _open_collection(path: Path) -> _Collection:
    if path.suffix.lower() == ".json":
        return _Collection(paths.open_plan(path), None)
    return _Collection(None, paths.open_survey(path))


def _refuse_other_results(out: Path, plan: Plan) -> None:
    """Refuse a folder with the plan or the release of something else, which would be lost."""
    from chaffinch.errors import InvalidInput

    for name, key in ((_PLAN, "id"), ("release.json", "plan")):
        try:
            document = json.loads((out / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise storage_fault(name, error, verb="read") from None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict) or document.get(key) != plan.id:
            raise InvalidInput(
                "output",
                "a folder without results of another plan",
                paths.Plainly(f"one with such a {name}"),
                hint="name another folder, or add --replace to overwrite what is there",
            )


def _check_table(table: Table, asked: _Collection, named: Mapping[str, str]) -> None:
    """Refuse a table that cannot do before a minute is spent on planning."""
    from chaffinch.encoding.bulk import columns_for
    from chaffinch.errors import BatchTooSmall

    if len(asked.names) > 1 or named or len(table.columns) > 1:
        for name, question in asked.questions.items():
            table.batches(columns_for(name, question, table, named.get(name)).columns)
    if table.rows is not None and table.rows < asked.reports:
        raise BatchTooSmall(have=table.rows, need=asked.reports)
