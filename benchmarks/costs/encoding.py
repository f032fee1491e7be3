"""What each protocol takes to encode: one answer on a device, and a table of answers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.costs.fitting import Shares, share_out, spent
from benchmarks.harness import tell
from chaffinch.encoding.device import encode_with
from chaffinch.engines.local import Local
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Protocol, every_protocol
from chaffinch.protocols.base import TOTALS, EncodingSeconds, Setting
from chaffinch.questions import Choice, Number, Question
from chaffinch.sampling import secure_words
from tests.engines.plans import plan_of

VALUES = 100
CROWDS = (1_000_000, 1_000)
"""Of a large crowd each sends little noise, of a small one much."""
ON_DEVICE, IN_TABLE = 2_000, 500_000
MU, EPSILON, DELTA = 0.2, 1.0, 1e-9


def measure() -> dict[str, EncodingSeconds]:
    """Return the seconds of every protocol that sends something, by its kind."""
    return {one.kind: _measure(one) for one in every_protocol() if one.view != TOTALS}


def sample_plans(protocol: type[Protocol]) -> list[Plan]:
    """Return two plans of a protocol: one of few messages in a report, one of many."""
    question: Question = Choice([f"v{place}" for place in range(VALUES)], missing="refuse")
    if question.shape not in protocol.shapes:
        question = Number(0, 60)
    variants = protocol.variants(question, 64)
    made = []
    for variant, crowd in zip((variants[0], variants[-1]), CROWDS, strict=True):
        setting = Setting(question, crowd, EPSILON, DELTA / 100, DELTA)
        made.append(plan_of(("answer", question, variant.make(setting, MU)), users=10))
    return made


def _measure(protocol: type[Protocol]) -> EncodingSeconds:
    tell(protocol.kind)
    few, many = sample_plans(protocol)
    device = share_out(*((_messages(one), _on_device(one)) for one in (few, many)))
    table = _shares_of_table(few, many)
    tell("")
    return EncodingSeconds(*device, *table)


def _messages(plan: Plan) -> float:
    return sum(part.expected_messages for part in plan.parts)


def _on_device(plan: Plan) -> float:
    """Return the seconds of one report."""
    answer, words = _answers(plan, 1)[0], secure_words()
    return spent(lambda: [encode_with(answer, plan, words) for _ in range(ON_DEVICE)]) / ON_DEVICE


def _shares_of_table(few: Plan, many: Plan) -> Shares:
    """Return the seconds of an answer in a table, and of each of its messages."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        source, target = Path(name) / "answers.parquet", Path(name) / "encoded.parquet"
        for plan in (few, many):
            pq.write_table(pa.table({"answer": _answers(plan, IN_TABLE)}), source)

            def encode(plan: Plan = plan) -> None:
                target.unlink(missing_ok=True)
                Local(workers=1).encode(source, plan, target)

            encode()
            messages = pq.read_metadata(target).num_rows / IN_TABLE
            found.append((messages, spent(encode, turns=3) / IN_TABLE))
    return share_out(*found)


def _answers(plan: Plan, number: int) -> Any:
    random = np.random.default_rng(1)
    if plan.parts[0].question.shape == "number":
        return random.uniform(0, 60, number)
    labels = np.array(plan.parts[0].question.labels)  # type: ignore[union-attr]
    return labels[random.integers(0, VALUES, number)]
