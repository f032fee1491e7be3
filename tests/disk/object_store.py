"""An object store on loopback, for tests."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from moto.server import ThreadedMotoServer

SETTINGS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What the environment of whoever uses it must say."""


@contextmanager
def started(bucket: str) -> Iterator[str]:
    """Start a store with an empty bucket; yield the form of addresses in it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    before = {name: os.environ.get(name) for name in SETTINGS}
    os.environ.update(SETTINGS)
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}/{bucket}"
        with urllib.request.urlopen(urllib.request.Request(address, method="PUT")):
            pass
        yield f"s3://{bucket}/{{}}?endpoint_override={host}%3A{port}&scheme=http&region=us-east-1"
    finally:
        server.stop()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
