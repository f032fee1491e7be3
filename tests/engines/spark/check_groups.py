"""Public groups on a cluster: most pieces of a table may have nobody of the group."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.engines.local import Local
from chaffinch.engines.spark.engine import Spark
from chaffinch.errors import InvalidTable
from chaffinch.plans.plan import Plan
from chaffinch.questions import Choice, PublicGroup
from tests.engines import plans

pytestmark = pytest.mark.usefixtures("context")

SPARK = Spark()


def living_in(city: str) -> Plan:
    group = PublicGroup("city", Choice(["Bath", "Cork", "Oslo"]), city)
    return replace(plans.clear(2, 4), group=group)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, city, answers in (("a", "Bath", ["v0", "v1"]), ("b", "Cork", ["v2", "v2"])):
        pq.write_table(
            pa.table({"city": [city] * 2, "answer": answers}), folder / f"{name}.parquet"
        )
    return folder


def test_a_piece_without_anybody_of_the_group_adds_nobody(tables: Path, tmp_path: Path) -> None:
    for city, wanted in (("Bath", [0, 1]), ("Cork", [2, 2])):
        facts = SPARK.encode(tables, living_in(city), tmp_path / city)
        assert facts.reports == 2
        assert sorted(plans.read(tmp_path / city).tolist()) == wanted
        Local().encode(tables, living_in(city), tmp_path / f"{city}.parquet")
        assert sorted(plans.read(tmp_path / f"{city}.parquet").tolist()) == wanted


def test_a_group_of_nobody_is_refused_as_on_one_machine(tables: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidTable) as here:
        Local().encode(tables, living_in("Oslo"), tmp_path / "made.parquet")
    with pytest.raises(InvalidTable) as there:
        SPARK.encode(tables, living_in("Oslo"), tmp_path / "made")
    assert str(there.value) == str(here.value)
    assert not (tmp_path / "made").exists()
