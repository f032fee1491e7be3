"""Thousands of reports of every protocol: ``python -m tests.vectors.make_draws`` writes them.

``draws.json`` has whole plans, answers, seeds of random words, and of the codes of all reports one
digest. A client in another language draws the same reports from the same words, or it is wrong.
docs/reference/vectors.md says how.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.encoding.device import encode_with
from chaffinch.plans.expansion import squares_of
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Encoded, FlippedDecoys, Flips, Signed
from chaffinch.protocols.bursts import Bursts, SharedNoise
from chaffinch.protocols.signed import Digit
from chaffinch.questions import Bit, Choice, Cross, Number
from chaffinch.wire.messages import EMPTY
from tests.engines.plans import plan_of
from tests.vectors.make_codes import CASES as BASIC

FILE = Path(__file__).with_name("draws.json")
SOURCE = "made by tests/vectors/make_draws.py; docs/reference/vectors.md says how"
REPORTS = 2000
"""Of each case."""
_FLIP, _DIGIT = Fraction(1, 4), Digit(Fraction(7, 8), (Fraction(1, 2),), 2)
_LATE = Number(0, 90, missing="count")
_SPREAD = Number(0, 90, missing="count", spread=True)
_DAY = Choice(range(1, 8), missing="count", unknown="7")
CASES: dict[str, tuple[list[tuple[Any, ...]], list[Any]]] = {
    **BASIC,
    "ranges and gaps": (
        [
            ("a", Bit(missing="count"), Decoys(2, Fraction(5, 8))),
            ("b", _DAY, FlippedDecoys(Fraction(1, 1 << 64), 3, 1)),
            (
                "c",
                Number(-1e-6, 1e300, missing=0.5, clip=True),
                Encoded(Fraction(3, 8), 7, together=True),
            ),
        ],
        [
            {"a": None, "b": 3, "c": None},
            {"a": True, "b": "9", "c": 1e301},
            {"a": "no", "b": None, "c": 2.5e299},
        ],
    ),
    "a cross with a number that may be missing": (
        [("a", Cross({"x": Bit(), "day": _DAY, "late": _LATE}, levels=5), Flips(_FLIP, 1, 100))],
        [
            {"x": True, "day": 1, "late": 12.34},
            {"x": "no", "day": None, "late": None},
            {"x": "yes", "day": "8", "late": 90},
        ],
    ),
    "a number with who answered and its squares": (
        [
            ("a", _SPREAD, Encoded(_FLIP, 5, together=True)),
            ("a (answered)", Bit(), Signed(_FLIP, (), 2, 6, doubled=True), "a"),
            ("a (squares)", squares_of(_SPREAD), Signed(_FLIP, (_FLIP,), 1, 7, 9), "a"),
        ],
        [0, 12.34, 77.7, None, 90],
    ),
    "signed decoys of a number in three digits": (
        [("a", Number(0, 1), Signed(_FLIP, (), 1, 0, 3, (_DIGIT, _DIGIT)))],
        [0, 0.1, 0.999],
    ),
}
_PARTIES = Parties(
    (Party("University", "11" * 32, "https://shuffler.example.org"),),
    Party("Ministry", "22" * 32, "https://analyzer.example.com"),
)
_MASK = (1 << 64) - 1
_EDGES = (0, _MASK, 1 << 63, 1 << 62)
"""Words at which a comparison that is off by one shows."""


def words_of(seed: int) -> Iterator[int]:
    """Yield words of SplitMix64, of which every 13th is one of four edges."""
    state = seed
    number = 0
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        mixed ^= mixed >> 31
        number += 1
        yield _EDGES[mixed % 4] if number % 13 == 0 else mixed


class Counted:
    """Words of a seed, with how many of them were taken."""

    def __init__(self, seed: int) -> None:
        self._words, self.taken = words_of(seed), 0

    def take(self, count: int) -> NDArray[np.uint64]:
        """Return the next words."""
        self.taken += count
        return np.fromiter((next(self._words) for _ in range(count)), np.uint64, count)


def plan_of_case(name: str) -> Plan:
    """Return the plan of a case, with parties."""
    return replace(plan_of(*CASES[name][0], users=10), parties=_PARTIES)


def _case(name: str, seed: int) -> dict[str, Any]:
    plan, answers, words = plan_of_case(name), CASES[name][1], Counted(seed)
    digest, sent, longest = hashlib.sha256(), 0, 0
    for number in range(REPORTS):
        report = encode_with(answers[number % len(answers)], plan, words)
        codes = [code for code in report.codes if code != EMPTY]
        digest.update((",".join(map(str, codes)) + "\n").encode())
        sent, longest = sent + len(codes), max(longest, len(codes))
    found = {"name": name, "plan": plan.document(), "answers": answers, "seed": seed}
    return {
        **found,
        "reports": REPORTS,
        "words": words.taken,
        "messages": sent,
        "longest": longest,
        "sha256": digest.hexdigest(),
        "tables": [table for part in plan.parts for table in _tables(part.question, part.protocol)],
    }


def _tables(question: Any, protocol: Any) -> list[dict[str, Any]]:
    shares_noise = isinstance(protocol, SharedNoise)
    return [_table(protocol.bursts(question))] if shares_noise else []


def _table(made: Bursts) -> dict[str, Any]:
    """Return how likely any burst is, and the weights of both tables up to the last above 0."""
    tables = {"number": made.number.weights, "kinds": made.kinds.weights}
    shown = {
        name: hashlib.sha256(",".join(f"{one:x}" for one in _trimmed(weights)).encode()).hexdigest()
        for name, weights in tables.items()
    }
    return {"any": f"{made.any_burst:x}", **shown}


def _trimmed(weights: tuple[int, ...]) -> list[int]:
    found = list(weights)
    while found and not found[-1]:
        found.pop()
    return found


def made() -> dict[str, Any]:
    """Return all vectors."""
    cases = [_case(name, 1 + number) for number, name in enumerate(CASES)]
    return {"source": SOURCE, "cases": cases}


if __name__ == "__main__":
    FILE.write_text(json.dumps(made(), indent=1) + "\n", encoding="utf-8")
