"""What a plan asks for a question of a survey: mostly the question itself.

A number may need more parts, which nobody is asked: they follow from its answer.

Where missing answers are counted, the number is sent with a gap as the middle of its range, and
beside it a bit says whether there was an answer. Where the spread is asked for, the square of the
distance from the middle of the range is sent as a second number; of a gap it is 0. All parts are
protected like any other questions, so that what they tell is paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from chaffinch.questions import COUNT, Bit, Number, Question

GAP_SHARE = 0.5
"""Where a counted gap is sent to: in the middle it moves the sum by no more than half a range."""


COUNT_SHARE = 0.15
"""The share of the chance to miss that the count of answers gets, beside a number.

Near the best for means a quarter of the range away from the middle, and flat around there.
"""


class Asked(NamedTuple):
    """What one part of a plan asks."""

    name: str
    question: Question
    answers_to: str | None = None
    """The number that this follows from, which nobody is asked: a bit, whether it was answered; a
    number, its square."""


class Asking(Protocol):
    """A part of a plan, as far as answers go."""

    @property
    def name(self) -> str:
        """Return what it is called."""
        ...

    @property
    def question(self) -> Question:
        """Return what is asked."""
        ...

    @property
    def answers_to(self) -> str | None:
        """Return the number that it follows from."""
        ...


def expanded(questions: Iterable[tuple[str, Question]]) -> tuple[Asked, ...]:
    """Return what a plan asks for the questions of a survey, in their order.

    >>> [one.name for one in expanded([("delay", Number(0, 60, missing="count", spread=True))])]
    ['delay', 'delay (answered)', 'delay (squares)']
    """
    found = []
    for name, question in questions:
        found.append(Asked(name, question))
        if counts_gaps(question):
            found.append(Asked(f"{name} (answered)", Bit(), name))
        if isinstance(question, Number) and question.spread:
            found.append(Asked(f"{name} (squares)", squares_of(question), name))
    return tuple(found)


def counts_gaps(question: Question) -> bool:
    """Return whether a question is a number with a count of who answered beside it."""
    return isinstance(question, Number) and question.missing == COUNT


def squares_of(question: Number) -> Number:
    """Return what is asked beside a number for its spread: its squared distance from the middle.

    >>> squares_of(Number(0, 60, unit="minutes")).high
    900.0
    """
    unit = f"{question.unit}²" if question.unit else ""
    return Number(0.0, (0.5 * (question.high - question.low)) ** 2, unit=unit[:200])


def square_shares(shares: NDArray[Any]) -> NDArray[Any]:
    """Return where the squares lie in their range, for places of numbers in theirs."""
    return np.square(2.0 * shares - 1.0)


def tells_answered(part: Asking) -> bool:
    """Return whether a part says of the number before it whether it was answered."""
    return part.answers_to is not None and isinstance(part.question, Bit)


def tells_squares(part: Asking) -> bool:
    """Return whether a part tells the squares of the number before it."""
    return part.answers_to is not None and isinstance(part.question, Number)


def answers_of_parts(parts: Sequence[Asking], answers: Iterable[Any]) -> list[Any]:
    """Return what each part is told, from the answers to the questions: one, or many at once.

    >>> answers_of_parts(expanded([("delay", Number(0, 60, missing="count"))]), [float("nan")])
    [np.float64(0.5), np.uint8(0)]
    """
    given, found = iter(answers), []
    answer: Any = None
    silent: Any = None
    for part in parts:
        if part.answers_to is None:
            answer = next(given)
            if counts_gaps(part.question):
                silent = np.isnan(answer)
                answer = np.where(silent, GAP_SHARE, answer)[()]
            found.append(answer)
        else:
            # It follows from the last answer: the parts of a question stand side by side.
            found.append(
                np.uint8(1) - silent if tells_answered(part) else square_shares(answer)[()]
            )
    return found
