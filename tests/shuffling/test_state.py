"""The state of a hop: tags, the pool, what waits, batches and counters, each step by step."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from chaffinch.disk import databases, stores
from chaffinch.disk.stores import StoreKind
from chaffinch.errors import StorageFault
from chaffinch.shuffling import state as module
from chaffinch.shuffling.state import (
    NOTHING,
    Change,
    Counts,
    Held,
    KeptList,
    Overview,
    Partition,
    Pooled,
    Sealed,
    State,
    Unsent,
    is_relayed,
    overview_of,
    seen_key_lists,
)
from chaffinch.wire.envelopes import OpeningKey
from chaffinch.wire.sealed_reports import route_of
from tests.cases import each_case

PLAN, OTHER = "5a" * 32, "5b" * 32
HERE = Partition(PLAN, 1, b"\1" + bytes(31))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@pytest.fixture
def state(path: Path) -> Iterator[State]:
    found = State.open(path)
    yield found
    found.close()


# ---------------------------------------------------------------------------- the laws

WHOLE = Counts(
    durable=30,
    opened=12,
    duplicate=1,
    undecryptable=2,
    malformed=3,
    destroyed_key=1,
    not_given_out=4,
    refused=2,
    waiting=5,
    pooled=3,
    batched=4,
    expired=5,
)


@each_case("name", [one.name for one in fields(Counts)])
def test_a_report_too_many_or_too_few_is_noticed_wherever_it_is(name: str) -> None:
    assert WHOLE.adds_up
    assert WHOLE.rejected == 12
    for by in (-1, 1):
        assert not replace(WHOLE, **{name: getattr(WHOLE, name) + by}).adds_up


# ---------------------------------------------------------------------------- tags


def test_a_tag_is_new_once_for_each_key(state: State) -> None:
    with state.changing() as change:
        assert change.claim(1, [b"c", b"a", b"c", b"b"]) == [True, True, False, True]
        assert change.claim(2, [b"a"]) == [True]
    with state.changing() as change:
        assert change.claim(1, [b"b", b"d", b"a"]) == [False, True, False]
        change.forget_tags([1, 3])
        assert change.claim(1, [b"a"]) == [True]
        assert change.claim(2, [b"a"]) == [False]


def test_what_fails_claims_nothing(state: State) -> None:
    def stop(change: Change) -> None:
        change.claim(1, [b"a"])
        change.finish_segment("one")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), state.changing() as change:
        stop(change)
    with state.changing() as change:
        assert change.claim(1, [b"a"]) == [True]
    assert state.opened_segments() == set()


# ---------------------------------------------------------------------------- the pool


def test_others_read_while_a_change_that_does_not_spill_is_under_way(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later hop opens a whole batch in one change, and is asked for receipts meanwhile."""
    monkeypatch.setattr(databases, "_PATIENCE", 0.1)
    monkeypatch.setattr(stores, "_PRAGMAS", ("PRAGMA cache_size = 10",))
    with closing(State.open(path)) as state:
        for spills in (True, False, True):
            tags = [secrets.token_bytes(16) for _ in range(5_000)]
            with state.changing() if spills else state.changing(spills=False) as change:
                change.claim(1, tags)
                if spills:
                    with pytest.raises(StorageFault, match="locked"):
                        is_relayed(path, "ab" * 32)
                else:
                    assert not is_relayed(path, "ab" * 32)


def test_a_partition_is_a_plan_a_round_and_a_route(state: State) -> None:
    """Nothing of another one is counted with it, read with it, or taken with it."""
    others = [HERE._replace(plan_id=OTHER), HERE._replace(round=2), HERE._replace(route=b"\2")]
    with state.changing() as change:
        for number, partition in enumerate([HERE, *others, HERE]):
            change.add_to_pool(partition, 2 + number, bytes([number]), bytes([number] * 2))
    assert state.partitions() == {HERE: 8, others[0]: 3, others[1]: 4, others[2]: 5}
    assert state.sizes(HERE) == [b"\0", b"\4"]
    assert list(state.pooled(HERE)) == [Pooled(b"\0", b"\0\0"), Pooled(b"\4", b"\4\4")]
    for reports in (7, 9):
        with pytest.raises(StorageFault), state.changing() as change:
            change.take_from_pool(HERE, reports)
    with state.changing() as change:
        change.take_from_pool(HERE, 8)
        change.take_from_pool(HERE, 0)
    assert state.partitions() == {others[0]: 3, others[1]: 4, others[2]: 5}


def test_reports_are_as_old_as_ticks_have_passed_since_they_came(state: State) -> None:
    for _ in range(3):
        with state.changing() as change:
            change.add_to_pool(HERE, 10, b"", b"")
            change.add_to_pool(HERE._replace(plan_id=OTHER), 1, b"", b"")
            change.pass_tick()
    assert state.tick() == 3
    for most, pooled in ((3, 30), (2, 20), (2, 20), (1, 10)):
        with state.changing() as change:
            change.expire(most)
        counts = state.counts()
        assert (counts[PLAN].pooled, counts[PLAN].expired) == (pooled, 30 - pooled)
        assert (counts[OTHER].pooled, counts[OTHER].expired) == (pooled // 10, 3 - pooled // 10)


def test_what_an_older_store_keeps_for_keys_that_were_not_given_out_is_rejected(
    path: Path,
) -> None:
    given = HERE._replace(route=HERE.route + b"\7")  # As it was: an id, and a whole digest.
    early, other = given._replace(route=b"\2" + bytes(32)), given._replace(plan_id=OTHER)
    older = replace(module._STATE, steps=module._STATE.steps[:2])  # noqa: SLF001 - as it was
    with older.open(path) as store, store.changing() as connection:
        change = Change(connection)
        change.give_out(PLAN, given.route)
        for number, partition in enumerate([given, early, other, early], 1):
            change.add_to_pool(partition, number, b"", b"")
        change.count(PLAN, {"durable": 8, "opened": 8, "batched": 1})
        change.count(OTHER, {"durable": 3, "opened": 3})
    state = State.open(path)
    assert state.partitions() == {HERE: 1}
    assert state.counts() == {
        PLAN: Counts(durable=8, opened=2, not_given_out=6, pooled=1, batched=1),
        OTHER: Counts(durable=3, not_given_out=3),
    }
    assert all(one.adds_up for one in state.counts().values())
    state.close()


def test_what_an_older_store_keeps_for_one_later_key_stays(path: Path) -> None:
    """Its route was an id and a digest, of which the name of the key is the first part."""
    key = OpeningKey.new(7).sealing
    route = b"\7" + hashlib.sha256(key.head + key.public).digest()
    with format_four().open(path) as store, store.changing() as connection:
        change = Change(connection)
        change.give_out(PLAN, route)
        change.add_to_pool(Partition(PLAN, 1, route), 3, b"sizes", b"items")
        change.count(PLAN, {"durable": 3, "opened": 3})
    with closing(State.open(path)) as state:
        now = Partition(PLAN, 1, route_of([key]))
        assert list(state.pooled(now)) == [Pooled(b"sizes", b"items")]
        assert state.counts() == {PLAN: Counts(durable=3, opened=3, pooled=3)}
        assert state.overview().has_keys == {PLAN}
        with state.changing() as change:
            assert change.is_given_out(PLAN, now.route)


def test_what_an_older_store_keeps_for_several_later_keys_is_rejected_and_counted(
    path: Path,
) -> None:
    """It was sealed without its route: no later hop opens it. Nor is what waits cut any more."""
    several = Partition(PLAN, 1, b"\1\2" + bytes(32))
    with format_four().open(path) as store, store.changing() as connection:
        change = Change(connection)
        change.give_out(PLAN, several.route)
        change.add_to_pool(several, 3, b"", b"")
        change.hold(PLAN, 1, 2, b"ab")
        change.hold(OTHER, 1, 0, b"c")
        change.count(PLAN, {"durable": 6, "opened": 4, "batched": 1})
        connection.execute("INSERT INTO key_lists VALUES (?, 'hop', x'01')", (PLAN,))
    with closing(State.open(path)) as state:
        assert state.counts() == {
            PLAN: Counts(durable=6, opened=1, batched=1, not_given_out=3, malformed=2),
            OTHER: Counts(),
        }
        assert all(one.adds_up for one in state.counts().values())
        assert [held.plan_id for held in state.held()] == [OTHER]
        assert state.overview().has_keys == frozenset()
        assert state.key_lists() == {(PLAN, "hop"): KeptList(b"\1", None)}


def format_four() -> StoreKind:
    return replace(module._STATE, steps=module._STATE.steps[:4])  # noqa: SLF001 - as it was


# ---------------------------------------------------------------------------- what waits


def test_what_waits_is_kept_until_something_becomes_of_it(state: State) -> None:
    with state.changing() as change:
        change.hold(PLAN, 1, 2, b"ab")
        change.hold(OTHER, 2, 0, b"c")
    first, second = state.held()
    assert (first, second) == (Held(1, PLAN, 1, 2, b"ab"), Held(2, OTHER, 2, 0, b"c"))
    assert state.counts()[PLAN].waiting == 2
    with state.changing() as change:
        change.unhold(first.id)
    assert state.held() == [second]


def test_segments_are_known_until_they_are_surely_gone(state: State) -> None:
    with state.changing() as change:
        for name in "abc":
            change.finish_segment(name)
    with pytest.raises(StorageFault), state.changing() as change:
        change.finish_segment("a")
    with state.changing() as change:
        change.forget_segments(["a", "c", "d"])
    assert state.opened_segments() == {"b"}


def test_the_newest_list_of_each_party_is_kept(state: State, path: Path) -> None:
    assert seen_key_lists(path.with_name("none"), PLAN) == {}
    with state.changing() as change:
        for plan_id, party, content in (
            (PLAN, "hop", b"old"),
            (PLAN, "analyzer", b"two"),
            (OTHER, "hop", b"three"),
            (PLAN, "hop", b"one"),
        ):
            change.keep_key_list(plan_id, party, content)
    assert seen_key_lists(path, PLAN) == {"hop": b"one", "analyzer": b"two"}
    kept = {(PLAN, "hop"): b"one", (PLAN, "analyzer"): b"two", (OTHER, "hop"): b"three"}
    assert state.key_lists() == {who: KeptList(content, None) for who, content in kept.items()}


def test_since_when_a_way_is_given_out_is_kept_until_another_one_is(state: State) -> None:
    for begun, known in ((None, None), (7.5, 7.5), (None, 7.5), (3.0, 3.0)):
        with state.changing() as change:
            for plan_id, party in ((PLAN, "hop"), (PLAN, "analyzer"), (OTHER, "hop")):
                change.keep_key_list(plan_id, party, b"list")
            change.give_out(PLAN, b"route", begun)
        assert {who: kept.begun for who, kept in state.key_lists().items()} == {
            (PLAN, "hop"): known,
            (PLAN, "analyzer"): known,
            (OTHER, "hop"): None,
        }


def test_a_way_is_given_out_for_one_plan_and_for_ever(state: State) -> None:
    with state.changing() as change:
        assert not change.is_given_out(PLAN, HERE.route)
        for route in (HERE.route, b"\2", HERE.route):
            change.give_out(PLAN, route)
        change.give_out(OTHER, b"\3")
    with state.changing() as change:
        assert all(change.is_given_out(PLAN, route) for route in (HERE.route, b"\2"))
        assert not change.is_given_out(PLAN, b"\3")
        assert not change.is_given_out(OTHER, HERE.route)
    assert state.overview().has_keys == {PLAN, OTHER}


# ---------------------------------------------------------------------------- batches


def test_a_batch_is_sealed_then_acknowledged_then_purged(state: State) -> None:
    one, two = Sealed("aa", PLAN, 1, 5, 10), Sealed("bb", OTHER, 2, 6, 12)
    with state.changing() as change:
        change.add_batch(two)
        change.add_batch(one)
        change.mark_purged("aa")  # It is not acknowledged: nothing happens.
    assert state.batches("sealed") == [one, two]
    assert state.receipt("aa") is None
    assert state.receipt("cc") is None
    with state.changing() as change:
        change.acknowledge("aa", b"receipt")
        change.acknowledge("aa", b"another")
    assert state.receipt("aa") == b"receipt"
    assert (state.batches("sealed"), state.batches("acknowledged")) == ([two], [one])
    with state.changing() as change:
        change.mark_purged("aa")
        change.acknowledge("aa", b"another")
    assert (state.batches("acknowledged"), state.batches("purged")) == ([], [one])
    assert state.receipt("aa") == b"receipt", "a receipt stays"
    with pytest.raises(StorageFault), state.changing() as change:
        change.add_batch(one)
    assert state.overview().batches == {PLAN: {"purged": 1}, OTHER: {"sealed": 1}}


def test_a_batch_of_the_hop_before_is_taken_once(state: State, path: Path) -> None:
    assert not is_relayed(path.with_name("none"), "aa")
    with state.changing() as change:
        change.finish_relay("aa")
    for known in (state.is_relayed, lambda name: is_relayed(path, name)):
        assert known("aa")
        assert not known("bb")
    with pytest.raises(StorageFault), state.changing() as change:
        change.finish_relay("aa")


def test_why_something_does_not_get_on_is_known_until_it_does(state: State, path: Path) -> None:
    with state.changing() as change:
        for one in (Sealed("aa", PLAN, 1, 5, 10), Sealed("bb", PLAN, 1, 6, 12)):
            change.add_batch(one)
        for name, why in (("bb", "busy"), ("bb", "refused"), ("aa", "away"), (OTHER, "damaged")):
            change.note_refusal(name, why)
    assert [state.refusal(one) for one in ("aa", "bb", "cc")] == ["away", "refused", ""]
    for found in (state.overview(), overview_of(path)):
        assert found.unsent == {PLAN: [Unsent("aa", "away"), Unsent("bb", "refused")]}
        assert found.stopped == {OTHER: "damaged"}
    with state.changing() as change:
        change.acknowledge("aa", b"receipt")
        change.forget_refusal("bb")
        change.forget_refusal(OTHER)
    assert [state.refusal(one) for one in ("aa", "bb", OTHER)] == ["", "", ""]
    assert (state.overview().unsent, state.overview().stopped) == ({PLAN: [Unsent("bb", "")]}, {})


def test_damaged_segments_are_known_until_they_are_removed(state: State) -> None:
    with state.changing() as change:
        for name in "abc":
            change.finish_damaged(name)
    assert state.put_aside() == {"a", "b", "c"}
    with state.changing() as change:
        change.forget_damaged(["a", "c", "d"])
    assert state.put_aside() == {"b"}


def test_whoever_only_looks_waits_no_longer_than_it_says(
    state: State, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real = list[float | None](), StoreKind.looked_at

    def looked_at(kind: StoreKind, place: Path, *, patience: float | None = None) -> Any:
        asked.append(patience)
        return real(kind, place, patience=patience)

    monkeypatch.setattr(StoreKind, "looked_at", looked_at)
    with state.changing() as change:
        change.finish_relay("aa")
    assert is_relayed(path, "aa", patience=0.5)
    assert seen_key_lists(path, PLAN, patience=0.25) == {}
    assert asked == [0.5, 0.25]


def test_all_that_is_looked_at_together_is_of_one_moment(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can change the state between two of its queries."""
    State.open(path).close()

    def between(rows: Callable[[str], list[tuple[Any, ...]]]) -> Overview:
        rows("SELECT * FROM counters")
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("UPDATE clock SET tick = tick + 1")
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("COMMIT")
        return NOTHING

    monkeypatch.setattr(module, "_overview", between)
    assert overview_of(path) == NOTHING


# ---------------------------------------------------------------------------- counters


def test_counters_add_up_and_others_may_look_at_them(state: State, path: Path) -> None:
    for _ in range(2):
        with state.changing() as change:
            change.count(PLAN, {"durable": 3, "opened": 2, "duplicate": 0})
            change.count(OTHER, {"durable": 1})
    with state.changing() as change:
        change.count(PLAN, {"durable": -1})
        change.add_to_pool(HERE, 4, b"", b"")
        change.hold(PLAN, 1, 1, b"")
        change.add_batch(Sealed("aa", PLAN, 1, 5, 10))
    for found in (state.overview(), overview_of(path)):
        assert found.counts == {
            PLAN: Counts(durable=5, opened=4, pooled=4, waiting=1),
            OTHER: Counts(durable=2),
        }
        assert found.batches == {PLAN: {"sealed": 1}}
        assert found.counts[PLAN].adds_up
        assert not found.counts[OTHER].adds_up


def test_a_state_is_there_after_a_restart(state: State, path: Path) -> None:
    with state.changing() as change:
        change.claim(1, [b"a"])
        change.add_to_pool(HERE, 1, b"", b"")
        change.pass_tick()
    state.close()
    again = State.open(path)
    assert (again.partitions(), again.tick()) == ({HERE: 1}, 1)
    with again.changing() as change:
        assert change.claim(1, [b"a"]) == [False]
    state._store = again._store  # noqa: SLF001 - so that it is closed
