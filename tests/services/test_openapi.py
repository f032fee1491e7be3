"""The file that describes the services for other programs says what they do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaffinch.services.collector import Collector
from chaffinch.wire.problems import Kind
from tests.meta.repository import ROOT
from tests.services.servers import make_site

FILE = ROOT / "docs" / "reference" / "services.openapi.json"


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def test_every_address_of_the_collector_is_described(
    described: dict[str, Any], tmp_path: Path
) -> None:
    site = make_site(tmp_path)
    collector = Collector(tmp_path / "data", [site.plan], site.keys["hop1"])
    for path, methods in collector.application.routes.items():
        assert set(methods) == {name.upper() for name in described["paths"][path]} - {"PARAMETERS"}


def test_every_kind_of_problem_is_described(described: dict[str, Any]) -> None:
    text = FILE.read_text(encoding="utf-8")
    statuses = {
        int(status)
        for path in described["paths"].values()
        for name, method in path.items()
        if name != "parameters"
        for status in method["responses"]
    }
    for kind in Kind:
        if kind is not Kind.FAILED:  # a fault of ours is no part of what is promised
            assert kind.word in text
            assert kind.status in statuses


def test_every_reference_leads_somewhere(described: dict[str, Any]) -> None:
    for reference in _references(described):
        place: Any = described
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]
        assert place


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
