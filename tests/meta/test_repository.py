"""What must never be in the repository: addresses in locks, paths of one machine."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.meta import repository

LOCKS = sorted((repository.ROOT / "requirements").glob("*.txt"))

# Absolute paths that exist on one machine only; /usr, /bin and the like are everybody's.
MACHINE_PATH = re.compile(r"(?<![\w./-])/(?:home|Users|root|work|opt|tmp|mnt|srv)/\w")

_CLAUSE = r"\(?[a-z_]+ [=!<>]+ '[\w.*]+'\)?"
REQUIREMENT = re.compile(rf"[a-z0-9-]+==[0-9][0-9a-z.+!]*( ; {_CLAUSE}( (and|or) {_CLAUSE})*)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_locks_hold_versions_and_hashes_only(lock: Path) -> None:
    # An allow-list: an index, a link, a path or a comment would be another kind of line.
    strange = [
        line
        for line in lock.read_text(encoding="utf-8").splitlines()
        if not REQUIREMENT.fullmatch(line) and not HASH.fullmatch(line)
    ]
    assert not strange


@pytest.mark.parametrize("extra", ["dev", "bench", "mutants"])
def test_locks_cover_what_the_project_declares(extra: str) -> None:
    text = (repository.ROOT / "requirements" / f"{extra}.txt").read_text(encoding="utf-8")
    locked = {line.split("==")[0] for line in text.splitlines() if "==" in line}
    assert declared(extra) <= locked


def declared(extra: str) -> set[str]:
    """Return the distributions that the core and one extra ask for, extras of extras included."""
    text = (repository.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    names: set[str] = set()
    waiting = [*project["dependencies"], *project["optional-dependencies"][extra]]
    while waiting:
        wanted = waiting.pop()
        inner = re.fullmatch(r"chaffinch\[([\w,]+)\]", wanted)
        if inner:
            for name in inner[1].split(","):
                waiting.extend(project["optional-dependencies"][name])
        else:
            names.add(re.split(r"[<>=!~ ;\[]", wanted)[0])
    return names


def test_no_file_names_a_path_of_some_machine() -> None:
    found = [
        f"{path.relative_to(repository.ROOT)}:{number}: {line.strip()}"
        for path, text in repository.texts()
        for number, line in enumerate(text.splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found


def test_the_gate_script_runs_the_gate() -> None:
    script = repository.ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")


def test_a_chosen_interpreter_gets_an_environment_of_its_own() -> None:
    """With one environment for all, the interpreter that came first would run every suite."""
    outer = ("BASE_PYTHON", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    alone = {name: value for name, value in os.environ.items() if name not in outer}

    def told(*words: str) -> str:
        command = ("make", "--dry-run", "lint", *words)
        done = subprocess.run(
            command, cwd=repository.ROOT, env=alone, capture_output=True, text=True, check=True
        )
        return done.stdout

    own = f".venv-dev-{sys.version_info.major}.{sys.version_info.minor}/bin/python -m mypy"
    assert f"\n{own}" in told(f"BASE_PYTHON={sys.executable}")
    assert "\n.venv-dev/bin/python -m mypy" in told()


def test_the_map_for_contributors_names_every_folder_and_file() -> None:
    text = (repository.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\w+)` \| ", text, flags=re.MULTILINE)
    folders = {path.parent.name for path in repository.SOURCE.glob("*/__init__.py")}
    files = {path.stem for path in repository.SOURCE.glob("*.py") if "__" not in path.stem}
    assert len(told) == len(set(told))
    assert set(told) == folders | files
    # Folders inside a room that a row names must be there too.
    inner = {path.parent.name for path in repository.SOURCE.glob("*/*/__init__.py")}
    assert inner <= set(re.findall(r"`(?:\w+/)?(\w+)`", text))


def test_every_database_that_is_opened_is_closed() -> None:
    """Python 3.13 warns of one that nobody closed, in whatever runs when it is collected."""
    open_ended = [
        f"{path.relative_to(repository.ROOT)}:{line}"
        for path in repository.files()
        if path.suffix == ".py"
        for line in unclosed_connections(path.read_text(encoding="utf-8"))
    ]
    assert not open_ended
    # `with connection` is a transaction, and closes nothing.
    assert unclosed_connections("with sqlite3.connect(path) as connection:\n    pass") == [1]


def unclosed_connections(source: str) -> list[int]:
    """Return the lines that connect to a database outside of `closing(...)` and `return ...`."""
    if "sqlite3.connect(" not in source:
        return []
    nodes = list(ast.walk(ast.parse(source)))
    cared_for: list[ast.expr | None] = []
    for node in nodes:
        if isinstance(node, ast.Return):
            cared_for.append(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "closing":
            cared_for += node.args
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "sqlite3.connect"
        and node not in cared_for
    ]
