"""Which settings an application of Spark must have, and which ours have.

Spark writes what its tasks exchange, and what is broadcast to them, to the disks of all machines.
So an application must have ``spark.io.encryption.enabled``, or nothing is done in it. It listens
for whoever asks for blocks, also on one machine: so it must have ``spark.authenticate``, too.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.engines.spark.masters import on_one_machine
from chaffinch.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark import SparkConf

LOCAL = "local[*]"
"""The master of an application for which nobody has named one."""
_ENCRYPTION = "spark.io.encryption.enabled"
_KNOWN_PEERS = "spark.authenticate"
_CIPHER = "spark.network.crypto.enabled"
_MODE = "spark.submit.deployMode"
_SWITCH = re.compile(r"\s*(\S+?)(?:\s*[=:]\s*|\s+)(\S+)\s*")
_SUBMITTED = "PYSPARK_SUBMIT_ARGS"
_USUAL = {
    _ENCRYPTION: "true",
    _KNOWN_PEERS: "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.structuredLogging.enabled": "false",
}
"""What our own applications have, unless Spark's own configuration says otherwise."""
_USUAL_ALONE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What they have besides on one machine: Spark would listen on its network."""
_USUAL_ON_NETWORKS = {
    _CIPHER: "true",
}
"""What they have besides where there are several machines."""


def check_defaults() -> None:
    """Refuse a configuration file that switches off what is needed, before Java reads it.

    Only what it plainly says counts: the application itself is looked at when it runs.
    """
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", "")) / "conf"
    try:
        lines = Path(folder, "spark-defaults.conf").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    told = {found[1]: found[2] for one in lines if (found := _SWITCH.fullmatch(one))}
    for name in (_ENCRYPTION, _KNOWN_PEERS):
        # Words of the command come before those of the file.
        if told.get(name) == "false" and name not in os.environ.get(_SUBMITTED, ""):
            raise _without(name)


def _without(name: str) -> InvalidInput:
    return InvalidInput(
        "Spark session",
        f"one with {name}=true",
        "one without",
        hint="messages and the secret of a job would lie on the disks of the cluster, cross its "
        "network, or be given to whoever asks for them; set it when the session is made, or in "
        "spark-defaults.conf",
    )


def check_settings(settings: SparkConf) -> None:
    """Refuse an application that would show secrets as they are, or forget what was done."""
    alone = on_one_machine(settings.get("spark.master", LOCAL))
    for name in (_ENCRYPTION, _KNOWN_PEERS) if alone else (_ENCRYPTION, _KNOWN_PEERS, _CIPHER):
        if settings.get(name, "false") != "true" and not _sealed_otherwise(settings, name):
            raise _without(name)
    if settings.get(_MODE, "client") == "cluster":
        raise InvalidInput(
            "Spark session",
            f"one with {_MODE}=client",
            "cluster",
            hint="records of what was shuffled and published are kept where the command runs; in "
            "the mode cluster that is another machine every time, and people would count twice",
        )


def _sealed_otherwise(settings: SparkConf, name: str) -> bool:
    """Return whether TLS between the machines stands for Spark's own cipher."""
    return name == _CIPHER and settings.get("spark.ssl.rpc.enabled", "false") == "true"


def usual_settings(master: str) -> dict[str, str]:
    """Return what an application of our own has there, unless its configuration says otherwise."""
    return _USUAL | (_USUAL_ALONE if on_one_machine(master) else _USUAL_ON_NETWORKS)
