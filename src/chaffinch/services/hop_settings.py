"""The settings of a hop: its collector and its shuffler share keys and data, and one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chaffinch.services.batches import BatchLimits
from chaffinch.services.collector import CollectorLimits
from chaffinch.services.group_commit import InboxLimits
from chaffinch.services.openers import ClusterModel
from chaffinch.services.server import Limits
from chaffinch.services.settings import (
    SERVER_LIMITS,
    Address,
    FrontModel,
    FrontSettings,
    Place,
    PlaceModel,
    ServiceModel,
    limits_of,
    read_file,
    tls_example,
)
from chaffinch.services.shuffler import ShufflerSettings
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.releasing import ReleaseRule

EXAMPLE = f"""\
# The settings of a hop, for `chaffinch serve collector` and `chaffinch serve shuffler`.
# Paths are taken from where this file is. What is commented out is the default.

# The plans that this hop runs: files of `chaffinch plan --parties`, which name its identity.
plans = ["survey.plan.json"]
# The key folder of `chaffinch keys create`, for this user alone.
keys = "keys"
# Where reports and batches wait. On a disk of its own; nobody else writes there.
data = "data"

[collector]
# Where people's devices, or the hop before, send to.
listen = "127.0.0.1:8081"
# For operators: /healthz, /readyz, /metrics, /status. Keep it on a loopback address.
admin = "127.0.0.1:9081"

{tls_example("collector")}
[collector.limits]
# body_bytes = 4194304          # of one upload
# reports = 4096                # in one upload
# pending_bytes = 33554432      # in memory, on their way to the disk
# plan_bytes = 1073741824       # on the disk for one plan, not yet opened
# free_bytes = 536870912        # that must be free on the disk
# segment_bytes = 8388608       # after which a segment is closed, and can be opened
# segment_seconds = 1.0         # or after so long
# batch_bytes = 4294967296      # of one batch of the hop before
# at_once = 4                   # batches that may be on their way in
{SERVER_LIMITS}
[shuffler]
admin = "127.0.0.1:9082"
# trusted = "roots.pem"         # TLS roots for the next party, in place of the system's

# Open envelopes on a Spark cluster in place of processes here. Everything else stays here.
# [shuffler.cluster]
# engine = "spark"
# master = "spark://host:7077"  # without this, what Spark's own settings say

[shuffler.limits]
# interval_seconds = 300.0      # between two ticks: what has its crowd by then leaves
# largest_batch = 1000000       # reports; more are split at random, each part with its crowd
# most_ticks = 1000             # after which a report without a crowd is dropped, and counted;
                                # without this it waits for ever
# openers = 8                   # processes that open envelopes; without this one for each core
# memory_bytes = 268435456      # for a batch that is made
# look_seconds = 0.2            # between two looks at the inbox
# key_grace_seconds = 60.0      # that a closed key stays, whatever needs it or not
# key_pause_seconds = 3600.0    # that a key of a later party is given out before the next one
# connect = 10.0                # seconds in which the next party must take a connection
# reply = 60.0                  # and answer
# first_pause = 1.0             # seconds before it is asked again; twice as many each time
# longest_pause = 300.0
"""


@dataclass(frozen=True)
class CollectorSettings:
    """The front of a hop on HTTP."""

    front: FrontSettings
    limits: CollectorLimits


@dataclass(frozen=True)
class HopSettings:
    """What a hop runs."""

    place: Place
    collector: CollectorSettings
    shuffler_admin: Address
    shuffler: ShufflerSettings


class _Collector(FrontModel):
    limited: ClassVar = (CollectorLimits, InboxLimits, BatchLimits, Limits)

    def build(self, base: Path) -> CollectorSettings:
        inbox = limits_of(self.limits, InboxLimits)
        batches = limits_of(self.limits, BatchLimits)
        limits = limits_of(self.limits, CollectorLimits, inbox=inbox, batches=batches)
        return CollectorSettings(self.front(base), limits)


class _Shuffler(ServiceModel):
    limited: ClassVar = (ShufflerSettings, ReleaseRule, Patience)

    trusted: str | None = None
    cluster: ClusterModel | None = None

    def build(self, base: Path) -> ShufflerSettings:
        return limits_of(
            self.limits,
            ShufflerSettings,
            rule=limits_of(self.limits, ReleaseRule),
            patience=limits_of(self.limits, Patience),
            trusted=None if self.trusted is None else base / self.trusted,
            cluster=None if self.cluster is None else self.cluster.build(),
        )


class _Hop(PlaceModel):
    collector: _Collector
    shuffler: _Shuffler

    def build(self, base: Path) -> HopSettings:
        return HopSettings(
            self.place(base),
            self.collector.build(base),
            Address.of(self.shuffler.admin),
            self.shuffler.build(base),
        )


def read_hop(path: str | Path) -> HopSettings:
    """Return the settings of a hop; refuse a file that breaks a rule, with all its faults."""
    return read_file(path, _Hop, _Hop.build)
