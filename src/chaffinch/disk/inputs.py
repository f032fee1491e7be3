"""Where to read from: a file, a folder of files, a pattern, an address, or a pipe.

A pattern has ``*`` or ``[…]`` in its last name, on a disk also ``?`` and in any name; in an
address a question mark begins the query. Files are in the order of their names.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import unquote, urlsplit

from chaffinch.disk.files import AnyPath
from chaffinch.disk.locations import Place, is_address
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidFile, InvalidInput, StorageFault, Unquoted

_LEFT_OUT = (".", "_")
"""How files begin that engines leave beside those of a table."""


def is_pattern(source: object) -> bool:
    """Return whether a name stands for those that fit it; a file of just that name comes first.

    >>> is_pattern("part-*.parquet"), is_pattern("part-0.parquet")
    (True, False)
    """
    if not isinstance(source, (str, os.PathLike)):
        return False
    text = os.fspath(source)
    if is_address(text):
        return any(sign in urlsplit(text).path for sign in "*[")
    return glob.has_magic(text) and not os.path.lexists(text)


def fitting(source: AnyPath) -> list[str]:
    """Return what a name stands for: itself, or all files and folders that fit a pattern."""
    text = os.fspath(source)
    if not is_pattern(text):
        return [text]
    found = _addresses_that_fit(text) if is_address(text) else sorted(glob.glob(text))  # noqa: PTH207 - any text
    if not found:
        raise InvalidFile(
            "input", "a file, or a pattern that some file fits", [repr(text)], hint="check the path"
        )
    return found


def files_of(sources: Sequence[AnyPath]) -> list[str]:
    """Return all files that names, patterns and folders stand for; none of them comes twice.

    In a folder, names that begin with a dot or an underscore are left out, and no others.
    """
    found = [file for source in sources for name in fitting(source) for file in _files_in(name)]
    known: dict[object, str] = {}
    for file in found:
        if known.setdefault(_file_identity(file), file) is not file:
            raise InvalidFile(
                "input",
                "of files that are named once",
                [f"{Place.of(file).name!r} twice"],
                hint="everybody in it would count twice",
            )
    return found


def _addresses_that_fit(address: str) -> list[str]:
    parts = urlsplit(address)
    folder, _, pattern = parts.path.rpartition("/")
    if any(sign in folder for sign in "*["):
        raise InvalidInput("address", "one with a pattern in its last name only", address)
    place = Place.of(parts._replace(path=folder).geturl())
    fits = [name for name in place.names() if fnmatchcase(name, unquote(pattern))]
    return [place.inside(name).text for name in fits]


def _files_in(name: str) -> list[str]:
    place = Place.of(name) if is_address(name) else Place(str(Path(name).absolute()))
    if place.local and not Path(place.text).is_dir():
        return [place.text]  # one that is not there is refused by whoever opens it
    held = [one for one in place.names() if not one.startswith(_LEFT_OUT)]
    if place.local and not held:
        got = f"the empty folder {place.name!r}"
        raise InvalidFile("input", "a file, or a folder of files", [got], hint="check the path")
    return [place.inside(one).text for one in held] or [place.text]


def _file_identity(file: str) -> object:
    try:
        status = None if is_address(file) else Path(file).stat()
    except OSError:
        status = None
    return file if status is None else (status.st_dev, status.st_ino)


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
