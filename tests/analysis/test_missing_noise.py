"""A batch with improbably little noise is refused: at most one honest batch in 10⁹ is."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from chaffinch.analysis.tally import check_tally, tally
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.errors import InvalidFile
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Signed
from chaffinch.questions import Bit
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate import SeededWords
from chaffinch.wire.messages import Origin, Tally
from tests.cases import each_case
from tests.simulate.settings import chance, choice, planned

USERS = 1000
FLOOD = tuple(chance(math.exp(0.2 * k) / k) for k in range(1, 9))
MANY = choice(100)
SIGNED = Signed(chance(0.67), FLOOD, USERS, 150)
DECOYS = Decoys(2, chance(0.3))


def noise_law(
    protocol: Signed, values: int, size: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the law of the number of messages of everybody's noise, by its parts."""
    ratio = float(protocol.ratio)
    law = stats.nbinom.pmf(np.arange(size), 2 * values, 1 - ratio)
    for pairs, rate in enumerate(protocol.flood, start=1):
        bursts = np.zeros(size)
        times = np.arange(-(-size // (2 * pairs)))
        bursts[:: 2 * pairs] = stats.poisson.pmf(times, values * float(rate))
        law = np.convolve(law, bursts)[:size]
    return np.asarray(law)


@pytest.mark.parametrize("values", [1, 5, 30])
def test_honest_signed_decoys_are_refused_once_in_a_billion_at_most(values: int) -> None:
    question = Bit() if values == 1 else choice(values)
    least = SIGNED.least_messages(question, USERS) - USERS
    law = noise_law(SIGNED, values, 1500 + 200 * values)
    below = np.cumsum(law)
    assert (below[least - 1] if least else 0.0) <= 1e-9
    # By Chernoff, so not the very last.
    assert least >= 0.7 * np.searchsorted(below, 1e-9) - 1
    # One value has so little noise in all that its absence proves nothing.
    assert (least == 0) == (values == 1)


@each_case("protocol", [DECOYS, Decoys(1, chance(0.01)), Decoys(50, Fraction(1))])
@each_case("users", [10, 1000, 10**6])
def test_honest_decoys_are_refused_once_in_a_billion_at_most(protocol: Decoys, users: int) -> None:
    least = protocol.least_messages(MANY, users) - users
    slots, rate = users * protocol.decoy_slots, float(protocol.decoy_rate)
    assert stats.binom.cdf(least - 1, slots, rate) <= 1e-9
    assert least <= slots
    spread = math.sqrt(slots * rate * (1 - rate))
    assert stats.binom.cdf(math.ceil(least + 0.8 * spread), slots, rate) > 1e-9


def counted(plan: Plan, devices: Plan | None = None) -> Tally:
    people = np.random.default_rng(3).integers(100, size=USERS).astype(np.uint32)
    words = SeededWords(5)
    reports = encode_numbers(devices or plan, [people], USERS, words)
    return tally(shuffle_with(replace(reports, origin=Origin.of(plan)), words))


def test_a_batch_without_the_flood_of_a_third_is_refused() -> None:
    plan = planned(USERS, (MANY, SIGNED))
    check_tally(counted(plan), plan)
    lost = replace(SIGNED, flood=tuple(chance(float(rate) * 2 / 3) for rate in FLOOD))
    with pytest.raises(InvalidFile, match="release nothing of this batch") as refused:
        check_tally(counted(plan, planned(USERS, (MANY, lost))), plan)
    assert "the noise that 1,000 honest users send" in str(refused.value)


def test_a_batch_without_the_decoys_of_a_third_is_refused() -> None:
    plan = planned(USERS, (MANY, DECOYS))
    check_tally(counted(plan), plan)
    lost = planned(USERS, (MANY, replace(DECOYS, decoy_rate=chance(0.2))))
    with pytest.raises(InvalidFile, match="release nothing of this batch"):
        check_tally(counted(plan, lost), plan)
