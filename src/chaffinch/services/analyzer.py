"""The analyzer as a service: its front takes batches and shows releases, its worker makes them.

    data/received/*.batch    what the last hop has handed over
    data/state.sqlite        tallies, replay tags and releases; the worker owns it
    the ledger and its mark  wherever they are configured

Front and worker share a folder and nothing else, so they may be two processes; ``serve`` runs them
as the event loop and a thread of one (``analyzer_process``). A release is shown when it is
kept, and the same bytes are shown for ever.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Self

from chaffinch.analysis.batch_analysis import RECEIVED, STATE, Analyzer, AnalyzerCounts
from chaffinch.analysis.plan_analysis import PlanAnalysis, require_analyzer
from chaffinch.analysis.received import KnownBatch, KnownBatches
from chaffinch.errors import RETRYABLE, ClusterFault, StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Ledger
from chaffinch.plans.kinds import RunPlan, require_kind
from chaffinch.services.batch_intake import PATIENCE, USUAL_BATCHES, BatchDesk, BatchLimits
from chaffinch.services.front import Front
from chaffinch.services.http import Application, Handler, Request, Response
from chaffinch.services.openers import Cluster, open_pool
from chaffinch.tables.parallel import Stopped, cores
from chaffinch.wire.problems import Kind, Problem

_JSON, _HTML = "application/json", "text/html; charset=utf-8"
_FOREVER = ("cache-control", "public, max-age=31536000, immutable")
_NOW = ("cache-control", "no-cache")
# A page is one document of our own, with its styles and pictures inside, and runs nothing.
_CONTAINED = ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'")
_LONG_PAUSE = 5.0
"""Seconds before a full disk, or a cluster that is gone, is tried again."""
TICK = 10.0
"""Seconds between two looks at the counters by those who watch."""

ANALYSES = {
    "survey": "chaffinch.analysis.survey_analysis:SurveyAnalysis",
    "reach": "chaffinch.reach.analyzer.column_batches:ReachAnalysis",
}
"""What the analyzer does for each kind of plan, by its name: loaded with the first such plan."""


def analyses_of(plans: Iterable[RunPlan]) -> list[PlanAnalysis]:
    """Return what the analyzer does for each of some plans, of whatever kind."""
    listed = list(plans)
    for plan in listed:
        require_kind(plan)
    return [resolve_name(ANALYSES[plan.kind.name])(plan) for plan in listed]


class AnalyzerFront:
    """What is answered on HTTP."""

    def __init__(
        self,
        folder: Path,
        plans: Sequence[RunPlan],
        keys: KeyFolder,
        *,
        limits: BatchLimits = USUAL_BATCHES,
    ) -> None:
        self._analyses = {one.plan.id: one for one in analyses_of(plans)}
        for plan in plans:
            require_analyzer(plan, keys)
        self.front = Front(plans, keys)
        self._known = KnownBatches(folder / STATE, patience=PATIENCE)
        self._desk = BatchDesk(folder / RECEIVED, self.front, self._is_known, limits)
        self.application = Application(self._routes)

    @property
    def _routes(self) -> dict[str, Mapping[str, Handler]]:
        release = "/v1/plans/{plan}/releases/{batch}"
        return {
            **self.front.routes,
            **self._desk.routes,
            "/v1/plans/{plan}/releases": {"GET": self._list_releases},
            release: {"GET": self._show_document},
            f"{release}.json": {"GET": self._show_document},
            f"{release}.html": {"GET": self._show_page},
        }

    def _is_known(self, plan_id: str, batch_id: str) -> bool:
        found = self._known.find(batch_id)
        return found is not None and found.plan_id == plan_id

    async def _list_releases(self, request: Request) -> Response:
        plan = self.front.find(request).plan
        analysis = self._analyses[plan.id]
        batches = await self.front.bounded_reads.run(self._known.all)
        released = [one for one in batches if (one.plan_id, one.state) == (plan.id, "released")]
        # By round and id: the order tells nothing of when they came.
        released.sort(key=lambda one: (one.round, one.id))
        listed = [
            {"batch": one.id, "round": one.round, "reports": analysis.reports_in(one)}
            for one in released
        ]
        document = json.dumps({"plan": plan.id, "releases": listed}).encode()
        return Response.of(200, document, _JSON, _NOW)

    async def _show_document(self, request: Request) -> Response:
        content = await self._find(request)
        return Response.of(200, content, _JSON, _FOREVER, _tag(content))

    async def _show_page(self, request: Request) -> Response:
        content = await self._find(request)
        analysis = self._analyses[self.front.find(request).plan.id]
        page = await self.front.bounded_reads.run(lambda: _page(analysis, content))
        return Response.of(200, page, _HTML, _FOREVER, _tag(page), _CONTAINED)

    async def _find(self, request: Request) -> bytes:
        plan_id, batch_id = self.front.find(request).plan.id, request.parameters["batch"]

        def look() -> bytes | None:
            known = self._is_known(plan_id, batch_id)
            return self._known.release(batch_id) if known else None

        content = await self.front.bounded_reads.run(look)
        if content is None:
            raise Problem(Kind.UNKNOWN_PATH)
        return content


@lru_cache(maxsize=16)
def _page(analysis: PlanAnalysis, content: bytes) -> bytes:
    return analysis.read_release(content).page().encode()


def _tag(content: bytes) -> tuple[str, str]:
    return "etag", f'"{hashlib.sha256(content).hexdigest()}"'


# ----------------------------------------------------------------------------
# The worker.


@dataclass(frozen=True)
class AnalyzerSettings:
    """How an analyzer works, whatever the plan."""

    level: float = 0.95
    """How surely an interval holds the truth."""
    openers: Annotated[int, "processes that open messages; without this one for each core", 8] = (
        field(default_factory=cores)
    )
    cluster: Cluster | None = None
    """Opens messages in place of processes here, where there is one."""
    look_seconds: Annotated[float, "between two looks at what has arrived"] = 0.5


@dataclass(frozen=True)
class AnalyzerStatus:
    """What an analyzer has done."""

    plans: dict[str, AnalyzerCounts]
    held: dict[str, str]
    """Why nothing is released of a batch that is here, by its id."""

    @property
    def adds_up(self) -> bool:
        """Return whether every item of every batch is accounted for."""
        return all(counts.adds_up for counts in self.plans.values())


class AnalyzerWorker:
    """One analyzer at work on its data directory; the thread that makes it uses it."""

    def __init__(
        self,
        folder: Path,
        plans: Sequence[RunPlan],
        keys: KeyFolder,
        *,
        ledger: Ledger | None = None,
        settings: AnalyzerSettings | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.stop = stop or threading.Event()
        """Ends the work when it is set."""
        self._settings = settings or AnalyzerSettings()
        chosen = self._settings
        self._pool = open_pool("analyzer", chosen.openers, chosen.cluster, self.stop)
        self.analyzer = Analyzer(
            folder,
            keys,
            analyses_of(plans),
            ledger=ledger,
            level=self._settings.level,
            pool=self._pool,
        )
        self.cluster_fault = ""
        """Why nothing can be opened, where a cluster is to do that."""
        self.status = self._current_status()
        """What was done, as of the last step; another thread may read it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop everything; what is not done is done by the next one."""
        self._pool.close()
        self.analyzer.close()

    def run(
        self,
        tell: Callable[[str], object] = lambda _: None,
        ticked: Callable[[], object] = lambda: None,
    ) -> None:
        """Work until told to stop; a batch that is being opened then is left as it was.

        ``tell`` is told once of each batch that is held; ``ticked`` is called at every tick.

        A full disk is waited for, and a cluster that is gone: everything was undone, and nothing is
        lost. After any other fault of the disk nobody knows what is on it: the process must end.
        """
        told: set[str] = set()
        due = time.monotonic()
        while not self.stop.is_set():
            try:
                self.step()
                self.cluster_fault = ""
            except Stopped:
                return
            except ClusterFault as fault:
                self.cluster_fault = fault.message
                self.stop.wait(_LONG_PAUSE)
            except StorageFault as fault:
                if fault.reason not in RETRYABLE:
                    raise
                self.stop.wait(_LONG_PAUSE)
            for batch_id, why in self.status.held.items():
                if batch_id not in told:
                    told.add(batch_id)
                    tell(f"Nothing is released of batch {batch_id[:16]}. {why}")
            if time.monotonic() >= due:
                due = time.monotonic() + TICK
                ticked()
            self.stop.wait(self._settings.look_seconds)

    def step(self) -> int:
        """Do all that can be done now; return how many batches came further."""
        done = self.analyzer.step()
        self.status = self._current_status()
        return done

    def _current_status(self) -> AnalyzerStatus:
        held = {one.id: one.why for one in self.analyzer.batches() if _is_held(one)}
        return AnalyzerStatus(self.analyzer.counts(), held | self.analyzer.unreadable)


def _is_held(batch: KnownBatch) -> bool:
    return batch.state in ("unpaid", "short", "refused")
