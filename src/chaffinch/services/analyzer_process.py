"""The analyzer as one process: the settings that its operator writes, and the service they start.

Its front is in the event loop, its worker in a thread behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator

from chaffinch.analysis.batch_analysis import RECEIVED, STATE, AnalyzerCounts, analyzer_counts
from chaffinch.analysis.received import KnownBatch, KnownBatches
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Ledger
from chaffinch.plans.kinds import RunPlan
from chaffinch.services.admin import Board
from chaffinch.services.analyzer import TICK, AnalyzerFront, AnalyzerSettings, AnalyzerWorker
from chaffinch.services.batch_intake import BatchLimits
from chaffinch.services.connections import Limits
from chaffinch.services.data_folder import open_data, without_data
from chaffinch.services.logs import Log
from chaffinch.services.openers import ClusterModel
from chaffinch.services.server import run
from chaffinch.services.settings import (
    ADMIN,
    FrontModel,
    FrontSettings,
    PartyFiles,
    PartyFilesModel,
    limits_of,
    read_file,
    silent_of,
    write_example,
)
from chaffinch.services.status import Law, PlanStatus, Status, StuckBatch
from chaffinch.services.worker_thread import worker_thread
from chaffinch.wire.document_forms import Strict


@dataclass(frozen=True)
class Budget:
    """The ledger that pays for releases, and its mark."""

    ledger: Path
    mark: Path

    def open(self) -> Ledger:
        """Return the ledger."""
        return Ledger.open(self.ledger, mark=self.mark)


@dataclass(frozen=True)
class AnalyzerFile:
    """What an analyzer runs."""

    place: PartyFiles
    front: FrontSettings
    budget: Budget | None
    batches: BatchLimits
    work: AnalyzerSettings


class _Budget(Strict):
    ledger: str = Field(examples=["ledger.db"])
    mark: str = Field(examples=["ledger.mark"])

    def build(self, base: Path) -> Budget:
        return Budget(base / self.ledger, base / self.mark)


class _Analyzer(FrontModel):
    limited: ClassVar = (BatchLimits, AnalyzerSettings, Limits)

    listen: str = Field(
        description="Where the last hop sends batches to, and people read releases.",
        examples=["127.0.0.1:8083"],
    )
    admin: str = Field(description=ADMIN, examples=["127.0.0.1:9083"])
    level: float = Field(
        AnalyzerSettings.level,
        ge=0.5,
        le=1 - 1e-12,
        description="How surely an interval holds the truth.",
    )
    budget: _Budget | None = Field(
        None,
        description="The budget that pays for releases: files of `chaffinch ledger create`. "
        "Without it every batch is released, each once.",
    )
    cluster: ClusterModel | None = Field(
        None,
        description="Open messages on a Spark cluster in place of processes here. Everything else "
        "stays here.",
    )

    @field_validator("limits", mode="before")
    @classmethod
    def _without_level(cls, given: object) -> object:
        if isinstance(given, dict) and "level" in given:
            raise ValueError("level is no limit: it stands in [analyzer]")
        return given


class _File(PartyFilesModel):
    data: str = Field(
        description="Where batches wait, and releases are kept. Nobody else writes there.",
        examples=["data"],
    )
    analyzer: _Analyzer

    def build(self, base: Path) -> AnalyzerFile:
        found = self.analyzer
        budget = None if found.budget is None else found.budget.build(base)
        cluster = None if found.cluster is None else found.cluster.build()
        return AnalyzerFile(
            self.place(base),
            found.front(base),
            budget,
            limits_of(found.limits, BatchLimits),
            limits_of(found.limits, AnalyzerSettings, level=found.level, cluster=cluster),
        )


EXAMPLE = write_example("The settings of an analyzer, for `chaffinch serve analyzer`.", _File)


def read_analyzer(path: str | Path) -> AnalyzerFile:
    """Return the settings of an analyzer; refuse a file that breaks a rule, with all its faults."""
    return read_file(path, _File, _File.build)


# ----------------------------------------------------------------------------
# What runs.

_STATES = ("waiting", "opened", "unpaid", "short", "refused", "released", "joined")
INVARIANTS = tuple(Law(*one) for one in AnalyzerCounts.INVARIANTS.items())


def serve_analyzer(settings: AnalyzerFile, announce: Callable[[list[str]], object]) -> None:
    """Take batches, open and release them, and show releases, until SIGTERM or SIGINT."""
    place = settings.place
    plans, keys = place.load_plans(), place.open_keys()
    open_data(place.data, keys)
    ledger = None if settings.budget is None else settings.budget.open()
    front = AnalyzerFront(place.data, plans, keys, limits=settings.batches)
    board = Board("analyzer", patience_seconds=60 * TICK)
    log = Log("analyzer")

    def job(stop: threading.Event, ready: Callable[[], None]) -> None:
        # The worker reads the keys anew by itself: an object of its own, because it is a thread.
        own = place.open_keys()
        with AnalyzerWorker(
            place.data, plans, own, ledger=ledger, settings=settings.work, stop=stop
        ) as worker:

            def post() -> None:
                analyzer = worker.analyzer
                found = _status(settings, plans, own, worker.status.plans, analyzer.batches())
                status = without_data(found, place.data, own)
                unread = tuple(
                    f"{name[:16]} is held: {why}" for name, why in analyzer.unreadable.items()
                )
                cluster = filter(None, [worker.cluster_fault])
                problems = (*status.problems, *front.front.problems(), *cluster)
                status = replace(status, problems=problems, held=unread)
                board.post(status)
                log.changes(status)

            # Operators see the state of before the start as soon as the service is said to run.
            post()
            ready()
            worker.run(lambda said: log("held", said=said), ticked=post)

    run(
        settings.front.listeners(front.application, board.application),
        limits=settings.front.server,
        background=[front.front.following_keys(), worker_thread(job, log)],
        announce=log.starting(announce),
    )
    log("stopped")


def analyzer_status(settings: AnalyzerFile) -> Status:
    """Return where everything is in an analyzer, whether it runs or not."""
    place = settings.place
    plans, keys = place.load_plans(), place.open_keys()
    batches = KnownBatches(place.data / STATE).all()
    found = _status(settings, plans, keys, analyzer_counts(place.data), batches)
    silent = silent_of({"analyzer": settings.front.admin})
    return replace(without_data(found, place.data, keys), silent=silent)


def _status(
    settings: AnalyzerFile,
    plans: Iterable[RunPlan],
    keys: KeyFolder,
    found: dict[str, AnalyzerCounts],
    batches: Iterable[KnownBatch],
) -> Status:
    received = settings.place.data / RECEIVED
    batches, known = list(batches), {plan.id: plan for plan in plans}
    titles = {plan_id: plan.title for plan_id, plan in known.items()}
    shown = []
    for plan_id in (*titles, *(one for one in found if one not in titles)):
        counts = found.get(plan_id, AnalyzerCounts())
        shown.append(
            PlanStatus(
                plan_id,
                titles.get(plan_id, "not run any more"),
                {
                    name: getattr(counts, name)
                    for law in INVARIANTS
                    for name in (law.whole, *law.parts)
                },
                INVARIANTS,
                {name: getattr(counts, name) for name in _STATES},
                stuck=tuple(
                    StuckBatch.of(received / f"{one.id}.batch", f"it is not paid for. {one.why}")
                    for one in batches
                    if (one.plan_id, one.state) == (plan_id, "unpaid")
                ),
                releases=_release_urls(known.get(plan_id), batches),
            )
        )
    states = {number: str(one.state) for number, one in keys.opening_keys().items()}
    free, problems = settings.place.room(settings.batches.free_bytes)
    gauges = {"disk_free_bytes": free}
    return Status("analyzer", tuple(shown), states, gauges=gauges, problems=problems)


def _release_urls(plan: RunPlan | None, batches: Iterable[KnownBatch]) -> tuple[str, ...]:
    if plan is None or plan.parties is None:
        return ()
    address = plan.parties.analyzer.url
    return tuple(
        address("v1", "plans", plan.id, "releases", f"{one.id}.html")
        for one in batches
        if (one.plan_id, one.state) == (plan.id, "released")
    )
