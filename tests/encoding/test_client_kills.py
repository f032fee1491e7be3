"""A client that is killed anywhere: its report counts once, and is paid for once."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaffinch import Client, Ledger, Target
from chaffinch.encoding import client as client_module
from chaffinch.encoding.device import encode
from chaffinch.wire.problems import Kind
from tests.cases import each_case
from tests.encoding.services import Services, running
from tests.encoding.test_client import made_plan
from tests.services.oracle import dies_at
from tests.tiers import chequered

PLACES = ["client.kept", "client.charged", "client.sealed", "client.sending", "client.delivered"]


def send(services: Services, folder: Path, ledger: Ledger) -> int:
    return Client(services.plan, outbox=folder / "outbox", ledger=ledger).send("a").arrived


@each_case(
    ("place", "fault"), chequered(((place,) for place in PLACES), [None, "lose", Kind.OVERLOADED])
)
def test_a_report_counts_once_and_is_paid_for_once(
    place: str, fault: str | Kind | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    cap = Target(1000.0, 0.9)
    ledger = Ledger.create(tmp_path / "ledger", role="client", cap=cap, mark=tmp_path / "mark")
    with running(made_plan()) as services:
        services.plan.verify()
        services.script = [] if fault is None else [fault]
        assert dies_at(place, lambda: send(services, tmp_path, ledger))
        send(services, tmp_path, ledger)
        assert len(services.counted()) == 1
        assert len(set(services.bodies)) == 1, "one sealing, however often it is sent"
        assert len(ledger.entries()) == 1
        assert send(services, tmp_path, ledger) == 0
        assert len(services.counted()) == 1


def test_one_that_died_on_its_way_is_not_sealed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows how far it came: it is sent as it is, or given up."""
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    with running(made_plan()) as services:
        services.plan.verify()
        client = Client(services.plan, outbox=tmp_path / "outbox")
        assert dies_at("client.sending", lambda: client.send("a"))
        services.rotate(0)
        services.script = [Kind.OUTDATED_KEYS]
        assert client.resume().given_up == 1
        assert services.taken == []


def test_many_reports_of_a_gateway_that_is_killed_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REPORTS_TOGETHER", 3)
    with running(made_plan()) as services:
        services.plan.verify()
        client = Client(services.plan, outbox=tmp_path / "outbox")
        reports = [encode("a", services.plan) for _ in range(20)]
        assert dies_at("client.delivered:2", lambda: client.send_many(reports, data=b"rows"))
        for place in ["client.sealed:2", "client.sending:1", "client.delivered:1"]:
            assert dies_at(place, client.resume)
        client.resume()
        assert len(services.counted()) == 20
        assert len(services.taken) > 20, "some were sent twice, as the same bytes"
