"""The same people asked again: 1 to 1,000 rounds, against other accountants and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.harness import Timed, in_turn, once, tell
from benchmarks.privacy import peers
from benchmarks.tables import Case, Row
from chaffinch import privacy
from chaffinch.privacy import amplification

DELTA = 1e-6
ROUNDS = (1, 10, 100, 1000)
LARGE = ((10**6, 0.003), (10**6, 1e-4), (10**8, 0.01))
WIDTH = 0.002
"""How far a guarantee for every crowd may be above one crowd that exists, in all rounds."""
GRIDS = (1e-4, 1e-5)
CAP = 90.0


def findings() -> Iterator[Case]:
    """Yield a case for each number of rounds, and some of large crowds."""
    for rounds in ROUNDS:
        yield _case(10_000, 0.1, rounds)
    for users, flip in LARGE:
        yield _case(users, flip, 1000)
    tell("")


def _case(users: int, flip: float, rounds: int) -> Case:
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    pair = peers.crowd_pair(users, flip)

    def ours() -> float:
        return privacy.compose(mechanism, times=rounds).epsilon(DELTA).upper

    def theirs(grid: float) -> Callable[[], float]:
        return lambda: peers.dp_accounting(pair, delta=DELTA, grid=grid, rounds=rounds)

    # The first call also finds the worst-crowd profile, which the later ones reuse.
    tell("chaffinch")
    first = once(ours, cap=CAP)
    jobs = {
        "ours": ours,
        **{f"{grid:g}": theirs(grid) for grid in GRIDS},
        "prv": lambda: peers.prv_accountant(users, flip, delta=DELTA, rounds=rounds),
    }
    done = in_turn(jobs, repeats=3, cap=CAP)
    bracket = privacy.compose(mechanism, times=rounds).epsilon(DELTA)
    truth, fast = bracket.lower, done["ours"].seconds
    rows = [
        _row("chaffinch, every crowd", done["ours"], truth, fast),
        _row("  first call: finds the profile too", first, truth, fast),
        Row("chaffinch, others at 0 in all rounds, from below", truth, truth),
        *_bounds(users, flip, rounds, mechanism, truth),
    ]
    for grid in GRIDS:
        tool = f"dp-accounting, others at 0, grid {grid:g}"
        rows.append(_row(tool, done[f"{grid:g}"], truth, fast))
    rows.append(_row("prv-accountant, Gaussian limit", done["prv"], truth, fast))
    width = bracket.upper / bracket.lower - 1
    notes = [
        "above: over the certified lower end, one crowd in all rounds",
        f"chaffinch's bracket is {100 * width:.2g} % wide (aim: {100 * WIDTH:g} %)",
    ]
    many = f"{rounds} rounds" if rounds > 1 else "One round"
    question = f"epsilon at delta = {DELTA:g}"
    return Case(f"{many}, {users:,} users, flip probability {flip:g}: {question}", rows, notes)


def _bounds(
    users: int, flip: float, rounds: int, mechanism: privacy.FlippedBits, truth: float
) -> Iterator[Row]:
    """Yield what other bounds for every crowd give; only the exact one is timed against peers.

    Each of them is the profile of a pair that dominates every crowd, so each is composed as
    ours is: a bound that is added up says little about the bound.
    """
    if rounds > 1:
        added = rounds * mechanism.epsilon(DELTA / rounds).upper
        yield Row("chaffinch's epsilons added up, every crowd", added, truth)
    clones = peers.CloneBound(users, mechanism.local_epsilon)
    table = amplification.ShuffledTable([[1 - flip, flip], [flip, 1 - flip]], users=users)
    composed = ", composed" if rounds > 1 else ""
    for name, bound in (("clone bound", clones), ("privacy blanket", table)):
        epsilon = privacy.compose(bound, times=rounds).epsilon(DELTA).upper
        yield Row(f"{name}, every crowd{composed}", epsilon, truth)


def _row(tool: str, timed: Timed, truth: float, ours: float) -> Row:
    note = "" if timed.finished else f"stopped after {timed.seconds:.0f} s, no answer"
    return Row(tool, timed.value, truth, timed.seconds, ours, note)
