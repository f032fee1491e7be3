"""The decisions of a ledger one by one: totals, limits, roles, marks, a ledger that moves on."""

from __future__ import annotations

import errno
import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch import Bit, plan, privacy
from chaffinch.disk import databases, files
from chaffinch.disk.files import sync_folder
from chaffinch.errors import InvalidInput, Reason, StorageFault
from chaffinch.ledger import Charge, Ledger, chain, schema
from chaffinch.ledger.chain import Mark
from chaffinch.ledger.charge import fits, total
from tests.ledger import made
from tests.ledger.made import BIT, ONE, OTHER

COLUMNS = privacy.FlippedFilters(filters=2, bits=20, flip_probability="0.4")


@pytest.mark.parametrize(
    ("charges", "rounds"),
    [
        ([(BIT, 2), (BIT, 2)], {BIT: 4}),
        ([(BIT, 3)], {BIT: 3}),
        ([(BIT, 1), (BIT, 1), (BIT, 1)], {BIT: 3}),
        ([(BIT, 2), (OTHER, 3), (BIT, 2)], {BIT: 4, OTHER: 3}),
        ([(BIT, 2), (BIT, 3)], {BIT: 5}),
    ],
)
def test_every_round_of_every_charge_is_counted(
    charges: list[tuple[privacy.Mechanism, int]], rounds: dict[privacy.Mechanism, int]
) -> None:
    everything = total(Charge("plan", mechanism, times) for mechanism, times in charges)
    assert isinstance(everything, privacy.Composition)
    assert dict(everything.parts) == rounds


def test_only_one_round_of_one_mechanism_is_itself() -> None:
    assert total([ONE]) == BIT
    assert total([]) == privacy.compose([])


def test_a_total_fits_up_to_the_cap_itself() -> None:
    reached = BIT.delta(0.2).upper
    assert fits(BIT, privacy.Target(0.2, reached))
    assert not fits(BIT, privacy.Target(0.2, math.nextafter(reached, 0.0)))


def test_what_fits_a_small_cap_fits_a_large_one() -> None:
    """What is proven of cut reports grows with e^epsilon, and says nothing at a large epsilon."""
    asked = plan(Bit(), users=40, target=privacy.Target(2.0, 0.01), local_epsilon=math.inf)
    cut = Charge.of(asked).mechanism
    assert isinstance(cut, privacy.Shortened)
    assert cut.delta(20.0).upper > 0.01
    for cap in (2.0, 2.01, 20.0):
        assert fits(cut, privacy.Target(cap, 0.01)), cap
    assert not fits(cut, privacy.Target(1.9, 0.01))


def test_what_was_spent_is_about_what_was_charged(tmp_path: Path) -> None:
    ledger = made.create(tmp_path, cap=privacy.Target(50.0, 1e-6))
    assert ledger.spent().neighbours == "replace-one"
    for key in "ab":
        ledger.charge(Charge("plan", COLUMNS), key)
        assert ledger.spent().neighbours == COLUMNS.neighbours


def test_a_ledger_of_another_role_does_not_pay(tmp_path: Path) -> None:
    ledger = made.create(tmp_path, role="client")
    assert ledger.of("client") is ledger
    with pytest.raises(InvalidInput, match="one of the role analyzer"):
        ledger.of("analyzer")


class Overtaken(Ledger):
    """A ledger that another one charges after it has looked, and before it has the lock."""

    overtaker: Ledger | None = None
    looks = 0

    def _history(self) -> schema.History:
        self.looks += 1
        seen = super()._history()
        if self.overtaker is not None:
            other, self.overtaker = self.overtaker, None
            other.charge(ONE, "other")
        return seen


def test_a_ledger_that_moved_on_is_looked_at_again(tmp_path: Path) -> None:
    ledger, other = made.create(tmp_path, kind=Overtaken), made.reopen(tmp_path)
    assert isinstance(ledger, Overtaken)
    ledger.overtaker = other
    assert ledger.charge(ONE, "mine").sequence == 2
    assert made.keys(other) == ["other", "mine"]
    assert ledger.looks == 2
    ledger.charge(ONE, "undisturbed")
    assert ledger.looks == 3


def test_a_charge_is_judged_while_others_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, delta, free = made.create(tmp_path), privacy.FlippedBits.delta, []

    def watched(self: privacy.FlippedBits, epsilon: float) -> privacy.Bracket:
        with closing(sqlite3.connect(tmp_path / "ledger", timeout=0.0)) as connection:
            connection.execute("BEGIN IMMEDIATE")
        free.append(epsilon)
        return delta(self, epsilon)

    fresh = privacy.FlippedBits(users=23, flip_probability="0.3")
    monkeypatch.setattr(privacy.FlippedBits, "delta", watched)
    assert ledger.charge(Charge("plan", fresh), "a").sequence == 1
    assert free, "the charge was judged"


# -------------------------------------------------------------------- the mark


def beside(folder: Path) -> list[Path]:
    return sorted(folder.glob(".mark.*.part"))


def test_a_mark_is_prepared_before_the_row_and_moved_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, append = made.create(tmp_path), schema.append
    waiting: list[Mark] = []

    def watched(connection: Any, entry: Any, content: Any) -> None:
        waiting.extend(Mark.read(path) for path in beside(tmp_path))
        append(connection, entry, content)

    monkeypatch.setattr(schema, "append", watched)
    entry = ledger.charge(ONE, "a")
    assert [(mark.sequence, mark.hash) for mark in waiting] == [(1, entry.hash)]
    assert Mark.read(tmp_path / "mark") == waiting[0]
    assert beside(tmp_path) == []


def test_a_prepared_mark_goes_where_the_ledger_is_by_then(tmp_path: Path) -> None:
    made.create(tmp_path)
    path = tmp_path / "mark"
    ledger = Mark.read(path).ledger
    ahead, further = (Mark(ledger, place, str(place) * 64) for place in (1, 2))
    with ahead.prepared(path) as move:
        move(further)
    assert Mark.read(path) == further
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ledger", "mark"]


def test_a_disk_without_room_for_the_mark_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made.create(tmp_path)

    def full(_draft: files.Draft, _content: bytes) -> None:
        assert len(beside(tmp_path)) == 1
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(files.Draft, "write", full)
        with pytest.raises(StorageFault):
            ledger.charge(ONE, "a")
    assert ledger.entries() == ()
    assert beside(tmp_path) == [], "what was begun is gone"
    assert ledger.charge(ONE, "a").sequence == 1


def test_a_disk_that_takes_no_new_name_is_said_and_charges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made.create(tmp_path)

    def refuse(_target: Path, _permissions: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(files, "new_part", refuse)
        with pytest.raises(StorageFault, match="full"):
            ledger.charge(ONE, "a")
    assert ledger.entries() == ()


def test_a_row_that_fails_leaves_no_mark_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made.create(tmp_path)

    def fail(_connection: Any, *_row: Any) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "append", fail)
        with pytest.raises(StorageFault) as fault:
            ledger.charge(ONE, "a")
    assert fault.value.reason is Reason.UNCERTAIN
    assert beside(tmp_path) == []
    assert ledger.entries() == ()


def test_ledgers_are_what_they_were_made_as(tmp_path: Path) -> None:
    ledger: Ledger = made.create(tmp_path)
    assert (ledger.role, ledger.cap) == ("client", made.CAP)


def test_a_ledger_that_cannot_be_read_has_charged_nothing(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    (tmp_path / "mark").unlink()
    with pytest.raises(StorageFault) as fault:
        ledger.entries()
    assert fault.value.reason is None


# -------------------------------------------------------------------- what is durable


def test_every_connection_waits_for_the_disk(tmp_path: Path) -> None:
    made.create(tmp_path)
    with databases.connected(tmp_path / "ledger") as connection:
        found = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "fullfsync", "trusted_schema", "busy_timeout")
        ]
    assert found == [3, 1, 0, 60_000], "EXTRA, ON, OFF, a minute for other writers"


def test_a_mark_is_on_disk_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def watched(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        assert Path(synced[-1]).stat().st_size > 50, "all of it is written when it is synced"
        fsync(handle)

    def watched_folder(folder: Path) -> None:
        synced.append(str(folder))
        sync_folder(folder)

    mark = Mark("a" * 32, 1, "b" * 64)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", watched)
        for module in (chain, files):
            patch.setattr(module, "sync_folder", watched_folder)
        for write in (mark.create, mark.replace):
            synced.clear()
            write(tmp_path / "mark")
            assert synced[0] not in {str(tmp_path), str(tmp_path / "mark")}
            assert synced[-1] == str(tmp_path)
    assert Mark.read(tmp_path / "mark") == mark
    assert (tmp_path / "mark").stat().st_mode & 0o777 == 0o600


def test_a_new_ledger_is_made_when_its_name_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is told of a new ledger finds it after a power cut, too."""
    fsync = os.fsync

    def fail_once_named(handle: int) -> None:
        if (tmp_path / "ledger").exists():
            assert Path(f"/proc/self/fd/{handle}").readlink() == tmp_path
            raise OSError(errno.EIO, "broken")
        fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_once_named)
        with pytest.raises(StorageFault):
            made.create(tmp_path)
    assert beside(tmp_path) == []
    assert made.reopen(tmp_path).entries() == (), "it is whole all the same"


def test_a_file_that_is_not_finished_does_not_appear(tmp_path: Path) -> None:
    def fail() -> None:
        with databases.creating(tmp_path / "new", databases.LEDGER, 1, []) as connection:
            (_, _, place) = connection.execute("PRAGMA database_list").fetchone()
            assert Path(place).is_relative_to(tmp_path)
            assert not (tmp_path / "new").exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------- what a charge may be


def test_words_have_200_characters_at_most(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    assert ledger.charge(ONE, "k" * 200, subject="s" * 200).key == "k" * 200
    for wrong in ("", "k" * 201, "new\nline", None):
        with pytest.raises(InvalidInput, match="key"):
            ledger.charge(ONE, wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="subject"):
        ledger.charge(ONE, "other", subject="s" * 201)


def test_nothing_can_be_charged_too() -> None:
    assert Charge("nothing", privacy.compose([])).neighbours == BIT.neighbours


def test_charges_are_of_whole_times_and_of_mechanisms() -> None:
    assert type(Charge("plan", BIT, np.int64(2)).times) is int  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"a mechanism of chaffinch\.privacy"):
        Charge("plan", None)  # type: ignore[arg-type]
    for times in (0, 10**6 + 1):
        with pytest.raises(InvalidInput, match="number of times"):
            Charge("plan", BIT, times)
