"""Turn every error into one message and an exit code."""

from __future__ import annotations

import difflib
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from chaffinch.cli.output import printable, speaking, tell
from chaffinch.cli.paths import STREAM
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import ChaffinchError, Reason

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection, CycloptsError, MissingArgumentError

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_TRACE = "CHAFFINCH_TRACE"
"""Set this in the environment to see where an unexpected error comes from."""
_ALIKE = 0.75
"""How much of two options must be the same before one is taken for the other, misspelled."""


def run_command(app: App, words: list[str]) -> int:
    """Run a command; return its exit code, with one message on standard error if it failed."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows a question mark instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    with _stoppable() as stops, speaking(words):
        return _run(partial(_call, app, words, stops), as_json="--json" in words)


def _call(app: App, words: list[str], stops: list[int]) -> Any:
    from rich.console import Console

    try:
        # The console for help is a fresh one, so that it knows the width of today.
        code = app([STREAM if word == "-" else word for word in words], console=Console())
        sys.stdout.flush()
    except Exception:
        if stops:  # A library has made an error of its own of the interruption.
            raise KeyboardInterrupt from None
        raise
    return code


def _run(command: Callable[[], Any], *, as_json: bool) -> int:  # noqa: PLR0911 - one for each way to end
    """Run a command and return its exit code, whatever it raises."""
    from cyclopts import CycloptsError

    try:
        code = command()
    except CycloptsError as error:
        return _failed(_usage(error), as_json=as_json)
    except ChaffinchError as error:
        if error.reason is Reason.READER_GONE:
            return _end_silently()
        return _failed(error, as_json=as_json)
    except BrokenPipeError:
        return _end_silently()
    except OSError as error:
        if error.errno is None:
            return _unexpected(error, as_json=as_json)
        name = os.path.basename(str(error.filename or "standard output"))  # noqa: PTH119
        return _failed(storage_fault(name, error, verb="use"), as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last net: nobody else is there to catch it
        return _unexpected(error, as_json=as_json)
    return code if isinstance(code, int) else OK


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """Let a request to end, or a terminal that closes, remove unfinished files as Ctrl-C does.

    Yields the signals that came, which grow meanwhile.
    """
    stops: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield stops
        return

    def stop(number: int, _frame: object) -> None:
        stops.append(number)
        if number != signal.SIGINT:
            # Cleaning up is not to be stopped by the same signal again.
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    asked = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    # Whoever starts a command with nohup wants it to go on.
    heard = [one for one in asked if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, stop) for one in heard}
    try:
        yield stops
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _usage(error: CycloptsError) -> ChaffinchError:
    from cyclopts import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

    words = " ".join(str(error).replace(STREAM, "-").split())
    hint = f"see `{' '.join(('chaffinch', *(error.command_chain or ()), '--help'))}`"
    if isinstance(error, UnusedCliTokensError):
        left = " ".join(error.unused_tokens or ()).replace(STREAM, "-")
        words = f"The arguments must be those of the command. Got {left!r:.80}."
    elif isinstance(error, MissingArgumentError) and (unknown := _unknown_among_unused(error)):
        # One that was misspelled comes first: it may be the very one that is missing.
        words, hint = _unknown_option(*unknown, hint)
    elif isinstance(error, MissingArgumentError) and error.argument is not None:
        # A word that stands at its place is called by its name there, as in the help.
        bare = error.argument.name.lstrip("-").upper()
        by_place = error.argument.field_info.is_positional
        name = error.keyword or (bare if by_place else error.argument.name)
        named = error.keyword in (error.root_input_tokens or ())
        words = f"{name} must be {'followed by a value' if named else 'given'}. Got nothing."
    elif isinstance(error, UnknownOptionError):
        given = error.token.keyword or error.token.value
        words, hint = _unknown_option(given, error.argument_collection, hint)
    return _Usage(words, hint=hint)


def _unknown_among_unused(error: MissingArgumentError) -> tuple[str, ArgumentCollection] | None:
    """Return the first unused word that is an option of nothing, with the options there are."""
    if error.app is None:
        return None
    options = error.app.assemble_argument_collection()
    known = {name for one in options for name in one.names}
    unused = itertools.takewhile(lambda word: word != "--", error.unused_tokens or ())
    for word in unused:
        if word.startswith("--") and word.partition("=")[0] not in known:
            return word, options
    return None


def _unknown_option(given: str, known: ArgumentCollection, hint: str) -> tuple[str, str]:
    given = given.partition("=")[0]
    options = {name.lstrip("-"): name for one in known for name in one.names}
    # Without the dashes, which all options have in common.
    close = difflib.get_close_matches(given.lstrip("-"), options, n=1, cutoff=_ALIKE)
    meant = "".join(f"did you mean {options[one]}? " for one in close)
    return f"Options must be those of the command. Got {given!r:.80}.", meant + hint


def _failed(error: ChaffinchError, *, as_json: bool) -> int:
    code = _exit_code(error)
    if os.environ.get(_TRACE):
        import traceback

        traceback.print_exception(error)
    if as_json:
        document = {
            "code": error.code,
            "message": error.message,
            "hint": error.hint,
            "details": _plain(error.details),
        }
        try:
            sys.stdout.write(json.dumps({"error": document}, ensure_ascii=False) + "\n")
        except OSError:
            _end_silently()
    else:
        _tell(f"error: {error.message}")
        if error.hint:
            _tell(f"hint: {error.hint}")
    try:
        sys.stdout.flush()
    except OSError:
        _end_silently()  # Python would try again at its end, and end with a code of its own.
    return code


def _unexpected(error: BaseException, *, as_json: bool) -> int:
    # The text of an unforeseen error may hold anything, private answers included.
    found = _Unexpected(
        f"Something unexpected happened ({type(error).__name__}); this is a fault in chaffinch.",
        hint=f"set {_TRACE}=1 to see where; the trace may hold private data",
    )
    found.__cause__ = error
    return _failed(found, as_json=as_json)


def _plain(details: Mapping[str, object]) -> dict[str, Any]:
    kept = (str, int, float, bool, type(None), list)
    return {name: one if isinstance(one, kept) else str(one) for name, one in details.items()}


def _tell(words: str) -> None:
    try:
        tell(printable(words))
    except OSError:
        return  # nobody listens; the exit code still tells


def _end_silently() -> int:
    # From here on standard output goes nowhere: Python flushes it once more when it ends.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _PIPE


# ----------------------------------------------------------------------------
# Exit codes: what each means, and which error leads to which.

OK, PROBLEM, _USAGE, _NO_PLAN, REFUSED, _STORAGE, _UNEXPECTED, _INTERRUPTED, _PIPE = (
    0,
    1,
    2,
    3,
    4,
    5,
    70,
    130,
    141,
)

_MEANINGS = {
    OK: "all went well",
    PROBLEM: "the numbers of a service do not add up, it does not answer, or it has a problem; "
    "only `status` ends so",
    _USAGE: "the command, a file or a table is not valid",
    _NO_PLAN: "no plan or parameter meets what was asked for",
    REFUSED: "refused, because the guarantee or the budget would not hold",
    _STORAGE: "a file, a disk, a service or the machine failed",
    _UNEXPECTED: "a fault in chaffinch itself",
    _INTERRUPTED: "stopped with Ctrl-C, SIGTERM or SIGHUP; nothing unfinished is left",
    _PIPE: "the reader of a pipe closed it; nothing is printed",
}
"""Every code the command can end with."""

_BY_ERROR = {
    "usage": _USAGE,
    "invalid-input": _USAGE,
    "invalid-answer": _USAGE,
    "invalid-table": _USAGE,
    "invalid-file": _USAGE,
    "missing-extra": _USAGE,
    "filter-full": _USAGE,
    "no-plan-found": _NO_PLAN,
    "useless-plan": _NO_PLAN,
    "no-parameter-found": _NO_PLAN,
    "plan-mismatch": REFUSED,
    "batch-too-small": REFUSED,
    "batch-repeated": REFUSED,
    "budget-exhausted": REFUSED,
    "data-repeated": REFUSED,
    "guarantee-not-proven": REFUSED,
    "ledger-rolled-back": REFUSED,
    "not-delivered": _STORAGE,
    "cluster-fault": _STORAGE,
    "storage-fault": _STORAGE,
    "randomness-unavailable": _STORAGE,
    "unexpected": _UNEXPECTED,
}
"""The code of an error, by the error's own word."""


class _Usage(ChaffinchError):
    """Words on the command line that mean nothing."""

    code = "usage"


class _Unexpected(ChaffinchError):
    """A fault in chaffinch itself; what it says of its cause is only the kind."""

    code = "unexpected"


def _exit_code(error: ChaffinchError) -> int:
    """Return the exit code of an error, by its own code or by that of the class it refines.

    >>> from chaffinch.errors import BatchTooSmall
    >>> _exit_code(BatchTooSmall(have=1, need=2))
    4
    """
    for kind in type(error).__mro__:
        found = _BY_ERROR.get(getattr(kind, "code", ""))
        if found is not None:
            return found
    return _UNEXPECTED
