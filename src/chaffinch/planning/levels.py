"""The number of levels of a number whose mean is released for every group.

A device rounds the number by chance to one of L levels from 0 to 1 of its range and sends the
pair of group and level. The mean of a group of N people is the weighted sum of its L counts over
their sum. Each count has the noise σ², and the weights around a mean in the middle are l/(L − 1)
− 1/2, so the noise adds σ²·L(L + 1)/(12(L − 1)) to the variance of N times the mean; the rounding
adds N/(4(L − 1)²) at the most. More levels round less and collect more noise.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from chaffinch.protocols.base import TOTALS
from chaffinch.protocols.tuning import gaussian_mu
from chaffinch.questions import MOST_LEVELS, MOST_VALUES, Cross, Question

if TYPE_CHECKING:
    from chaffinch.planning.candidates import Task


def with_levels(task: Task, spread: float) -> Task:
    """Return a task whose crossed numbers have levels, given the standard error of a count."""
    questions = tuple(
        one._replace(question=_levelled(one.question, task, spread)) for one in task.questions
    )
    return replace(task, questions=questions)


def count_error(task: Task, promise: tuple[float, float]) -> float:
    """Return about the standard error of a count that a promise needs, in the Gaussian limit.

    Replacing one person moves two counts by 1 each. Where one party adds up, the noise may also be
    Laplace noise, whose losses add up.
    """
    gaussian = math.sqrt(2.0 * task.exposures) / gaussian_mu(*promise)
    if task.view == TOTALS:
        return min(gaussian, math.sqrt(2.0) * 2.0 * task.exposures / promise[0])
    return gaussian


_MANY = 1000
"""So many answers of one person compose nearly as Gaussian ones, which no law with less noise does;
of fewer a plan is found, or refused, within seconds."""


def hopeless_rounds(task: Task, promise: tuple[float, float]) -> list[str]:
    """Return a warning where so many answers of each person drown a count, whatever the protocol.

    It is told before a long search that could find nothing: a factor of two is left for what is
    better than ``count_error``, such as a bit, whose change moves one count only.
    """
    error = count_error(replace(task, view=TOTALS), promise)
    if task.users == 1 or task.exposures < _MANY or error < task.reports:
        return []
    said = (
        f"{task.exposures:,} answers of each person need noise of about {error:,.0f} people in "
        f"every count, in a crowd of {task.reports:,}: the answer will say nothing."
    )
    return [said]


def _best_levels(spread: float, people: float, most: int) -> int:
    """Return the number of levels with the smallest error of the mean of so many people.

    >>> _best_levels(8.0, 1e4, 100), _best_levels(8.0, 100, 100)
    (11, 3)
    """
    return min(range(2, max(most, 2) + 1), key=lambda some: group_error(spread, people, some))


def group_error(spread: float, people: float, levels: int, mean: float = 0.5) -> float:
    """Return the standard error of the mean of a group who answered, in units of the range.

    It is the smallest for a ``mean`` in the middle of the range, and the largest at its ends.
    """
    # Σ (l/(L − 1) − m)² over the levels.
    noise = spread**2 * levels * ((levels + 1) / (12.0 * (levels - 1)) + (0.5 - mean) ** 2)
    rounding = people / (4.0 * (levels - 1) ** 2)
    return math.sqrt(noise + rounding) / people


def _levelled(question: Question, task: Task, spread: float) -> Question:
    if not isinstance(question, Cross) or question.measure is None or question.levels is not None:
        return question
    groups = question.groups
    # About σ²·cells/crowd messages of noise come with every report: stay within half of the room.
    room = int(task.max_messages * task.users / (2.0 * spread**2))
    most = min(MOST_LEVELS, min(room, MOST_VALUES) // groups)
    return replace(question, levels=_best_levels(spread, task.reports / groups, most))
