"""Made-up people: how many of them hold each answer.

Tallies depend on the answers only through these counts, so that is all a population keeps:
a billion people take no more room than ten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.plans import expansion
from chaffinch.plans.expansion import (
    GAP_SHARE,
    answers_of_parts,
    counts_gaps,
    square_shares,
)
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols.noise import Draws, Floats, Places, Truth
from chaffinch.questions import MISSING, QUESTIONS, Number, Question, asked_apart
from chaffinch.release.survey_statement import ANSWERED, shares_heading
from chaffinch.simulate.seeded import generator
from chaffinch.tables.answers import numbers_of
from chaffinch.tables.read import Table, open_table
from chaffinch.wire.batches import Counts

_STEPS = 200
"""Made-up numbers lie on a grid of so many steps from the lower bound to the upper one."""


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """The true answers of the same people to all questions of a plan, in its order."""

    people: int
    truths: tuple[Truth, ...]
    words: str = "given answers"
    """Where the answers come from, for the reader of a result."""

    def __post_init__(self) -> None:
        if not self.truths or any(truth.people != self.people for truth in self.truths):
            raise InvalidInput("truths", "at least one, all of as many people", len(self.truths))

    def fits(self, plan: Plan) -> None:
        """Refuse a plan that asks other questions than these people answered."""
        asked = [(part.question.shape, _size(part.question)) for part in plan.parts]
        held = [
            (truth.shape, 0 if truth.shares is not None else len(truth.counts))
            for truth in self.truths
        ]
        if asked != held:
            raise InvalidInput("population", "one that answers the plan's questions", held)
        for part, truth, after in zip_longest(plan.parts, self.truths, self.truths[1:]):
            if not counts_gaps(part.question):
                continue
            if (truth.counts < gaps_of(truth.numbers_apart, int(after.counts[0]))).any():
                rule = "one whose people without a number send the middle of its range"
                raise InvalidInput("population", rule, Unquoted("others"))
        if self.people < plan.reports:
            raise InvalidInput("population", f"at least {plan.reports:,} people", self.people)


def gaps_of(shares: Floats, silent: int) -> Counts:
    """Return how many people send each share because they have not answered: all the middle."""
    return np.where(shares == GAP_SHARE, silent, 0)


def _with_gaps(truth: Truth, silent: int, draws: Draws) -> Truth:
    """Return numbers of which so many are missing: those who answered hold what people held."""
    told = draws.multinomial(truth.people - silent, truth.counts / truth.people)
    return replace(truth, counts=told + gaps_of(truth.numbers_apart, silent))


def exact_rows(plan: Plan, people: Population) -> dict[tuple[str, str], float]:
    """Return the exact numbers that rows of a release estimate, by heading and name of a row.

    Known are counts, means, sums, how many answered, and shares of those who did.
    """
    found: dict[tuple[str, str], float] = {}
    for part, truth, after in zip_longest(plan.parts, people.truths, people.truths[1:]):
        question = part.question
        if isinstance(question, Number) and part.answers_to is None:
            # Gaps were sent as the middle of the range: they are taken off again.
            answered = int(after.counts[1]) if counts_gaps(question) else people.people
            told = truth.mean * people.people - GAP_SHARE * (people.people - answered)
            total = question.low * answered + (question.high - question.low) * told
            found[part.name, "sum"] = total
            if answered:
                found[part.name, "mean"] = total / answered
            if counts_gaps(question):
                found[part.name, ANSWERED] = float(answered)
        elif part.answers_to is None:
            held = dict(zip(part.labels, truth.held(len(part.labels)).tolist(), strict=True))
            found |= {(part.name, name): float(one) for name, one in held.items()}
            silent = held.get(MISSING, 0)
            for name, one in held.items() if MISSING in held else ():
                of = people.people if name == MISSING else max(1, people.people - silent)
                found[shares_heading(part.name), name] = 100.0 * one / of
    return found


_Asked = Question | Plan
_MOST_CELLS = 1 << 22
"""Tallies that are drawn in one go; more are drawn piece by piece."""


def draw_tallies(
    part: Part, truth: Truth, runs: int, draws: Draws, codes: Places | None = None
) -> Counts:
    """Return the tallies of ``runs`` collections of one question: a row for each run.

    They are drawn at once from their exact joint law, so a collection costs what its codes
    cost, however many people there are. With ``codes`` only these are drawn, from the same
    law.
    """
    places = np.arange(len(part.labels)) if codes is None else codes
    width = max(len(places), len(truth.counts) if truth.shares is not None else 1)
    rows = max(1, _MOST_CELLS // width)
    pieces = [
        part.protocol.draw_tallies(part.question, truth, min(rows, runs - start), draws, places)
        for start in range(0, runs, rows)
    ]
    return np.concatenate(pieces) if pieces else np.empty((0, len(places)), np.int64)


def uniform(asked: _Asked, n: int, seed: int = 0) -> Population:
    """Return people whose answers are drawn uniformly: every value, or yes and no, alike.

    >>> from chaffinch.questions import Choice
    >>> people = uniform(Choice(["tea", "coffee"], missing="refuse"), 1000, seed=1)
    >>> people.people, int(people.truths[0].counts.sum())
    (1000, 1000)
    """
    return _draw_population(asked, n, seed, np.ones, words="uniform")


def zipf(asked: _Asked, n: int, seed: int = 0, exponent: float = 1.0) -> Population:
    """Return people among whom the k-th value is held in proportion to 1/k^exponent.

    The k-th of several flags is held with chance 1/(k + 1)^exponent.
    """
    exponent = checks.real("exponent", exponent, least=0.0, most=20.0)

    def weights(size: int) -> Floats:
        return np.arange(1.0, size + 1.0) ** -exponent

    return _draw_population(
        asked, n, seed, weights, words=f"Zipf with exponent {exponent:g}", exponent=exponent
    )


def from_column(
    asked: _Asked, answers: Any, *, columns: Mapping[str, str] | None = None
) -> Population:
    """Return people with given answers: a column, or a table with a column per question."""
    parts = _parts(asked)
    return count_people(parts, column_numbers(parts, answers, columns))


def column_numbers(
    parts: Sequence[expansion.Asking], answers: Any, columns: Mapping[str, str] | None = None
) -> list[NDArray[Any]]:
    """Return the answers in a column or a table as numbers: an array for each part of a plan."""
    table = answers if isinstance(answers, Table) else open_table(answers)
    named = [one for one in parts if one.answers_to is None]
    given = dict(columns or {})
    if len(named) == 1 and not given and table.unnamed:
        given = {named[0].name: table.columns[0]}
    apart = [asked_apart({one.name: one.question}) for one in named]
    places = [{name: given.get(name, name) for name in asked} for asked in apart]
    found: list[list[NDArray[Any]]] = [[] for _ in named]
    for batch in table.batches([column for place in places for column in place.values()]):
        for one, place, pieces in zip(named, places, found, strict=True):
            held = {name: batch.column(column) for name, column in place.items()}
            column: Any = held if len(held) > 1 else held[one.name]
            shown = place.get(one.name, one.name)
            pieces.append(numbers_of(one.question, column, name=shown, gaps=table.gaps))
    return answers_of_parts(parts, map(np.concatenate, found))


def count_people(parts: Sequence[expansion.Asking], numbers: Sequence[NDArray[Any]]) -> Population:
    """Return people whose answers are numbers already, as an encoder takes them."""
    truths = tuple(
        _count_answers(part.question, told) for part, told in zip(parts, numbers, strict=True)
    )
    return Population(truths[0].people, truths)


def _parts(asked: _Asked) -> tuple[expansion.Asked, ...]:
    if isinstance(asked, Plan):
        return expansion.expanded(asked.questions.items())
    if not isinstance(asked, QUESTIONS):
        raise InvalidInput("question", "a Bit, Choice, Number, Flags or Cross, or a plan", asked)
    return expansion.expanded([("answer", asked)])


def _size(question: Question) -> int:
    """Return how many counts a truth holds; 0 for a number, which has as many as it likes."""
    return 0 if isinstance(question, Number) else len(question.labels)


def _count_answers(question: Question, numbers: NDArray[Any]) -> Truth:
    people, shape = len(numbers), question.shape
    if shape == "flags":
        return Truth(shape, people, numbers.sum(axis=0, dtype=np.int64))
    if shape == "number":
        shares, counts = np.unique(numbers.astype(np.float64), return_counts=True)
        return Truth(shape, people, counts.astype(np.int64), shares)
    # A number in a cross is rounded to its nearest level: what is made up need not be by chance.
    counts = np.bincount(np.rint(numbers).astype(np.int64), minlength=_size(question))
    return Truth(shape, people, counts.astype(np.int64))


def _draw_population(
    asked: _Asked,
    n: int,
    seed: int,
    weights: Callable[[int], Floats],
    *,
    words: str,
    exponent: float | None = None,
) -> Population:
    people = checks.people("number of people", n)
    truths = []
    number: Truth | None = None
    for place, (_, question, answers_to) in enumerate(_parts(asked)):
        draws = generator(seed, "population", place)
        if answers_to is not None and question.shape == "number" and number is not None:
            truths.append(_squared(number))
            continue
        if question.shape == "flags":
            ranks = np.arange(2.0, _size(question) + 2.0)
            chances = np.full(len(ranks), 0.5) if exponent is None else ranks**-exponent
            truths.append(Truth("flags", people, draws.binomial(people, chances)))
            continue
        shares = np.linspace(0.0, 1.0, _STEPS + 1) if question.shape == "number" else None
        weight = weights(_size(question) if shares is None else len(shares))
        counts = draws.multinomial(people, weight / weight.sum())
        if answers_to is not None:
            number = truths[-1] = _with_gaps(truths[-1], int(counts[0]), draws)
        truths.append(Truth(question.shape, people, counts, shares))
        number = truths[-1] if question.shape == "number" else number
    return Population(people, tuple(truths), words)


def _squared(number: Truth) -> Truth:
    """Return the squares of numbers as a plan asks for them beside the numbers."""
    shares, where = np.unique(square_shares(number.numbers_apart), return_inverse=True)
    counts = np.zeros(len(shares), np.int64)
    np.add.at(counts, where, number.counts)
    return Truth(number.shape, number.people, counts, shares)
