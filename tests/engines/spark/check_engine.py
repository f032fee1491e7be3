"""What a cluster makes of files is what one machine makes of them."""

from __future__ import annotations

import stat
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from chaffinch.disk.locations import Place
from chaffinch.engines import engine
from chaffinch.engines.local import Local
from chaffinch.engines.spark import shuffling
from chaffinch.engines.spark.engine import Spark
from chaffinch.errors import (
    BatchRepeated,
    BatchTooSmall,
    InvalidCells,
    InvalidFile,
    InvalidInput,
    PlanMismatch,
)
from chaffinch.shuffling.record import Record
from chaffinch.wire.batch_folders import read_manifest
from chaffinch.wire.message_reader import MessageReader
from tests.engines import plans

pytestmark = pytest.mark.usefixtures("context")

USERS = 3000
PLAN = plans.clear(USERS, 7)
CODES = plans.answers(USERS, 7)
SPARK = Spark()


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffling, "PART_MESSAGES", 700)


@pytest.fixture
def encoded(tmp_path: Path) -> list[Path]:
    return [
        plans.written(tmp_path / f"{number}.parquet", PLAN, CODES[number * 1000 :][:1000])
        for number in range(3)
    ]


def digest(path: Path) -> str:
    reader = MessageReader(path)
    list(reader.batches())
    return reader.digest


def test_a_shuffle_has_the_same_messages_in_another_order(
    encoded: list[Path], tmp_path: Path
) -> None:
    told: list[tuple[int, int | None]] = []
    made = SPARK.shuffle(encoded, PLAN, tmp_path / "made", progress=lambda *one: told.append(one))
    found = plans.read(tmp_path / "made")
    assert sorted(found.tolist()) == sorted(CODES.tolist())
    assert found.tolist() != CODES.tolist()
    assert (made.reports, made.stage) == (USERS, "shuffled")
    assert told[-1] == (USERS, USERS)
    parts = read_manifest(Place.of(tmp_path / "made")).parts
    assert len(parts) == 5
    assert sum(part.messages for part in parts) == USERS
    # A single file of this name and these messages has the same digest.
    alone = plans.written(tmp_path / "a.parquet", PLAN, found, stage="shuffled", name=made.name)
    assert digest(alone) == digest(tmp_path / "made")


def test_either_engine_counts_what_the_other_shuffled(
    encoded: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SPARK.shuffle(encoded, PLAN, tmp_path / "spark", record=tmp_path / "one")
    Local().shuffle(encoded, PLAN, tmp_path / "local.parquet", record=tmp_path / "two")
    with pytest.raises(InvalidInput, match="two applications"):
        SPARK.tally([tmp_path / "spark"], PLAN)
    from chaffinch.engines.spark import session

    monkeypatch.setattr(session, "_PARTIES", {})
    for source in (tmp_path / "spark", tmp_path / "local.parquet"):
        ours, theirs = SPARK.tally([source], PLAN), Local().tally([source], PLAN)
        assert ours.counts.tolist() == theirs.counts.tolist()
        assert (ours.digest, ours.reports, ours.name) == (
            theirs.digest,
            theirs.reports,
            theirs.name,
        )
    with pytest.raises(InvalidInput, match="two applications"):
        SPARK.shuffle(encoded, PLAN, tmp_path / "other", record=tmp_path / "three")


def test_what_one_machine_refuses_a_cluster_does(encoded: list[Path], tmp_path: Path) -> None:
    target, before = tmp_path / "made", sorted(tmp_path.iterdir())
    with pytest.raises(BatchTooSmall, match=r"3,000 reports or more. Got 2,000"):
        SPARK.shuffle(encoded[:2], PLAN, target)
    with pytest.raises(BatchRepeated, match="twice"):
        SPARK.shuffle([*encoded, encoded[0]], PLAN, target)
    with pytest.raises(PlanMismatch):
        SPARK.shuffle(encoded, plans.clear(USERS - 1, 7), target)
    with pytest.raises(InvalidFile, match="of shuffled messages"):
        SPARK.tally(encoded, PLAN)
    with pytest.raises(InvalidInput, match="named where a cluster"):
        SPARK.shuffle(["-"], PLAN, target)
    assert sorted(tmp_path.iterdir()) == before
    whole = encoded[1].read_bytes()
    middle = len(whole) // 3
    encoded[1].write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    with pytest.raises(InvalidFile, match="damaged"):
        SPARK.shuffle(encoded, PLAN, target)
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_goes_into_two_batches_and_a_cut_shuffle_is_made_again(
    encoded: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, target = tmp_path / "record", tmp_path / "made"
    with monkeypatch.context() as patch:
        patch.setattr(Record, "finish", lambda *_: None)  # killed before its last word
        first = SPARK.shuffle(encoded, PLAN, target, record=record)
    (target / "manifest.json").unlink()  # or before the one before it
    with pytest.raises(BatchRepeated):
        SPARK.shuffle([*encoded[:2], _copy(encoded[2], tmp_path)], PLAN, target, record=record)
    again = SPARK.shuffle(encoded, PLAN, target, record=record)
    assert again == first
    assert sorted(plans.read(target).tolist()) == sorted(CODES.tolist())
    with pytest.raises(InvalidInput, match="another batch"):
        SPARK.shuffle(encoded, PLAN, target, record=tmp_path / "other")
    with pytest.raises(BatchRepeated):
        SPARK.shuffle(encoded, PLAN, tmp_path / "second", record=record)
    assert not (tmp_path / "second").exists()


def _copy(path: Path, folder: Path) -> Path:
    return plans.written(folder / f"copy-{path.name}", PLAN, plans.read(path))


def test_the_law_of_encoding_is_that_of_one_machine(tmp_path: Path) -> None:
    # The noncentrality of the wrong law is 200 over a bound of 36: it is missed below 1e-12.
    users, values, chance = 16_000, 5, Fraction(1, 8)
    plan = plans.flipped(users, values, chance)
    numbers = plans.answers(users, values)
    half = users // 2
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, part in (("a", numbers[:half]), ("b", numbers[half:])):
        plans.table(folder / f"{name}.parquet", part)
    facts = engine("spark").encode(folder, plan, tmp_path / "made")
    assert (facts.reports, facts.stage) == (users, "encoded")
    assert stat.S_IMODE((tmp_path / "made").stat().st_mode) == 0o700
    for path in (tmp_path / "made").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = np.bincount(plans.read(tmp_path / "made"), minlength=values)
    # A true bit stays with 1 − q and a false one comes with q; bits are independent.
    true = np.bincount(numbers, minlength=values)

    def deviation(q: float) -> float:
        mean = true * (1 - q) + (users - true) * q
        return float(np.sum((found - mean) ** 2 / (users * q * (1 - q))))

    bound = stats.chi2.isf(1e-6, values)
    assert deviation(float(chance)) < bound
    assert deviation(float(chance) * 0.8) > bound
    again = SPARK.encode(folder, plan, tmp_path / "again")
    assert again.name != facts.name
    assert plans.read(tmp_path / "again").tolist() != plans.read(tmp_path / "made").tolist()


def test_faults_of_all_files_are_told_with_their_names(tmp_path: Path) -> None:
    for name, cells in (("a", ["v1", "secret", "v2"]), ("b", ["v1", "v2", "hidden", "v0", "x"])):
        text = "\n".join(["answer", *cells]) + "\n"
        (tmp_path / f"{name}.csv").write_text(text, encoding="utf-8")
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(InvalidCells) as caught:
        SPARK.encode(paths, PLAN, tmp_path / "made")
    text = str(caught.value)
    assert "Got 3 that" in text
    assert "file 'a.csv'" in text
    assert "rows 4, 6" in text
    assert not [word for word in ("secret", "hidden") if word in text]
    assert not (tmp_path / "made").exists()
    with pytest.raises(InvalidCells) as alone:
        SPARK.encode(paths[0], PLAN, tmp_path / "made")
    with pytest.raises(InvalidCells) as local:
        Local().encode(paths[0], PLAN, tmp_path / "made.parquet")
    assert str(alone.value) == str(local.value)
