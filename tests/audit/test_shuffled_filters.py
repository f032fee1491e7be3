"""The real shuffler of filters attacked by an analyzer whom a publisher helps.

The helper knows the hash, so it knows the column of the id, and marks it in its own filter. The
attack looks at how many columns have each logo, and guesses whether an honest publisher has the
id. What the plan promises is not refuted; each planted fault of the shuffler is.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from chaffinch import sampling
from chaffinch.reach.planning.reach_plan import ReachPlan
from chaffinch.reach.shuffler import hand_over as shuffling
from chaffinch.sampling import flip as right_flip
from chaffinch.sampling import secure_words
from chaffinch.simulate import RandomizerAudit, audit_randomizer
from chaffinch.wire.filter_files import Filter
from tests.reach.publishing import small_plan
from tests.tiers import nightly

BITS, COLUMN = 1024, 77
OWN, SHUFFLED = Fraction(1, 64), Fraction(1, 8)
DELTA, TRIALS = 0.01, 2000


@lru_cache
def planned() -> ReachPlan:
    return small_plan(bits=BITS, flip=OWN, shuffled=SHUFFLED)


@lru_cache
def claimed() -> float:
    return planned().mechanism.epsilon(DELTA).upper


def filter_of(publisher: str, *, has: bool, honest: bool) -> Filter:
    """Return the filter of a publisher who has the id or not; helpers flip nothing."""
    row = np.zeros(BITS // 64, np.uint64)
    row[COLUMN // 64] = np.uint64(int(has) << COLUMN % 64)
    if honest:
        right_flip(secure_words(), row, planned().numerator, BITS)
    batch = ("0" if honest else "1") * 32
    return Filter(planned().id, publisher, "0" * 32, batch, BITS, (row,))


def handed_over(has: bool) -> Hashable:  # noqa: FBT001 - an answer
    both = [
        filter_of("daily", has=has, honest=True),
        filter_of("radio", has=True, honest=False),
    ]
    made = shuffling.shuffle_with(both, planned(), secure_words())
    return int(made.counts[0b11])  # marked, and set at the honest publisher


def attacked() -> RandomizerAudit:
    return audit_randomizer(
        handed_over, answers=[True, False], epsilon=claimed(), delta=DELTA, trials=TRIALS
    )


def test_the_promise_is_not_refuted() -> None:
    found = attacked()
    assert found.ok, found.verdict
    assert claimed() < 0.4


def nothing(words: Any, row: Any, numerator: int, bits: int) -> None:
    pass


def a_tenth(words: Any, row: Any, numerator: int, bits: int) -> None:
    right_flip(words, row, numerator // 10, bits)


class _OnlyTheFirst:
    """Flips the honest publisher's row, and trusts the other one."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, words: Any, row: Any, numerator: int, bits: int) -> None:
        self.calls += 1
        if self.calls % 2:
            right_flip(words, row, numerator, bits)


@pytest.mark.parametrize("fault", [nightly(nothing), a_tenth, nightly(_OnlyTheFirst())])
def test_a_planted_fault_is_refuted(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "flip", fault)
    found = attacked()
    assert not found.ok, found.verdict
    assert found.lower_bound > 2 * claimed()
