"""All parties of a collection in one process, without a network between them.

Everything else is the real code: the collector's application and the thread that writes for it,
the shuffler of every hop, the desks that take batches, the analyzer and its ledger. Whoever made a
world can stop it anywhere and start another one on what is left of its folder.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

from chaffinch.analysis.batch_analysis import STATE, Analyzer
from chaffinch.analysis.received import KnownBatches
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Ledger
from chaffinch.plans.plan import Plan
from chaffinch.privacy import Target
from chaffinch.reach.planning.reach_plan import AnyPlan
from chaffinch.services import front as fronts
from chaffinch.services.analyzer import AnalyzerFront, analyses_of
from chaffinch.services.batch_intake import BatchLimits
from chaffinch.services.collector import Collector, CollectorLimits
from chaffinch.services.front import Front
from chaffinch.services.group_commit import InboxLimits
from chaffinch.services.http import Application, Response
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.shuffling.forwarding import Forwarder, Patience
from chaffinch.shuffling.later_keys import LaterKeys
from chaffinch.tables.parallel import Errands
from chaffinch.wire import media_types
from chaffinch.wire.exchange import Exchange, NoReply, Reply
from tests.services.faults.calls import note
from tests.services.oracle import Collection
from tests.services.servers import asked

PLENTY = Target(1e6, 0.999)
LEVEL = 0.95
_PATIENCE = 30.0


@dataclass(frozen=True)
class Upload:
    """Reports that are sent together, and the numbers in them."""

    name: str
    round: int
    numbers: tuple[int, ...]
    body: bytes


class Wires(Exchange):
    """Stands for the network between the parties: an address leads to an application.

    ``faults`` are used up one a request: ``drop-request`` or ``drop-reply``.
    """

    def __init__(self, run: Callable[[Coroutine[Any, Any, Response]], Response]) -> None:
        super().__init__()
        self._run = run
        self.parties: dict[str, Application] = {}
        self.faults: list[str] = []
        self.left: set[str] = set()
        """The ids of batches that a party has sent, whatever became of them."""

    def ask(
        self,
        method: str,
        url: str,
        body: bytes | IO[bytes] | Iterable[bytes] | None = None,
        *,
        headers: dict[str, str] | None = None,
        most: int,
    ) -> Reply:
        del most  # The parties of a test keep to the limits.
        of_keys = url.endswith("/keys")  # The first hop asks for them whenever it likes.
        fault = self.faults.pop(0) if self.faults and not of_keys else ""
        if fault == "drop-request":
            raise NoReply("a request that was lost", arrived=False)
        where = urlsplit(url)
        content = body if isinstance(body, bytes) else b"".join(body or ())
        media_type = (headers or {}).get("content-type", "")
        if media_type == media_types.BATCH:
            self.left.add(where.path.rpartition("/")[2])
            note(f"told {where.path.rpartition('/')[2]}")
        found = self._run(
            asked(self.parties[where.netloc], method, where.path, content, media_type)
        )
        reply = Reply(found.status, found.body)
        if reply.status in (200, 201) and not of_keys:
            note(f"receipt {where.path}")
        if fault == "drop-reply":
            raise NoReply("a reply that was lost", arrived=True)
        return reply


class _AtOnce(Errands):
    """Does what it is given before it returns: a switch of threads takes longer than most of it."""

    def submit(self, _: str, function: Callable[..., Any], *given: object) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*given))
        except Exception as fault:  # noqa: BLE001 - whoever asks for the result gets it
            done.set_exception(fault)
        return done


def _talk(sender: Forwarder | LaterKeys, wires: Wires) -> None:
    """Let a party talk to others by these wires instead of a network."""
    sender._exchange = wires  # noqa: SLF001
    sender._errands = _AtOnce(1)  # noqa: SLF001


def make_ledger(root: Path) -> None:
    """Make the ledger of an analyzer who can pay for everything."""
    Ledger.create(root / "ledger", role="analyzer", cap=PLENTY, mark=root / "mark")


@dataclass
class AtWork:
    """The parties of any plan, at work below a folder where their keys are."""

    root: Path
    plan: AnyPlan
    level: float = LEVEL
    segment_bytes: int = 1500
    acknowledged: set[str] = field(default_factory=set)

    def __enter__(self) -> Self:
        # Fronts follow their keys when they are told to here, and not once a second: on a busy
        # machine a scene may last longer than keys that were not read again are good for.
        fronts._LONGEST_UNSEEN = math.inf  # noqa: SLF001
        self._loop = asyncio.new_event_loop()
        self.wires = Wires(self._loop.run_until_complete)
        self._fronts: list[Front] = []
        self._collecting: AbstractAsyncContextManager[None] | None = None
        self._start_collector()
        parties = self.plan.parties
        assert parties is not None
        names = [party.name for party in parties.hops]
        for name, party in zip(names[1:], parties.hops[1:], strict=True):
            self.wires.parties[urlsplit(party.address).netloc] = self._desk(name)
        keys, folder = self._keys("analyzer"), self.root / "analyzer"
        limits = BatchLimits(free_bytes=0)
        front = AnalyzerFront(folder, [self.plan], keys, limits=limits)
        self._fronts.append(front.front)
        self.wires.parties[urlsplit(parties.analyzer.address).netloc] = front.application
        settings = ShufflerSettings(
            openers=1, patience=Patience(first_pause=0.0), key_pause_seconds=0.0
        )
        self.hops = [
            Shuffler(self.root / n, self._keys(n), [self.plan], settings, key_grace_seconds=0.0)
            for n in names
        ]
        for hop in self.hops:
            _talk(hop._forwarder, self.wires)  # noqa: SLF001
            _talk(hop.later_keys, self.wires)
        self.see_keys()
        ledger = Ledger.open(self.root / "ledger", mark=self.root / "mark")
        self.ledger = ledger
        self.analyzer = Analyzer(
            folder,
            self._keys("analyzer"),
            analyses_of([self.plan]),
            ledger=ledger,
            level=self.level,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.analyzer.close()
        for hop in self.hops:
            hop.close()
        self._stop_collector()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _keys(self, name: str) -> KeyFolder:
        return KeyFolder.open(self.root / f"{name}-keys")

    def _start_collector(self) -> None:
        inbox = InboxLimits(free_bytes=0, segment_bytes=self.segment_bytes)
        limits = CollectorLimits(inbox=inbox, batches=BatchLimits(free_bytes=0))
        assert self.plan.parties is not None
        first = self.plan.parties.hops[0]
        self._collector = Collector(
            self.root / first.name, [self.plan], self._keys(first.name), limits=limits
        )
        self.wires.parties[urlsplit(first.address).netloc] = self._collector.application
        self._collecting = self._collector.running()
        self._loop.run_until_complete(self._collecting.__aenter__())

    def _stop_collector(self) -> None:
        assert self._collecting is not None
        self._loop.run_until_complete(self._collecting.__aexit__(None, None, None))

    def _desk(self, name: str) -> Application:
        limits = CollectorLimits(batches=BatchLimits(free_bytes=0))
        collector = Collector(self.root / name, [self.plan], self._keys(name), limits=limits)
        self._fronts.append(collector.front)
        return collector.application

    def forward(self, hop: Shuffler) -> None:
        """Hand over what a hop has ready, until all of it has arrived."""
        last = time.monotonic() + _PATIENCE
        while time.monotonic() < last:
            hop.forward()
            batches = hop.overview().batches.get(self.plan.id, Counter())
            if not batches["sealed"] and not batches["acknowledged"]:
                return
        raise AssertionError("a batch does not arrive")

    def follow_keys(self) -> None:
        """Let every front take over keys that have changed, as it does once a second."""
        for front in (self._collector.front, *self._fronts):
            front.refresh()
        self.see_keys()

    def see_keys(self) -> None:
        """Let the first hop see the keys of all behind it, as it does once a minute."""
        parties = self.plan.parties
        assert parties is not None
        for party in (*parties.hops[1:], parties.analyzer):
            url = party.url("v1", "plans", self.plan.id, "keys")
            reply = self.wires.ask("GET", url, most=1 << 20)
            self.hops[0].later_keys.take(self.plan.id, party, reply.body)

    def lose(self, *faults: str) -> None:
        """Let the next messages between parties be lost."""
        self.wires.faults.extend(faults)

    # ------------------------------------------------------------------ what is there

    @property
    def _received(self) -> KnownBatches:
        return KnownBatches(self.root / "analyzer" / STATE)

    def paid_for_by(self, batch_id: str) -> str:
        """Return what the ledger knows a batch by: all that is in it."""
        raise NotImplementedError

    def check_law(self, before: Container[str] = ()) -> None:
        """Check that everything that was taken is somewhere, once, and paid for once.

        What was paid for before an end must be shown as it was made then.
        """
        for hop in self.hops:
            assert all(counts.adds_up for counts in hop.overview().counts.values())
        assert all(counts.adds_up for counts in self.analyzer.counts().values())
        received, batches = self._received, self.analyzer.batches()
        paid = {entry.subject: self.ledger.content_of(entry) for entry in self.ledger.entries()}
        shown = {self.paid_for_by(one.id): received.release(one.id) or b"" for one in batches}
        assert len(self.ledger.entries()) == len(batches), "a release is paid for once"
        assert paid == shown, "what is shown is what was paid for"
        for subject, content in shown.items():
            changed = json.loads(content)["level"] != LEVEL and subject in before
            assert not changed, "what was paid for is another release now"


@dataclass
class World(AtWork):
    """The parties of a survey."""

    plan: Plan

    @classmethod
    def prepare(cls, root: Path, **chosen: Any) -> Collection:
        """Make the keys and the ledger of a new world."""
        collection = Collection.make(root, **chosen)
        make_ledger(root)
        return collection

    def send(self, *uploads: Upload) -> list[int]:
        """Send uploads at the same time; note which are acknowledged, and return all statuses."""

        async def one(upload: Upload) -> int:
            path = f"/v1/plans/{self.plan.id}/rounds/{upload.round}/reports"
            application = self._collector.application
            reply = await asked(application, "POST", path, upload.body, media_types.REPORTS)
            if reply.status == 201:
                note(f"told {upload.name}")
                self.acknowledged.add(upload.name)
            return reply.status

        async def all_at_once() -> list[int]:
            return list(await asyncio.gather(*map(one, uploads)))

        statuses: list[int] = self._loop.run_until_complete(all_at_once())
        return statuses

    def seal(self) -> None:
        """Let what was taken be sealed, as it is when it is old enough."""
        self._stop_collector()
        self._start_collector()

    def work(self) -> None:
        """Let every party do once what it does again and again."""
        for hop in self.hops:
            hop.take()
            hop.tick()
            self.forward(hop)
        while self.analyzer.step():
            pass

    def histogram(self) -> Counter[int]:
        """Return how often each number was released; check what holds for every batch."""
        received = self._received
        found: Counter[int] = Counter()
        for batch in self.analyzer.batches():
            assert batch.state == "released", (batch.state, batch.why)
            assert (batch.replayed, batch.rejected) == (0, 0), batch
            counts = received.tally(batch.id).counts
            assert batch.reports >= self.plan.reports, "a batch below its crowd"
            assert int(counts.sum()) >= self.plan.reports, "a batch below its crowd"
            found.update({int(code): int(counts[code]) for code in counts.nonzero()[0]})
        return found

    def paid_for_by(self, batch_id: str) -> str:
        """Return the digest of the tally of a batch."""
        return self._received.tally(batch_id).digest


def sealed_uploads(
    collection: Collection, shapes: Sequence[tuple[str, int, Sequence[int]]]
) -> list[Upload]:
    """Return uploads of these names, rounds and numbers; a number has one report wherever it is."""
    made: dict[tuple[int, int], bytes] = {}
    for _, number, wanted in shapes:
        new = [one for one in dict.fromkeys(wanted) if (number, one) not in made]
        for one, report in zip(new, collection.seal(new, number), strict=True):
            made[number, one] = report
    return [
        Upload(name, number, tuple(wanted), b"".join(made[number, one] for one in wanted))
        for name, number, wanted in shapes
    ]
