"""What happens to three publishers and a shuffler, and what must hold whenever it ends.

A publisher is at work here too: what it sends is kept beside its filter, sealed once. Whatever
happens, the filters of all three make one batch, which is released and paid for once; who was told
that a filter is there need not send it again; and of what has left the shuffler there is never a
second version, whose fresh flips would show more than was promised.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from chaffinch.keys import KeyFolder
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher import sending
from chaffinch.reach.publisher.sending import send_filter
from chaffinch.reach.release import read_release as read_reach_release
from chaffinch.reach.shuffler.filter_work import FilterWork
from chaffinch.wire.filter_files import columns_from
from tests.services.campaign import NAMES, Campaign
from tests.services.faults.calls import note
from tests.services.faults.scenes import OTHER_LEVEL, End
from tests.services.faults.world import AtWork, make_ledger

_PATIENCE = 30.0
_DIGEST = 32


@dataclass
class ReachWorld(AtWork):
    """The parties of a reach; publishers have their filters and keys below the same folder."""

    plan: ReachPlan

    def __enter__(self) -> Self:
        super().__enter__()
        # Instead of a network, for the life of this process.
        sending.FIRST_PAUSE = 0.0
        vars(sending)["Exchange"] = lambda **_: self.wires
        return self

    def send(self, *names: str) -> list[bool]:
        """Let publishers send their filters; return for each whether it came just now."""
        fresh = []
        for name in names:
            note(f"sent {name}")
            path = self.root / f"{name}.filter"
            fresh.append(send_filter(path, self.plan, self._keys(name), patience=_PATIENCE).new)
            note(f"told {name}")
            self.acknowledged.add(name)
        return fresh

    def work(self, *, complete: bool = True) -> None:
        """Let shuffler and analyzer do what they do; all of it if the filters are complete."""
        (hop,) = self.hops
        work, *_ = hop._works  # noqa: SLF001
        assert isinstance(work, FilterWork)
        (relay,) = work.relays.values()
        last = time.monotonic() + _PATIENCE
        hop.take()
        while complete and not hop.overview().batches.get(self.plan.id):
            assert relay._is_complete(), "acknowledged and lost"  # noqa: SLF001
            assert time.monotonic() < last, hop.held or "nothing leaves the shuffler"
            hop.take()
        self.forward(hop)
        hop.take()
        hop.tick()
        while self.analyzer.step():
            pass

    def paid_for_by(self, batch_id: str) -> str:
        """Return what the release of a batch says it is of."""
        return read_reach_release(self._received.release(batch_id) or b"").batch

    def columns_in(self, batch_id: str) -> dict[str, object]:
        """Return the columns in a batch."""
        return columns_from(self._received.content(batch_id)).body()


@dataclass
class ReachScene:
    """Three publishers, one after the other."""

    plan: ReachPlan

    @classmethod
    def make(cls, root: Path) -> ReachScene:
        scene = cls(Campaign.make(root).plan)
        make_ledger(root)
        return scene

    def play(self, root: Path) -> None:
        """Let things happen: copies, lost messages, and a new key between two filters."""
        with ReachWorld(root, self.plan) as world:
            assert world.send("daily", "daily") == [True, False]
            world.work(complete=False)
            KeyFolder.open(root / "hop-keys").rotate(at_once=True)
            world.follow_keys()
            world.lose("drop-reply")
            assert world.send("radio") == [False], "it came, and the answer was lost"
            world.work(complete=False)
            world.lose("drop-request")
            assert world.send("shop") == [True]
            world.lose("", "drop-request", "", "drop-reply")
            world.work()
            assert world.send(*NAMES) == [False] * 3

    def come_back(self, end: End, root: Path, *, life: int = 1) -> None:
        """Start everything on what is left, send again what nobody was told of, and look."""
        with ReachWorld(root, self.plan, OTHER_LEVEL) as world:
            paid = {entry.subject for entry in world.ledger.entries()} if life == 1 else set()
            world.send(*(name for name in NAMES if name not in end.told))
            world.work()
            self._check(world, end.told, paid)
            if len(end.image) % 3 == 0:
                assert world.send(*NAMES) == [False] * 3, "acknowledged and lost"
                world.work()
                self._check(world, end.told, paid)

    def _check(self, world: ReachWorld, told: frozenset[str], paid: set[str]) -> None:
        (batch,) = world.analyzer.batches()
        assert (batch.state, batch.reports) == ("released", len(NAMES)), (batch.state, batch.why)
        left = {name for name in told if name not in NAMES} | world.wires.left
        assert left <= {batch.id}, "what has left the shuffler is another batch now"
        (record,) = (world.root / "hop" / "handed-over").glob("*.record")
        handed_over = json.loads(record.read_bytes())["columns"]
        assert handed_over.items() <= world.columns_in(batch.id).items()
        kept = [path.stat().st_size for path in (world.root / "hop" / "filters").glob("*.filter")]
        assert kept == [_DIGEST] * len(NAMES), "filters that were shuffled are gone"
        world.check_law(paid)
