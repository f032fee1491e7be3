"""Every module stands alone, says what it offers, and explains it."""

from __future__ import annotations

import graphlib
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

import chaffinch
from tests.cases import each_case
from tests.meta import repository

OFFERING = [
    name
    for name in repository.modules()
    if re.search(r"^__all__\b", repository.source_of(name), re.MULTILINE)
]

PARTS = 4
"""The modules are shared out, so that all workers have some."""

IMPORT_EACH_FIRST = """
import importlib, sys, traceback

package, *names = sys.argv[1:]
for name in names:
    for loaded in [one for one in sys.modules if f"{one}.".startswith(f"{package}.")]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except BaseException:
        print(f"{name}: {traceback.format_exc()}", file=sys.stderr)
"""


def import_each_first(package: str, names: Sequence[str], folder: Path) -> tuple[str, str]:
    """Import each module into a package of which nothing is loaded; return output and failures.

    One process does for all: what is forgotten between two modules is the package itself, in
    which circles are. Other packages stay loaded.
    """
    command = [sys.executable, "-W", "error", "-c", IMPORT_EACH_FIRST, package, *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout, done.stderr


@pytest.mark.long
def test_no_module_imports_itself_by_a_detour() -> None:
    """Neither at once nor late. So whichever module comes first, it finds what it needs."""
    graph = {name: repository.imported_modules(name) for name in repository.modules()}
    assert "chaffinch.cli.app" in graph["chaffinch.cli"], "late imports count"
    order = tuple(graphlib.TopologicalSorter(graph).static_order())  # raises at a circle
    assert len(order) == len(graph) > 200


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_every_module_can_be_imported_first(part: int) -> None:
    # A circular import shows only when its module comes first.
    names = repository.modules()[part::PARTS]
    assert import_each_first("chaffinch", names, repository.ROOT) == ("", "")


def test_a_circle_is_found(tmp_path: Path) -> None:
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "__init__.py").touch()
    (tmp_path / "ring" / "one.py").write_text("import ring.two\nNAME = 1\n")
    (tmp_path / "ring" / "two.py").write_text("from ring.one import NAME\nprint(NAME)\n")
    shown, failed = import_each_first("ring", ("ring.two", "ring.one"), tmp_path)
    assert shown == "1\n"
    assert failed.startswith("ring.one: ")
    assert "partially initialized module" in failed


def test_modules_that_offer_names_were_found() -> None:
    assert len(OFFERING) >= 10


@each_case("name", OFFERING)
def test_offered_names_exist_and_are_offered_once(name: str) -> None:
    # Their order is ruff's to watch (RUF022).
    module = importlib.import_module(name)
    offered = module.__all__
    assert len(offered) == len(set(offered))
    missing = [item for item in offered if item not in dir(module)]
    assert not missing


@each_case("name", repository.modules())
def test_public_things_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    bare = [] if module.__doc__ else [name]
    for label, thing in vars(module).items():
        if label.startswith("_") or getattr(thing, "__module__", None) != name:
            continue
        if inspect.isclass(thing) or inspect.isfunction(thing):
            bare.extend(undocumented(thing, f"{name}.{label}"))
    assert not bare


def undocumented(thing: object, label: str) -> list[str]:
    """Return the label if it has no docstring of its own, and those of a class's own methods.

    A method that overrides a documented one may keep that one's docstring.
    """
    bare = [] if inspect.getdoc(thing) else [label]
    if inspect.isclass(thing):
        for name, member in vars(thing).items():
            function = member.fget if isinstance(member, property) else member
            function = getattr(function, "__func__", function)
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            if not inspect.getdoc(getattr(thing, name)):
                bare.append(f"{label}.{name}")
    return bare


def test_importing_chaffinch_is_light() -> None:
    code = "import sys, chaffinch; print(*{'numpy', 'scipy', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_unknown_parts_are_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = chaffinch.nonsense


def test_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((repository.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["version"] == chaffinch.__version__
