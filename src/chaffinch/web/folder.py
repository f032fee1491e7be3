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

_DEEPEST = 3
_MOST_FILES = 2000
"""So many files are looked at: somebody may start it in a home folder."""
_MOST_ENTRIES = 20_000
"""So many entries of one folder are read."""
_LARGEST_TOML, _LARGEST_HEAD = 1 << 20, 1 << 16
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


def _is_shown(name: str) -> bool:
    return name.isprintable() and not name.startswith(".")


def _word(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]
