"""The TypeScript client: its types, its size, and its checks in Node and in a browser."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.clients import node
from tests.web.browsing import PATIENCE, browser

_CORE = 12_000
"""Bytes, compressed, of what every page loads."""


def test_without_node_tests_are_skipped_aloud_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_commands", lambda: None)
    monkeypatch.delenv("CHAFFINCH_REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="make client"):
        node.built.__wrapped__()
    monkeypatch.setenv("CHAFFINCH_REQUIRE_BROWSER", "1")
    with pytest.raises(pytest.fail.Exception, match="make client"):
        node.built.__wrapped__()


def test_types_are_strict() -> None:
    folder = node.built()
    node.run(str(folder / "node_modules" / "typescript" / "bin" / "tsc"), "--noEmit")


def test_all_checks_pass_in_node() -> None:
    folder = node.built()
    # Named one by one: versions of Node differ in what a folder means.
    files = sorted(map(str, (folder / "build" / "test").glob("*.mjs")))
    said = node.run("--test", "--test-reporter=tap", *files)
    passed = re.search(r"^# pass (\d+)$", said, flags=re.MULTILINE)
    assert passed is not None
    assert int(passed[1]) == len(re.findall(r"^ok ", said, flags=re.MULTILINE)) > 60
    assert (folder / "dist" / "client.min.js").exists()


def test_what_every_page_loads_is_small() -> None:
    folder = node.built() / "dist"
    loaded = loaded_at_once(folder)
    size = sum(len(gzip.compress((folder / name).read_bytes(), 9)) for name in loaded)
    assert size <= _CORE, loaded
    # A plan with shared noise loads a second part, and no page loads what is of Node.
    assert len(list(folder.glob("*.js"))) > len(loaded) + 2
    assert "node:" not in "".join((folder / name).read_text("utf-8") for name in loaded)


def loaded_at_once(folder: Path, name: str = "index.js") -> set[str]:
    """Return a module of the built client and all that it imports at once."""
    found, waiting = set[str](), [name]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            text = (folder / module).read_text("utf-8")
            waiting += re.findall(r'(?:from|import)"\./([^"]+)"', text)
    return found


def test_nothing_else_is_needed_at_run_time() -> None:
    folder = node.built()
    package = json.loads((folder / "package.json").read_text("utf-8"))
    assert "dependencies" not in package
    locked = json.loads((folder / "package-lock.json").read_text("utf-8"))["packages"]
    assert all(one.get("integrity") for name, one in locked.items() if name)
    assert all("resolved" not in one for one in locked.values())


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, as a page's own server does; yield its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def end_headers(self) -> None:
            self.send_header("content-security-policy", f"default-src 'none'; {POLICY}")
            super().end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


POLICY = "script-src 'self'; connect-src http://127.0.0.1:*"


def test_all_checks_pass_in_a_browser() -> None:
    folder = node.built() / "build" / "browser"
    (folder / "index.html").write_text(
        '<!doctype html><script src="checks.js" type="module"></script>'
    )
    with serving(folder) as address, browser() as chromium:
        page = chromium.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/index.html")
        page.wait_for_function("globalThis.run !== undefined")
        found = page.evaluate("run()")
    assert found["failed"] == []
    assert len(found["passed"]) > 60
