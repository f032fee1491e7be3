"""A client: each report is made once, sent as the same bytes, and counts once whatever fails."""

from __future__ import annotations

import hmac
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from chaffinch import Client, Ledger, Target
from chaffinch.disk.file_kinds import Kind as KindOfFile
from chaffinch.disk.locks import lock_file
from chaffinch.disk.protected import kind_of
from chaffinch.encoding import client as client_module
from chaffinch.encoding.client import Delivery
from chaffinch.encoding.device import encode
from chaffinch.encoding.outbox import Outbox
from chaffinch.errors import (
    BudgetExhausted,
    DataRepeated,
    InvalidAnswer,
    InvalidFile,
    InvalidInput,
    NotDelivered,
    StorageFault,
)
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from chaffinch.questions import Choice
from chaffinch.wire import media_types
from chaffinch.wire.exchange import Exchange, NoReply, Pauses, Reply
from chaffinch.wire.key_lists import LONGEST_LIST, KeyList
from chaffinch.wire.messages import Origin
from chaffinch.wire.problems import Kind, Problem
from tests.encoding.services import Services, running
from tests.engines import plans

VALUES = Choice(["a", "b", "c"], missing="count")


def made_plan() -> Plan:
    return plans.plan_of(("value", VALUES, Flips(Fraction(1, 4), 1, 3)), users=3)


@pytest.fixture
def services() -> Iterator[Services]:
    with running(made_plan()) as found:
        yield found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses be short, and a client that asks for ever fail at once, not when patience ends."""
    waited = count(1)

    class Few(Pauses):
        def wait(self, least: float | None, what: str = "") -> bool:
            assert next(waited) < 200, what
            return super().wait(least, what)

    monkeypatch.setattr(client_module, "Pauses", Few)
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(client_module, "LONGEST_PAUSE", 0.01)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    return tmp_path / "outbox"


def ledger_in(folder: Path, cap: Target = Target(1000.0, 0.9)) -> Ledger:  # noqa: B008 - frozen
    return Ledger.create(folder / "ledger", role="client", cap=cap, mark=folder / "mark")


def test_a_report_arrives_and_is_forgotten(services: Services, box: Path) -> None:
    client = Client(services.plan, outbox=box)
    assert repr(client) == f"<Client of plan {services.plan.id[:16]}>"
    assert not client.has_taken
    assert client.send("a").arrived == 1
    (codes,) = services.counted()
    assert len(codes) == 3
    assert (client.waiting, client.has_taken) == (0, True)
    assert not Outbox(box).has_taken("00" * 32)
    content = (box / "outbox.sqlite").read_bytes()
    assert services.taken[0] not in content
    assert services.taken[0][40:60] not in content, "what is deleted is overwritten"
    assert services.asked[-1] == f"0:/v1/plans/{services.plan.id}/rounds/1/reports"


def test_the_same_occasion_makes_no_second_report(services: Services, box: Path) -> None:
    done = [Client(services.plan, outbox=box).send(answer) for answer in "aab"]
    assert done == [Delivery(arrived=1), Delivery(earlier=True), Delivery(earlier=True)]
    assert len(services.bodies) == 1
    with pytest.raises(TypeError):  # Under no other name either: it would be in the same batch.
        Client(services.plan, outbox=box).send("a", key="another")  # type: ignore[call-arg]


def test_the_messages_that_were_made_are_those_that_arrive(services: Services, box: Path) -> None:
    """In another order inside each report; what is empty is sent as such."""
    reports = [encode(answer, services.plan) for answer in ("a", "b", "c", None, None)]
    Client(services.plan, outbox=box).send_many(reports, data=b"answers")
    assert sorted(map(sorted, services.counted())) == sorted(sorted(one.codes) for one in reports)


def test_what_is_asked_for_is_named_and_bounded(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, object, object]] = []
    real = Exchange.ask

    def ask(self: Exchange, method: str, *given: Any, **more: Any) -> Reply:
        asked.append((method, more["headers"], more["most"]))
        return real(self, method, *given, **more)

    monkeypatch.setattr(Exchange, "ask", ask)
    Client(services.plan, outbox=box).send("a")
    assert asked == [
        ("GET", {"accept": media_types.KEYS}, 2 * LONGEST_LIST),
        ("POST", {"content-type": media_types.REPORTS}, 1 << 16),
    ]


def test_deliveries_add_up() -> None:
    one, other = Delivery(1, 2, earlier=True), Delivery(3, 4)
    assert one + other == other + one == Delivery(4, 6, earlier=True)
    assert other + other == Delivery(6, 8)


def test_a_request_says_nothing_of_its_sender(services: Services, box: Path) -> None:
    Client(services.plan, outbox=box).send("a")
    names = {name.lower() for name in services.headers[0]}
    assert names == {"host", "content-type", "content-length"}


@pytest.mark.parametrize("fault", ["lose", "drop", "long", 500, 502, 429, Kind.OVERLOADED])
def test_a_retry_sends_the_same_bytes(services: Services, box: Path, fault: str | int) -> None:
    services.script = [fault, fault]
    assert Client(services.plan, outbox=box).send("b").arrived == 1
    assert len(services.bodies) == 3
    assert len(set(services.bodies)) == 1
    assert len(services.counted()) == 1


@pytest.mark.parametrize("fault", ["lose", "drop", 500, Kind.OVERLOADED])
def test_a_restart_sends_the_same_bytes(services: Services, box: Path, fault: str | int) -> None:
    services.script = [fault]
    with pytest.raises(NotDelivered, match="wait in the outbox: 1"):
        Client(services.plan, outbox=box, patience=0).send("b")
    again = Client(services.plan, outbox=box)
    assert again.waiting == 1
    assert again.resume().arrived == 1
    assert len(set(services.bodies)) == 1
    assert again.resume().arrived == 0


@pytest.mark.parametrize("step", [404, 301, 200, Kind.UNKNOWN_PLAN, Kind.INVALID_MESSAGE])
def test_a_refusal_that_does_not_pass_is_told_at_once(
    services: Services, box: Path, step: int | Kind
) -> None:
    services.script = [step]
    client = Client(services.plan, outbox=box)
    with pytest.raises(NotDelivered, match="status") as told:
        client.send("a")
    assert len(services.bodies) == 1
    assert client.waiting == 1
    # Whoever has another plan than the first hop is told so: sending again would not help.
    unknown = step in {404, Kind.UNKNOWN_PLAN}
    assert ("does not run this plan" in told.value.hint) == unknown
    assert ("--resume" in told.value.hint) != unknown


def test_nothing_is_made_twice_where_no_service_listens(box: Path) -> None:
    with running(made_plan()) as services:
        plan = services.plan
    client = Client(plan, outbox=box, patience=0)
    for _ in range(2):
        with pytest.raises(NotDelivered, match="no connection"):
            client.send("a")
    assert client.waiting == 1


# -------------------------------------------------------------------- keys


def test_outdated_keys_are_asked_for_again_and_the_same_report_is_sealed(
    services: Services, box: Path
) -> None:
    client = Client(services.plan, outbox=box, patience=0)
    services.script = [Kind.OVERLOADED]  # which says that nothing was taken
    with pytest.raises(NotDelivered):
        client.send("a")
    services.rotate(0)
    services.script = [Kind.OUTDATED_KEYS]
    assert Client(services.plan, outbox=box).resume().arrived == 1
    assert services.bodies[0] == services.bodies[1] != services.bodies[2]
    assert len(services.counted()) == 1


def test_what_was_shown_to_a_first_hop_is_sealed_once_for_those_behind_it(box: Path) -> None:
    """It can say that a key is outdated, sign a list without it, and keep what it got.

    Sealed anew inside, too, a report would be another one to an honest hop: a first hop that helps
    the analyzer could have as many of it in a batch as it signs lists.
    """
    with running(made_plan(), hops=2) as services:
        services.script, keys = [Kind.OVERLOADED], [services.parties.keys[0]]
        with pytest.raises(NotDelivered):
            Client(services.plan, outbox=box, patience=0).send("a")
        services.rotate(0)
        services.script = [Kind.OUTDATED_KEYS]
        assert Client(services.plan, outbox=box).resume() == Delivery(arrived=1)
        first, again, second = services.bodies
        assert first == again != second
        keys.append(services.parties.keys[0])
    bound = services.plan.layout.binding(1, 1)
    opened = [key.open(body, bound) for key, body in zip(keys, (first, second), strict=True)]
    assert opened[0] is not None
    assert opened[0] == opened[1], "two reports of one person"


def test_what_was_shown_to_nobody_is_sealed_for_the_newest_keys(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device had keys and no connection; when it comes back, those of the analyzer are gone."""
    _send_for(Client(services.plan, outbox=box), services, b"first")
    client = Client(services.plan, outbox=box, patience=0)
    with monkeypatch.context() as patch:
        patch.setattr(Exchange, "ask", _no_connection)
        with pytest.raises(NotDelivered, match="no connection"):
            _send_for(client, services, b"second")
    services.taken.clear()
    services.rotate(1)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 20 * 86_400)
    assert Client(services.plan, outbox=box).resume() == Delivery(arrived=1)
    assert len(services.counted()) == 1, "not for a key that nobody has any more"


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("seen", ["lose", Kind.OVERLOADED])
def test_what_nobody_could_open_any_more_is_not_told_to_have_arrived(
    box: Path, monkeypatch: pytest.MonkeyPatch, seen: str | Kind, place: int
) -> None:
    """A first hop has seen it, so it is not sealed anew; it would be taken, and never counted."""
    with running(made_plan(), hops=2) as services:
        services.script = [seen]
        client = Client(services.plan, outbox=box, patience=0)
        with pytest.raises(NotDelivered):
            _send_for(client, services, b"first")
        services.rotate(place)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 20 * 86_400)
        services.script, before = [], len(services.bodies)
        assert client.resume() == Delivery(given_up=1)
        assert (client.waiting, len(services.bodies)) == (0, before)
        services.taken.clear()
        _send_for(client, services, b"second")
        assert len(services.counted()) == 1


@pytest.mark.parametrize("stop", ["mark_on_its_way", "mark_refused"])
def test_what_is_sealed_stays_while_its_keys_are_in_use(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    """Also if nobody has seen it: a copy of the outbox may have sent it."""
    services.script = [Kind.OVERLOADED]
    with monkeypatch.context() as patch:
        patch.setattr(Outbox, stop, _stop)
        with pytest.raises(KeyboardInterrupt):
            Client(services.plan, outbox=box).send("a")
    (before,) = Outbox(box).next(Origin.of(services.plan), 1)
    services.script = []
    assert Client(services.plan, outbox=box).resume() == Delivery(arrived=1)
    assert services.taken == [before.sealed]


def _no_connection(*_given: object, **_more: object) -> None:
    raise NoReply("no connection", arrived=False)


def test_what_may_have_arrived_is_never_sealed_anew(services: Services, box: Path) -> None:
    """A reply was lost; then the key went. Sealed anew, the report would count twice."""
    services.script = ["lose"]
    with pytest.raises(NotDelivered):
        Client(services.plan, outbox=box, patience=0).send("a")
    services.rotate(0)
    services.script = [Kind.OVERLOADED, Kind.OUTDATED_KEYS]
    done = Client(services.plan, outbox=box).resume()
    assert (done.arrived, done.given_up) == (0, 1)
    assert len(set(services.bodies)) == 1
    assert len(services.taken) == 1


@pytest.mark.parametrize("before", [[], ["lose"]])
def test_nobody_makes_a_client_seal_anew_for_a_key_that_is_in_use(
    services: Services, box: Path, before: list[str | int | Kind]
) -> None:
    """Whoever is on the way can keep a copy and say that the key is outdated.

    A second sealing is another report to every party: with both, the person counts twice. Only
    the list that the first hop has signed tells that it takes nothing more for a key.
    """
    services.script = [*before, *[Kind.OUTDATED_KEYS] * 3]
    client = Client(services.plan, outbox=box)
    assert client.send("a") == Delivery(arrived=1)
    assert len(services.bodies) == len(before) + 4
    assert len(set(services.bodies)) == 1


def test_whoever_says_for_ever_that_keys_are_outdated_is_left(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patience ends, also if the list of keys says otherwise each time."""

    class FiveTries:
        def __init__(self, *_given: object) -> None:
            self.left = 5

        def wait(self, *_given: object) -> bool:
            self.left -= 1
            return self.left >= 0

    monkeypatch.setattr(client_module, "Pauses", FiveTries)
    services.script = [Kind.OUTDATED_KEYS] * 300
    client = Client(services.plan, outbox=box)
    with pytest.raises(NotDelivered, match="outdatedKeys"):
        client.send("a")
    assert client.waiting == 1
    assert len(services.bodies) == 6
    assert len(set(services.bodies)) == 1


def test_who_is_missing_is_told_by_the_names_of_the_plan(
    box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first hop says of others than the parties of the plan is not repeated."""
    said: list[tuple[str, ...]] = []

    def ask(*_given: object, **_more: object) -> Reply:
        return Reply(503, Problem(Kind.UNSEEN_KEYS, parties=said[0]).body())

    with running(made_plan(), hops=2) as services:
        monkeypatch.setattr(Exchange, "ask", ask)
        client = Client(services.plan, outbox=box, patience=0)
        for names, told in (
            (("party 1", "mallory"), "service of party 1 must"),
            (("party 2", "party 1"), "service of party 1 and party 2 must"),
            (("mallory",), "service of party 0 must"),
        ):
            said[:] = [names]
            with pytest.raises(NotDelivered, match=told) as refused:
                client.send("a")
            assert "mallory" not in str(refused.value)


def _one_lost_and_one_refused(services: Services, box: Path) -> Client:
    """Lose a reply, let another report come, and change the key; return who has sent both."""
    client = Client(services.plan, outbox=box, patience=0)
    services.script = ["lose"]
    with pytest.raises(NotDelivered):
        _send_for(client, services, b"first")
    services.script = [Kind.OVERLOADED]
    with pytest.raises(NotDelivered, match="wait in the outbox: 2"):
        _send_for(client, services, b"second")
    services.rotate(0)
    return client


def test_only_what_may_have_arrived_is_given_up(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came after the lost reply is sealed anew when the key goes."""
    _one_lost_and_one_refused(services, box)
    services.script = [Kind.OUTDATED_KEYS]
    again = Client(services.plan, outbox=box)
    told: list[tuple[int, int | None]] = []
    done = again.resume(progress=lambda *count: told.append(count))
    assert done == Delivery(arrived=1, given_up=1)
    assert told == [(1, 2), (2, 2)]
    assert again.waiting == 0
    assert len(dict.fromkeys(services.taken)) == 2

    def waits(*_given: object) -> bool:
        services.rotate(0, 3)
        return True

    # What is given up later is added to it.
    services.script = ["lose", Kind.OUTDATED_KEYS]
    monkeypatch.setattr(again, "_waits", waits)
    _send_for(again, services, b"third")
    assert (again.given_up, again.waiting) == (2, 0)


def test_what_was_given_up_is_told_also_if_the_rest_does_not_arrive(
    services: Services, box: Path
) -> None:
    """It is in no outbox any more: who is not told now never learns of it."""
    client = _one_lost_and_one_refused(services, box)
    services.script = [Kind.OUTDATED_KEYS, *[404] * 3]
    again = Client(services.plan, outbox=box)
    with pytest.raises(NotDelivered, match="404"):
        again.resume()
    assert (again.given_up, again.waiting, client.given_up) == (1, 1, 0)


def test_that_it_may_have_arrived_survives_a_restart(services: Services, box: Path) -> None:
    services.script = ["lose"]
    with pytest.raises(NotDelivered):
        Client(services.plan, outbox=box, patience=0).send("a")
    services.rotate(0)
    services.script = [Kind.OUTDATED_KEYS]
    assert Client(services.plan, outbox=box).resume().given_up == 1
    assert len(set(services.bodies)) == 1


def test_lists_of_others_are_refused(services: Services, box: Path) -> None:
    good = list(services.lists)
    other = KeyList("00" * 32, 1, services.parties.key_lists[0].keys)
    bad = [
        services.parties.key_lists[0].signed(services.parties.identities[1]),
        other.signed(services.parties.identities[0]),
        good[1],
        good[0][:-1],
        b"",
    ]
    for content in bad:
        services.lists[0] = content
        with pytest.raises(InvalidFile, match="key list") as told:
            Client(services.plan, outbox=box).send("a")
        assert "who answers at http" in told.value.hint
    services.lists[0] = good[0]
    assert Client(services.plan, outbox=box).send("a").arrived == 1


@pytest.mark.parametrize("serial", [1, 4, 5])
def test_a_list_older_than_one_seen_is_refused(
    services: Services, box: Path, serial: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.rotate(1, serial=5)
    client = Client(services.plan, outbox=box)
    _send_for(client, services, b"first")
    services.rotate(1, serial=serial)
    _send_for(client, services, b"second")
    monkeypatch.setattr(client_module, "KEYS_LAST", 0.0)
    with pytest.raises(InvalidFile, match="newer than number 5"):
        _send_for(client, services, b"third")
    services.rotate(1, serial=6)
    assert client.resume().arrived == 1


def _send_for(client: Client, services: Services, person: bytes) -> None:
    """Send a report of somebody else each time."""
    client.send_many([encode("a", services.plan)], data=person)


def test_lists_are_kept_for_some_hours(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for person in (b"one", b"another"):
        _send_for(Client(services.plan, outbox=box), services, person)
    assert sum(path.endswith("/key-lists") for path in services.asked) == 1
    for seconds, asked in (
        # A clock that was set back; then it stands, nearly six hours pass, six, and years.
        (1e9, 2),
        (1e9, 2),
        (1e9 + 6 * 3600 - 1, 2),
        (1e9 + 6 * 3600, 3),
        (2e9, 4),
    ):
        monkeypatch.setattr(time, "time", lambda now=seconds: now)
        _send_for(Client(services.plan, outbox=box), services, secrets.token_bytes(8))
        assert sum(path.endswith("/key-lists") for path in services.asked) == asked


# -------------------------------------------------------------------- plans and budgets


def test_a_plan_that_promises_too_little_is_refused(services: Services, box: Path) -> None:
    with pytest.raises(InvalidInput, match="within epsilon 1 "):
        Client(services.plan, outbox=box, within=Target(1.0, 1e-6))
    with pytest.raises(InvalidInput, match="names the parties"):
        Client(made_plan(), outbox=box)
    assert not box.exists()


def test_the_ledger_pays_once_and_before_anything_is_sent(
    services: Services, box: Path, tmp_path: Path
) -> None:
    ledger = ledger_in(tmp_path)
    services.script = ["drop"]
    with pytest.raises(NotDelivered):
        Client(services.plan, outbox=box, ledger=ledger, patience=0).send("a")
    assert len(ledger.entries()) == 1
    Client(services.plan, outbox=box, ledger=ledger).send("a")
    assert len(ledger.entries()) == 1
    assert len(services.counted()) == 1


def test_an_exhausted_ledger_sends_and_keeps_nothing(
    services: Services, box: Path, tmp_path: Path
) -> None:
    client = Client(services.plan, outbox=box, ledger=ledger_in(tmp_path, Target(1e-3, 1e-9)))
    with pytest.raises(BudgetExhausted):
        client.send("a")
    assert client.waiting == 0
    assert services.asked == []
    assert Client(services.plan, outbox=box).send("a").arrived == 1


def test_what_a_ledger_must_pay_for_waits_for_it(
    services: Services, box: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between the outbox and the charge, or between the charge and its note."""
    ledger = ledger_in(tmp_path)
    for name, entries in (("charge", 0), ("mark_paid", 1)):
        where = ledger if name == "charge" else Outbox
        with monkeypatch.context() as patch:
            patch.setattr(where, name, _stop)
            with pytest.raises(KeyboardInterrupt):
                Client(services.plan, outbox=box, ledger=ledger).send("a")
        assert len(ledger.entries()) == entries
        assert services.bodies == []
        with pytest.raises(InvalidInput, match="must pay for first"):
            Client(services.plan, outbox=box).resume()
    assert Client(services.plan, outbox=box, ledger=ledger).resume().arrived == 1
    assert len(ledger.entries()) == 1


def _stop(*_arguments: object, **_others: object) -> None:
    raise KeyboardInterrupt


def test_a_report_that_was_paid_for_elsewhere_is_no_second_one(
    services: Services, box: Path, tmp_path: Path
) -> None:
    ledger = ledger_in(tmp_path)
    encode("a", services.plan, ledger=ledger)
    with pytest.raises(InvalidInput, match="key must be new"):
        Client(services.plan, outbox=box, ledger=ledger).send("a")
    assert services.bodies == []


# -------------------------------------------------------------------- several reports


def test_rounds_are_occasions_of_their_own(box: Path) -> None:
    with running(replace(made_plan(), rounds=2)) as services:
        client = Client(services.plan, outbox=box)
        for number in (1, 2, 1, 2):
            client.send("a", round=number)
        paths = [path.rsplit("/", 2)[1] for path in services.asked if path.endswith("reports")]
        assert paths == ["1", "2"]
        with pytest.raises(InvalidInput, match="round"):
            client.send("a")


def test_every_round_is_paid_for(box: Path, tmp_path: Path) -> None:
    with running(replace(made_plan(), rounds=2)) as services:
        ledger = ledger_in(tmp_path)
        client = Client(services.plan, outbox=box, ledger=ledger)
        for number in (1, 2, 1):
            client.send("a", round=number)
        assert len(services.bodies) == 2
        assert len({entry.key for entry in ledger.entries()}) == len(ledger.entries()) == 2


def test_a_person_of_several_reports_sends_all_of_them_together(box: Path) -> None:
    with running(replace(made_plan(), contributions=3, reports=9)) as services:
        client = Client(services.plan, outbox=box)
        for bad in ("a", ["a"] * 4, {"value": "a"}):
            with pytest.raises(InvalidAnswer):
                client.send(bad)
        assert client.send(["a", "b"]).arrived == 3
        assert len(services.bodies) == 1
        assert len(services.counted()) == 3
        other = Client(services.plan, outbox=box.with_name("other"))
        assert other.send(["a", "b", "c"]).arrived == 3


def test_a_gateway_has_no_ledger_of_one_person(
    services: Services, box: Path, tmp_path: Path
) -> None:
    client = Client(services.plan, outbox=box, ledger=ledger_in(tmp_path))
    with pytest.raises(InvalidInput, match="ledger"):
        client.send_many([encode("a", services.plan)], data=b"answers")
    assert (client.waiting, services.bodies) == (0, [])


def test_a_person_of_several_questions_leaves_all_of_them_out(box: Path) -> None:
    protocol = Flips(Fraction(1, 4), 1, 3)
    asked = (("value", VALUES, protocol), ("other", VALUES, protocol))
    plan = replace(plans.plan_of(*asked, users=3), contributions=3, reports=9)
    with running(plan) as services:
        client = Client(services.plan, outbox=box)
        assert client.send([{"value": "a", "other": "b"}]).arrived == 3
        assert len(services.counted()) == 3


def test_a_gateway_sends_many_in_few_bodies(services: Services, box: Path) -> None:
    client = Client(services.plan, outbox=box)
    reports = [encode("a", services.plan) for _ in range(230)]
    told: list[tuple[int, int | None]] = []
    services.script = [Kind.TOO_LARGE, "lose"]
    done = client.send_many(
        iter(reports), data=b"answers", progress=lambda *count: told.append(count)
    )
    assert done == Delivery(arrived=230)
    assert len(services.counted()) == 230
    length = services.plan.layout.report_length
    assert [len(body) // length for body in services.bodies] == [100, 50, 50, 100, 80]
    assert told == [(50, 230), (150, 230), (230, 230)]
    with pytest.raises(DataRepeated, match="taken before"):
        client.send_many(iter(reports), data=b"answers")
    assert client.send_many(iter(reports[:1]), data=b"other answers").arrived == 1


def test_a_report_longer_than_a_body_goes_alone(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = services.plan.layout.report_length
    for most, together in ((1, [1, 1, 1]), (2 * length + 1, [2, 1])):
        monkeypatch.setattr(client_module, "_BYTES_TOGETHER", most)
        services.bodies.clear()
        reports = [encode("a", services.plan) for _ in range(3)]
        Client(services.plan, outbox=box).send_many(reports, data=bytes(most))
        assert [len(body) // length for body in services.bodies] == together


def test_a_body_that_is_too_large_is_halved_down_to_one_report(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REPORTS_TOGETHER", 5)
    services.script = [Kind.TOO_LARGE] * 3
    client = Client(services.plan, outbox=box)
    with pytest.raises(NotDelivered, match="tooLarge"):
        client.send_many([encode("a", services.plan) for _ in range(7)], data=b"answers")
    length = services.plan.layout.report_length
    assert [len(body) // length for body in services.bodies] == [5, 2, 1]
    assert client.resume() == Delivery(arrived=7)


def test_data_have_one_name_in_every_version(services: Services, box: Path) -> None:
    """Under another one the same data would be taken again, and count twice."""
    _send_for(Client(services.plan, outbox=box), services, b"answers")
    with closing(sqlite3.connect(box / "outbox.sqlite")) as connection:
        ((secret, key),) = connection.execute("SELECT secret, key FROM head, occasions")
    assert key == f"data {hmac.digest(secret, b'answers', 'sha256').hex()}"


def test_of_data_that_cannot_be_read_to_the_end_nothing_is_sent(
    services: Services, box: Path
) -> None:
    client = Client(services.plan, outbox=box)

    def broken() -> Iterator[object]:
        yield encode("a", services.plan)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.send_many(broken(), data=b"answers")  # type: ignore[arg-type]
    assert client.waiting == 0
    assert client.send_many([encode("a", services.plan)], data=b"answers").arrived == 1


# -------------------------------------------------------------------- the outbox


def test_an_outbox_is_for_its_owner_only(services: Services, box: Path) -> None:
    Client(services.plan, outbox=box)
    file = box / "outbox.sqlite"
    assert (box.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    for place, bad, good in ((file, 0o640, 0o600), (box, 0o755, 0o700)):
        place.chmod(bad)
        with pytest.raises(StorageFault, match="owner alone"):
            Client(services.plan, outbox=box)
        place.chmod(good)


def test_one_process_at_a_time_sends_from_an_outbox(services: Services, box: Path) -> None:
    """Also one of another version: the file that it locks has this name in all of them."""
    client = Client(services.plan, outbox=box, patience=0)
    number = lock_file(box / "sending.lock", patience=0.0)
    with pytest.raises(StorageFault, match=r"sending\.lock"):
        client.send("a")
    assert services.bodies == []
    os.close(number)
    assert client.resume() == Delivery(arrived=1)
    os.close(lock_file(box / "sending.lock", patience=0.0))


def test_others_who_send_are_waited_for_as_long_as_services_are(
    services: Services, box: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def lock(path: Path, *, patience: float) -> int:
        waited.append(patience)
        return lock_file(path, patience=patience)

    monkeypatch.setattr("chaffinch.encoding.outbox.lock_file", lock)
    Client(services.plan, outbox=box, patience=12.5).resume()
    assert waited == [12.5]


def test_a_report_of_more_messages_than_its_plan_has_is_not_sent(
    services: Services, box: Path
) -> None:
    services.script = [404]
    with pytest.raises(NotDelivered):
        Client(services.plan, outbox=box).send("a")
    with closing(sqlite3.connect(box / "outbox.sqlite")) as connection:
        connection.execute("UPDATE reports SET codes = ?", (bytes(4 * 4),))
        connection.commit()
    with pytest.raises(InvalidFile, match="outbox"):
        Client(services.plan, outbox=box).resume()
    assert len(services.bodies) == 1


def test_a_damaged_outbox_is_refused(services: Services, box: Path) -> None:
    Client(services.plan, outbox=box)
    file = box / "outbox.sqlite"
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(StorageFault, match="outbox"):
        Client(services.plan, outbox=box)


def test_an_outbox_of_a_later_version_is_refused(services: Services, box: Path) -> None:
    Client(services.plan, outbox=box)
    with closing(sqlite3.connect(box / "outbox.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(StorageFault, match="one of the format version 3"):
        Client(services.plan, outbox=box)


def test_no_result_replaces_an_outbox(services: Services, box: Path) -> None:
    Client(services.plan, outbox=box)
    assert kind_of(box / "outbox.sqlite") is KindOfFile.OUTBOX
