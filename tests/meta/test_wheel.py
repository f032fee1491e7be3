"""What is installed: built for real, from a copy, with the locked backend."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.meta import repository


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names in a freshly built wheel."""
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path_factory.mktemp("copy")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(repository.ROOT / name, copy)
    # What was built in place must not slip in: the wheel builds its own, or goes without.
    built = shutil.ignore_patterns("*.so", "*.pyd")
    shutil.copytree(repository.SOURCE, copy / "src" / "chaffinch", ignore=built)
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, "."], cwd=copy, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = copy.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_says_that_it_is_typed(names: set[str]) -> None:
    assert "chaffinch/py.typed" in names


def test_wheel_holds_every_module(names: set[str]) -> None:
    sources = {
        (Path("chaffinch") / path.relative_to(repository.SOURCE)).as_posix()
        for path in repository.SOURCE.rglob("*.py")
    }
    assert sources <= names


def test_wheel_holds_every_loop_in_c_as_source_and_all_or_none_built(names: set[str]) -> None:
    loops = {path.stem for path in (repository.SOURCE / "sampling" / "native").glob("*.c")}
    assert loops == {"_filters", "_native"}
    assert {f"chaffinch/sampling/native/{name}.c" for name in loops} <= names
    built = {name for name in loops if any(f"sampling/{name}.abi3" in one for one in names)}
    assert built in (loops, set())


def test_wheel_holds_the_licence_and_nothing_foreign(names: set[str]) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"chaffinch"}
