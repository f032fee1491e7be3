"""In which applications of Spark nothing is done, and why."""

from __future__ import annotations

import pytest
from pyspark import SparkConf

from chaffinch.engines.spark.session import check_settings
from chaffinch.errors import InvalidInput

FINE = {"spark.io.encryption.enabled": "true", "spark.submit.deployMode": "client"}


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
    known = {"master": "spark://there:7077", "authenticate": "true"}
    check_settings(settings(**known, **{"network.crypto.enabled": "true"}))
    check_settings(settings(**known, **{"ssl.rpc.enabled": "true"}))
    with pytest.raises(InvalidInput, match=r"one with spark\.network\.crypto\.enabled=true"):
        check_settings(settings(**known))
    with pytest.raises(InvalidInput, match=r"one with spark\.authenticate=true"):
        check_settings(settings(master="yarn", **{"network.crypto.enabled": "true"}))
