"""The shuffler at work: every acknowledged report in one batch with its crowd, whatever happens."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from chaffinch.keys import KeyFolder
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.releasing import ReleaseRule
from tests.services.oracle import Collection, Receiver, port_of, receiving

QUICK = Patience(connect=2.0, reply=2.0, first_pause=0.01, longest_pause=0.02)


def shuffler(collection: Collection, data: Path, hop: int = 1, **more: object) -> Shuffler:
    settings = ShufflerSettings(openers=1, patience=QUICK, **more)  # type: ignore[arg-type]
    keys = KeyFolder.open(collection.hops[hop - 1].path)
    return Shuffler(data, keys, [collection.plan], settings)


def sealed(data: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((data / "outbox").glob("*.batch"))]


def ones(*numbers: int) -> Counter[int]:
    return Counter(dict.fromkeys(numbers, 1))


@pytest.fixture(name="collection")
def _collection(tmp_path: Path) -> Collection:
    return Collection.make(tmp_path / "keys")


def test_reports_leave_when_their_crowd_is_there(collection: Collection, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with shuffler(collection, data) as hop:
        collection.write_segment(data, collection.seal(range(3)))
        hop.take()
        hop.tick()
        assert not sealed(data), "three of four"
        assert hop.status.plans[collection.plan.id].pooled == 3
        collection.write_segment(data, collection.seal([3]))
        hop.take()
        hop.tick()
        assert collection.histogram(sealed(data)) == ones(0, 1, 2, 3)
        counts = hop.status.plans[collection.plan.id]
        assert (counts.durable, counts.opened, counts.batched, counts.pooled) == (4, 4, 4, 0)
        assert hop.status.adds_up
    assert not list((data / "inbox").iterdir())


def test_a_cascade_of_three_hops(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "keys", hops=3)
    first, second, third = (tmp_path / f"data{number}" for number in (1, 2, 3))
    with (
        shuffler(collection, first) as one,
        shuffler(collection, second, 2) as two,
        shuffler(collection, third, 3) as three,
    ):
        collection.write_segment(first, collection.seal(range(5)))
        one.take()
        one.tick()
        for before, after, hop in ((first, second, two), (second, third, three)):
            for path in (before / "outbox").iterdir():
                (after / "received" / path.name).write_bytes(path.read_bytes())
            hop.take()
            hop.tick()
            assert hop.status.adds_up
            assert not list((after / "received").iterdir())
        assert collection.histogram(sealed(third)) == ones(*range(5))


@pytest.mark.parametrize(
    "faults",
    [
        [],
        ["drop-request"],
        ["", "drop-request"],
        ["", "drop-reply"],
        ["drop-reply", "", "drop-reply", "drop-reply"],
        ["busy", "", "busy"],
        ["forged", "", "forged"],
        ["long", "", "long"],
    ],
)
def test_a_batch_is_offered_until_there_is_a_receipt(
    collection: Collection, tmp_path: Path, faults: list[str]
) -> None:
    data = tmp_path / "data"
    receiver = Receiver(collection, collection.analyzer, list(faults))
    with (
        receiving(receiver, port_of(collection.plan, "analyzer")),
        shuffler(collection, data) as hop,
    ):
        collection.write_segment(data, collection.seal(range(4)))
        hop.take()
        hop.tick()
        (name,) = [path.stem for path in (data / "outbox").iterdir()]
        while sealed(data):
            hop.forward()
        hop.tick()
        assert hop.status.batches == {"sealed": 0, "acknowledged": 0, "purged": 1}
        assert list(receiver.batches) == [name]
    assert receiver.histogram == ones(*range(4))


def test_more_than_the_largest_batch_is_split_at_random(
    collection: Collection, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    with shuffler(collection, data, rule=ReleaseRule(largest_batch=8)) as hop:
        for start in range(0, 21, 7):
            collection.write_segment(data, collection.seal(range(start, start + 7)))
        hop.take()
        hop.tick()
        assert hop.status.adds_up
    found = [collection.numbers_in(content) for content in sealed(data)]
    assert [sum(one.values()) for one in found] == [7, 7, 7]
    assert sum(found, Counter()) == ones(*range(21))
