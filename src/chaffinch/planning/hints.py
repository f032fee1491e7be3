"""Hints for wishes that no plan meets: more users, more messages, or a looser wish."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from chaffinch.charts.rounding import percent_text, rounded_up
from chaffinch.errors import NoPlanFound, checks
from chaffinch.planning.candidates import (
    Candidate,
    Task,
)
from chaffinch.planning.wishes import Error, Wishes, choices, fits
from chaffinch.plans.meaning import useless_promise
from chaffinch.privacy import Target
from chaffinch.privacy.numerics.roots import bisect_whole

_Way = tuple[str, float]
"""A wish, by its name among those of ``plan``, and a value with which a plan was found."""
_WAYS = {
    "users": "{:,} users",
    "max_messages": "{:,} messages per report",
    "epsilon": "epsilon {:g}",
    "error": "an error of {:g}",
    "local_epsilon": "a local epsilon of {:g}",
    "influence": "an influence of {:g} people",
}
_MOST_TRIES = 5
"""So many numbers of messages are tried: other protocols are chosen where more are allowed."""


def no_plan_found(wishes: Wishes, task: Task, found: list[Candidate]) -> NoPlanFound:
    """Return the error that says what would work: more users, more messages, a looser wish."""
    target, error = wishes.target, wishes.error
    wish = (
        f"epsilon {target.epsilon:g} with delta {target.delta:g}"
        if target is not None
        else _error_words(error)  # type: ignore[arg-type]
    )
    if task.local_epsilon is not None and math.isfinite(task.local_epsilon):
        wish += f", a local epsilon of at most {task.local_epsilon:g}"
    if math.isfinite(task.influence):
        unasked = " (the default)" if wishes.influence is None else ""
        wish += f", an influence of at most {task.influence:g} people{unasked}"
    ways = [*_other_wishes(wishes, task, found)] or [
        way
        for way in (
            _more_users(wishes),
            _more_messages(wishes, task, found),
            _looser_target(wishes),
            _looser_error(wishes),
        )
        if way
    ]
    hints = [_WAYS[name].format(value) for name, value in ways]
    which = "any one of these" if len(hints) > 1 else "this"
    kept = "protocol that does" if wishes.protocol is None else "way to use the protocol that does"
    return NoPlanFound(
        f"The plan must meet {wish} with {task.users:,} users and at most {task.max_messages} "
        f"messages per report. Got no {kept}.",
        hint=f"{which} would work: {'; '.join(hints)}"
        if hints
        else "relax a wish, or ask more people",
        details={
            "users": task.users,
            "max_messages": task.max_messages,
            "would_work": [dict([way]) for way in ways],
        },
    )


def _error_words(error: Error) -> str:
    hold = " that hold together" if error.together else ""
    level = percent_text(error.confidence)
    return f"an error of {error.share:g} of the crowd in {level} intervals{hold}"


def _has_useful_plan(wishes: Wishes) -> bool:
    task = wishes.task()
    found = _useful(task, wishes.in_crowd(task, silent, likely=True))
    return any(not one.ruled_out for one in found)


def _is_likely(wishes: Wishes) -> bool:
    """Return whether a plan has few enough messages at the Gaussian guess."""
    if wishes.target is None:
        return True
    task, promise = wishes.task(), wishes.promise(wishes.target)
    return any(fits(chosen, promise, task) for _, chosen in choices(task, promise))


def _first_that_works(ladder: Sequence[Wishes]) -> Wishes | None:
    """Return the first of rising wishes that a plan is found for."""
    # Noise falls along the ladder, and messages with it. So what is not likely at the end of it, or
    # not found there, need not be tried farther down.
    if not (ladder and _is_likely(ladder[-1]) and _has_useful_plan(ladder[-1])):
        return None
    last = len(ladder) - 1

    def works(down: int) -> bool:
        return _is_likely(ladder[last - down]) and _has_useful_plan(ladder[last - down])

    return ladder[last - bisect_whole(works, good=0, bad=last + 1)]


def _useful(task: Task, found: Iterable[Candidate]) -> Iterator[Candidate]:
    alone = task.users == 1
    return (one for one in found if (one.crowd > 1 or alone) and task.is_useful(one))


def _other_wishes(wishes: Wishes, task: Task, found: list[Candidate]) -> Iterator[_Way]:
    """Yield what another wish would have to be, where nothing but it is in the way."""
    without = replace(task, local_epsilon=math.inf)
    free = [one for one in _useful(task, found) if not without.ruled_out(one)]
    least = rounded_up(min((one.local_epsilon for one in free), default=math.inf))
    if math.isfinite(least) and _has_useful_plan(replace(wishes, local_epsilon=least)):
        yield "local_epsilon", least
    without = replace(task, influence=math.inf)
    free = [one for one in _useful(task, found) if not without.ruled_out(one)]
    least = rounded_up(min((one.influence for one in free), default=math.inf))
    if math.isfinite(least) and _has_useful_plan(replace(wishes, influence=least)):
        yield "influence", least


def _more_users(wishes: Wishes) -> _Way | None:
    # All reports, those of people who are not honest among them, must stay countable.
    most = checks.LARGEST_CROWD / 10 * wishes.honest / wishes.contributions
    if wishes.target is None:
        most = min(most, 64 * wishes.users)
    users, ladder = 4 * wishes.users, []
    while users <= most:
        ladder.append(replace(wishes, users=users))
        users *= 4
    found = _first_that_works(ladder)
    return None if found is None else ("users", found.users)


def _more_messages(wishes: Wishes, task: Task, found: Iterable[Candidate]) -> _Way | None:
    least = 0
    for _ in range(_MOST_TRIES):
        without = replace(task, max_messages=checks.LARGEST_CROWD)
        free = [one for one in _useful(task, found) if not without.ruled_out(one)]
        # Where more are allowed a survey is asked in another way, which may take more still.
        least = max(min((one.analyzer_operations for one in free), default=0), least + 1)
        if not free:
            return None
        again = replace(wishes, max_messages=least)
        task = again.task()
        found = [*again.in_crowd(task, silent)]
        if any(not one.ruled_out for one in _useful(task, found)):
            return "max_messages", least
    return None


def _looser_target(wishes: Wishes) -> _Way | None:
    if wishes.target is None:
        return None
    (epsilon, delta), ladder = wishes.promise(wishes.target), []
    while not useless_promise(2.0 * epsilon, delta):
        epsilon *= 2.0
        ladder.append(replace(wishes, target=Target(epsilon, delta)))
    found = _first_that_works(ladder)
    return None if found is None or found.target is None else ("epsilon", found.target.epsilon)


def _looser_error(wishes: Wishes) -> _Way | None:
    error = wishes.error
    while error is not None and error.share < 0.25:
        error = replace(error, share=rounded_up(2.0 * error.share))
        if _has_useful_plan(replace(wishes, error=error)):
            return "error", error.share
    return None


def silent(_: str) -> None:
    """Ignore progress: nobody asked for it."""
