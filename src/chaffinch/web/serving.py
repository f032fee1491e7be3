"""The pages under their addresses, and the process that works for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaffinch.services.http import Request, Response
from chaffinch.services.server import Listener, run
from chaffinch.web.frame import page
from chaffinch.web.plan_panel import plan_page
from chaffinch.web.site import Site, file_response, html_response, json_response
from chaffinch.web.survey_form import survey_text
from chaffinch.web.worker import Worker
from chaffinch.wire.problems import Kind, Problem


class Pages:
    """What is answered to the browser."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.worker = Worker("chaffinch.web.tasks")
        self.site = Site(
            {
                "/": {"GET": self._plan},
                "/ask/{task}": {"POST": self._ask},
                "/jobs/{job}/{known}": {"GET": self._news},
                "/jobs/{job}/files/{file}": {"GET": self._file},
            }
        )

    async def _plan(self, _request: Request) -> Response:
        return html_response(page("", "Plan a count", plan_page()))

    async def _ask(self, request: Request) -> Response:
        form = await self.site.form(request)
        job = self.worker.submit(
            form.get("tab", ""), request.parameters["task"], {"text": survey_text(form)}
        )
        return json_response({"job": job.id})

    async def _news(self, request: Request) -> Response:
        job = self.worker.find(request.parameters["job"])
        if job is None:
            raise Problem(Kind.UNKNOWN_PATH)
        return json_response(await job.since(int(request.parameters["known"])))

    async def _file(self, request: Request) -> Response:
        job = self.worker.find(request.parameters["job"])
        name = request.parameters["file"]
        if job is None or name not in job.files:
            raise Problem(Kind.UNKNOWN_PATH)
        return file_response(name, job.files[name])


def serve(folder: Path, announce: Callable[[str], object], *, port: int = 0) -> None:
    """Serve the pages of a folder until somebody stops it."""
    pages = Pages(folder)
    run(
        [Listener(pages.site, "127.0.0.1", port)],
        background=[pages.worker.running()],
        announce=lambda addresses: announce(pages.site.listens_on(addresses[0])),
    )
