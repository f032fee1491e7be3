"""What a command says on a terminal."""

from __future__ import annotations

import os


def read_to_end(above: int) -> bytes:
    """Return all that was written to a terminal until its other side is gone, and close it."""
    said = b""
    try:
        while chunk := os.read(above, 4096):
            said += chunk
    except OSError:
        pass  # how a terminal says that the other side is gone
    os.close(above)
    return said
