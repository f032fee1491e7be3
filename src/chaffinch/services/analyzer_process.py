"""The analyzer as one process: its front in the event loop, its worker in a thread behind it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from chaffinch.analysis.analyzer import AnalyzerCounts, analyzer_counts
from chaffinch.keys import KeyFolder
from chaffinch.planning.audiences.plan import AnyPlan
from chaffinch.services.admin import Board
from chaffinch.services.analyzer import TICK, AnalyzerFront, AnalyzerWorker
from chaffinch.services.analyzer_settings import AnalyzerFile
from chaffinch.services.logs import Log
from chaffinch.services.server import run
from chaffinch.services.status import Law, PlanStatus, Status
from chaffinch.services.working import working

_STATES = ("waiting", "opened", "unpaid", "refused", "released")
LAWS = tuple(Law(*one) for one in AnalyzerCounts.LAWS.items())


def serve_analyzer(settings: AnalyzerFile, announce: Callable[[list[str]], object]) -> None:
    """Take batches, open and release them, and show releases, until SIGTERM or SIGINT."""
    place = settings.place
    place.make_data()
    plans, keys = place.load_plans(), place.open_keys()
    ledger = None if settings.budget is None else settings.budget.open()
    front = AnalyzerFront(place.data, plans, keys, limits=settings.batches)
    board = Board("analyzer", patience_seconds=60 * TICK)
    log = Log("analyzer")

    def job(stop: threading.Event) -> None:
        # The worker reads the keys anew by itself: an object of its own, because it is a thread.
        own = place.open_keys()
        with AnalyzerWorker(
            place.data, plans, own, ledger=ledger, settings=settings.work
        ) as worker:

            def post() -> None:
                status = _status(settings, plans, own, worker.status.plans)
                board.post(status)
                log.changes(status)

            post()
            worker.run(stop, lambda said: log("held", said=said), ticked=post)

    run(
        settings.front.listeners(front.application, board.application),
        limits=settings.front.server,
        background=[front.front.following_keys(), working(job, log)],
        announce=log.starting(announce),
    )
    log("stopped")


def analyzer_status(settings: AnalyzerFile) -> Status:
    """Return where everything is in an analyzer, whether it runs or not."""
    place = settings.place
    plans, keys = place.load_plans(), place.open_keys()
    return _status(settings, plans, keys, analyzer_counts(place.data))


def _status(
    settings: AnalyzerFile,
    plans: Iterable[AnyPlan],
    keys: KeyFolder,
    found: dict[str, AnalyzerCounts],
) -> Status:
    titles = {plan.id: plan.title for plan in plans}
    shown = []
    for plan_id in (*titles, *(one for one in found if one not in titles)):
        counts = found.get(plan_id, AnalyzerCounts())
        shown.append(
            PlanStatus(
                plan_id,
                titles.get(plan_id, "not run any more"),
                {name: getattr(counts, name) for law in LAWS for name in (law.whole, *law.parts)},
                LAWS,
                {name: getattr(counts, name) for name in _STATES},
            )
        )
    states = {number: str(one.state) for number, one in keys.opening_keys().items()}
    settings.place.make_data()
    free, problems = settings.place.room(settings.batches.free_bytes)
    gauges = {"disk_free_bytes": free}
    return Status("analyzer", tuple(shown), states, gauges=gauges, problems=problems)
