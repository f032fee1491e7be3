"""One hundred million ids from a Parquet file to a filter, and back to their number.

Run with ``python -m benchmarks.reach.hundred_million``. Every step is a process of its own, so
its peak memory is its own too. The ids are texts of 32 hexadecimal digits; a quarter of the
rows repeat an id of the row group before.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.steps import Found, Step, main

if TYPE_CHECKING:
    from chaffinch.reach.planning.reach_plan import ReachPlan

ROWS = 100_000_000
BITS = 1 << 27
LIMIT = 1024.0
"""Mebibytes that no step may exceed."""
CHUNK = 1_000_000
AGAIN = 4
"""One row in so many repeats an id."""


def make_plan(folder: Path, rows: int) -> Found:
    """Calibrate plans for one publisher, with and without frequencies, and save them."""
    from chaffinch.privacy import Target
    from chaffinch.reach.planning.audience import Audience
    from chaffinch.reach.planning.reach_planner import plan
    from chaffinch.reach.publisher.campaign_key import new_key

    new_key().save(folder / "campaign.key")
    for frequencies in (1, 3):
        made = plan(
            Audience(["daily"], frequencies=frequencies),
            sizes=[rows],
            target=Target(1.0, 1e-9),
            bits=BITS,
            hashes=1,
        )
        made.save(folder / f"plan-{frequencies}.json")
    return {}


def make_table(folder: Path, rows: int) -> Found:
    """Write the ids in row groups."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(1)
    schema = pa.schema([("id", pa.string())])
    before = np.zeros((0, 16), np.uint8)
    with pq.ParquetWriter(folder / "ids.parquet", schema, use_dictionary=False) as writer:
        for start in range(0, rows, CHUNK):
            count = min(CHUNK, rows - start)
            again = before[: count // AGAIN]
            fresh = random.integers(0, 256, (count - len(again), 16), dtype=np.uint8)
            before = fresh
            digits = np.frombuffer(np.concatenate([again, fresh]).tobytes().hex().encode(), "u1")
            offsets = pa.py_buffer(np.arange(0, 32 * count + 1, 32, dtype=np.int32))
            texts = pa.Array.from_buffers(pa.string(), count, [None, offsets, pa.py_buffer(digits)])
            writer.write_table(pa.table([texts], schema=schema))
    return {"bytes": (folder / "ids.parquet").stat().st_size}


def encode(folder: Path, rows: int) -> Found:
    """Encode whether each id was seen."""
    return _encoded(folder, rows, 1)


def frequencies(folder: Path, rows: int) -> Found:
    """Encode whether each id was seen once, twice and three times."""
    return _encoded(folder, rows, 3)


def _encoded(folder: Path, rows: int, times: int) -> Found:
    from chaffinch.reach.publisher.campaign_key import load_key
    from chaffinch.reach.publisher.filter_making import encode as filter_of

    seen: list[int] = []
    made = filter_of(
        folder / "ids.parquet",
        _plan(folder, times),
        publisher="daily",
        key=load_key(folder / "campaign.key"),
        progress=lambda done, _of: seen.append(done),
    )
    assert seen[-1] == rows
    made.save(folder / f"{times}.filter")
    return {"bytes": (folder / f"{times}.filter").stat().st_size}


def analyze(folder: Path, rows: int) -> Found:
    """Estimate how many ids there were, and how many came twice."""
    from chaffinch.reach.analyzer.logos import count_logos
    from chaffinch.reach.planning.audience import Group
    from chaffinch.reach.planning.estimator import Columns
    from chaffinch.wire.filter_files import load_filter

    chunks = [min(CHUNK, rows - start) for start in range(0, rows, CHUNK)]
    twice = sum(chunk // AGAIN for chunk in chunks[1:])
    found: Found = {}
    for frequency, times, truth in ((1, 1, rows - twice), (3, 1, rows - twice), (3, 2, twice)):
        plan = _plan(folder, frequency)
        logos = count_logos([load_filter(folder / f"{frequency}.filter")], plan)
        flip = float(plan.flip_probability)
        columns = Columns(plan.audience, plan.bits, plan.hashes, flip, logos.counts / plan.bits)
        estimate, error = columns.estimate(Group(any_of=("daily",), times=times))
        name = f"seen {times} times of {frequency}"
        found[name] = {"estimate": estimate, "truth": truth, "standard error": error}
    return found


def _plan(folder: Path, times: int) -> ReachPlan:
    from chaffinch.reach.planning.reach_plan import load_plan

    return load_plan(folder / f"plan-{times}.json")


STEPS: dict[str, Step] = {
    "plan": make_plan,
    "table": make_table,
    "encode": encode,
    "frequencies": frequencies,
    "analyze": analyze,
}


def shown(steps: dict[str, Found], rows: int) -> str:
    """Return the findings as a table."""
    names = ("step", "seconds", "processor", "million/s", "MiB", "x limit")
    head = "  {:12} {:>8} {:>10} {:>10} {:>6} {:>8}".format(*names)
    lines = [f"{rows:,} rows, filters of {BITS:,} bits, limit {LIMIT:.0f} MiB", head]
    for step, found in steps.items():
        counted = step in {"table", "encode", "frequencies"}
        rate = f"{rows / found['seconds'] / 1e6:.1f}" if counted else ""
        lines.append(
            f"  {step:12} {found['seconds']:8.2f} {found['processor seconds']:10.2f} {rate:>10} "
            f"{found['peak MiB']:6.0f} {found['peak MiB'] / LIMIT:8.2f}"
        )
    for name, found in steps["analyze"].items():
        if isinstance(found, dict):
            away = (found["estimate"] - found["truth"]) / found["standard error"]
            lines.append(
                f"  * {name}: {found['estimate']:,.0f} of {found['truth']:,} ids, "
                f"{away:+.2f} standard errors"
            )
    lines.append("  * processor: seconds of all threads, the start of Python included")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main("benchmarks.reach.hundred_million", STEPS, size=ROWS, limit=LIMIT, shown=shown))
