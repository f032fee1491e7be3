"""Tables in pieces that are read apart: files, and of Parquet files some row groups each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from chaffinch.errors import InvalidTable
from chaffinch.storage.files import AnyPath
from chaffinch.storage.places import Place, is_address
from chaffinch.tables.read import Table, open_table
from chaffinch.tables.settings import Settings

_LARGEST = 16 << 20
"""Bytes of a file that are one piece, where it can be cut there."""
_LEFT_OUT = (".", "_")
"""How files begin that engines leave beside those of a table."""


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


def pieces_of(
    sources: Sequence[AnyPath],
    *,
    format: str | None = None,  # noqa: A002
    settings: Settings = Settings(),  # noqa: B008 - frozen
    largest: int = _LARGEST,
) -> list[Piece]:
    """Return the pieces of files, and of all files in folders, in the order of their names.

    Of a file only as much is read as tells how it is written. Files without rows, as engines
    leave them in folders, are left out if there are others.
    """
    found = [
        piece
        for path in _files(sources)
        for piece in _cut(Piece(path, format=format, settings=settings), largest)
    ]
    return [piece for piece in found if piece.rows != 0] or found


def _files(sources: Sequence[AnyPath]) -> Iterator[str]:
    for source in sources:
        if is_address(source):
            yield from _stored_files(Place.of(source))
            continue
        path = Path(source).absolute()  # whoever reads it may stand elsewhere
        if not path.is_dir():
            if path.exists() and not path.is_file():
                raise InvalidTable("a file, or a folder of files", f"{path.name!r}, a pipe")
            yield str(path)  # one that is not there is refused by whoever opens it
            continue
        held = sorted(one for one in path.iterdir() if not one.name.startswith(_LEFT_OUT))
        if not held:
            raise InvalidTable("a file, or a folder of files", f"the empty folder {path.name!r}")
        yield from map(str, held)


def _stored_files(place: Place) -> Iterator[str]:
    """Yield the addresses of a file, or of all files that a store has below a name."""
    held = [name for name in place.names() if not name.startswith(_LEFT_OUT)]
    yield from [place.inside(name).text for name in held] or [place.text]


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
