"""Runs of crowds that cover all of them: a proof that a promise holds for every crowd.

Adding records never hurts, so all crowds with l to u ones are at least as private as the one
with l ones and the zeros that are left at u. A promise that this smaller crowd keeps holds for
the whole run [l, u]. From 0 on the longest run that holds is taken, doubling while it does:
a yes-or-no question needs no bracket. One single crowd that does not hold is an answer, too.
"""

from __future__ import annotations

from collections.abc import Callable

from chaffinch.progress import count_step

Run = tuple[int, int]
"""The fewest and the most ones of the crowds in a run."""

_Holds = Callable[[Run], bool]
"""Whether a promise holds for a run."""


MOST_RUNS = 10_000


class CrowdRefused(Exception):
    """A single crowd does not keep the promise."""

    def __init__(self, ones: int) -> None:
        super().__init__(ones)
        self.ones = ones


class TooManyRuns(Exception):
    """More runs are needed than are worth it: nothing is known of the crowds behind them."""


def cover_crowds(
    holds: _Holds, last: int, *, few_runs: bool = True, most: int = MOST_RUNS
) -> list[Run]:
    """Return runs that hold, one behind the other from 0 to ``last``, or raise CrowdRefused.

    With ``few_runs`` each is about as long as can be; without, the first that holds is taken,
    which asks less often. TooManyRuns is raised where more than ``most`` would be needed.

    >>> cover_crowds(lambda run: run[1] - run[0] <= run[0], 10)
    [(0, 0), (1, 2), (3, 6), (7, 10)]
    """
    runs: list[Run] = []
    low, length = 0, 1

    def works(run: Run) -> bool:
        count_step("runs of crowds")
        return holds(run)

    while low <= last:
        if len(runs) == most:
            raise TooManyRuns
        left = last + 1 - low
        if few_runs:
            length = _longest(works, low, length, left)
        else:
            length = _first(works, low, min(length + (length + 1) // 2, left))
        runs.append((low, low + length - 1))
        low += length
    return runs


def _first(holds: _Holds, low: int, length: int) -> int:
    """Return a length that holds, halved until it does."""
    while not holds((low, low + length - 1)):
        length //= 2
        if length == 0:
            raise CrowdRefused(low)
    return length


def _longest(holds: _Holds, low: int, first: int, most: int) -> int:
    """Return about the greatest length of a run that holds; ``first`` is tried first."""

    def works(length: int) -> bool:
        return holds((low, low + length - 1))

    good, bad, trial = 0, most + 1, min(first, most)
    while bad > 2 * max(good, 1) or not good:
        if trial == 0:
            raise CrowdRefused(low)
        if works(trial):
            good, trial = trial, min(2 * trial, most)
            if good == most:
                return good
        else:
            bad, trial = trial, trial // 2
    # Half-way is worth a look: a longer run here, and behind it one that starts farther out.
    middle = (good + bad) // 2
    return middle if good < middle and works(middle) else good
