"""Named places in the code where a test can kill the process.

``kill_point("inbox.written")`` does nothing unless the environment variable
``CHAFFINCH_FAILPOINT`` names that place: then the process kills itself there with SIGKILL.
``inbox.written:3`` means the third time that the process comes by.

Every place is listed here, and a test kills a process at each.
"""

from __future__ import annotations

import os
import signal

from chaffinch.errors import InvalidInput

VARIABLE = "CHAFFINCH_FAILPOINT"

PLACES: dict[str, str] = {
    # A device that sends a report.
    "client.kept": "a report is in the outbox, and nothing has paid for it",
    "client.charged": "the ledger has paid, and the outbox does not know of it",
    "client.sealed": "the bytes that are sent are kept, and nothing is sent",
    "client.sending": "a copy is noted to be on its way, and is not",
    "client.delivered": "the first hop has the report, and the outbox does not know of it",
    # The collector of a first hop.
    "collector.read": "a body has been read, and nothing of it is stored",
    "inbox.created": "a new segment has its name, and holds nothing",
    "inbox.written": "a block has been written, and is not synced",
    "inbox.synced": "a block is on the disk, and nobody has been told",
    "inbox.sealing": "a segment is complete, and still has the name of an open one",
    "inbox.sealed": "a segment has the name of a sealed one, and its folder is not synced",
    # The shuffler: opening segments, and batches of the hop before.
    "opening.aside": "a damaged segment has its other name, and nothing of it is taken",
    "opening.opened": "the reports of a segment are opened, and nothing is written",
    "opening.taken": "a segment is taken over, and not committed",
    "opening.committed": "a segment is taken over, and its file is still there",
    "opening.removed": "the file of a segment is gone, and the state still knows its name",
    "opening.forgotten": "the tags of a destroyed key are deleted, and not committed",
    "relaying.claimed": "the tags of a batch of the hop before are taken, and not committed",
    "relaying.written": "the next batch is in the outbox, and nothing is committed",
    "relaying.committed": "the next batch is known, and the one before is still there",
    # The shuffler: batches of its own.
    "outbox.ordering": "the items of a batch are read, and have no order yet",
    "outbox.written": "a batch is written, and is not synced",
    "outbox.named": "a batch has its name, and its folder is not synced",
    "releasing.written": "batches are in the outbox, and the state does not know of them",
    "releasing.taken": "batches are known and their reports gone, and nothing is committed",
    "releasing.committed": "batches are known and their reports gone, and nothing is sent",
    # The first hop: keys of the parties behind it.
    "later-keys.written": "a new list of keys is written, and not committed",
    "later-keys.kept": "a new list of keys is kept, and nobody was given it",
    # The shuffler: handing over.
    "forwarding.replied": "the next party has answered, and its receipt is not kept",
    "forwarding.acknowledged": "the receipt is kept, and the batch is still there",
    "forwarding.removed": "the batch is gone, and the state does not know that",
    # A service that starts for the first time.
    "data.named": "the folder for data has a name, and the keys have not noted it",
    # The key folder of a party.
    "keys.created": "a new key folder is complete, and does not have its name",
    "keys.key-written": "a new key is on the disk, and the set does not name it",
    "keys.set-written": "the set names what has changed, and nobody has been told",
    "keys.marked-destroyed": "the set calls a key destroyed, and its file is still there",
    "keys.file-wiped": "the file of a key is overwritten, and still has its name",
    # A batch that arrives at a later hop or at the analyzer, or a filter at the shuffler.
    "arrival.written": "a batch is complete, and is not synced",
    "arrival.synced": "a batch is on the disk, and does not have its name",
    "arrival.named": "a batch has its name, and its folder is not synced",
    "arrival.stored": "a batch is durable, and its sender has not been told",
    # The shuffler of a reach.
    "filters.shuffled": "what was counted is kept, and no batch of it is written",
    "filters.written": "the columns are in the outbox, and the state does not know of them",
    "filters.committed": "the columns are known, and the filters are still there",
    "filters.purged": "a digest has taken the place of the first filter, and not of the others",
    # The analyzer, and the ledger that pays for what it releases.
    "analyzer.counted": "tags are taken and messages counted, and nothing is committed",
    "analyzer.opened": "tags and tally are committed, and nothing is released",
    "analyzer.joined": "short batches are one batch, and nothing of it is released",
    "ledger.written": "a charge and what it pays for are written, and not committed",
    "ledger.charged": "both are committed, and the mark does not know of it",
    "analyzer.paid": "the ledger holds the release, and the analyzer does not know of it",
    "analyzer.released": "the release is there, and the file of its batch as well",
}
"""What has just happened at each place."""


def kill_point(place: str) -> None:
    """Kill this process if a test wants it killed here."""
    if _wanted is not None:
        _wanted.pass_by(place)


def arm(text: str) -> None:
    """Let this process be killed at a place from now on, as the variable does from its start."""
    global _wanted  # noqa: PLW0603 - one place for a process
    _wanted = _Wanted(text)


class _Wanted:
    def __init__(self, text: str) -> None:
        self.place, _, number = text.partition(":")
        if self.place not in PLACES or not (number or "1").isdecimal():
            # A word that is misspelt would make a test that never kills anything.
            raise InvalidInput(VARIABLE, "a place of disk.kill_points, or place:number", text)
        self.left = int(number or "1")

    def pass_by(self, place: str) -> None:
        if place not in PLACES:
            raise InvalidInput("failpoint", "one that is listed in disk.kill_points", place)
        if place == self.place:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


_wanted = _Wanted(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None
