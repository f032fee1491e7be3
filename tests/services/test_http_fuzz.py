"""The program that throws requests at services leaves out nothing that is described."""

from __future__ import annotations

import json

from tests.services import http_fuzz
from tests.services.test_openapi import FILE


def test_there_are_bodies_of_every_kind() -> None:
    paths = json.loads(FILE.read_text(encoding="utf-8"))["paths"].values()
    bodies = [
        path[method]["requestBody"]
        for path in paths
        for method in path
        if method in ("post", "put")
    ]
    assert {kind for body in bodies for kind in body["content"]} == set(http_fuzz.BODIES.values())


def test_every_address_is_attacked() -> None:
    paths = set(json.loads(FILE.read_text(encoding="utf-8"))["paths"])
    hop, analyzer = (http_fuzz.described("ab" * 32, releases=one)["paths"] for one in (False, True))
    assert hop.keys() | analyzer.keys() == paths
    assert set(hop) & set(analyzer), "plans, keys and batches are everywhere"
