"""The same people asked again: ten rounds at a fixed resolution, and a thousand rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.harness import Case, Row, Timed, in_turn, once, tell
from benchmarks.privacy import peers
from chaffinch import privacy

DELTA = 1e-6
RESOLUTION = 1e-6
GRIDS = {"1e-4": 1e-4, "1e-5": 1e-5, "1e-6": 1e-6}
CAP = 90.0
FIRST_CAP = 300.0
"""The worst-crowd profile of a large crowd takes its time, once."""


def cases() -> Iterator[Case]:
    """Yield the two cases."""
    yield ten_rounds()
    yield thousand_rounds()
    tell("")


def ten_rounds() -> Case:
    """Return ten rounds of 10 000 users, both accountants on a grid of 1e-6."""
    users, flip, rounds = 10_000, 0.1, 10
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    pair = peers.crowd_pair(users, flip)

    def ours(resolution: float | None) -> Callable[[], float]:
        return lambda: (
            privacy.compose(mechanism, times=rounds, resolution=resolution).epsilon(DELTA).upper
        )

    def theirs(grid: float) -> Callable[[], float]:
        return lambda: peers.dp_accounting(pair, delta=DELTA, grid=grid, rounds=rounds)

    # The first call also finds the worst-crowd profile, which the later ones reuse.
    first = once(ours(RESOLUTION), cap=FIRST_CAP)
    done = in_turn(
        {
            "ours": ours(RESOLUTION),
            "dp-accounting grid 1e-6": theirs(RESOLUTION),
            "ours, own resolution": ours(None),
            "dp-accounting grid 1e-4": theirs(1e-4),
            "prv-accountant": lambda: peers.prv_accountant(users, flip, delta=DELTA, rounds=rounds),
        },
        repeats=3,
        cap=CAP,
    )
    truth = privacy.compose(mechanism, times=rounds).epsilon(DELTA).lower
    fast = done["ours"].seconds
    added = rounds * mechanism.epsilon(DELTA / rounds).upper
    rows = [
        _row("chaffinch, every crowd, grid 1e-6", done["ours"], truth, fast),
        _row("  first call: finds the profile too", first, truth, fast),
        _row("chaffinch, every crowd, own grid", done["ours, own resolution"], truth, fast),
        _row("dp-accounting, others at 0, grid 1e-6", done["dp-accounting grid 1e-6"], truth, fast),
        _row("dp-accounting, others at 0, grid 1e-4", done["dp-accounting grid 1e-4"], truth, fast),
        _row("prv-accountant, Gaussian limit", done["prv-accountant"], truth, fast),
        Row("adding up ten epsilons", added, truth),
    ]
    theirs_seconds = done["dp-accounting grid 1e-6"].seconds
    same, own = (theirs_seconds / done[name].seconds for name in ("ours", "ours, own resolution"))
    return Case(
        _title(users, flip, rounds),
        rows,
        [
            "above: over the certified lower end of the worst crowd in all rounds",
            f"dp-accounting on 1e-6 takes {same:.3g} times as long as chaffinch on 1e-6 (aim 20),",
            f"and {own:.3g} times as long as chaffinch on its own grid",
            f"chaffinch, profile given: {fast:.2g} times the aim of 1 s",
        ],
    )


def thousand_rounds() -> Case:
    """Return a thousand rounds of 10⁸ users, where rounding up once per round adds up."""
    users, flip, rounds = 10**8, 0.01, 1000
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    pair = peers.crowd_pair(users, flip)

    def ours() -> float:
        return privacy.compose(mechanism, times=rounds).epsilon(DELTA).upper

    def theirs(grid: float) -> Callable[[], float]:
        return lambda: peers.dp_accounting(pair, delta=DELTA, grid=grid, rounds=rounds)

    tell("chaffinch, profile and a thousand rounds")
    first = once(ours, cap=FIRST_CAP)
    done = in_turn(
        {
            "ours": ours,
            **{name: theirs(grid) for name, grid in GRIDS.items()},
            "prv-accountant": lambda: peers.prv_accountant(users, flip, delta=DELTA, rounds=rounds),
        },
        repeats=3,
        cap=CAP,
    )
    limit = peers.limit_epsilon(users, flip, delta=DELTA, rounds=rounds)
    fast = done["ours"].seconds
    rows = [
        _row("chaffinch, every crowd, own grid", done["ours"], limit, fast),
        _row("  first call: finds the profile too", first, limit, fast),
    ]
    rows += [
        _row(f"dp-accounting, others at 0, grid {grid}", done[grid], limit, fast) for grid in GRIDS
    ]
    rows.append(_row("prv-accountant, Gaussian limit", done["prv-accountant"], limit, fast))
    return Case(
        _title(users, flip, rounds),
        rows,
        [
            f"above: over the Gaussian limit {limit:.5f}, itself an approximation (aim 0.5 %)",
            f"chaffinch, profile given: {fast / 2.0:.2g} times the aim of 2 s",
        ],
    )


def _title(users: int, flip: float, rounds: int) -> str:
    question = f"epsilon at delta = {DELTA:g}"
    return f"{rounds} rounds, {users:,} users, flip probability {flip:g}: {question}"


def _row(tool: str, timed: Timed, truth: float, ours: float) -> Row:
    note = "" if timed.finished else f"stopped after {timed.seconds:.0f} s, no answer"
    return Row(tool, timed.value, truth, timed.seconds, ours, note)
