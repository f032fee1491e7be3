"""The page on the assumed pair says what enumeration says."""

from __future__ import annotations

import pytest

from tests.oracles import assumed_pair


@pytest.mark.parametrize(("bits", "users"), [(2, 4), (2, 6), (3, 3)])
def test_the_page_holds_these_findings(bits: int, users: int) -> None:
    page = assumed_pair.PAGE.read_text(encoding="utf-8").splitlines()
    short = [found for found in assumed_pair.findings(bits, users) if found.truth > found.assumed]
    expected = [found.row() for found in short]
    assert [line for line in page if line.startswith(f"| {bits} | {users} | 0.")] == expected


@pytest.mark.long
def test_the_page_is_what_the_script_writes() -> None:
    assert assumed_pair.PAGE.read_text(encoding="utf-8") == assumed_pair.page()
