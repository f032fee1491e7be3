"""Vectors from answers to codes: ``python -m tests.vectors.make_codes`` writes ``codes.json``.

Each has the questions of a plan as they stand in its file, answers, the random words that a
device took, and the codes that it sends. Whoever takes words in the order of the page of the wire
gets the same codes.
"""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.encoding.device import encode_with
from chaffinch.protocols import Decoys, Encoded, FlippedDecoys, Flips, Signed
from chaffinch.protocols.signed import Digit
from chaffinch.protocols.weighted import Weighted
from chaffinch.questions import Bit, Choice, Cross, Flags, Number
from chaffinch.wire.messages import EMPTY
from tests.engines.plans import plan_of

FILE = Path(__file__).with_name("codes.json")
SOURCE = "made by tests/vectors/make_codes.py; docs/reference/wire.md says how"
_FLIP = Fraction(1, 4)
_DRINKS = Choice(["tea", "coffee", "water"], missing="count")
_FLOOD = (Fraction(1, 4), Fraction(1, 8))
_GROUPS = Cross({"drink": _DRINKS, "minutes": Number(0, 60)}, levels=3)
_ANSWERED = Number(0, 60, missing="count")


def weighted(levels: tuple[tuple[Any, ...], ...], **changes: Any) -> Weighted:
    """Return a number of a few steps, whose noise shows in a few reports."""
    return Weighted(
        tops=3,
        levels=tuple(tuple(Fraction(rate) for rate in group) for group in levels),
        ratio=Fraction(3, 4),
        code_flood=(Fraction(1, 8), Fraction(1, 16)),
        link_flood=(Fraction(1, 2),),
        top_flood=(Fraction(1, 4), Fraction(1, 2)),
        cut_for=6,
        room=14,
        **changes,
    )


CASES: dict[str, tuple[list[tuple[Any, ...]], list[Any]]] = {
    "flips of a bit": ([("a", Bit(), Flips(_FLIP, 3))], ["yes", "no"]),
    "flips of a choice": ([("a", _DRINKS, Flips(_FLIP, 1, 2))], ["tea", "water", None]),
    "flips of flags": (
        [("a", Flags(["x", "y", "z"], missing="count"), Flips(_FLIP, 2))],
        [["x", "z"], [], None],
    ),
    "flips of a cross": (
        [("a", _GROUPS, Flips(_FLIP, 1, 5))],
        [{"drink": "coffee", "minutes": 50}, {"drink": None, "minutes": 60}],
    ),
    "decoys": (
        [("a", Bit(), Decoys(2, Fraction(1, 2))), ("b", _DRINKS, Decoys(3, Fraction(3, 4)))],
        [{"a": "yes", "b": "coffee"}, {"a": "no", "b": None}],
    ),
    "flipped decoys": ([("a", _DRINKS, FlippedDecoys(_FLIP, 2, 3))], ["water", None]),
    "encoded, the total": (
        [("a", Number(-10, 10), Encoded(_FLIP, 5, together=True))],
        [-10, 1.5, 10],
    ),
    "encoded, all steps": (
        [
            ("a", Bit(), Flips(_FLIP, 1)),
            ("b", Number(0, 60, quantiles=True), Encoded(_FLIP, 8, together=False)),
        ],
        [{"a": "no", "b": 0}, {"a": "yes", "b": 33.3}],
    ),
    "encoded, and who answered": (
        [
            ("a", _ANSWERED, Encoded(_FLIP, 4, together=True)),
            ("a (answered)", Bit(), Flips(_FLIP, 1), "a"),
        ],
        [15, None],
    ),
    "signed decoys of a bit": (
        [("a", Bit(), Signed(Fraction(1, 2), _FLOOD, 1, 8))],
        ["yes", "no"],
    ),
    "signed decoys of a choice": (
        [("a", _DRINKS, Signed(Fraction(3, 4), _FLOOD, 3, 12))],
        ["tea", "water", None],
    ),
    "signed decoys of flags": (
        [("a", Flags(["x", "y", "z"]), Signed(Fraction(1, 2), (), 3, 6))],
        [["y"], ["x", "y", "z"]],
    ),
    "signed decoys of a number": (
        [("a", Number(0, 60), Signed(Fraction(1, 2), _FLOOD, 1, 10, 7))],
        [0, 20.5, 60],
    ),
    "signed decoys of a number in two digits": (
        [
            ("a", Bit(), Flips(_FLIP, 1)),
            (
                "b",
                Number(0, 1),
                Signed(
                    Fraction(1, 2), _FLOOD, 2, 9, 3, (Digit(Fraction(3, 4), (Fraction(1, 2),), 4),)
                ),
            ),
        ],
        [{"a": "yes", "b": 0.3}, {"a": "no", "b": 1}, {"a": "no", "b": 0.77}],
    ),
    "signed decoys of a bit, doubled": (
        [("a", Bit(), Signed(Fraction(1, 4), _FLOOD, 1, 9, doubled=True))],
        ["yes", "no"],
    ),
    "signed decoys of flags, doubled": (
        [("a", Flags(["x", "y", "z"]), Signed(Fraction(3, 8), (), 2, 8, doubled=True))],
        [["y"], ["x", "y", "z"]],
    ),
    "weighted, in two codes": (
        [("a", Number(0, 60), weighted(((3,), (2, Fraction(3, 2)))))],
        [0, 20.5, 60],
    ),
    "weighted, in one code": (
        [
            ("a", Bit(), Flips(_FLIP, 1)),
            ("b", Number(0, 1), weighted(((2, 1), (1,)), whole_flood=(Fraction(1, 8),))),
        ],
        [{"a": "yes", "b": 0.3}, {"a": "no", "b": 1}],
    ),
}
TURNS = 4
"""How often each answer is encoded."""


class Written:
    """Words of a seed, written down as they are taken."""

    def __init__(self, seed: str) -> None:
        self._random, self.taken = random.Random(seed), list[str]()

    def take(self, count: int) -> NDArray[np.uint64]:
        """Return the next words."""
        found = [self._random.getrandbits(64) for _ in range(count)]
        self.taken += [f"{word:016x}" for word in found]
        return np.array(found, np.uint64)


def made() -> dict[str, Any]:
    """Return all vectors."""
    cases = []
    for name, (parts, answers) in CASES.items():
        plan = plan_of(*parts, users=10)
        reports = []
        for number, answer in enumerate(answers * TURNS):
            words = Written(f"{name} {number}")
            sent = [code for code in encode_with(answer, plan, words).codes if code != EMPTY]
            reports.append({"answer": answer, "words": words.taken, "codes": sent})
        document = plan.document()
        facts = {"questions": document["questions"], "messages": document["messages"]}
        cases.append({"name": name, **facts, "reports": reports})
    return {"source": SOURCE, "cases": cases}


if __name__ == "__main__":
    FILE.write_text(json.dumps(made(), indent=1) + "\n", encoding="utf-8")
