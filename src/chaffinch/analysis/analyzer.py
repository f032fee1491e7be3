"""The analyzer at work: batches that arrived are opened, paid for and released, each once.

Its folder holds ``received`` with the batches as they came, and ``state.sqlite``. A step may be
cut off anywhere and taken again: a batch is opened by one transaction, paid for by one of the
ledger, and its file goes when its release is kept. The file of a refused batch stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chaffinch.analysis.opening import open_batch
from chaffinch.analysis.received import KnownBatch, Received
from chaffinch.analysis.releasing import release_batch
from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Ledger
from chaffinch.parallel import Processes
from chaffinch.planning.plan import Plan, require_plan
from chaffinch.storage.faults import storage_fault
from chaffinch.storage.files import sync_folder
from chaffinch.wire.arrivals import Arrival, Expected, arrived_batches, batch_path
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import HEAD_LENGTH, BatchHead, sign_receipt


@dataclass(frozen=True)
class AnalyzerCounts:
    """What became of the batches of one plan, and of the items in those that were opened."""

    waiting: int = 0
    opened: int = 0
    unpaid: int = 0
    refused: int = 0
    released: int = 0
    items: int = 0
    counted: int = 0
    dummies: int = 0
    replayed: int = 0
    rejected: int = 0

    @property
    def adds_up(self) -> bool:
        """Return whether every item is accounted for."""
        return self.items == self.counted + self.dummies + self.replayed + self.rejected


class Reception:
    """The front of an analyzer: takes batches and gives receipts. Any number work at once."""

    def __init__(self, folder: Path, keys: KeyFolder, plans: Iterable[Plan]) -> None:
        self.folder = folder / "received"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.received = Received(folder / "state.sqlite")
        self.keys = keys
        self.plans = {plan.id: _own(plan, keys) for plan in plans}

    def plan(self, plan_id: str) -> Plan:
        """Return a plan that is run here; Problem for any other."""
        if plan_id not in self.plans:
            raise Problem(Kind.UNKNOWN_PLAN)
        return self.plans[plan_id]

    def arrival(self, plan_id: str, batch_id: str) -> Arrival:
        """Return what takes a batch in; when it is finished, ``receipt`` has its receipt."""
        plan = self.plan(plan_id)
        self.keys.refresh()
        expected = Expected.of(plan, plan.layout.hops)
        return Arrival(self.folder, batch_id, expected, self.keys.opening_keys())

    def receipt(self, plan_id: str, batch_id: str) -> bytes | None:
        """Return the receipt for a batch that is durable here; None for any other."""
        self.plan(plan_id)
        path = batch_path(self.folder, batch_id)
        known = self.received.find(batch_id)
        if known is None and not path.exists():
            return None
        found = _plan_of(path) if known is None else known.plan_id
        return sign_receipt(batch_id, self.keys.identity) if found == plan_id else None


class Analyzer:
    """The work behind: one process opens batches and releases them."""

    def __init__(
        self,
        reception: Reception,
        *,
        ledger: Ledger | None = None,
        level: float = 0.95,
        processes: Processes | None = None,
    ) -> None:
        self._reception = reception
        self._received = reception.received
        self._keys = reception.keys
        self._ledger = None if ledger is None else ledger.of("analyzer")
        self._level = level
        self._processes = processes
        self._asked: set[str] = set()
        self.unreadable: dict[str, str] = {}
        """Batches that were taken and cannot be opened now, and why; they are kept."""

    def step(self) -> int:
        """Open and release all that waits; return how many batches came further."""
        self._keys.refresh()
        done = sum(map(self._open, self._waiting()))
        # What the ledger had no room for is tried once in the life of a process: no cap grows.
        due = [
            batch
            for batch in self._received.batches()
            if batch.state in ("opened", "unpaid") and batch.id not in self._asked
        ]
        done += sum(map(self._release, due))
        self._remove_released()
        self._received.keep_tags_of(set(self._keys.opening_keys()))
        return done

    def needs_key(self, number: int) -> bool:
        """Return whether a batch that is not opened yet needs a key: it must not be destroyed."""
        heads = map(_head_of, self._waiting())
        # A damaged file may be restored, and then needs the key it always needed.
        return any(head is None or head.route[0] == number for head in heads)

    def counts(self) -> dict[str, AnalyzerCounts]:
        """Return what became of all batches, by plan."""
        found = {plan_id: Counter[str]() for plan_id in self._reception.plans}
        for batch in self._received.batches():
            known = found.setdefault(batch.plan_id, Counter())
            known[batch.state] += 1
            for name in ("items", "counted", "dummies", "replayed", "rejected"):
                known[name] += getattr(batch, name)
        for path in self._waiting():
            found.setdefault(_plan_of(path), Counter())["waiting"] += 1
        return {plan_id: AnalyzerCounts(**known) for plan_id, known in found.items()}

    def _waiting(self) -> list[Path]:
        """Return the files of batches that are not opened."""
        known = {batch.id for batch in self._received.batches()}
        return [one for one in arrived_batches(self._reception.folder) if one.stem not in known]

    def _open(self, path: Path) -> bool:
        plan = self._reception.plans.get(_plan_of(path))
        if plan is None:
            self.unreadable[path.stem] = "its plan is not run here"
            return False
        try:
            batch = open_batch(path, plan, self._keys.opening_keys(), self._processes)
        except (InvalidFile, InvalidInput) as fault:
            self.unreadable[path.stem] = fault.message
            return False
        if batch.id != path.stem:
            self.unreadable[path.stem] = "it is another batch than its name says"
            return False
        self.unreadable.pop(path.stem, None)
        self._received.add(batch)
        return True

    def _release(self, batch: KnownBatch) -> bool:
        plan = self._reception.plans.get(batch.plan_id)
        if plan is None:
            return False
        after = release_batch(self._received, batch, plan, ledger=self._ledger, level=self._level)
        self._asked.add(batch.id)
        return after.state != batch.state

    def _remove_released(self) -> None:
        folder = self._reception.folder
        known = {one.id for one in self._received.batches() if one.state == "released"}
        gone = [path for path in arrived_batches(folder) if path.stem in known]
        for path in gone:
            path.unlink()
        if gone:
            sync_folder(folder)


def _own(plan: Plan, keys: KeyFolder) -> Plan:
    """Refuse a plan whose analyzer is somebody else, before anything is promised for it."""
    parties = require_plan(plan).parties
    if parties is None or parties.analyzer.identity != keys.identity_hex:
        raise InvalidInput(
            "plan",
            "one that names the owner of these keys as its analyzer",
            "another",
            hint="`chaffinch keys show` prints the identity; name it in the plan's parties",
        )
    return plan


def _head_of(path: Path) -> BatchHead | None:
    """Return the head of a batch; None for a file whose head is damaged."""
    try:
        with path.open("rb") as file:
            return BatchHead.unpack(file.read(HEAD_LENGTH))
    except InvalidFile:
        return None
    except OSError as error:
        raise storage_fault(path.name, error, verb="read") from None


def _plan_of(path: Path) -> str:
    head = _head_of(path)
    return "" if head is None else head.plan_id
