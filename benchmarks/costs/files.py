"""What messages in files take to shuffle and to count."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.costs.fitting import spent
from benchmarks.harness import tell
from chaffinch.engines.local import Local
from chaffinch.planning.costs.units import Unit
from tests.engines.plans import clear, written

MESSAGES, CODES = 4_000_000, 100


def measure() -> dict[Unit, float]:
    """Return the seconds of a message, on one core and in bounded memory."""
    tell("files")
    plan, engine = clear(10, CODES), Local(workers=1)
    codes = np.random.default_rng(1).integers(0, CODES, MESSAGES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = written(folder / "encoded.parquet", plan, codes)
        target = folder / "shuffled.parquet"
        turns = iter(range(100))

        def shuffle() -> None:
            target.unlink(missing_ok=True)
            engine.shuffle([source], plan, target, record=folder / f"record{next(turns)}")

        return {
            Unit.SHUFFLE_MESSAGE: spent(shuffle) / MESSAGES,
            Unit.TALLY_MESSAGE: spent(lambda: engine.tally([target], plan)) / MESSAGES,
        }
