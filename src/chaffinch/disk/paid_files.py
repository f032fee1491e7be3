"""Files that a budget pays for: written in full, then paid, then in their place.

``commit_paid_files`` does it in this order:

1. every file is written in full, durably, into a waiting folder beside its place, with the
   first bytes turned round so that nothing there can be taken for the real thing;
2. it is paid for, durably;
3. every file gets its first bytes and its name, and the folder is synced.

A full disk fails in step 1, before anything is charged. A process that is killed before step 2
leaves a waiting folder that ``finish_staged`` removes; one killed after it leaves a folder
whose files ``finish_staged`` puts in place, without paying again. Which of the two it was is
known to the payer alone, so its name is noted in the folder, and nobody else touches it.

What waits, and what is noted of it, is told in ``disk.staged``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaffinch.disk.files import AnyPath, is_special
from chaffinch.disk.leftovers import alone_in, remove_leftovers
from chaffinch.disk.staged import (
    StagedFiles,
    Writer,
    find_staged,
    held_folders,
    remove_folders,
    staged_folders,
    write_file,
    write_note,
)
from chaffinch.errors import OUTCOME_UNKNOWN, ChaffinchError, InvalidInput, Unquoted


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

    def noted(self) -> dict[str, str]:
        """Return what is noted of the bill with the files that wait for it."""
        return {
            "payer": self.payer,
            "plan": self.plan_id,
            "key": self.key,
            "subject": self.subject,
            "command": self.command,
            "request": self.request,
        }


def commit_paid_files(
    files: Mapping[Path, Writer],
    bill: Bill | None = None,
    *,
    new: bool = False,
    check: Callable[[], object] = lambda: None,
    tell: Callable[[str], object] = lambda _: None,
) -> None:
    """Write files durably, pay for them, and put them in place.

    A writer gets a path that ends in the file's name. Without a bill nothing is paid, and all
    files still appear together. With ``new`` a file that exists is not replaced. ``check``
    raises where a file must not go; it is asked when nobody else can name files there. When it
    is not known whether the bill was paid, the files are kept waiting and the error passed on.
    ``tell`` is told if another command has to be waited for.
    """
    # Through a link, the file it points to is replaced, and the link stays.
    targets = {path: Path(os.path.realpath(path)) for path in files}
    _refuse_collisions(targets)
    special = [path for path, target in targets.items() if is_special(target)]
    folders = dict.fromkeys(
        target.parent for path, target in targets.items() if path not in special
    )
    noted = {} if bill is None else bill.noted()
    with held_folders(folders) as places, ExitStack() as alone:
        try:
            written = {
                place: [
                    write_file(place / path.name, targets[path].name, write)
                    for path, write in files.items()
                    if path not in special and targets[path].parent == folder
                ]
                for folder, place in places.items()
            }
            # Writing may take hours and needs no lock. From here to the last name nobody else
            # notes, pays or names anything in these folders: so what the note says of each place
            # holds until the files are in it.
            alone.enter_context(_alone_in(folders, tell))
            check()
            waiting = [write_note(place, made, noted, new=new) for place, made in written.items()]
        except BaseException:
            remove_folders(places.values())
            raise
        if bill is not None:
            try:
                _pay(bill)
            except BaseException:
                # Whatever stopped it, Ctrl-C included: it may be paid all the same.
                if not _may_be_paid(bill):
                    remove_folders(places.values())
                raise
        try:
            _put_in_place(waiting)
        except BaseException:
            if bill is None:  # what nobody paid for is made again, not kept
                remove_folders(places.values())
            raise
    for path in special:
        files[path](path)


def _refuse_collisions(targets: Mapping[Path, Path]) -> None:
    # In the waiting folder a file has the name that was asked for, not the one that a link leads
    # to.
    names = {(real.parent, path.name) for path, real in targets.items()}
    if len(names) < len(targets):
        raise InvalidInput(
            "outputs",
            "files of different names",
            Unquoted("links of one name"),
            hint="write one at a time",
        )


def finish_staged(
    targets: Iterable[AnyPath],
    paid: Callable[[StagedFiles], bool | None],
    tell: Callable[[str], None] | None = None,
    *,
    inputs: Sequence[AnyPath] = (),
    refuse_strangers: bool = False,
) -> list[StagedFiles]:
    """Put in place what an ended process has paid for, and remove what it has not.

    Looks for files that become one of ``targets``, wherever links lead. ``paid`` tells which
    is which, and returns None for what another payer has to judge: that is left as it is, and
    ``tell`` is told so. Returns what was put in place. What another process puts in place just
    now is refused. Where a place is not as it was, or is one of ``inputs``, nothing is put in
    place. What another user left is not read: ``tell`` is told of it, or it is refused, by whoever
    would pay again for what may be paid for there.
    """
    names: dict[Path, set[str]] = {}
    for target in targets:
        real = Path(os.path.realpath(target))
        names.setdefault(real.parent, set()).add(real.name)
    finished = []
    with ExitStack() as held:
        for folder, wanted in names.items():
            remove_leftovers(folder)
            for place in staged_folders(folder, tell, refuse_strangers=refuse_strangers):
                waiting = held.enter_context(find_staged(place, wanted))
                if waiting is None:
                    continue
                verdict = paid(waiting) if waiting.payer else False
                if verdict:
                    finished.append(waiting)
                elif verdict is False:
                    shutil.rmtree(place, ignore_errors=True)
                elif tell is not None:
                    tell(str(waiting))
        with _alone_in((one.folder.parent for one in finished), tell or (lambda _: None)):
            for one in finished:
                one.check_places(inputs)
            for one in finished:  # one by one: two of them may be for one place
                _put_in_place([one])
    return finished


def _put_in_place(waiting: Sequence[StagedFiles]) -> None:
    # All places are checked before the first name is given: all files appear, or none. The caller
    # holds the locks of the folders, so no place changes in between by a command of ours.
    for one in waiting:
        one.check_places()
    for one in waiting:
        one.put_in_place()


@contextmanager
def _alone_in(folders: Iterable[Path], tell: Callable[[str], object]) -> Iterator[None]:
    """Let one process at a time note what stands in some folders, pay, and name files there.

    A folder is locked once, whatever leads to it, and all processes lock in the same order.
    """
    found = {}
    for folder in folders:
        status = folder.stat()
        found[status.st_dev, status.st_ino] = folder
    with ExitStack() as held:
        for _, folder in sorted(found.items()):
            held.enter_context(alone_in(folder, "naming", tell=tell))
        yield


def _pay(bill: Bill) -> None:
    # Where a fault of the disk leaves open whether it was paid, a second try settles that: the same
    # bill is paid once, however often it is tried.
    try:
        bill.pay()
    except ChaffinchError as error:
        if error.reason not in OUTCOME_UNKNOWN:
            raise
        bill.pay()


def _may_be_paid(bill: Bill) -> bool:
    try:
        return bill.paid()
    except ChaffinchError:
        return True  # Unknown: to keep files that nobody paid for loses nothing.
