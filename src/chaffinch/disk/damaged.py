"""Files that were damaged on the disk: put aside under another name, and never removed.

``NAME.segment`` becomes ``NAME.damaged`` in the same folder. Whoever has a copy puts it back under
the name of before; the damaged file stays until its owner removes it.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import chain, count
from pathlib import Path

from chaffinch.disk.files import sync_folder
from chaffinch.disk.storage_errors import write_fault
from chaffinch.errors import Reason

SUFFIX = ".damaged"


def put_aside(path: Path, used: Container[str] = ()) -> Path:
    """Give a damaged file another name, durably; return it. One process at a time does this.

    It is none that is ``used``, although its owner may have removed that file just now.
    """
    numbers = chain([""], (f".{number}" for number in count(2)))
    names = (path.with_name(f"{path.stem}{number}{SUFFIX}") for number in numbers)
    free = next(name for name in names if not (name.exists() or name.name in used))
    try:
        path.rename(free)
        sync_folder(path.parent)
    except OSError as error:
        raise write_fault(path.name, error, Reason.UNCERTAIN) from None
    return free


def put_aside_in(folder: Path) -> list[Path]:
    """Return the damaged files of a folder, by name."""
    return sorted(folder.glob(f"*{SUFFIX}"))
