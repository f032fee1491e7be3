"""Processes that race and die, run as ``python -m tests.ledger.worker``.

One process loads everything once and forks: thousands of short lives would otherwise spend
their time importing. Each command prints one JSON line.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, ClassVar

from chaffinch import Bit, encode_many, shuffle
from chaffinch.analysis.analyze import charge_release
from chaffinch.analysis.tally import tally
from chaffinch.errors import BudgetExhausted, StorageFault
from chaffinch.ledger import Charge, Entry, Ledger, ledger, schema
from chaffinch.ledger.chain import Mark
from chaffinch.ledger.charge import fits, total
from chaffinch.ledger.schema import History
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from tests.ledger import made
from tests.ledger.made import ONE

CHARGES = ("a", "b", "c")


class Careless(Ledger):
    """Reads, thinks, then writes without looking again: the mistake the race must show."""

    everyone: ClassVar[Barrier]

    def _history(self) -> History:
        history = super()._history()
        self.everyone.wait(60)  # nobody writes before all have read
        return history

    def _allows(self, seen: History, now: History, charge: Charge) -> bool:  # noqa: ARG002
        return fits(total((*seen.charges, charge)), self.cap)


KINDS: dict[str, tuple[type[Ledger], int]] = {
    "shipped": (Ledger, ledger.TRIES),
    "always under the lock": (Ledger, 1),
    "careless": (Careless, 1),
}


def forked(work: Callable[[], object]) -> int:
    """Start ``work`` in a child that leaves no other trace than what it writes."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def race(kind: str, folder: Path, processes: int, attempts: int, shared: int) -> dict[str, Any]:
    """Let processes charge at once; the first ``shared`` keys are the same for all of them."""
    made_as, ledger.TRIES = KINDS[kind]
    Careless.everyone = multiprocessing.get_context("fork").Barrier(processes)
    for count in range(1, processes * attempts + 1):
        # The verdicts are inherited by the children, so that they meet at the lock.
        if not fits(total([ONE] * count), made.CAP):
            break
    start, go = os.pipe()

    def run(number: int) -> None:
        os.close(go)
        mine = made.reopen(folder, made_as)
        os.read(start, 1)
        told = []
        for attempt in range(attempts):
            key = f"{attempt}" if attempt < shared else f"{number}/{attempt}"
            try:
                entry = mine.charge(ONE, key)
            except BudgetExhausted:
                continue
            told.append([entry.key, entry.sequence, entry.replayed])
        (folder / f"told-{number}").write_text(json.dumps(told), encoding="utf-8")

    children = [forked(lambda number=number: run(number)) for number in range(processes)]  # type: ignore[misc]
    os.close(go)
    codes = [os.waitpid(child, 0)[1] for child in children]
    told = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("told-*")]
    return {"codes": codes, "told": [line for lines in told for line in lines]}


def content(folder: Path, processes: int, batches: int) -> dict[str, Any]:
    """Let processes release the same batches at once, each under names of its own."""
    part = Part("q", Bit(), Flips(Fraction(1, 16)))
    plan = Plan("", (part,), 20, 20, 20, 1, epsilon=3.0, delta=1e-2)
    found = [tally(shuffle(encode_many([True] * 20, plan))) for _ in range(batches)]
    for count in range(1, batches + 1):
        fits(
            total([Charge.of(plan)] * count), made.reopen(folder).cap
        )  # so that they meet at the lock
    starts = [os.pipe() for _ in found]

    def run(number: int) -> None:
        mine = made.reopen(folder)
        for one, (start, go) in zip(found, starts, strict=True):
            os.close(go)
            os.read(start, 1)
            charge_release(mine, plan, one, key=f"{number}/{one.name}")

    children = [forked(lambda number=number: run(number)) for number in range(processes)]  # type: ignore[misc]
    for _, go in starts:
        time.sleep(0.05)
        os.close(go)
    codes = [os.waitpid(child, 0)[1] for child in children]
    return {"codes": codes, "subjects": [one.subject for one in made.reopen(folder).entries()]}


class Countdown:
    """Kills its own process at the n-th point that it passes."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.passed = 0

    def __call__(self) -> None:
        self.passed += 1
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self()
            result = function(*arguments, **options)
            self()
            return result

        return counted

    def install(self) -> None:
        """Put points before and after everything that changes a file."""
        tick = self

        class Counted(sqlite3.Connection):
            def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
                if sql.startswith(("SELECT", "PRAGMA")):
                    return super().execute(sql, *arguments)
                counted: sqlite3.Cursor = tick.around(super().execute)(sql, *arguments)
                return counted

        connect = sqlite3.connect
        schema.sqlite3.connect = (  # type: ignore[attr-defined]
            lambda *arguments, **options: connect(*arguments, factory=Counted, **options)
        )
        for name in ("fsync", "replace", "link", "unlink"):
            setattr(os, name, self.around(getattr(os, name)))


def life(folder: Path, *, keep: bool = False) -> None:
    """Make a ledger and charge it, writing down what was acknowledged."""
    said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    mine = made.create(folder)
    os.write(said, b"+")
    for key in CHARGES:
        try:
            mine.charge(ONE, key, content=key.encode())
        except StorageFault:
            os.write(said, b"!")
            continue
        os.write(said, key.encode())
        if keep:
            shutil.copy(folder / "ledger", folder / f"after-{key}")


def mark_first() -> None:
    """Break the order of writing: the mark moves before the row is committed."""
    append = schema.append

    def hasty(connection: sqlite3.Connection, entry: Entry, content: bytes | None = None) -> None:
        file = connection.execute("PRAGMA database_list").fetchone()[2]
        mark = Path(file).with_name("mark")
        replace(Mark.read(mark), sequence=entry.sequence, hash=entry.hash).replace(mark)
        append(connection, entry, content)

    schema.append = hasty


def mark_never() -> None:
    """Break the order of writing: charges are acknowledged without the mark."""
    Ledger._move_mark = lambda *_: None  # type: ignore[method-assign]  # noqa: SLF001


ORDERS: dict[str, Callable[[], None]] = {
    "shipped": lambda: None,
    "mark first": mark_first,
    "mark never": mark_never,
}


def deaths(order: str, folder: Path, step: int) -> dict[str, Any]:
    """Live once for every ``step``-th point, die there, and report how many points there were."""
    ORDERS[order]()
    fits(total([ONE]), made.CAP)
    for point in itertools.count(1, step):
        place = folder / str(point)
        place.mkdir()

        def run(place: Path = place, point: int = point) -> None:
            Countdown(point).install()
            life(place, keep=True)

        status = os.waitpid(forked(run), 0)[1]
        if not os.WIFSIGNALED(status):
            return {"points": point, "code": os.WEXITSTATUS(status)}
    raise AssertionError


def full(folder: Path, limit: int) -> dict[str, Any]:
    """Charge while no file may grow beyond ``limit`` bytes, as on a full disk."""
    mine = made.reopen(folder)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        mine.charge(ONE, "full")
    except StorageFault as fault:
        return {"fault": fault.code}
    return {"fault": None}


COMMANDS: dict[str, Callable[..., object]] = {
    "race": lambda kind, folder, *counts: race(kind, Path(folder), *map(int, counts)),
    "content": lambda folder, *counts: content(Path(folder), *map(int, counts)),
    "deaths": lambda order, folder, step: deaths(order, Path(folder), int(step)),
    "life": lambda folder: life(Path(folder)),
    "full": lambda folder, limit: full(Path(folder), int(limit)),
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
