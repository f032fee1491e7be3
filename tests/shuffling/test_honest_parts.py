"""How many honest people the parts of a pool have, as a hop really splits it.

Every test here draws pools with liars in them and lets the releaser split them. Where the promise
is kept, or the law is the stated one, a test fails with a chance of at most FALSE_ALARM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

import chaffinch as cf
from chaffinch.plans.honest_share import HonestShare
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from chaffinch.sampling import secure_words
from chaffinch.shuffling import release_rule
from chaffinch.shuffling.release_rule import Releaser, ReleaseRule
from chaffinch.shuffling.state import Partition

FALSE_ALARM = 1e-6
USERS, SHARE = 40, Fraction(4, 5)
MEANT = math.ceil(USERS / SHARE)
"""So many reports have so many honest people on average."""
HONEST = HonestShare(SHARE)
PROMISED = Fraction(1, 50)
REPORTS = next(r for r in range(MEANT, 200) if HONEST.shortfall(users=USERS, reports=r) <= PROMISED)
TRIALS = 5_000
Bools = NDArray[np.bool_]
RANDOM = np.random.default_rng(29)


WORDS = secure_words()


class Anything:
    """Takes every call: a transaction, an outbox, a batch."""

    id = "batch"

    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *_: None


@cache
def plan_for(reports: int) -> Plan:
    part = Part("answer", cf.Bit(), Flips(Fraction(1, 4)))
    return Plan("", (part,), USERS, reports, USERS, 1, 1.0, 0.5, honest=HONEST)


class Pool:
    """What a releaser asks of its state: one partition, with so many messages of each report."""

    def __init__(self, plan: Plan, sizes: NDArray[np.int64]) -> None:
        self.partition = Partition(plan.id, 1, b"\1" * 32)
        self.items = sizes.astype("<u4").tobytes()
        self.reports = len(sizes)

    def partitions(self) -> dict[Partition, int]:
        return {self.partition: self.reports}

    def sizes(self, _: Partition) -> list[bytes]:
        return [self.items]

    @contextmanager
    def changing(self) -> Iterator[Anything]:
        yield Anything()


class Noted(Releaser):
    """Notes who is in which batch, in place of writing it."""

    parts: list[Bools]

    def _write(self, *asked: Any) -> Any:
        *_, chosen = asked
        self.parts.append(chosen)
        return Anything()


def parts_of(plan: Plan, sizes: NDArray[np.int64], largest_batch: int = 1) -> list[Bools]:
    """Return the batches that a hop makes of a pool, as those who are in them."""
    hop = Noted(
        Pool(plan, sizes),  # type: ignore[arg-type]
        {plan.id: plan},
        Anything(),  # type: ignore[arg-type]
        WORDS,
        ReleaseRule(largest_batch=largest_batch),
    )
    hop.parts = []
    hop.tick()
    return hop.parts


def independent(people: int) -> Bools:
    """Return who is honest: the target, the first one, and each other by chance."""
    return np.append([True], RANDOM.random(people - 1) < float(SHARE))


def picked(people: int) -> Bools:
    """Return who is honest where somebody picked as many liars as may be: the first to come."""
    liars = people - 1 - math.ceil(SHARE * (people - 1))
    return np.append([True], np.arange(people - 1) >= liars)


def honest_with_target(
    people: int, reports: int, honest: Callable[[int], Bools], *, filled: bool = True
) -> int | None:
    """Return how many honest people are in the target's part of a pool, if it is released.

    Liars fill their reports as others do, or leave them empty.
    """
    who = honest(people)
    sizes = np.ones(people, np.int64) if filled else who.astype(np.int64)
    for part in parts_of(plan_for(reports), sizes):
        if part[0]:
            assert np.count_nonzero(part) >= reports
            return int(np.count_nonzero(who & part))
    return None


def short_of(people: int, reports: int, honest: Callable[[int], Bools], **liars: bool) -> int:
    """Return in how many of all trials the target has fewer honest people than promised."""
    found = (honest_with_target(people, reports, honest, **liars) for _ in range(TRIALS))
    return sum(one is not None and one < USERS for one in found)


def most_of(chance: Fraction | float) -> float:
    """Return what so many trials exceed with a chance of FALSE_ALARM."""
    return float(binom.isf(FALSE_ALARM, TRIALS, float(chance)))


@pytest.mark.parametrize("honest", [independent, picked])
def test_parts_have_their_honest_people_as_promised(honest: Callable[[int], Bools]) -> None:
    """The smallest parts there are: a pool one report above two crowds, split in two."""
    assert ReleaseRule(largest_batch=1).parts(2 * REPORTS + 1, REPORTS) == 2
    assert short_of(2 * REPORTS + 1, REPORTS, honest) <= most_of(PROMISED)


@pytest.mark.parametrize("honest", [independent, picked])
def test_what_was_waited_for_before_is_seen_to_be_too_few(
    honest: Callable[[int], Bools],
) -> None:
    assert short_of(2 * MEANT + 1, MEANT, honest) > 4 * most_of(PROMISED)


def test_a_split_in_the_order_of_arrival_is_seen_to_break_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def careless(_: object, reports: int, parts: int) -> NDArray[np.int64]:
        return np.arange(reports) * parts // reports

    monkeypatch.setattr(release_rule, "split", careless)
    assert short_of(2 * REPORTS + 1, REPORTS, picked) == TRIALS


@pytest.mark.parametrize("honest", [independent, picked])
def test_the_number_of_honest_people_has_the_stated_law(honest: Callable[[int], Bools]) -> None:
    """Binomial where each lies alone, hypergeometric where liars were picked: mean and variance.

    A tenth of the liars more or fewer would be noticed, and one law in place of the other.
    """
    pool, others = 4 * MEANT - 1, 2 * MEANT - 1
    share = SHARE if honest is independent else Fraction(math.ceil(SHARE * pool), pool)
    variance = others * share * (1 - share)
    if honest is picked:
        variance *= Fraction(pool - others, pool - 1)
    found = np.array(
        [honest_with_target(pool + 1, MEANT, honest) for _ in range(TRIALS)], np.float64
    )
    off, width = abs(found.mean() - 1 - float(others * share)), norm.isf(FALSE_ALARM / 4)
    assert off < width * math.sqrt(variance / TRIALS) < others * float(1 - share) / 20
    # Nearly a normal law, whose variance is off by a ninth at most in so many draws.
    assert abs(found.var() / float(variance) - 1) < width * math.sqrt(2 / TRIALS) < 1 / 9


def test_liars_with_empty_reports_lose_nobody_their_crowd() -> None:
    """Each split is then tried again with half as many parts, until all have their messages."""
    assert short_of(9 * REPORTS, REPORTS, independent, filled=False) == 0


def test_splits_are_tried_with_half_as_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages for four crowds, all of them in the first part, however many parts there are."""
    tried: list[int] = []

    def noted(_: object, reports: int, parts: int) -> NDArray[np.int64]:
        tried.append(parts)
        return np.arange(reports) * parts // reports

    monkeypatch.setattr(release_rule, "split", noted)
    plan, full = plan_for(REPORTS), 7 * USERS
    sizes = np.append(np.ones(full, np.int64), np.zeros(20 * REPORTS - full, np.int64))
    assert [len(one) for one in parts_of(plan, sizes)] == [20 * REPORTS]
    assert tried == [7, 3, 1]
