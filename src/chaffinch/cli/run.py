"""From a table of answers to a release in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output, spoken_command
from chaffinch.cli.release_options import ReleaseOptions, show_release
from chaffinch.cli.table_options import TableOptions, open_collection
from chaffinch.runs.results import ResultsFolder

if TYPE_CHECKING:
    from chaffinch.runs.pipeline import RunResult


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
    as_devices: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    group: str | None = None,
    wanted: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Check a table of answers, plan, add up and release.

    Every cell is checked first, and all faults are reported at once. The plan is stored in the
    folder as soon as it is made, and the same survey uses it again. Whoever runs this sees the
    table anyway, and what is protected is the release: the answers are added up here, and noise is
    added to the totals, once.

    Parameters
    ----------
    survey
        A survey file (.toml; `chaffinch plan --example` prints one) or a plan file (.json).
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - reads a pipe.
    out
        The folder for the plan and the release. The release appears only if everything succeeded.
    plan
        The plan file of the survey, if it was planned before.
    round
        The number of this round, for a plan of several rounds; each has a folder of its own.
    replace
        Overwrite the release in the folder: one of another plan or round, or, with --again, the
        one that was made of the same data.
    finish
        Read no table: put in place the release that an earlier run had paid for before it was
        interrupted. It stays as it is, even if that run had another table or other options. With
        public groups: all such releases.
    anyway
        Also accept a plan that is of no use: it protects nobody, or its error is the whole crowd.
        With --again, also release if all releases together protect nobody.
    again
        Also release if the same data, or the folder, has a release already. Every release reveals
        more about the same people; this one will state what all of them promise together.
    as_devices
        Plan and run as if every answer came from a device that trusts nobody with it, through a
        shuffler: the error is larger, and protects nobody from whoever runs this. For rehearsals
        and comparisons.
    group
        The only public group to release, for a survey with `by_public`. Without this option every
        group that is large enough is released, each into a folder of its own; after an interruption
        the same command continues with the groups that are left.
    """
    from chaffinch.runs.pipeline import RunOptions, finish_all, run_all

    terms = wanted.prepare()
    inputs: list[str | Path] = [survey, data, *([] if plan is None else [plan])]
    results = ResultsFolder(paths.require_name(out), inputs, replaces=replace)
    options = RunOptions(
        results,
        round=round,
        again=again,
        anyway=anyway,
        terms=terms,
        command=spoken_command(),
        listener=output,
    )
    if finish:
        for made in finish_all(results, options):
            _show(made, output)
        return
    asked = open_collection(survey, plan, output, as_devices=as_devices)
    for made in run_all(asked, where.input(data, asked), options, group=group):
        _show(made, output)


def _show(made: RunResult, output: Output) -> None:
    files = list(map(str, made.files))
    show_release(made.release, made.charge, output, files=files)
    if not output.json:
        output.say("\nwrote " + "\n      ".join(files))
