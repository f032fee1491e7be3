"""The notebooks run, and every cell shows what is worth a look.

They are kept without outputs: outputs would be megabytes that change with every run. The gate runs
their cells in this process; the nightly tier in a kernel, and looks at them (`tests/web`).
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.meta import repository

FOLDER = repository.ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(path: Path, kind: str = "code") -> list[dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def shown_by(path: Path) -> list[object]:
    """Run every cell as a notebook does; return what the last expressions are."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for number, cell in enumerate(cells(path), 1):
        name, tree = f"{path.name}, cell {number}", ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)  # noqa: S102 - our own cells
        if isinstance(last, ast.Expr):
            shown.append(eval(compile(ast.Expression(last.value), name, "eval"), names))  # noqa: S307
    return [one for one in shown if one is not None]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_what_it_shows_is_a_card_or_a_frame(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = shown_by(path)
    assert len(shown) >= 8
    # A class of ours without a card of its own would show itself as a line of code.
    assert {type(one).__name__ for one in shown if not hasattr(one, "_repr_html_")} == set()
    printed = capsys.readouterr().out
    assert "<" not in printed
    if path.stem == "a-table":
        assert "released at most once" in printed
        assert "wets" not in printed


def test_there_is_one_for_each_kind_of_user_and_the_readme_names_them() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["a-researcher", "a-table", "an-app"]
    readme = (repository.ROOT / "README.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert str(path.relative_to(repository.ROOT)) in readme


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_has_no_outputs(path: Path) -> None:
    assert 8 <= len(cells(path)) <= 15
    assert all(cell["outputs"] == [] for cell in cells(path))
    assert all(cell["execution_count"] is None for cell in cells(path))
