"""The price of trusting nobody: standard errors over that of a trusted centre.

Every row is one promise to one crowd. A cell is the standard error of a protocol, calibrated
exactly, over that of the smaller of discrete Laplace and Gaussian noise; ``local`` trusts no
shuffler either. Messages are what a report holds on average beyond the answer itself, with
signed decoys; beside it what they would be if a plan promised nothing for half of the users.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.findings import Cell, Finding, Goal, Line
from benchmarks.harness import tell
from chaffinch.errors import ChaffinchError, InvalidInput
from chaffinch.planning.baselines import central_error
from chaffinch.planning.candidates import Candidate, Task, for_local_target, for_target
from chaffinch.planning.wishes import MOST_MESSAGES
from chaffinch.plans.expansion import Asked
from chaffinch.privacy import published
from chaffinch.protocols import Variant, protocol_variants
from chaffinch.protocols.noise import Noise
from chaffinch.protocols.signed import signed_variant
from chaffinch.questions import Bit, Choice, Flags, Number, Question

DELTA = 1e-6
USERS = (10**3, 10**4, 10**6)
EPSILONS = (0.5, 1.0, 2.0)
QUESTIONS: dict[str, Question] = {
    "One bit": Bit(),
    "One of 10 values": Choice(range(10), missing="refuse"),
    "One of 100 values": Choice(range(100), missing="refuse"),
    "One of 1,000 values": Choice(range(1000), missing="refuse"),
    "The sum of numbers": Number(0, 1),
    "Five flags": Flags([f"flag {number}" for number in range(5)]),
}
WAYS = {
    "signed": "signed decoys",
    "uniform": "clear with decoys",
    "flips": "flips",
    "copies": "flips,",
    "steps": "number in",
}
COLUMNS = ("centre", "signed", "extra messages", "all honest", *list(WAYS)[1:], "local", "S0")
AIMS = {
    ("One bit", 1_000): (1.25, 0.3),
    ("One bit", 10_000): (1.25, 0.03),
    ("One of 100 values", 100_000): (1.3, 0.5),
    ("The sum of numbers", 1_000): (1.5, 64.0),
    ("The sum of numbers", 10_000): (1.5, 64.0),
}
"""At epsilon 1: the error over a centre's, and the extra messages of a plan for all honest users
(of a number: all messages)."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise to one crowd about one question."""

    name: str
    question: Question
    users: int
    epsilon: float

    @property
    def task(self) -> Task:
        """Return what is asked of the planner."""
        crowd = (Asked("answer", self.question),), self.users, self.users, 1, MOST_MESSAGES
        return Task(*crowd, local_epsilon=math.inf)

    def calibrated(self, variants: list[Variant]) -> Candidate | None:
        """Return the fewest messages near the smallest error, as the planner does."""
        found = []
        for variant in variants:
            tell(f"{self.name}, {self.users:,} users, epsilon {self.epsilon:g}: {variant.name}")
            try:
                one = for_target(variant.name, [variant], (self.epsilon, DELTA), self.task)
            except InvalidInput:
                continue
            found += [] if one is None or one.ruled_out else [one]
        near = 1.15 * min((one.error for one in found), default=0.0)
        return min(
            (one for one in found if one.error <= near), key=lambda one: one.messages, default=None
        )

    def line(self) -> list[Line]:
        """Return the row, and one for its goal in messages."""
        central = central_error(self.question, self.epsilon, DELTA)
        known = protocol_variants(self.question, MOST_MESSAGES, clear=True, wished=True)
        found = {
            way: self.calibrated([one for one in known if _is_way(one.name, start)])
            for way, start in WAYS.items()
        }
        over: dict[str, Cell] = {
            way: one.error / central if one is not None else None for way, one in found.items()
        }
        signed, honest = found["signed"], self._all_honest()
        local = for_local_target((self.epsilon, DELTA), self.task).error
        cells = (
            central,
            over["signed"],
            None if signed is None else self._extra(signed),
            None if honest is None else self._extra(honest),
            *(over[way] for way in list(WAYS)[1:]),
            local / central,
            self._first_source(central),
        )
        name = f"{self.users:,} users, epsilon {self.epsilon:g}"
        aims = AIMS.get((self.name, self.users)) if self.epsilon == 1 else None
        if aims is None or signed is None:
            return [Line(name, cells)]
        lines = [Line(name, cells, Goal(aims[0], signed.error / central, at_least=False))]
        extra = (
            signed.messages if self.question.shape == "number" else self._extra(honest or signed)
        )
        blank = (None,) * len(COLUMNS)
        return [*lines, Line("  messages", blank, Goal(aims[1], extra, at_least=False))]

    def _extra(self, one: Candidate) -> float:
        part = one.parts[0]
        return one.messages - (part.protocol.answer_messages(part.question) or 0)

    def _all_honest(self) -> Candidate | None:
        """Return signed decoys that promise nothing where any of the users is dishonest."""
        if self.question.shape == "number":
            return None
        splits = (0.6, 0.75, 0.83, 0.9)
        return self.calibrated([signed_variant(split, least_share=1.0) for split in splits])

    def _first_source(self, central: float) -> Cell:
        """Return what the calibration of S0 comes to: (4.48) for a bit, (5.12) for a choice."""
        formulas: dict[str, Callable[..., float]] = {
            "bit": published.any_crowd_flip_probability,
            "choice": published.flipped_values_flip_probability,
        }
        if self.question.shape not in formulas:
            return None
        try:
            flip = Fraction(
                formulas[self.question.shape](epsilon=self.epsilon, delta=DELTA, users=self.users)
            )
        except ChaffinchError:
            return "impossible"
        return float(Noise.flips(flip).standard_error(self.users)) / central


def findings() -> Iterator[Finding]:
    """Yield a table for each kind of question."""
    for name, question in QUESTIONS.items():
        users = (*USERS, 10**5) if (name, 10**5) in AIMS else USERS
        lines: list[Line] = []
        for crowd in sorted(users):
            for epsilon in EPSILONS:
                lines += Promise(name, question, crowd, epsilon).line()
        notes = [
            f"delta = {DELTA:g}; centre: in people (numbers: in ranges); others over the centre",
            "all honest: extra messages if a plan promised nothing for half of the users",
        ]
        yield Finding(name, COLUMNS, lines, notes)
    tell("")


def _is_way(name: str, start: str) -> bool:
    return name == start if start == "flips" else name.startswith(start) and name != "flips"
