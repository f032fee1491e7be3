"""The decoys of a million people at once: signed ones against uniform ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.findings import Finding, Goal, Line, milliseconds, processor_seconds, ratio
from benchmarks.pipeline.variants import calibrated
from chaffinch.protocols import Protocol
from chaffinch.protocols.base import answer_labels
from chaffinch.questions import Bit, Choice, Question
from chaffinch.sampling import secure_words

USERS = 1_000_000
PROMISE = 1.0, 1e-6
AIM = 2.0
QUESTIONS: dict[str, Question] = {
    "one bit": Bit(),
    "one of 100": Choice(range(100), missing="refuse"),
}
SIGNED, UNIFORM = "signed decoys, 75% of epsilon for the count", "clear with decoys"


def findings() -> Iterator[Finding]:
    """Yield the one table."""
    lines = []
    for name, question in QUESTIONS.items():
        jobs = {kind: _job(question, kind) for kind in (SIGNED, UNIFORM)}
        seconds = processor_seconds(jobs, repeats=9)
        times = ratio(seconds[SIGNED], seconds[UNIFORM])
        cells = (milliseconds(seconds[SIGNED]), milliseconds(seconds[UNIFORM]), times)
        lines.append(Line(name, cells, Goal(AIM, times, at_least=False)))
    columns = ("signed, ms", "uniform, ms", "ratio")
    yield Finding("Encoding a million answers among decoys", columns, lines)


def _job(question: Question, variant: str) -> Callable[[], object]:
    (part,) = calibrated(question, variant, USERS, PROMISE).parts
    protocol: Protocol = part.protocol
    values = 2 if question.shape == "bit" else len(answer_labels(question))
    answers = np.random.default_rng(1).integers(0, values, USERS).astype(np.uint32)
    return lambda: protocol.encode_many(question, answers, secure_words())
