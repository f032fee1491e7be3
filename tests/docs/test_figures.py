"""Pictures on pages are what the code would draw now, and can be read in light and dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaffinch.charts.gallery.exhibits import EXHIBITS, Exhibit
from tests.cases import each_case
from tests.docs import figures, gallery, pages
from tests.meta import repository
from tests.tiers import nightly

_SLOW = {"budget", "errors-of-protocols", "flips", "rounds"}
_QUICK_EXHIBITS = {"one-bit-delta", "random-responders-errors", "coefficients", "decoy-formulas"}


@pytest.mark.parametrize(
    "name", [nightly(name) if name in _SLOW else name for name in figures.FIGURES]
)
def test_a_picture_is_fresh(name: str) -> None:
    drawn = (figures.FOLDER / f"{name}.svg").read_text("utf-8")
    assert drawn == figures.FIGURES[name](), "run `make docs`"


@pytest.mark.parametrize(
    "exhibit",
    [
        pytest.param(
            one, id=one.name, marks=[] if one.name in _QUICK_EXHIBITS else pytest.mark.long
        )
        for one in EXHIBITS
    ],
)
def test_an_exhibit_is_fresh(exhibit: Exhibit) -> None:
    found: dict[str, object] = {}
    exec(gallery.code(exhibit.name), found)  # noqa: S102 - the lines that the page shows
    section = exhibit.make()
    assert found["pictures"] == section.charts
    assert gallery.part(exhibit, section) in gallery.PAGE.read_text("utf-8"), "run `make docs`"
    for path, text in gallery.files(section).items():
        assert path.read_text("utf-8") == text, "run `make docs`"


def test_every_exhibit_has_its_part_on_the_page() -> None:
    page = gallery.PAGE.read_text("utf-8")
    assert re.findall(r"(?m)^`([a-z-]+)`: ", page) == [one.name for one in EXHIBITS]
    for one in EXHIBITS:
        assert gallery.code(one.name) in page


def test_every_picture_is_shown_somewhere_and_says_what_it_shows() -> None:
    shown: dict[str, str] = {}
    for page in pages.pages():
        for words, link in re.findall(r"!\[([^\]]*)\]\(([^)]+\.svg)\)", page.read_text("utf-8")):
            shown[str((page.parent / link).resolve())] = words
    drawn = {str(path) for path in figures.FOLDER.rglob("*.svg")}
    assert drawn == set(shown)
    assert all(len(words) > 20 for words in shown.values())
    made = {figures.FOLDER / f"{name}.svg" for name in figures.FIGURES}
    assert set(figures.FOLDER.glob("*.svg")) == made


def test_pictures_have_a_ground_of_their_own_in_light_and_dark() -> None:
    for path in figures.FOLDER.rglob("*.svg"):
        text = path.read_text("utf-8")
        assert "prefers-color-scheme:dark" in text
        assert '<rect class="site-paper"' in text
        assert "<title>" in text


OPENED = [
    pytest.param(page, id=page.stem)
    for page in pages.pages()
    if page.parent in {repository.ROOT / "docs" / name for name in ("guides", "concepts")}
]


@each_case("page", OPENED)
def test_a_guide_or_a_concept_opens_with_a_picture_or_an_example(page: Path) -> None:
    opening = re.split(r"(?m)^## ", page.read_text("utf-8"))[0]
    found = re.search(r"(?m)^!\[|^```|^\|", opening)
    assert found, "a picture, an example or a table before the second heading"
    assert len(opening[: found.start()].split()) < 120, "in the first lines"
