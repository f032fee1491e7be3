"""An executor is killed in mid-job: what comes out is what would have come out."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chaffinch.engines.spark import shuffling
from chaffinch.engines.spark.engine import Spark
from tests.engines import plans
from tests.engines.spark.kills import holding, killing, wait_for_executors
from tests.engines.spark.work import Spread

if TYPE_CHECKING:
    from pyspark import SparkContext

USERS = 4000
PLAN = plans.clear(USERS, 9)
CODES = plans.answers(USERS, 9)
SPARK = Spark()


@pytest.fixture(autouse=True)
def _small_parts(context: SparkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_executors(context)
    monkeypatch.setattr(shuffling, "PART_MESSAGES", 1000)


@pytest.fixture
def encoded(tmp_path: Path) -> list[Path]:
    return [
        plans.written(tmp_path / f"{number}.parquet", PLAN, CODES[number * 1000 :][:1000])
        for number in range(4)
    ]


STEPS = {"counting": ("reduce", 0), "scattering": ("exchange", 1), "gathering": ("exchange", 2)}
LONG = [pytest.param(step, number, marks=pytest.mark.long) for step in STEPS for number in (0, 2)]


@pytest.mark.parametrize(("step", "number"), [("gathering", 1), *LONG])
def test_a_shuffle_loses_and_doubles_nothing(
    encoded: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    number: int,
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setattr(shuffling, "_scatter", Spread(tmp_path))
    holding(monkeypatch, *STEPS[step], gate, number)
    with killing(gate) as killed:
        SPARK.shuffle(encoded, PLAN, tmp_path / "made")
    assert len(killed) == 1
    assert sorted(plans.read(tmp_path / "made").tolist()) == sorted(CODES.tolist())
    times = len(list(tmp_path.glob("scattered-*")))
    # What an executor has sent is gone with it, and has to be sent again.
    assert times > len(encoded) if step == "gathering" else times >= len(encoded)


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_a_tally_counts_everything_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    sources = [
        plans.written(
            tmp_path / f"{part}.parquet", PLAN, CODES[part * 1000 :][:1000], stage="shuffled"
        )
        for part in range(4)
    ]
    gate = tmp_path / "gate"
    holding(monkeypatch, "reduce", 0, gate, number)
    with killing(gate) as killed:
        tally = SPARK.tally(sources, PLAN)
    assert len(killed) == 1
    assert tally.counts.tolist() == np.bincount(CODES, minlength=9).tolist()


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1])
def test_everybody_is_encoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    plan = plans.flipped(USERS, 9, Fraction(1, 2**40))
    (tmp_path / "tables").mkdir()
    for part in range(4):
        plans.table(tmp_path / "tables" / f"{part}.parquet", CODES[part * 1000 :][:1000])
    gate = tmp_path / "gate"
    holding(monkeypatch, "map", 0, gate, number)
    with killing(gate) as killed:
        facts = SPARK.encode(tmp_path / "tables", plan, tmp_path / "made")
    assert len(killed) == 1
    assert facts.reports == USERS
    assert sorted(plans.read(tmp_path / "made").tolist()) == sorted(CODES.tolist())
