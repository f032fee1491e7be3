"""Random settings of every mechanism, each judged by certified balls of 50 digits or more.

A setting draws its parameters from a seeded source, asks the package, and returns what is
wrong with the answer, or nothing. Where the truth over all crowds is too big to enumerate, any
one crowd is a lower bound of it: the upper end may not fall below.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

from flint import arb

from chaffinch import privacy
from chaffinch.privacy import Bracket
from tests.oracles import balls, judge

Judged = Callable[[random.Random], str]


def draw_flip(source: random.Random) -> Fraction:
    """Return a flip probability from 1e-4 to 0.49: any float, log-uniform."""
    return Fraction(math.exp(source.uniform(math.log(1e-4), math.log(0.49))))


def draw_size(source: random.Random, most: int, least: int = 1) -> int:
    return int(math.exp(source.uniform(math.log(least), math.log(most + 0.99))))


def draw_epsilon(source: random.Random, flip: Fraction, times: int = 1) -> float:
    """Return an epsilon from 0 to the local one, small ones more often."""
    return times * math.log((1 - flip) / flip) * source.random() ** source.choice([1, 2, 4])


def only_upper(bracket: Bracket) -> Bracket:
    """Return the bracket without its lower end: the truth is known from below only."""
    return Bracket(0.0, bracket.upper)


def bits_enumerated(source: random.Random) -> str:
    flip, users = draw_flip(source), draw_size(source, 60)
    copies, decoys = source.choice([1, 1, 2, 5]), source.choice([0, 0, 3, 30])
    epsilon = draw_epsilon(source, flip, copies)
    mechanism = privacy.FlippedBits(
        users=users, flip_probability=flip, copies=copies, decoys=decoys
    )
    truth = balls.worst_bits_delta(users, flip, epsilon, copies, decoys)
    found = judge.ball_complaint(mechanism.delta(epsilon), truth)
    return found and f"{mechanism!r}.delta({epsilon!r}): {found}"


def bits_of_a_crowd(source: random.Random) -> str:
    flip, users = draw_flip(source), draw_size(source, 10_000)
    ones = source.choice(
        [0, users - 1, source.randint(0, users - 1), source.randint(0, users // 9)]
    )
    epsilon = draw_epsilon(source, flip) * source.choice([1.0, 0.1])
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    truth = balls.bits_delta(ones, users - 1 - ones, flip, epsilon)
    found = judge.ball_complaint(mechanism.crowd(ones=ones).delta(epsilon), truth)
    found = found or judge.ball_complaint(only_upper(mechanism.delta(epsilon)), truth)
    return found and f"{mechanism!r}, ones={ones}, epsilon={epsilon!r}: {found}"


def bits_epsilon(source: random.Random) -> str:
    flip, users = draw_flip(source), draw_size(source, 10_000)
    ones = source.choice([0, source.randint(0, users - 1), source.randint(0, users // 9)])
    delta = 10.0 ** source.choice([-source.uniform(0, 12), -source.uniform(0, 300)])
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip)
    bracket = mechanism.epsilon(delta)
    truth = balls.bits_delta(ones, users - 1 - ones, flip, bracket.upper)
    if truth > arb(delta):
        return f"{mechanism!r}.epsilon({delta!r}) = {bracket!r}: {truth.str(25)} at ones={ones}"
    return ""


def decoyed(source: random.Random) -> str:
    values, decoys = draw_size(source, 1000, 2), draw_size(source, 3000)
    epsilon = source.uniform(0.0, 6.0) * source.random()
    mechanism = privacy.DecoyedValues(decoys=decoys, values=values)
    truth = balls.decoyed_delta(decoys, values, epsilon)
    found = judge.ball_complaint(mechanism.delta(epsilon), truth)
    return found and f"{mechanism!r}.delta({epsilon!r}): {found}"


def decoyed_at_a_rate(source: random.Random) -> str:
    values, users = draw_size(source, 1000, 2), draw_size(source, 3000)
    rate = Fraction(source.random() ** 2)
    epsilon = source.uniform(0.0, 6.0) * source.random()
    mechanism = privacy.DecoyedValues(users=users, decoy_rate=rate, values=values)
    truth = balls.decoyed_delta(users, values, epsilon, rate)
    found = judge.ball_complaint(mechanism.delta(epsilon), truth)
    return found and f"{mechanism!r}.delta({epsilon!r}): {found}"


def flipped_values(source: random.Random) -> str:
    flip, users = draw_flip(source), draw_size(source, 200)
    others, epsilon = users - 1, draw_epsilon(source, flip, 2)
    first = source.choice([0, others, source.randint(0, others)])
    second = source.choice([0, others - first, source.randint(0, others - first)])
    mechanism = privacy.FlippedValues(users=users, decoys=0, values=50, flip_probability=flip)
    truth = balls.two_sums_delta(first, second, others, flip, epsilon)
    found = judge.ball_complaint(only_upper(mechanism.delta(epsilon)), truth)
    return found and f"{mechanism!r}, {first}, {second}, epsilon={epsilon!r}: {found}"


def numbers_together(source: random.Random) -> str:
    flip, users, resolution = draw_flip(source), draw_size(source, 1000), source.randint(1, 8)
    others = resolution * (users - 1)
    ones = source.choice([0, others, source.randint(0, others)])
    epsilon = draw_epsilon(source, flip, resolution)
    mechanism = privacy.EncodedNumbers(
        users=users, resolution=resolution, flip_probability=flip, slots="together"
    )
    truth = balls.loose_delta(ones, others - ones, flip, epsilon, resolution, upward=False)
    found = judge.ball_complaint(only_upper(mechanism.delta(epsilon)), truth)
    return found and f"{mechanism!r}, ones={ones}, epsilon={epsilon!r}: {found}"


def numbers_apart(source: random.Random) -> str:
    """Two slots: a sum with a ones and 1 -> 0 is the mirror of one with a zeros and 0 -> 1."""
    flip, users = draw_flip(source), draw_size(source, 60)
    others, epsilon = users - 1, draw_epsilon(source, flip, 2)
    more = source.randint(0, others)
    less = source.choice([0, more, source.randint(0, more)])
    mechanism = privacy.EncodedNumbers(
        users=users, resolution=2, flip_probability=flip, slots="separate"
    )
    truth = balls.two_sums_delta(others - more, less, others, flip, epsilon)
    found = judge.ball_complaint(only_upper(mechanism.delta(epsilon)), truth)
    return found and f"{mechanism!r}, ones=({more}, {less}), epsilon={epsilon!r}: {found}"


def whole_rows(source: random.Random) -> str:
    flip, bits = Fraction(source.uniform(0.02, 0.49)), source.choice([1, 2, 2, 3])
    rows = draw_size(source, {1: 400, 2: 40, 3: 14}[bits])
    epsilon = draw_epsilon(source, flip, bits)
    mechanism = privacy.FlippedVectors(users=rows, bits=bits, flip_probability=flip)
    if source.random() < 0.5:
        columns = privacy.FlippedFilters(filters=bits, bits=rows, flip_probability=flip)
        pair, proven = columns.assumed_pair().delta(epsilon), columns.delta(epsilon)
    else:
        pair, proven = mechanism.assumed_pair().delta(epsilon), mechanism.delta(epsilon)
    truth = balls.larger(*balls.assumed_pair_deltas(rows, bits, flip, epsilon))
    found = judge.ball_complaint(pair, truth) or judge.ball_complaint(only_upper(proven), truth)
    return found and f"{mechanism!r}, epsilon={epsilon!r}: {found}"


SHARES: dict[Judged, int] = {
    bits_enumerated: 40,
    bits_of_a_crowd: 80,
    bits_epsilon: 40,
    decoyed: 40,
    decoyed_at_a_rate: 20,
    flipped_values: 25,
    numbers_together: 20,
    numbers_apart: 15,
    whole_rows: 25,
}
"""How many of each the gate draws; the nightly tier draws eight times as many."""
