"""An analyzer that hands one device keys of its own learns nothing more of it than of others.

It signs a second list for that device, seals as many reports of its own for it as make a crowd,
and waits for a batch with a single honest report in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from chaffinch import Client
from chaffinch.encoding.sealing import Sealer
from chaffinch.errors import NotDelivered
from chaffinch.sampling import secure_words
from chaffinch.services.shuffler import Shuffler
from chaffinch.wire.envelopes import OpeningKey
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.messages import EMPTY, Origin, Report
from tests.services.oracle import Collection, Receiver, port_of, receiving
from tests.services.test_sending import kept, party
from tests.services.test_shuffler import ones, sealed, shuffler

CROWD = 4


@pytest.fixture(name="collection")
def _collection(tmp_path: Path) -> Collection:
    return Collection.make(tmp_path / "keys", crowd=CROWD, numbers=300)


def seal_marked(collection: Collection, numbers: Iterable[int]) -> list[bytes]:
    """Return reports for a key that the analyzer has made for one device, under the usual id."""
    usual = collection.sealer
    mark = OpeningKey.new(usual.keys[1].id).sealing
    name, serial = collection.plan.id, collection.analyzer.serial
    own = next(iter(collection.hops[0].accepted_keys().values())).key.sealing
    lists = [KeyList(name, serial, (one,)) for one in (own, mark)]
    origin, words = Origin.of(collection.plan), secure_words()
    sealer = Sealer.of(collection.plan, lists)
    return [sealer.seal(Report(origin, (number, EMPTY)), words) for number in numbers]


def asked(hop: Shuffler, collection: Collection) -> None:
    """Let a hop ask the analyzer itself, until it has its keys."""
    while collection.plan.id not in hop.overview().has_keys:
        hop.forward()


def test_a_marked_report_among_sybils_does_not_leave(
    collection: Collection, tmp_path: Path
) -> None:
    data, receiver = tmp_path / "data", Receiver(collection, collection.analyzer)
    with (
        receiving(receiver, port_of(collection.plan, "analyzer")),
        shuffler(collection, data) as hop,
    ):
        asked(hop, collection)
        victim, *sybils = seal_marked(collection, range(10 * CROWD))
        collection.write_segment(data, [victim, *sybils])
        collection.write_segment(data, collection.seal(range(100, 100 + CROWD)))
        for _ in range(3):
            hop.take()
            hop.tick()
            hop.forward()
        while sealed(data):
            hop.forward()
        counts = hop.overview().counts[collection.plan.id]
        assert (counts.not_given_out, counts.pooled, counts.batched) == (10 * CROWD, 0, CROWD)
        assert counts.adds_up
    assert receiver.histogram == ones(*range(100, 100 + CROWD))


def test_a_report_for_a_key_that_everybody_gets_afterwards_does_not_leave(
    collection: Collection, tmp_path: Path
) -> None:
    """The mark is shown to one device, Sybils fill its crowd, and only then the hop is shown it.

    Nobody whom the hop has given the key to has sent by then: with the next tick the device would
    leave alone among them. Whoever has kept its bytes does not get them in afterwards, either.
    """
    data = tmp_path / "data"
    with shuffler(collection, data) as hop:
        collection.analyzer.rotate(at_once=True)
        early = collection.seal(range(10 * CROWD))
        collection.write_segment(data, early)
        hop.take()
        hop.tick()
        collection.show_keys(hop)
        for first in (100, 200):
            collection.write_segment(data, early)
            collection.write_segment(data, collection.seal(range(first, first + CROWD)))
            hop.take()
            hop.tick()
        counts = hop.overview().counts[collection.plan.id]
        assert (counts.not_given_out, counts.pooled, counts.batched) == (10 * CROWD, 0, 2 * CROWD)
        assert counts.adds_up
        given_out = (*range(100, 100 + CROWD), *range(200, 200 + CROWD))
        assert collection.histogram(sealed(data)) == ones(*given_out)


def test_made_up_ways_do_not_fill_the_disk(tmp_path: Path) -> None:
    """Anybody can send reports for keys that nobody has: what is left of each is its tag."""
    collection, data = Collection.make(tmp_path / "keys", slots=20), tmp_path / "data"
    layout = collection.plan.layout
    own = next(iter(collection.hops[0].accepted_keys().values())).key.sealing
    items, binding, many = [bytes(layout.item_length(1))] * 20, layout.binding(1, 1), 500

    def size_after_one_more_life(sent: int) -> int:
        with shuffler(collection, data) as hop:
            routes = [b"\1" + os.urandom(layout.route_length - 1) for _ in range(many)]
            made_up = [own.seal(layout.pack(one, items), binding) for one in routes]
            collection.write_segment(data, made_up)
            hop.take()
            hop.tick()
            counts = hop.overview().counts[collection.plan.id]
            assert (counts.not_given_out, counts.pooled, counts.opened) == (sent, 0, 0)
            assert counts.adds_up
        return sum(path.stat().st_size for path in data.rglob("*") if path.is_file())

    before, after = (size_after_one_more_life(sent) for sent in (many, 2 * many))
    assert after - before < many * layout.report_length / 20


def test_reports_for_a_key_from_before_still_leave(collection: Collection, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with shuffler(collection, data) as hop:
        late = collection.seal(range(CROWD))
        collection.analyzer.rotate(at_once=True)
        collection.show_keys(hop)
        collection.write_segment(data, late)
        collection.write_segment(data, collection.seal(range(10, 10 + CROWD)))
        hop.take()
        hop.tick()
        found = collection.histogram(sealed(data))
    assert found == ones(*range(CROWD), *range(10, 10 + CROWD))


def test_nothing_leaves_while_the_analyzer_is_away(tmp_path: Path) -> None:
    collection, data = Collection.make(tmp_path / "keys", crowd=CROWD), tmp_path / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Collection, "show_keys", lambda *_: None)
        hop = shuffler(collection, data)
    with hop:
        collection.write_segment(data, collection.seal(range(CROWD)))
        hop.take()
        while not hop.later_keys.faults:
            hop.forward()
        hop.tick()
        assert not sealed(data)
        receiver = Receiver(collection, collection.analyzer)
        with receiving(receiver, port_of(collection.plan, "analyzer")):
            asked(hop, collection)
            hop.tick()
            assert not sealed(data), "nobody was given these keys when the reports came"
            collection.write_segment(data, collection.seal(range(10, 10 + CROWD)))
            hop.take()
            hop.tick()
        assert collection.histogram(sealed(data)) == ones(*range(10, 10 + CROWD))


def test_a_device_takes_all_keys_from_the_first_hop(tmp_path: Path) -> None:
    """The analyzer is asked by the hop alone: it has no device to show other keys to."""
    collection = Collection.make(tmp_path, crowd=CROWD)
    collection.plan.save(tmp_path / "plan.json")
    with party(collection, tmp_path, "hop1"):
        hasty = Client(collection.plan, outbox=tmp_path / "outbox", patience=0)
        with pytest.raises(NotDelivered, match="no keys at hop1"):
            hasty.send("v1")
        collection.show_keys_to(tmp_path / "hop1")
        assert hasty.resume().arrived == 1
    reports = kept(collection, tmp_path)
    with shuffler(collection, tmp_path / "other") as hop:
        collection.write_segment(tmp_path / "other", reports)
        hop.take()
        assert hop.overview().counts[collection.plan.id].pooled == 1
