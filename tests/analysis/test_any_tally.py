"""Anybody can send any code of a plan: whatever was counted is released, or refused for good.

An analyzer that meets anything else with a batch that it has opened meets it again at every start.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from chaffinch import plan
from chaffinch.analysis.analyze import analyze
from chaffinch.encoding.bulk import encode_many
from chaffinch.errors import BatchTooSmall, InvalidFile, InvalidInput
from chaffinch.plans.plan import Plan
from chaffinch.privacy import Target
from chaffinch.questions import Bit, Choice, Cross, Flags, Number, Question
from chaffinch.release.export import json_bytes
from chaffinch.release.surveys import read_release
from chaffinch.shuffling.in_memory import shuffle
from chaffinch.wire.messages import Tally
from tests.tiers import nightly, some

PEOPLE = 400
REFUSALS = (InvalidFile, BatchTooSmall, InvalidInput)
"""What a release is refused with for good (``analysis.paid_releases``)."""
GAPS = Choice(["x", "y"], missing="count")
QUESTIONS: dict[str, tuple[Question, list[Any]]] = {
    "bit": (Bit(missing="count"), ["yes", "no", None]),
    "choice": (Choice(["x", "y", "z"], missing="count"), ["x", "y", None]),
    "number": (Number(0, 100, missing="count", spread=True), [0, 71, None]),
    "quantiles": (Number(0, 100, missing="count", quantiles=True), [0, 71, None]),
    "flags": (Flags(["p", "q"], missing="count"), [["p"], ["p", "q"], None]),
    "cross of a bit": (
        Cross({"a": GAPS, "b": Bit(missing="count")}),
        [{"a": "x", "b": "yes"}, {"a": None, "b": "no"}, {"a": "y", "b": None}],
    ),
    "cross of a number": (
        Cross({"a": GAPS, "b": Number(0, 10, missing="count")}),
        [{"a": "x", "b": 3}, {"a": None, "b": 10}, {"a": "y", "b": None}],
    ),
}


@cache
def honest(name: str, local_epsilon: float | None) -> tuple[Plan, Tally]:
    question, answers = QUESTIONS[name]
    made = plan(
        question,
        users=PEOPLE,
        target=Target(1.0, 1e-6),
        local_epsilon=local_epsilon,
        anyway=True,
    )
    people = [answers[place % len(answers)] for place in range(PEOPLE)]
    is_crossed = isinstance(question, Cross)
    columns = {key: [one[key] for one in people] for key in answers[0]} if is_crossed else people
    found = shuffle(encode_many(columns, made))
    return made, Tally(made.id, PEOPLE, found.code_counts().dense(), "a" * 32)


@pytest.mark.parametrize("local_epsilon", [None, nightly(4.0)], ids=str)
@pytest.mark.parametrize("name", some(QUESTIONS, "bit", "choice", "number"))
def test_whatever_was_counted_is_released_or_refused(
    name: str, local_epsilon: float | None
) -> None:
    made, tally = honest(name, local_epsilon)
    draw = np.random.default_rng(7)
    each = np.eye(made.codes, dtype=np.int64)
    at = sorted({*range(min(made.codes, 6)), *range(max(0, made.codes - 6), made.codes)})
    wild = [draw.choice([0, 0, 0, 50, 400, 3000], size=made.codes) for _ in range(10)]
    more = [many * each[code] for code in at for many in (60, 151, 1000, 100_000)]
    more.append(0 * each[0])
    released = 0
    for strange in (*more, *wild):
        for reports in (PEOPLE, PEOPLE + 20, 10**12):
            changed = Tally(made.id, reports, tally.counts + strange, tally.name)
            try:
                release = analyze(changed, made)
            except REFUSALS:
                continue
            read_release(json_bytes(release.document())).page()
            released += 1
    assert released, "the honest one at least"
