"""One place where everything that can go wrong becomes one message and an exit code."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from chaffinch.cli import exits
from chaffinch.errors import ChaffinchError

if TYPE_CHECKING:
    from cyclopts import CycloptsError

TRACE = "CHAFFINCH_TRACE"
"""Set this in the environment to see where an unexpected error comes from."""
STREAM = "<->"
"""Stands for ``-`` while words are taken apart, because a hyphen looks like an option."""


def guarded(words: list[str]) -> int:
    """Run a command; return its exit code, with one message on standard error if it failed."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a letter shows a question mark instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    with _stoppable():
        return _caught(words, as_json="--json" in words)


def _caught(words: list[str], *, as_json: bool) -> int:  # noqa: PLR0911 - one for each way to end
    from cyclopts import CycloptsError
    from rich.console import Console

    from chaffinch.cli.app import app

    try:
        # The console for help is a fresh one, so that it knows the width of today.
        code = app([STREAM if word == "-" else word for word in words], console=Console())
        sys.stdout.flush()
    except CycloptsError as error:
        return _failed(_usage(error), as_json=as_json)
    except ChaffinchError as error:
        if error.details.get("errno") == errno.EPIPE:
            return _deaf()
        return _failed(error, as_json=as_json)
    except BrokenPipeError:
        return _deaf()
    except KeyboardInterrupt:
        _tell("stopped")
        return exits.INTERRUPTED
    except OSError as error:
        from chaffinch.tables.faults import storage_fault

        if error.errno is None:
            return _unexpected(error, as_json=as_json)
        name = os.path.basename(str(error.filename or "standard output"))  # noqa: PTH119
        return _failed(storage_fault(name, error, verb="use"), as_json=as_json)
    except Exception as error:  # noqa: BLE001 - the last net: nobody else is there to catch it
        return _unexpected(error, as_json=as_json)
    return code if isinstance(code, int) else exits.OK


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let a polite request to end remove unfinished files, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _usage(error: CycloptsError) -> ChaffinchError:
    words = " ".join(str(error).replace(STREAM, "-").split())
    return exits.Usage(words, hint="see `chaffinch --help`, or `chaffinch VERB --help`")


def _failed(error: ChaffinchError, *, as_json: bool) -> int:
    code = exits.exit_code(error)
    if os.environ.get(TRACE):
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
            sys.stdout.flush()
        except OSError:
            _deaf()
        return code
    _tell(f"error: {error.message}")
    if error.hint:
        _tell(f"hint: {error.hint}")
    return code


def _unexpected(error: BaseException, *, as_json: bool) -> int:
    # The text of an unforeseen error may hold anything, private answers included.
    found = exits.Unexpected(
        f"Something unexpected happened ({type(error).__name__}); this is a fault in chaffinch.",
        hint=f"set {TRACE}=1 to see where; the trace may hold private data",
    )
    found.__cause__ = error
    return _failed(found, as_json=as_json)


def _plain(details: Mapping[str, object]) -> dict[str, Any]:
    kept = (str, int, float, bool, type(None), list)
    return {name: one if isinstance(one, kept) else str(one) for name, one in details.items()}


def _tell(words: str) -> None:
    from chaffinch.cli.output import printable

    try:
        sys.stderr.write(printable(words) + "\n")
        sys.stderr.flush()
    except OSError:
        return  # nobody listens; the exit code still tells


def _deaf() -> int:
    """End without a word: standard output goes nowhere from here on."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.PIPE
