"""The release rule: reports leave when their crowd is there, and never before.

Reports are released by partition: those of one plan, one round and one way to the analyzer. At
every tick a partition goes if it has as many different reports as the plan counts on, and as many
messages as these have at least; otherwise all of it waits for the next one. Nothing else releases
reports: no stop, no key that is destroyed, no command.

More reports than the largest batch has are split at random into parts of nearly one size. As
the largest batch is at least twice the crowd, each part has its crowd. Where a part would have too
few messages, another split is tried, into half as many parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from chaffinch.disk.kill_points import kill_point
from chaffinch.errors import checks
from chaffinch.plans.plan import Plan
from chaffinch.sampling import Words, permutation
from chaffinch.shuffling.batch_outbox import Items, Outbox, items_of
from chaffinch.shuffling.state import Partition, Sealed, State
from chaffinch.wire.messages import Origin
from chaffinch.wire.sealed_batches import BatchHead

LARGEST_BATCH = 1_000_000
"""Reports of a batch, unless a plan counts on more."""


@dataclass(frozen=True)
class ReleaseRule:
    """When reports leave, and how many at most together."""

    largest_batch: Annotated[int, "reports; more are split at random, each part with its crowd"] = (
        LARGEST_BATCH
    )
    most_ticks: Annotated[
        int | None,
        "after which a report without a crowd is dropped, and counted; without this it waits for "
        "ever",
        1000,
    ] = None

    def __post_init__(self) -> None:
        checks.whole("largest batch", self.largest_batch, least=1)
        if self.most_ticks is not None:
            checks.whole("ticks that a report may wait", self.most_ticks, least=1)

    def parts(self, reports: int, crowd: int) -> int:
        """Return into how many batches so many reports are split; none if the crowd is missing."""
        largest = max(self.largest_batch, 2 * crowd)
        return -(-reports // largest) if reports >= crowd else 0


class Releaser:
    """Makes batches of the pool at every tick."""

    def __init__(
        self,
        state: State,
        plans: Mapping[str, Plan],
        outbox: Outbox,
        words: Words,
        rule: ReleaseRule,
    ) -> None:
        self._state = state
        self._plans = plans
        self._outbox = outbox
        self._words = words
        self._rule = rule
        self.short: set[str] = set()
        """Plans whose crowd has come, as of the last tick, and has too few messages."""

    def tick(self) -> list[str]:
        """Release what has its crowd, drop what is too old; return the ids of new batches."""
        made = []
        self.short.clear()
        for partition, reports in self._state.partitions().items():
            plan = self._plans.get(partition.plan_id)
            if plan is not None and self._rule.parts(reports, plan.reports):
                made += self._release(partition, plan)
        # While nothing waits no tick passes: the clock is only for the age of reports.
        if self._state.partitions():
            with self._state.changing() as change:
                change.pass_tick()
                if self._rule.most_ticks is not None:
                    change.expire(self._rule.most_ticks)
        return made

    def _release(self, partition: Partition, plan: Plan) -> list[str]:
        sizes = np.frombuffer(b"".join(self._state.sizes(partition)), "<u4").astype(np.int64)
        # Whoever comes next would refuse parts with fewer messages: strangers have sent reports
        # with next to nothing in them. Fewer parts have more; with more honest reports one passes.
        enough = int(sizes.sum()) // max(1, plan.least_items)
        parts = min(self._rule.parts(len(sizes), plan.reports), enough)
        while parts:
            chosen = split(self._words, len(sizes), parts)
            if np.bincount(chosen, weights=sizes).min() >= plan.least_items:
                break
            # Half as many are twice as large: however often it is tried, hardly any chance is
            # added that liars crowd into one of them (docs/concepts/honest-people.md).
            parts //= 2
        else:
            self.short.add(partition.plan_id)
            return []
        batches = [
            self._write(partition, plan, sizes[chosen == part], chosen == part)
            for part in range(parts)
        ]
        # The files are durable before the state knows of them. After a kill in between, the reports
        # are still in the pool, the files are orphans, and the next tick makes other batches.
        kill_point("releasing.written")
        with self._state.changing() as change:
            for batch in batches:
                change.add_batch(batch)
            change.take_from_pool(partition, len(sizes))
            change.count(partition.plan_id, {"batched": len(sizes)})
            kill_point("releasing.taken")
        kill_point("releasing.committed")
        return [batch.id for batch in batches]

    def _write(
        self,
        partition: Partition,
        plan: Plan,
        sizes: NDArray[np.int64],
        chosen: NDArray[np.bool_],
    ) -> Sealed:
        reports, items = len(sizes), int(sizes.sum())
        # Every part once more: nothing leaves without its crowd, whatever the split has done.
        Origin.of(plan, partition.round).check_crowd(reports, items)
        length = plan.layout.item_length(1)
        head = BatchHead(*partition[:2], 1, partition.route, reports, items, length)
        batch_id = self._outbox.write(head, self._items(partition, length, chosen))
        return Sealed(batch_id, *partition[:2], reports, items)

    def _items(
        self, partition: Partition, length: int, chosen: NDArray[np.bool_]
    ) -> Iterator[Items]:
        first = 0
        for pooled in self._state.pooled(partition):
            sizes = np.frombuffer(pooled.sizes, "<u4")
            mine = chosen[first : first + len(sizes)]
            first += len(sizes)
            yield items_of(pooled.items, length)[np.repeat(mine, sizes)]


def split(words: Words, reports: int, parts: int) -> NDArray[np.int64]:
    """Return to which part each report goes: any split into parts of nearly one size alike."""
    # Ranks in a uniform order, cut into runs of nearly one length.
    return permutation(words, reports) * parts // max(1, reports)
