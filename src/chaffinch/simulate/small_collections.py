"""Many small collections through the real path: encode, shuffle, tally.

A batch is a survey that asks the same question again and again, so one pass of the encoder,
the shuffler and the tally makes many independent collections at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.analysis.tally import tally
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.encoding.device import encode_with
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import MOST_QUESTIONS, Plan
from chaffinch.sampling import Words
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate.attacks import Attack
from chaffinch.simulate.seeded import SeededWords, branch
from chaffinch.wire.batches import Codes, Counts
from chaffinch.wire.messages import EMPTY, Report, Reports, Shuffled

_BATCH = MOST_QUESTIONS
"""Collections are made side by side, as the questions of one plan."""
_MOST_CODES = 1 << 14
_MOST_SLOTS = 1 << 18


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The three steps that an audit attacks; tests replace one by a broken one."""

    encode: Callable[[Plan, list[NDArray[Any]], int, Words], Reports] = encode_numbers
    device: Callable[[object, Plan, Words], Report] = encode_with
    shuffle: Callable[[Reports, Words], Shuffled] = shuffle_with


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The tallies of the attacked codes, a row per collection, and what else was watched."""

    tallies: Counts
    order: float = 0.0
    """How far the order of messages is from uniform, in standard deviations."""
    repeats: float = 0.0
    """How alike the noise of one collection and of a later one is, in standard deviations."""
    sizes: Counts | None = None
    """How many messages each report of one device had."""
    dummies: int = 0
    """How many messages that stand for nothing reached the analyzer."""


def collect(attack: Attack, world: int, trials: int, pipeline: Pipeline, seed: int) -> Seen:
    """Return what the analyzer sees in ``trials`` collections of one world."""
    part = attack.part
    size = max(1, min(_BATCH, _MOST_CODES // part.codes, _MOST_SLOTS // part.slots))
    plan = _survey(part, attack.crowd, size)
    numbers = [attack.numbers(world)] * size
    encoding = SeededWords(branch(seed, "encode", world))
    shuffling = SeededWords(branch(seed, "shuffle", world))
    found, orders, dummies = [], [], 0
    for _ in range(-(-trials // size)):
        reports = pipeline.encode(plan, numbers, attack.crowd, encoding)
        shuffled = pipeline.shuffle(reports, shuffling)
        orders.append(_disorder(reports.messages, shuffled.messages))
        real = shuffled.messages < plan.codes
        dummies += len(real) - int(real.sum())
        counted = tally(replace(shuffled, messages=shuffled.messages[real]))
        found.append(counted.counts.reshape(size, -1)[:, attack.codes])
    order = np.abs(np.sum(orders, axis=0)).max() / math.sqrt(len(orders))
    tallies = np.concatenate(found)
    repeats = max(_likeness(tallies, lag) for lag in {1, size} if 2 * lag < len(tallies))
    return Seen(tallies[:trials], float(order), repeats, dummies=dummies)


def collect_alone(attack: Attack, world: int, trials: int, pipeline: Pipeline, seed: int) -> Seen:
    """Return the reports of one device as tallies: a crowd of one."""
    plan = _survey(attack.part, 1, 1)
    words = SeededWords(branch(seed, "one device", world))
    answer, size = attack.answer(world), plan.codes
    found = np.empty((trials, size), np.int64)
    for row in found:
        codes = np.array(pipeline.device(answer, plan, words).codes, dtype=np.int64)
        row[:] = np.bincount(codes[codes != EMPTY], minlength=size)
    seen = found[:, attack.codes]
    return Seen(seen, repeats=_likeness(seen, 1), sizes=found.sum(axis=1))


def _survey(part: Part, crowd: int, size: int) -> Plan:
    """Return a plan that asks one question of a small crowd ``size`` times over."""
    # Its promise plays no part: what is audited is computed from the protocol.
    parts = tuple(Part(f"{place}", part.question, part.protocol) for place in range(size))
    return Plan("audit", parts, crowd, crowd, crowd, 1, 1.0, 1.0)


def _disorder(arrived: Codes, left: Codes) -> tuple[float, float]:
    """Return two scores of an order of messages, of mean 0 and variance 1 if it is uniform."""
    m = len(arrived)
    if m < 2 or len(left) != m:
        return (0.0, 0.0) if len(left) == m else (math.inf, math.inf)
    # For a sum of a(i, π(i)) over a uniform π of m places the variance is Σ d²/(m − 1), with d what
    # is left of a without the means of its rows and columns [Hoeffding 1951].
    counts = np.unique(left, return_counts=True)[1].astype(np.float64)
    squares = float(counts @ counts)
    spread = (squares - 2.0 * float(counts**2 @ counts) / m + squares**2 / m**2) / (m - 1)
    # First: the places that still have the message that arrived there, Σc²/m on average.
    kept = float(np.count_nonzero(arrived == left)) - squares / m
    # Second: the trend of the codes along the order.
    places = np.arange(m) - 0.5 * (m - 1)
    codes = left - left.mean(dtype=np.float64)
    trend, scale = float(places @ codes), float(places @ places) * float(codes @ codes) / (m - 1)
    return (
        kept / math.sqrt(spread) if spread > 1e-9 else 0.0,
        trend / math.sqrt(scale) if scale > 0 else 0.0,
    )


def _likeness(tallies: Counts, lag: int) -> float:
    """Return the correlation with the collection ``lag`` later, in standard deviations."""
    totals = tallies @ np.arange(1, tallies.shape[1] + 1)
    away = totals - totals.mean()
    power = float(away @ away) / len(away)
    if power == 0:
        return 0.0
    count = len(away) - lag
    return abs(float(away[:-lag] @ away[lag:])) / (power * math.sqrt(count))
