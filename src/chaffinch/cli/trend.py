"""Compare the releases of a repeated survey: what has changed, and how certain that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.cli.release_options import release_files
from chaffinch.disk.inputs import require_file
from chaffinch.disk.paid_files import commit_paid_files, finish_staged
from chaffinch.errors import ChaffinchError, InvalidInput, Unquoted
from chaffinch.runs.results import PLAN, RELEASE

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan


def trend(
    releases: list[Path],
    /,
    *,
    name: Annotated[list[str] | None, Parameter(negative=())] = None,
    plan: Annotated[list[Path] | None, Parameter(negative=())] = None,
    cells: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    out: Annotated[list[Path] | None, Parameter(name=["--out", "-o"], negative=())] = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Compare the releases of a repeated survey, and show what has changed.

    Neighbouring rounds are compared, and the first with the last. Only published numbers are used,
    so this costs no privacy.

    Parameters
    ----------
    releases
        Folders that `run` has filled, or release files (.json), of the same questions; the first
        round first.
    name
        The name of a round, once for each release; by default the name of its file or folder.
    plan
        The plan files, to compose the guarantees of all rounds exactly; plans beside the releases
        are found without this.
    cells
        Of crossed questions, also compare each combination of answers, from which the shares and
        means of groups follow.
    out
        A file for the trend: .html, .json, .csv or .parquet; may be given several times.
    """
    releases = [_release_file(paths.require_name(one)) for one in releases]
    inputs: list[str | Path] = [*releases, *(plan or [])]
    targets = release_files(out or [], inputs)
    # Nobody pays for a trend: what one that was killed has left is removed, and made again.
    finish_staged(targets, lambda _: None, output.say)
    found = [cf.load_release(require_file(one)) for one in releases]
    plans = [paths.open_plan(one, output) for one in plan or []] or _plans_beside(releases)
    if name is not None and len(name) != len(releases):
        raise InvalidInput("names", "one for each release", len(name), hint="add --name for each")
    with output.thinking("composing all rounds"):
        made = cf.trend(found, names=name or _distinct_names(releases), plans=plans, cells=cells)
    commit_paid_files(
        dict.fromkeys(targets, made.save),
        check=lambda: release_files(targets, inputs),
        tell=output.say,
    )
    for path in targets:
        output.say(f"wrote {path}")
    if output.json:
        output.document(made.document())
    else:
        output.drawing(made.text(width=output.width))


def _release_file(path: Path) -> Path:
    """Return the release in a folder that ``run`` has filled, or the file that was named."""
    if not path.is_dir():
        return path
    file = path / RELEASE
    if not file.exists():
        inside = any(path.glob(f"*/{RELEASE}"))
        hint = "name the folder of one group" if inside else "`run` leaves one when it is finished"
        got = Unquoted(f"the folder {path.name!r} without one")
        raise InvalidInput("release", f"a file, or a folder with {RELEASE}", got, hint=hint)
    return file


def _distinct_names(releases: Sequence[Path]) -> list[str]:
    for names in ([one.stem for one in releases], [one.absolute().parent.name for one in releases]):
        if max(Counter(names).values()) == 1 and all(map(str.isprintable, names)):
            return names
    return [f"round {number}" for number in range(1, len(releases) + 1)]


def _plans_beside(releases: Sequence[Path]) -> list[Plan]:
    plans = []
    for place in dict.fromkeys(one.absolute().parent / PLAN for one in releases):
        try:
            plans.append(cf.load_plan(place))
        except ChaffinchError:
            continue  # without all plans the promises are added up
    return plans
