"""The folder that a job writes a batch into: emptied, filled by tasks, finished by a manifest."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaffinch.disk.leftovers import alone_in, remove_leftovers
from chaffinch.disk.locations import Place
from chaffinch.engines.spark.code_counts import Counted, sum_counts
from chaffinch.engines.spark.frames import left_rows
from chaffinch.engines.spark.job import Job
from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.wire.batch_folders import (
    MANIFEST,
    BatchPart,
    Manifest,
    left_behind,
    read_manifest,
    write_manifest,
)
from chaffinch.wire.batches import BatchFacts, digest_of
from chaffinch.wire.message_pieces import BatchPieces, MessagePiece

_FOLDER_PERMISSIONS = {"encoded": 0o700, "shuffled": 0o777}
_PURPOSE = "batch"
_LOCK = f".chaffinch-{_PURPOSE}."
"""How the name of the lock begins that whoever fills a folder holds."""


@dataclass(frozen=True)
class Target:
    """Where the parts of one job go, and the end of their names."""

    folder: Place
    token: str


def standing_batch(folder: Place) -> str | None:
    """Return the name of the batch in a folder; None if there is none.

    A folder with anything but parts is refused: it is somebody's. So is one that cannot be made,
    or that another job fills, before anything is read.
    """
    if folder.local and not Path(folder.text).parent.is_dir():
        rule = "in a folder that is there"
        raise InvalidInput("target", rule, folder.name, hint="check the path")
    if folder.local:
        remove_leftovers(Path(folder.text))
        if any(name.startswith(_LOCK) for name in folder.names()):
            with _alone_in(folder):  # where there are no locks, what is left says nothing
                pass
    return _found_batch(folder)


def _found_batch(folder: Place) -> str | None:
    names = [name for name in folder.names() if not name.startswith(_LOCK)]
    if MANIFEST in names:
        return read_manifest(folder).facts.name
    strange = set(names) - set(left_behind(names)) - set(left_rows(names))
    if strange or folder.is_file():
        raise InvalidInput(
            "target",
            "a new folder, or one with what an unfinished job has left",
            folder.name,
            hint="name another folder: something else is there",
        )
    return None


@contextmanager
def filling(folder: Place, stage: str, standing: str | None = None) -> Iterator[Target]:
    """Yield an empty folder for parts; after a failure none of them is left.

    The folder goes with them, unless it was there before: then somebody else has made it.
    What a job that was cut short left in it is removed, and so is the batch ``standing``, which
    is made again. Another one that came meanwhile stays. On a disk a second job with the same
    target is refused; in a store there must be none.
    """
    if standing_batch(folder) != standing:
        raise _came_meanwhile(folder)
    made = folder.local and not folder.is_folder()
    folder.make_folder(_FOLDER_PERMISSIONS[stage])
    try:
        with _alone_in(folder):
            _make_empty(folder, standing)
            target = Target(folder, secrets.token_hex(4))
            try:
                yield target
            except BaseException:
                with suppress(Exception):
                    _remove_parts(target)
                raise
    finally:
        if made:
            with suppress(OSError):  # one with a batch, or with somebody's parts, stays
                Path(folder.text).rmdir()


@contextmanager
def _alone_in(folder: Place) -> Iterator[None]:
    """Refuse a folder on a disk that another job fills."""
    if not folder.local:
        yield
        return
    with alone_in(Path(folder.text), _PURPOSE, patience=0):
        yield


def _make_empty(folder: Place, standing: str | None) -> None:
    if _found_batch(folder) != standing:
        raise _came_meanwhile(folder)
    if standing is not None:
        # The manifest goes first: without it the parts are no batch, if this ends half-way.
        folder.inside(MANIFEST).remove()
    folder.remove_unfinished()
    names = folder.names()
    if MANIFEST in names:  # the same look tells what is removed
        raise _came_meanwhile(folder)
    for name in (*left_behind(names), *left_rows(names)):
        folder.inside(name).remove()


def _came_meanwhile(folder: Place) -> InvalidInput:
    return InvalidInput(
        "target",
        "a folder that nobody else has filled",
        folder.name,
        hint="name another folder: a batch came meanwhile, which cannot be made again",
    )


def finish_batch(
    job: Job,
    target: Target,
    facts: BatchFacts,
    parts: Sequence[BatchPart],
    expected: str | None = None,
) -> None:
    """Read what was written once more, then write the manifest: from now on it is a batch."""
    finish = partial(_digest, facts)
    written = BatchPieces(
        target.folder.name,
        facts,
        None,
        tuple(
            MessagePiece(
                0, part.name, target.folder.inside(part.name), facts, part.messages, part=part
            )
            for part in parts
        ),
    )
    digest = sum_counts(job, [written], finish)
    if expected is not None and digest != expected:
        raise StorageFault(
            "The messages that are written must be those that were read. Got others.",
            hint="check the disks of the cluster; nothing was written",
        )
    _check_alone(target, parts)
    # The manifest comes last: until it is there, the parts are what an unfinished job has left.
    write_manifest(target.folder, Manifest(facts, digest, tuple(parts)))
    try:  # who looked before it came may have removed parts
        _check_alone(target, parts, finished=True)
    except BaseException:
        # With parts, ``filling`` knows the manifest by their names. Without any it has the name of
        # the batch alone, which the same shuffle once more has too: but a shuffle has parts.
        if not parts:
            with suppress(Exception):
                _remove_manifest(target.folder, facts.name)
        raise


def _digest(facts: BatchFacts, counted: Counted) -> str:
    return digest_of(facts, counted.total)


def _check_alone(target: Target, parts: Sequence[BatchPart], *, finished: bool = False) -> None:
    """Refuse to finish a batch that another job has spoiled, or would be spoiled by."""
    names = target.folder.names()
    if (MANIFEST in names) is not finished or set(left_behind(names)) != {
        part.name for part in parts
    }:
        raise InvalidInput(
            "target",
            "a folder that one job fills",
            target.folder.name,
            hint="another job has written or removed parts there; run the same command again "
            "with another folder",
        )


def _remove_manifest(folder: Place, mark: str) -> None:
    """Remove a manifest with something in it that only that of this job has."""
    if MANIFEST in folder.names() and mark.encode() in folder.inside(MANIFEST).read():
        folder.inside(MANIFEST).remove()


def _remove_parts(target: Target) -> None:
    folder = target.folder
    _remove_manifest(folder, target.token)
    for name in left_behind(folder.names()):
        if target.token in name:
            folder.inside(name).remove()
    if folder.local:
        remove_leftovers(Path(folder.text))
