"""A first hop that helps the analyzer hands one device keys that nobody else has.

Of three hops the first and the last help the analyzer, and the second keeps to the plan. What it
passes on must not hold a message that is sealed for other keys than the rest of its batch: the
last hop or the analyzer would know it by them, and with it the device.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chaffinch.encoding.sealing import Sealer
from chaffinch.sampling import secure_words
from chaffinch.services.shuffler import Shuffler
from chaffinch.shuffling.state import Counts
from chaffinch.wire.arrivals import Expected
from chaffinch.wire.envelopes import NAME, OpeningKey
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.messages import EMPTY, Origin, Report
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import BatchHead, blocks_of, check_batch, write_batch
from chaffinch.wire.sealed_reports import route_of
from tests.services.oracle import Collection
from tests.services.test_shuffler import handed_over, sealed, shuffler

CROWD = 4
NUMBER = 150
"""What the device says; nobody else does."""
HOP2, HOP3, ANALYZER = 1, 2, 3


class Target:
    """A device that has the list of one party from whoever helps the analyzer, and its keys.

    The list is signed by its party: ``made`` for this device alone, under the id of the key that
    everybody has, or an ``old`` one that was everybody's.
    """

    def __init__(self, collection: Collection, place: int, kind: str) -> None:
        self.collection = collection
        folders = (*collection.hops, collection.analyzer)
        name, folder = collection.plan.id, folders[place]
        lists = [one.key_list(name) for one in folders]
        self.keys = [next(iter(one.accepted_keys().values())).key for one in folders]
        if kind == "old":
            folder.rotate(at_once=True)
        else:
            self.keys[place] = OpeningKey.new(self.keys[place].id)
            made = KeyList(name, folder.serial, (self.keys[place].sealing,))
            lists[place] = made.signed(folder.identity)
        identities = [bytes.fromhex(one.identity_hex) for one in folders]
        read = KeyList.read_all(b"".join(lists), plan_id=name, identities=identities)
        self.sealer = Sealer.of(collection.plan, [one for one, _ in read])

    @property
    def route(self) -> bytes:
        """Return the way that its items go from the first hop on."""
        return route_of([key.sealing for key in self.keys[1:]])

    def items(self) -> list[bytes]:
        """Return the items of a report, as the first hop gets them."""
        plan, layout = self.collection.plan, self.collection.plan.layout
        report = self.sealer.seal(Report(Origin.of(plan), (NUMBER, EMPTY)), secure_words())
        payload = self.keys[0].open(report, layout.binding(1, 1))
        assert payload is not None
        unpacked = layout.unpack(payload)
        assert unpacked is not None
        _, items = unpacked
        return [items[at : at + layout.item_length(1)] for at in (0, layout.item_length(1))]

    def read_in(self, batch: bytes) -> list[int]:
        """Return what the last hop and the analyzer read with the keys of this device."""
        layout, (_, _, third, last) = self.collection.plan.layout, self.keys
        file = io.BytesIO(batch)
        maker = self.collection.hops[1].identity.public_key().public_bytes_raw()
        head, _ = check_batch(file, maker)
        found = []
        for item in blocks_of(file, head.items * head.item_length, head.item_length):
            inner = third.open(item, layout.binding(3, 1, last.sealing.name))
            code = inner and last.open(inner, layout.binding(4, 1))
            found += [int.from_bytes(code, "big")] if code else []
        return found


@pytest.fixture(name="collection")
def _collection(tmp_path: Path) -> Collection:
    return Collection.make(tmp_path / "keys", crowd=CROWD, hops=3)


class Attack:
    """Batches that a bad first hop hands to a second one that keeps to the plan."""

    def __init__(self, collection: Collection, folder: Path) -> None:
        self.collection, self._folder, self._made = collection, folder, 0
        self.data = folder / "second"

    def hand_over(
        self,
        items: Callable[[list[bytes]], Sequence[bytes]],
        route: bytes | None = None,
    ) -> BatchHead:
        """Make a batch of five honest reports, change its items and what it says, and sign it."""
        self._made += 1
        numbers = range(5 * self._made, 5 * self._made + 5)
        path = handed_over(self.collection, self._folder / f"{self._made}", self.data, numbers)
        identity, file = self.collection.hops[0].identity, io.BytesIO(path.read_bytes())
        head, _ = check_batch(file, identity.public_key().public_bytes_raw())
        path.unlink()
        length = head.item_length
        changed = items(list(blocks_of(file, head.items * length, length)))
        head = replace(head, items=len(changed), route=route or head.route)
        other = io.BytesIO()
        batch_id = write_batch(other, head, changed, identity)
        path.with_name(f"{batch_id}.batch").write_bytes(other.getvalue())
        return head

    def second(self) -> Shuffler:
        """Return the hop that keeps to the plan."""
        return shuffler(self.collection, self.data, 2)


def counts_of(hop: Shuffler) -> Counts:
    (counts,) = hop.overview().counts.values()
    assert counts.adds_up
    return counts


@pytest.mark.parametrize(
    "mark", [(ANALYZER, "made"), (HOP3, "made"), (ANALYZER, "old"), (HOP3, "old"), (HOP2, "old")]
)
def test_nothing_of_a_marked_device_is_in_the_batch_of_an_honest_hop(
    collection: Collection, tmp_path: Path, mark: tuple[int, str]
) -> None:
    target, attack = Target(collection, *mark), Attack(collection, tmp_path)
    # Four honest reports are its crowd: the batch is large enough without the device.
    attack.hand_over(lambda items: [*items[:8], *target.items()])
    with attack.second() as hop:
        hop.take()
        counts = counts_of(hop)
    (batch,) = sealed(attack.data)
    assert NUMBER not in target.read_in(batch), "the device is known by its keys"
    assert (counts.undecryptable, counts.opened, counts.batched) == (2, 8, 8)


@pytest.mark.parametrize(
    "mark", [(ANALYZER, "made"), (HOP3, "made"), (ANALYZER, "old"), (HOP2, "old")]
)
def test_a_head_that_lies_about_the_route_opens_the_device_alone(
    collection: Collection, tmp_path: Path, mark: tuple[int, str]
) -> None:
    target, attack = Target(collection, *mark), Attack(collection, tmp_path)
    attack.hand_over(lambda items: [*items[:8], *target.items()], target.route)
    attack.hand_over(lambda _: target.items(), target.route)
    with attack.second() as hop:
        hop.take()
        counts = counts_of(hop)
    assert not sealed(attack.data), "no crowd, no batch"
    assert (counts.undecryptable, counts.pooled, counts.opened) == (8, 4, 4)


def test_a_head_with_a_route_of_nobody_opens_nothing(
    collection: Collection, tmp_path: Path
) -> None:
    attack = Attack(collection, tmp_path)
    own = collection.sealer.keys[1].name
    attack.hand_over(lambda items: items, own + bytes(2 * NAME))
    with attack.second() as hop:
        hop.take()
        counts = counts_of(hop)
    assert not sealed(attack.data)
    assert (counts.undecryptable, counts.opened) == (10, 0)


def test_a_head_that_lied_keeps_nobody_out(collection: Collection, tmp_path: Path) -> None:
    """What did not open is not known as a copy afterwards, and what did is."""
    attack, target = Attack(collection, tmp_path), Target(collection, ANALYZER, "made")
    kept: list[bytes] = []

    def keep(items: list[bytes]) -> list[bytes]:
        kept[:] = items
        return items

    attack.hand_over(keep, target.route)
    with attack.second() as hop:
        hop.take()
        for _ in range(2):
            attack.hand_over(lambda items: [*items[:1], *kept])
            hop.take()
        counts = counts_of(hop)
    assert counts.undecryptable == 10
    assert len(sealed(attack.data)) == 1
    assert (counts.batched, counts.duplicate, counts.pooled) == (11, 10, 1)


def test_a_batch_for_another_key_of_the_same_id_is_not_taken(
    collection: Collection, tmp_path: Path
) -> None:
    attack, own = Attack(collection, tmp_path), collection.sealer.keys[1].name
    other = own[:1] + bytes(NAME - 1)
    head = attack.hand_over(lambda items: items, other + collection.sealer.keys[2].name * 2)
    with pytest.raises(Problem) as caught:
        Expected.of(collection.plan, 1).check_head(head, {own})
    assert caught.value.kind is Kind.OUTDATED_KEYS
    with attack.second() as hop:
        hop.take()
        # It was acknowledged, so it waits: another folder of keys may have been in use then.
        assert len(list((attack.data / "received").iterdir())) == 1
        assert not hop.overview().counts
