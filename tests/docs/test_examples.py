"""Examples run: those on pages and those in docstrings, with the answers they print."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.docs import pages
from tests.meta import repository
from tests.planned_once import plans_are_made_once  # noqa: F401 - pages plan the same surveys

EXAMPLES = [
    pytest.param(block, id=str(block))
    for page in pages.pages()
    for block in pages.blocks(page)
    if block.language == "python"
]

WITH_EXAMPLES = [name for name in repository.modules() if ">>> " in repository.source_of(name)]


@pytest.mark.parametrize("block", EXAMPLES)
def test_example_on_a_page(block: pages.Block) -> None:
    # Every example starts from nothing, so that it can be copied alone.
    example = doctest.DocTestParser().get_doctest(
        block.text, {"__name__": "__main__"}, str(block), str(block.page), block.line
    )
    assert example.examples, "write examples with >>> so that their answers are checked"
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=report.append)
    assert not report, "".join(report)


def test_the_readme_has_an_example() -> None:
    readme = repository.ROOT / "README.md"
    assert any(block.language == "python" for block in pages.blocks(readme))


def test_the_readme_begins_with_what_takes_a_minute() -> None:
    first = next(one for one in pages.blocks(repository.ROOT / "README.md") if one.language == "sh")
    commands = [line.partition("#")[0].strip() for line in first.text.splitlines()]
    assert commands == ["pip install .", "chaffinch demo"]


def test_docstrings_with_examples_were_found() -> None:
    assert len(WITH_EXAMPLES) >= 60


@pytest.mark.parametrize("room", sorted({name.split(".")[1] for name in WITH_EXAMPLES}))
def test_examples_in_docstrings(room: str) -> None:
    for name in WITH_EXAMPLES:
        if name.split(".")[1] != room:
            continue
        module = importlib.import_module(name)
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        for example in doctest.DocTestFinder().find(module, name):
            runner.run(example, out=report.append)
        assert not report, "".join(report)
        # Examples in places where doctest does not look would never run.
        assert runner.tries, name
