"""Where things come from and go to, by the words of a command: pipes, files, folders."""

from __future__ import annotations

import errno
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import chaffinch as cf
from chaffinch.disk import filled_folders
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.files import is_special, read_small
from chaffinch.disk.inputs import require_file, require_input
from chaffinch.disk.leftovers import remove_leftovers
from chaffinch.disk.protected import kind_of, refuse_all_but, refuse_to_overwrite
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import ChaffinchError, InvalidFile, InvalidInput, Reason, Unquoted

if TYPE_CHECKING:
    from chaffinch.cli.output import Output
    from chaffinch.planning.survey_file import SurveyFile
    from chaffinch.plans.plan import Plan
    from chaffinch.reach.planning.reach_plan import AnyPlan, ReachPlan


_LARGEST = 1 << 20
"""Bytes of a file that is looked into to say what it is."""
STREAM = "<->"
"""Stands for ``-`` while words are taken apart, because a hyphen looks like an option."""


def file_or_pipe(name: str | None) -> str:
    """Return the name of a file, or ``-`` for the pipe."""
    return "-" if name is None or name == STREAM else name


def input_source(name: str | None, what: str) -> str:
    """Return where to read from, which may be a pattern; refuse to wait for a terminal."""
    return require_input(file_or_pipe(name), what)


def is_piped(name: str) -> bool:
    """Return whether what is read there is gone afterwards: no file, by whatever name."""
    try:
        found = os.fstat(sys.stdin.fileno()) if file_or_pipe(name) == "-" else Path(name).stat()
    except (OSError, ValueError):
        return file_or_pipe(name) == "-"  # of a file, whoever reads it tells what is wrong
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


def message_target(
    name: str | None,
    *,
    as_json: bool,
    inputs: Sequence[str | Path | None],
    replaceable: Kind | None = None,
) -> str:
    """Return where messages go; refuse a terminal, and a pipe that also carries JSON."""
    found = file_or_pipe(name)
    if found == "-" and as_json:
        raise InvalidInput("output", "a file when --json is given", "-", hint="add -o FILE")
    if found == "-" and sys.stdout.isatty():
        raise InvalidInput("output", "a file or a pipe", Unquoted("a terminal"), hint="add -o FILE")
    if found != "-":
        # One that was killed after its batch had its name leaves a second name for it.
        remove_leftovers(Path(os.path.realpath(found)).parent)
        given = [one for one in inputs if one is not None]
        require_writable(Path(found), given, replaceable=replaceable)
        refuse_all_but(Kind.BATCH, found)
    return found


def require_name(path: Path) -> Path:
    """Return a path that is a name; refuse the pipe where only a file will do."""
    if is_pipe(path):
        raise InvalidInput("file", "one with a name", "-", hint="a pipe cannot be used here")
    return path


def require_writable(
    path: Path, inputs: Sequence[str | Path] = (), *, replaceable: Kind | None = None
) -> Path:
    """Return a path for a new file; refuse one that cannot be, before anything is worked out."""
    refuse_to_overwrite(require_name(path), inputs=inputs, replaceable=replaceable)
    folder = path.absolute().parent
    fault = 0
    if path.is_dir():
        fault = errno.EISDIR
    elif not folder.is_dir():
        fault = errno.ENOTDIR if any(one.is_file() for one in path.parents) else errno.ENOENT
    elif not os.access(path if is_special(path) else folder, os.W_OK):
        fault = errno.EACCES  # a file is replaced by another of its name in the same folder
    if fault:
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


def fill_folder(out: Path, *, own: bool = False) -> AbstractContextManager[Path]:
    """Yield an empty folder whose files move to ``out``, which has a name, when all went well."""
    return filled_folders.fill_folder(require_name(out), own=own)


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


def open_plan(path: Path | None, output: Output) -> Plan:
    """Return the plan in a file; if it is of no use, say so first."""
    found = read_plan(path)
    for words in found.warnings:
        output.say(f"warning: {words}")
    return found


def read_plan(path: Path | None) -> Plan:
    """Return the plan in a file, or in what is piped in."""
    from chaffinch.plans.plan import load_plan, plan_from

    if path is None:
        raise InvalidInput("plan", "given", Unquoted("none"), hint="add --plan FILE")
    if is_pipe(path):
        input_source(STREAM, "plan")
        return plan_from(sys.stdin.buffer.read(), name="standard input")
    with _explaining_other_files(path):
        return load_plan(require_file(path))


@contextmanager
def _explaining_other_files(path: Path) -> Iterator[None]:
    try:
        yield
    except InvalidFile:
        if path.suffix != ".toml":
            raise
        got, hint = _kind_of_toml(path)
        raise InvalidFile(f"file {path.name}", "a plan", [got], hint=hint) from None


def _kind_of_toml(path: Path) -> tuple[str, str]:
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
    from chaffinch.plans.kinds import load_any_plan

    with _explaining_other_files(path):
        found: AnyPlan = load_any_plan(require_file(require_name(path)))
    return found


def refuse_other_plan(path: Path, same: Callable[[AnyPlan], bool]) -> None:
    """Refuse to replace a plan by another one: what was made with it could not be read any more.

    Before a plan is made, ``same`` tells whether the one that is there may be the same.
    """
    refuse_all_but(Kind.PLAN, path)
    try:
        fine = not path.exists() or not path.stat().st_size or same(open_any_plan(path))
    except ChaffinchError:
        fine = False
    if not fine:
        raise InvalidInput(
            "output",
            "a new file, or that of the same plan",
            path.name,
            hint="name another file, or remove that one if nothing was made with it",
        )


def check_again(plan: AnyPlan, path: Path, output: Output) -> None:
    """Recompute the guarantee of a plan that was read, and say that it holds."""
    with output.thinking("recomputing the guarantee"):
        plan.verify()
    output.say(f"{path.name}: intact, unchanged, and its guarantee holds (recomputed)")


def write_plan(plan: AnyPlan, path: Path, output: Output) -> None:
    """Write a plan to a file, or by itself to a pipe, for the next command."""
    if is_pipe(path):
        output.document(plan.document())
        return
    refuse_other_plan(path, lambda found: found.id == plan.id)
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
