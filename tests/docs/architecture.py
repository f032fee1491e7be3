"""The picture and the table of docs/architecture.md, made from the import contracts.

Run ``python -m tests.docs.architecture`` to write them: what the linter enforces is what is drawn.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence

from tests.meta import repository

PAGE = repository.ROOT / "docs" / "architecture.md"
START, END = "<!-- made by `make docs` from the import contracts -->\n", "<!-- end -->\n"
_WIDTH = 78


def layers(container: str) -> list[list[str]]:
    """Return the rooms of a package, layer by layer from the top, as its contract has them."""
    text = (repository.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    (found,) = [one for one in contracts if one.get("containers") == [container]]
    rooms = [re.split(r" [|:] ", layer) for layer in found["layers"] if not layer.startswith("(")]
    return [[room.strip("()") for room in layer] for layer in rooms]


def picture(rows: Sequence[Sequence[str]]) -> str:
    """Return the layers as boxes: what stands above may use what stands below, never aside."""
    edges = [_edges(row) for row in rows]
    lines = [_line("┌", "┬", "┐", edges[0])]
    for number, row in enumerate(rows):
        cells = "│".join(
            f" {name}".ljust(end - start - 1)
            for name, start, end in zip(row, edges[number], edges[number][1:], strict=False)
        )
        lines.append(f"│{cells}│")
        if number + 1 < len(rows):
            lines.append(_between(edges[number], edges[number + 1]))
    lines.append(_line("└", "┴", "┘", edges[-1]))
    return "\n".join(lines) + "\n"


def _edges(row: Sequence[str]) -> list[int]:
    widths = [(_WIDTH - 1) / len(row)] * len(row)
    needed = [len(name) + 3 for name in row]
    if max(needed) > widths[0]:
        spare = (_WIDTH - 1 - sum(needed)) / len(row)
        widths = [one + spare for one in needed]
    return [round(sum(widths[:place])) for place in range(len(row) + 1)]


def _line(left: str, middle: str, right: str, edges: Sequence[int]) -> str:
    inner = "".join(middle if place in edges else "─" for place in range(1, _WIDTH - 1))
    return f"{left}{inner}{right}"


def _between(above: Sequence[int], below: Sequence[int]) -> str:
    marks = {(True, True): "┼", (True, False): "┴", (False, True): "┬", (False, False): "─"}
    inner = "".join(marks[place in above, place in below] for place in range(1, _WIDTH - 1))
    return f"├{inner}┤"


def first_line(room: str) -> str:
    """Return what a room says of itself first."""
    folder = repository.SOURCE.joinpath(*room.split("."))
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].replace("``", "`").rstrip(".")


def _parts() -> Iterator[str]:
    house = layers("chaffinch")
    yield f"```\n{picture(house)}```\n"
    yield "\n| Room | What it is |\n|---|---|\n"
    yield "".join(f"| `{room}` | {first_line(room)} |\n" for row in house for room in row)
    for room, why in (
        (
            "reach",
            "Inside `reach`, the parties of the other product are walled off in the same way",
        ),
        ("privacy", "Inside `privacy`, mechanisms stand on certified arithmetic"),
    ):
        yield f"\n{why}:\n\n```\n{picture(layers(f'chaffinch.{room}'))}```\n"


def made() -> str:
    """Return the page with the parts that are made put in anew."""
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    return before + START + "\n" + "".join(_parts()) + "\n" + END + rest.split(END, 1)[1]


if __name__ == "__main__":
    PAGE.write_text(made(), encoding="utf-8")
