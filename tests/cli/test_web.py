"""What ``chaffinch web`` tells the browser, and whoever can read command lines."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from chaffinch.cli.web import web
from chaffinch.web import serving

ADDRESS = "http://127.0.0.1:8123/a-secret/"


@pytest.fixture(name="opened")
def _opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    opened: list[str] = []

    def note(address: str) -> None:
        opened.append(address)

    def serve(_folder: Path, announce: Callable[[str], object], **_given: object) -> None:
        announce(ADDRESS)
        # A browser may take its time: the file is there as long as the server is.
        for one in opened:
            file = Path(unquote(urlsplit(one).path))
            assert ADDRESS in file.read_text()
            assert [one.stat().st_mode & 0o077 for one in (file, file.parent)] == [0, 0]

    monkeypatch.setattr(webbrowser, "open", note)
    monkeypatch.setattr(serving, "serve", serve)
    return opened


def test_the_command_line_of_the_browser_has_no_address(opened: list[str], tmp_path: Path) -> None:
    web(tmp_path)
    (told,) = opened
    assert told.startswith("file://")
    assert "a-secret" not in told
    assert not Path(unquote(urlsplit(told).path)).parent.exists()


def test_no_browser_is_told_anything(opened: list[str], tmp_path: Path) -> None:
    web(tmp_path, browser=False)
    assert opened == []
