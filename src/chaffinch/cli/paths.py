"""Where things come from and go to: pipes, files, and a folder that is filled in one go."""

from __future__ import annotations

import errno
import filecmp
import os
import shlex
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import chaffinch as cf
from chaffinch.disk.faults import storage_fault
from chaffinch.disk.file_lists import fitting, is_pattern
from chaffinch.disk.files import read_small
from chaffinch.disk.kinds import Kind
from chaffinch.disk.leftovers import remove_leftovers, staging_folder
from chaffinch.disk.places import is_address
from chaffinch.disk.protected import kind_of, refuse_all_but, refuse_to_overwrite
from chaffinch.errors import (
    ChaffinchError,
    InvalidFile,
    InvalidInput,
    InvalidTable,
    Reason,
    StorageFault,
    Unquoted,
)

if TYPE_CHECKING:
    from chaffinch.cli.output import Output
    from chaffinch.planning.survey_file import SurveyFile
    from chaffinch.plans.plan import Plan
    from chaffinch.reach.planning.reach_plan import AnyPlan, ReachPlan


_LARGEST = 1 << 20
"""Bytes of a file that is looked into to say what it is."""
STREAM = "<->"
"""Stands for ``-`` while words are taken apart, because a hyphen looks like an option."""


def _file_or_pipe(name: str | None) -> str:
    """Return the name of a file, or ``-`` for the pipe."""
    return "-" if name is None or name == STREAM else name


def input_source(name: str | None, what: str) -> str:
    """Return where to read from, which may be a pattern; refuse to wait for a terminal."""
    found = _file_or_pipe(name)
    if found == "-" and sys.stdin.isatty():
        raise InvalidInput(
            what, "a file, or piped in", Unquoted("a terminal"), hint=f"name a file of {what}"
        )
    if is_pattern(found):
        fitting(found)
    elif found != "-" and not is_address(found):
        require_file(Path(found))
    return found


def is_piped(name: str) -> bool:
    """Return whether what is read there is gone afterwards: no file, by whatever name."""
    try:
        found = os.fstat(sys.stdin.fileno()) if _file_or_pipe(name) == "-" else Path(name).stat()
    except (OSError, ValueError):
        return _file_or_pipe(name) == "-"  # of a file, whoever reads it tells what is wrong
    return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


@contextmanager
def explain_broken_pipe(sources: list[str]) -> Iterator[None]:
    """Say of a broken pipe what broke it: the command before, not a file."""
    try:
        yield
    except InvalidFile as error:
        if "-" not in sources or error.reason is not Reason.DAMAGED:
            raise
        raise InvalidFile(
            "standard input",
            "a whole stream of chaffinch messages",
            ["one that is empty, cut off, or something else"],
            hint="the command before this one in the pipe failed, or sent something else",
        ) from None


def require_file(path: Path) -> Path:
    """Return a path where there is something; whatever is missing is told in the same way."""
    try:
        path.stat()
    except FileNotFoundError as error:
        fault = storage_fault(path.name or str(path), error, verb="read")
        folder = path.absolute().parent
        hint = "it was looked for in" if folder.is_dir() else "there is no folder"
        raise StorageFault(
            fault.message, hint=f"{hint} {folder}", details=fault.details, reason=fault.reason
        ) from None
    except OSError:
        return path  # whoever reads it tells what is wrong
    return path


def message_target(
    name: str | None,
    *,
    as_json: bool,
    inputs: Sequence[str | Path | None],
    replaceable: Kind | None = None,
) -> str:
    """Return where messages go; refuse a terminal, and a pipe that also carries JSON."""
    found = _file_or_pipe(name)
    if found == "-" and as_json:
        raise InvalidInput("output", "a file when --json is given", "-", hint="add -o FILE")
    if found == "-" and sys.stdout.isatty():
        raise InvalidInput("output", "a file or a pipe", Unquoted("a terminal"), hint="add -o FILE")
    if found != "-":
        # One that was killed after its batch had its name leaves a second name for it.
        remove_leftovers(Path(os.path.realpath(found)).parent)
        given = [one for one in inputs if one is not None]
        refuse_to_overwrite(found, inputs=given, replaceable=replaceable)
        refuse_all_but(Kind.BATCH, found)
    return found


def require_name(path: Path) -> Path:
    """Return a path that is a name; refuse the pipe where only a file will do."""
    if is_pipe(path):
        raise InvalidInput("file", "one with a name", "-", hint="a pipe will not do here")
    return path


def require_writable(
    path: Path, inputs: Sequence[str | Path] = (), *, replaceable: Kind | None = None
) -> Path:
    """Return a path for a new file; refuse one that cannot be, before anything is worked out."""
    refuse_to_overwrite(require_name(path), inputs=inputs, replaceable=replaceable)
    folder = path.parent
    if not folder.is_dir() or path.is_dir():
        fault = errno.EISDIR if path.is_dir() else errno.ENOENT
        raise storage_fault(str(path), OSError(fault, ""), verb="write")
    return path


def require_new(path: Path, what: str, *, hint: str = "name another file") -> Path:
    """Return a path at which there is nothing."""
    # One that was killed after its file had its name leaves a second name for it.
    remove_leftovers(require_name(path).parent)
    if path.exists():
        raise InvalidInput(what, "a new file", path.name, hint=hint)
    return path


def is_pipe(path: Path) -> bool:
    """Return whether a path stands for the pipe."""
    return str(path) == STREAM


def require_folder(out: Path) -> None:
    """Refuse a name that no folder can have, or where nothing can be written."""
    if out.exists() and not out.is_dir():
        raise InvalidInput("output", "a folder", out.name, hint="name a folder for the results")
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not os.access(there, os.W_OK):
        raise storage_fault(out.name or str(out), OSError(errno.EACCES, ""), verb="write")


@contextmanager
def fill_folder(out: Path, *, own: bool = False) -> Iterator[Path]:
    """Yield an empty folder whose files move to ``out`` when all went well.

    After a failure, Ctrl-C included, everything is as it was before. No other file in ``out`` is
    replaced, unless all were made by the same command (``own``).
    """
    made = False
    require_name(out)
    require_folder(out)
    with ExitStack() as stack:
        try:
            if not out.is_dir():
                out.mkdir(parents=True)
                made = True
            staging = stack.enter_context(staging_folder(out))
        except OSError as error:
            if made:
                out.rmdir()
            raise storage_fault(out.name or str(out), error, verb="write") from None
        try:
            yield staging
            for file in sorted(staging.iterdir()) if not own else ():
                _refuse_other(out / file.name, file)
            # A plan comes first: by it the next run knows what a killed one has left.
            for file in sorted(staging.iterdir(), key=_plans_first):
                try:
                    os.replace(file, out / file.name)  # noqa: PTH105
                except OSError as error:
                    raise storage_fault(file.name, error, verb="write") from None
        except BaseException:
            stack.close()
            if made:
                with suppress(OSError):
                    out.rmdir()
            raise


def _plans_first(file: Path) -> tuple[bool, str]:
    return not file.name.endswith(".plan.json"), file.name


def _refuse_other(target: Path, file: Path) -> None:
    """Refuse to replace anything that is there, unless by the same bytes."""
    if target.is_file() and target.stat().st_size and not filecmp.cmp(target, file, shallow=False):
        refuse_to_overwrite(target)  # which says what it is, if that is known
        raise InvalidInput(
            "output",
            "a folder without other files of the same names",
            target.name,
            hint="name another folder: what is there may be somebody's only copy",
        )


def _parse_pairs(given: Sequence[str]) -> dict[str, str]:
    """Return ``question=column`` words as a mapping.

    >>> _parse_pairs(["browser=b", "age=years"])
    {'browser': 'b', 'age': 'years'}
    """
    found = {}
    for word in given:
        name, sign, column = word.partition("=")
        if not (name and sign and column) or name in found:
            raise InvalidInput("map", "QUESTION=COLUMN, once for each question", word)
        found[name] = column
    return found


def answer_columns(
    questions: Sequence[str], column: str | None, given: Sequence[str]
) -> dict[str, str]:
    """Return which column answers which question, as far as it was said."""
    named = _parse_pairs(given)
    unknown = [name for name in named if name not in questions]
    if unknown:
        listed = ", ".join(map(repr, questions))
        raise InvalidInput("question in --map", f"one of {listed}", unknown[0])
    if column is None:
        return named
    if len(questions) > 1 or named:
        raise InvalidInput(
            "column",
            "given for a single question",
            column,
            hint="for several questions write --map QUESTION=COLUMN for each",
        )
    return {questions[0]: column}


@contextmanager
def explaining_columns(questions: Collection[str], named: Collection[str]) -> Iterator[None]:
    """Say of a question without a column of its name how to name its column."""
    try:
        yield
    except InvalidTable as error:
        column = error.column
        unknown = error.reason is Reason.UNKNOWN_COLUMN
        if not unknown or column not in questions or column in named:
            raise
        error.hint += f"; if the answers are in another column, add --map {column}=COLUMN"
        raise


def open_plan(path: Path | None, output: Output) -> Plan:
    """Return the plan in a file; if it is of no use, say so first."""
    found = _read_plan(path)
    for words in found.warnings:
        output.say(f"warning: {words}")
    return found


def _read_plan(path: Path | None) -> Plan:
    from chaffinch.plans.plan import load_plan, plan_from

    if path is None:
        raise InvalidInput("plan", "given", Unquoted("none"), hint="add --plan FILE")
    if is_pipe(path):
        input_source(STREAM, "plan")
        return plan_from(sys.stdin.buffer.read(), name="standard input")
    with _plan_it_first(path):
        return load_plan(require_file(path))


@contextmanager
def _plan_it_first(path: Path) -> Iterator[None]:
    """Say of a survey in the place of a plan what makes one of it; name other files there."""
    try:
        yield
    except InvalidFile:
        if path.suffix != ".toml":
            raise
        got, hint = _kind_of_toml(path)
        raise InvalidFile(f"file {path.name}", "a plan", [got], hint=hint) from None


def _kind_of_toml(path: Path) -> tuple[str, str]:
    """Return what a file in the place of a plan is, by the names in it, and what to do with it."""
    import tomllib

    names: set[str] = set()
    with suppress(ChaffinchError, ValueError, RecursionError):
        names |= set(tomllib.loads(read_small(path, most=_LARGEST, must_be="a plan").decode()))
    if "hops" in names:
        hint = "`chaffinch plan --parties` takes it, and writes a plan that names them"
        return "a list of parties", hint
    if "plans" in names:
        return "the settings of a service", "name one of the plans that stand in it"
    return "a survey", f"plan it first: `{shlex.join(['chaffinch', 'plan', str(path)])}`"


def open_reach_plan(path: Path) -> ReachPlan:
    """Return the reach plan in a file, or in what is piped in."""
    from chaffinch.reach.planning.reach_plan import load_plan, plan_from

    if is_pipe(path):
        input_source(STREAM, "plan")
        return plan_from(sys.stdin.buffer.read(), name="standard input")
    return load_plan(require_file(path))


def open_any_plan(path: Path) -> AnyPlan:
    """Return the plan in a file, of a survey or for audiences."""
    from chaffinch.reach.planning.reach_plan import load_any_plan

    with _plan_it_first(path):
        return load_any_plan(require_file(require_name(path)))


def _refuse_other_plan(path: Path, plan_id: str) -> None:
    """Refuse to replace a plan by another one: what was made with it could not be read any more."""
    refuse_all_but(Kind.PLAN, path)
    try:
        same = not path.exists() or not path.stat().st_size or open_any_plan(path).id == plan_id
    except ChaffinchError:
        same = False
    if not same:
        raise InvalidInput(
            "output",
            "another file than that of another plan",
            path.name,
            hint="name another file, or remove that one if nothing was made with it",
        )


def check_again(plan: AnyPlan, path: Path, output: Output) -> None:
    """Recompute the guarantee of a plan that was read, and say that it holds."""
    with output.thinking("recomputing the guarantee"):
        plan.verify()
    output.say(f"{path.name}: whole, unchanged, and its guarantee holds (recomputed)")


def write_plan(plan: AnyPlan, path: Path, output: Output) -> None:
    """Write a plan to a file, or by itself to a pipe, for the next command."""
    if is_pipe(path):
        output.document(plan.document())
        return
    _refuse_other_plan(path, plan.id)
    plan.save(path)
    output.say(f"wrote {path}")


def open_survey(path: Path) -> SurveyFile:
    """Return the survey in a file, or in what is piped in."""
    from chaffinch.planning.survey_file import load_survey, survey_from

    if not is_pipe(path):
        try:
            return load_survey(require_file(path))
        except InvalidFile as fault:
            if kind_of(path) is not Kind.PLAN:
                raise
            check = shlex.join(["chaffinch", "plan", "--check", str(path)])
            hint = f"`{check}` verifies it; `run` and `check` take it as it is"
            raise InvalidFile(f"file {path.name}", "a survey", ["a plan"], hint=hint) from fault
    input_source(STREAM, "survey")
    return survey_from(sys.stdin.buffer.read(), name="standard input")


def open_ledger(path: Path, mark: Path) -> cf.Ledger:
    """Return the ledger in two files; opening it charges nothing."""
    for file in (require_name(path), require_name(mark)):
        require_file(file)
    return cf.Ledger.open(path, mark=mark)
