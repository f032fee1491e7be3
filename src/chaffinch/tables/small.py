"""Files that are read whole: plans, surveys and releases, never tables."""

from __future__ import annotations

from pathlib import Path

from chaffinch.errors import InvalidFile
from chaffinch.tables.faults import storage_fault

_BLOCK = 1 << 20


def read_small(path: str | Path, *, most: int, must_be: str) -> bytes:
    """Return the bytes of a file; refuse one of more than ``most``, whatever size it claims."""
    place = Path(path)
    content = bytearray()
    try:
        with place.open("rb") as file:
            while len(content) <= most and (block := file.read(_BLOCK)):
                content += block
    except OSError as fault:
        raise storage_fault(place.name, fault, verb="read") from None
    if len(content) > most:
        raise InvalidFile(f"file {place.name}", must_be, ["a file too large to be one"])
    return bytes(content)
