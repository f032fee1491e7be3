"""Tallies drawn at once from their exact joint law: a collection costs what its codes cost.

Given how many people hold each answer, flips of different bits are independent, decoys are a
multinomial, and what a number is rounded to is a coin per person. So the tallies of any
number of people can be drawn without drawing anybody's report. What the sampler leaves out
is cutting, the loss of messages that do not fit into the slots of a report: it happens with
a chance that the plan bounds and charges to delta.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from chaffinch.planning.plan import Part
from chaffinch.protocols.protocols import Decoys, Encoded, FlippedDecoys, Flips
from chaffinch.simulate.populations import Truth
from chaffinch.wire.messages import Counts

Draws = np.random.Generator
Places = NDArray[np.intp]
Sampler = Callable[[Part, Truth, int, Draws, Places], Counts]
MOST_CELLS = 1 << 22
"""Tallies that are drawn in one go; more are drawn piece by piece."""


def sample(
    part: Part, truth: Truth, runs: int, draws: Draws, codes: Places | None = None
) -> Counts:
    """Return the tallies of ``runs`` collections of one question: a row for each run.

    With ``codes`` only these are drawn, from the same joint law.
    """
    places = np.arange(len(part.labels)) if codes is None else codes
    sampler = SAMPLERS[part.protocol.kind]
    width = max(len(places), len(truth.counts) if truth.shares is not None else 1)
    rows = max(1, MOST_CELLS // width)
    pieces = [
        sampler(part, truth, min(rows, runs - start), draws, places)
        for start in range(0, runs, rows)
    ]
    return np.concatenate(pieces) if pieces else np.empty((0, len(places)), np.int64)


def held_by(part: Part, truth: Truth) -> Counts:
    """Return how many people hold what each code stands for (numbers aside)."""
    return truth.counts[1:] if len(part.labels) < len(truth.counts) else truth.counts


def _flips(part: Part, truth: Truth, runs: int, draws: Draws, places: Places) -> Counts:
    """Draw Bin(k·h, p) + Bin(k·(n − h), q) for every code, all independent."""
    protocol = part.protocol
    assert isinstance(protocol, Flips)  # noqa: S101 - chosen by the table below
    held = np.broadcast_to(held_by(part, truth)[places], (runs, len(places)))
    records = protocol.copies * truth.people
    return flipped(protocol.copies * held, records, float(protocol.flip_probability), draws)


def _decoys(part: Part, truth: Truth, runs: int, draws: Draws, places: Places) -> Counts:
    """Draw h + N, where N is the multinomial of Bin(n·slots, rate) uniform decoys."""
    protocol = part.protocol
    assert isinstance(protocol, Decoys)  # noqa: S101 - chosen by the table below
    chance = float(protocol.decoy_rate / len(part.labels))
    fakes = _uniform(truth.people * protocol.decoy_slots, chance, runs, draws, places)
    return held_by(part, truth)[places] + fakes


def _flipped_decoys(part: Part, truth: Truth, runs: int, draws: Draws, places: Places) -> Counts:
    """Draw the values of the decoys first; given them all bits are flipped independently."""
    protocol = part.protocol
    assert isinstance(protocol, FlippedDecoys)  # noqa: S101 - chosen by the table below
    fakes = truth.people * protocol.decoys
    held = held_by(part, truth)[places] + _uniform(
        fakes, 1.0 / len(part.labels), runs, draws, places
    )
    return flipped(held, truth.people + fakes, float(protocol.flip_probability), draws)


def _encoded(part: Part, truth: Truth, runs: int, draws: Draws, places: Places) -> Counts:
    """Draw the rounding of every number, which gives the set bits per position; flip them."""
    protocol = part.protocol
    assert isinstance(protocol, Encoded)  # noqa: S101 - chosen by the table below
    ones = thermometer(protocol.resolution, truth, runs, draws)
    flip = float(protocol.flip_probability)
    if protocol.together:
        total = ones.sum(axis=1, keepdims=True)
        return flipped(total, protocol.resolution * truth.people, flip, draws)
    return flipped(ones[:, places], truth.people, flip, draws)


def thermometer(bits: int, truth: Truth, runs: int, draws: Draws) -> Counts:
    """Return how many people set each bit before it is flipped: a row for each run."""
    full, chances = rounding(bits, truth)
    # Everyone whose number reaches the whole step sets its bit; the next bit is a coin.
    steps = np.zeros(bits + 1, np.int64)
    np.add.at(steps, full, truth.counts)
    sure = np.cumsum(steps[:0:-1])[::-1]
    loose = np.flatnonzero(chances > 0)
    ones = np.broadcast_to(sure, (runs, bits)).copy()
    if len(loose):
        ups = draws.binomial(truth.counts[loose], chances[loose], (runs, len(loose)))
        edges = np.flatnonzero(np.diff(full[loose], prepend=-1))
        ones[:, full[loose][edges]] += np.add.reduceat(ups, edges, axis=1)
    return ones


def rounding(bits: int, truth: Truth) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return, per distinct share, the bits that are surely set and the chance of one more."""
    assert truth.shares is not None  # noqa: S101 - a truth about numbers has them
    height = truth.shares * bits
    full = np.minimum(height.astype(np.int64), bits)
    return full, np.where(full < bits, height - full, 0.0)


def flipped(ones: Counts, records: int, flip: float, draws: Draws) -> Counts:
    """Return the tallies of ``records`` bits of which ``ones`` are set, each flipped."""
    return draws.binomial(ones, 1.0 - flip) + draws.binomial(records - ones, flip)


def _uniform(trials: int, chance: float, runs: int, draws: Draws, places: Places) -> Counts:
    """Return how many of ``trials`` fall on each place, where each has the same chance."""
    rest = max(0.0, 1.0 - chance * len(places))
    weights = np.append(np.full(len(places), chance), rest)
    return draws.multinomial(trials, weights / weights.sum(), runs)[:, :-1]


SAMPLERS: dict[str, Sampler] = {
    "flips": _flips,
    "decoys": _decoys,
    "flipped-decoys": _flipped_decoys,
    "encoded": _encoded,
}
