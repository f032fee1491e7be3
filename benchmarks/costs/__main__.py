"""Run with ``python -m benchmarks.costs``: every unit measured, beside the one that is committed.

The last column is what was measured over what is committed, both for a core of the same speed:
seconds are scaled by how many X25519 key exchanges the core makes, now and then.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields

from benchmarks.costs import audiences, encoding, files, memory, sealed
from benchmarks.findings import Finding, Line
from benchmarks.services.reference import exchanges
from benchmarks.tables import surroundings
from chaffinch.planning.costs.units import BYTES, EXCHANGES, SECONDS, Unit
from chaffinch.protocols import every_protocol
from chaffinch.protocols.base import EncodingSeconds

Figures = dict[str, tuple[float, float]]
"""By name: what is committed, and what was measured."""


def main() -> int:
    """Measure everything, and print tables or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    chosen = parser.parse_args()
    around = surroundings(("cryptography", "numpy", "pyarrow"))
    before = exchanges(2)
    seconds = encoding_figures() | unit_figures()
    held = {room.value: (BYTES[room], found) for room, found in memory.measure().items()}
    speed = (before + exchanges(2)) / 2 / EXCHANGES
    findings = [
        table("Processor time, ns", seconds, unit=1e-9, speed=speed),
        table("Memory and disk, bytes", held, unit=1.0, speed=1.0),
    ]
    if chosen.json:
        shown = [one.document() for one in findings]
        print(json.dumps({"surroundings": around, "speed": speed, "findings": shown}, indent=2))
        return 0
    print("; ".join(f"{name} {value}" for name, value in around.items()))
    print(
        f"X25519 key exchanges a second: {EXCHANGES:,.0f} committed, {speed * EXCHANGES:,.0f} now\n"
    )
    for finding in findings:
        print(f"{finding}\n")
    return 0


def encoding_figures() -> Figures:
    """Return what encoding takes, by protocol."""
    known = {one.kind: one.seconds for one in every_protocol()}
    return {
        f"{kind}: {field.name.replace('_', ', ')}": (
            getattr(known[kind], field.name),
            getattr(found, field.name),
        )
        for kind, found in encoding.measure().items()
        for field in fields(EncodingSeconds)
    }


def unit_figures() -> Figures:
    """Return what everything else takes."""
    found = sealed.envelopes()
    opened = found[Unit.OPEN]
    found |= sealed.device(found) | sealed.collector()
    found |= sealed.hops(opened) | sealed.analyzer(opened)
    found |= files.measure() | audiences.measure()
    return {unit.value: (SECONDS[unit], found[unit]) for unit in Unit}


def table(title: str, figures: Figures, *, unit: float, speed: float) -> Finding:
    """Return a table; ``speed`` is how fast this core is, over the one of the committed figures."""
    lines = [
        Line(name, (known / unit, found / unit, found * speed / known if known else None))
        for name, (known, found) in figures.items()
    ]
    return Finding(title, ("committed", "measured", "x committed"), lines)


if __name__ == "__main__":
    sys.exit(main())
