"""A uniform order of the messages of a whole cluster.

Every message draws one of the parts, uniformly and independently of everything else; each part
puts what it got into a uniform order; the parts follow one another. That is the proof of
``shuffling.on_disk`` with parts for buckets, word for word: the part is the first digit of a
message's key, and the order inside it that of the other digits. Keys are never written down, so
there are no ties, and no second key that would break them.

A task that runs again draws the same: its words follow from the job's secret and from a digest of
what it has read (``job``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from chaffinch.disk.locations import Place
from chaffinch.engines.spark.code_counts import count_crowd
from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.targets import Target, filling, finish_batch, standing_batch
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.sampling import below, shuffled
from chaffinch.shuffling.record import Record
from chaffinch.tables.parallel import Progress
from chaffinch.wire.batch_folders import PART_MESSAGES, BatchPart, part_name, write_part
from chaffinch.wire.batches import BatchFacts, digest_of
from chaffinch.wire.message_pieces import BatchPieces, MessagePiece
from chaffinch.wire.message_reader import BatchSet


def shuffle_batches(
    job: Job,
    known: BatchSet,
    opened: Sequence[BatchPieces],
    target: Place,
    record: Record,
    *,
    progress: Progress | None = None,
) -> BatchFacts:
    """Write batches that were opened as one, in a uniform order, and return its facts."""
    standing = standing_batch(target)
    counts = count_crowd(job, known, opened, progress)
    made = record.claim(
        list(known.digests),
        known.origin.facts("shuffled", known.reports, known.name),
        counts,
        instead_of=standing,
    )
    parts = max(1, -(-counts.total // PART_MESSAGES))
    pieces = list(enumerate(piece for batch in opened for piece in batch.pieces))
    with filling(target, "shuffled", standing) as folder:
        written = job.exchange(
            pieces,
            partial(_scatter, parts, np.min_scalar_type(made.space - 1)),
            partial(_gather, folder, made),
            parts=parts,
            sizes=[piece.rows for _, piece in pieces],
            progress=progress,
        )
        finish_batch(job, folder, made, written, expected=digest_of(made, counts))
    record.finish(made.name)
    return made


def _scatter(
    parts: int, kind: np.dtype[Any], ring: Keyring, numbered: tuple[int, MessagePiece]
) -> Iterator[tuple[int, bytes]]:
    number, piece = numbered
    # All codes of the piece are there before a word is drawn: the words follow from their digest.
    codes = np.concatenate([np.empty(0, kind), *(one.astype(kind) for one in piece.batches())])
    words = ring.words("scatter", number, hashlib.sha256(codes.tobytes()).digest())
    drawn = below(words, parts, len(codes))
    order = np.argsort(drawn, kind="stable")
    bounds = np.searchsorted(drawn[order], np.arange(parts + 1))
    for part in range(parts):
        chosen = codes[order[bounds[part] : bounds[part + 1]]]
        if len(chosen):
            yield part, chosen.tobytes()


def _gather(
    target: Target, facts: BatchFacts, ring: Keyring, part: int, blobs: list[bytes]
) -> BatchPart:
    # In the order of the pieces (`tasks.Gathered`): a task that runs again digests the same.
    content = b"".join(blobs)
    codes = np.frombuffer(content, np.min_scalar_type(facts.space - 1))
    words = ring.words("order", part, hashlib.sha256(content).digest())
    ordered = shuffled(words, codes).astype(np.uint32)
    return write_part(target.folder, part_name(part, 0, target.token), facts, ordered)
