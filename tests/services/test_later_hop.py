"""The collector of a later hop: a receipt when a batch is durable, whatever happens after that."""

from __future__ import annotations

import errno
import io
import os
import signal
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

import pytest

from chaffinch.disk.kill_points import VARIABLE
from chaffinch.errors import StorageFault
from chaffinch.services.collector import Collector
from chaffinch.shuffling.state import State
from chaffinch.wire import media_types
from chaffinch.wire.problems import problem_word
from chaffinch.wire.sealed_batches import (
    HEAD_LENGTH,
    START_LENGTH,
    BatchHead,
    is_receipt,
    write_batch,
)
from chaffinch.wire.sealed_reports import route_of
from tests.services.commands import waited
from tests.services.servers import Reply, Running, Site, collecting, make_site

SMALL = {"collector": {}, "batches": {"free_bytes": 1}}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path, hops=2)


def _batch(site: Site, *, reports: int = 3, maker: str = "hop1") -> tuple[str, bytes]:
    """Return the id and the bytes of a batch for the second hop; no item of it opens."""
    later = [next(iter(site.keys[name].accepted_keys().values())) for name in ("hop2", "analyzer")]
    route = route_of([one.key.sealing for one in later])
    length = site.plan.layout.item_length(1)
    head = BatchHead(site.plan.id, 1, 1, route, reports, 9, length)
    file = io.BytesIO()
    batch_id = write_batch(file, head, [bytes(9 * length)], site.keys[maker].identity)
    return batch_id, file.getvalue()


def _address(site: Site, batch_id: str) -> str:
    return f"/v1/plans/{site.plan.id}/batches/{batch_id}"


def _put(service: Running, site: Site, batch_id: str, content: bytes) -> Reply:
    headers = {"content-type": media_types.BATCH}
    return service.ask("PUT", _address(site, batch_id), content, headers)


def _is_signed(site: Site, batch_id: str, reply: Reply) -> bool:
    identity = bytes.fromhex(site.keys["hop2"].identity_hex)
    return is_receipt(batch_id, reply.content, identity)


def test_a_batch_is_taken_once_and_signed_for_every_time(site: Site) -> None:
    batch_id, content = _batch(site)
    data = site.folder / "hop2" / "data"
    with collecting(site, SMALL, party="hop2") as service:
        assert service.ask("GET", _address(site, batch_id)).status == 404
        first = _put(service, site, batch_id, content)
        again = _put(service, site, batch_id, content)
        asked = service.ask("GET", _address(site, batch_id))
        assert [one.status for one in (first, again, asked)] == [201, 200, 200]
        assert first.content == again.content == asked.content
        assert _is_signed(site, batch_id, first)
        (path,) = (data / "received").glob("*.batch")
        assert path.read_bytes() == content
        # The shuffler behind it has opened the batch, and removed it.
        with closing(State.open(data / "state.sqlite")) as state, state.changing() as change:
            change.finish_relay(batch_id)
        path.unlink()
        later = [
            _put(service, site, batch_id, content),
            service.ask("GET", _address(site, batch_id)),
        ]
        assert [(one.status, one.content) for one in later] == [(200, first.content)] * 2
        assert not list((data / "received").glob("*.batch"))
        service.stop()


def test_a_batch_that_is_known_is_answered_before_its_body(site: Site) -> None:
    """Whoever knows its id could have gigabytes read for nothing."""
    batch_id, content = _batch(site)
    with collecting(site, {"collector": {}, "batches": {"free_bytes": 1}}, party="hop2") as service:
        first = _put(service, site, batch_id, content)
        connection = service.connect()
        connection.putrequest("PUT", _address(site, batch_id))
        connection.putheader("content-type", media_types.BATCH)
        connection.putheader("content-length", str(4 << 30))
        connection.endheaders()
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (200, first.content)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.send(bytes(1 << 28))
        connection.close()
        service.stop()


def test_what_is_not_due_is_refused(site: Site) -> None:
    batch_id, content = _batch(site)
    few_id, few = _batch(site, reports=2)
    strange_id, strange = _batch(site, maker="hop2")
    with collecting(site, SMALL, party="hop2") as service:
        cases = [
            (few_id, few, 422, "batchTooSmall"),
            (strange_id, strange, 422, "damagedBatch"),
            (few_id, content, 422, "damagedBatch"),
            (batch_id, content[:-1], 422, "damagedBatch"),
            (batch_id, content + b"x", 422, "damagedBatch"),
            (batch_id, b"", 422, "damagedBatch"),
            (batch_id, b"x" * START_LENGTH, 400, "invalidMessage"),
        ]
        for name, sent, status, word in cases:
            reply = _put(service, site, name, sent)
            assert (reply.status, problem_word(reply.content)) == (status, word)
        # Reports of people are for the first hop alone.
        assert service.post(site.path(), site.reports(1)) == 404
        service.stop()
    assert not list((site.folder / "hop2" / "data" / "received").iterdir())


def test_a_stranger_holds_no_place_for_batches(site: Site) -> None:
    """It knows a head that is due, and stops behind it; the maker has all places."""
    batch_id, content = _batch(site)
    other_id, other = _batch(site, reports=4)
    received = site.folder / "hop2" / "data" / "received"
    one_place = {"collector": {}, "batches": {"free_bytes": 1, "at_once": 1}}
    with collecting(site, one_place, party="hop2") as service:
        connections = []
        for signature in (bytes(64), b"", other[HEAD_LENGTH:START_LENGTH]):
            connection = service.connect()
            connection.putrequest("PUT", _address(site, batch_id))
            connection.putheader("content-type", media_types.BATCH)
            connection.putheader("content-length", str(len(content)))
            connection.endheaders(content[:HEAD_LENGTH] + signature)
            connections.append(connection)
        refused = [connections[place].getresponse() for place in (0, 2)]
        assert [problem_word(one.read()) for one in refused] == ["damagedBatch"] * 2
        assert not list(received.iterdir()), "nothing of what has not proven itself is kept"
        assert _put(service, site, batch_id, content).status == 201
        # The maker itself holds a place, as long as it sends.
        slow = service.connect()
        slow.putrequest("PUT", _address(site, other_id))
        slow.putheader("content-type", media_types.BATCH)
        slow.putheader("content-length", str(len(other)))
        slow.endheaders(other[: START_LENGTH + 50])
        waited(lambda: any(received.glob(".*")))
        third_id, third = _batch(site, reports=5)
        assert _put(service, site, third_id, third).status == 503
        for connection in (*connections, slow):
            connection.close()
        service.stop()


def test_nobody_hands_a_batch_to_the_first_hop(site: Site) -> None:
    batch_id, content = _batch(site)
    with collecting(site, SMALL) as service:
        assert _put(service, site, batch_id, content).status == 404
        service.stop()


@pytest.mark.parametrize(
    "place", ["arrival.written", "arrival.synced", "arrival.named", "arrival.stored"]
)
def test_a_batch_is_handed_over_after_a_kill(site: Site, place: str) -> None:
    batch_id, content = _batch(site)
    with collecting(site, SMALL, party="hop2", environment={VARIABLE: place}) as service:
        with pytest.raises((OSError, HTTPException)):
            _put(service, site, batch_id, content)
        assert service.process.wait(20) == -signal.SIGKILL
    with collecting(site, SMALL, party="hop2") as service:
        reply = _put(service, site, batch_id, content)
        assert reply.status in (200, 201)
        assert _is_signed(site, batch_id, reply)
        service.stop()
    (path,) = (site.folder / "hop2" / "data" / "received").iterdir()
    assert path.read_bytes() == content


def test_what_a_killed_collector_was_taking_keeps_no_key(site: Site) -> None:
    """Nothing else would ever remove it: nobody sends for a key that is closed."""
    party = site.folder / "hop2"
    inbox = party / "data" / "received"
    inbox.mkdir(parents=True, exist_ok=True)
    left = inbox / f".{'ab' * 32}.batch.{'0' * 16}.part"
    left.write_bytes(b"some of a batch")
    Collector(party / "data", [site.plan], site.keys["hop2"])
    assert not left.exists()


def test_a_disk_without_links_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is taken before its file is complete may be signed for."""

    def link(*_: object, **__: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "")

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StorageFault, match="hard links"):
        Collector(site.folder / "hop2" / "data", [site.plan], site.keys["hop2"])
    inbox = site.folder / "hop2" / "data" / "received"
    assert not [one for one in inbox.iterdir() if "links" in one.name]
