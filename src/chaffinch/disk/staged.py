"""Files that wait beside their places, complete, until they are paid for.

They are in a folder for their owner only, with their first bytes turned round, so that nothing
there can be taken for the real thing. A note beside them tells who pays, for what, and what
stood in each place. A place that holds something else by the time the files are named, a key or
another release, is not theirs any more: then none is named, and all of them keep waiting. An
empty place is free. One process at a time notes what stands in a folder, pays, and names files.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chaffinch.disk.files import (
    TURNED,
    AnyPath,
    atomic,
    give_checked_name,
    keep_private,
    mask_header,
    masked_headers,
    sync_folder,
)
from chaffinch.disk.leftovers import remove_folder
from chaffinch.disk.locks import has_name, make_locked_folder, try_lock
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput, StorageFault

Writer = Callable[[Path], object]

_WAITING = re.compile(r"\.chaffinch-[0-9a-f]{16}\.waiting")
_NOTE = "waiting.json"
_NOTED = ("payer", "plan", "key", "subject", "command", "request")
_LONGEST_NOTE = 1 << 20
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Neither follow a link nor wait for the other end of a pipe."""
_LOOK = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _AS_IT_IS


@dataclass(frozen=True)
class _WaitingFile:
    name: str
    becomes: str
    """The name of what it becomes."""
    digest: str
    """The SHA-256 of what it becomes."""
    before: str
    """The SHA-256 of what stood in its place when the note was written; empty if nothing did."""


@dataclass(frozen=True)
class StagedFiles:
    """Files in a waiting folder that are complete, and what pays for them."""

    folder: Path
    payer: str
    """Who pays, as in the bill; empty if nobody does."""
    plan_id: str
    key: str
    subject: str
    files: tuple[_WaitingFile, ...]
    new: bool
    """Whether a file that exists is left alone instead of replaced."""
    command: str
    request: str

    def check_places(self, inputs: Sequence[AnyPath] = ()) -> None:
        """Refuse a place that is not as it was noted, one of ``inputs``, and a file that is gone.

        A place with what comes there is as it should be: a stopped process has filled it.
        """
        taken = []
        for file in self.files:
            target = self.folder.parent / file.becomes
            found = _standing(target)
            if found == file.digest:
                continue
            if found not in {"", file.before} or any(_is_same(target, one) for one in inputs):
                taken.append(file.becomes)
            elif not (self.folder / file.name).exists():
                raise StorageFault(
                    f"The waiting file {file.becomes!r} must be there. Got none.",
                    hint="somebody removed what was paid for, or changed what was in place; "
                    f"to give it up, remove the folder {self.folder.name}",
                )
        if taken:
            raise InvalidInput(
                "output",
                "as it was when the files that wait for it were written",
                ", ".join(taken),
                hint="nothing was replaced, and nothing is lost: move away what is there, then "
                + (self.finish if self.command else "run the same command again"),
            )

    def put_in_place(self) -> None:
        """Give every file its first bytes and its name; their places were checked."""
        # What is in its place already was put there by a process that was stopped then.
        waiting = [
            file
            for file in self.files
            if _standing(self.folder.parent / file.becomes) != file.digest
        ]
        # All are made whole before the first has its name: a file that cannot be read back stops
        # the command while every place is still as it was.
        for file in waiting:
            _turn_back(self.folder / file.name, file.digest)
        for file in waiting:
            try:
                self._give_name(file)
            except OSError as error:
                fault = storage_fault(file.becomes, error, verb="write")
                raise StorageFault(
                    fault.message,
                    hint="nothing is lost: make way for it, and run the same command again",
                    details=fault.details,
                ) from None
        # The names are on the disk before the folder goes with its note: after a power cut in
        # between, the note still says what is paid for.
        with suppress(OSError):
            sync_folder(self.folder.parent)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _give_name(self, file: _WaitingFile) -> None:
        part, target = self.folder / file.name, self.folder.parent / file.becomes
        with suppress(FileNotFoundError):
            keep_private(part, target, stat.S_IMODE(part.stat().st_mode))

        def check(place: Path) -> None:
            # An empty file holds nothing, and may be one that only took the name.
            if _standing(place) not in ({""} if self.new else {"", file.before}):
                raise FileExistsError(errno.EEXIST, "")

        give_checked_name(part, target, check)

    @property
    def finish(self) -> str:
        """Return how the files get into their place."""
        if not self.command:
            return "its command finishes it"
        return f"finish with: {_printable(self.command)}"

    def __str__(self) -> str:
        """Return what somebody else's waiting files are, and how they get into their place."""
        names = ", ".join(_printable(file.becomes) for file in self.files)
        return (
            f"left alone: {names} in {_printable(str(self.folder))}, which another ledger or key "
            f"may have paid for; {self.finish}"
        )


@contextmanager
def find_staged(place: Path, wanted: set[str]) -> Iterator[StagedFiles | None]:
    """Yield what waits in a folder to become one of the ``wanted`` names, locked, if it does.

    A folder without a note was never complete, and is removed. A note that cannot be read may
    be that of something paid, which must not be paid again: it stays, and is refused. So is what
    another command puts in place just now: it would be replaced as soon as it is there.
    """
    try:
        number = os.open(place, _LOOK)
    except OSError:
        yield None  # it has been finished meanwhile
        return
    try:
        yield _lock_waiting(number, place, wanted)
    finally:
        os.close(number)


def _lock_waiting(number: int, place: Path, wanted: set[str]) -> StagedFiles | None:
    """Return what waits in a folder for one of the wanted places; its lock is held from now on.

    None for a folder of somebody else, one that is gone, or one for other places. A folder
    without a note was left before anything could be paid, and is removed if nobody holds it.
    """
    # Nobody else can have made it for us; what a stranger wrote is not even read.
    if not _is_own(number):
        return None
    free = try_lock(number) is True
    if not has_name(number, place):
        return None
    try:
        found = _waiting(place, _read_note(place / _NOTE))
    except FileNotFoundError:
        if free:
            shutil.rmtree(place, ignore_errors=True)
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise StorageFault(
            f"The note in the folder {place.name!r} must be whole. Got a damaged one.",
            hint="what waits there may be paid for, by this command or another one; "
            "to go on without it, move that folder elsewhere",
        ) from None
    if not {file.becomes for file in found.files} & wanted:
        return None
    if not free:
        raise StorageFault(
            f"The waiting folder {place.name!r} must be free for this command. Got one in use.",
            hint="nothing was changed: another command puts in place what waits there; run the "
            "same command again when that one has ended",
        )
    return found


@contextmanager
def held_folders(folders: Iterable[Path]) -> Iterator[dict[Path, Path]]:
    """Yield a new waiting folder in each folder, locked as long as the process lives."""
    places: dict[Path, Path] = {}
    held = []
    try:
        for folder in folders:
            try:
                place, number = make_locked_folder(partial(_new_waiting, folder))
            except OSError as error:
                raise storage_fault(folder.name or str(folder), error, verb="write") from None
            held.append(number)
            places[folder] = place
        yield places
    except BaseException:
        for place in places.values():
            with suppress(OSError):
                place.rmdir()  # one that was never used
        raise
    finally:
        for number in held:
            os.close(number)


def write_file(path: Path, becomes: str, write: Writer) -> tuple[str, str, str]:
    """Write a file into a waiting folder; return its name, what it becomes, and its SHA-256."""
    with masked_headers() as turned:
        write(path)
    if path.resolve() not in turned:  # written in some other way than by ``atomic``
        _turn(path)
    return path.name, becomes, _digest(path, turned=True)


def write_note(
    place: Path, written: Iterable[tuple[str, str, str]], noted: Mapping[str, str], *, new: bool
) -> StagedFiles:
    """Write the note that the files in a waiting folder are complete, and for which places.

    ``noted`` is what is known of their bill; nothing, if nobody pays.
    """
    files = []
    for name, becomes, digest in written:
        before = _standing(place.parent / becomes)
        if before is None or (new and before):
            fault = errno.EISDIR if before is None else errno.EEXIST
            raise storage_fault(becomes, OSError(fault, ""), verb="write")
        files.append((name, becomes, digest, before))
    # Last: a waiting folder with a note holds complete files, one without is removed.
    note = {**dict.fromkeys(_NOTED, ""), **noted, "files": files, "new": new}
    with atomic(place / _NOTE, permissions=stat.S_IRUSR | stat.S_IWUSR) as file:
        file.write(json.dumps(note).encode())
    with suppress(OSError):
        sync_folder(place.parent)
    return _waiting(place, note)


def staged_folders(
    folder: Path, tell: Callable[[str], object] | None, *, refuse_strangers: bool
) -> list[Path]:
    """Return this user's waiting folders in a folder; tell of those of others, or refuse them.

    Nothing in them is read: the other user alone knows what was paid for.
    """
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    own = []
    for place in found:
        if not _WAITING.fullmatch(place.name) or place.is_symlink():
            continue
        if not _is_strange(place):
            own.append(place)
        elif refuse_strangers:
            raise StorageFault(
                f"The waiting folder {place.name!r} must be this user's. Got another's.",
                hint="what waits there may be paid for: let that user run the command again, "
                "move that folder elsewhere, or write to another folder",
            )
        elif tell is not None:
            tell(f"left alone: {_printable(str(place))}, which another user may have paid for")
    return own


def _is_strange(place: Path) -> bool:
    try:
        return place.lstat().st_uid != getattr(os, "geteuid", int)()
    except OSError:
        return False  # it has been finished meanwhile


def remove_folders(places: Iterable[Path]) -> None:
    """Remove waiting folders of files that nobody has paid for."""
    for place in places:
        remove_folder(place)


def _read_note(path: Path) -> Any:
    number = os.open(path, os.O_RDONLY | _AS_IT_IS)
    with open(number, "rb") as file:  # noqa: PTH123 - a handle, not a path
        if not (_is_own(number) and stat.S_ISREG(os.fstat(number).st_mode)):
            raise ValueError("somebody else's, or no file")
        content = file.read(_LONGEST_NOTE + 1)
    if len(content) > _LONGEST_NOTE:
        raise ValueError("too long")
    return json.loads(content)


def _is_own(number: int) -> bool:
    return os.fstat(number).st_uid == getattr(os, "geteuid", int)()


def _printable(text: str) -> str:
    r"""Return text in which nothing can move a cursor or change a terminal.

    >>> print(_printable("a file\x1b[2J"))
    a file\x1b[2J
    """
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _new_waiting(folder: Path) -> Path:
    return folder / f".chaffinch-{secrets.token_hex(8)}.waiting"


def _waiting(place: Path, note: Mapping[str, Any]) -> StagedFiles:
    files = tuple(
        _WaitingFile(str(name), str(becomes), str(digest), str(before))
        for name, becomes, digest, before in note["files"]
    )
    if any(Path(name).name != name for one in files for name in (one.name, one.becomes)):
        raise ValueError("a path in the place of a name")
    return StagedFiles(
        folder=place,
        payer=str(note["payer"]),
        plan_id=str(note["plan"]),
        key=str(note["key"]),
        subject=str(note["subject"]),
        files=files,
        new=bool(note["new"]),
        command=str(note["command"]),
        request=str(note["request"]),
    )


def _standing(target: Path) -> str | None:
    """Return the SHA-256 of the file in a place: empty if it holds nothing, None if no file."""
    try:
        kind = target.lstat().st_mode
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise storage_fault(target.name, error, verb="write") from None
    if _is_empty(target):
        return ""
    return _digest(target) if stat.S_ISREG(kind) else None


def _is_empty(target: Path) -> bool:
    try:
        found = target.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and not found.st_size


def _is_same(target: Path, other: AnyPath) -> bool:
    try:
        return target.samefile(other)
    except OSError:
        return False


def _digest(path: Path, *, turned: bool = False) -> str:
    """Return the SHA-256 of a file, or of what it is with its first bytes turned back."""
    try:
        with path.open("rb") as file:
            start = file.read(TURNED)
            found = hashlib.sha256(mask_header(start) if turned else start)
            while block := file.read(1 << 20):
                found.update(block)
            return found.hexdigest()
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None


def _turn(path: Path) -> None:
    """Turn the bits of a file's first bytes round, durably: once more, and they are back."""
    try:
        with path.open("r+b") as file:
            start = file.read(TURNED)
            file.seek(0)
            file.write(mask_header(start))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise storage_fault(path.name, error, verb="write") from None


def _turn_back(path: Path, digest: str) -> None:
    if _digest(path) == digest:
        return  # A process that was killed has done so already.
    if _digest(path, turned=True) != digest:
        raise StorageFault(
            f"The waiting file {path.name!r} must be as it was written. Got a changed one.",
            hint=f"it is in the folder {path.parent.name}",
        )
    _turn(path)
