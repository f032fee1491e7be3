"""Frames of Spark as sources: evaluated once for all that is drawn, and the same as one machine."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from chaffinch import reach
from chaffinch.disk.locations import Place
from chaffinch.engines import engine
from chaffinch.engines.local import Local
from chaffinch.engines.spark import frames
from chaffinch.engines.spark.engine import Spark
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import ChaffinchError, ClusterFault, InvalidInput, InvalidTable, StorageFault
from chaffinch.privacy import Target
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.filter_making import Loaded
from chaffinch.tables.read import open_table
from tests.engines import plans
from tests.engines.spark import cluster as cluster_module
from tests.engines.spark import straying
from tests.engines.spark.check_audiences import flipped, known_secret, true_rows
from tests.engines.spark.kills import killing, wait_for_executors
from tests.engines.spark.work import Fresh, Waiting, nothing
from tests.reach.publishing import SECRET, small_plan

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from tests.engines.spark.cluster import Cluster

USERS = 4000
PLAN = plans.clear(USERS, 9)
CODES = plans.answers(USERS, 9)
SPARK = Spark()
ANY = Target(epsilon=1000, delta=0.01)


@pytest.fixture(name="session")
def _session(context: SparkContext) -> SparkSession:
    from pyspark.sql import SparkSession

    wait_for_executors(context)
    return SparkSession(context)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    known_secret(monkeypatch)


def frame_of(session: SparkSession, cells: dict[str, list[Any]], parts: int = 3) -> DataFrame:
    """Return a frame of so many partitions, in the order of the rows."""
    rows = list(zip(*cells.values(), strict=True))
    kinds = ", ".join(
        f"`{name}` {'long' if isinstance(column[0], int) else 'string'}"
        for name, column in cells.items()
    )
    return session.createDataFrame(session.sparkContext.parallelize(rows, parts), kinds)


def answers_of(codes: Any) -> dict[str, list[Any]]:
    return {"answer": [f"v{code}" for code in codes]}


@pytest.mark.long
def test_the_law_of_a_frame_is_that_of_one_machine(session: SparkSession, tmp_path: Path) -> None:
    values, chance = 5, Fraction(1, 8)
    plan = plans.flipped(USERS, values, chance)
    numbers = plans.answers(USERS, values)
    told: list[tuple[int, int | None]] = []
    cells = {"secret.name": ["hidden-cell"] * USERS} | answers_of(numbers)
    facts = engine("spark").encode(
        frame_of(session, cells), plan, tmp_path / "made", progress=lambda *one: told.append(one)
    )
    assert (facts.reports, told[-1]) == (USERS, (USERS, USERS))
    found = np.bincount(plans.read(tmp_path / "made"), minlength=values)
    true = np.bincount(numbers, minlength=values)

    def deviation(q: float) -> float:
        mean = true * (1 - q) + (USERS - true) * q
        return float(np.sum((found - mean) ** 2 / (USERS * q * (1 - q))))

    bound = stats.chi2.isf(1e-6, values)
    assert deviation(float(chance)) < bound
    assert deviation(float(chance) * 0.8) > bound


def test_rows_that_lie_there_are_sealed_and_only_those_that_are_needed(
    session: SparkSession, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, bytes] = {}
    true = Job.map

    def looking(job: Job, *given: Any, **options: Any) -> Any:
        rows = sorted((tmp_path / "made").glob("rows-*"))
        seen.update((path.name, path.read_bytes()) for path in rows)
        return true(job, *given, **options)

    monkeypatch.setattr(Job, "map", looking)
    cells = {"a.b": ["hidden-cell"] * 3, "answer": ["v1", "v2", "v1"], "A.B": ["hidden-cell"] * 3}
    SPARK.encode(frame_of(session, cells), plans.clear(3, 4), tmp_path / "made")
    assert [name[:10] for name in seen] == ["rows-00000", "rows-00001", "rows-00002"]
    assert b"answer" in frames._bytes_of(pa.record_batch({"answer": ["v1"]}))  # noqa: SLF001
    for content in seen.values():  # six bytes that are there by chance in one file of 10¹¹
        assert b"answer" not in content
    assert not [name for name in plans.listing(tmp_path / "made") if name.startswith("rows-")]
    for path, content in cluster.files():
        assert "work" not in path.parts or b"hidden-cell" not in content, path


FAULTS: list[tuple[dict[str, list[Any]], dict[str, str] | None]] = [
    ({"answer": ["v1", "secret", "v2", "hidden", None]}, None),
    ({"other": ["v1"], "one": ["v1"]}, None),
    ({"answer": ["v1"], "one": ["v1"]}, {"answer": "two"}),
]


@pytest.mark.parametrize(("cells", "columns"), FAULTS)
def test_what_one_machine_refuses_is_refused_in_the_same_words(
    session: SparkSession,
    tmp_path: Path,
    cells: dict[str, list[Any]],
    columns: dict[str, str] | None,
) -> None:
    frame = frame_of(session, cells)
    with pytest.raises(ChaffinchError) as here:
        Local().encode(pa.table(cells), PLAN, tmp_path / "made.parquet", columns=columns)
    with pytest.raises(ChaffinchError) as there:
        SPARK.encode(frame, PLAN, tmp_path / "made", columns=columns)
    assert str(there.value) == str(here.value)
    assert not (tmp_path / "made").exists()


@pytest.mark.long
def test_a_frame_without_rows_and_one_that_fails_are_refused(
    session: SparkSession, tmp_path: Path
) -> None:
    frame = frame_of(session, answers_of([1, 2]))
    with pytest.raises(InvalidTable, match="no rows"):
        SPARK.encode(frame.limit(0), PLAN, tmp_path / "made")
    with pytest.raises(ClusterFault) as caught:
        SPARK.encode(
            frame.selectExpr("cast(raise_error('hidden-cell') as string) as answer"),
            PLAN,
            tmp_path / "made",
        )
    assert "hidden-cell" not in str(caught.value)
    assert not (tmp_path / "made").exists()


@pytest.mark.long
def test_a_frame_that_is_another_one_each_time_loses_and_doubles_nobody(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were drawn for are those that were kept, though an executor went meanwhile."""
    gate, noted = tmp_path / "gate", list[list[str]]()
    true = frames._numbered  # noqa: SLF001 - to see what is kept

    def noting(pieces: Any) -> Any:
        noted.append([piece.place.name for piece in pieces])
        return true(pieces)

    monkeypatch.setattr(frames, "_numbered", noting)
    with warnings.catch_warnings(action="ignore"):
        fresh = session.range(0, 900, 1, 3).mapInArrow(
            Fresh(gate).rows, "answer string, name string"
        )
    with killing(gate) as killed:
        facts = SPARK.encode(fresh, plans.clear(900, 9), tmp_path / "made")
    assert len(killed) == 1
    assert facts.reports == len(plans.read(tmp_path / "made")) == 900
    assert len(noted[-1]) == 3


@pytest.mark.long
def test_a_frame_that_was_evaluated_again_in_part_is_read_again_as_a_whole(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[bool] = []
    true = Job.map_rows

    def noting(job: Job, *given: Any, **options: Any) -> Any:
        found, whole = true(job, *given, **options)
        times.append(whole)
        return found, whole

    monkeypatch.setattr(Job, "map_rows", noting)
    gate, plan = tmp_path / "gate", plans.clear(900, 9)
    # What the killed executor has sent to other tasks is gone with it.
    exchanged = frame_of(session, answers_of(CODES[:900]), 4).repartition(4)
    with warnings.catch_warnings(action="ignore"):
        frame = exchanged.mapInArrow(Waiting(gate).rows, "answer string")
    with killing(gate) as killed:
        SPARK.encode(frame, plan, tmp_path / "made")
    assert len(killed) == 1
    assert times == [False, True]
    assert sorted(plans.read(tmp_path / "made").tolist()) == sorted(CODES[:900].tolist())
    monkeypatch.setattr(Job, "_repeated", lambda *_: True)
    with pytest.raises(ClusterFault, match="in one go"):
        SPARK.encode(frame_of(session, answers_of([1])), plans.clear(1, 9), tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.long
@pytest.mark.timeout(600)  # a second cluster, with three executors, beside the one that runs
def test_parts_of_two_evaluations_are_never_together(tmp_path: Path) -> None:
    """Also where an executor goes after an exchange has ended, and before the next one needs it."""
    notes, made = tmp_path / "notes", tmp_path / "made"
    for folder in (notes, tmp_path / "cluster"):
        folder.mkdir()
    hosts = ("127.0.0.1",) * straying.EXECUTORS
    with cluster_module.started(tmp_path / "cluster", hosts) as other:
        words = [sys.executable, "-m", straying.__name__, other.url, str(notes), str(made)]
        done = subprocess.run(
            words,
            cwd=cluster_module.ROOT,
            env=os.environ | other.settings,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert (notes / "killed").exists()
    wanted = np.arange(straying.ROWS + straying.LATE) % straying.VALUES
    assert sorted(plans.read(made).tolist()) == sorted(wanted.tolist())
    assert (notes / "times").read_text().split() == ["False", "True"]


def test_a_frame_with_exchanges_is_one_job_and_the_session_stays_as_it_is(
    session: SparkSession,
) -> None:
    """In one job a stage that is done again has another number; between two it has not."""
    frame = session.range(0, 40, 1, 2).repartition(3).repartition(2, "id")
    adaptive = "spark.sql.adaptive.enabled"
    assert session.conf.get(adaptive) == "true"
    with Job(session.sparkContext) as job:
        rows, whole = job.map_rows(nothing, frame)
        tracker = session.sparkContext.statusTracker()
        assert len(tracker.getJobIdsForGroup(job._group)) == 1  # noqa: SLF001 - to count them
        assert (sum(rows), whole) == (40, True)
        assert session.conf.get(adaptive) == "true"
        assert job._repeated(range(1000))  # noqa: SLF001 - what is not known was repeated


def test_kept_rows_that_were_changed_are_refused(tmp_path: Path) -> None:
    ring, folder = Keyring(bytes(32), {}), Place.of(tmp_path)
    batches = [pa.record_batch({"id": [1, 2]}), pa.record_batch({"id": [3]})]
    piece = frames._keep(folder, "0" * 8, ring, 0, iter(batches))  # noqa: SLF001
    assert [row for one in piece.open(ring).batches(["id"]) for row in one["id"].to_pylist()] == [
        1,
        2,
        3,
    ]
    path = Path(piece.place.text)
    whole = path.read_bytes()
    changed = [whole[:-24], whole[:-1], whole[:-1] + b"x", b"\x00" * 8 + whole[8:], b""]
    changed += [length.to_bytes(8, "little") + whole[8:] for length in (1 << 45, (1 << 64) - 1)]
    for content in changed:
        path.write_bytes(content)
        with pytest.raises(StorageFault, match="as they were written"):
            list(piece.open(ring).batches(["id"]))


# ------------------------------------------------------------------------------ ids


@pytest.mark.usefixtures("known")
def test_ids_of_a_frame_are_those_of_a_file(session: SparkSession, tmp_path: Path) -> None:
    plan = small_plan(frequencies=3, hashes=2, bits=1 << 12)
    ids = [f"id-{one}" for one in np.random.default_rng(5).integers(0, 150, 300)]
    frame = frame_of(session, {"page": ["front"] * 300, "id": ids})
    # A column that has no type in Arrow is in nobody's way if it is not asked for.
    frame = frame.selectExpr("*", "make_interval(1) as since")
    told: list[Loaded] = []
    asked: Any = {"publisher": "daily", "within": ANY, "told": told.append, "column": "id"}
    spark = engine("spark", scratch=tmp_path)
    made = reach.encode(frame, plan, key=CampaignKey(SECRET), engine=spark, **asked)
    reach.encode({"id": ids}, plan, key=CampaignKey(SECRET), **asked)
    # The true bits, and the flips of a job whose secret is known.
    rows = true_rows(open_table({"id": ids}), plan)
    wanted = flipped(rows, 2 * max(2, session.sparkContext.defaultParallelism), plan)
    assert [row.tolist() for row in made.rows] == [row.tolist() for row in wanted]
    assert told[0] == told[1]
    assert made.publisher == "daily"
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidInput, match="scratch"):
        SPARK.make_filter(
            frame.select("id"), plan, publisher="daily", key=CampaignKey(SECRET), within=ANY
        )
    faulty = {"id": ["a", None, "b", "", "c", None]}
    with pytest.raises(ChaffinchError) as here:
        reach.encode(faulty, plan, key=CampaignKey(SECRET), publisher="daily", within=ANY)
    with pytest.raises(ChaffinchError) as there:
        reach.encode(
            frame_of(session, faulty),
            plan,
            key=CampaignKey(SECRET),
            publisher="daily",
            within=ANY,
            engine=spark,
        )
    assert str(there.value) == str(here.value)
