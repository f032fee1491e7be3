"""Where things are: the files, modules and imports that the other meta tests walk."""

from __future__ import annotations

import ast
import functools
import os
import pkgutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import chaffinch

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "chaffinch"


@functools.cache
def files() -> tuple[Path, ...]:
    """Return every file that belongs to the repository: all but what .gitignore names."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    ignored = [".git", *(line.strip("/") for line in lines)]
    found: list[Path] = []
    for folder, inner, names in os.walk(ROOT):
        # Changing the list in place keeps os.walk out of the ignored folders.
        inner[:] = [name for name in inner if not any(fnmatch(name, bad) for bad in ignored)]
        # In a linked work tree .git is a file.
        kept = (name for name in names if not any(fnmatch(name, bad) for bad in ignored))
        found.extend(Path(folder, name) for name in kept)
    return tuple(sorted(found))


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every text file with its content."""
    for path in files():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


@functools.cache
def modules() -> tuple[str, ...]:
    """Return the dotted name of every chaffinch module, found without importing any."""
    found = pkgutil.walk_packages([str(SOURCE)], "chaffinch.")
    return (chaffinch.__name__, *sorted(module.name for module in found))


def source_of(name: str) -> str:
    """Return the text of a module."""
    path = SOURCE.parent.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path.read_text(encoding="utf-8") if path.exists() else ""


def imports(path: Path, *, package: str, types: bool = True) -> set[str]:
    """Return what a source file imports, as full dotted names, wherever in it they stand.

    ``from a import b`` counts as ``a.b``: whether b is a module cannot be told from the text.
    Without ``types``, what only the type checker imports does not count.
    """
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree if types else _WithoutTypes().visit(tree)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                kept = parents[: len(parents) - node.level + 1]
                base = ".".join([*kept, base] if base else kept)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


class _WithoutTypes(ast.NodeTransformer):
    """Takes away what stands under ``if TYPE_CHECKING``."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        only_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node.orelse if only_types else self.generic_visit(node)


def imported_modules(name: str) -> set[str]:
    """Return the modules of ours that a module imports when it runs, at once or late."""
    path = SOURCE.parent.joinpath(*name.split("."))
    if path.is_dir():
        path, package = path / "__init__.py", name
    else:
        path, package = path.with_suffix(".py"), name.rpartition(".")[0]
    known = set(modules())
    found = set()
    for one in imports(path, package=package, types=False) if path.exists() else ():
        while one not in known and "." in one:
            one = one.rpartition(".")[0]  # noqa: PLW2901 - a name inside a module
        found |= {one} & known
    return found - {name}
