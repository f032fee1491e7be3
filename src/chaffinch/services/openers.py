"""Where a service opens envelopes: in processes on its machine, or on a cluster."""

from __future__ import annotations

import logging
import sys
import threading
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from chaffinch.engines import PATIENCE
from chaffinch.tables.parallel import Pool, Processes
from chaffinch.wire.document_forms import Strict

_JOB_SECONDS = 600.0


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

    engine: Literal["spark"] = Field(examples=["spark"])
    master: str | None = Field(
        default=None,
        description="without this, what Spark's own settings say",
        examples=["spark://host:7077"],
    )
    job_seconds: float = Field(
        default=_JOB_SECONDS,
        gt=0,
        description="after which a job is cancelled, and tried again",
    )
    patience: float = Field(
        default=PATIENCE, gt=0, description="seconds to wait for a first worker of it"
    )

    def build(self) -> Cluster:
        """Return the cluster."""
        return Cluster(self.master, self.patience, self.job_seconds)


def open_pool(party: str, openers: int, cluster: Cluster | None, stop: threading.Event) -> Pool:
    """Return who opens envelopes for a party, until it is stopped or closed."""
    if cluster is None:
        # After a kill, the process that clears up behind this one would say so between the lines
        # of its log. It is started with the filters that stand here.
        sys.warnoptions.append("ignore::UserWarning:multiprocessing.resource_tracker")
        return Processes(openers, stop)
    from chaffinch.engines.spark.open_on_cluster import SparkPool

    # When Java ends, py4j would tell the root logger of it, between the lines of the log.
    logging.getLogger().addHandler(logging.NullHandler())
    return SparkPool(party, cluster.master, cluster.patience, cluster.job_seconds, stop)
