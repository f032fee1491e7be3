"""An encode in which one task is slow, as a program: the master, the tables, notes and target."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from chaffinch.engines.spark.engine import Spark
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.tasks import Keyring
from tests.engines import plans
from tests.engines.spark.work import PATIENCE_SECONDS, PAUSE_SECONDS

USERS, VALUES, PIECES = 1200, 9, 4
PLAN = plans.flipped(USERS, VALUES, Fraction(1, 8))


@dataclass(frozen=True)
class Slow:
    """Does a task's work and notes it; the first one at the last piece waits for another."""

    function: Callable[..., Any]
    notes: Path
    made: Path

    def __call__(self, ring: Keyring, numbered: tuple[int, Any]) -> Any:
        found = self.function(ring, numbered)
        content = b"".join((self.made / part.name).read_bytes() for part in found.parts)
        digest = hashlib.sha256(content).hexdigest()
        (self.notes / f"{numbered[0]}-{os.getpid()}").write_text(digest, encoding="utf-8")
        end = time.monotonic() + PATIENCE_SECONDS
        while numbered[0] == PIECES - 1 and time.monotonic() < end and self._alone():
            time.sleep(PAUSE_SECONDS)
        return found

    def _alone(self) -> bool:
        return len(list(self.notes.glob(f"{PIECES - 1}-*"))) < 2


def main(master: str, tables: str, notes: str, made: str) -> None:
    true = Job.map

    def slowed(job: Job, function: Any, *given: Any, **options: Any) -> Any:
        return true(job, Slow(function, Path(notes), Path(made)), *given, **options)

    Job.map = slowed  # type: ignore[assignment,method-assign] # as monkeypatch does
    Spark(master).encode(tables, PLAN, made)


if __name__ == "__main__":
    main(*sys.argv[1:])
