"""Batches on their way into a folder: in pieces of any length, due or not there at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaffinch.disk.files import Draft
from chaffinch.errors import Reason, StorageFault
from chaffinch.wire.arrivals import (
    Arrival,
    Expected,
    _batch_path,
    arrived_batches,
    has_arrived,
    unfinished,
)
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import HEAD_LENGTH, START_LENGTH, BatchHead
from tests.analysis.sealed import PEOPLE, Batch, LastHop, flips
from tests.cases import each_case
from tests.encoding.operators import Operators


@pytest.fixture(scope="module")
def hop(tmp_path_factory: pytest.TempPathFactory) -> LastHop:
    return LastHop.of(flips(), tmp_path_factory.mktemp("parties"))


@pytest.fixture(scope="module")
def batch(hop: LastHop) -> Batch:
    return hop.batch(hop.crowd())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "received"
    found.mkdir()
    return found


def arriving(hop: LastHop, folder: Path, batch_id: str) -> Arrival:
    return Arrival(folder, batch_id, Expected.of(hop.plan, 1), lambda: {hop.key_name})


def test_a_batch_may_come_in_pieces_of_any_length(hop: LastHop, batch: Batch, folder: Path) -> None:
    content = batch.content
    for length in (1, START_LENGTH - 1, START_LENGTH, START_LENGTH + 1, 333, len(content)):
        with arriving(hop, folder, batch.id) as arrival:
            for at in range(0, len(content), length):
                arrival.write(content[at : at + length])
            head = arrival.finish()
        assert head == BatchHead.unpack(content[:HEAD_LENGTH])
        (path,) = folder.iterdir()
        assert (path.name, path.read_bytes()) == (f"{batch.id}.batch", content)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.unlink()


def test_what_is_on_its_way_is_seen_by_its_start_until_it_has_its_name(
    hop: LastHop, batch: Batch, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may take minutes between the check of a key and the name: the key must stay."""
    start, give = batch.content[:START_LENGTH], Draft.put_in_place
    seen: list[bytes] = []

    def slowly(draft: Draft, **how: Any) -> None:
        seen.extend(unfinished(folder, START_LENGTH))
        give(draft, **how)

    monkeypatch.setattr(Draft, "put_in_place", slowly)
    with arriving(hop, folder, batch.id) as arrival:
        arrival.write(start[:-1])
        assert not list(unfinished(folder, START_LENGTH))
        arrival.write(batch.content[START_LENGTH - 1 :])
        arrival.finish()
    assert seen == [start]
    assert not list(unfinished(folder, START_LENGTH))
    assert has_arrived(folder, batch.id)


def test_what_comes_a_second_time_changes_nothing(hop: LastHop, batch: Batch, folder: Path) -> None:
    for _ in range(2):
        with arriving(hop, folder, batch.id) as arrival:
            arrival.write(batch.content)
            arrival.finish()
    assert [path.read_bytes() for path in folder.iterdir()] == [batch.content]


def test_a_head_that_is_not_due_is_refused_when_it_is_there(
    hop: LastHop, batch: Batch, folder: Path
) -> None:
    """Whoever is not its maker, or sends for another plan, must not fill the disk first."""
    start, own = batch.content[:START_LENGTH], BatchHead.unpack(batch.content[:HEAD_LENGTH])
    bad = {
        replace(own, plan_id="00" * 32).pack() + start[HEAD_LENGTH:]: Kind.INVALID_MESSAGE,
        bytes(START_LENGTH): Kind.INVALID_MESSAGE,
        start[:-1] + bytes([start[-1] ^ 1]): Kind.DAMAGED_BATCH,
    }
    for content, kind in bad.items():
        with arriving(hop, folder, batch.id) as arrival:
            arrival.write(content[:-1])
            with pytest.raises(Problem) as caught:
                arrival.write(content[-1:])
        assert caught.value.kind is kind
    with arriving(hop, folder, "ab" * 32) as arrival, pytest.raises(Problem):
        arrival.write(start)
    assert not list(folder.iterdir())


def test_one_byte_too_many_is_refused_at_once(hop: LastHop, batch: Batch, folder: Path) -> None:
    with arriving(hop, folder, batch.id) as arrival:
        arrival.write(batch.content)
        with pytest.raises(Problem) as caught:
            arrival.write(b"\0")
    assert caught.value.kind is Kind.DAMAGED_BATCH
    assert not list(folder.iterdir())


def test_items_that_were_changed_on_their_way_are_refused_in_the_end(
    hop: LastHop, batch: Batch, folder: Path
) -> None:
    for place in (START_LENGTH, len(batch.content) - 1):
        changed = bytearray(batch.content)
        changed[place] ^= 1
        with arriving(hop, folder, batch.id) as arrival:
            arrival.write(bytes(changed))
            with pytest.raises(Problem) as caught:
                arrival.finish()
        assert caught.value.kind is Kind.DAMAGED_BATCH
    assert not list(folder.iterdir())


def test_a_start_that_is_cut_off_is_refused(hop: LastHop, batch: Batch) -> None:
    expected, keys = Expected.of(hop.plan, 1), {hop.key_name}
    start = batch.content[:START_LENGTH]
    assert expected.read_start(start, batch.id, keys).reports == PEOPLE
    for cut in (b"", start[:HEAD_LENGTH], start[:-1]):
        with pytest.raises(Problem) as caught:
            expected.read_start(cut, batch.id, keys)
        assert caught.value.kind is Kind.DAMAGED_BATCH


def test_without_a_folder_nothing_can_arrive(hop: LastHop, batch: Batch, folder: Path) -> None:
    with pytest.raises(StorageFault):
        arriving(hop, folder / "none", batch.id)


def test_what_is_not_finished_is_removed(hop: LastHop, batch: Batch, folder: Path) -> None:
    for content in (b"", batch.content[: START_LENGTH - 1], batch.content[:-1]):
        with arriving(hop, folder, batch.id) as arrival:
            arrival.write(content)
            with pytest.raises(Problem) as caught:
                arrival.finish()
        assert caught.value.kind is Kind.DAMAGED_BATCH
    with arriving(hop, folder, batch.id) as arrival:
        arrival.write(batch.content)
    assert not list(folder.iterdir())


def test_every_hop_is_the_maker_of_its_own_batches() -> None:
    plan = Operators.of(flips(), 3).plan
    assert plan.parties is not None
    found = [Expected.of(plan, hop).maker for hop in (1, 2, 3)]
    assert found == [party.key for party in plan.parties.hops]


@each_case(
    ("said", "kind"),
    [
        ({"round": 1}, None),
        ({"round": 2}, None),
        ({"round": 0}, Kind.INVALID_MESSAGE),
        ({"round": 3}, Kind.INVALID_MESSAGE),
        ({"hop": 2}, Kind.INVALID_MESSAGE),
        ({"item_length": 60}, Kind.INVALID_MESSAGE),
        ({"route": bytes(64)}, Kind.INVALID_MESSAGE),
        ({"reports": PEOPLE - 1}, Kind.BATCH_TOO_SMALL),
        ({"reports": PEOPLE + 1}, None),
        ({"items": PEOPLE * PEOPLE - 1}, Kind.BATCH_TOO_SMALL),
        ({"items": PEOPLE * PEOPLE + 1}, Kind.INVALID_MESSAGE),
        ({"items": PEOPLE * (PEOPLE + 1), "reports": PEOPLE + 1}, None),
        ({"route": b"\x01" + bytes(31)}, Kind.OUTDATED_KEYS),
    ],
)
def test_what_is_due_is_known_to_its_last_number(
    hop: LastHop, batch: Batch, said: dict[str, object], kind: Kind | None
) -> None:
    head = replace(BatchHead.unpack(batch.content[:HEAD_LENGTH]), **said)  # type: ignore[arg-type]
    expected, keys = Expected.of(hop.plan, 1), {hop.key_name}
    if kind is None:
        expected.check_head(head, keys)
        return
    with pytest.raises(Problem) as caught:
        expected.check_head(head, keys)
    assert caught.value.kind is kind


@pytest.mark.parametrize(
    "name", ["", "ab" * 31, "ab" * 33, "AB" * 32, "../" + "ab" * 30 + "a", "ab" * 32 + "\n"]
)
def test_only_an_id_is_the_name_of_a_batch(name: str, folder: Path) -> None:
    with pytest.raises(Problem) as caught:
        _batch_path(folder, name)
    assert caught.value.kind is Kind.UNKNOWN_PATH
    assert _batch_path(folder, "ab" * 32) == folder / f"{'ab' * 32}.batch"


def test_batches_are_listed_by_their_ids(folder: Path) -> None:
    for name in ("cc" * 32, "aa" * 32, "bb" * 32):
        (folder / f"{name}.batch").touch()
    (folder / "dd.other").touch()
    assert [path.stem[:2] for path in arrived_batches(folder)] == ["aa", "bb", "cc"]
    assert has_arrived(folder, "aa" * 32)
    assert not has_arrived(folder, "ab" * 32)


def failing(code: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.ENOSPC, Reason.NO_SPACE), (errno.EIO, Reason.UNCERTAIN)],
)
def test_after_a_full_disk_the_same_may_be_sent_again(
    hop: LastHop, batch: Batch, folder: Path, code: int, reason: Reason
) -> None:
    with arriving(hop, folder, batch.id) as arrival, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", failing(code))
        with pytest.raises(StorageFault) as caught:
            arrival.write(batch.content)
    assert caught.value.reason is reason


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_after_a_sync_that_fails_nobody_knows(
    hop: LastHop, batch: Batch, folder: Path, code: int
) -> None:
    with arriving(hop, folder, batch.id) as arrival, pytest.MonkeyPatch.context() as patch:
        arrival.write(batch.content)
        patch.setattr(os, "fsync", failing(code))
        with pytest.raises(StorageFault) as caught:
            arrival.finish()
        assert caught.value.reason is Reason.UNCERTAIN
        (folder / f"{batch.id}.batch").touch()
        with pytest.raises(StorageFault) as caught:
            has_arrived(folder, batch.id)
        assert caught.value.reason is Reason.UNCERTAIN
