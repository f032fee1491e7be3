"""A real browser on a real server: what a person has before them.

The browser is the system's Chromium; ``CHAFFINCH_CHROMIUM`` names another one. Without any these
tests are skipped, and say so; where ``CHAFFINCH_REQUIRE_BROWSER`` is set, as in continuous
integration, that is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

PATIENCE = 60_000
"""Milliseconds for what takes a second on a quiet machine."""
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Return where the browser is; skip, or fail, if there is none."""
    for one in (os.environ.get("CHAFFINCH_CHROMIUM"), *map(shutil.which, _NAMES)):
        if one:
            return one
    missing = "no Chromium: install it, or name one in CHAFFINCH_CHROMIUM"
    if os.environ.get("CHAFFINCH_REQUIRE_BROWSER"):
        pytest.fail(missing)
    pytest.skip(missing)


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield the browser."""
    path = chromium()
    with sync_playwright() as tools:
        # No sandbox: tests may be run by root, in a container.
        made = tools.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield made
        finally:
            made.close()


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start ``chaffinch web`` in a folder; yield its address and its process."""
    command = [sys.executable, "-m", "chaffinch", "web", str(folder), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.terminate()
            assert process.wait(30) == 0


@dataclass
class Visit:
    """A page that is open, and all that went wrong on it."""

    page: Page
    address: str
    wrong: list[str] = field(default_factory=list)

    @classmethod
    @contextmanager
    def of(
        cls, browser: Browser, at: str, path: str = "", *, width: int = 1180, scheme: Any = "light"
    ) -> Iterator[Visit]:
        """Open a page; afterwards nothing may have gone wrong on it."""
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            permissions=["clipboard-read", "clipboard-write"],
            accept_downloads=True,
        )
        visit = cls(context.new_page(), at)
        visit.page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        visit.page.on("console", visit._note)
        visit.page.on("pageerror", lambda fault: visit.wrong.append(f"error: {fault}"))
        visit.page.route("**/*", visit._guard)
        try:
            visit.page.goto(at + path)
            yield visit
            assert visit.wrong == []
        finally:
            context.close()

    def _note(self, said: ConsoleMessage) -> None:
        self.wrong.append(f"console: {said.text}")

    def _guard(self, route: Route) -> None:
        if route.request.url.startswith((self.address, "data:")):
            route.continue_()
        else:
            self.wrong.append(f"foreign: {route.request.url}")
            route.abort()

    def proven(self) -> str:
        """Wait until the plan is proven; return its odds."""
        expect(self.page.locator("#state")).to_contain_text("proven")
        return self.page.locator("#promise .odds").inner_text()

    def faults(self) -> list[str]:
        """Return what is not accessible to everybody, and whether the page scrolls sideways."""
        found = [
            f"{one['id']}: {[node['html'][:90] for node in one['nodes'][:3]]}"
            for one in Axe().run(self.page).response["violations"]
        ]
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        if self.page.evaluate(over) > 0:
            found.append("it scrolls sideways")
        return found
