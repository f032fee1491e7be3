"""The example page beside real services of another origin: every person is counted once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.clients import node
from tests.meta.repository import ROOT
from tests.web.browsing import PATIENCE, browser

EXAMPLE = ROOT / "examples" / "browser" / "collect.py"
ARRIVED, KEPT = "Your answer has arrived.", "Your answer is kept"
FIRST = "Your first answer has arrived"


@contextmanager
def collection(people: int, client: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the program of the example; yield the address of its page."""
    command = [sys.executable, str(EXAMPLE), "--people", str(people), "--client", str(client)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.terminate()


def person(chromium: Browser) -> BrowserContext:
    """Return a browser profile of its own."""
    made = chromium.new_context()
    made.set_default_timeout(PATIENCE)
    return made


def visit(context: BrowserContext, address: str) -> Page:
    """Open the page."""
    page = context.new_page()
    page.goto(address)
    return page


def answer(page: Page, label: str = "yes") -> None:
    """Answer, and send."""
    page.get_by_label(label).check()
    page.get_by_role("button").click()


def refuses(context: BrowserContext, address: str) -> None:
    """See that the client as it is shipped sends nothing if the page asks for more than is true."""
    page = context.new_page()
    methods: list[str] = []
    page.on("request", lambda one: methods.append(one.method))
    page.route("**/client.js", lambda one: one.fulfill(path=node.FOLDER / "dist" / "client.min.js"))

    # Before the page's module runs, and without a changed document, which would be one of nowhere.
    page.add_init_script(
        "addEventListener('readystatechange', () => {"
        " document.querySelector('form').dataset.epsilon = '0.001'; }, true)"
    )
    page.goto(address)
    expect(page.locator("#state")).to_contain_text("GuaranteeNotProven")
    assert page.evaluate("document.querySelector('form').dataset.epsilon") == "0.001"
    assert page.get_by_role("button").is_disabled()
    assert methods
    assert "POST" not in methods


def test_everybody_is_counted_once_whatever_the_network_does() -> None:
    """Five people: one offline, one with two tabs, one who reloads, one with a lost reply."""
    client = node.built() / "build" / "browser" / "impatient.js"
    expect.set_options(timeout=PATIENCE)
    with browser() as chromium, collection(5, client) as (address, process):
        plain, offline, tabs, reloaded, lost = (person(chromium) for _ in range(5))

        refuses(plain, address)
        page = visit(plain, address)
        sent: list[tuple[str, dict[str, str]]] = []
        page.on("request", lambda one: sent.append((one.url, one.headers)))
        assert Axe().run(page).response["violations"] == []
        answer(page)
        expect(page.locator("#state")).to_have_text(ARRIVED)
        assert [url.rpartition("/")[2] for url, _ in sent] == ["key-lists", "reports"], sent
        for _, headers in sent:
            assert not any(map(headers.get, ("cookie", "referer", "authorization"))), headers

        page = visit(offline, address)
        expect(page.get_by_role("button")).to_be_enabled()
        offline.set_offline(True)
        answer(page, "no")
        expect(page.locator("#state")).to_contain_text(KEPT)
        offline.set_offline(False)
        expect(page.locator("#state")).to_have_text(ARRIVED)

        one, two = visit(tabs, address), visit(tabs, address)
        for page in (one, two):
            answer(page)
        for page in (one, two):
            expect(page.locator("#state")).to_contain_text("answer has arrived")

        page = visit(reloaded, address)
        expect(page.get_by_role("button")).to_be_enabled()
        reloaded.set_offline(True)
        answer(page)
        expect(page.locator("#state")).to_contain_text(KEPT)
        reloaded.set_offline(False)
        page.reload()
        answer(page, "no")
        expect(page.locator("#state")).to_contain_text(FIRST)

        page = visit(lost, address)
        bodies: list[bytes | None] = []

        def drop_reply(route: Route) -> None:
            bodies.append(route.request.post_data_buffer)
            if len(bodies) == 1:
                route.fetch()  # It arrives, and its reply is lost.
                route.abort()
            else:
                route.continue_()

        page.route("**/reports", drop_reply)
        answer(page)
        expect(page.locator("#state")).to_have_text(ARRIVED)
        assert len(bodies) == 2
        assert bodies[0] == bodies[1]

        assert process.stdout is not None
        release = json.loads(process.stdout.read())
    assert release["reports"] == 5


@pytest.mark.long
def test_fifty_pages_answer_and_the_release_has_them() -> None:
    client = node.built() / "build" / "browser" / "impatient.js"
    expect.set_options(timeout=PATIENCE)
    with browser() as chromium, collection(50, client) as (address, process):
        for number in range(50):
            context = person(chromium)
            page = visit(context, address)
            answer(page, "yes" if number % 5 else "no")
            expect(page.locator("#state")).to_have_text(ARRIVED)
            context.close()
        assert process.stdout is not None
        release = json.loads(process.stdout.read())
    assert release["reports"] == 50
