"""Runs of crowds that prove a delta: of one sum, of two sums, and of several rounds.

The runs are found here with floats and proven upper ends, and go into certificates. Anybody can
prove them again with whole numbers alone (`tools/check_certificate.py`). The crowds have no fixed
zeros, so one direction is enough: the mirror image of a crowd is a crowd.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from chaffinch.errors import GuaranteeNotProven, InvalidInput, Unquoted
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.bit_crowds import BitCrowds
from chaffinch.privacy.mechanisms.bits import SumMechanism
from chaffinch.privacy.mechanisms.crowd_runs import (
    MOST_RUNS,
    UNSEEN,
    CrowdRefused,
    Run,
    TooManyRuns,
    cover_crowds,
    ends_of,
)
from chaffinch.privacy.numerics.laws import DIRECT_PRODUCTS, Law, binomial, convolve, target_bits
from chaffinch.privacy.numerics.loss import knots_of_sum
from chaffinch.privacy.numerics.loss_grids import Rounds, TooFineGrid, dominating_loss
from chaffinch.privacy.numerics.pairs import SideTests, pair_delta, side_tests
from chaffinch.privacy.numerics.precision import LEAST_TAIL, Floats, Wide, up

_WIDE = 300.0
"""From this variance on two sums are composed instead of compared pair by pair."""
_WIDEST = 600.0
"""A wider sum takes longer than a minute to check."""
_UNDERFLOW = 1e-290
"""More than all products that are too small for a double can add up to."""
_PROBES = 12
"""At so many epsilons a run is asked whether it stays near a profile."""
_STEPS, _MOST_STEPS = 200, 4_000
"""The grid of losses: so many steps across the narrowest profile, at most so many across all."""
_INFINITE = 1e-4
"""The share of delta that losses behind the last node of the grid may take."""
_FARTHEST = 600.0
"""At such an epsilon only infinite losses are left."""
_EXCESSES = (0.02, 0.005, 0.001)
"""How far above a profile runs may be: fewer runs first, closer ones if that proves too little."""


@dataclass(frozen=True)
class Cover:
    """Runs for each mechanism (none where it has no crowds), and the grid that composes them."""

    runs: tuple[tuple[Run, ...], ...]
    growth: Fraction | None = None
    """Losses are followed at the powers of this factor."""
    nodes: int = 0


def cover_of(parts: Sequence[tuple[Mechanism, int]], epsilon: float, delta: float) -> Cover:
    """Return what proves ``delta`` at ``epsilon`` for mechanisms that are seen so many times.

    Each of them is a sum of bits, or has no crowds. Raises GuaranteeNotProven.
    """
    (first, times), *others = parts
    if sum(count * unit.local_epsilon for unit, count in parts) <= epsilon:
        return Cover(tuple(_whole(unit) for unit, _ in parts))
    for unit, _ in parts:
        _require_narrow(unit)
    if not others and times == 1:
        if isinstance(first, SumMechanism):
            return Cover((tuple(_covering_runs(first.bit_crowds, epsilon, delta)),))
        _require(first.delta_bound(epsilon), epsilon, delta)
        return Cover(((),))
    pair = not others and times == 2
    # Of wide sums a profile is sharp enough, and far fewer things have to be compared.
    if pair and isinstance(first, SumMechanism) and first.bit_crowds.variance < _WIDE:
        return Cover((tuple(_covering_pairs(first.bit_crowds, epsilon, delta)),))
    return _cover_rounds(parts, epsilon, delta)


def _require_narrow(unit: Mechanism) -> None:
    spread = math.sqrt(unit.bit_crowds.variance) if isinstance(unit, SumMechanism) else 0.0
    if not spread <= _WIDEST:
        raise InvalidInput(
            "standard deviation of a sum to certify",
            f"at most {_WIDEST:g} bits",
            Unquoted(f"{spread:.0f}"),
            hint="the promise may hold all the same; a larger epsilon, or a number in fewer "
            "bits, can be certified",
        )


def _whole(unit: Mechanism) -> tuple[Run, ...]:
    return ((0, unit.bit_crowds.last),) if isinstance(unit, SumMechanism) else ()


def _require(reached: float, epsilon: float, delta: float) -> None:
    if not reached <= delta:
        raise GuaranteeNotProven(f"delta at epsilon {epsilon:g}", upper=reached, most=delta)


def _covering_runs(crowds: BitCrowds, epsilon: float, delta: float) -> list[Run]:
    ends = ends_of(crowds, epsilon, delta)
    try:
        return cover_crowds(lambda run: ends(run)[1] <= delta, crowds.last)
    except CrowdRefused as crowd:
        raise _refusal(crowd, lambda run: ends(run)[1], epsilon, delta) from None
    except TooManyRuns:
        raise _too_many_runs(epsilon) from None


def _too_many_runs(epsilon: float) -> GuaranteeNotProven:
    return GuaranteeNotProven(f"delta at epsilon {epsilon:g} over {MOST_RUNS} runs", upper=1.0)


def _covering_pairs(crowds: BitCrowds, epsilon: float, delta: float) -> list[Run]:
    """Return runs of which any two prove ``delta`` at ``epsilon`` for two rounds of one bit.

    The rounds may have different crowds. Two crowds leave something of delta to spare, of which
    the run of either may use one half (in logarithms): then both runs together stay below it.
    """
    two = _TwoSums(crowds, epsilon, max(Wide(delta) * UNSEEN, LEAST_TAIL))

    def holds(run: Run) -> bool:
        crowd, first = (run[0], run[0]), (0, 0)
        half = math.sqrt(two.reached(crowd, first) * delta)
        return two.reached(run, first) <= half and two.reached(run, run) <= delta

    try:
        runs = cover_crowds(holds, crowds.last)
    except CrowdRefused as crowd:
        raise _refusal(crowd, lambda run: two.reached(run, (0, 0)), epsilon, delta) from None
    except TooManyRuns:
        raise _too_many_runs(epsilon) from None
    # So far a run was compared with the first crowd and with itself: a certificate needs all pairs.
    for place, run in enumerate(runs):
        for other in runs[:place]:
            _require(two.reached(run, other), epsilon, delta)
    return runs


def _cover_rounds(parts: Sequence[tuple[Mechanism, int]], epsilon: float, delta: float) -> Cover:
    rounds = sum(times for _, times in parts)
    reach = [_reach(unit, delta * _INFINITE / rounds) for unit, _ in parts]
    if max(reach) > _FARTHEST:
        raise GuaranteeNotProven("delta of losses that no grid reaches", upper=1.0, most=delta)
    step = max(min(reach) / _STEPS, max(reach) / _MOST_STEPS)
    # A short fraction: whoever checks a certificate takes powers of it in whole numbers.
    growth = Fraction(math.exp(step)).limit_denominator(10**9)
    if not growth > 1:
        raise GuaranteeNotProven(
            f"delta over {rounds} rounds of tiny losses", upper=1.0, most=delta
        )
    nodes = math.ceil(max(reach) / math.log(growth)) + 1
    # The nodes of the certificate are powers of ``growth``: floats near them cost nothing here.
    epsilons: Floats = np.arange(nodes + 1, dtype=np.float64) * math.log(growth)
    reached = 1.0
    for excess in _EXCESSES:
        covers = [_cover_profile(unit, epsilons, excess) for unit, _ in parts]
        total = Rounds(
            tuple(
                (dominating_loss(epsilons, proven, math.log(growth)), times)
                for (_, proven), (_, times) in zip(covers, parts, strict=True)
            )
        )
        try:
            value, doubt = total.delta(epsilon)
        except TooFineGrid:
            # Losses so different that no grid small enough to be checked holds all of them.
            break
        # Whoever checks adds up the infinite losses of all rounds, as if no two came together.
        infinite = sum(times * loss.infinite for loss, times in total.parts)
        reached = up((value + doubt) * (1 + 1e-9) + infinite)
        if reached <= delta:
            return Cover(tuple(tuple(runs) for runs, _ in covers), growth, nodes)
    raise GuaranteeNotProven(
        f"delta at epsilon {epsilon:g} over {rounds} rounds", upper=reached, most=delta
    )


def _reach(unit: Mechanism, least: float) -> float:
    """Return an epsilon beyond which at most ``least`` is left, but for what always leaks."""
    found = unit.epsilon(least).upper
    if math.isinf(found):
        always = unit.delta(_FARTHEST).upper
        # No epsilon goes below what always leaks: a delta a little above it is looked for.
        found = unit.epsilon(min(always * (1 + _INFINITE), 1.0)).upper
    return found


def _cover_profile(unit: Mechanism, epsilons: Floats, excess: float) -> tuple[list[Run], Floats]:
    """Return runs that stay within ``excess`` of a profile, and what they prove of it."""
    if not isinstance(unit, SumMechanism):
        return [], unit.profile(epsilons)[1]
    probes = epsilons[np.unique(np.linspace(0, len(epsilons) - 1, _PROBES).astype(np.int64))]
    deltas = unit.profile(probes)[1]
    # Where a profile ends nothing is lost by being above it.
    allowed = np.maximum(deltas, deltas[0] * 1e-18) * (1.0 + excess)
    tail = max(Wide(float(allowed.min())) * UNSEEN, LEAST_TAIL)
    crowds = unit.bit_crowds
    target = target_bits(crowds.copies, crowds.flip)

    def reached(run: Run, places: Floats) -> Floats:
        others = _common_law(crowds, run, tail, mirrored=False)
        return knots_of_sum(others, target, crowds.steepest).upper_deltas(places)

    def ratio(run: Run) -> float:
        return float((reached(run, probes) / allowed).max())

    try:
        runs = cover_crowds(lambda run: ratio(run) <= 1.0, crowds.last)
    except CrowdRefused as crowd:
        raise _refusal(crowd, ratio, float(probes[0]), 1.0) from None
    except TooManyRuns:
        raise _too_many_runs(float(probes[0])) from None
    return runs, np.max([reached(run, epsilons) for run in runs], axis=0)


def _refusal(
    crowd: CrowdRefused, reached: Callable[[Run], float], epsilon: float, delta: float
) -> GuaranteeNotProven:
    return GuaranteeNotProven(
        f"delta at epsilon {epsilon:g} in a crowd of {crowd.ones} ones",
        upper=reached((crowd.ones, crowd.ones)),
        most=delta,
    )


class _TwoSums:
    """Two sums of flipped bits, each among the records that all crowds of a run have."""

    def __init__(self, crowds: BitCrowds, epsilon: float, tail: Any) -> None:
        self.crowds, self.epsilon, self.tail = crowds, epsilon, tail
        self.target = target_bits(crowds.copies, crowds.flip)
        self.leaving: dict[Run, Law] = {}
        self.joining: dict[Run, SideTests] = {}

    def reached(self, first: Run, second: Run) -> float:
        if first not in self.leaving:
            # Leaving is joining in the mirror: ones and zeros change places.
            self.leaving[first] = _common_law(self.crowds, first, self.tail, mirrored=True)
        if second not in self.joining:
            others = _common_law(self.crowds, second, self.tail, mirrored=False)
            self.joining[second] = side_tests(others, self.target)
        return pair_delta(self.leaving[first], self.joining[second], self.target, self.epsilon)[1]


def _common_law(crowds: BitCrowds, run: Run, tail: Any, *, mirrored: bool) -> Law:
    # The fewest ones of the run, and the zeros that are left beside its most ones.
    ones, zeros = run[0] * crowds.step, (crowds.last - run[1]) * crowds.step
    plus, minus = (zeros, ones) if mirrored else (ones, zeros)
    first, second = binomial(plus, 1 - crowds.flip, tail), binomial(minus, crowds.flip, tail)
    if len(first.mass) * len(second.mass) <= DIRECT_PRODUCTS:
        return convolve(first, second)
    # Summed directly, in doubles for speed: beside small deltas the noise of a transform shows.
    mass = np.convolve(first.mass.astype(np.float64), second.mass.astype(np.float64))
    steps = 2.0 * min(len(first.mass), len(second.mass)) + 8.0
    relative = first.relative + second.relative + 2 * steps * 2.0**-53
    missing = first.missing + second.missing + _UNDERFLOW
    return Law(first.start + second.start, mass.astype(Wide), 2 * relative, 2 * missing)
