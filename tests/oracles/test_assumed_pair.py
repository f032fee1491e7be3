"""The page on the assumed pair says what enumeration says."""

from __future__ import annotations

from tests.oracles import assumed_pair


def test_the_page_is_what_the_script_writes() -> None:
    assert assumed_pair.PAGE.read_text(encoding="utf-8") == assumed_pair.page()
