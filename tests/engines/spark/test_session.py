"""In which applications of Spark nothing is done, and why."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark import SparkConf

from chaffinch.engines.spark.session import check_settings, usual_settings
from chaffinch.errors import InvalidInput
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
