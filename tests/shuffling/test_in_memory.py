"""A shuffle in this process: every message of every report, a crowd, one plan, a new name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from chaffinch.encoding.bulk import encode_many
from chaffinch.encoding.device import encode
from chaffinch.errors import BatchTooSmall, InvalidInput, PlanMismatch
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from chaffinch.questions import Bit, Choice
from chaffinch.sampling import secure_words
from chaffinch.shuffling.in_memory import shuffle, shuffle_with
from chaffinch.wire.messages import Report, Shuffled
from tests.engines import plans

LEAST = plans.LEAST


def plan_for(users: int, name: str = "drink") -> Plan:
    question = Choice(["tea", "milk"], missing="refuse")
    return plans.plan_of((name, question, Flips(LEAST, 1, 2)), users=users)


Shuffle = Callable[[Any], Shuffled]


def simulated(reports: Any) -> Shuffled:
    return shuffle_with(reports, secure_words())


both = pytest.mark.parametrize("shuffled", [shuffle, simulated], ids=["real", "simulated"])


@both
def test_every_message_of_single_reports_is_there(shuffled: Shuffle) -> None:
    plan = plan_for(3)
    batch = shuffled([encode(answer, plan) for answer in ("tea", "milk", "milk")])
    assert Counter(batch.messages.tolist()) == {0: 1, 1: 2}
    assert batch.messages.dtype == np.uint32
    assert (batch.reports, batch.counts, batch.origin.plan_id) == (3, None, plan.id)


@both
def test_one_report_is_a_batch_where_one_is_a_crowd(shuffled: Shuffle) -> None:
    assert shuffled([encode("milk", plan_for(1))]).messages.tolist() == [1]


@both
def test_less_than_a_crowd_is_refused(shuffled: Shuffle) -> None:
    plan = plan_for(3)
    with pytest.raises(BatchTooSmall):
        shuffled(encode_many(["tea", "milk"], plan))
    with pytest.raises(BatchTooSmall):
        shuffled([encode("tea", plan), encode("tea", plan)])


@both
@pytest.mark.parametrize("kind", ["nothing", "no report", "one report"])
def test_only_reports_are_shuffled(shuffled: Shuffle, kind: str) -> None:
    report = encode("tea", plan_for(1))
    given: dict[str, list[object]] = {
        "nothing": [],
        "no report": [0, 1],
        "one report": [report, 0],
    }
    with pytest.raises(InvalidInput, match="all made by encoding"):
        shuffled(given[kind])


@both
def test_reports_of_two_plans_are_refused(shuffled: Shuffle) -> None:
    reports: list[Report] = [encode("tea", plan_for(1)), encode("tea", plan_for(1, "other"))]
    with pytest.raises(PlanMismatch):
        shuffled(reports)


def test_rows_leave_as_counts() -> None:
    wide = ("value", Choice(range(64), missing="refuse"), Flips(Fraction(1, 4), 1, 64))
    plan = plans.plan_of(("tea", Bit(), Flips(LEAST)), wide, users=2)
    reports = encode_many({"tea": [True, True], "value": [1, 2]}, plan)
    batch = shuffle(reports)
    assert batch.messages.tolist() == [0, 0]
    assert batch.counts is not None
    assert np.array_equal(batch.counts, reports.row_counts())
    assert batch.counts.sum() > 0


def test_a_batch_has_a_name_that_says_nothing_of_its_inputs() -> None:
    plan = plan_for(2)
    reports = [encode("tea", plan) for _ in range(2)]
    names = {simulated(reports).name for _ in range(3)}
    assert len(names) == 3
    assert not names & {report.name for report in reports}
    assert all(len(name) == 32 for name in names)
