"""Where to read from: a file that is there, a pipe that somebody writes to, an address."""

from __future__ import annotations

import sys
from pathlib import Path

from chaffinch.disk.file_lists import fitting, is_pattern
from chaffinch.disk.locations import is_address
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput, StorageFault, Unquoted


def require_input(name: str, what: str) -> str:
    """Return where to read from, which may be a pattern; refuse to wait for a terminal."""
    if name == "-" and sys.stdin.isatty():
        raise InvalidInput(
            what, "a file, or piped in", Unquoted("a terminal"), hint=f"name a file of {what}"
        )
    if is_pattern(name):
        fitting(name)
    elif name != "-" and not is_address(name):
        require_file(Path(name))
    return name


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
