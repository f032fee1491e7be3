"""Generated pages are what the code would write now."""

from __future__ import annotations

import re
from pathlib import Path

from chaffinch.privacy.mechanism import BETWEEN_MODULES
from tests.cases import each_case
from tests.docs import reference
from tests.meta import repository


@each_case("path", reference.written(), ids=lambda path: path.name)
def test_reference_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == reference.written()[path], "run `make docs`"


@each_case("path", reference.written(), ids=lambda path: path.name)
def test_reference_holds_no_address_in_memory(path: Path) -> None:
    assert " at 0x" not in reference.written()[path]


def test_every_metric_is_on_the_page_of_services() -> None:
    named = re.findall(r'"(chaffinch_[a-z_]+)"', repository.source_of("chaffinch.services.admin"))
    gauges = "".join(
        repository.source_of(f"chaffinch.services.{one}") for one in ("hop", "analyzer_process")
    )
    named += [
        f"chaffinch_{one}"
        for found in re.findall(r'gauges\["(\w+)"\]|gauges = \{"(\w+)"', gauges)
        for one in found
        if one
    ]
    told = {name.removesuffix("_total") for name in reference.METRICS}
    assert len(named) > 8
    assert set(named) <= told


def test_what_modules_ask_one_another_is_not_listed() -> None:
    page = reference.written()[reference.FOLDER / "privacy.md"]
    assert not [name for name in BETWEEN_MODULES if f"- `{name}" in page]


def test_arguments_of_mechanisms_are_explained_and_sources_are_links() -> None:
    page = reference.written()[reference.FOLDER / "privacy.md"]
    noise = page.partition("## privacy.NoisyTotals")[2].partition("\n## ")[0]
    assert '`law` is "laplace" or "gaussian"' in noise
    assert "NoisyTotals(law=" in noise
    assert "[S0](../references.md#" in page
    assert "doctest:" not in page
