"""The price of trusting nobody: standard errors over that of a trusted centre.

The centre is a party that holds all answers, adds them up and adds noise once: the better of
discrete Laplace and discrete Gaussian noise, the least that keeps the same promise to the same
neighbours (one person's answer is replaced), as the accountant of view ``totals`` proves it
(`NoisyTotals`). A run of a table is such a centre.

Every row is one promise to one crowd, kept by the protocol that the planner takes where nothing
need be left of a single report. Beside it stand the most exact protocol whose reports protect by
themselves, and local randomization, which trusts no shuffler either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.findings import Cell, Finding, Goal, Line
from benchmarks.harness import tell
from chaffinch.planning.baselines import central_error
from chaffinch.planning.candidates import Candidate, most_exact
from chaffinch.planning.wishes import MOST_MESSAGES, Wishes
from chaffinch.privacy import Target
from chaffinch.protocols.registry import LOCAL
from chaffinch.questions import Bit, Choice, Flags, Number, Question

DELTA = 1e-6
USERS = (10**3, 10**4, 10**5, 10**6, 10**7)
EPSILONS = (0.5, 1.0, 2.0)
QUESTIONS: dict[str, Question] = {
    "One bit": Bit(),
    "One of 10 values": Choice(range(10), missing="refuse"),
    "One of 100 values": Choice(range(100), missing="refuse"),
    "One of 1,000 values": Choice(range(1000), missing="refuse"),
    "The sum of numbers": Number(0, 1),
    "Five flags": Flags([f"flag {number}" for number in range(5)]),
}
COLUMNS = ("centre", "x centre", "messages", "slots", "protected", "local")
AIMED_AT = 1.0
"""The epsilon of all aims."""
AIMS: dict[tuple[str, int], tuple[float, ...]] = {
    ("One bit", 10**3): (1.25,),
    ("One bit", 10**4): (1.25,),
    ("One of 100 values", 10**5): (1.3, 1.5),
    ("The sum of numbers", 10**3): (1.5, 64),
    ("The sum of numbers", 10**4): (1.4, 5),
    **{("The sum of numbers", users): (1.3, 4.5, 90) for users in USERS[2:]},
}
"""At most so many times the error of a centre, so many messages, and so many slots."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One promise to one crowd about one question."""

    name: str
    question: Question
    users: int
    epsilon: float

    def weighed(self) -> tuple[Candidate | None, list[Candidate]]:
        """Return what the planner takes if nothing need be left of a report, and what it weighs."""
        wishes = Wishes(
            question=self.question,
            users=self.users,
            target=Target(self.epsilon, DELTA),
            error=None,
            delta=None,
            rounds=1,
            contributions=1,
            max_messages=MOST_MESSAGES,
            honest=1.0,
            local_epsilon=math.inf,
            influence=None,
            protocol=None,
        )
        task = wishes.task()

        def said(name: str) -> None:
            tell(f"{self.name}, {self.users:,} users, epsilon {self.epsilon:g}: {name}")

        found = wishes.candidates(task, said)
        within = [one for one in found if one.crowd > 1 and not one.ruled_out]
        return (most_exact(within, task)[0] if within else None), found

    def lines(self) -> Iterator[Line]:
        """Yield the row, with its aims below it."""
        centre = central_error(self.question, self.epsilon, DELTA)
        best, weighed = self.weighed()
        protected, local = (
            min((one.error / centre for one in weighed if is_one(one)), default=None)
            for is_one in (_is_protected, _is_local)
        )
        name = f"{self.users:,} users, epsilon {self.epsilon:g}"
        if best is None:
            few = f"no plan: more than {MOST_MESSAGES} messages in a report"
            yield Line(name, (centre, None, None, None, protected, local), note=few)
            return
        found = best.error / centre, best.messages, float(best.slots)
        cells: tuple[Cell, ...] = (centre, *found, protected, local)
        aims = AIMS.get((self.name, self.users), ()) if self.epsilon == AIMED_AT else ()
        goals = [
            Goal(aim, reached, at_least=False)
            for aim, reached in zip(aims, found, strict=False)  # the first ones
        ]
        yield Line(name, cells, goals[0] if goals else None, note=best.name)
        for what, goal in zip(("messages", "slots"), goals[1:], strict=False):
            yield Line(f"  {what}", (None,) * len(COLUMNS), goal)


def findings() -> Iterator[Finding]:
    """Yield a table for each kind of question."""
    for name, question in QUESTIONS.items():
        promises = [Promise(name, question, users, one) for users in USERS for one in EPSILONS]
        lines = [line for promise in promises for line in promise.lines()]
        notes = [
            f"delta = {DELTA:g}; centre: in people (numbers: in ranges), the others times that",
            "messages: of a report, on average; slots: messages that it has room for",
            "protected: of flips and the like, of which something is left if the parties collude",
        ]
        yield Finding(name, COLUMNS, lines, notes)
    tell("")


def _is_local(one: Candidate) -> bool:
    return one.name == LOCAL


def _is_protected(one: Candidate) -> bool:
    return one.crowd > 1 and not one.ruled_out and math.isfinite(one.local_epsilon)
