"""Analyzers that a test kills: ``python -m tests.analysis.crashing careful FOLDER=PLACE …``.

Each takes in all batches of ``FOLDER/sent`` whose receipt is not there yet, as a hop that tries
again and again would send them, and works until nothing waits; it is killed at its failpoint, or
stopped by a disk that is full at ``full:BYTES``. One process loads everything and forks them.
How each ended is printed.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from chaffinch.analysis.batch_analysis import Analyzer
from chaffinch.analysis.received import KnownBatches
from chaffinch.analysis.survey_analysis import SurveyAnalysis
from chaffinch.disk import kill_points
from chaffinch.errors import StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Entry, Ledger
from chaffinch.plans.plan import load_plan
from chaffinch.wire.arrivals import Arrival, Expected, has_arrived

_BLOCK = 1000


def open_analyzer(folder: Path, *, level: float = 0.95) -> Analyzer:
    keys, plans = KeyFolder.open(folder / "keys"), [SurveyAnalysis(load_plan(folder / "plan.json"))]
    ledger = None
    if (folder / "ledger").exists():
        ledger = Ledger.open(folder / "ledger", mark=folder / "mark")
    return Analyzer(folder / "data", keys, plans, ledger=ledger, level=level)


def accepted_names(keys: KeyFolder) -> set[bytes]:
    """Return the names of the keys that batches are taken for."""
    return {one.key.sealing.name for one in keys.accepted_keys().values()}


def send(folder: Path) -> None:
    """Send what is not acknowledged, and note what is."""
    plan, keys = load_plan(folder / "plan.json"), KeyFolder.open(folder / "keys")
    expected, inbox = Expected.of(plan, plan.layout.hops), folder / "data" / "received"
    for path in sorted((folder / "sent").iterdir()):
        acknowledged = folder / "receipts" / path.stem
        if acknowledged.exists():
            continue
        known = KnownBatches(folder / "data" / "state.sqlite").find(path.stem)
        if known is None and not has_arrived(inbox, path.stem):
            content = path.read_bytes()
            with Arrival(inbox, path.stem, expected, partial(accepted_names, keys)) as arrival:
                for at in range(0, len(content), _BLOCK):
                    arrival.write(content[at : at + _BLOCK])
                arrival.finish()
        acknowledged.touch()


def main(folder: Path, level: float) -> None:
    with closing(open_analyzer(folder, level=level)) as analyzer:
        send(folder)
        while analyzer.step():
            pass


def pay_without_keeping() -> None:
    """Plant the fault: a charge is made, and what it pays for is stored some time later."""
    charge = Ledger.charge

    def charge_alone(self: Ledger, *asked: Any, content: bytes | None = None, **more: Any) -> Entry:
        assert content is not None
        return charge(self, *asked, **more)

    Ledger.charge = charge_alone  # type: ignore[method-assign]


def fill_disk(limit: int) -> None:
    """Let no file grow beyond a limit, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def life(folder: Path, place: str) -> int:
    """Return how an analyzer ended that was to be killed at a place."""
    child = os.fork()
    if not child:
        code = 1
        try:
            if place.startswith("full:"):
                fill_disk(int(place.removeprefix("full:")))
            elif place:
                kill_points._wanted = kill_points._Wanted(place)  # noqa: SLF001
            main(folder, 0.95)
            code = 0
        except StorageFault:
            code = 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    if sys.argv[1] == "careless":
        pay_without_keeping()
    pairs = [text.split("=") for text in sys.argv[2:]]
    sys.stdout.write(" ".join(str(life(Path(folder), place)) for folder, place in pairs))
