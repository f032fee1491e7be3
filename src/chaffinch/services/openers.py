"""Who opens envelopes for a service: processes on its machine, or a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from chaffinch.engines import PATIENCE
from chaffinch.errors import ClusterFault
from chaffinch.parallel import Pool, Processes
from chaffinch.wire.documents import Strict

_JOB_SECONDS = 600.0

_Item = TypeVar("_Item")
_Shared = TypeVar("_Shared")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Cluster:
    """A Spark cluster; without the address of its master, what Spark's own settings say."""

    master: str | None = None
    patience: float = PATIENCE
    """Seconds to wait for a first worker."""
    job_seconds: float = _JOB_SECONDS
    """After which a job is cancelled, and tried again."""


class ClusterModel(Strict):
    """What a file of settings says of a cluster."""

    engine: Literal["spark"]
    master: str | None = None
    patience: Annotated[float, Field(gt=0)] = PATIENCE
    job_seconds: Annotated[float, Field(gt=0)] = _JOB_SECONDS

    def build(self) -> Cluster:
        """Return the cluster."""
        return Cluster(self.master, self.patience, self.job_seconds)


class ClusterPool:
    """A cluster that is reached when there is work, and reached anew after a fault of its own."""

    def __init__(self, reach: Callable[[], Pool]) -> None:
        self._reach = reach
        self._pool: Pool | None = None

    def mapped(
        self,
        function: Callable[[_Shared, _Item], _Result],
        shared: _Shared,
        items: Iterable[_Item],
    ) -> Iterator[_Result]:
        """Give ``function(shared, item)`` in the order of the items; few are taken ahead."""
        source = iter(items)
        for first in source:
            self._pool = self._pool or self._reach()
            try:
                yield from self._pool.mapped(function, shared, chain([first], source))
            except ClusterFault:
                self.close()
                raise

    def close(self) -> None:
        """End the application, if there is one."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


def open_pool(party: str, openers: int, cluster: Cluster | None) -> Pool:
    """Return who opens envelopes for a party, until it is closed."""
    if cluster is None:
        # After a kill, the process that clears up behind this one would say so between the lines
        # of its log. It is started with the filters that stand here.
        sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
        return Processes(openers)
    chosen = (cluster.master, cluster.patience, cluster.job_seconds)

    def reach() -> Pool:
        from chaffinch.engines.spark.sealed import SparkPool

        return SparkPool(party, *chosen)

    return ClusterPool(reach)
