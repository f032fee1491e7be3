"""Releases made by hand: quick, and with everything in them that could go wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chaffinch.privacy import Guarantee
from chaffinch.release.surveys import Answer, Release, Summary

NASTY = (
    "tea",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)",
    "</title></style></svg></table><script>",
    "=HYPERLINK(1)",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "'quoted",
    "-5",
    "a,b;c",
    "日本茶" * 30,
    "&amp;",
)
GUARANTEE = Guarantee(1.0, 1e-6, "replace-one", "messages", "5000 honest users", 4.5, "exact")


def counted(question: str, labels: Sequence[str], notes: Sequence[str] = ()) -> Answer:
    """Return an answer whose numbers follow from the place of each value."""
    size = len(labels)
    estimates = np.array([37.0 * place % 5000 - 12.5 for place in range(size)])
    return Answer(
        question=question,
        labels=tuple(labels),
        tallies=np.arange(size, dtype=np.int64),
        estimates=estimates,
        standard_errors=np.full(size, 44.25),
        low=np.maximum(estimates - 88, 0),
        high=np.maximum(estimates + 88, 0),
        low_together=np.maximum(estimates - 120, 0),
        high_together=np.maximum(estimates + 120, 0),
        notes=tuple(notes),
    )


def number(question: str = "minutes") -> Answer:
    one = np.array([14.5621])
    return Answer(
        question=question,
        labels=("mean",),
        tallies=np.array([10, 5, 2], dtype=np.int64),
        estimates=one,
        standard_errors=np.array([0.0742]),
        low=one - 0.2,
        high=one + 0.2,
        low_together=one - 0.2,
        high_together=one + 0.2,
        notes=("Quantiles: shares were moved.",),
        summary=Summary("min<utes>", 72810.5, ((0.1, 0.0, 1.5, 6.0), (0.5, 6.0, 10.5, 15.0))),
    )


def release(*answers: Answer, title: str = "Break<fast> & more", local: float = 4.5) -> Release:
    return Release(
        plan_id="a7" * 32,
        title=title,
        guarantee=replace(GUARANTEE, local_epsilon=local),
        rounds=3,
        reports=5000,
        batch="0" * 32,
        level=0.95,
        version="0.1.0.dev0",
        answers=answers or (counted("dr<i>nk", NASTY, ["Moved by <b>hand</b>."]), number()),
    )
