"""A folder of results that is filled in one go: with all of its files, or as it was before."""

from __future__ import annotations

import errno
import filecmp
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from chaffinch.disk.leftovers import staging_folder
from chaffinch.disk.protected import refuse_to_overwrite
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput


def require_folder(out: Path) -> None:
    """Refuse a name that no folder can have, or where nothing can be written."""
    if out.exists() and not out.is_dir():
        raise InvalidInput("output", "a folder", out.name, hint="name a folder for the results")
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    fault = 0 if os.access(there, os.W_OK) else errno.EACCES
    if not there.is_dir():
        fault = errno.ENOTDIR
    if fault:
        raise storage_fault(str(out), OSError(fault, ""), verb="write", kind="folder")


@contextmanager
def fill_folder(out: Path, *, own: bool = False) -> Iterator[Path]:
    """Yield an empty folder whose files move to ``out`` when all went well.

    After a failure, Ctrl-C included, everything is as it was before. No other file in ``out`` is
    replaced, unless all were made by the same command (``own``).
    """
    made = False
    require_folder(out)
    with ExitStack() as stack:
        try:
            if not out.is_dir():
                out.mkdir(parents=True)
                made = True
            staging = stack.enter_context(staging_folder(out))
        except OSError as error:
            if made:
                out.rmdir()
            raise storage_fault(str(out), error, verb="write", kind="folder") from None
        try:
            yield staging
            for file in sorted(staging.iterdir()) if not own else ():
                _refuse_other(out / file.name, file)
            # A plan comes first: by it the next run knows what a killed one has left.
            for file in sorted(staging.iterdir(), key=_plans_first):
                try:
                    os.replace(file, out / file.name)  # noqa: PTH105
                except OSError as error:
                    raise storage_fault(file.name, error, verb="write") from None
        except BaseException:
            stack.close()
            if made:
                with suppress(OSError):
                    out.rmdir()
            raise


def _plans_first(file: Path) -> tuple[bool, str]:
    return not file.name.endswith(".plan.json"), file.name


def _refuse_other(target: Path, file: Path) -> None:
    if target.is_file() and target.stat().st_size and not filecmp.cmp(target, file, shallow=False):
        refuse_to_overwrite(target)  # which says what it is, if that is known
        raise InvalidInput(
            "output",
            "a folder without other files of the same names",
            target.name,
            hint="name another folder: what is there may be somebody's only copy",
        )
