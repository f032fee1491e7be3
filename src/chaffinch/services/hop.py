"""The two services of a hop, each a process: the collector in front, the shuffler behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from chaffinch.keys import KeyFolder
from chaffinch.planning.audiences.plan import AnyPlan
from chaffinch.services.admin import Board, posting
from chaffinch.services.collector import Collector
from chaffinch.services.hop_settings import HopSettings
from chaffinch.services.logs import Log
from chaffinch.services.server import run
from chaffinch.services.settings import Place
from chaffinch.services.shuffler import INBOX, RECEIVED, STATE, Shuffler, hop_of
from chaffinch.services.status import Law, PlanStatus, Status
from chaffinch.services.working import working
from chaffinch.shuffling.inbox import sealed_segments
from chaffinch.shuffling.state import NOTHING, Counts, Overview, overview_of

Announce = Callable[[list[str]], object]
LAWS = tuple(Law(*one) for one in Counts.LAWS.items())
_TICK = 60.0
"""Seconds between two looks at a collector."""


def serve_collector(settings: HopSettings, announce: Announce) -> None:
    """Take reports, or batches of the hop before, until SIGTERM or SIGINT."""
    chosen, place = settings.collector, settings.place
    place.make_data()
    plans, keys = _hosted(place)
    collector = Collector(place.data, plans, keys, limits=chosen.limits)
    board = Board("collector", patience_seconds=3 * _TICK)
    log = Log("collector")

    def look() -> Status:
        gauges, problems = _room(settings)
        gauges["acknowledged_reports"] = float(collector.counts["durable"])
        return Status("collector", keys=_states(keys), gauges=gauges, problems=problems)

    run(
        chosen.front.listeners(collector.application, board.application),
        limits=chosen.front.server,
        background=[collector.running(), posting(board, look, _TICK)],
        announce=log.starting(announce),
    )
    log("stopped")


def serve_shuffler(settings: HopSettings, announce: Announce) -> None:
    """Open, shuffle and hand over until SIGTERM or SIGINT; nothing leaves because it stops."""
    place, interval = settings.place, settings.shuffler.interval_seconds
    place.make_data()
    plans, keys = _hosted(place)
    board = Board("shuffler", patience_seconds=10 * interval + 600)
    told: set[str] = set()
    log = Log("shuffler")

    def job(stop: threading.Event) -> None:
        with Shuffler(place.data, keys, plans, settings.shuffler) as shuffler:

            def tell() -> None:
                status = _status(settings, plans, keys, shuffler.overview())
                stopped = (f"plan {name[:16]} stops: {why}" for name, why in shuffler.held.items())
                problems = (*status.problems, *stopped, *shuffler.later_keys.faults)
                status = replace(status, offers=shuffler.status.attempts, problems=problems)
                board.post(status)
                log.changes(status)
                for why in problems:
                    if why not in told:
                        log("held", said=why)
                        told.add(why)

            tell()
            shuffler.run(stop, ticked=tell)

    listeners = [settings.shuffler_admin.listener(board.application)]
    run(listeners, background=[working(job, log)], announce=log.starting(announce))
    log("stopped")


def _hosted(place: Place) -> tuple[tuple[AnyPlan, ...], KeyFolder]:
    """Return the plans and keys of a hop; refuse a plan that does not name it as one."""
    plans, keys = place.load_plans(), place.open_keys()
    for plan in plans:
        hop_of(plan, keys.identity_hex)
    return plans, keys


def hop_status(settings: HopSettings) -> Status:
    """Return where everything is in a hop, whether it runs or not."""
    path = settings.place.data / STATE
    found = overview_of(path) if path.exists() else NOTHING
    return _status(settings, settings.place.load_plans(), settings.place.open_keys(), found)


def _status(
    settings: HopSettings, plans: Iterable[AnyPlan], keys: KeyFolder, found: Overview
) -> Status:
    run_here = {plan.id: plan for plan in plans}
    shown = tuple(
        PlanStatus(
            plan_id,
            run_here[plan_id].title if plan_id in run_here else "not run any more",
            _counted(found.counts.get(plan_id, Counts())),
            LAWS,
            found.batches.get(plan_id, {}),
            _crowd_of(run_here.get(plan_id), keys),
            found.unseen.get(plan_id, 0),
        )
        for plan_id in (*run_here, *(one for one in found.counts if one not in run_here))
    )
    gauges, problems = _room(settings)
    unready = tuple(
        f"nothing of plan {plan.plan_id[:16]} can leave: the later parties have not all shown "
        "their keys here"
        for plan in shown
        if plan.crowd is not None and plan.plan_id not in found.has_keys
    )
    return Status("shuffler", shown, _states(keys), gauges=gauges, problems=problems + unready)


def _crowd_of(plan: AnyPlan | None, keys: KeyFolder) -> int | None:
    """Return with how many reports a batch leaves, at the first hop: later ones wait for nobody."""
    if plan is None or plan.parties is None:
        return None
    return plan.reports if plan.parties.hops[0].identity == keys.identity_hex else None


def _counted(counts: Counts) -> dict[str, int]:
    names = {name for law in LAWS for name in (law.whole, *law.parts)}
    return {name: getattr(counts, name) for name in sorted(names)}


def _states(keys: KeyFolder) -> Mapping[int, str]:
    return {number: str(one.state) for number, one in keys.opening_keys().items()}


def _room(settings: HopSettings) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return how much waits unopened and how much room there is, and whether that is too little."""
    place = settings.place
    place.make_data()
    free, problems = place.room(settings.collector.limits.inbox.free_bytes)
    inbox, received = place.data / INBOX, place.data / RECEIVED
    gauges = {
        "unopened_segments": float(len(sealed_segments(inbox)) if inbox.exists() else 0),
        "received_batches": float(sum(1 for _ in received.glob("*.batch"))),
        "disk_free_bytes": free,
    }
    return gauges, problems
