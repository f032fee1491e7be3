"""Killed or cut from power after any call: nothing told is lost, nothing counts twice.

A scene is played once by all parties, and every call to the disk is written down. Then the disk
is rebuilt as it is when all ends at one of the calls, everything comes back on it, and what is
released must have every acknowledged number once, in batches of a crowd; of a reach, one batch of
the filters of all publishers. See ``scenes.py``, ``reach.py`` and ``sweep.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import forks
from tests.services.faults import calls
from tests.services.faults.plants import PLANTS, REACH_PLANTS

GATE = {"one hop": (130, 60), "two hops": (70, 40), "reach": (50, 40), "first start": (60, 140)}
"""Kills and power cuts."""
LEAST = (300, 200)
"""So many of both together before any change is taken."""
LONG = {
    "one hop": (2000, 3000),
    "two hops": (4000, 3000),
    "rounds and rotation": (4000, 4000),
    "reach": (1000, 1000),
    "first start": (600, 4000),
}


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what writes calls down."""
    return calls.build(tmp_path_factory.mktemp("recorder"))


def sweep(recorder: Path, folder: Path, scene: str, *chosen: object) -> dict[str, Any]:
    words = [str(folder), scene, *map(str, chosen)]
    program = "import sys\nfrom tests.services.faults.sweep import main\nmain(sys.argv[1:])\n"
    done = forks.run(program, *words, environment={"LD_PRELOAD": str(recorder)})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_there_are_enough_ends() -> None:
    kills, cuts = map(sum, zip(*GATE.values(), strict=True))
    assert (kills >= LEAST[0], cuts >= LEAST[1]) == (True, True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", GATE)
def test_nothing_told_is_lost_and_nothing_counts_twice(
    recorder: Path, tmp_path: Path, scene: str
) -> None:
    kills, cuts = GATE[scene]
    found = sweep(recorder, tmp_path, scene, kills, cuts, 1)
    assert not found["failed"], found
    assert found["done"] == {"kill": kills, "cut": cuts}


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("turn", range(10))
@pytest.mark.parametrize("scene", LONG)
def test_ends_at_every_call(recorder: Path, tmp_path: Path, scene: str, turn: int) -> None:
    """Every turn plays the scene anew, with other keys, orders and draws."""
    kills, cuts = (many // 10 for many in LONG[scene])
    found = sweep(recorder, tmp_path, scene, kills, cuts, 1000 + turn)
    assert not found["failed"], found
    assert found["done"] == {"kill": kills, "cut": cuts}


@pytest.mark.parametrize("plant", [*PLANTS, *REACH_PLANTS])
def test_a_planted_fault_is_found(recorder: Path, tmp_path: Path, plant: str) -> None:
    scene = "one hop" if plant in PLANTS else "reach"
    # Some faults show at few calls, so there are many cuts; the first loss ends them.
    found = sweep(recorder, tmp_path, scene, 90, 800, 1, plant)
    assert found["failed"], found
