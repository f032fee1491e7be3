"""One answer on one device.

Every path draws the same number of random words whatever the answer is, and every chance is
one comparison of a secure word with a whole number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chaffinch import ledger as budgets
from chaffinch.errors import InvalidAnswer, InvalidInput
from chaffinch.plans.expansion import answers_of_parts
from chaffinch.plans.plan import Plan, require_devices
from chaffinch.privacy.guarantee import Target
from chaffinch.protocols.base import settle_levels
from chaffinch.questions import Cross, Flags, Number, Question
from chaffinch.sampling import Words, secure_words
from chaffinch.wire.messages import EMPTY, Origin, Report


def encode(
    answer: object,
    plan: Plan,
    *,
    round: int | None = None,  # noqa: A002
    within: Target | None = None,
    ledger: budgets.Ledger | None = None,
    key: str | None = None,
) -> Report:
    """Return the report of one person, randomized with secure randomness.

    ``answer`` is the answer to the plan's question, or, for a survey, a mapping from the
    names of its questions to answers; None is a missing answer. A plan of several rounds
    must be told which ``round`` the report is for. The
    plan's guarantee is recomputed first, once; a plan that promises less than ``within`` is
    refused. With a ``ledger`` of this device the report is charged before it is made;
    ``key`` names the occasion (without one it is the plan, and its round where there are
    several), and the same key never makes a second report: send the first one again.
    """
    require_devices(plan).verify(within=within)
    if ledger is None:
        return encode_with(answer, plan, secure_words(), round)
    # The charge is durable before the block runs: a report that was made is always paid for.
    origin = Origin.of(plan, round)
    occasion = plan.id if plan.rounds == 1 else f"{plan.id}/{origin.round}"
    with ledger.charging(budgets.Charge.of(plan), key or occasion):
        return encode_with(answer, plan, secure_words(), round)


def encode_with(
    answer: object,
    plan: Plan,
    words: Words,
    round: int | None = None,  # noqa: A002
) -> Report:
    """Return a report drawn from given words: for ``encode`` and for simulations."""
    questions = plan.questions.values()
    numbers = map(prepare_answer, questions, _answers(answer, plan))
    return encode_prepared(answers_of_parts(plan.parts, numbers), plan, words, round)


def encode_prepared(
    answers: Sequence[Any],
    plan: Plan,
    words: Words,
    round: int | None = None,  # noqa: A002
) -> Report:
    """Return the report of an answer to each part of a plan, as ``prepare_answer`` gives them."""
    origin = Origin.of(plan, round)
    found: list[int] = []
    for part, first, given in zip(plan.parts, plan.offsets, answers, strict=True):
        sent = given
        if isinstance(part.question, Cross):
            (sent,) = settle_levels(part.question, np.array([given]), words)
        codes = part.protocol.encode_one(part.question, sent, words)
        found.extend((codes + first).tolist())
    # Sorted: which message came from the answer and which from chance must not show.
    found.sort()
    found.extend([EMPTY] * (origin.slots - len(found)))
    return Report(origin, tuple(found))


def prepare_answer(question: Question, answer: object) -> Any:
    """Return an answer as numbers: that of a value, a share, or those of the flags that hold."""
    if isinstance(question, Number):
        return question.share(answer)
    if isinstance(question, Flags):
        return question.numbers(answer)
    return question.number(answer)


def _answers(answer: object, plan: Plan) -> list[object]:
    alone = len(plan.questions) == 1
    if alone and not isinstance(answer, Mapping):
        return [answer]
    if not isinstance(answer, Mapping):
        raise InvalidAnswer("a mapping from the names of the questions to answers")
    names = set(plan.asked)
    if alone and not names >= set(answer):
        return [answer]  # A mapping is one of the forms an answer about flags may take.
    if names != set(answer):
        # Silence must be meant: a forgotten name would count as a missing answer.
        listed = ", ".join(map(repr, plan.asked))
        raise InvalidInput(
            "names of the questions", f"exactly {listed} (None for a missing answer)", list(answer)
        )
    return [
        {name: answer[name] for name in question.questions}
        if isinstance(question, Cross)
        else answer[name]
        for name, question in plan.questions.items()
    ]
