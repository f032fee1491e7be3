"""The local engine gives what one process in memory gives, from files and streams."""

from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from chaffinch.analysis.tally import tally
from chaffinch.encoding import bulk
from chaffinch.encoding.bulk import encode_many
from chaffinch.engines import Engine, engine
from chaffinch.engines.local import Local
from chaffinch.errors import InvalidCells, InvalidFile, InvalidInput, InvalidTable
from chaffinch.plans.plan import Plan
from chaffinch.privacy import Target
from chaffinch.protocols import Encoded, FlippedDecoys, Flips
from chaffinch.protocols.weighted import Weighted
from chaffinch.questions import Bit, Choice, Flags, Number
from chaffinch.reach.analyzer.logos import count_logos
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.shuffling.in_memory import shuffle
from chaffinch.wire.message_reader import MessageReader
from chaffinch.wire.messages import Rows, Tally
from tests.engines import plans
from tests.engines.plans import LEAST
from tests.reach.publishing import KEY, made_up, small_plan

FALSE_ALARM = 1e-7
"""Of one comparison; a flip probability a tenth off is missed with chance 5e-12 at most."""


def through_files(local: Local, source: Path, plan: Plan, folder: Path) -> Tally:
    encoded, shuffled = folder / "encoded.parquet", folder / "shuffled.parquet"
    facts = local.encode(source, plan, encoded)
    assert (facts.stage, facts.reports) == ("encoded", plan.reports)
    assert facts == MessageReader(encoded).start
    facts = local.shuffle([encoded], plan, shuffled)
    assert (facts.stage, facts.reports) == ("shuffled", plan.reports)
    assert facts == MessageReader(shuffled).start
    found = local.tally([shuffled], plan)
    assert np.array_equal(np.sort(plans.read(encoded)), np.sort(plans.read(shuffled)))
    return found


def surprise(counts: NDArray[np.int64], truth: NDArray[np.int64], users: int, q: float) -> float:
    """Return the chance of counts at least as far from Bin(h, 1 − q) + Bin(n − h, q)."""
    mean = truth * (1 - q) + (users - truth) * q
    squares = ((counts - mean) ** 2).sum() / (users * q * (1 - q))
    return float(stats.chi2.sf(squares, len(counts)))


@pytest.mark.parametrize(
    ("values", "chance", "users"),
    [(10, Fraction(1, 64), 200_000), (10, Fraction(1, 8), 100_000), (100, Fraction(1, 8), 20_000)],
    ids=["sparse", "dense", "packed"],
)
def test_files_and_memory_have_the_same_law(
    tmp_path: Path, values: int, chance: Fraction, users: int
) -> None:
    plan = plans.flipped(users, values, chance)
    given = plans.answers(users, values)
    truth = np.bincount(given, minlength=values)
    source = plans.table(tmp_path / "answers.parquet", given)
    by_files = through_files(Local(workers=2), source, plan, tmp_path)
    in_memory = tally(shuffle(encode_many(source, plan)))
    q = float(chance)
    for found in (by_files, in_memory):
        assert (found.plan_id, found.reports) == (plan.id, users)
        assert surprise(found.counts, truth, users, q) > FALSE_ALARM
        # A flip probability that is a tenth off is seen.
        assert surprise(found.counts, truth, users, 1.1 * q) < FALSE_ALARM
        assert surprise(found.counts, truth, users, q / 1.1) < FALSE_ALARM


@pytest.mark.parametrize("rows", [7, 1000, 65_536])
def test_every_answer_of_every_kind_arrives_once(
    tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ROWS", rows)
    users = 1001
    rare = (LEAST,)
    quiet = Weighted(1, ((Fraction(1, 2**16),) * 2,), LEAST, rare, rare, rare, users, 9)
    plan = plans.plan_of(
        ("tea", Bit(), Flips(LEAST, 3)),
        ("city", Choice(["a", "b"], missing="count"), FlippedDecoys(LEAST, 1, 3)),
        ("likes", Flags(["x", "y"]), Flips(LEAST, 2)),
        ("age", Number(0, 4, quantiles=True), Encoded(LEAST, 4, together=False)),
        ("sum", Number(0, 4), Encoded(LEAST, 4, together=True)),
        ("weight", Number(0, 4), quiet),
        users=users,
        epsilon=1e4,
    )
    ages = np.arange(users) % 5
    columns = {
        "tea": [i % 3 == 0 for i in range(users)],
        "city": ["a"] * users,
        "likes": [["x"] if i % 4 else ["x", "y"] for i in range(users)],
        "age": ages.tolist(),
        "sum": ages.tolist(),
        "weight": ages.tolist(),
    }
    source = tmp_path / "table.arrow"
    made = pa.table(columns)
    with pa.OSFile(str(source), "wb") as file, pa.ipc.new_stream(file, made.schema) as writer:
        writer.write_table(made)
    counts = through_files(Local(workers=3), source, plan, tmp_path).counts
    assert counts[0] == 3 * 334
    assert counts[1] >= users
    assert counts[1:4].sum() == 2 * users  # with one decoy each
    assert counts[4:6].tolist() == [2 * users, 2 * 251]
    assert counts[6:10].tolist() == [int((ages > step).sum()) for step in range(4)]
    assert counts[10] == ages.sum()
    # A code of each answer; now and then, once in 30 runs, a unit of noise beside them.
    codes = counts[11 : 11 + quiet.layout.size]
    assert codes[:5].sum() == users
    assert abs(int(codes @ quiet.layout.weights) + 2 * users - ages.sum()) <= 3


def test_packed_rows_become_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plans.flipped(50, 100, Fraction(1, 8))
    given = [f"v{number}" for number in plans.answers(50, 100).tolist()]
    reports = encode_many(given, plan)
    block = reports.rows[0]
    assert isinstance(block, Rows)
    bits = np.unpackbits(block.packed, axis=1, bitorder="little")[:, :100]
    assert np.array_equal(np.bincount(reports.codes(), minlength=100), bits.sum(axis=0))
    monkeypatch.setattr(bulk, "ROWS", 3)
    assert len(encode_many(given, plan).codes()) > 50


def test_several_files_and_streams_are_one_batch(tmp_path: Path) -> None:
    plan = plans.clear(1000, 5)
    local = Local(workers=2)
    given = plans.answers(1000, 5)
    pipe = io.BytesIO()
    sources: list[object] = [tmp_path / "a.parquet", pipe, tmp_path / "c.arrow"]
    for part, target in zip(np.split(given, [100, 450]), sources, strict=True):
        names = [f"v{number}" for number in part.tolist()]
        local.encode(names, plan, target)
    out = io.BytesIO()
    facts = local.shuffle(sources, plan, out)
    assert facts.reports == 1000
    found = local.tally([out], plan)
    assert found.counts.tolist() == np.bincount(given, minlength=5).tolist()
    assert found.reports == 1000


def test_a_pattern_names_files_of_one_batch(tmp_path: Path) -> None:
    plan = plans.clear(30, 4)
    for number in range(3):
        plans.written(tmp_path / f"part-{number}.parquet", plan, [number] * 10)
    made = Local().shuffle([tmp_path / "part-*.parquet"], plan, tmp_path / "made.parquet")
    assert made.reports == 30
    assert Local().tally([tmp_path / "m*.parquet"], plan).counts.tolist() == [10, 10, 10, 0]
    with pytest.raises(InvalidFile, match=r"a pattern that some file fits. Got '.*/none-\*'"):
        Local().shuffle([tmp_path / "none-*"], plan, tmp_path / "other.parquet")


def test_a_table_in_several_files(tmp_path: Path) -> None:
    codes, plan = plans.answers(900, 5), plans.clear(900, 5)
    folder = tmp_path / "tables"
    folder.mkdir()
    plans.table(folder / "a.parquet", codes[:500])
    lines = "".join(f"v{code}\n" for code in codes[500:])
    (folder / "b.csv").write_text(f"answer\n{lines}")
    steps: list[tuple[int, int | None]] = []
    for number, source in enumerate([folder, folder / "*.*"]):
        made = tmp_path / f"{number}.parquet"
        facts = Local().encode(source, plan, made, progress=lambda *step: steps.append(step))
        assert facts.reports == 900
        assert sorted(plans.read(made).tolist()) == sorted(codes.tolist())
        assert steps[-1] == (900, None)
    with pytest.raises(InvalidInput, match="another file"):
        Local().encode(folder, plan, folder / "b.csv")


def test_what_is_wrong_in_one_of_several_files_is_told_with_its_name(tmp_path: Path) -> None:
    plan, made = plans.clear(3, 5), tmp_path / "made.parquet"
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "a.csv").write_text("answer\nv0\nhidden\n")
    (folder / "b.csv").write_text("answer\nv1\n\nv2\nhidden\nhidden\n")
    with pytest.raises(InvalidCells) as found:
        Local().encode(folder, plan, made)
    assert [(one.rows, one.hint.partition(";")[0]) for one in found.value.faults] == [
        ((3,), "file 'a.csv'"),
        ((5, 6), "file 'b.csv'"),
    ]
    (folder / "a.csv").write_text("answer\nv0\n")
    (folder / "b.csv").write_text("other\nv0\n")
    with pytest.raises(InvalidTable, match="no column") as other:
        Local().encode(folder, plan, made)
    assert "file 'b.csv'" in other.value.hint
    assert not made.exists()


def test_columns_and_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS", 100)
    plan = plans.clear(1000, 5)
    source = plans.table(tmp_path / "t.parquet", plans.answers(1000, 5), column="other")
    told: list[tuple[int, int | None]] = []

    def progress(done: int, total: int | None) -> None:
        told.append((done, total))

    local = Local()
    encoded, shuffled = tmp_path / "e.parquet", tmp_path / "s.parquet"
    local.encode(source, plan, encoded, columns={"answer": "other"}, progress=progress)
    assert told == [(100 * (i + 1), 1000) for i in range(10)]
    told.clear()
    local.shuffle([encoded], plan, shuffled, progress=progress)
    assert told[0] == (1000, None)
    assert told[-1] == (1000, 1000)
    told.clear()
    local.tally([shuffled], plan, progress=progress)
    assert told == [(1000, None)]


def test_batches_are_small_where_reports_are_large() -> None:
    small = plans.flipped(10, 3, Fraction(1, 8))
    flags = plans.plan_of(("f", Flags([str(i) for i in range(50)]), Flips(LEAST, 1000)), users=10)
    assert bulk.rows_per_batch(small) == bulk.ROWS
    sparse = plans.flipped(10, 100_000, LEAST)
    assert bulk.rows_per_batch(sparse) == bulk.ROWS
    assert bulk.rows_per_batch(flags) == bulk.MESSAGES_PER_BATCH // 50_000


def test_engines_are_found_by_name() -> None:
    found: Engine = engine()
    assert found == engine("local")
    assert found.name == "local"
    with pytest.raises(InvalidInput, match="one of 'local'"):
        engine("other")


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"memory": 0}, {"workers": 1.5}])
def test_settings_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        Local(**wrong)


def test_a_survey_starts_without_a_cluster_and_without_audiences() -> None:
    code = "import sys, chaffinch.engines.local\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "chaffinch.engines.local" in loaded
    others = (
        "pyspark",
        "chaffinch.engines.spark",
        "chaffinch.reach.publisher",
        "chaffinch.reach.analyzer",
        "chaffinch.reach.planning",
    )
    assert not [name for name in loaded if name.startswith(others)]


def test_audiences_are_those_of_the_rooms(tmp_path: Path) -> None:
    plan = small_plan(bits=1 << 12)
    (tmp_path / "ids.csv").write_text("id\n7\n8\n", encoding="utf-8")
    made = Local().make_filter(
        tmp_path / "ids.csv",
        plan,
        publisher="daily",
        key=CampaignKey(KEY.secret),
        within=Target(epsilon=100, delta=0.01),
    )
    assert (made.publisher, made.key) == ("daily", KEY.fingerprint(plan.id))
    made.save(tmp_path / "daily.filter")
    other = made_up(plan, "radio", load=0.2)
    found = Local().count_logos([tmp_path / "daily.filter", other], plan)
    assert found.digest == count_logos([made, other], plan).digest
