"""Runs of crowds that cover all crowds: a proof that one sum keeps a promise in every crowd.

Adding records never hurts, so all crowds with l to u ones are at least as private as the one
with l ones and the zeros that are left at u. A promise that this smaller crowd keeps holds for
the whole run [l, u]. Starting at 0, the search takes the longest run that holds, and doubles its
length as long as it does: a yes-or-no question needs no bracket. A single crowd that does not
keep the promise is an answer, too.
"""

from __future__ import annotations

from collections.abc import Callable

from chaffinch.privacy.mechanisms.bit_crowds import BitCrowds
from chaffinch.privacy.numerics.precision import LEAST_TAIL, Wide
from chaffinch.privacy.progress import count_step

UNSEEN = 1e-8
"""The share of delta that a window may leave out: too little to cost a run."""
_FEW_RUNS = 300
"""Beyond so many runs a bracket answers sooner."""
MOST_RUNS = 10_000

Run = tuple[int, int]
"""The fewest and the most ones of the crowds in a run."""

_Holds = Callable[[Run], bool]
"""Whether a promise holds for a run."""


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
            # Half as long again as the run before, so that runs can grow; `_first` halves what does
            # not hold.
            length = _first(works, low, min(length + (length + 1) // 2, left))
        runs.append((low, low + length - 1))
        low += length
    return runs


def _first(holds: _Holds, low: int, length: int) -> int:
    while not holds((low, low + length - 1)):
        length //= 2
        if length == 0:
            # Not even the single crowd holds: no runs can cover it.
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
    # Half-way is tried once more: a longer run here lets the next one start farther out.
    middle = (good + bad) // 2
    return middle if good < middle and works(middle) else good


def ends_of(
    crowds: BitCrowds, epsilon: float, delta: float
) -> Callable[[Run], tuple[float, float]]:
    """Return what tells both ends of delta among the records that all crowds of a run have."""
    tail = max(Wide(delta) * UNSEEN, LEAST_TAIL)

    def ends(run: Run) -> tuple[float, float]:
        # Adding records never hurts: what these records keep, every crowd of the run keeps. One
        # order is enough, because callers have no fixed zeros: a mirrored crowd is a crowd, too.
        return crowds.knots(*run, mirrored=False, tail=tail, aim=delta).delta(epsilon)

    return ends


def proven_by_runs(crowds: BitCrowds, epsilon: float, delta: float) -> float | None:
    """Return ``delta`` if runs cover every crowd, or what one crowd reaches that refutes it.

    None: too many runs would be needed, and nothing is known of the crowds behind them; or of a
    single crowd only the upper end is above ``delta``, which refutes nothing.
    """
    ends = ends_of(crowds, epsilon, delta)
    try:
        cover_crowds(lambda run: ends(run)[1] <= delta, crowds.last, few_runs=False, most=_FEW_RUNS)
    except CrowdRefused as crowd:
        lower, upper = ends((crowd.ones, crowd.ones))
        return upper if lower > delta else None
    except TooManyRuns:
        return None
    return delta
