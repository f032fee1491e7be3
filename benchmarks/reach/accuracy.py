"""The error of the reach of all publishers, over many simulated collections.

Beside it: what was predicted, the same filters without flips (all that their size allows), and
a HyperLogLog union (`datasketches`), which keeps nothing private. Logo counts are drawn from
their exact law. Ten million ids with ``python -m benchmarks.reach.accuracy --large``.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import datasketches
import numpy as np

from benchmarks.findings import Finding, Goal, Line
from benchmarks.harness import tell
from chaffinch import reach
from chaffinch.privacy import Target
from chaffinch.reach.planning import estimator
from chaffinch.reach.planning.audience import Audience, Group
from chaffinch.reach.planning.estimator import Columns
from chaffinch.simulate import Publishers, disjoint, heavy_tailed, independent, nested
from chaffinch.simulate.publishers import flipped_logos, thrown
from chaffinch.simulate.seeded import generator

TARGET = Target(epsilon=1.0, delta=1e-9)
PUBLISHERS = (2, 3, 5, 8)
KINDS = ("independent", "nested", "disjoint", "heavy-tailed")
AIM = 1.1
"""Observed over predicted: over 500 runs this is three standard deviations."""
COLUMNS = ("reach", "error %", "predicted %", "x predicted", "without flips %", "foretold %")
LOG_SIZES = (12, 16, 21)
"""HyperLogLog sketches of 4 KiB, 64 KiB, and the largest that there is, 2 MiB."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many ids, and how often they are counted."""

    ids: int
    runs: int
    sketches: int


MOST_HASHES = 16
"""The most that the planner weighs: exact, and with little left against a colluder."""
USUAL = Scale(10**6, 500, 200)
LARGE = Scale(10**7, 500, 20)


def findings(scale: Scale = USUAL) -> Iterator[Finding]:
    """Yield a table for each number of publishers, and one of sketches."""
    for count in PUBLISHERS:
        for hashes in (None, MOST_HASHES):
            yield _filters(count, hashes, scale)
    yield _sketches(scale)
    tell("")


def _filters(count: int, hashes: int | None, scale: Scale) -> Finding:
    made = {kind: _publishers(kind, count, scale.ids) for kind in KINDS}
    lines = [_line(kind, publishers, hashes, scale.runs) for kind, publishers in made.items()]
    chosen = "hashes as planned" if hashes is None else f"{hashes} hashes"
    return Finding(
        f"{count} publishers, {scale.ids:,} ids, {scale.runs} runs, {chosen}, "
        f"epsilon = {TARGET.epsilon:g}, delta = {TARGET.delta:g} per id",
        COLUMNS,
        lines,
        [
            "error: root mean square over all runs, as a share of the true reach",
            "foretold: what the plan says without knowing any overlap (none is the worst case)",
        ],
    )


def _line(kind: str, publishers: Publishers, hashes: int | None, runs: int) -> Line:
    audience, people = publishers.audience, publishers.people
    everyone = Group(any_of=audience.publishers)
    plan = reach.plan(audience, sizes=publishers.sizes, target=TARGET, hashes=hashes)
    flip = float(plan.flip_probability)
    draws = generator(7, "columns", len(audience.publishers))
    away: list[tuple[float, float]] = []
    for run in range(runs):
        tell(f"{len(audience.publishers)} publishers, {kind}: run {run + 1} of {runs}")
        clear = thrown(audience, publishers.crowd, bits=plan.bits, hashes=plan.hashes, draws=draws)
        pair = ((flip, flipped_logos(clear, flip, draws)), (0.0, clear))
        found = [
            Columns(audience, plan.bits, plan.hashes, chance, counts / plan.bits)
            for chance, counts in pair
        ]
        away.append((found[0].estimate(everyone)[0], found[1].estimate(everyone)[0]))
    noisy, limit = 100.0 * np.sqrt(np.square(np.array(away) / people - 1.0).mean(axis=0))
    columns = estimator.expected(
        audience, publishers.crowd, bits=plan.bits, hashes=plan.hashes, flip=flip
    )
    predicted = 100.0 * columns.estimate(everyone)[1] / people
    cells = (
        float(people),
        float(noisy),
        predicted,
        float(noisy) / predicted,
        float(limit),
        100.0 * plan.standard_error / people,
    )
    size = plan.filter_bytes / 2**20
    note = f"{plan.bits} bits ({size:.1f} MiB), {plan.hashes} hashes, flipped with {flip:.4g}"
    return Line(kind, cells, Goal(AIM, float(noisy) / predicted, at_least=False), note)


def _publishers(kind: str, count: int, ids: int) -> Publishers:
    tell(f"{count} publishers, {kind}: ids")
    audience = Audience([f"p{place}" for place in range(count)])
    sizes = [ids // (2 + place % 3) for place in range(count)]
    if kind == "independent":
        return independent(audience, sizes, universe=ids, seed=1)
    if kind == "heavy-tailed":
        return heavy_tailed(audience, [size // 2 for size in sizes], universe=ids, seed=1)
    if kind == "nested":
        return nested(audience, [ids - place * ids // (2 * count) for place in range(count)])
    return disjoint(audience, [ids // count] * count)


def _sketches(scale: Scale) -> Finding:
    """Return the errors of unions of two sketches that share no id.

    What the registers of a union hold depends on its ids only, not on who brought them.
    """
    lines = []
    for log_size in LOG_SIZES:
        draws = generator(8, "columns", log_size)
        away = []
        for run in range(scale.sketches):
            tell(f"HyperLogLog, 2^{log_size} registers: run {run + 1} of {scale.sketches}")
            ids = draws.integers(0, 2**63, scale.ids)
            union = datasketches.hll_union(log_size)
            for half in (ids[::2], ids[1::2]):
                sketch = datasketches.hll_sketch(log_size, datasketches.tgt_hll_type.HLL_8)
                deque(map(sketch.update, half.tolist()), maxlen=0)
                union.update(sketch)
            away.append(union.get_estimate() / scale.ids - 1.0)
        error = 100.0 * float(np.sqrt(np.square(away).mean()))
        stated = 100.0 * float(1.04 / np.sqrt(2.0**log_size))
        cells = (float(scale.ids), error, stated, error / stated, None, None)
        lines.append(Line(f"2^{log_size} registers", cells, note=f"{2**log_size >> 10} KiB"))
    return Finding(
        f"HyperLogLog union without privacy, {scale.ids:,} ids, {scale.sketches} runs",
        COLUMNS,
        lines,
        ["predicted: 1.04/√registers (Flajolet et al. 2007), for many more ids than registers"],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reach.accuracy")
    parser.add_argument("--large", action="store_true", help="ten million ids")
    for finding in findings(LARGE if parser.parse_args().large else USUAL):
        print(f"{finding}\n", flush=True)
    sys.exit(0)
