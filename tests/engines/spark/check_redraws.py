"""A task whose process ends when its work is done does it again: the same, or the test sees it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaffinch.engines.spark import shuffling
from chaffinch.engines.spark.engine import Spark
from chaffinch.engines.spark.job import Job
from chaffinch.privacy import Target
from chaffinch.reach.publisher.campaign_key import CampaignKey
from tests.engines import plans
from tests.engines.spark.kills import wait_for_executors
from tests.engines.spark.work import CutOnce
from tests.reach.publishing import KEY, small_plan
from tests.tiers import nightly

if TYPE_CHECKING:
    from pyspark import SparkContext

USERS = 900
CODES = plans.answers(USERS, 9)
SPARK = Spark()
ANY = Target(epsilon=1000, delta=0.01)
STEPS = {
    "encode": ("map", 0),
    "scatter": ("exchange", 1),
    "gather": ("exchange", 2),
    "flip": ("exchange", 2),
}


def drawn_again(folder: Path) -> bool:
    """Return whether the one task that ran twice has made two things."""
    notes = [path.read_text().split() for path in folder.glob("piece-*")]
    (twice,) = [one for one in notes if len(one) > 1]
    assert len(twice) == 2
    return twice[0] != twice[1]


@pytest.mark.parametrize("planted", [False, True], ids=["real", "planted"])
@pytest.mark.parametrize("step", ["encode", *map(nightly, ("scatter", "gather", "flip"))])
def test_a_task_that_draws_again_is_caught(
    context: SparkContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    *,
    planted: bool,
) -> None:
    wait_for_executors(context)
    notes, made = tmp_path / "notes", tmp_path / "made"
    notes.mkdir()
    name, place = STEPS[step]
    true = getattr(Job, name)

    def cut(job: Job, *arguments: Any, **options: Any) -> Any:
        given = list(arguments)
        given[place] = CutOnce(given[place], notes, made, planted)
        return true(job, *given, **options)

    monkeypatch.setattr(Job, name, cut)
    monkeypatch.setattr(shuffling, "PART_MESSAGES", 300)
    if step == "encode":
        plan = plans.flipped(USERS, 9, Fraction(1, 8))
        for part in range(2):
            plans.table(tmp_path / f"{part}.parquet", CODES[part * 450 :][:450])
        facts = SPARK.encode(tmp_path / "*.parquet", plan, made)
        assert facts.reports == USERS
    elif step == "flip":
        (tmp_path / "ids.csv").write_text("id\n" + "".join(f"{one}\n" for one in range(USERS)))
        asked: Any = {"publisher": "daily", "key": CampaignKey(KEY.secret), "within": ANY}
        found = SPARK.make_filter(tmp_path / "ids.csv", small_plan(bits=1 << 12), **asked)
        assert found.publisher == "daily"
    else:
        clear = plans.clear(USERS, 9)
        source = plans.written(tmp_path / "encoded.parquet", clear, CODES)
        SPARK.shuffle([source], clear, made, record=tmp_path / "record")
        assert sorted(plans.read(made).tolist()) == sorted(CODES.tolist())
    assert drawn_again(notes) is planted
