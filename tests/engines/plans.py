"""Plans, tables and files of messages for tests: small, quick to verify, of any noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Flips
from chaffinch.questions import Choice
from chaffinch.wire.batches import BatchFacts, CodeCounts, digest_of
from chaffinch.wire.message_reader import MessageReader
from chaffinch.wire.message_writer import MessageWriter

LEAST = Fraction(1, 2**64)
"""The smallest chance there is: nothing of it is ever seen in a test."""


def plan_of(
    *parts: tuple[Any, ...], users: int, epsilon: float = 100.0, delta: float = 1.0
) -> Plan:
    """Return a plan that promises next to nothing, so that every parameter will do.

    A part is given by its name, its question and its protocol.
    """
    made = tuple(Part(*part) for part in parts)
    return Plan("", made, users, users, users, 1, epsilon, delta)


def flipped(users: int, values: int, chance: Fraction) -> Plan:
    """Return a plan with one choice; a slot for every value, so that nothing is cut."""
    question = Choice([f"v{i}" for i in range(values - 1)], missing="count")
    return plan_of(("answer", question, Flips(chance, 1, values)), users=users)


def clear(users: int, values: int) -> Plan:
    """Return a plan under which messages are answers, and no others are there."""
    question = Choice([f"v{i}" for i in range(values - 1)], missing="count")
    return plan_of(("answer", question, Decoys(1, LEAST)), users=users)


def answers(users: int, values: int, seed: int = 0) -> NDArray[np.int64]:
    """Return answers of which the first values are the most frequent."""
    draws = np.random.default_rng(seed).random(users)
    return (draws**2 * (values - 1)).astype(np.int64)


def table(path: Path, numbers: NDArray[np.int64], column: str = "answer") -> Path:
    pq.write_table(pa.table({column: [f"v{number}" for number in numbers.tolist()]}), path)
    return path


def written(path: Path, plan: Plan, codes: Sequence[int] | NDArray[Any], **other: Any) -> Path:
    """Write a file of messages; by default one report for each, encoded."""
    facts: dict[str, Any] = {"plan_id": plan.id, "stage": "encoded", "space": plan.codes} | other
    reports = facts.pop("reports", len(codes))
    with MessageWriter(path, **facts) as writer:
        writer.write(np.asarray(codes, np.uint32), reports)
    return path


def forged(path: Path, facts: BatchFacts, codes: Sequence[int]) -> Path:
    """Write a file that the writer would refuse to, with a true digest if there is one."""
    numbers = np.asarray(codes, np.uint32)
    counts = CodeCounts(facts.space)
    counts.add(numbers[numbers < facts.space])
    texts = {"messages": "2", "digest": digest_of(facts, counts)}
    texts |= {name: str(value) for name, value in vars(facts).items()}
    field = pa.field("message", pa.uint32(), nullable=False)
    made = pa.table([pa.array(numbers, pa.uint32())], schema=pa.schema([field]))
    with pq.ParquetWriter(
        path,
        made.schema,
        compression="none",
        use_dictionary=False,
        column_encoding={"message": "DELTA_BINARY_PACKED"},
        write_page_checksum=True,
    ) as writer:
        writer.add_key_value_metadata({f"chaffinch.{name}": text for name, text in texts.items()})
        writer.write_table(made)
    return path


def read(path: Any) -> NDArray[np.uint32]:
    return np.concatenate([np.empty(0, np.uint32), *MessageReader(path).batches()])


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
