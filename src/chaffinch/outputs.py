"""Where results may go: nothing that cannot be made again is overwritten."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum
from pathlib import Path

from chaffinch.databases import BATCH_RECORD, OWNER_AT
from chaffinch.errors import InvalidInput

AnyPath = str | os.PathLike[str]


class Kind(Enum):
    """What a file is, if losing it would lose more than a result."""

    PLAN = "a plan"
    KEY = "a key"
    KEY_RECORD = "the record of a key"
    LEDGER = "a ledger"
    MARK = "a ledger's mark"
    BATCH_RECORD = "a shuffler's record"
    FILTER = "a filter"


_STARTS = {
    b"chaffinch-campaign-key-": Kind.KEY,
    b"SQLite format 3\0": Kind.LEDGER,
    b"chaffinch/filter@": Kind.FILTER,
}
_FORMATS = {
    "plan": Kind.PLAN,
    "reach-plan": Kind.PLAN,
    "key-record": Kind.KEY_RECORD,
    "ledger-mark": Kind.MARK,
}
"""The documents among them, by what stands in ``"format": "chaffinch/…@1"``."""
_FORMAT = re.compile(rb'"format"\s*:\s*"chaffinch/([a-z-]+)@')
_LARGEST = 1 << 24
"""A document of more bytes than this is no plan and no record."""


def kind_of(path: AnyPath) -> Kind | None:
    """Return what a file is if it must not be lost; links are followed."""
    try:
        with Path(path).open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            content = file.read(OWNER_AT + 4)
            for start, kind in _STARTS.items():
                if content.startswith(start):
                    owner = int.from_bytes(content[OWNER_AT:])
                    return Kind.BATCH_RECORD if owner == BATCH_RECORD else kind
            if content.lstrip()[:1] != b"{":
                return None
            content += file.read(_LARGEST)
    except OSError:
        return None  # whoever writes there tells what is wrong
    # A damaged plan is still somebody's plan, so the text is searched and not parsed. The
    # documents here have no other document inside; releases have, behind their own format.
    found = _FORMAT.search(content)
    return _FORMATS.get(found.group(1).decode()) if found else None


def refuse_to_overwrite(
    path: AnyPath, *, inputs: Iterable[AnyPath] = (), replaceable: Kind | None = None
) -> None:
    """Refuse an output where a plan, key, ledger, mark, record or filter is, or an input.

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
    """Refuse to replace anything but a file of one kind; an empty file holds nothing."""
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
