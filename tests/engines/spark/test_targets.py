"""The folder that a job fills: nothing of anybody else goes, and nothing of a failure stays."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaffinch.disk.locations import Place
from chaffinch.engines.spark import targets
from chaffinch.engines.spark.targets import Target, filling, finish_batch, standing_batch
from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.wire.batch_folders import (
    MANIFEST,
    Manifest,
    part_name,
    read_manifest,
    write_manifest,
    write_part,
)
from chaffinch.wire.batches import BatchFacts, new_name
from tests.wire.test_batch_folders import CODES, ENDING, PLAN, filled

NO_JOB: Any = None
"""Where nothing was written, nothing is read again."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "made"


def finish(target: Target) -> None:
    """Finish a batch without messages."""
    facts = BatchFacts(PLAN.id, "shuffled", 0, PLAN.codes, 1, new_name())
    finish_batch(NO_JOB, target, facts, [])


def parts_in(folder: Path) -> list[str]:
    """Return what is in a folder besides the lock of whoever fills it."""
    return [path.name for path in folder.iterdir() if not path.name.startswith(".chaffinch-")]


def fill(folder: Path, work: Callable[[Target], None]) -> None:
    with filling(Place.of(folder), "shuffled") as target:
        work(target)


@pytest.mark.parametrize(
    "name",
    ["part-00000-3f2a9c1e-77aa-4bd2-9e57-0f1b6f0c5a11-c000.snappy.parquet", "part-0.parquet"],
)
def test_the_files_of_somebody_elses_table_are_no_leftovers(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / name).write_bytes(b"a table")
    with pytest.raises(InvalidInput, match="something else is there"):
        standing_batch(Place.of(folder))
    with pytest.raises(InvalidInput, match="something else is there"):
        fill(folder, finish)
    assert (folder / name).read_bytes() == b"a table"


def test_what_killed_tasks_left_is_removed(folder: Path) -> None:
    folder.mkdir()
    whole = part_name(0, 0, ENDING)
    (folder / whole).write_bytes(b"a part")
    (folder / f".{whole}.0123456789abcdef.part").write_bytes(b"half a part")
    assert standing_batch(Place.of(folder)) is None
    with filling(Place.of(folder), "encoded"):
        assert not parts_in(folder)


def test_a_batch_that_came_meanwhile_stays(folder: Path) -> None:
    place = Place.of(folder)
    assert standing_batch(place) is None
    filled(folder)  # by another job, while this one has counted
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InvalidInput, match="came meanwhile"):
        fill(folder, finish)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_batch_that_came_at_the_last_moment_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(_place: Place, _permissions: int) -> None:
        filled(folder)  # by another job, since this one has looked

    monkeypatch.setattr(Place, "make_folder", meanwhile)
    with pytest.raises(InvalidInput, match="came meanwhile"):
        fill(folder, finish)
    assert len(read_manifest(Place.of(folder)).parts) == 3


def test_who_is_spoiled_while_the_manifest_is_written_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = folder / part_name(0, 0, ENDING)

    def meanwhile(*given: Any) -> None:
        write_manifest(*given)
        other.write_bytes(b"another job's")

    monkeypatch.setattr(targets, "write_manifest", meanwhile)
    with pytest.raises(InvalidInput, match="another job"):
        fill(folder, finish)
    assert [path.name for path in folder.iterdir()] == [other.name]


def test_the_same_batch_of_another_job_keeps_its_manifest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shuffle that is run again has the name of the one before, which may still be at work."""
    facts = BatchFacts(PLAN.id, "shuffled", 0, PLAN.codes, 1, new_name())

    def meanwhile(place: Place, _own: Manifest) -> None:
        other = write_part(place, part_name(0, 0, ENDING), facts, CODES[:0])
        write_manifest(place, Manifest(facts, "0" * 64, (other,)))

    def finish_own(target: Target) -> None:
        own = write_part(target.folder, part_name(0, 0, target.token), facts, CODES[:0])
        finish_batch(NO_JOB, target, facts, [own])

    monkeypatch.setattr(targets, "write_manifest", meanwhile)
    monkeypatch.setattr(targets, "sum_counts", lambda *_: "0" * 64)
    with pytest.raises(InvalidInput, match="another job"):
        fill(folder, finish_own)
    assert [one.name for one in read_manifest(Place.of(folder)).parts] == [part_name(0, 0, ENDING)]


def test_the_batch_that_is_made_again_is_replaced(folder: Path) -> None:
    place = Place.of(filled(folder))
    with filling(place, "shuffled", standing_batch(place)) as target:
        assert not parts_in(folder)
        finish(target)
    assert not read_manifest(place).parts


def test_a_folder_that_two_jobs_fill_is_finished_by_none(folder: Path) -> None:
    other = folder / part_name(0, 0, ENDING)

    def meanwhile(target: Target) -> None:
        other.write_bytes(b"another job's")
        finish(target)

    with pytest.raises(InvalidInput, match="another job"):
        fill(folder, meanwhile)
    assert [path.name for path in folder.iterdir()] == [other.name]


def test_a_second_job_for_the_same_folder_is_refused(folder: Path) -> None:
    with filling(Place.of(folder), "shuffled") as target:
        part = folder / part_name(0, 0, target.token)
        part.write_bytes(b"a part")
        with pytest.raises(StorageFault, match="'made' must be free"):
            standing_batch(Place.of(folder))
        with pytest.MonkeyPatch.context() as patch:  # both have looked before either began
            patch.setattr(targets, "standing_batch", lambda _folder: None)
            with pytest.raises(StorageFault, match="'made' must be free"):
                fill(folder, finish)
        assert part.read_bytes() == b"a part"
        part.unlink()
        finish(target)
    assert [path.name for path in folder.iterdir()] == [MANIFEST]


def test_the_lock_of_a_killed_job_is_in_nobodys_way(folder: Path) -> None:
    folder.mkdir()
    with targets._alone_in(Place.of(folder)):  # noqa: SLF001 - what a job does
        (lock,) = folder.iterdir()
    lock.touch()
    fill(folder, finish)
    assert [path.name for path in folder.iterdir()] == [MANIFEST]


def test_the_batch_of_another_job_stays_whatever_becomes_of_this_one(
    folder: Path, tmp_path: Path
) -> None:
    def meanwhile(target: Target) -> None:
        shutil.copytree(filled(tmp_path / "other"), folder, dirs_exist_ok=True)
        finish(target)

    with pytest.raises(InvalidInput, match="another job"):
        fill(folder, meanwhile)
    assert len(read_manifest(Place.of(folder)).parts) == 3


def test_nothing_is_left_of_a_job_that_is_stopped_at_its_last_step(folder: Path) -> None:
    def stopped(target: Target) -> None:
        (folder / part_name(0, 0, target.token)).write_bytes(b"a part")
        (folder / MANIFEST).write_text(f'"{part_name(0, 0, target.token)}"')
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(folder, stopped)
    assert not folder.exists()


def test_a_folder_that_was_there_before_stays_there(folder: Path) -> None:
    def stopped(target: Target) -> None:
        (folder / part_name(0, 0, target.token)).write_bytes(b"a part")
        raise KeyboardInterrupt

    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        fill(folder, stopped)
    assert not list(folder.iterdir())
