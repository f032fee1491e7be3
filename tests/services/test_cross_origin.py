"""A web page of any origin may ask a first hop for what a client needs, and for nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaffinch.services.analyzer import AnalyzerFront
from chaffinch.services.collector import Collector
from chaffinch.services.http import Application
from tests.services.servers import Site, asked, make_site

ANYBODY = ("access-control-allow-origin", "*")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path, hops=2)


def application_of(site: Site, name: str) -> Application:
    folder = site.folder / name / "data"
    if name == "analyzer":
        return AnalyzerFront(folder, [site.plan], site.keys[name]).application
    return Collector(folder, [site.plan], site.keys[name]).application


def asking(site: Site, party: str, method: str, path: str) -> tuple[int, dict[str, str]]:
    found = asyncio.run(asked(application_of(site, party), method, path))
    return found.status, {name.decode(): value.decode() for name, value in found.headers}


def paths(site: Site) -> dict[str, str]:
    plan = f"/v1/plans/{site.plan.id}"
    return {plan: "GET", f"{plan}/key-lists": "GET", site.path(): "POST"}


def test_what_a_client_asks_for_is_open_to_every_page(site: Site) -> None:
    for path, method in paths(site).items():
        status, headers = asking(site, "hop1", "OPTIONS", path)
        assert status == 204
        assert ANYBODY in headers.items()
        assert headers["access-control-allow-methods"] == method
        assert headers["access-control-allow-headers"] == "content-type"
        status, headers = asking(site, "hop1", method, path)
        # The key lists are not there yet, and a report without a type is refused: a page reads it.
        assert status in {200, 415, 503}
        assert ANYBODY in headers.items()
        assert "retry-after" in headers["access-control-expose-headers"]


def test_no_page_sends_credentials(site: Site) -> None:
    for path, method in paths(site).items():
        for asking_by in (method, "OPTIONS"):
            _, headers = asking(site, "hop1", asking_by, path)
            assert not {"access-control-allow-credentials", "set-cookie"} & set(headers)


def test_nothing_else_of_a_first_hop_is_open(site: Site) -> None:
    collector = Collector(site.folder / "hop1" / "data", [site.plan], site.keys["hop1"])
    plan, some = site.plan.id, "0" * 64
    tried = 0
    for route, methods in collector.application.routes.items():
        path = route.replace("{plan}", plan).replace("{round}", "1")
        path = path.replace("{batch}", some).replace("{publisher}", some)
        for method in (*methods, "OPTIONS"):
            if path in paths(site):
                continue
            tried += 1
            status, headers = asking(site, "hop1", method, path)
            assert not any(name.startswith("access-control") for name in headers), (method, path)
            assert method != "OPTIONS" or status == 405
    assert tried > 4


@pytest.mark.parametrize("party", ["hop2", "analyzer"])
def test_no_other_party_is_open(site: Site, party: str) -> None:
    for path, method in paths(site).items():
        for asking_by in (method, "OPTIONS"):
            status, headers = asking(site, party, asking_by, path)
            assert not any(name.startswith("access-control") for name in headers), (party, path)
            assert asking_by != "OPTIONS" or status in {404, 405}


def test_a_plan_that_is_not_run_here_is_none_to_pages_either(site: Site) -> None:
    path = f"/v1/plans/{'0' * 64}/key-lists"
    for method in ("GET", "OPTIONS"):
        status, headers = asking(site, "hop1", method, path)
        assert status == 404
        assert not any(name.startswith("access-control") for name in headers)
