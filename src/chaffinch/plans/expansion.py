"""What a plan asks for a question of a survey: mostly the question itself.

A number whose missing answers are counted needs two parts. The number is sent with a gap as the
middle of its range, and beside it a bit says whether there was an answer. Both are protected like
any other two questions, so the count of who answered is paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

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
    """The number of which this bit says whether it was answered; nobody is asked it."""


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
        """Return the number of which it says whether it was answered."""
        ...


def expanded(questions: Iterable[tuple[str, Question]]) -> tuple[Asked, ...]:
    """Return what a plan asks for the questions of a survey, in their order.

    >>> [one.name for one in expanded([("delay", Number(0, 60, missing="count"))])]
    ['delay', 'delay (answered)']
    """
    found = []
    for name, question in questions:
        found.append(Asked(name, question))
        if counts_gaps(question):
            found.append(Asked(f"{name} (answered)", Bit(), name))
    return tuple(found)


def counts_gaps(question: Question) -> bool:
    """Return whether a question is a number with a count of who answered beside it."""
    return isinstance(question, Number) and question.missing == COUNT


def spread_answers(parts: Sequence[Asking], answers: Iterable[Any]) -> list[Any]:
    """Return what each part is told, from the answers to the questions: one, or many at once.

    >>> spread_answers(expanded([("delay", Number(0, 60, missing="count"))]), [float("nan")])
    [np.float64(0.5), np.uint8(0)]
    """
    given, found = iter(answers), []
    for part in parts:
        if part.answers_to is not None:
            continue
        answer = next(given)
        if counts_gaps(part.question):
            silent = np.isnan(answer)
            found += [np.where(silent, GAP_SHARE, answer)[()], np.uint8(1) - silent]
        else:
            found.append(answer)
    return found
