"""The folder that the page was started in: what it shows, and what may be named."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from chaffinch.disk.file_kinds import Kind, document_kind
from chaffinch.errors import InvalidInput
from chaffinch.tables.read import SPREADSHEETS, SUFFIXES

_DEEPEST = 3
_MOST_FILES = 2000
"""So many files are looked at: somebody may start it in a home folder."""
_MOST_ENTRIES = 20_000
"""So many entries of one folder are read."""
_LARGEST_TOML, _LARGEST_HEAD = 1 << 20, 1 << 16
_AS_CSV = "save it as CSV"
_UNREAD = dict.fromkeys(SPREADSHEETS, f"a spreadsheet: {_AS_CSV}") | {
    ".sav": f"of SPSS: {_AS_CSV}",
    ".dta": f"of Stata: {_AS_CSV}",
    ".sas7bdat": f"of SAS: {_AS_CSV}",
    ".rds": f"of R: {_AS_CSV}",
}
"""Tables that are none for us, by the ends of their names, and what to do."""
_OF_RELEASES = (b"low_together", b"high_together")
"""Columns that the tables of all releases have, and hardly any other one."""
_HEAD_OF_TABLE, _FOOT_OF_TABLE = 1 << 12, 1 << 16
"""So many bytes at its ends hold the names of the columns."""
_OF_COLUMNS = ("parquet", "arrow")


class Folder:
    """What is in a folder, by what it is; every name is relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise InvalidInput("folder", "one that is there", str(root))

    def tables(self) -> list[str]:
        """Return the names of tables, but not of those that are releases."""
        return [
            name
            for name in self.names()
            if _suffix(name) in SUFFIXES and not _is_release_table(self.root / name)
        ]

    def unread(self) -> dict[str, str]:
        """Return the names of tables that cannot be read, and what to do with each."""
        return {
            name: _UNREAD[suffix] for name in self.names() if (suffix := _suffix(name)) in _UNREAD
        }

    def surveys(self) -> list[str]:
        """Return the names of survey files and of plans."""
        found = [name for name in self.names() if "questions" in self._keys(name)]
        plans = [name for name in self.names() if name.endswith(".plan.json")]
        return found + plans

    def services(self) -> list[str]:
        """Return the names of the settings of services."""
        own = {"collector", "shuffler", "analyzer"}
        return [
            name
            for name in self.names()
            if (keys := self._keys(name)) & own and {"plans", "keys"} <= keys
        ]

    def releases(self) -> dict[str, str]:
        """Return the names of releases by a word for each, the newest first."""
        found = [
            (changed, name)
            for name in self.names()
            if name.endswith(".json")
            and (changed := self._changed_if_release(self.root / name)) is not None
        ]
        return {_word(name): name for _, name in sorted(found, reverse=True)}

    def path(self, name: str) -> Path:
        """Return the place of a name that this folder has shown; refuse any other."""
        if name not in self.names():
            raise InvalidInput("file", "one of this folder", name)
        return self.root / name

    def new(self, name: str) -> Path:
        """Return the place of a folder that is to be made, or filled again."""
        if not name or name.startswith(".") or Path(name).name != name or "\0" in name:
            raise InvalidInput("folder for the release", "a name without slashes", name)
        if (self.root / name).is_symlink():
            raise InvalidInput("folder for the release", "no link to another one", name)
        return self.root / name

    def names(self) -> list[str]:
        """Return the names of files, down to a few folders, and of no more than some thousands.

        Links lead elsewhere, pipes and devices would be waited for, and what is no text cannot
        stand on a page: none of them is there.
        """
        return list(islice(self._walk(self.root, 1), _MOST_FILES))

    def _walk(self, place: Path, depth: int) -> Iterator[str]:
        try:
            with os.scandir(place) as entries:
                shown = sorted(
                    (one for one in islice(entries, _MOST_ENTRIES) if _is_shown(one.name)),
                    key=lambda one: (one.is_dir(follow_symlinks=False), one.name),
                )
        except OSError:
            return
        for one in shown:
            if one.is_file(follow_symlinks=False):
                yield Path(one.path).relative_to(self.root).as_posix()
            elif depth < _DEEPEST and one.is_dir(follow_symlinks=False):
                yield from self._walk(Path(one.path), depth + 1)

    def _keys(self, name: str) -> set[str]:
        """Return the keys of a TOML file; of what is none, or cannot be read, none."""
        path = self.root / name
        try:
            if path.suffix != ".toml" or path.stat().st_size > _LARGEST_TOML:
                return set()
            return set(tomllib.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError):
            return set()

    @staticmethod
    def _changed_if_release(path: Path) -> float | None:
        try:
            with path.open("rb") as file:
                kind = document_kind(file.read(_LARGEST_HEAD))
                return os.fstat(file.fileno()).st_mtime if kind is Kind.RELEASE else None
        except OSError:
            return None


def _suffix(name: str) -> str:
    """Return what tells the format of a table, in small letters."""
    return Path(name.lower().removesuffix(".gz")).suffix


def _is_release_table(path: Path) -> bool:
    """Return whether a table is what a release says, by its columns."""
    try:
        with path.open("rb") as file:
            ends = file.read(_HEAD_OF_TABLE)
            if SUFFIXES[_suffix(path.name)] in _OF_COLUMNS:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _FOOT_OF_TABLE))
                ends += file.read()
    except OSError:
        return False
    return all(name in ends for name in _OF_RELEASES)


def _is_shown(name: str) -> bool:
    return name.isprintable() and not name.startswith(".")


def _word(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
