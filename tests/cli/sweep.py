"""Run one verb with a fault at each of its steps in turn, and check what is left every time.

Called as a program, so that forks start from a process without threads. Prints how many steps
there were.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from chaffinch import Ledger, load_release
from chaffinch.errors import ChaffinchError
from chaffinch.reach import load_filter
from tests.cli.faults import ask, run_until


def look(folder: Path, valid: Callable[[Path], list[Path]]) -> tuple[int, list[str]]:
    """Return how often was charged, and what can be read as a result."""
    paid = len(Ledger.open(folder / "ledger", mark=folder / "mark").entries())
    return paid, [str(path) for path in valid(folder)]


def filters(folder: Path) -> list[Path]:
    """Return every file, hidden ones included, that can be taken for a filter."""
    found = []
    for path in folder.rglob("*"):
        try:
            load_filter(path)
        except ChaffinchError:
            continue
        found.append(path)
    return found


def releases(folder: Path) -> list[Path]:
    """Return every file that can be taken for a release."""
    found = []
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        try:
            load_release(path)
        except ChaffinchError:
            continue
        found.append(path)
    return found


PUBLISHER = (
    "--plan {0}/reach.plan.json --key {0}/campaign.key --publisher daily -o {0}/daily.filter"
)
VERBS: dict[str, tuple[str, Callable[[Path], list[Path]], str]] = {
    "run": (
        "run {0}/survey.plan.json --data {0}/people.csv -o {0}/out",
        releases,
        "out/release.json",
    ),
    "analyze": (
        "analyze {0}/shuffled.parquet --plan {0}/survey.plan.json -o {0}/release.json",
        releases,
        "release.json",
    ),
    "reach encode": ("reach encode {0}/ids.csv " + PUBLISHER, filters, "daily.filter"),
}


def sweep(verb: str, fault: str, start: Path, every: int) -> int:
    """Fail at every step (or every few) until none is left; return about how many there are."""
    line, valid, result = VERBS[verb]
    budget = "--ledger {0}/ledger --mark {0}/mark --json -q"
    step = 1
    while True:
        folder = start.with_name(f"{start.name}-{verb.replace(' ', '-')}-{fault}-{step}")
        shutil.copytree(start, folder)
        words = f"{line} {budget}".format(folder).split()
        code, reached = run_until(step, words, fault=fault)
        paid, found = ask(partial(look, folder, valid))
        about = (verb, fault, step, code, paid, found)
        assert paid <= 1, about
        assert not found or paid == 1, ("something unpaid can be read", about)
        if not reached:
            assert (code, paid) == (0, 1), about
            shutil.rmtree(folder)
            return step - 1
        complete = (folder / result).exists() and not list(folder.rglob(".chaffinch-*.waiting"))
        if not complete:
            again, _ = run_until(0, words, fault="none")
            assert again == 0, ("the same command again", again, about)
            paid, found = ask(partial(look, folder, valid))
            assert paid == 1, ("paid once for one result", about)
            assert found == [str(folder / result)], (found, about)
            assert not list(folder.rglob(".chaffinch-*.waiting")), about
        shutil.rmtree(folder)
        step += every


if __name__ == "__main__":
    sys.stdout.write(str(sweep(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
