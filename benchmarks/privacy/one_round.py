"""One collection: epsilon at delta = 1e-6, for every crowd and for one given crowd."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.harness import OutOfTime, Timed, capped, in_turn, tell
from benchmarks.privacy import peers
from benchmarks.tables import Case, Row, in_words
from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy import published

DELTA = 1e-6
GRIDS = {"1e-4": 1e-4, "1e-6": 1e-6}
ENUMERATION_CAP = 15.0
SETTINGS = ((10**3, 0.02), (10**4, 0.1), (10**6, 0.01), (10**9, 1e-4))
AIMS = {10**4: 0.05, 10**6: 1.0, 10**9: 30.0}
CROWD_AIM = 0.05


def findings() -> Iterator[Case]:
    """Yield one case per crowd size."""
    for users, flip in SETTINGS:
        yield _case(users, flip)
    tell("")


def _case(users: int, flip: float) -> Case:
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    pair = peers.crowd_pair(users, flip)
    jobs: dict[str, Callable[[], float]] = {
        "every": lambda: mechanism.epsilon(DELTA).upper,
        "crowd": lambda: mechanism.crowd(ones=0).epsilon(DELTA).upper,
        "prv": lambda: peers.prv_accountant(users, flip, delta=DELTA),
    }
    jobs |= {name: _on_grid(pair, grid) for name, grid in GRIDS.items()}
    done = in_turn(jobs)
    worst = mechanism.epsilon(DELTA).lower
    given = mechanism.crowd(ones=0).epsilon(DELTA).lower
    every, crowd = done["every"].seconds, done["crowd"].seconds
    rows = [
        _row("chaffinch, every crowd, certified", done["every"], worst, every),
        *_claims(users, flip, worst),
        _enumeration(users, flip, worst, every),
        _row("chaffinch, others at 0, certified", done["crowd"], given, crowd),
    ]
    for grid in GRIDS:
        tool = f"dp-accounting, others at 0, grid {grid}"
        rows.append(_row(tool, done[grid], given, crowd))
    rows.append(_row("prv-accountant, Gaussian limit", done["prv"], given, crowd))
    return Case(
        f"One bit, {users:,} users, flip probability {flip:g}: epsilon at delta = {DELTA:g}",
        rows,
        _aims(users, every, crowd),
    )


def _on_grid(pair: peers.Pair, grid: float) -> Callable[[], float]:
    return lambda: peers.dp_accounting(pair, delta=DELTA, grid=grid)


def _row(tool: str, timed: Timed, truth: float, ours: float) -> Row:
    note = "" if timed.finished else f"stopped after {timed.seconds:.0f} s, no answer"
    return Row(tool, timed.value, truth, timed.seconds, ours, note)


def _claims(users: int, flip: float, worst: float) -> Iterator[Row]:
    """Yield what the closed forms claim; they take microseconds and are not timed."""
    for name, claim in (
        ("S0 (4.48)", published.any_crowd_epsilon),
        ("Cheu 2019", published.binary_sum_epsilon),
    ):
        tool = f"published {name}, every crowd"
        try:
            yield Row(tool, claim(users=users, flip_probability=flip, delta=DELTA), worst)
        except InvalidInput:
            yield Row(tool, note="claims nothing for this crowd")


def _enumeration(users: int, flip: float, worst: float, ours: float) -> Row:
    """Return dp-accounting asked about one crowd after the other, within a cap."""
    tool = "dp-accounting, crowd by crowd, grid 1e-4"
    tell(tool)
    crowds = (users - 1) // 2 + 1
    asked, largest = 0, 0.0
    start = time.perf_counter()
    try:
        with capped(ENUMERATION_CAP):
            for ones in range(crowds):
                pair = peers.crowd_pair(users, flip, ones=ones)
                largest = max(largest, peers.dp_accounting(pair, delta=DELTA, grid=1e-4))
                asked += 1
    except OutOfTime:
        spent = time.perf_counter() - start
        whole = spent / max(asked, 1) * crowds
        note = f"stopped after {spent:.0f} s: {asked} of {crowds:,} crowds; all would take about"
        return Row(tool, None, None, None, None, f"{note} {in_words(whole)}")
    return Row(tool, largest, worst, time.perf_counter() - start, ours, f"{crowds} crowds")


def _aims(users: int, every: float, crowd: float) -> list[str]:
    notes = []
    if users in AIMS:
        share = every / AIMS[users]
        notes.append(f"every crowd: {share:.2g} times the aim of {AIMS[users]:g} s")
    if users <= 10**6:
        share = crowd / CROWD_AIM
        notes.append(f"one given crowd: {share:.2g} times the aim of {CROWD_AIM:g} s")
    return notes
