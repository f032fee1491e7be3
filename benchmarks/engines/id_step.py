"""One step with ids of one engine, for ``benchmarks.engines``: STEP ENGINE FOLDER."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.engines.step import engine_of
from chaffinch import reach
from chaffinch.engines import Engine
from chaffinch.privacy import Target
from chaffinch.reach.publisher.campaign_key import CampaignKey
from tests.engines.plans import LEAST
from tests.reach.publishing import SECRET, small_plan

BITS = 1 << 26
PUBLISHERS = ("daily", "radio")
ANYTHING = Target(epsilon=100, delta=0.01)


def prepare(folder: Path, ids: int) -> None:
    """Make the plans, and the filters that are counted: with flips, as none would be refused."""
    small_plan(("daily",), bits=BITS, flip=LEAST).save(folder / "filter.plan.json")
    plan = small_plan(PUBLISHERS, bits=BITS, flip=Fraction(1, 8))
    plan.save(folder / "logos.plan.json")
    some = [str(number) for number in range(min(ids, 1000))]
    key = reach.new_key()
    for publisher in PUBLISHERS:
        made = reach.encode(some, plan, publisher=publisher, key=key, within=ANYTHING)
        made.save(folder / f"{publisher}.filter")


def make_filter(engine: Engine, folder: Path, name: str) -> None:
    """Hash all ids into a filter, always with the same key."""
    made = engine.make_filter(
        folder / "ids.parquet",
        reach.load_plan(folder / "filter.plan.json"),
        publisher="daily",
        key=CampaignKey(SECRET),
        within=ANYTHING,
    )
    made.save(folder / f"{name}.filter")


def count_logos(engine: Engine, folder: Path, name: str) -> None:
    """Count the columns of two filters."""
    plan = reach.load_plan(folder / "logos.plan.json")
    found = engine.count_logos([folder / f"{one}.filter" for one in PUBLISHERS], plan)
    np.save(folder / f"logos-{name}.npy", found.counts)


STEPS: dict[str, Callable[[Engine, Path, str], None]] = {
    "filter": make_filter,
    "logos": count_logos,
}

if __name__ == "__main__":
    _step, _name, _folder = sys.argv[1:]
    STEPS[_step](engine_of(_name), Path(_folder), _name)
