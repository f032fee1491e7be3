"""The collector as a real process: 201 means durable, and whatever is wrong is refused."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from chaffinch.keys.folder import KeyFolder
from chaffinch.services import collector, front
from chaffinch.services.collector import Collector
from chaffinch.services.group_commit import GroupCommit
from chaffinch.shuffling.inbox import Upload
from chaffinch.shuffling.state import State
from chaffinch.wire import media_types
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.problems import TYPE, problem_word
from tests.services.commands import waited
from tests.services.servers import Site, asked, collecting, make_site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def test_reports_that_were_acknowledged_are_in_the_inbox(site: Site) -> None:
    with collecting(site) as service:
        assert service.post(site.path(), site.reports(1)) == 201
        assert service.post(site.path(), site.reports(100, first=1)) == 201
        code, _, err = service.stop()
    assert (code, err) == (0, "")
    assert sorted(site.numbers()) == list(range(101))


def test_plan_and_keys_are_the_same_for_everybody(site: Site) -> None:
    with collecting(site) as service:
        plan = service.ask("GET", f"/v1/plans/{site.plan.id}")
        assert plan.content == (site.folder / "plan.json").read_bytes()
        assert plan.headers["etag"] == f'"{site.plan.id}"'
        keys = [service.ask("GET", f"/v1/plans/{site.plan.id}/keys") for _ in range(2)]
        assert keys[0].content == keys[1].content
        assert keys[0].headers["content-type"] == media_types.KEYS
        tag = {"if-none-match": keys[0].headers["etag"]}
        again = service.ask("GET", f"/v1/plans/{site.plan.id}/keys", headers=tag)
        assert (again.status, again.content) == (304, b"")
        head = service.ask("HEAD", f"/v1/plans/{site.plan.id}/keys")
        assert (head.status, head.content) == (200, b"")
    identity = bytes.fromhex(site.keys["hop1"].identity_hex)
    assert KeyList.read(keys[0].content, plan_id=site.plan.id, identity=identity).keys


def test_a_key_that_is_closed_is_taken_for_no_more(site: Site) -> None:
    keys, old = site.keys["hop1"], site.reports(1)
    with collecting(site) as service:
        keys.rotate(at_once=True)
        assert service.post(site.path(), old) == 201
        keys.close(1)
        deadline = time.monotonic() + 20
        while (status := service.post(site.path(), old)) == 201:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert status == 422
        assert service.post(site.path(), site.reports(1)) == 201


@pytest.mark.parametrize(("longest", "status"), [(30.0, 201), (0.05, 503)])
def test_what_was_long_on_its_way_to_the_disk_is_not_acknowledged(
    site: Site, monkeypatch: pytest.MonkeyPatch, longest: float, status: int
) -> None:
    """Its key may be gone by then, and the report with it."""
    put = GroupCommit.put

    async def put_slowly(inbox: GroupCommit, upload: Upload) -> None:
        await put(inbox, upload)
        await asyncio.sleep(0.1)

    async def send_one() -> tuple[int, bytes]:
        hop = Collector(site.folder / "hop1" / "data", [site.plan], site.keys["hop1"])
        async with hop.running():
            return await post(hop, site, site.reports(1))

    monkeypatch.setattr(GroupCommit, "put", put_slowly)
    monkeypatch.setattr(collector, "_LONGEST_WAY", longest)
    # No problem: the report may count, so nobody is told that it was refused.
    assert asyncio.run(send_one()) == (status, b"")
    assert site.numbers() == [0]


def test_nothing_is_taken_for_keys_that_cannot_be_read_any_more(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody here would see that a key was closed, and destroyed by the shuffler."""
    monkeypatch.setattr(front, "_PAUSE", 0.01)
    monkeypatch.setattr(front, "_LONGEST_UNSEEN", 0.3)
    keyset = site.folder / "hop1" / "keys" / "keyset.json"
    away = keyset.with_suffix(".away")
    unread = "nothing is taken: the keys cannot be read"

    async def send_some() -> None:
        hop = Collector(site.folder / "hop1" / "data", [site.plan], site.keys["hop1"])
        async with hop.running():
            assert await post(hop, site, site.reports(1)) == (201, b"")
            keyset.rename(away)
            await asyncio.sleep(0.5)
            status, body = await post(hop, site, site.reports(1, first=1))
            assert (status, problem_word(body)) == (503, "overloaded")
            assert unread in hop.problems()
            away.rename(keyset)
            await asyncio.sleep(0.2)
            assert await post(hop, site, site.reports(1, first=2)) == (201, b"")
            assert unread not in hop.problems()

    asyncio.run(send_some())
    assert sorted(site.numbers()) == [0, 2]
    assert capsys.readouterr().err.count("The keys cannot be read") == 1


async def post(hop: Collector, site: Site, body: bytes) -> tuple[int, bytes]:
    """Send reports to a collector that runs here; return the status and what it answers."""
    found = await asked(hop.application, "POST", site.path(), body, media_types.REPORTS)
    return found.status, found.body


def test_what_is_wrong_is_refused_in_one_form(site: Site) -> None:
    good, other = site.reports(2), "00" * 32
    unknown = bytes([good[0] ^ 1]) + good[1:]
    second = good[: len(good) // 2] + unknown[: len(good) // 2]
    path = site.path()
    cases = [
        ("POST", path, b"", 400, "invalidMessage"),
        ("POST", path, good[:-1], 400, "invalidMessage"),
        ("POST", path, good + b"x", 400, "invalidMessage"),
        ("POST", path, unknown, 422, "outdatedKeys"),
        ("POST", path, second, 422, "outdatedKeys"),
        ("POST", site.path(number=2), good, 404, "unrecognizedPlan"),
        ("POST", path.replace(site.plan.id, other), good, 404, "unrecognizedPlan"),
        ("POST", path.replace("/rounds/1", "/rounds/0"), good, 404, "unknownPath"),
        ("POST", path + "/", good, 404, "unknownPath"),
        ("POST", "/", good, 404, "unknownPath"),
        ("GET", path, None, 405, "unknownMethod"),
        ("DELETE", f"/v1/plans/{site.plan.id}", None, 405, "unknownMethod"),
        ("POST", path, site.reports(4097), 413, "tooLarge"),
        ("POST", path, bytes((4 << 20) + 1), 413, "tooLarge"),
    ]
    with collecting(site) as service:
        for method, place, body, status, word in cases:
            reply = service.ask(method, place, body, {"content-type": media_types.REPORTS})
            assert (reply.status, problem_word(reply.content)) == (status, word), place
            assert reply.headers["content-type"] == TYPE
        wrong = service.ask("POST", path, good, {"content-type": "text/plain"})
        assert (wrong.status, problem_word(wrong.content)) == (415, "wrongType")
        places = service.ask("POST", path, second, {"content-type": media_types.REPORTS})
        assert json.loads(places.content)["reports"] == [1]
        service.stop()
    assert site.numbers() == []


def test_key_lists_are_not_waited_for_while_the_state_is_locked(site: Site) -> None:
    """Its owner makes a large change: devices are told when to come again."""
    path = site.folder / "hop1" / "data" / "state.sqlite"
    State.open(path).close()
    with collecting(site) as service, closing(sqlite3.connect(path)) as owner:
        owner.execute("BEGIN EXCLUSIVE")
        start = time.monotonic()
        reply = service.ask("GET", f"/v1/plans/{site.plan.id}/key-lists")
        assert time.monotonic() - start < 8
        assert (reply.status, problem_word(reply.content)) == (503, "overloaded")
        assert reply.headers["retry-after"] == "5"
        owner.rollback()

        def word() -> str | None:
            return problem_word(service.ask("GET", f"/v1/plans/{site.plan.id}/key-lists").content)

        waited(lambda: word() == "unseenKeys")
        service.stop()


def test_a_key_that_comes_takes_over_while_the_service_runs(site: Site) -> None:
    folder = KeyFolder.open(site.folder / "hop1" / "keys")
    address = f"/v1/plans/{site.plan.id}/keys"
    with collecting(site) as service:
        before = service.ask("GET", address)
        folder.rotate(at_once=True)
        new = next(iter(folder.accepted_keys().values())).key.head
        body = new + site.reports(1)[len(new) :]
        deadline = time.monotonic() + 20
        while service.post(site.path(), body) != 201 and time.monotonic() < deadline:
            time.sleep(0.2)
        after = service.ask("GET", address)
        assert service.post(site.path(), site.reports(1, first=5)) == 201  # sealed before that
        service.stop()
    assert before.content != after.content
    assert before.headers["etag"] != after.headers["etag"]
    assert sorted(site.numbers()) == [0, 5]
