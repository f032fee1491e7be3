"""What is installed: built for real, from a copy, with the locked backend; one wheel for all."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.meta import repository

LOCK = (repository.ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
LOCKED = {
    entry[1]: entry[0]
    for entry in re.finditer(r"^([a-z0-9-]+)==(?:.*\\\n)*.*\n", LOCK, flags=re.MULTILINE)
}
"""The version and the hashes of each distribution, as lines for pip."""
PROJECT = tomllib.loads((repository.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CLAIMED = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
"""The versions of Python that the suite has run on."""


def run(*words: str | Path, cwd: Path, **environment: str) -> str:
    """Return what a command prints; the sources of this repository are out of its reach."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        words, cwd=cwd, env=clean | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that was built as `python -m build` does: from a source distribution."""
    pytest.importorskip("setuptools", minversion="77")
    copy = tmp_path_factory.mktemp("copy")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(repository.ROOT / name, copy)
    # What was built in place must not slip in: the wheel builds its own, or goes without.
    built = shutil.ignore_patterns("*.so", "*.pyd")
    shutil.copytree(repository.SOURCE, copy / "src" / "chaffinch", ignore=built)
    code = "from setuptools import build_meta; build_meta.build_sdist('.')"
    run(sys.executable, "-c", code, cwd=copy)
    (source,) = copy.glob("*.tar.gz")
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index")
    run(*pip, source, cwd=copy)
    (wheel,) = copy.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """Return the names in the wheel."""
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


@pytest.mark.long
def test_wheel_holds_the_licence_and_nothing_foreign(names: set[str]) -> None:
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"chaffinch"}


@pytest.mark.long
def test_wheel_is_for_every_python_that_is_claimed_and_later_ones(wheel: Path) -> None:
    oldest = CLAIMED[0]
    assert PROJECT["requires-python"] == f">={oldest}"
    python, abi = wheel.stem.split("-")[2:4]
    assert (python, abi) == (f"cp{oldest.replace('.', '')}", "abi3")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", CLAIMED)
def test_the_demo_runs_from_the_wheel_in_a_clean_environment(
    version: str, wheel: Path, names: set[str], tmp_path: Path
) -> None:
    run(interpreter(version), "-m", "venv", "--without-pip", "env", cwd=tmp_path)
    inside = tmp_path / "env" / "bin"
    core = "".join(LOCKED[name] for name in needed("chaffinch"))
    (tmp_path / "core.txt").write_text(core, encoding="utf-8")
    # The pip of this environment: not every system gives one to each of its interpreters.
    pip = (sys.executable, "-m", "pip", "--python", inside / "python")
    install = (*pip, "install", "--no-deps", "--only-binary", ":all:")
    run(*install, "--require-hashes", "-r", "core.txt", cwd=tmp_path)
    run(*install, "--no-index", wheel, cwd=tmp_path)
    run(*pip, "check", cwd=tmp_path)
    built = any(".abi3." in name for name in names)
    kernels = "native" if built else "numpy"
    code = "import chaffinch, sys; print('%d.%d' % sys.version_info[:2], chaffinch.__file__)"
    found, _, file = run(inside / "python", "-c", code, cwd=tmp_path).partition(" ")
    assert found == version
    assert Path(file).is_relative_to(tmp_path)
    shown = run(inside / "chaffinch", "demo", cwd=tmp_path, CHAFFINCH_KERNELS=kernels)
    assert "firefox" in shown
    assert (tmp_path / "demo-output" / "release.html").stat().st_size > 0


def interpreter(version: str) -> str:
    """Return a Python of this version, or skip the test: what is not here was not tried."""
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    code = "import ssl, sqlite3, sys, venv; print('%d.%d' % sys.version_info[:2])"
    for folder in os.get_exec_path():
        # A name may stand for nothing: of a version that was not chosen, or without its parts.
        found = shutil.which(f"python{version}", path=folder)
        if found:
            done = subprocess.run([found, "-c", code], capture_output=True, text=True, check=False)
            if done.stdout.strip() == version:
                return found
    pytest.skip(f"NOT TRIED: no Python {version} was found, so nothing is known of the wheel on it")


def needed(name: str, *, known: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the distributions that are asked for without any extra, by themselves and by those."""
    for wanted in metadata.requires(name) or ():
        other = re.sub(r"[._]", "-", re.split(r"[^\w.-]", wanted)[0]).lower()
        if "extra ==" not in wanted and other in LOCKED.keys() - known:
            known = needed(other, known=known | {other})
    return known
