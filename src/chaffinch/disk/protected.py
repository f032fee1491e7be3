"""Where results may go: nothing that cannot be made again is overwritten."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from chaffinch.disk.databases import BATCH_RECORD, OUTBOX, OWNER_AT, RUN_RECORD
from chaffinch.disk.file_kinds import LARGEST, Kind, document_kind, text_of
from chaffinch.disk.files import AnyPath
from chaffinch.errors import InvalidInput

_STARTS = {
    b"chaffinch-campaign-key-": Kind.KEY,
    b"SQLite format 3\0": Kind.LEDGER,
    b"chaffinch/filter@": Kind.FILTER,
}
_RECORDS = {
    BATCH_RECORD: Kind.BATCH_RECORD,
    RUN_RECORD: Kind.RUN_RECORD,
    OUTBOX: Kind.OUTBOX,
}
"""The databases that are no ledgers, by whose they are."""
_MESSAGES = b"chaffinch.messages"
"""What the facts of a batch begin with, in the end of a Parquet file or the start of a stream."""
RELEASE_FACTS = b"chaffinch.release"
"""The key under which a Parquet file holds the document of its release, without the rows."""
RELEASE_PAGE = '<meta name="generator" content="chaffinch release">'
"""What tells a page of a release, near its start."""
_RELEASE_NUMBERS = b'"estimate","standard_error","low","high","low_together","high_together"'
_RELEASE_LINES = tuple(
    texts + _RELEASE_NUMBERS + unit + b"\n"
    for texts, unit in (
        (b'"question","kind","group","answer","value",', b',"unit"'),
        (b'"question","value",', b""),
        (b'"group","kind",', b""),
        (b'"question","value","round","until",', b""),
    )
)
"""The first lines of releases in CSV: of a survey, now and before, a reach, a trend."""
_FACTS = {_MESSAGES: Kind.BATCH, RELEASE_FACTS: Kind.RELEASE}
_MANIFEST = "manifest.json"
"""What tells that a folder is a batch."""
_PARQUET = b"PAR1"
_STREAM = b"\xff\xff\xff\xff"
_HEAD = 1024
"""Bytes in which a file tells what it is, unless it is a document or has its facts elsewhere."""


def kind_of(path: AnyPath) -> Kind | None:
    """Return what a file, or a folder that is a batch, is if it must not be lost.

    Links are followed.
    """
    try:
        place = Path(path) / _MANIFEST if Path(path).is_dir() else Path(path)
        if not stat.S_ISREG(place.stat().st_mode):
            return None  # opening a pipe would wait for its other end
        with place.open("rb") as file:
            head = file.read(_HEAD)
            for start, kind in _STARTS.items():
                if head.startswith(start):
                    owner = int.from_bytes(head[OWNER_AT : OWNER_AT + 4])
                    return _RECORDS.get(owner, kind)
            if head.startswith((_PARQUET, _STREAM)):
                facts = _read_facts(file, head)
                found = [kind for words, kind in _FACTS.items() if words in facts]
                return found[0] if found else None
            if text_of(head)[:1] not in {b"", b"{"}:
                return Kind.RELEASE if _is_shown_release(head) else None
            return document_kind(head + file.read(LARGEST - len(head)))
    except OSError:
        return None  # whoever writes there tells what is wrong


def _is_shown_release(head: bytes) -> bool:
    first, end, _ = head.partition(b"\n")
    return RELEASE_PAGE.encode() in head or first + end in _RELEASE_LINES


def _read_facts(file: BinaryIO, head: bytes) -> bytes:
    if head.startswith(_STREAM):
        return head + file.read(min(int.from_bytes(head[4:8], "little"), LARGEST))
    end = file.seek(-8, os.SEEK_END)
    length = min(int.from_bytes(file.read(4), "little"), end, LARGEST)
    file.seek(end - length)
    return file.read(length)


def refuse_to_overwrite(
    path: AnyPath, *, inputs: Iterable[AnyPath] = (), replaceable: Kind | None = None
) -> None:
    """Refuse an output where a file of a kind that must not be lost is, or an input.

    Whatever the name: links lead to the same file. A file of the kind ``replaceable`` may be
    replaced.
    """
    place = Path(path)
    kind = kind_of(place)
    if kind is not None and kind is not replaceable:
        raise InvalidInput(
            "output",
            f"another file than {kind.value}",
            place.name,
            hint="name another file: what is there cannot be made again",
        )
    for one in inputs:
        with suppress(OSError):
            if os.path.samefile(place, one):  # noqa: PTH121 - either may be a str
                raise InvalidInput("output", "another file than the input", place.name)


def refuse_all_but(kind: Kind, path: AnyPath) -> None:
    """Refuse to replace anything but a file of one kind: what else is there may be anybody's.

    An empty file holds nothing.
    """
    place = Path(path)
    try:
        found = place.stat()
    except OSError:
        return
    if stat.S_ISREG(found.st_mode) and found.st_size and kind_of(place) is not kind:
        raise InvalidInput(
            "output",
            f"a new file or {kind.value}",
            place.name,
            hint="name another file: something else is there",
        )
