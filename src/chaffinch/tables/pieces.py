"""Tables in pieces that are read separately: files, or row groups of Parquet files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaffinch.disk.files import AnyPath
from chaffinch.disk.inputs import files_of, is_pattern
from chaffinch.disk.locations import Place, is_address
from chaffinch.errors import InvalidTable
from chaffinch.tables.dialect import Settings
from chaffinch.tables.parallel import mapped
from chaffinch.tables.read import Table, open_table

_AT_ONCE = 16
"""Files that are looked into at once: in a store that is waiting, not work."""
_LARGEST = 16 << 20
"""Bytes of a file that are one piece, where it can be cut there."""


@dataclass(frozen=True)
class Piece:
    """What one task reads of a table."""

    path: str
    size: int = 0
    """About how many bytes of the file it is."""
    rows: int | None = None
    """How many rows it has, if that is known without reading it."""
    first_row: int = 1
    """The number of its first row in the file."""
    groups: range | None = None
    """Which row groups it has; None for a whole file."""
    format: str | None = None
    settings: Settings = field(default_factory=Settings)

    @property
    def name(self) -> str:
        """Return the name of the file, for messages."""
        return Place(self.path).name

    def open(self) -> Table:
        """Return its rows as a table."""
        return open_table(self.path, format=self.format, settings=self.settings, groups=self.groups)


@dataclass(frozen=True)
class TableFiles:
    """Files of one table, and the first of them, opened: it tells how all of them are written."""

    pieces: tuple[Piece, ...]
    first: Table

    @classmethod
    def of(
        cls,
        source: Any,
        *,
        format: str | None = None,  # noqa: A002
        settings: Settings = Settings(),  # noqa: B008 - frozen
    ) -> TableFiles:
        """Return the files that a path, an address, a folder or a list of them names."""
        named = [source] if isinstance(source, (str, os.PathLike)) else list(source)
        pieces = pieces_of(named, format=format, settings=settings)
        first = pieces[0].open()
        return cls(tuple(replace(piece, settings=first.settings) for piece in pieces), first)

    @property
    def several(self) -> bool:
        """Return whether they are more than one, so that a fault is told with the name of its."""
        return len({piece.path for piece in self.pieces}) > 1

    @property
    def rows(self) -> int | None:
        """Return how many rows they have, if that is known without reading them."""
        known = [piece.rows for piece in self.pieces if piece.rows is not None]
        return sum(known) if len(known) == len(self.pieces) else None


def names_files(source: Any) -> bool:
    """Return whether something names the files of a table: a pattern, or a folder on a disk."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    return is_pattern(source) or (not is_address(os.fspath(source)) and Path(source).is_dir())


def pieces_of(
    sources: Sequence[AnyPath],
    *,
    format: str | None = None,  # noqa: A002
    settings: Settings = Settings(),  # noqa: B008 - frozen
    largest: int = _LARGEST,
) -> list[Piece]:
    """Return the pieces of files, of all files in folders, and of those that fit patterns.

    They are in the order of their names. Of a file only as much is read as tells how it is
    written. Files without rows, as engines leave them in folders, are left out if there are others.
    """
    wholes = [Piece(path, format=format, settings=settings) for path in _files(sources)]
    with mapped(lambda whole: list(_cut(whole, largest)), wholes, _AT_ONCE) as cut:
        found = [piece for pieces in cut for piece in pieces]
    return [piece for piece in found if piece.rows != 0] or found


def _files(sources: Sequence[AnyPath]) -> Iterator[str]:
    for path in files_of(sources):
        # Whoever opens one that is not there refuses it; a pipe can be read once only.
        if not is_address(path) and Path(path).exists() and not Path(path).is_file():
            got = f"{Path(path).name!r}, a pipe or a folder"
            raise InvalidTable("a file, or a folder of files", got)
        yield path


def _cut(whole: Piece, largest: int) -> Iterator[Piece]:
    """Yield a file in runs of row groups, each of about so many bytes, or as it is."""
    table = whole.open()
    size = table.size or 0
    count = min(-(-size // largest), len(table.groups))
    if count <= 1:
        yield replace(whole, size=size, rows=table.rows)
        return
    starts = [len(table.groups) * one // count for one in range(count + 1)]
    for start, end in itertools.pairwise(starts):
        before, rows = sum(table.groups[:start]), sum(table.groups[start:end])
        groups = range(start, end)
        yield replace(whole, size=size // count, rows=rows, first_row=before + 1, groups=groups)
