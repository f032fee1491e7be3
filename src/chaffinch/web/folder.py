"""The folder that the page was started in: what it shows, and what may be named."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

from chaffinch.disk.file_kinds import LARGEST, Kind, document_kind
from chaffinch.errors import InvalidInput

_DEEPEST = 3
_MOST_FILES = 2000
"""So many files are looked at: somebody may start it in a home folder."""
_LARGEST_TOML = 1 << 20
_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".gz", ".zst")


class Folder:
    """What is in a folder, by what it is; every name is relative to it."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        if not self.root.is_dir():
            raise InvalidInput("folder", "one that is there", str(root))

    def tables(self) -> list[str]:
        """Return the names of tables."""
        return [name for name in self.names() if name.lower().endswith(_TABLES)]

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
        found = []
        for name in self.names():
            path = self.root / name
            if name.endswith(".json") and self._is_release(path):
                found.append((path.stat().st_mtime, name))
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
        return self.root / name

    def names(self) -> list[str]:
        """Return the names of all files, down to a few folders."""
        return list(self._walk())

    def _walk(self) -> Iterator[str]:
        left = _MOST_FILES
        for place, folders, files in os.walk(self.root):
            inside = Path(place).relative_to(self.root)
            deep = len(inside.parts)
            hidden = [name for name in folders if name.startswith(".") or deep + 1 >= _DEEPEST]
            folders[:] = sorted(set(folders).difference(hidden))
            for name in sorted(files):
                if not name.startswith(".") and (left := left - 1) >= 0:
                    yield (inside / name).as_posix()

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
    def _is_release(path: Path) -> bool:
        try:
            with path.open("rb") as file:
                return document_kind(file.read(min(LARGEST, 1 << 16))) is Kind.RELEASE
        except OSError:
            return False


def _word(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
