"""Files that a budget pays for: written in full, then paid, then in their place.

``hand_out`` does it in this order:

1. every file is written in full, durably, into a waiting folder beside its place, with the
   first bytes turned round so that nothing there can be taken for the real thing;
2. it is paid for, durably;
3. every file gets its first bytes and its name, and the folder is synced.

A full disk fails in step 1, before anything is charged. A process that is killed before step 2
leaves a waiting folder that ``finish_waiting`` removes; one killed after it leaves a folder
whose files ``finish_waiting`` puts in place, without paying again. Which of the two it was is
known to the payer alone, so its name is noted in the folder, and nobody else touches it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chaffinch.errors import ChaffinchError, InvalidInput, Reason, StorageFault
from chaffinch.files import (
    TURNED,
    atomic,
    remove_folder,
    remove_leftovers,
    storage_fault,
    sync_folder,
    turn_round,
    turned_round,
)
from chaffinch.locks import has_name, make_locked_folder, try_lock

AnyPath = str | os.PathLike[str]
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


@dataclass(frozen=True)
class Waiting:
    """Files in a waiting folder that are complete, and what pays for them."""

    folder: Path
    payer: str
    """Who pays, as in the bill; empty if nobody does."""
    plan_id: str
    key: str
    subject: str
    files: tuple[tuple[str, str, str], ...]
    """Of every file: its name, the name of what it becomes, and its SHA-256."""
    new: bool
    """Whether a file that exists is left alone instead of replaced."""
    command: str

    def put_in_place(self) -> None:
        """Give every file its first bytes and its name."""
        for name, becomes, digest in self.files:
            place, target = self.folder / name, self.folder.parent / becomes
            try:
                if place.exists():
                    _turn_back(place, digest)
                    _give_name(place, target, new=self.new)
                elif not (target.is_file() and _digest(target) == digest):
                    # Otherwise a process that was stopped has put it in its place already.
                    raise StorageFault(
                        f"The waiting file {becomes!r} must be there. Got none.",
                        hint="somebody removed what was paid for, or changed what was in place; "
                        f"to give it up, remove the folder {self.folder.name}",
                    )
            except OSError as error:
                fault = storage_fault(becomes, error, verb="write")
                raise StorageFault(
                    fault.message,
                    hint="nothing is lost: make way for it, and run the same command again",
                    details=fault.details,
                ) from None
        with suppress(OSError):
            sync_folder(self.folder.parent)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __str__(self) -> str:
        """Return what somebody else's waiting files are, and how they get into their place."""
        names = ", ".join(becomes for _, becomes, _ in self.files)
        finish = f"finish with: {self.command}" if self.command else "its command finishes it"
        return (
            f"left alone: {names} in {self.folder}, which another ledger or key may have paid "
            f"for; {finish}"
        )


def hand_out(files: Mapping[Path, Writer], bill: Bill | None = None, *, new: bool = False) -> None:
    """Write files durably, pay for them, and put them in place.

    A writer gets a path that ends in the file's name. Without a bill nothing is paid, and all
    files still appear together. With ``new`` a file that exists is not replaced. When it is
    not known whether the bill was paid, the files are kept waiting and the error passed on.
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
            written = [
                _write(
                    place,
                    {
                        path.name: (targets[path].name, write)
                        for path, write in files.items()
                        if path not in special and targets[path].parent == folder
                    },
                    bill,
                    new=new,
                )
                for folder, place in places.items()
            ]
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
            for one in written:
                one.put_in_place()
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
) -> list[Waiting]:
    """Put in place what an ended process has paid for, and remove what it has not.

    Looks for files that become one of ``targets``, wherever links lead. ``paid`` tells which
    is which, and returns None for what another payer has to judge: that is left as it is, and
    ``tell`` is told so. Returns what was put in place. Folders of processes that still run
    are left alone.
    """
    names: dict[Path, set[str]] = {}
    for target in targets:
        real = Path(os.path.realpath(target))
        names.setdefault(real.parent, set()).add(real.name)
    finished = []
    for folder, wanted in names.items():
        remove_leftovers(folder)
        for place in _waiting_folders(folder):
            with _found(place) as waiting:
                if waiting is None or not {becomes for _, becomes, _ in waiting.files} & wanted:
                    continue
                verdict = paid(waiting) if waiting.payer else False
                if verdict:
                    waiting.put_in_place()
                    finished.append(waiting)
                elif verdict is False:
                    shutil.rmtree(place, ignore_errors=True)
                elif tell is not None:
                    tell(str(waiting))
    return finished


@contextmanager
def _found(place: Path) -> Iterator[Waiting | None]:
    """Yield what waits in a folder, locked; None if there is nothing, or somebody works there.

    A folder without a note was never complete, and is removed. A note that cannot be read may
    be that of something paid, so its folder stays.
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
                found = None
        yield found
    finally:
        os.close(number)


def _waiting_folders(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.iterdir())
    except OSError:
        return []
    return [one for one in found if _WAITING.fullmatch(one.name) and not one.is_symlink()]


def _write(
    place: Path, files: Mapping[str, tuple[str, Writer]], bill: Bill | None, *, new: bool
) -> Waiting:
    """Write files into a waiting folder, and last of all the note that they are complete."""
    written = []
    for name, (becomes, write) in files.items():
        path = place / name
        with turned_round() as turned:
            write(path)
        if path.resolve() not in turned:  # written in some other way than by ``atomic``
            _turn(path)
        written.append((name, becomes, _digest(path, turned=True)))
    note: dict[str, Any] = {
        "payer": "" if bill is None else bill.payer,
        "plan": "" if bill is None else bill.plan_id,
        "key": "" if bill is None else bill.key,
        "subject": "" if bill is None else bill.subject,
        "files": written,
        "new": new,
        "command": "" if bill is None else bill.command,
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
    files = tuple((str(name), str(becomes), str(digest)) for name, becomes, digest in note["files"])
    if any(Path(name).name != name for names in files for name in names[:2]):
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
