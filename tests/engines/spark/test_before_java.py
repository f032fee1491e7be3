"""What can be refused without Spark is refused before Java starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch import reach
from chaffinch.cli.encode import _unit
from chaffinch.engines.local import Local
from chaffinch.engines.spark.engine import Spark
from chaffinch.errors import (
    BatchRepeated,
    BatchTooSmall,
    InvalidFile,
    InvalidInput,
    InvalidTable,
    PlanMismatch,
    StorageFault,
)
from chaffinch.reach.publisher.ids import IdColumns
from chaffinch.tables.pieces import TableFiles
from chaffinch.tables.read import open_table
from tests.engines import plans

USERS = 60
PLAN = plans.clear(USERS, 4)
SPARK = Spark("local[1]")


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_folder: Path) -> Path:
        pytest.fail("Java is started")

    monkeypatch.setattr("chaffinch.engines.spark.session.java_home", never)


def encoded(path: Path, reports: int = USERS) -> Path:
    return plans.written(path, PLAN, plans.answers(reports, 4))


def test_a_shuffle_of_too_few(tmp_path: Path) -> None:
    with pytest.raises(BatchTooSmall):
        SPARK.shuffle([encoded(tmp_path / "a.parquet", 59)], PLAN, tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_shuffle_of_what_was_shuffled_before(tmp_path: Path) -> None:
    first, record = encoded(tmp_path / "a.parquet"), tmp_path / "record"
    Local().shuffle([first], PLAN, tmp_path / "before.parquet", record=record)
    with pytest.raises(BatchRepeated) as told:
        SPARK.shuffle([first], PLAN, tmp_path / "made", record=record)
    with pytest.raises(BatchRepeated) as here:
        Local().shuffle([first], PLAN, tmp_path / "made.parquet", record=record)
    assert str(told.value) == str(here.value)
    both = [first, encoded(tmp_path / "b.parquet")]
    with pytest.raises(BatchRepeated, match="1 of 2"):
        SPARK.shuffle(both, PLAN, tmp_path / "made", record=record)


def test_a_shuffle_over_something_else(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "letter.txt").touch()
    with pytest.raises(InvalidInput, match="target"):
        SPARK.shuffle([encoded(tmp_path / "a.parquet")], PLAN, tmp_path / "made")


def test_a_count_of_too_few_of_nothing_and_of_another_plan(tmp_path: Path) -> None:
    few = plans.written(tmp_path / "a.parquet", PLAN, plans.answers(59, 4), stage="shuffled")
    with pytest.raises(BatchTooSmall):
        SPARK.tally([few], PLAN)
    with pytest.raises(InvalidFile, match="no file named"):
        SPARK.tally([tmp_path / "none.parquet"], PLAN)
    with pytest.raises(PlanMismatch):
        SPARK.tally([few], plans.clear(USERS + 1, 4))


def test_an_encode_of_nothing_into_a_batch_or_of_a_wrong_round(tmp_path: Path) -> None:
    table = plans.table(tmp_path / "answers.parquet", plans.answers(USERS, 4))
    with pytest.raises(InvalidTable, match="no file named"):
        SPARK.encode(tmp_path / "none.parquet", PLAN, tmp_path / "made")
    with pytest.raises(InvalidInput, match="round"):
        SPARK.encode(table, PLAN, tmp_path / "made", round=2)
    with pytest.raises(InvalidTable, match="drink"):
        SPARK.encode(table, PLAN, tmp_path / "made", columns={"answer": "drink"})
    with pytest.raises(InvalidInput, match="target"):
        SPARK.encode(table, PLAN, tmp_path / "nowhere" / "made")


@pytest.fixture
def campaign() -> reach.ReachPlan:
    audience = reach.Audience(["daily", "radio"])
    return reach.plan(audience, sizes=[1000, 1000], target=cf.Target(2, 1e-4))


def test_a_filter_of_somebody_else_or_of_another_column(
    campaign: reach.ReachPlan, tmp_path: Path
) -> None:
    ids, key = tmp_path / "ids.csv", reach.new_key()
    ids.write_text("id,other\na,b\n", "utf-8")
    with pytest.raises(InvalidInput, match="publisher"):
        SPARK.make_filter(ids, campaign, publisher="shop", key=key)
    with pytest.raises(InvalidTable, match="column"):
        SPARK.make_filter(ids, campaign, publisher="daily", key=key, columns=IdColumns("none"))
    with pytest.raises(InvalidTable, match="no file named"):
        SPARK.make_filter(tmp_path / "none.csv", campaign, publisher="daily", key=key)


def test_filters_that_do_not_belong_together(campaign: reach.ReachPlan, tmp_path: Path) -> None:
    ids, key = tmp_path / "ids.csv", reach.new_key()
    ids.write_text("id\na\nb\n", "utf-8")
    made = Local().make_filter(ids, campaign, publisher="daily", key=key)
    made.save(tmp_path / "daily.filter")
    with pytest.raises(InvalidInput, match="none of 'radio'"):
        SPARK.count_logos([tmp_path / "daily.filter"], campaign)
    with pytest.raises(StorageFault, match="no such file"):
        SPARK.count_logos([tmp_path / "daily.filter", tmp_path / "radio.filter"], campaign)


def test_what_is_counted_is_what_is_known(tmp_path: Path) -> None:
    plans.table(tmp_path / "a.parquet", plans.answers(5, 4))
    (tmp_path / "a.csv").write_text("answer\nv0\n", "utf-8")
    assert _unit(TableFiles.of(tmp_path / "a.parquet")) == "reports"
    assert _unit(TableFiles.of(tmp_path / "a.csv")) == "files"
    assert _unit(open_table(tmp_path / "a.csv")) == "reports"
