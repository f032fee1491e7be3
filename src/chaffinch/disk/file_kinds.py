"""The kinds of files that must not be lost, and how a document is recognized as one."""

from __future__ import annotations

import re
from enum import Enum


class Kind(Enum):
    """What a file is, if losing it would lose more than a result."""

    PLAN = "a plan"
    KEY = "a key"
    KEY_RECORD = "the record of a key"
    LEDGER = "a ledger"
    MARK = "a ledger's mark"
    BATCH_RECORD = "a shuffler's record"
    RUN_RECORD = "a record of runs"
    OUTBOX = "an outbox"
    FILTER = "a filter"
    COLUMNS = "a file of shuffled columns"
    BATCH = "one with messages"
    RELEASE = "a release"


_FORMATS = {
    "plan": Kind.PLAN,
    "reach-plan": Kind.PLAN,
    "key-record": Kind.KEY_RECORD,
    "ledger-mark": Kind.MARK,
    "columns": Kind.COLUMNS,
    "handed-over": Kind.BATCH_RECORD,
    "batch-folder": Kind.BATCH,
    "release": Kind.RELEASE,
    "reach-release": Kind.RELEASE,
    "trend": Kind.RELEASE,
}
"""The documents among them, by what stands in ``"format": "chaffinch/…@1"``."""
_FORMAT = re.compile(rb'"format"\s*:\s*"chaffinch/([a-z-]+)@')
LARGEST = 1 << 24
"""What tells a document, or a batch, stands within so many bytes."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def document_kind(content: bytes) -> Kind | None:
    """Return what a document is if it must not be lost.

    A damaged plan is still somebody's plan, so the text is searched and not parsed. The
    documents here have no other document inside; releases have, behind their own format.
    Whoever reads a plan asks this too, so that none is read that would not be kept.
    """
    if not text_of(content[:LARGEST]).startswith(b"{"):
        return None
    found = _FORMAT.search(content[:LARGEST])
    kind = _FORMATS.get(found.group(1).decode()) if found else None
    # What holds a release among other things is somebody's own work.
    first = found is not None and not content[: found.start()].strip(b"{ \t\r\n\xef\xbb\xbf")
    return None if kind is Kind.RELEASE and not first else kind


def text_of(content: bytes) -> bytes:
    """Return a document without what may stand before it."""
    return content.removeprefix(_BYTE_ORDER_MARK).lstrip()
