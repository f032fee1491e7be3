"""Every module stands alone, says what it offers, and explains it."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import tomllib

import pytest

import chaffinch
from tests.meta import repository


@pytest.mark.parametrize("name", repository.modules())
def test_imports_alone_in_a_fresh_process(name: str) -> None:
    # A circular import shows only when its module comes first.
    command = [sys.executable, "-W", "error", "-c", f"import {name}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("name", repository.modules())
def test_offered_names_are_sorted_and_exist(name: str) -> None:
    module = importlib.import_module(name)
    offered = getattr(module, "__all__", None)
    if offered is None:
        return
    assert list(offered) == sorted(set(offered))
    missing = [item for item in offered if item not in dir(module)]
    assert not missing


@pytest.mark.parametrize("name", repository.modules())
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
