"""Files that a budget pays for: written in full, then paid, then in their place.

``hand_out_files`` does it in this order:

1. every file is written in full, durably, into a waiting folder beside its place, with the
   first bytes turned round so that nothing there can be taken for the real thing;
2. it is paid for, durably;
3. every file gets its first bytes and its name, and the folder is synced.

A full disk fails in step 1, before anything is charged. A process that is killed before step 2
leaves a waiting folder that ``finish_waiting`` removes; one killed after it leaves a folder
whose files ``finish_waiting`` puts in place, without paying again. Which of the two it was is
known to the payer alone, so its name is noted in the folder, and nobody else touches it.

The note also tells what stood in each place. A place that holds something else by the time the
files are named, a key or another release, is not theirs any more: then none is named, and all
of them keep waiting. One process at a time notes what stands in a folder, or names files there.
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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chaffinch.errors import ChaffinchError, InvalidInput, Reason, StorageFault
from chaffinch.files import (
    TURNED,
    AnyPath,
    atomic,
    remove_folder,
    remove_leftovers,
    storage_fault,
    sync_folder,
    turn_round,
    turned_round,
)
from chaffinch.locks import has_name, make_locked_folder, try_lock, wait_for_lock

Writer = Callable[[Path], object]

_WAITING = re.compile(r"\.chaffinch-[0-9a-f]{16}\.waiting")
_NOTE = "waiting.json"
_LOOK = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True)
class Bill:
    """What is paid for the files that are handed out."""

    payer: str
    """Who pays: the name of a ledger, or of the record of a key. Nobody else can judge it."""
    plan_id: str
    key: str
    """What the occasion is called."""
    subject: str
    """The digest or name of what is handed out."""
    pay: Callable[[], object]
    """Pay durably, or raise; paying the same bill twice costs once."""
    paid: Callable[[], bool]
    """Return whether it is paid, as far as is known; may raise where that cannot be known."""
    command: str = ""
    """What people run to finish it when it was stopped."""
    request: str = ""
    """The digest of all that was asked for, where the same command again must ask the same."""


@dataclass(frozen=True)
class _WaitingFile:
    """One file in a waiting folder."""

    name: str
    becomes: str
    """The name of what it becomes."""
    digest: str
    """The SHA-256 of what it becomes."""
    before: str
    """The SHA-256 of what stood in its place when the note was written; empty if nothing did."""


@dataclass(frozen=True)
class Waiting:
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
            if found != file.before or any(_is_same(target, one) for one in inputs):
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
        waiting = [file for file in self.files if (self.folder / file.name).exists()]
        for file in waiting:
            _turn_back(self.folder / file.name, file.digest)
        for file in waiting:
            try:
                _give_name(self.folder / file.name, self.folder.parent / file.becomes, new=self.new)
            except OSError as error:
                fault = storage_fault(file.becomes, error, verb="write")
                raise StorageFault(
                    fault.message,
                    hint="nothing is lost: make way for it, and run the same command again",
                    details=fault.details,
                ) from None
        with suppress(OSError):
            sync_folder(self.folder.parent)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def finish(self) -> str:
        """Return how the files get into their place."""
        return f"finish with: {self.command}" if self.command else "its command finishes it"

    def __str__(self) -> str:
        """Return what somebody else's waiting files are, and how they get into their place."""
        names = ", ".join(file.becomes for file in self.files)
        return (
            f"left alone: {names} in {self.folder}, which another ledger or key may have paid "
            f"for; {self.finish}"
        )


def hand_out_files(
    files: Mapping[Path, Writer],
    bill: Bill | None = None,
    *,
    new: bool = False,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Write files durably, pay for them, and put them in place.

    A writer gets a path that ends in the file's name. Without a bill nothing is paid, and all
    files still appear together. With ``new`` a file that exists is not replaced. ``check``
    raises where a file must not go; it is asked when nobody else can name files there. When it
    is not known whether the bill was paid, the files are kept waiting and the error passed on.
    """
    # Through a link, the file it points to is replaced, and the link stays.
    targets = {path: Path(os.path.realpath(path)) for path in files}
    _refuse_collisions(targets)
    special = [path for path, target in targets.items() if _is_special(target)]
    folders = dict.fromkeys(
        target.parent for path, target in targets.items() if path not in special
    )
    with _holding(folders) as places:
        try:
            written = {
                place: [
                    _write(place / path.name, targets[path].name, write)
                    for path, write in files.items()
                    if path not in special and targets[path].parent == folder
                ]
                for folder, place in places.items()
            }
            with _alone_in(folders):
                check()
                waiting = [_note(place, made, bill, new=new) for place, made in written.items()]
        except BaseException:
            _remove(places.values())
            raise
        if bill is not None:
            try:
                _pay(bill)
            except BaseException:
                # Whatever stopped it, Ctrl-C included: it may be paid all the same.
                if not _may_be_paid(bill):
                    _remove(places.values())
                raise
        try:
            _put_in_place(waiting)
        except BaseException:
            if bill is None:  # what nobody paid for is made again, not kept
                _remove(places.values())
            raise
    for path in special:
        files[path](path)


def _refuse_collisions(targets: Mapping[Path, Path]) -> None:
    """Refuse links of one name to different files in one folder: they could not wait together."""
    names = {(real.parent, path.name) for path, real in targets.items()}
    if len(names) < len(targets):
        raise InvalidInput(
            "outputs", "files of different names", "links of one name", hint="write one at a time"
        )


def finish_waiting(
    targets: Iterable[AnyPath],
    paid: Callable[[Waiting], bool | None],
    tell: Callable[[str], None] | None = None,
    *,
    inputs: Sequence[AnyPath] = (),
) -> list[Waiting]:
    """Put in place what an ended process has paid for, and remove what it has not.

    Looks for files that become one of ``targets``, wherever links lead. ``paid`` tells which
    is which, and returns None for what another payer has to judge: that is left as it is, and
    ``tell`` is told so. Returns what was put in place. Folders of processes that still run
    are left alone. Where a place is not as it was, or is one of ``inputs``, nothing is put in
    place.
    """
    names: dict[Path, set[str]] = {}
    for target in targets:
        real = Path(os.path.realpath(target))
        names.setdefault(real.parent, set()).add(real.name)
    finished = []
    with ExitStack() as held:
        for folder, wanted in names.items():
            remove_leftovers(folder)
            for place in _waiting_folders(folder):
                waiting = held.enter_context(_found(place))
                if waiting is None or not {file.becomes for file in waiting.files} & wanted:
                    continue
                verdict = paid(waiting) if waiting.payer else False
                if verdict:
                    finished.append(waiting)
                elif verdict is False:
                    shutil.rmtree(place, ignore_errors=True)
                elif tell is not None:
                    tell(str(waiting))
        for one in finished:
            one.check_places(inputs)
        for one in finished:  # one by one: two of them may be for one place
            _put_in_place([one])
    return finished


def _put_in_place(waiting: Sequence[Waiting]) -> None:
    """Give files their names, if every place is as it was noted."""
    with _alone_in(one.folder.parent for one in waiting):
        for one in waiting:
            one.check_places()
        for one in waiting:
            one.put_in_place()


@contextmanager
def _alone_in(folders: Iterable[Path]) -> Iterator[None]:
    """Let one process at a time note what stands in some folders, or name files there.

    A folder is locked once, whatever leads to it, and all processes lock in the same order.
    """
    with ExitStack() as held:
        with suppress(OSError):  # a disk without locks
            numbers = {}
            for folder in folders:
                number = os.open(folder, os.O_RDONLY)
                held.callback(os.close, number)
                status = os.fstat(number)
                numbers[status.st_dev, status.st_ino] = number
            for _, number in sorted(numbers.items()):
                wait_for_lock(number)
        yield


@contextmanager
def _found(place: Path) -> Iterator[Waiting | None]:
    """Yield what waits in a folder, locked; None if there is nothing, or somebody works there.

    A folder without a note was never complete, and is removed. A note that cannot be read may
    be that of something paid, which must not be paid again: it stays, and is refused.
    """
    try:
        number = os.open(place, _LOOK)
    except OSError:
        yield None  # it has been finished meanwhile
        return
    try:
        found = None
        if try_lock(number) is True and has_name(number, place):
            try:
                found = _waiting(place, json.loads((place / _NOTE).read_bytes()))
            except FileNotFoundError:
                shutil.rmtree(place, ignore_errors=True)
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                raise StorageFault(
                    f"The note in the folder {place.name!r} must be whole. Got a damaged one.",
                    hint="what waits there may be paid for, by this command or another one; "
                    "to go on without it, move that folder elsewhere",
                ) from None
        yield found
    finally:
        os.close(number)


def _waiting_folders(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [one for one in found if _WAITING.fullmatch(one.name) and not one.is_symlink()]


def _write(path: Path, becomes: str, write: Writer) -> tuple[str, str, str]:
    """Write a file into a waiting folder; return its name, what it becomes, and its SHA-256."""
    with turned_round() as turned:
        write(path)
    if path.resolve() not in turned:  # written in some other way than by ``atomic``
        _turn(path)
    return path.name, becomes, _digest(path, turned=True)


def _note(
    place: Path, written: Iterable[tuple[str, str, str]], bill: Bill | None, *, new: bool
) -> Waiting:
    """Write the note that the files in a waiting folder are complete, and for which places."""
    files = []
    for name, becomes, digest in written:
        before = "" if new else _standing(place.parent / becomes)
        if before is None:
            raise storage_fault(becomes, OSError(errno.EISDIR, ""), verb="write")
        files.append((name, becomes, digest, before))
    note: dict[str, Any] = {
        "payer": "" if bill is None else bill.payer,
        "plan": "" if bill is None else bill.plan_id,
        "key": "" if bill is None else bill.key,
        "subject": "" if bill is None else bill.subject,
        "files": files,
        "new": new,
        "command": "" if bill is None else bill.command,
        "request": "" if bill is None else bill.request,
    }
    with atomic(place / _NOTE, permissions=stat.S_IRUSR | stat.S_IWUSR) as file:
        file.write(json.dumps(note).encode())
    with suppress(OSError):
        sync_folder(place.parent)
    return _waiting(place, note)


def _give_name(place: Path, target: Path, *, new: bool) -> None:
    if new:
        # Unlike a renaming, this fails where another file came first. A process that was killed
        # right after it has left both names to the one file.
        if not (target.exists() and place.samefile(target)):
            os.link(place, target)
        place.unlink()
        return
    with suppress(FileNotFoundError):
        # What only its owner could read stays so.
        place.chmod(stat.S_IMODE(target.stat().st_mode) & stat.S_IMODE(place.stat().st_mode))
    place.replace(target)


def _is_special(target: Path) -> bool:
    """Return whether a target is a device or a pipe, which is written to directly."""
    try:
        kind = target.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def _remove(places: Iterable[Path]) -> None:
    for place in places:
        remove_folder(place)


def _waiting(place: Path, note: Mapping[str, Any]) -> Waiting:
    files = tuple(
        _WaitingFile(str(name), str(becomes), str(digest), str(before))
        for name, becomes, digest, before in note["files"]
    )
    if any(Path(name).name != name for one in files for name in (one.name, one.becomes)):
        raise ValueError("a path in the place of a name")
    return Waiting(
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


def _pay(bill: Bill) -> None:
    """Pay a bill; where a fault of the disk leaves open whether it was paid, ask once more."""
    try:
        bill.pay()
    except ChaffinchError as error:
        if error.reason is not Reason.UNCERTAIN:
            raise
        bill.pay()


def _may_be_paid(bill: Bill) -> bool:
    try:
        return bill.paid()
    except ChaffinchError:
        return True


@contextmanager
def _holding(folders: Iterable[Path]) -> Iterator[dict[Path, Path]]:
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


def _new_waiting(folder: Path) -> Path:
    return folder / f".chaffinch-{secrets.token_hex(8)}.waiting"


def _standing(target: Path) -> str | None:
    """Return the SHA-256 of the file in a place: empty if nothing is there, None if no file."""
    try:
        kind = target.lstat().st_mode
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise storage_fault(target.name, error, verb="write") from None
    return _digest(target) if stat.S_ISREG(kind) else None


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
            found = hashlib.sha256(turn_round(start) if turned else start)
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
            file.write(turn_round(start))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise storage_fault(path.name, error, verb="write") from None


def _turn_back(path: Path, digest: str) -> None:
    """Make a waiting file what it was, unless a process that was killed has done so already."""
    if _digest(path) == digest:
        return
    if _digest(path, turned=True) != digest:
        raise StorageFault(
            f"The waiting file {path.name!r} must be as it was written. Got a changed one.",
            hint=f"it is in the folder {path.parent.name}",
        )
    _turn(path)
