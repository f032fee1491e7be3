"""Who opens envelopes for a service: processes on its machine, or a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chaffinch.engines import PATIENCE
from chaffinch.parallel import Pool, Processes
from chaffinch.wire.documents import Strict


@dataclass(frozen=True)
class Cluster:
    """A Spark cluster; without the address of its master, what Spark's own settings say."""

    master: str | None = None
    patience: float = PATIENCE
    """Seconds to wait for a first worker."""


class ClusterModel(Strict):
    """What a file of settings says of a cluster."""

    engine: Literal["spark"]
    master: str | None = None
    patience: float = PATIENCE

    def build(self) -> Cluster:
        """Return the cluster."""
        return Cluster(self.master, self.patience)


def open_pool(party: str, openers: int, cluster: Cluster | None) -> Pool:
    """Return who opens envelopes for a party, until it is closed."""
    if cluster is None:
        return Processes(openers)
    from chaffinch.engines.spark.sealed import SparkPool

    return SparkPool(party, cluster.master, cluster.patience)
