"""The analyzer as one process: its front in the event loop, its worker in a thread behind it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable

from chaffinch.analysis.analyzer import STATE, Analyzer, AnalyzerCounts
from chaffinch.keys import KeyFolder
from chaffinch.planning.plan import Plan
from chaffinch.services.admin import Board, posting
from chaffinch.services.analyzer import AnalyzerFront, AnalyzerWorker
from chaffinch.services.analyzer_settings import AnalyzerFile
from chaffinch.services.logs import Log
from chaffinch.services.server import run
from chaffinch.services.status import ANALYZER_LAWS, PlanStatus, Status
from chaffinch.services.working import working

_TICK = 10.0
_STATES = ("waiting", "opened", "unpaid", "refused", "released")
_ITEMS = ("items", "counted", "dummies", "replayed", "rejected")


def serve_analyzer(settings: AnalyzerFile, announce: Callable[[list[str]], object]) -> None:
    """Take batches, open and release them, and show releases, until SIGTERM or SIGINT."""
    place = settings.place
    plans, keys = place.load_plans(), place.open_keys()
    ledger = None if settings.budget is None else settings.budget.open()
    front = AnalyzerFront(place.data, plans, keys, limits=settings.batches)
    board = Board("analyzer", patience_seconds=60 * _TICK)
    log = Log("analyzer")
    # The worker reads the keys anew by itself: an object of its own, because it is a thread.
    worker = AnalyzerWorker(
        place.data, plans, place.open_keys(), ledger=ledger, settings=settings.work
    )

    def look() -> Status:
        status = _status(settings, plans, keys, worker.status.plans)
        log.changes(status)
        return status

    def job(stop: threading.Event) -> None:
        with worker:
            worker.run(stop, lambda said: log("held", said=said))

    listeners = [
        settings.listen.listener(front.application, settings.tls),
        settings.admin.listener(board.application),
    ]
    background = [front.front.following_keys(), working(job, log), posting(board, look, _TICK)]
    run(listeners, limits=settings.server, background=background, announce=log.starting(announce))
    log("stopped")


def analyzer_status(settings: AnalyzerFile) -> Status:
    """Return where everything is in an analyzer, whether it runs or not."""
    place = settings.place
    plans, keys = place.load_plans(), place.open_keys()
    has_run = (place.data / STATE).exists()
    found = Analyzer(place.data, keys, plans).counts() if has_run else {}
    return _status(settings, plans, keys, found)


def _status(
    settings: AnalyzerFile,
    plans: Iterable[Plan],
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
                {name: getattr(counts, name) for name in _ITEMS},
                ANALYZER_LAWS,
                {name: getattr(counts, name) for name in _STATES},
            )
        )
    states = {number: str(one.state) for number, one in keys.opening_keys().items()}
    data = settings.place.data
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    room = {"disk_free_bytes": float(shutil.disk_usage(data).free)}
    return Status("analyzer", tuple(shown), states, room)
