"""Thousands of reports of every protocol for devices, which clients in other languages draw too."""

from __future__ import annotations

import json
from typing import Any

from chaffinch.protocols import every_protocol
from tests.vectors import make_draws

STORED: dict[str, Any] = json.loads(make_draws.FILE.read_text("utf-8"))


def test_the_vectors_are_what_a_device_draws() -> None:
    assert make_draws.made() == STORED


def test_every_protocol_for_devices_has_thousands_of_draws() -> None:
    """Who adds a protocol adds vectors, and with them the clients in other languages."""
    drawn: dict[str, int] = {}
    for case in STORED["cases"]:
        for part in case["plan"]["questions"]:
            kind = part["protocol"]["kind"]
            drawn[kind] = drawn.get(kind, 0) + case["reports"]
    assert set(drawn) == {one.kind for one in every_protocol() if one.view == "messages"}
    assert min(drawn.values()) >= 2000
