"""What filters take: publishers, a shuffler, an analyzer."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.costs.fitting import share_out, spent
from benchmarks.harness import tell
from chaffinch import reach
from chaffinch.planning.costs.units import Unit
from chaffinch.privacy import Target
from chaffinch.reach.analyzer.logos import count_logos
from chaffinch.reach.shuffler.hand_over import shuffle_with
from chaffinch.sampling import secure_words

IDS = (200_000, 1_000_000)
BITS = 1 << 24
TARGET = Target(1.0, 1e-8)


def measure() -> dict[Unit, float]:
    """Return the seconds of an id and of a bit."""
    with tempfile.TemporaryDirectory() as name:
        return _publisher(Path(name)) | _others(Path(name))


def _plan(*, hashes: int = 1, frequencies: int = 1, shuffled: bool = False) -> reach.ReachPlan:
    return reach.plan(
        reach.Audience(["daily", "radio"], frequencies=frequencies),
        sizes=[IDS[-1], IDS[-1]],
        target=TARGET,
        bits=BITS,
        hashes=hashes,
        shuffled=shuffled,
        anyway=True,
    )


def _publisher(folder: Path) -> dict[Unit, float]:
    tell("publisher")
    tables = [_table(folder, number) for number in IDS]

    def seconds(place: int, plan: reach.ReachPlan) -> float:
        def encode() -> None:
            key = reach.new_key()
            made = reach.encode(tables[place], plan, publisher="daily", key=key)
            made.save(folder / "daily.filter")

        return spent(encode, turns=3)

    once = share_out(*((number, seconds(at, _plan())) for at, number in enumerate(IDS)))
    again = seconds(1, _plan(hashes=2)) - seconds(1, _plan())
    counted = seconds(1, _plan(frequencies=2)) - seconds(1, _plan())
    return {
        Unit.HASH_ID: once.each,
        Unit.FLIP_BIT: once.once / BITS,
        Unit.HASH_AGAIN: max(0.0, again) / IDS[1],
        Unit.REPEAT_ID: max(0.0, counted - once.once) / IDS[1],
    }


def _table(folder: Path, number: int) -> Path:
    ids = [number.to_bytes(8, "big").hex() for number in range(number)]
    path = folder / f"{number}.parquet"
    pq.write_table(pa.table({"id": ids}), path)
    return path


def _others(folder: Path) -> dict[Unit, float]:
    tell("shuffler and analyzer of filters")
    table, direct, through = _table(folder, IDS[0]), _plan(), _plan(shuffled=True)
    plain, flipped = (_filters(folder, table, plan) for plan in (direct, through))
    bits = BITS * direct.audience.rows

    def count() -> None:
        count_logos([reach.load_filter(path) for path in plain], direct, workers=1)

    def shuffle() -> None:
        shuffle_with([reach.load_filter(path) for path in flipped], through, secure_words())

    return {Unit.COUNT_BIT: spent(count) / bits, Unit.SHUFFLE_BIT: spent(shuffle) / bits}


def _filters(folder: Path, table: Path, plan: reach.ReachPlan) -> list[Path]:
    """Return the files of the filters of all publishers, who have the same ids."""
    key, paths = reach.new_key(), []
    for publisher in plan.audience.publishers:
        paths.append(folder / f"{publisher}-{plan.id}.filter")
        reach.encode(table, plan, publisher=publisher, key=key).save(paths[-1])
    return paths
