"""A hop: the settings its operator writes, and its two services, each a process.

The collector stands in front, the shuffler behind it. They share keys and data, and one file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from chaffinch.disk.files import put_aside_in
from chaffinch.keys import KeyFolder
from chaffinch.plans.kinds import RunPlan
from chaffinch.services.admin import Board, publish_status
from chaffinch.services.collector import Collector, CollectorLimits
from chaffinch.services.connections import Limits
from chaffinch.services.data_folder import open_data, without_data
from chaffinch.services.logs import Log
from chaffinch.services.openers import ClusterModel
from chaffinch.services.server import run
from chaffinch.services.settings import (
    ADMIN,
    Address,
    FrontModel,
    FrontSettings,
    PartyFiles,
    PartyFilesModel,
    ServiceModel,
    limits_of,
    read_file,
    silent_of,
    write_example,
)
from chaffinch.services.shuffler import (
    OUTBOX,
    STATE,
    WORKS,
    Shuffler,
    ShufflerSettings,
    hop_of,
)
from chaffinch.services.status import Law, PlanStatus, Status, StuckBatch
from chaffinch.services.worker_thread import worker_thread
from chaffinch.shuffling.inbox import unopened_segments
from chaffinch.shuffling.report_work import INBOX, RECEIVED
from chaffinch.shuffling.state import NOTHING, Counts, Overview, overview_of


@dataclass(frozen=True)
class CollectorSettings:
    """The front of a hop on HTTP."""

    front: FrontSettings
    limits: CollectorLimits


@dataclass(frozen=True)
class HopSettings:
    """What a hop runs."""

    place: PartyFiles
    collector: CollectorSettings
    shuffler_admin: Address
    shuffler: ShufflerSettings


class _Collector(FrontModel):
    limited: ClassVar = (CollectorLimits, Limits)

    listen: str = Field(
        description="Where people's devices, or the hop before, send to.",
        examples=["127.0.0.1:8081"],
    )
    admin: str = Field(description=ADMIN, examples=["127.0.0.1:9081"])

    def build(self, base: Path) -> CollectorSettings:
        return CollectorSettings(self.front(base), limits_of(self.limits, CollectorLimits))


class _Shuffler(ServiceModel):
    limited: ClassVar = (ShufflerSettings,)

    admin: str = Field(examples=["127.0.0.1:9082"])
    trusted: str | None = Field(
        None,
        description="TLS roots for the next party, in place of the system's",
        examples=["roots.pem"],
    )
    cluster: ClusterModel | None = Field(
        None,
        description="Open envelopes on a Spark cluster in place of processes here. Everything else "
        "stays here.",
    )

    def build(self, base: Path) -> ShufflerSettings:
        return limits_of(
            self.limits,
            ShufflerSettings,
            trusted=None if self.trusted is None else base / self.trusted,
            cluster=None if self.cluster is None else self.cluster.build(),
        )


class _Hop(PartyFilesModel):
    data: str = Field(
        description="Where reports and batches wait. On a disk of its own; nobody else writes "
        "there.",
        examples=["data"],
    )
    collector: _Collector
    shuffler: _Shuffler

    def build(self, base: Path) -> HopSettings:
        return HopSettings(
            self.place(base),
            self.collector.build(base),
            Address.of(self.shuffler.admin),
            self.shuffler.build(base),
        )


EXAMPLE = write_example(
    "The settings of a hop, for `chaffinch serve collector` and `chaffinch serve shuffler`.", _Hop
)


def read_hop(path: str | Path) -> HopSettings:
    """Return the settings of a hop; refuse a file that breaks a rule, with all its faults."""
    return read_file(path, _Hop, _Hop.build)


# ----------------------------------------------------------------------------
# What runs.

_Announce = Callable[[list[str]], object]
INVARIANTS = tuple(Law(*one) for one in Counts.INVARIANTS.items())
_TICK = 60.0
"""Seconds between two looks at a collector."""


def serve_collector(settings: HopSettings, announce: _Announce) -> None:
    """Take reports, or batches of the hop before, until SIGTERM or SIGINT."""
    chosen, place = settings.collector, settings.place
    plans, keys = _plans_and_keys(place)
    open_data(place.data, keys)
    collector = Collector(place.data, plans, keys, limits=chosen.limits)
    board = Board("collector", patience_seconds=3 * _TICK)
    log = Log("collector")

    def problems() -> tuple[str, ...]:
        return (*_disk_gauges(settings)[1], *collector.problems())

    def look() -> Status:
        gauges, _ = _disk_gauges(settings)
        gauges["acknowledged_reports"] = float(collector.counts["durable"])
        return Status("collector", keys=_key_states(keys), gauges=gauges)

    run(
        chosen.front.listeners(collector.application, board.application),
        limits=chosen.front.server,
        background=[collector.running(), publish_status(board, look, _TICK, problems)],
        announce=log.starting(announce),
    )
    log("stopped")


def serve_shuffler(settings: HopSettings, announce: _Announce) -> None:
    """Open, shuffle and hand over until SIGTERM or SIGINT; nothing leaves because it stops."""
    place, interval = settings.place, settings.shuffler.interval_seconds
    plans, keys = _plans_and_keys(place)
    open_data(place.data, keys)
    board = Board("shuffler", patience_seconds=10 * interval + 600)
    log = Log("shuffler")

    def job(stop: threading.Event, ready: Callable[[], None]) -> None:
        with Shuffler(place.data, keys, plans, settings.shuffler, stop=stop) as shuffler:

            def tell() -> None:
                status = _status(settings, plans, keys, shuffler.overview())
                status = without_data(status, place.data, keys)
                found = (*filter(None, [shuffler.cluster_fault]), *shuffler.short)
                problems = (*status.problems, *found, *shuffler.later_keys.faults)
                status = replace(status, offers=shuffler.status.attempts, problems=problems)
                board.post(status)
                log.changes(status)

            # Operators see the state of before the start as soon as the service is said to run.
            tell()
            ready()
            shuffler.run(ticked=tell)

    listeners = [settings.shuffler_admin.listener(board.application)]
    run(listeners, background=[worker_thread(job, log)], announce=log.starting(announce))
    log("stopped")


def _plans_and_keys(place: PartyFiles) -> tuple[tuple[RunPlan, ...], KeyFolder]:
    plans, keys = place.load_plans(), place.open_keys()
    for plan in plans:
        hop_of(plan, keys.identity_hex)
    return plans, keys


def hop_status(settings: HopSettings) -> Status:
    """Return where everything is in a hop, whether it runs or not."""
    path = settings.place.data / STATE
    found = overview_of(path) if path.exists() else NOTHING
    plans, keys = settings.place.load_plans(), settings.place.open_keys()
    status = without_data(_status(settings, plans, keys, found), settings.place.data, keys)
    admins = {"collector": settings.collector.front.admin, "shuffler": settings.shuffler_admin}
    return replace(status, silent=silent_of(admins))


def _status(
    settings: HopSettings, plans: Iterable[RunPlan], keys: KeyFolder, found: Overview
) -> Status:
    run_here = {plan.id: plan for plan in plans}
    shown = tuple(
        _plan_status(plan_id, run_here.get(plan_id), settings.place.data, keys, found)
        for plan_id in (*run_here, *(one for one in found.counts if one not in run_here))
    )
    gauges, problems = _disk_gauges(settings)
    unready = tuple(
        f"nothing of plan {plan.id[:16]} can leave: {party.name} has shown no keys here"
        for plan in run_here.values()
        if plan.parties is not None and _is_first_hop(plan, keys)
        for party in (*plan.parties.hops[1:], plan.parties.analyzer)
        if (plan.id, party.identity) not in found.shown
    )
    stopped = (
        f"plan {name[:16]} stops: {why}" for name, why in found.stopped.items() if name in run_here
    )
    problems += (*unready, *stopped)
    aside = _damaged_files(settings.place.data)
    return Status(
        "shuffler", shown, _key_states(keys), gauges=gauges, problems=problems, held=aside
    )


def _plan_status(
    plan_id: str, plan: RunPlan | None, data: Path, keys: KeyFolder, found: Overview
) -> PlanStatus:
    counts = _counted(found.counts.get(plan_id, Counts()))
    senders = {} if plan is None else WORKS[plan.kind.name].senders(data, plan)
    if senders and not counts["durable"]:  # All are opened at once, and counted then.
        counts["durable"] = counts["waiting"] = sum(senders.values())
    following = _receiver(plan, keys)
    waits = plan is not None and not senders and _is_first_hop(plan, keys)
    return PlanStatus(
        plan_id,
        "not run any more" if plan is None else plan.title,
        counts,
        INVARIANTS,
        found.batches.get(plan_id, {}),
        plan.reports if waits and plan is not None else None,
        stuck=tuple(
            StuckBatch.of(data / OUTBOX / f"{one.id}.batch", one.why, following)
            for one in found.unsent.get(plan_id, ())
        ),
        filters=dict(senders),
    )


def _damaged_files(data: Path) -> tuple[str, ...]:
    return tuple(
        f"{place}/{path.name} was damaged on the disk, and {what}: put a copy back as "
        f"{path.name.partition('.')[0]}{kind} if there is one, then remove the damaged file"
        for place, kind, what in (
            (INBOX, ".segment", "all that is whole in it was taken"),
            (RECEIVED, ".batch", "nothing of it was taken"),
        )
        for path in put_aside_in(data / place)
    )


def _is_first_hop(plan: RunPlan, keys: KeyFolder) -> bool:
    # Later hops get batches, which bring the names of the keys with them.
    return plan.parties is not None and plan.parties.hops[0].identity == keys.identity_hex


def _receiver(plan: RunPlan | None, keys: KeyFolder) -> str:
    """Return the name of the party that batches go to; empty for a plan that is not run here."""
    if plan is None or plan.parties is None:
        return ""
    hops = plan.parties.hops
    pairs = zip(hops, (*hops[1:], plan.parties.analyzer), strict=True)
    return next((after.name for one, after in pairs if one.identity == keys.identity_hex), "")


def _counted(counts: Counts) -> dict[str, int]:
    names = {name for law in INVARIANTS for name in (law.whole, *law.parts)}
    return {name: getattr(counts, name) for name in sorted(names)}


def _key_states(keys: KeyFolder) -> Mapping[int, str]:
    return {number: str(one.state) for number, one in keys.opening_keys().items()}


def _disk_gauges(settings: HopSettings) -> tuple[dict[str, float], tuple[str, ...]]:
    place = settings.place
    free, problems = place.room(settings.collector.limits.inbox.free_bytes)
    inbox, received = place.data / INBOX, place.data / RECEIVED
    gauges = {
        "unopened_segments": float(unopened_segments(inbox)),
        "received_batches": float(sum(1 for _ in received.glob("*.batch"))),
        "disk_free_bytes": free,
    }
    return gauges, problems
