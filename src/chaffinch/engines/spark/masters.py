"""Check the address of a cluster before anything is started.

Spark itself asks an address where nobody is for a minute, and then says something else.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from chaffinch.errors import ClusterFault, InvalidInput

ANSWER_SECONDS = 5.0
"""How long an address is asked: a master that was just started takes seconds to listen."""
_PAUSE = 0.2
_FORMS = "such as spark://host:7077, yarn, k8s://https://host:443 or local[4]"
_ALONE = re.compile(r"local(\[(\*|[0-9]+)( *, *[0-9]+)?\])?")
_HERE = re.compile(rf"{_ALONE.pattern}|local-cluster\[[^\]]*\]")
_STANDALONE, _KUBERNETES = "spark://", "k8s://"
_NOTHING_STARTED = "nothing was started"
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")

Address = tuple[str, int]


def on_one_machine(master: str) -> bool:
    """Return whether a master is the process that asks, with no network in between.

    What Spark calls local-cluster has executors of its own, and talks to them as a cluster does.
    """
    return _ALONE.fullmatch(master) is not None


def check_master(master: str) -> None:
    """Refuse a master that cannot be one, or that does not answer within a few seconds.

    Of several masters one must answer.
    """
    if master.startswith(_STANDALONE):
        _check_answers(master, _standalone_addresses(master))
    elif master.startswith(_KUBERNETES):
        if not getproxies():  # Spark would go through them
            _check_answers(master, [_kubernetes_address(master)])
    elif master == "yarn":
        _check_hadoop()
    elif not _HERE.fullmatch(master):
        raise InvalidInput("master", _FORMS, master, hint=_NOTHING_STARTED + _meant_master(master))


def _meant_master(master: str) -> str:
    word, rest = re.fullmatch(r"([^:\[]*)(.*)", master.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    near = difflib.get_close_matches(word.strip().lower(), ["spark", "k8s", "yarn", "local"], n=1)
    if not near:
        return ""
    if near[0] in {"spark", "k8s"}:
        return f"; did you mean {near[0]}://{rest.lstrip(':/')}?"
    meant = f"{near[0]}{rest}"
    return f"; did you mean {meant if _ALONE.fullmatch(meant) else near[0]}?"


def _standalone_addresses(master: str) -> list[Address]:
    named = master.removeprefix(_STANDALONE).split(",")
    return [_address(master, f"//{one}", None) for one in named]


def _kubernetes_address(master: str) -> Address:
    named = master.removeprefix(_KUBERNETES)
    if "://" not in named:
        named = f"https://{named}"
    return _address(master, named, 80 if named.startswith("http://") else 443)


def _address(master: str, url: str, usual_port: int | None) -> Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or usual_port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InvalidInput("master", _FORMS, master)
    return host, port


def _check_answers(master: str, addresses: list[Address]) -> None:
    with ThreadPoolExecutor(len(addresses)) as threads:
        found = list(threads.map(_silence, addresses))
    if all(found):
        told = "; ".join(
            f"{host}:{port}: {why}" for (host, port), why in zip(addresses, found, strict=True)
        )
        raise ClusterFault(
            f"The Spark master {master} must answer. Got {told}.",
            hint=f"{_NOTHING_STARTED}; check the address, that the master runs, and that this "
            "machine may reach it",
        )


def _silence(address: Address) -> str:
    """Return why nobody answers there; nothing if somebody does."""
    end = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            with socket.create_connection(address, max(_PAUSE, end - time.monotonic())):
                return ""
        except ConnectionRefusedError:
            if time.monotonic() >= end:
                return "nobody listens there"
            time.sleep(_PAUSE)
        except (socket.gaierror, UnicodeError):  # or no name that a machine could have
            return "no machine of that name"
        except TimeoutError:
            return f"no answer in {ANSWER_SECONDS:g} seconds"
        except OSError as error:
            return error.strerror or "no way there"


def _check_hadoop() -> None:
    """Refuse YARN where nothing tells which cluster; a script of Spark's own may tell it."""
    if any(os.environ.get(name) for name in _HADOOP):
        return
    settings = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", "")) / "conf"
    if not Path(settings, "spark-env.sh").is_file():
        raise ClusterFault(
            f"The Spark master yarn must be told by {' or '.join(_HADOOP)}. Got neither.",
            hint=f"{_NOTHING_STARTED}; set one of them to the folder of the cluster's settings",
        )
