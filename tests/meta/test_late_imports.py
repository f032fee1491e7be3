"""A module of ours is imported late only where it brings a large library that is not there yet.

Packages with public names load them late in one way (PEP 562), which is no import in a function.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from tests.meta import repository

LARGE = (
    "cryptography",
    "flint",
    "matplotlib",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "scipy",
    "typer",
    "uvloop",
)
EXTRA = "chaffinch.engines.spark"
"""The room of an optional library, which its modules import when they run."""

ALLOWED = {
    # Whoever holds a release needs no charts: drawing is loaded with the first page.
    "chaffinch.release.publication": ("chaffinch.release.page",),
    # A survey is encoded, shuffled and counted without the other product and its twenty modules.
    "chaffinch.engines.local": ("chaffinch.reach.", "chaffinch.wire.filter_files"),
    # Devices read documents and write none: they need not know what else may not be overwritten.
    "chaffinch.wire.documents": ("chaffinch.disk.protected",),
    # Somebody may stop a command while it is still being loaded.
    "chaffinch.cli": ("chaffinch.cli.app", "chaffinch.cli.exits"),
}
"""What some modules import late for another reason: how the names of those begin."""

COMMAND = "chaffinch.cli"
"""The command answers `--help` without numpy, which takes longer to load than all of its verbs."""

Part = tuple[str, str]
"""A module and a name that is imported from it; the name is empty where it is the module."""


def imported(node: ast.AST) -> Iterator[Part]:
    """Yield what an import names; the sources have no relative ones (checked by the linter)."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from ((node.module or "", alias.name) for alias in node.names)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


AT_ONCE, LATE, FOR_TYPES = "with the module", "in a function", "for the type checker"


def parts(block: ast.AST, when: str = AT_ONCE) -> Iterator[tuple[str, Part]]:
    """Yield what is imported in a block, and when. Only statements are looked at."""
    for child in ast.iter_child_nodes(block):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from parts(child, LATE)
        elif is_for_types(child):
            yield from parts(child, FOR_TYPES)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from ((when, part) for part in imported(child))
            yield from parts(child, when)


@functools.cache
def parts_of(name: str) -> tuple[tuple[str, Part], ...]:
    """Return what a module imports, and when; the tree of its text is not kept."""
    return tuple(parts(ast.parse(repository.source_of(name))))


@functools.cache
def names_loaded_late(package: str) -> dict[str, str]:
    """Return in which module each public name of a package is: its imports for types tell."""
    return {name: module for when, (module, name) in parts_of(package) if when == FOR_TYPES}


def module_of(part: Part) -> str:
    """Return the module that an import loads."""
    module, name = part
    known = known_modules()
    if f"{module}.{name}" in known:
        return f"{module}.{name}"
    if module in known and name in names_loaded_late(module):
        return module_of((names_loaded_late(module)[name], name))
    return module


@functools.cache
def loaded_by(name: str) -> frozenset[str]:
    """Return all modules of ours that are loaded with one, and the large libraries."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found.add(one)
        waiting += loaded_directly_by(one)
    return frozenset(found)


@functools.cache
def loaded_directly_by(name: str) -> frozenset[str]:
    if name not in known_modules():
        return frozenset()
    package = {name.rpartition(".")[0]} - {""}
    at_once = (part for when, part in parts_of(name) if when == AT_ONCE)
    return frozenset(package.union(map(module_of, at_once)))


@functools.cache
def known_modules() -> frozenset[str]:
    return frozenset(repository.modules())


def large_in(name: str) -> set[str]:
    """Return the large libraries that a module loads."""
    if name.startswith(EXTRA):
        return {*LARGE}
    return {one.partition(".")[0] for one in loaded_by(name)} & {*LARGE, "numpy"}


def light_late_imports(name: str) -> list[str]:
    """Return the modules that are imported late for nothing."""
    parts_late = (part for when, part in parts_of(name) if when == LATE)
    ours = {module_of(part) for part in parts_late if f"{part[0]}.".startswith("chaffinch.")}
    known = large_in(name) | (set() if name.startswith(COMMAND) else {"numpy"})
    late = {module for module in ours if not large_in(module) - known}
    return sorted(one for one in late if not one.startswith(ALLOWED.get(name, ())))


def test_modules_are_imported_late_for_large_libraries_only() -> None:
    found = {name: light_late_imports(name) for name in repository.modules()}
    assert not {name: late for name, late in found.items() if late}, "import these at the top"


def test_what_a_module_loads_is_told_from_the_text() -> None:
    assert {"pydantic"} <= large_in("chaffinch.wire.documents")
    assert {"pyarrow", "pydantic"} <= large_in("chaffinch.simulate")
    assert not large_in("chaffinch.errors")
    assert not large_in("chaffinch"), "the front door loads late"
    assert module_of(("chaffinch", "Target")) == "chaffinch.privacy.guarantee"
    assert "chaffinch.disk.files" in loaded_by("chaffinch.disk.databases")


def test_a_late_import_is_found_wherever_it_stands() -> None:
    text = """
import a
class B:
    def c(self):
        if d:
            from e import f
if TYPE_CHECKING:
    import g
try:
    import h
except ImportError:
    pass
"""
    assert list(parts(ast.parse(text))) == [
        (AT_ONCE, ("a", "")),
        (LATE, ("e", "f")),
        (FOR_TYPES, ("g", "")),
        (AT_ONCE, ("h", "")),
    ]
