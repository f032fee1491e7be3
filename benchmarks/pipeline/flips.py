"""Flip whole reports and count them: from the number of each person's value to a tally.

Everybody gets the same: n numbers of values. Everybody makes all messages of all n reports
and counts them. Chaffinch draws from the secure source of the devices, the others from the
fast generators they come with. One thread each; processor time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
from numpy.typing import NDArray

from benchmarks.findings import (
    Finding,
    Goal,
    Line,
    milliseconds,
    processor_seconds,
    ratio,
)
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from chaffinch.protocols.base import GRAIN
from chaffinch.protocols.flipped_records import PACKED_ABOVE, fewest_slots
from chaffinch.questions import Choice
from chaffinch.sampling import backends, histogram, secure_words

USERS = 100_000
VALUES = (1024, 128)
CHANCES = (0.25, 0.2501, 0.01, 0.0005)
AIMS = {0.25: 15.0, 0.01: 80.0}
ROWS_AT_ONCE = 1000
DENSE_SHARE = 10
"""NumPy makes a tenth of the reports, and its time counts tenfold."""
PEER_SHARE = 100
OPTIMAL = False
"""Both kinds of bits are flipped alike, as here; multi-freq-ldpy takes no name for this."""
COLUMNS = ("ms", "Mbit/s", "x native", "reports made")
Counts = NDArray[np.int64]


def findings() -> Iterator[Finding]:
    """Yield a table for each number of values and each flip probability."""
    for values in VALUES:
        for chance in CHANCES:
            yield _finding(values, chance)
    yield _source()


def _finding(values: int, chance: float) -> Finding:
    # Numbers as a column of choices has them.
    held = np.random.default_rng(1).integers(0, values, USERS, np.uint32)
    plan = _plan(values, chance)
    jobs: dict[str, Callable[[], object]] = {
        "chaffinch, native": lambda: _ours("", plan, held),
        "chaffinch, numpy": lambda: _ours("numpy", plan, held),
        "dense NumPy": lambda: _dense(held[: USERS // DENSE_SHARE], values, chance),
        "multi-freq-ldpy": lambda: _peer(held[: USERS // PEER_SHARE], values, chance),
    }
    shares = {"dense NumPy": DENSE_SHARE, "multi-freq-ldpy": PEER_SHARE}
    seconds = {
        name: [shares.get(name, 1) * one for one in runs]
        for name, runs in processor_seconds(jobs).items()
    }
    ours = seconds["chaffinch, native"]
    lines = []
    for name, runs in seconds.items():
        against = ratio(runs, ours)
        aim = AIMS.get(chance) if name == "dense NumPy" else None
        lines.append(
            Line(
                name,
                (
                    milliseconds(runs),
                    USERS * values / milliseconds(runs) / 1e3,
                    against,
                    float(USERS // shares.get(name, 1)),
                ),
                Goal(aim, against) if aim else None,
            )
        )
    return Finding(
        f"Encode and tally {USERS:,} reports of {values} bits, flip probability {chance:g}",
        COLUMNS,
        lines,
        [
            "a part of the reports is made where the column says so, and the time scaled up",
            f"at most {plan.slots} messages per report, the rest is cut off (chaffinch only)",
            _form(chance),
        ],
    )


def _form(chance: float) -> str:
    """Say what chaffinch's reports look like when they are counted."""
    if chance > PACKED_ABOVE:
        return "chaffinch: a row of packed bits for each report, as the others have rows"
    return (
        "chaffinch: every flip has its report and its slot, but what is kept is one list of "
        "messages in the order of the codes; the others keep a row for each report"
    )


def _plan(values: int, chance: float) -> Plan:
    flip = Fraction(round(chance * GRAIN), GRAIN)
    slots = fewest_slots(values, flip, records=USERS, epsilon=1.0, allowed=1e-8)
    question = Choice(range(values), missing="refuse")
    return Plan(
        "bench",
        (Part("value", question, Flips(flip, 1, slots)),),
        users=USERS,
        reports=USERS,
        crowd=USERS,
        rounds=1,
        epsilon=1.0,
        delta=1e-6,
    )


def _ours(backend: str, plan: Plan, held: NDArray[np.uint32]) -> Counts:
    before = backends.LOOPS
    backends.LOOPS = backends.choose(backend)[1]
    try:
        reports = encode_numbers(plan, [held], len(held), secure_words())
        return histogram(reports.messages, plan.codes) + reports.row_counts()
    finally:
        backends.LOOPS = before


def _dense(held: NDArray[np.uint32], values: int, chance: float) -> Counts:
    generator = np.random.default_rng()
    counts = np.zeros(values, np.int64)
    for start in range(0, len(held), ROWS_AT_ONCE):
        part = held[start : start + ROWS_AT_ONCE]
        bits = generator.random((len(part), values)) < chance
        bits[np.arange(len(part)), part] ^= True
        counts += bits.sum(axis=0)
    return counts


def _peer(held: NDArray[np.uint32], values: int, chance: float) -> object:
    # Symmetric unary encoding flips with 1/(e^(ε/2) + 1).
    epsilon = 2.0 * math.log(1.0 / chance - 1.0)
    reports = [UE_Client(value, values, epsilon, OPTIMAL) for value in held.tolist()]
    return UE_Aggregator_MI(reports, epsilon, optimal=OPTIMAL)


def _source() -> Finding:
    """Return how fast the words come from which everything is drawn."""
    words, count = secure_words(), 1 << 13
    turns = 200

    def secure() -> None:
        for _ in range(turns):
            words.take(count)

    generator = np.random.default_rng()

    def fast() -> None:
        for _ in range(turns):
            generator.random(count)

    seconds = processor_seconds({"secure words": secure, "NumPy doubles": fast})
    lines = [
        Line(name, (milliseconds(runs), 8e-6 * turns * count / milliseconds(runs)))
        for name, runs in seconds.items()
    ]
    return Finding(
        "Random 64-bit words: the limit",
        ("ms", "GB/s"),
        lines,
        [
            "words per 64 bits above 0.04: 9.1, for a quarter 2",
            "words per flip below that: a quarter, or 2 where flips are rarer than 1 in 512",
        ],
    )
