"""A device loads what a device needs: how much of chaffinch one answer takes, for every protocol.

Each case is a process of its own, in which nothing of chaffinch was loaded: it reads a plan from
a file and encodes one answer, which verifies the plan.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from chaffinch.plans.parts import Part, total_of
from chaffinch.plans.plan import Plan
from chaffinch.protocols import PROTOCOLS, Decoys, Encoded, FlippedDecoys, Flips, Protocol, Signed
from chaffinch.protocols.signed import Digit
from chaffinch.protocols.weighted import Weighted
from chaffinch.questions import Bit, Choice, Flags, Number, Question
from tests.meta import repository

MOST_MODULES, MOST_LINES = 75, 16_000
"""Of ours, for one answer to one question."""

FOREIGN = {"cyclopts", "matplotlib", "pandas", "polars", "pyarrow", "rich", "sqlite3"}
"""What a device without an outbox, a ledger or a table has no use for."""
NOT_FOR_DEVICES = (
    "chaffinch.analysis",
    "chaffinch.charts",
    "chaffinch.cli",
    "chaffinch.disk.databases",
    "chaffinch.disk.protected",
    "chaffinch.ledger.",
    "chaffinch.planning.",
    "chaffinch.plans.check_certificate",
    "chaffinch.privacy.covers",
    "chaffinch.privacy.mechanism_documents",
    "chaffinch.protocols.noise",
    "chaffinch.protocols.tuning",
    "chaffinch.reach",
    "chaffinch.release",
    "chaffinch.sampling.plain",
    "chaffinch.services",
    "chaffinch.shuffling",
    "chaffinch.tables",
)
"""With a point at the end, the package itself is allowed: it holds lazy names only."""

ENCODE = """
import json, os, sys

# What is not ours is loaded once for all; a copy of this process does each case.
import numpy, pydantic, scipy.special
import cryptography.hazmat.primitives.ciphers.aead

def encode(path, answer):
    import chaffinch

    chaffinch.encode(answer, chaffinch.load_plan(path))

for path, answer in json.loads(sys.argv[1]):
    assert not [name for name in sys.modules if name.partition(".")[0] == "chaffinch"]
    reading, writing = os.pipe()
    if os.fork() == 0:
        encode(path, answer)
        os.write(writing, json.dumps(sorted(sys.modules)).encode() + b"\\n")
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        print(pipe.read(), end="", flush=True)
    assert os.wait()[1] == 0
"""


@dataclass(frozen=True)
class Case:
    """A question, its protocol, an answer, and the mechanisms that the verification needs."""

    question: Question
    protocol: Protocol
    answer: object
    mechanisms: frozenset[str]
    users: int = 1000
    epsilon: float = 1.0


def of(*names: str) -> frozenset[str]:
    return frozenset(names)


RARE, HALF, NEAR = Fraction(1, 1 << 10), Fraction(1, 2), Fraction(15, 16)
BROWSERS = Choice(["chrome", "firefox", "safari", "other"])
SUM = of("bits", "bit_crowds", "crowd_runs")
TWO_SUMS = SUM | of("values", "value_crowds")
CASES = {
    "flips of a bit": Case(Bit(), Flips(Fraction(1, 16)), "yes", SUM),
    "flips of a choice": Case(BROWSERS, Flips(Fraction(1, 16), 1, 4), "firefox", TWO_SUMS),
    "flips of a choice, cut": Case(BROWSERS, Flips(RARE, 1, 3), "firefox", TWO_SUMS),
    "flips of a choice, composed": Case(
        BROWSERS, Flips(Fraction(1, 8), 1, 4), "other", TWO_SUMS, users=10_000, epsilon=0.1
    ),
    "flips of flags": Case(Flags(["a", "b"]), Flips(Fraction(1, 16), 2), ["a"], SUM),
    "decoys": Case(BROWSERS, Decoys(8, HALF), "safari", of("decoys")),
    "flips with decoys": Case(BROWSERS, FlippedDecoys(RARE, 2, 4), "firefox", TWO_SUMS),
    "number, total": Case(
        Number(0, 100), Encoded(Fraction(1, 16), 8, together=True), 50, SUM | of("numbers")
    ),
    "number, positions": Case(
        Number(0, 100), Encoded(Fraction(1, 16), 8, together=False), 50, SUM | of("numbers")
    ),
    "signed decoys": Case(
        BROWSERS, Signed(Fraction(9, 16), (RARE,), 1000, 8), "firefox", of("signed")
    ),
    "signed decoys of a number": Case(
        Number(0, 100),
        Signed(NEAR, (HALF,), 1000, 300, 2, (Digit(NEAR, (HALF,), 2),)),
        50,
        of("signed"),
    ),
    "weighted number": Case(
        Number(0, 100),
        Weighted(1, ((HALF, HALF),), HALF, (HALF,), (HALF,), (HALF,), 1000, 50),
        50,
        of("weighted"),
    ),
}


def plan_of(case: Case) -> Plan:
    """Return a plan that promises what its parameters give."""
    parts, users = (Part("question", case.question, case.protocol),), case.users
    reached = total_of(parts, users, 1).delta_bound(case.epsilon)
    assert 0 < reached < 1, case
    return Plan("", parts, users, users, users, 1, case.epsilon, reached * 1.01)


def loaded(asked: Sequence[tuple[Path, object]]) -> list[set[str]]:
    """Return the modules that each answer takes."""
    words = json.dumps([(str(path), answer) for path, answer in asked])
    command = [sys.executable, "-W", "error", "-c", ENCODE, words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [set(json.loads(line)) for line in done.stdout.splitlines()]


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "chaffinch"}


def lines_of(modules: set[str]) -> int:
    """Return how many lines of Python the sources of these modules have; of C, none."""
    known = set(repository.modules())
    return sum(repository.source_of(name).count("\n") for name in modules if name in known)


def inside(package: str, modules: set[str]) -> set[str]:
    """Return what is loaded of a package, by the names of its files."""
    start = f"chaffinch.{package}."
    return {name.removeprefix(start) for name in modules if name.startswith(start)}


OWN_FILES = {kind: path.split(".")[-2] for kind, path in PROTOCOLS.items()}
"""The file of each protocol; what else is in the room is shared."""


def test_one_answer_loads_what_its_plan_needs(tmp_path: Path) -> None:
    asked = []
    for number, case in enumerate(CASES.values()):
        plan_of(case).save(tmp_path / f"{number}.json")
        asked.append((tmp_path / f"{number}.json", case.answer))
    for (name, case), modules in zip(CASES.items(), loaded(asked), strict=True):
        mine = ours(modules)
        size = len(mine), lines_of(mine)
        assert size[0] <= MOST_MODULES, (name, size)
        assert size[1] <= MOST_LINES, (name, size)
        assert inside("protocols", mine) & set(OWN_FILES.values()) == {
            OWN_FILES[case.protocol.kind]
        }, name
        assert inside("privacy.mechanisms", mine) == case.mechanisms, name
        strangers = {one for one in modules if one.partition(".")[0] in FOREIGN}
        strangers |= {one for one in mine if f"{one}.".startswith(NOT_FOR_DEVICES)}
        # Numbers in words, of which guarantees are told; nothing is drawn.
        strangers -= {"chaffinch.charts", "chaffinch.charts.rounding"}
        assert strangers <= {"chaffinch.planning", "chaffinch.ledger"}, name


def test_every_protocol_is_among_the_answers() -> None:
    assert {case.protocol.kind for case in CASES.values()} == {*PROTOCOLS} - {"totals"}
