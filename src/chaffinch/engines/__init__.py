"""Bulk work on files, behind one small protocol."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from chaffinch.errors import checks

if TYPE_CHECKING:
    from chaffinch.disk.files import AnyPath
    from chaffinch.plans.plan import Plan
    from chaffinch.privacy import Target
    from chaffinch.reach.analyzer.logos import Logos
    from chaffinch.reach.planning.reach_plan import ReachPlan
    from chaffinch.reach.publisher.campaign_key import CampaignKey
    from chaffinch.reach.publisher.filter_making import Loaded
    from chaffinch.reach.publisher.ids import IdColumns
    from chaffinch.tables.parallel import Progress
    from chaffinch.wire.batches import BatchFacts
    from chaffinch.wire.filter_files import Filter
    from chaffinch.wire.messages import Tally

__all__ = ["engine"]

ENGINES = {
    "local": ("chaffinch.engines.local", "Local"),
    "spark": ("chaffinch.engines.spark.engine", "Spark"),
}
"""Where each engine is, by the name it is asked for by."""

PATIENCE = 120.0
"""Seconds to wait for a free worker, of an engine that has workers."""


class Engine(Protocol):
    """Encode, shuffle and tally collections, and count audiences, of any size.

    Same input, same plan: the same law of messages, the same tally, the same release, whoever
    does the work. A plan is verified by the engine before the first message is encoded.
    """

    @property
    def name(self) -> str:
        """Return the name it is asked for by."""
        ...

    def encode(
        self,
        source: Any,
        plan: Plan,
        target: Any,
        *,
        round: int | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> BatchFacts:
        """Read a table and write the messages of its reports; nothing is left of a failure."""
        ...

    def shuffle(
        self,
        sources: Sequence[Any],
        plan: Plan,
        target: Any,
        *,
        record: AnyPath | None = None,
        progress: Progress | None = None,
    ) -> BatchFacts:
        """Write the messages of encoded files in a uniform order; refuse too small a crowd.

        What went into a batch is kept in a ``record``, and refused a second time.
        """
        ...

    def tally(
        self, sources: Sequence[Any], plan: Plan, *, progress: Progress | None = None
    ) -> Tally:
        """Return the tally of shuffled files."""
        ...

    def make_filter(
        self,
        source: Any,
        plan: ReachPlan,
        *,
        publisher: str,
        key: CampaignKey,
        columns: IdColumns = ...,
        within: Target = ...,
        progress: Progress | None = None,
        told: Callable[[Loaded], None] | None = None,
    ) -> Filter:
        """Return the filter of a publisher's ids; it must be recorded before anybody gets it."""
        ...

    def count_logos(
        self, filters: Sequence[Any], plan: ReachPlan, *, progress: Progress | None = None
    ) -> Logos:
        """Return the logos of one filter from each publisher."""
        ...


def engine(name: str = "local", **options: Any) -> Engine:
    """Return the engine of that name with its options; its parts load when it is asked for.

    >>> engine("local").name
    'local'
    """
    module, kind = ENGINES[checks.choice("engine", name, tuple(ENGINES))]
    return cast("Engine", getattr(importlib.import_module(module), kind)(**options))
