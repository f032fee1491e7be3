"""Where things are: the files, modules and imports that the other meta tests walk."""

from __future__ import annotations

import ast
import functools
import pkgutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import chaffinch

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "chaffinch"


@functools.cache
def files() -> tuple[Path, ...]:
    """Return every file that belongs to the repository, committed or about to be."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    paths = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


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


def imports(path: Path, *, package: str) -> set[str]:
    """Return what a source file imports, as full dotted names, wherever in it they stand.

    ``from a import b`` counts as ``a.b``: whether b is a module cannot be told from the text.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
