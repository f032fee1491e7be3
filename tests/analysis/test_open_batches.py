"""Sealed batches at the analyzer: each message counts once, and nothing else counts."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch.analysis.open_batches import absent_reports, open_batch
from chaffinch.analysis.paid_releases import release_batch
from chaffinch.analysis.received import KnownBatch, KnownBatches, Received
from chaffinch.disk import stores
from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.ledger import Charge, Ledger
from chaffinch.privacy import Target
from chaffinch.release.surveys import read_release
from chaffinch.tables.parallel import Processes
from chaffinch.wire.messages import EMPTY
from tests.analysis.sealed import PEOPLE, Batch, LastHop, decoys, flips
from tests.cases import each_case


@pytest.fixture
def hop(tmp_path: Path) -> LastHop:
    return LastHop.of(flips(), tmp_path)


@pytest.fixture
def received(tmp_path: Path) -> Iterator[Received]:
    with closing(Received(tmp_path / "state.sqlite")) as made:
        yield made


def take(hop: LastHop, received: Received, batch: Batch, folder: Path) -> KnownBatch:
    """Open a batch as the analyzer does; return what it knows of it."""
    path = hop.put(folder / "received", batch)
    received.add(open_batch(path, hop.plan, hop.keys.opening_keys()))
    known = received.find(batch.id)
    assert known is not None
    assert known.items == known.counted + known.dummies + known.replayed + known.rejected
    return known


def fates(known: KnownBatch) -> tuple[int, int, int, int]:
    return known.counted, known.dummies, known.replayed, known.rejected


def test_every_message_is_counted_once(hop: LastHop, received: Received, tmp_path: Path) -> None:
    batch = hop.batch(hop.crowd())
    known = take(hop, received, batch, tmp_path)
    assert fates(known) == (PEOPLE, PEOPLE * (hop.plan.slots - 1), 0, 0)
    tally = received.tally(batch.id)
    assert tally.counts.tolist() == [1] * PEOPLE
    assert (tally.reports, tally.name, tally.round) == (PEOPLE, batch.id[:32], 1)
    assert (
        tally.digest
        == open_batch(
            tmp_path / "received" / f"{batch.id}.batch", hop.plan, hop.keys.opening_keys()
        )
        .tally()
        .digest
    )


def test_of_copies_in_one_batch_the_first_counts(hop: LastHop, tmp_path: Path) -> None:
    """Also for whoever keeps no record of other batches."""
    crowd = hop.crowd()
    batch = hop.batch([*crowd, *crowd[:3], crowd[0]], reports=2 * PEOPLE)
    path = hop.put(tmp_path, batch)
    found = open_batch(path, hop.plan, hop.keys.opening_keys())
    tags = [found.tag(place) for place in range(len(found.codes))]
    first = [tag not in tags[:place] for place, tag in enumerate(tags)]
    assert (found.first_copies().tolist(), first.count(False)) == (first, 4)
    assert found.tally().counts.tolist() == [1] * PEOPLE


def test_tags_are_compared_in_full(hop: LastHop, tmp_path: Path) -> None:
    path = hop.put(tmp_path, hop.batch(hop.crowd()))
    whole = open_batch(path, hop.plan, hop.keys.opening_keys())
    one, two, three = bytes(16), bytes(15) + b"\1", b"\1" + bytes(15)
    found = replace(whole, codes=whole.codes[:5], tags=three + one + three + two + one)
    assert found.in_order().tolist() == [1, 4, 3, 0, 2]
    assert found.first_copies().tolist() == [True, True, False, True, False]


def test_a_batch_that_the_disk_does_not_give_is_told(hop: LastHop, tmp_path: Path) -> None:
    with pytest.raises(StorageFault):
        open_batch(tmp_path / "none", hop.plan, hop.keys.opening_keys())


def test_what_was_paid_for_before_is_released_as_it_was(hop: LastHop, tmp_path: Path) -> None:
    """Whatever level is asked for by then: one tally has one release."""
    mark = tmp_path / "mark"
    cap = Target(1000.0, 0.5)
    ledger = Ledger.create(tmp_path / "ledger", role="analyzer", cap=cap, mark=mark)
    path = hop.put(tmp_path, hop.batch(hop.crowd()))
    batch = open_batch(path, hop.plan, hop.keys.opening_keys())
    found = []
    for name, payer, more in (
        ("first", ledger, {"level": 0.9}),
        ("second", ledger, {}),
        ("third", None, {}),
    ):
        with closing(Received(tmp_path / name)) as received:
            received.add(batch)
            assert received.release(batch.id) is received.release("ee" * 32) is None
            known = release_batch(
                received, received.known(batch.id), hop.plan, ledger=payer, **more
            )
            found.append(received.release(known.id) or b"")
    assert found[0] == found[1]
    assert [read_release(one).level for one in found] == [0.9, 0.9, 0.95]
    assert len(ledger.entries()) == 1


def test_what_a_command_has_paid_for_is_not_paid_for_again(
    hop: LastHop, received: Received, tmp_path: Path
) -> None:
    """Whatever name it gave to the occasion."""
    mark = tmp_path / "mark"
    cap = Target(1000.0, 0.5)
    ledger = Ledger.create(tmp_path / "ledger", role="analyzer", cap=cap, mark=mark)
    known = take(hop, received, hop.batch(hop.crowd()), tmp_path)
    ledger.charge(Charge.of(hop.plan), "weekly", subject=received.tally(known.id).digest)
    assert release_batch(received, known, hop.plan, ledger=ledger).state == "released"
    assert len(ledger.entries()) == 1


def test_others_read_while_a_batch_is_taken_for_as_long_as_they_say(
    hop: LastHop, received: Received, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, changing, looked_at = list[object](), stores.Store.changing, stores.StoreKind.looked_at

    def note_change(store: stores.Store, *, spills: bool = True) -> Any:
        asked.append(spills)
        return changing(store, spills=spills)

    def note_look(kind: stores.StoreKind, path: Path, *, patience: float | None = None) -> Any:
        asked.append(patience)
        return looked_at(kind, path, patience=patience)

    monkeypatch.setattr(stores.Store, "changing", note_change)
    monkeypatch.setattr(stores.StoreKind, "looked_at", note_look)
    known = take(hop, received, hop.batch(hop.crowd()), tmp_path)
    assert KnownBatches(tmp_path / "state.sqlite", patience=0.5).all() == [known]
    assert asked == [False, 0.5]


def test_several_processes_open_the_same(hop: LastHop, tmp_path: Path) -> None:
    path = hop.put(tmp_path, hop.batch(hop.crowd() * 9, reports=9 * PEOPLE))
    keys = hop.keys.opening_keys()
    processes = Processes(2)
    try:
        many = open_batch(path, hop.plan, keys, processes)
    finally:
        processes.close()
    one = open_batch(path, hop.plan, keys)
    assert np.array_equal(one.codes, many.codes)
    assert one.tags == many.tags
    assert many.tally().counts.tolist() == [1] * PEOPLE


def test_a_thousand_copies_of_one_message_count_once(
    hop: LastHop, received: Received, tmp_path: Path
) -> None:
    """A bad hop that repeats one person's message would read it off the histogram."""
    crowd, target = hop.crowd(), hop.item(3)
    batch = hop.batch([*crowd, *[target] * 1000], reports=PEOPLE * 8)
    known = take(hop, received, batch, tmp_path)
    assert known.replayed == 999
    assert received.tally(batch.id).counts.tolist() == [1, 1, 1, 2] + [1] * (PEOPLE - 4)


def test_copies_in_other_batches_count_nowhere(
    hop: LastHop, received: Received, tmp_path: Path
) -> None:
    first, second = hop.crowd(), hop.crowd()
    take(hop, received, hop.batch(first), tmp_path)
    mixed = hop.batch([*first[:30], *second], reports=2 * PEOPLE)
    assert take(hop, received, mixed, tmp_path).replayed == 30
    assert received.tally(mixed.id).counts.tolist() == [1] * PEOPLE
    # The whole crowd again, in another order: another batch, in which nothing is new.
    again = hop.batch(first)
    known = take(hop, received, again, tmp_path)
    assert (known.fresh, known.replayed) == (0, len(first))


def test_copies_are_known_after_a_restart(hop: LastHop, received: Received, tmp_path: Path) -> None:
    crowd = hop.crowd()
    take(hop, received, hop.batch(crowd), tmp_path)
    received.close()
    again = Received(tmp_path / "state.sqlite")
    assert take(hop, again, hop.batch(crowd), tmp_path).replayed == len(crowd)
    received._store = again._store  # noqa: SLF001 - so that it is closed


def test_a_batch_is_added_once(hop: LastHop, received: Received, tmp_path: Path) -> None:
    batch = hop.batch(hop.crowd())
    take(hop, received, batch, tmp_path)
    with pytest.raises(StorageFault):
        take(hop, received, batch, tmp_path)
    assert fates(received.all()[0])[2] == 0


def test_what_does_not_open_or_is_no_code_is_rejected(
    hop: LastHop, received: Received, tmp_path: Path
) -> None:
    good = hop.crowd()
    length = len(good[0])
    flipped = bytearray(hop.item(1))
    flipped[-1] ^= 1
    other_key = bytes([hop.key_id + 1]) + hop.item(1)[1:]
    stranger = LastHop.of(flips(), tmp_path / "stranger")
    bad = [
        bytes(length),
        bytes(flipped),
        other_key,
        hop.item(1, number=2),
        stranger.item(1),
        hop.item(hop.plan.codes),
        hop.item(EMPTY - 1),
    ]
    known = take(hop, received, hop.batch([*good, *bad], reports=2 * PEOPLE), tmp_path)
    assert known.rejected == len(bad)
    assert received.tally(known.id).counts.tolist() == [1] * PEOPLE


def test_dummies_are_for_fixed_slots_only(received: Received, tmp_path: Path) -> None:
    hop = LastHop.of(decoys(), tmp_path)
    known = take(hop, received, hop.batch(hop.items([*range(PEOPLE), *range(5), EMPTY])), tmp_path)
    assert fates(known) == (PEOPLE + 5, 0, 0, 1)


def test_no_changed_byte_and_no_cut_file_is_opened(hop: LastHop, tmp_path: Path) -> None:
    batch = hop.batch(hop.items(range(PEOPLE)))
    keys = hop.keys.opening_keys()
    places = [*range(90), *range(90, len(batch.content), 41)]
    for place in places:
        changed = bytearray(batch.content)
        changed[place] ^= 1 << random.Random(place).randrange(8)
        for content in (bytes(changed), batch.content[:place]):
            with pytest.raises(InvalidFile):
                open_batch(hop.put(tmp_path, Batch("00" * 32, content)), hop.plan, keys)
    with pytest.raises(InvalidFile):
        open_batch(hop.put(tmp_path, Batch("00" * 32, batch.content + b"\0")), hop.plan, keys)


@each_case(
    "said",
    [
        {"plan_id": "00" * 32},
        {"round": 0},
        {"round": 3},
        {"hop": 2},
        {"reports": PEOPLE - 1},
        {"route": b"\x09" + bytes(31)},
        {"route": bytes(64)},
    ],
)
def test_a_signed_batch_that_is_not_due_is_refused(
    hop: LastHop, tmp_path: Path, said: dict[str, object]
) -> None:
    path = hop.put(tmp_path, hop.batch(hop.items(range(PEOPLE)), **said))
    with pytest.raises(InvalidInput, match="batch"):
        open_batch(path, hop.plan, hop.keys.opening_keys())


def test_a_batch_of_more_messages_than_reports_hold_is_refused(
    hop: LastHop, tmp_path: Path
) -> None:
    many = hop.items([0] * (PEOPLE * hop.plan.slots + 1))
    with pytest.raises(InvalidInput):
        open_batch(hop.put(tmp_path, hop.batch(many)), hop.plan, hop.keys.opening_keys())


def test_tags_go_with_their_key(hop: LastHop, received: Received, tmp_path: Path) -> None:
    crowd = hop.crowd()
    take(hop, received, hop.batch(crowd), tmp_path)
    received.forget_tags({hop.key_id + 1})
    assert take(hop, received, hop.batch(crowd), tmp_path).replayed == len(crowd)
    received.forget_tags({hop.key_id})
    assert take(hop, received, hop.batch(crowd), tmp_path).replayed == 0


def test_a_state_of_another_version_or_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    Received(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9")
    for use in (Received, lambda path: KnownBatches(path).all()):
        with pytest.raises(StorageFault, match="newer"):
            use(path)
    (tmp_path / "other").write_bytes(b"no database at all" * 99)
    with pytest.raises(StorageFault):
        Received(tmp_path / "other")


def test_a_state_has_one_owner_and_any_number_of_readers(
    hop: LastHop, received: Received, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_OWNER_PATIENCE", 0.1)
    known = take(hop, received, hop.batch(hop.crowd()), tmp_path)
    with pytest.raises(StorageFault, match="another process owns"):
        Received(tmp_path / "state.sqlite")
    assert KnownBatches(tmp_path / "state.sqlite").find(known.id) == known
    assert KnownBatches(tmp_path / "none.sqlite").all() == []


def test_reports_are_told_absent_where_their_number_of_messages_is_known() -> None:
    fixed, varying = flips(), decoys()
    found = [absent_reports(fixed, 14, fresh) for fresh in (0, PEOPLE - 1, PEOPLE, 14 * PEOPLE)]
    assert found == [14, 14, 13, 0]
    assert absent_reports(fixed, 14, 15 * PEOPLE) == 0
    assert absent_reports(varying, 14, 1) == 0
