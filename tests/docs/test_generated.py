"""Generated pages are what the code would write now."""

from __future__ import annotations

from pathlib import Path

from tests.cases import each_case
from tests.docs import reference


@each_case("path", reference.written(), ids=lambda path: path.name)
def test_reference_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == reference.written()[path], "run `make docs`"


@each_case("path", reference.written(), ids=lambda path: path.name)
def test_reference_holds_no_address_in_memory(path: Path) -> None:
    assert " at 0x" not in reference.written()[path]
