"""What tasks read of a batch: row groups of a file, or a part of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from chaffinch.disk.containers.parquet import PARQUET_MARK
from chaffinch.disk.locations import Place
from chaffinch.errors import InvalidInput
from chaffinch.wire.batch_folders import BatchPart, part_pages, read_manifest
from chaffinch.wire.batches import BatchFacts, CodeCounts, Codes, facts_from_texts
from chaffinch.wire.message_pages import (
    MessagePages,
    larger_message,
    reading_messages,
    wrong_messages,
)
from chaffinch.wire.message_reader import open_place

_GROUPS = 4
"""Row groups of a file that are one piece: about four million messages."""


@dataclass(frozen=True)
class MessagePiece:
    """What one task reads of one of several batches."""

    batch: int
    """Which of them it belongs to."""
    label: str
    place: Place
    facts: BatchFacts
    rows: int
    groups: range | None = None
    part: BatchPart | None = None

    def batches(self) -> Iterator[Codes]:
        """Yield its messages; only all pieces of a batch together can be proven whole."""
        with reading_messages(self.label), open_place(self.place, self.label) as file:
            for column in self._pages(cast("BinaryIO", file)).columns():
                if column.null_count:
                    raise wrong_messages(self.label, "without gaps", "a gap")
                yield column.to_numpy()

    def counts(self) -> CodeCounts:
        """Return how often each code is in it."""
        counts = CodeCounts(self.facts.space)
        for codes in self.batches():
            try:
                counts.add(codes)
            except InvalidInput:
                raise larger_message(self.label, self.facts.space) from None
        return counts

    def _pages(self, file: BinaryIO) -> MessagePages:
        if self.part is not None:
            return part_pages(file, self.part, self.facts)
        pages = MessagePages(file, self.label, self.groups)
        facts, _ = facts_from_texts(self.label, pages.metadata)
        pages.check()
        if facts != self.facts or pages.rows != self.rows:
            raise EOFError  # another file than when it was cut into pieces
        return pages


@dataclass(frozen=True)
class BatchPieces:
    """A batch as it says it is, which nothing has proven yet, and what tasks read of it."""

    label: str
    facts: BatchFacts
    digest: str | None
    """None of one that is being made."""
    pieces: tuple[MessagePiece, ...]

    @property
    def rows(self) -> int:
        """Return how many messages it says it holds."""
        return sum(piece.rows for piece in self.pieces)


def cut_batch(number: int, source: Any) -> BatchPieces:
    """Return the pieces of a batch in a Parquet file or a folder; no message is read."""
    place = Place.of(source)
    if place.is_folder():
        return _cut_folder(number, place)
    with reading_messages(place.name), open_place(place) as file:
        if not file.starts_with(PARQUET_MARK):
            must_be = "a Parquet file, or the folder that a cluster has filled"
            raise wrong_messages(place.name, must_be, "something else")
        pages = MessagePages(cast("BinaryIO", file), place.name)
        facts, digest = facts_from_texts(place.name, pages.metadata)
        held = pages.groups
    pieces = [
        MessagePiece(number, place.name, place, facts, sum(held[start:end]), range(start, end))
        for start in range(0, max(1, len(held)), _GROUPS)
        for end in [min(start + _GROUPS, len(held))]
    ]
    return BatchPieces(place.name, facts, digest, tuple(pieces))


def _cut_folder(number: int, folder: Place) -> BatchPieces:
    manifest = read_manifest(folder)
    return BatchPieces(
        folder.name,
        manifest.facts,
        manifest.digest,
        tuple(
            MessagePiece(
                number,
                part.name,
                folder.inside(part.name),
                manifest.facts,
                part.messages,
                part=part,
            )
            for part in manifest.parts
        ),
    )
