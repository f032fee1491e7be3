"""Shuffle in this process.

What went into a batch never goes into a second one: the batches A and A with one report more,
both released, would show that report. This process remembers the names that it has shuffled
for as long as it runs. It cannot know what another process shuffled, nor a forked child what
its parent does later; a shuffler that is to outlive a process works on files, which have a
durable record.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np

from chaffinch.errors import (
    BatchRepeated,
    InvalidFile,
    InvalidInput,
    PlanMismatch,
    Reason,
    Unquoted,
)
from chaffinch.sampling import Words, secure_words, shuffled
from chaffinch.wire.messages import EMPTY, Origin, Report, Reports, Shuffled

_SHUFFLED: set[str] = set()
_LOCK = threading.Lock()


def shuffle(reports: Reports | Iterable[Report]) -> Shuffled:
    """Return the messages of a batch in a uniform order, drawn with secure randomness.

    A batch below the plan's least number of reports is refused: the guarantee counts on the
    crowd. So is a report that is there twice, or was in a batch of this process before. Rows
    of packed bits leave as the number of ones at each bit, because two bits of one row must
    not stay together.
    """
    batch, names = _joined(reports)
    _check_crowd(batch)
    # Last: a batch that is refused for anything else takes no names.
    _remember(names)
    return _permuted(batch, secure_words())


def shuffle_with(reports: Reports | Iterable[Report], words: Words) -> Shuffled:
    """Return a batch in an order drawn from given words: for simulations, without a record."""
    batch, _ = _joined(reports)
    _check_crowd(batch)
    return _permuted(batch, words)


def _check_crowd(batch: Reports) -> None:
    batch.origin.check_crowd(batch.count, len(batch.messages))


def _permuted(batch: Reports, words: Words) -> Shuffled:
    return Shuffled(
        batch.origin,
        batch.count,
        shuffled(words, batch.messages),
        batch.row_counts() if batch.rows else None,
        # A fresh name: those of the inputs stay with the shuffler.
        words.take(2).tobytes().hex(),
    )


def _remember(names: Sequence[str]) -> None:
    """Refuse names that were shuffled before, all of them or none."""
    # Looked up and added under one lock: of two threads with the same reports only one shuffles.
    with _LOCK:
        before = len(_SHUFFLED.intersection(names))
        if before:
            raise BatchRepeated(
                "reports of a shuffle",
                f"{before} that this process has shuffled before",
                hint="use the batch that was made then; late reports make a batch of their own",
            )
        _SHUFFLED.update(names)


def _joined(reports: Reports | Iterable[Report]) -> tuple[Reports, Sequence[str]]:
    if isinstance(reports, Reports):
        return reports, [reports.name]
    listed = list(reports)
    if not listed or not all(isinstance(report, Report) for report in listed):
        raise InvalidInput("reports", "at least one, all made by encoding", type(reports).__name__)
    origin = listed[0].origin
    for report in listed:
        _check_origin(report, origin)
    names = _distinct_names(listed)
    codes = np.array([report.codes for report in listed], dtype=np.uint32).ravel()
    return Reports(origin, len(listed), codes[codes != EMPTY]), names


def _check_origin(report: Report, origin: Origin) -> None:
    if report.origin == origin:
        return
    if report.origin.plan_id != origin.plan_id:
        raise PlanMismatch("report", expected=origin.plan_id, found=report.origin.plan_id)
    raise InvalidInput(
        "reports", f"all of round {origin.round}", Unquoted(f"one of round {report.origin.round}")
    )


def _distinct_names(reports: Sequence[Report]) -> Sequence[str]:
    """Return the names of reports; refuse one that is there twice, the same or changed."""
    seen: dict[str, Report] = {}
    for report in reports:
        before = seen.setdefault(report.name, report)
        if before is not report and before.digest != report.digest:
            raise InvalidFile(
                "reports",
                "as their devices made them",
                ["two with one name and different messages"],
                reason=Reason.DAMAGED,
            )
    if len(seen) < len(reports):
        raise BatchRepeated("reports of a shuffle", "one that is there twice")
    return list(seen)
