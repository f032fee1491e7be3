"""Three publishers, a shuffler and an analyzer, with keys, a plan that names them, and filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from chaffinch.analysis.received import KnownBatch
from chaffinch.disk.kill_points import VARIABLE
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Ledger
from chaffinch.plans.parties import Party
from chaffinch.reach.planning.reach_parties import ReachParties
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.services.analyzer import AnalyzerSettings, AnalyzerWorker
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.shuffling.forwarding import Patience
from chaffinch.wire.filter_files import Filter
from tests.forks import Forked
from tests.reach import publishing
from tests.services.commands import waited
from tests.services.oracle import free_port

NAMES = ("daily", "radio", "shop")
IDS = {"daily": range(600), "radio": range(400, 800), "shop": range(700, 1000)}
FRONTS = """
import sys
from pathlib import Path
from chaffinch.keys import KeyFolder
from chaffinch.reach.planning.reach_plan import load_plan
from chaffinch.services.analyzer import AnalyzerFront
from chaffinch.services.batch_intake import BatchLimits
from chaffinch.services.collector import Collector, CollectorLimits
from chaffinch.services.group_commit import InboxLimits
from chaffinch.services.server import Listener, run

root, ports = Path(sys.argv[1]), [int(one) for one in sys.argv[2:]]
plan, free = load_plan(root / "plan.json"), BatchLimits(free_bytes=0)
hop, analyzer = (KeyFolder.open(root / f"{name}-keys") for name in ("hop", "analyzer"))
limits = CollectorLimits(inbox=InboxLimits(free_bytes=0), batches=free)
collector = Collector(root / "hop", [plan], hop, limits=limits)
front = AnalyzerFront(root / "analyzer", [plan], analyzer, limits=free)
applications = (collector.application, front.application)
run(
    [Listener(one, "127.0.0.1", port) for one, port in zip(applications, ports, strict=True)],
    background=[collector.running(), front.front.following_keys()],
    announce=lambda addresses: print(*addresses, flush=True),
)
"""


@dataclass(frozen=True)
class Campaign:
    """Everybody's folders: ``hop``, ``analyzer``, and a filter of each publisher."""

    folder: Path
    plan: ReachPlan
    keys: Mapping[str, KeyFolder]

    @classmethod
    def make(cls, folder: Path) -> Campaign:
        """Return a new one; every publisher has its filter."""
        folder.mkdir(exist_ok=True)
        names = ("hop", "analyzer", *NAMES)
        keys = {name: KeyFolder.create(folder / f"{name}-keys") for name in names}
        named = tuple((name, keys[name].identity_hex) for name in NAMES)
        parties = [
            Party(name, keys[name].identity_hex, f"http://127.0.0.1:{free_port()}")
            for name in ("hop", "analyzer")
        ]
        flip = Fraction(1, 8)
        plan = publishing.small_plan(NAMES, bits=4096, flip=flip, shuffled=flip, title="campaign")
        plan = plan.run_by(ReachParties((parties[0],), parties[1], "x25519", named))
        plan.save(folder / "plan.json")
        for name in ("hop", "analyzer"):
            (folder / name).mkdir()
        made = cls(folder, plan, keys)
        for name in NAMES:
            made.encode(name).save(made.filter(name))
        return made

    def encode(self, name: str) -> Filter:
        """Return a filter of a publisher, with fresh noise."""
        ids = [f"user-{number}" for number in IDS[name]]
        return publishing.encode(ids, self.plan, publisher=name)

    def filter(self, name: str) -> Path:
        """Return where the filter of a publisher is."""
        return self.folder / f"{name}.filter"

    @contextmanager
    def fronts(self, failpoint: str = "") -> Iterator[Forked]:
        """Yield the collector of the shuffler and the front of the analyzer, in one process."""
        parties = self.plan.named_parties
        ports = [one.address.rpartition(":")[2] for one in (parties.hops[0], parties.analyzer)]
        process = Forked(FRONTS, self.folder, *ports, environment={VARIABLE: failpoint})
        try:
            assert process.stdout.readline(), process.stderr.read()
            yield process
        finally:
            process.kill()
            process.communicate()

    def shuffler(self) -> Shuffler:
        """Return the shuffler at work."""
        patience = Patience(first_pause=0.01, longest_pause=0.05)
        settings, place = ShufflerSettings(openers=1, patience=patience), self.folder / "hop"
        return Shuffler(place, self.keys["hop"], [self.plan], settings, key_grace_seconds=0.0)

    def shuffle(self) -> None:
        """Shuffle and hand over what is there, until it has arrived."""
        with self.shuffler() as hop:

            def is_done() -> bool:
                hop.take()
                hop.forward()
                hop.tick()
                return hop.status.batches["purged"] == 1

            waited(is_done)
            assert hop.status.adds_up

    def analyze(self, ledger: Ledger | None = None) -> list[KnownBatch]:
        """Release what has arrived; return all batches."""
        settings = AnalyzerSettings(openers=1)
        folder, keys = self.folder / "analyzer", self.keys["analyzer"]
        with AnalyzerWorker(folder, [self.plan], keys, ledger=ledger, settings=settings) as worker:
            worker.step()
            assert worker.status.adds_up
            return worker.analyzer.batches()
