"""Audiences on a real cluster: the filters and the logos of one machine, and no id outside."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import chaffinch as cf
from chaffinch import reach
from chaffinch.cli import main
from chaffinch.engines import engine
from chaffinch.engines.spark import job, session
from chaffinch.engines.spark.engine import Spark
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import ChaffinchError, FilterFull, InvalidInput, InvalidTable
from chaffinch.privacy import Target
from chaffinch.reach.planning.alignment import word_range
from chaffinch.reach.planning.id_rule import AS_IS, IdRule
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.publisher import filter_making as local
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.filter_making import Loaded, Row
from chaffinch.reach.publisher.ids import IdColumns
from chaffinch.sampling import flip
from chaffinch.tables.pieces import Piece, pieces_of
from chaffinch.tables.read import Table, open_table
from chaffinch.wire.filter_files import Filter
from tests.engines.spark.kills import holding, killing, wait_for_executors
from tests.reach.publishing import SECRET, made_up, small_plan
from tests.tiers import nightly

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tests.engines.spark.cluster import Cluster

pytestmark = pytest.mark.usefixtures("context")

SPARK = Spark()
JOB_SECRET = bytes(range(32))
ANY = Target(epsilon=1000, delta=0.01)
PLAN = small_plan(frequencies=3, hashes=2, bits=1 << 12)


def key() -> CampaignKey:
    return CampaignKey(SECRET)


def made(pieces: Sequence[Piece], plan: ReachPlan = PLAN, **options: Any) -> Filter:
    columns = IdColumns(**options)
    return SPARK.make_filter(
        pieces, plan, publisher="daily", key=key(), columns=columns, within=ANY
    )


def made_here(table: Table, plan: ReachPlan = PLAN, **options: Any) -> tuple[Filter, Loaded]:
    told: list[Loaded] = []
    columns = IdColumns(**options)
    found = local.make_filter(
        table, plan, publisher="daily", key=key(), columns=columns, within=ANY, told=told.append
    )
    return found, told[0]


def true_rows(table: Table, plan: ReachPlan = PLAN) -> list[Row]:
    first, further = key().hash_keys(plan.id)
    reader = IdColumns("id").reader(table, plan, first)
    return local.true_rows((reader.digests(*batch)[0] for batch in reader.batches()), plan, further)


def flipped(rows: list[Row], count: int, plan: ReachPlan = PLAN) -> list[Row]:
    """Return true rows with the flips of the job whose secret is known."""
    ring = Keyring(JOB_SECRET, {})
    found = [row.copy() for row in rows]
    for part in range(count):
        words = word_range(plan.bits, part, count)
        content = b"".join(row[words].tobytes() for row in rows)
        drawn = ring.words("filter", part, hashlib.sha256(content).digest())
        for row in found:
            piece = row[words].copy()
            flip(drawn, piece, plan.numerator, 64 * len(piece))
            row[words] = piece
    return found


def known_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs have a secret that the test knows."""
    real = secrets.token_bytes

    def token_bytes(count: int) -> bytes:
        return JOB_SECRET if count == len(JOB_SECRET) else real(count)

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    known_secret(monkeypatch)


@pytest.fixture(name="lists")
def _lists(tmp_path: Path) -> tuple[list[Piece], pa.Table]:
    """Return ids in two files, one of them in pieces, with repeats in one and across both."""
    random = np.random.default_rng(5)
    ids = [f"id-{one}" for one in random.integers(0, 150, 300)]
    whole = pa.table({"id": ids, "page": ["front"] * 300})
    folder = tmp_path / "lists"
    folder.mkdir()
    pq.write_table(whole.slice(0, 200), folder / "a.parquet", row_group_size=50)
    lines = "".join(f"{one},front\n" for one in ids[200:])
    (folder / "b.csv").write_text(f"id,page\n{lines}")
    return pieces_of([folder], largest=2000), whole


@pytest.mark.usefixtures("known")
def test_a_filter_is_that_of_one_machine_but_for_its_flips(
    context: SparkContext, lists: tuple[list[Piece], pa.Table]
) -> None:
    pieces, whole = lists
    assert len(pieces) > 2
    told: list[Loaded] = []
    steps: list[tuple[int, int | None]] = []
    found = SPARK.make_filter(
        pieces,
        PLAN,
        publisher="daily",
        key=key(),
        columns=IdColumns("id"),
        within=ANY,
        told=told.append,
        progress=lambda *step: steps.append(step),
    )
    rows = true_rows(open_table(whole))
    wanted = flipped(rows, 2 * max(2, context.defaultParallelism))
    for row, expected in zip(found.rows, wanted, strict=True):
        assert (row == expected).all()
    expected_filter, loaded = made_here(open_table(whole), column="id")
    assert told == [loaded]
    assert found.key == expected_filter.key
    assert steps[-1] == (len(pieces), len(pieces))


FAULTS = [
    ({"id": ["a", None, "b", "", "c", None]}, {}, AS_IS),
    ({"id": ["a", "b"] * 3, "n": ["1", "2", "x", "4", "0", "1"]}, {"counts": "n"}, AS_IS),
    nightly({"id": ["a@b.org", "nobody", None, "c@d.org", "-", " "]}, {}, IdRule("e-mail")),
    nightly({"id": [None] * 6}, {"missing": "skip"}, AS_IS),
    nightly({"id": ["1.0", "2.0"] * 3}, {}, AS_IS),
    nightly({"id": ["a"] * 6, "other": ["a"] * 6}, {"column": "ids"}, AS_IS),
]


@pytest.mark.parametrize(("cells", "options", "rule"), FAULTS)
def test_what_one_machine_refuses_is_refused_in_the_same_words(
    tmp_path: Path,
    cells: dict[str, list[str | None]],
    options: dict[str, str],
    rule: IdRule,
) -> None:
    plan = small_plan(frequencies=2, ids=rule)
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table(cells), path, row_group_size=2)
    pieces = pieces_of([path], largest=1)
    assert len(pieces) == 3
    with pytest.raises(ChaffinchError) as here:
        made_here(open_table(path), plan, **options)
    with pytest.raises(ChaffinchError) as there:
        made(pieces, plan, **options)
    assert type(there.value) is type(here.value)
    assert str(there.value) == str(here.value)


def test_faults_in_several_files_are_told_with_their_names(tmp_path: Path) -> None:
    for name, cells in (("a", ["x", None]), ("b", [None, "y", None])):
        pq.write_table(pa.table({"id": cells}), tmp_path / f"{name}.parquet")
    with pytest.raises(InvalidTable, match=r"none in 3 rows: 1 of a.parquet, 0 of b.parquet, 2 of"):
        made(pieces_of([tmp_path]))
    (tmp_path / "b.parquet").rename(tmp_path / "c.parquet")
    pq.write_table(pa.table({"id": [1.5]}), tmp_path / "b.parquet")
    with pytest.raises(InvalidTable, match=r"type double(.|\n)*file 'b.parquet'"):
        made(pieces_of([tmp_path]))


def test_a_full_filter_is_refused(tmp_path: Path) -> None:
    plan = small_plan(bits=64)
    pq.write_table(pa.table({"id": range(10_000)}), tmp_path / "ids.parquet")
    with pytest.raises(FilterFull):
        made(pieces_of([tmp_path / "ids.parquet"]), plan)


def test_nothing_of_ids_is_written_or_reaches_the_driver(
    cluster: Cluster, lists: tuple[list[Piece], pa.Table]
) -> None:
    """Results of a job are sealed rows and counts; what tasks exchange is encrypted."""
    pieces, whole = lists
    seen: list[Any] = []
    exchange = job.Job.exchange

    def watched(*given: Any, **options: Any) -> Any:
        found = exchange(*given, **options)
        seen.extend(found)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job.Job, "exchange", watched)
        found = made(pieces, column="id")
    true = true_rows(open_table(whole))
    for row, before in zip(found.rows, true, strict=True):
        # Six standard deviations of a share of 4096 bits are below 0.041.
        assert abs(np.bitwise_count(row ^ before).sum() / PLAN.bits - 0.25) < 0.041
    *ranges, last = seen
    assert all(len(one.spelled) == 0 for one in ranges)
    assert (last.rows, last.ones) == ((), 0)
    first, further = key().hash_keys(PLAN.id)
    reader = IdColumns("id").reader(open_table(whole), PLAN, first)
    ((digests, _),) = [reader.digests(*batch) for batch in reader.batches()]
    private = [first, further, SECRET, b"id-77", digests[0].tobytes()]
    private += [row.tobytes()[:32] for row in true]
    for path, content in cluster.files():
        for one in private:
            assert one not in content, path


@pytest.mark.long
@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("step", [(1, 1), (2, 2)], ids=["reading", "flipping"])
def test_a_lost_executor_changes_no_filter(
    context: SparkContext,
    lists: tuple[list[Piece], pa.Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[int, int],
) -> None:
    pieces, (place, number) = lists[0], step
    before = made(pieces, column="id")
    wait_for_executors(context)
    holding(monkeypatch, "exchange", place, tmp_path / "gate", number)
    with killing(tmp_path / "gate") as killed:
        after = made(pieces, column="id")
    assert len(killed) == 1
    assert all((one == other).all() for one, other in zip(before.rows, after.rows, strict=True))


# ------------------------------------------------------------------------------ logos


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> list[Path]:
    paths = []
    for name in PLAN.audience.publishers:
        path = tmp_path / f"{name}.filter"
        made_up(PLAN, name, load=0.2).save(path)
        paths.append(path)
    return paths


def test_logos_are_those_of_one_machine(files: list[Path]) -> None:
    from chaffinch.reach.analyzer import logos
    from chaffinch.wire.filter_files import load_filter

    wanted = logos.count_logos([load_filter(one) for one in files], PLAN)
    found = SPARK.count_logos(files[::-1], PLAN)
    assert (found.counts == wanted.counts).all()
    assert found.digest == wanted.digest


@pytest.mark.long
def test_a_lost_executor_changes_no_logo(
    context: SparkContext, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = SPARK.count_logos(files, PLAN)
    wait_for_executors(context)
    holding(monkeypatch, "exchange", 2, tmp_path / "gate", 1)
    with killing(tmp_path / "gate") as killed:
        after = SPARK.count_logos(files, PLAN)
    assert len(killed) == 1
    assert (after.counts == before.counts).all()


def test_filters_that_do_not_belong_together_are_refused(files: list[Path], tmp_path: Path) -> None:
    other = tmp_path / "other.filter"
    made_up(small_plan(bits=1 << 13), "daily").save(other)
    for given, words in (
        (files[:1], "none of 'radio'"),
        ([files[0], files[0]], "2 of 'daily'"),
        ([other, files[1]], "must belong to plan"),
    ):
        with pytest.raises(ChaffinchError, match=words):
            SPARK.count_logos(given, PLAN)
    content = bytearray(files[0].read_bytes())
    content[-1] ^= 1
    files[0].write_bytes(content)
    with pytest.raises(ChaffinchError, match="damaged content"):
        SPARK.count_logos(files, PLAN)


def test_the_library_takes_an_engine_and_keeps_its_records(
    context: SparkContext, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "ids.csv").write_text("id\n" + "".join(f"{one}\n" for one in range(100)))
    kept, spark = key(), engine("spark", master=context.master)
    asked: Any = {"publisher": "daily", "key": kept, "within": ANY, "engine": spark}
    found = reach.encode(tmp_path / "ids.csv", PLAN, **asked)
    assert found.key == kept.fingerprint(PLAN.id)
    with pytest.raises(InvalidInput, match="no filter of 'daily' yet"):
        reach.encode(tmp_path / "ids.csv", PLAN, **asked)
    with pytest.raises(InvalidInput, match="one of the analyzer's own"):
        reach.analyze(files, PLAN, engine=spark)
    monkeypatch.setattr(session, "_PARTIES", {})
    assert reach.analyze(files, PLAN, engine=spark).rows == reach.analyze(files, PLAN).rows


def test_the_verbs_on_a_cluster(
    context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    plan = reach.plan(cf.Audience(["daily"]), sizes=[200], target=Target(epsilon=1, delta=1e-6))
    plan.save("plan.json")
    reach.new_key().save("campaign.key")
    Path("ids").mkdir()
    for name, ids in (("a", range(150)), ("b", range(100, 200))):
        lines = "".join(f"{one}\n" for one in ids)
        Path(f"ids/{name}.csv").write_text(f"id\n{lines}")
    spark = ["--plan", "plan.json", "--engine", "spark", "--master", str(context.master)]
    asked = ["reach", "encode", "--key", "campaign.key", "--publisher", "daily", *spark]
    assert main([*asked, "-", "-o", "daily.filter"]) == 2
    assert "in files with --engine spark. Got a pipe." in capfd.readouterr().err
    assert main([*asked, "ids", "-o", "daily.filter"]) == 0
    said = capfd.readouterr()
    assert said.out == ""
    assert re.search(
        r"250 rows read, about (19|20)\d different ids; the plan expects 200", said.err
    )
    assert "wrote daily.filter" in said.err
    monkeypatch.setattr(session, "_PARTIES", {})
    assert main(["reach", "analyze", "daily.filter", *spark, "--json"]) == 0
    counted = json.loads(capfd.readouterr().out)
    assert main(["reach", "analyze", "daily.filter", "--plan", "plan.json", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == counted
    assert main([*asked, "ids", "-o", "again.filter"]) == 2
