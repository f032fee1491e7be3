"""The pages under their addresses, and the processes that work for them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from chaffinch.errors import ChaffinchError, checks
from chaffinch.protocols.base import MESSAGES, TOTALS
from chaffinch.services.connections import Limits
from chaffinch.services.http import Request, Response
from chaffinch.services.server import Listener, run
from chaffinch.web.folder import Folder
from chaffinch.web.frame import fault_of, page
from chaffinch.web.plan_form import plan_page
from chaffinch.web.reach_panel import reach_page
from chaffinch.web.results_panel import (
    FILES,
    files_html,
    load,
    release_html,
    results_page,
    trend_of,
)
from chaffinch.web.run_panel import asked_again, paid, run_page, wanted
from chaffinch.web.site import Site, fault_document, file_response, html_response, json_response
from chaffinch.web.survey_form import Form, survey_text
from chaffinch.web.watch_panel import watch_html, watch_page
from chaffinch.web.worker import Job, Worker
from chaffinch.wire.problems import Kind, Problem

_TASKS = "chaffinch.web.tasks"
_ENDS = {"plan": ("try", "curve")}
"""What is of no use any more when something else is planned in the same tab."""
_SHARE = re.compile(r"share-\d{1,2}")


class Pages:
    """What is answered to the browser."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        # What takes long and is wished for now and then has a process of its own: nobody who plans
        # waits for a run, and a run waits for no picture.
        planner = Worker(_TASKS, first="plan")
        self._drawer, self._runner = (Worker(_TASKS, at_once=False) for _ in range(2))
        self.workers = planner, self._drawer, self._runner
        self._tasks: Mapping[str, tuple[Worker, Callable[[Form], dict[str, Any]]]] = {
            "plan": (planner, self._survey),
            "price": (self._drawer, self._survey),
            "curve": (planner, self._survey),
            "try": (planner, self._tried),
            "reach": (planner, lambda form: {"form": dict(form)}),
            "check": (self._runner, lambda form: wanted(form, folder)),
            "run": (self._runner, lambda form: wanted(form, folder) | paid(form, folder)),
        }
        self._runs: dict[str, Form] = {}
        """They go on without the pages that have asked for them, which show them again."""
        self.site = Site(
            {
                "/": {"GET": self._plan},
                "/run": {"GET": self._run},
                "/runs": {"GET": self._asked},
                "/runs/{job}": {"GET": self._asked},
                "/watch": {"GET": self._watch},
                "/watched": {"GET": self._watched},
                "/results": {"GET": self._results},
                "/results/{release}": {"GET": self._release},
                "/results/{release}/{file}": {"GET": self._release_file},
                "/trends/{release}": {"GET": self._trend},
                "/reach": {"GET": self._reach},
                "/ask/{task}": {"POST": self._ask},
                "/jobs/{job}/{known}": {"GET": self._news},
                "/jobs/{job}/files/{file}": {"GET": self._file},
            }
        )

    # Pages.

    async def _plan(self, _request: Request) -> Response:
        return html_response(page("", "Plan a count", plan_page()))

    async def _run(self, _request: Request) -> Response:
        shown = await asyncio.to_thread(list, run_page(self._folder))
        return html_response(page("run", "Run on a table", shown))

    async def _watch(self, _request: Request) -> Response:
        return html_response(
            page("watch", "Watch services", await asyncio.to_thread(list, watch_page(self._folder)))
        )

    async def _watched(self, _request: Request) -> Response:
        return html_response(await asyncio.to_thread(watch_html, self._folder))

    async def _results(self, _request: Request) -> Response:
        return html_response(
            page("results", "Results", await asyncio.to_thread(list, results_page(self._folder)))
        )

    async def _release(self, request: Request) -> Response:
        release = await asyncio.to_thread(self._found, request)
        return html_response(
            page(
                "results",
                release.statement().title,
                release_html(release),
                files_html(request.parameters["release"]),
                depth=1,
            )
        )

    async def _trend(self, request: Request) -> Response:
        word = request.parameters["release"]
        try:
            trend = await asyncio.to_thread(trend_of, self._folder, word)
        except ChaffinchError as fault:
            return html_response(page("results", "No trend", fault_of(fault), depth=1))
        if trend is None:
            raise Problem(Kind.UNKNOWN_PATH)
        return html_response(page("results", trend.statement().title, release_html(trend), depth=1))

    async def _release_file(self, request: Request) -> Response:
        name = request.parameters["file"]
        if name not in {f"release{suffix}" for suffix in FILES}:
            raise Problem(Kind.UNKNOWN_PATH)
        release = await asyncio.to_thread(self._found, request)
        return file_response(name, release.file_content(name.removeprefix("release")))

    def _found(self, request: Request) -> Any:
        name = self._folder.releases().get(request.parameters["release"])
        release = None if name is None else load(self._folder.path(name))
        if release is None:
            raise Problem(Kind.UNKNOWN_PATH)
        return release

    async def _reach(self, _request: Request) -> Response:
        return html_response(page("reach", "Plan a reach", reach_page()))

    # What is asked from a page.

    async def _ask(self, request: Request) -> Response:
        form = await self.site.form(request)
        name = request.parameters["task"]
        found = self._tasks.get(name)
        if found is None:
            raise Problem(Kind.UNKNOWN_PATH)
        worker, given = found
        try:
            tab, asked = form.get("tab", ""), given(form)
            if "other" in form:
                # Nobody wants to know any more what promises cost for the question before.
                self._drawer.end(tab, ("price",))
            job = worker.submit(tab, name, asked, ends=_ENDS.get(name, ()))
        except ChaffinchError as fault:
            return json_response({"fault": fault_document(fault)})
        if name == "run":
            self._runs = {one: of for one, of in self._runs.items() if self._runner.find(one)}
            self._runs[job.id] = form
        return json_response({"job": job.id})

    def _survey(self, form: Form) -> dict[str, Any]:
        view = checks.choice("view", form.get("view", MESSAGES), (MESSAGES, TOTALS))
        return {"text": survey_text(form), "folder": str(self._folder.root), "view": view}

    def _tried(self, form: Form) -> dict[str, Any]:
        said = sorted((int(name[6:]), one) for name, one in form.items() if _SHARE.fullmatch(name))
        return self._survey(form) | {"shares": [float(one) for _, one in said if one.isdecimal()]}

    async def _news(self, request: Request) -> Response:
        job = self._job(request)
        return json_response(await job.since(int(request.parameters["known"])))

    async def _asked(self, request: Request) -> Response:
        """Return what was asked of a run, by its number, or of the last one."""
        last = next(reversed(self._runs), "")
        job = request.parameters.get("job", last)
        job = job if job in self._runs else last
        return json_response({"job": job, "given": asked_again(self._runs.get(job, {}))})

    async def _file(self, request: Request) -> Response:
        files, name = self._job(request).files, request.parameters["file"]
        if name not in files:
            raise Problem(Kind.UNKNOWN_PATH)
        return file_response(name, files[name])

    def _job(self, request: Request) -> Job:
        found = request.parameters["job"]
        for worker in self.workers:
            if (job := worker.find(found)) is not None:
                return job
        raise Problem(Kind.UNKNOWN_PATH)


def serve(folder: Path, announce: Callable[[str], object], *, port: int = 0) -> None:
    """Serve the pages of a folder until somebody stops it."""
    pages = Pages(Folder(folder))
    run(
        [Listener(pages.site, "127.0.0.1", port)],
        # Whoever waits for news when it ends would have it wait, too.
        limits=Limits(stop_seconds=1.0),
        background=[one.running() for one in pages.workers],
        announce=lambda addresses: announce(pages.site.listens_on(addresses[0])),
    )
