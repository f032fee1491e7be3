"""The release rule: never below the crowd, every split alike, every order of items alike."""

from __future__ import annotations

import errno
import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import permutations
from math import factorial
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from scipy.stats import chi2

from chaffinch.errors import BatchTooSmall, InvalidInput, StorageFault
from chaffinch.sampling import SecureWords, secure_words
from chaffinch.shuffling import batch_outbox as outbox_module
from chaffinch.shuffling import release_rule
from chaffinch.shuffling.batch_outbox import Items, Outbox, items_of
from chaffinch.shuffling.on_disk import Buckets
from chaffinch.shuffling.release_rule import Releaser, ReleaseRule, split
from chaffinch.shuffling.state import Partition, Sealed, State
from chaffinch.wire.sealed_batches import BatchHead, blocks_of, check_batch
from tests.services.oracle import Collection
from tests.tiers import nightly

CROWD = 4
IDENTITY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = IDENTITY.public_key().public_bytes_raw()
FALSE_ALARM = 1e-6


@pytest.fixture(name="plan_and_state")
def _plan_and_state(tmp_path: Path) -> Iterator[tuple[Collection, State]]:
    (tmp_path / "outbox").mkdir()
    state = State.open(tmp_path / "state.sqlite")
    yield Collection.make(tmp_path / "keys", crowd=CROWD, rounds=2, hops=2), state
    state.close()


def add(state: State, partition: Partition, sizes: list[int], length: int) -> None:
    packed = np.array(sizes, "<u4").tobytes()
    with state.changing() as change:
        change.add_to_pool(partition, len(sizes), packed, bytes(sum(sizes) * length))
        change.count(partition.plan_id, {"durable": len(sizes), "opened": len(sizes)})


def releaser(collection: Collection, state: State, folder: Path, rule: ReleaseRule) -> Releaser:
    words = secure_words()
    plans = {collection.plan.id: collection.plan}
    return Releaser(state, plans, Outbox(folder / "outbox", IDENTITY, words), words, rule)


def test_partitions_never_help_one_another_to_a_crowd(
    plan_and_state: tuple[Collection, State], tmp_path: Path
) -> None:
    collection, state = plan_and_state
    name, length = collection.plan.id, collection.plan.layout.item_length(1)
    rule = releaser(collection, state, tmp_path, ReleaseRule())
    digest, other = bytes(31), bytes([1] * 31)
    ours, marked = b"\1" + digest, b"\1" + other
    for number, route in ((1, ours), (2, ours), (1, b"\2" + digest), (2, marked)):
        add(state, Partition(name, number, route), [2] * (CROWD - 1), length)
    assert rule.tick() == []
    add(state, Partition(name, 2, ours), [2], length)
    (made,) = rule.tick()
    with (tmp_path / "outbox" / f"{made}.batch").open("rb") as file:
        head, found = check_batch(file, PUBLIC)
    assert found == made
    assert (head.round, head.hop, head.route, head.reports) == (2, 1, ours, CROWD)
    assert (head.items, head.item_length) == (2 * CROWD, length)
    assert state.batches("sealed") == [Sealed(made, name, 2, CROWD, 2 * CROWD)]
    assert sum(state.partitions().values()) == 3 * (CROWD - 1)
    assert state.counts()[name].adds_up


def test_what_finds_no_crowd_is_dropped_in_the_end_and_counted(
    plan_and_state: tuple[Collection, State], tmp_path: Path
) -> None:
    collection, state = plan_and_state
    name, length = collection.plan.id, collection.plan.layout.item_length(1)
    rule = releaser(collection, state, tmp_path, ReleaseRule(most_ticks=2))
    add(state, Partition(name, 1, b"\1" * 32), [2] * (CROWD - 1), length)
    for _ in range(2):
        assert rule.tick() == []
        assert state.counts()[name].pooled == CROWD - 1
    add(state, Partition(name, 1, b"\1" * 32), [2] * (CROWD - 2), length)
    (made,) = rule.tick()
    assert made, "with their crowd they go, however old"
    add(state, Partition(name, 1, b"\1" * 32), [1], length)
    for _ in range(3):
        assert rule.tick() == []
    counts = state.counts()[name]
    assert (counts.pooled, counts.expired) == (0, 1)
    assert counts.adds_up


def test_every_item_leaves_once_however_it_came_and_is_split(
    plan_and_state: tuple[Collection, State], tmp_path: Path
) -> None:
    """Two partitions, of which each was opened in four parts and goes in three batches."""
    collection, state = plan_and_state
    name, length = collection.plan.id, collection.plan.layout.item_length(1)
    partitions = [Partition(name, number, b"\1" * 32) for number in (1, 2)]
    with state.changing() as change:
        for place, partition in enumerate(partitions):
            for part in range(4):
                items = [bytes([place, part, at]).ljust(length, b"\0") for at in range(10)]
                sizes = np.array([2, 1, 2, 2, 1, 2], "<u4").tobytes()
                change.add_to_pool(partition, 6, sizes, b"".join(items))
    made = releaser(collection, state, tmp_path, ReleaseRule(largest_batch=8)).tick()
    assert len(made) == 6
    found: Counter[bytes] = Counter()
    for one in made:
        with (tmp_path / "outbox" / f"{one}.batch").open("rb") as file:
            head, _ = check_batch(file, PUBLIC)
            content = b"".join(blocks_of(file, head.items * length))
        assert head.reports == 8
        items = [content[at : at + length] for at in range(0, len(content), length)]
        assert {item[0] for item in items} == {head.round - 1}
        found.update(item[:3] for item in items)
    assert len(found) == 2 * 4 * 10
    assert set(found.values()) == {1}
    assert state.partitions() == {}


def test_a_rule_that_lets_too_few_go_is_stopped_by_the_crowd_itself(
    plan_and_state: tuple[Collection, State], tmp_path: Path
) -> None:
    collection, state = plan_and_state

    class Careless(ReleaseRule):
        def parts(self, reports: int, crowd: int) -> int:
            return max(1, super().parts(reports, crowd))

    partition = Partition(collection.plan.id, 1, b"\1" * 32)
    add(state, partition, [3] * (CROWD - 1), collection.plan.layout.item_length(1))
    with pytest.raises(BatchTooSmall):
        releaser(collection, state, tmp_path, Careless()).tick()
    assert state.partitions() == {partition: CROWD - 1}


def test_a_crowd_with_fewer_messages_than_honest_users_send_waits(
    plan_and_state: tuple[Collection, State], tmp_path: Path
) -> None:
    """The next party would refuse the batch, and all reports in it be lost."""
    collection, state = plan_and_state
    partition = Partition(collection.plan.id, 1, b"\1" * 32)
    length = collection.plan.layout.item_length(1)
    rule = releaser(collection, state, tmp_path, ReleaseRule())
    add(state, partition, [2] * (CROWD - 1) + [1], length)
    assert rule.tick() == []
    add(state, partition, [1], length)
    assert len(rule.tick()) == 1
    assert state.partitions() == {}


def test_one_message_is_enough_for_a_plan_for_one(tmp_path: Path) -> None:
    (tmp_path / "outbox").mkdir()
    alone = Collection.make(tmp_path / "keys", crowd=1, slots=1)
    assert alone.plan.least_items == 1
    with closing(State.open(tmp_path / "state.sqlite")) as state:
        add(state, Partition(alone.plan.id, 1, b"\1" * 32), [1], alone.plan.layout.item_length(1))
        assert len(releaser(alone, state, tmp_path, ReleaseRule()).tick()) == 1


def test_no_part_goes_without_its_messages_and_fewer_parts_have_more(
    plan_and_state: tuple[Collection, State], tmp_path: Path
) -> None:
    """Strangers with nothing in their reports must not cut an honest crowd into parts."""
    collection, state = plan_and_state
    plan, partition = collection.plan, Partition(collection.plan.id, 1, b"\1" * 32)
    length, slots = plan.layout.item_length(1), plan.slots
    rule = releaser(collection, state, tmp_path, ReleaseRule(largest_batch=2 * CROWD))
    empty = [0] * (6 * CROWD)
    add(state, partition, [slots] * (CROWD - 1) + empty, length)
    assert rule.tick() == []
    assert rule.short == {plan.id}
    assert state.partitions() == {partition: 7 * CROWD - 1}
    assert not list((tmp_path / "outbox").iterdir())
    add(state, partition, [slots], length)
    (made,) = rule.tick()
    assert rule.short == set()
    with (tmp_path / "outbox" / f"{made}.batch").open("rb") as file:
        head, _ = check_batch(file, PUBLIC)
    assert (head.reports, head.items) == (7 * CROWD, plan.least_items)
    assert state.partitions() == {}


@pytest.mark.parametrize(
    ("messages", "tried"),
    [
        ([4] * 8 + [0] * 8 + [1] * 8 + [0] * 8 + [1] * 9 + [0] * 7, [6, 3]),
        ([2] * 4 + [0] * 20 + [1] * 24, [4, 2]),
        ([8] * 4 + [0] * 44, [4, 2, 1]),
        ([2] * 3 + [0] * 44 + [1], []),
    ],
    ids=["half as many", "no more than messages suffice for", "all together", "none"],
)
def test_a_split_with_too_few_messages_is_tried_in_half_as_many_parts(
    plan_and_state: tuple[Collection, State],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    messages: list[int],
    tried: list[int],
) -> None:
    collection, state = plan_and_state
    plan, partition = collection.plan, Partition(collection.plan.id, 1, b"\1" * 32)
    asked: list[int] = []

    def in_order(_: object, reports: int, parts: int) -> NDArray[np.int64]:
        asked.append(parts)
        return np.arange(reports) * parts // reports

    monkeypatch.setattr(release_rule, "split", in_order)
    add(state, partition, messages, plan.layout.item_length(1))
    assert plan.least_items == 2 * CROWD
    made = releaser(collection, state, tmp_path, ReleaseRule(largest_batch=2 * CROWD)).tick()
    assert asked == tried
    assert len(made) == (tried or [0])[-1]


def test_what_has_no_crowd_or_no_plan_waits_however_much_is_in_it(
    plan_and_state: tuple[Collection, State], tmp_path: Path
) -> None:
    collection, state = plan_and_state
    few, strange = (Partition(one, 1, b"\1" * 32) for one in (collection.plan.id, "5b" * 32))
    length = collection.plan.layout.item_length(1)
    add(state, few, [9] * (CROWD - 1), length)
    add(state, strange, [2] * (9 * CROWD), length)
    assert releaser(collection, state, tmp_path, ReleaseRule()).tick() == []
    assert state.partitions() == {few: CROWD - 1, strange: 9 * CROWD}


def test_the_pool_must_hold_what_is_taken(plan_and_state: tuple[Collection, State]) -> None:
    collection, state = plan_and_state
    partition = Partition(collection.plan.id, 1, b"\1" * 32)
    add(state, partition, [1] * CROWD, 5)
    with pytest.raises(StorageFault), state.changing() as change:
        change.take_from_pool(partition, CROWD + 1)
    assert state.partitions() == {partition: CROWD}


@pytest.mark.parametrize("crowd", [1, 2, 3, 10])
def test_every_part_has_its_crowd(crowd: int) -> None:
    rule = ReleaseRule(largest_batch=2 * crowd)
    for reports in range(9 * crowd):
        parts = rule.parts(reports, crowd)
        sizes = np.bincount(split(secure_words(), reports, parts), minlength=parts)
        assert sum(sizes) == (reports if parts else 0) or not parts
        assert all(crowd <= size <= rule.largest_batch for size in sizes[:parts])
        assert bool(parts) == (reports >= crowd)


def test_a_largest_batch_below_two_crowds_gives_way() -> None:
    assert ReleaseRule(largest_batch=1).parts(7, 4) == 1
    assert ReleaseRule(largest_batch=1).parts(9, 4) == 2
    assert ReleaseRule(most_ticks=1).most_ticks == 1
    for bad in ({"largest_batch": 0}, {"most_ticks": 0}):
        with pytest.raises(InvalidInput):
            ReleaseRule(**bad)


def test_any_split_is_as_likely_as_any_other() -> None:
    trials, words = 6000, secure_words()
    found = Counter(tuple(split(words, 4, 2).tolist()) for _ in range(trials))
    assert len(found) == 6
    assert is_uniform(found.values(), 6, trials)


# ----------------------------------------------------------------------------
# The order of the items.

ITEMS = 5


def is_uniform(counts: Iterable[int], kinds: int, trials: int) -> bool:
    """Return whether counts may be those of so many kinds, each as likely as any other."""
    seen, expected = list(counts), trials / kinds
    missing = (kinds - len(seen)) * expected
    statistic = sum((one - expected) ** 2 for one in seen) / expected + missing
    return bool(chi2.sf(statistic, kinds - 1) > FALSE_ALARM)


def order_of(folder: Path, memory: int) -> tuple[int, ...]:
    """Return in which order five items leave, as two blocks of them come in."""
    box = Outbox(folder, IDENTITY, secure_words(), memory=memory)
    head = BatchHead("5a" * 32, 1, 1, bytes(32), reports=3, items=ITEMS, item_length=9)
    items = b"".join(bytes([number]) * 9 for number in range(ITEMS))
    path = box.path(box.write(head, [items_of(items[:18], 9), items_of(items[18:], 9)]))
    content = path.read_bytes()
    path.unlink()
    file = io.BytesIO(content)
    check_batch(file, PUBLIC)
    return tuple(b"".join(blocks_of(file, ITEMS * 9))[::9])


@pytest.mark.parametrize(
    ("memory", "trials"), [(1 << 20, 2400), nightly(60, 360), nightly(60, 1200)]
)
def test_every_order_of_the_items_is_as_likely_as_any_other(
    tmp_path: Path, memory: int, trials: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory, and through buckets on the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    found = Counter(order_of(tmp_path, memory) for _ in range(trials))
    assert set(found) <= set(permutations(range(ITEMS)))
    assert is_uniform(found.values(), factorial(ITEMS), trials)


def test_an_order_that_is_not_uniform_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each item changes places with one before it, never with itself: 24 of 120 orders.

    The statistic is then about 4 for each draw, where that of a uniform order is about 119 in all.
    """

    def careless(words: SecureWords, count: int) -> NDArray[np.int64]:
        order = np.arange(count)
        for place in range(1, count):
            other = int(words.take(1)[0] % place)
            order[[place, other]] = order[[other, place]]
        return order

    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(outbox_module, "permutation", careless)
    found = Counter(order_of(tmp_path, 1 << 20) for _ in range(300))
    assert not is_uniform(found.values(), factorial(ITEMS), 300)


def test_more_items_than_fit_into_memory_all_leave(tmp_path: Path) -> None:
    length, items = 59, 30_000
    content = np.random.default_rng(5).bytes(items * length)
    box = Outbox(tmp_path, IDENTITY, secure_words(), memory=200_000)
    head = BatchHead("5a" * 32, 1, 1, bytes(32), reports=3, items=items, item_length=length)
    blocks = (
        items_of(content[at : at + 1000 * length], length)
        for at in range(0, len(content), 1000 * length)
    )
    batch_id = box.write(head, blocks)
    with box.path(batch_id).open("rb") as file:
        assert check_batch(file, PUBLIC) == (head, batch_id)
        found = b"".join(blocks_of(file, len(content)))
    assert found != content
    assert np.array_equal(np.sort(items_of(found, length)), np.sort(items_of(content, length)))


HEAD = BatchHead("5a" * 32, 1, 1, bytes(32), reports=3, items=1, item_length=9)


@pytest.mark.parametrize("spare", [0, -1])
def test_what_does_not_fit_into_memory_is_ordered_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    """An item twice, and 24 bytes for its place."""
    used = []

    class Noted(Buckets):
        def __enter__(self) -> Self:
            used.append(True)
            return super().__enter__()

    monkeypatch.setattr(outbox_module, "Buckets", Noted)
    memory = ITEMS * (24 + 2 * 9) + spare
    assert sorted(order_of(tmp_path, memory)) == list(range(ITEMS))
    assert bool(used) == (spare < 0)


def test_a_batch_is_on_the_disk_before_it_has_its_name_and_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bytes]] = []

    def sync(_: int) -> None:
        synced.extend((one.suffix, one.read_bytes()) for one in tmp_path.iterdir())

    monkeypatch.setattr(os, "fsync", sync)
    box = Outbox(tmp_path, IDENTITY, secure_words())
    path = box.path(box.write(HEAD, [items_of(bytes(9), 9)]))
    assert synced == [(suffix, path.read_bytes()) for suffix in (".part", ".batch")]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, ""), KeyboardInterrupt()])
def test_a_batch_that_could_not_be_written_leaves_nothing(
    tmp_path: Path, fault: BaseException
) -> None:
    def blocks() -> Iterator[Items]:
        yield items_of(bytes(9), 9)
        raise fault

    box = Outbox(tmp_path, IDENTITY, secure_words())
    with pytest.raises(StorageFault if isinstance(fault, OSError) else KeyboardInterrupt):
        box.write(HEAD, blocks())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", [OSError(errno.EIO, ""), KeyboardInterrupt()])
def test_a_batch_whose_name_may_be_lost_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def fail(_: Path) -> None:
        raise fault

    monkeypatch.setattr(outbox_module, "sync_folder", fail)
    with pytest.raises(StorageFault if isinstance(fault, OSError) else KeyboardInterrupt):
        Outbox(tmp_path, IDENTITY, secure_words()).write(HEAD, [items_of(bytes(9), 9)])


def test_what_the_state_does_not_know_is_removed(tmp_path: Path) -> None:
    box = Outbox(tmp_path, IDENTITY, secure_words())
    kept, gone = (box.write(HEAD, [items_of(bytes([number]) * 9, 9)]) for number in (1, 2))
    (tmp_path / ".new.0123456789abcdef.part").write_bytes(b"unfinished")
    box.remove_orphans({kept})
    assert [path.stem for path in tmp_path.iterdir()] == [kept]
    assert gone != kept
