"""The shuffler's step by itself: messages in a uniform order."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.engines import EngineOptions
from chaffinch.cli.output import Output, show_batch
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.protected import kind_of, refuse_to_overwrite
from chaffinch.errors import InvalidFile


def shuffle(
    messages: list[str] | None = None,
    /,
    *,
    plan: Path,
    out: Annotated[str | None, Parameter(name=["--out", "-o"])] = None,
    record: Path | None = None,
    work: EngineOptions = EngineOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Put the messages of a whole crowd in a uniform order.

    The order is drawn with secure randomness. A batch below the plan's number of reports is
    refused, and so are messages that went into an earlier shuffle. A shuffle that was cut short
    may be run again with the same files.

    Parameters
    ----------
    messages
        Files of encoded messages, folders that a cluster has filled, and patterns of either,
        together one batch; - or nothing reads a pipe.
    plan
        The plan file.
    out
        Where the messages go: a Parquet file, or - (the default) for the next command; with
        --engine spark a new folder.
    record
        Where this shuffler remembers what it has shuffled; without one, a file for this user
        and plan in $XDG_STATE_HOME/chaffinch (~/.local/state/chaffinch).
    """
    from chaffinch.shuffling.record import usual_record

    inputs = [plan, *(messages or []), record]
    target = work.message_target(out, as_json=output.json, inputs=inputs, replaceable=Kind.BATCH)
    found = paths.open_plan(plan, output)
    _refuse_other_batch(target, record or usual_record(found.id))
    sources = [paths.input_source(one, "messages") for one in messages or ["-"]]
    with paths.explain_broken_pipe(sources), output.counting("shuffling", "messages") as tell:
        facts = work.open(tell.words).shuffle(sources, found, target, record=record, progress=tell)
    show_batch(facts, target, output)


def _refuse_other_batch(target: str, record: Path) -> None:
    """Refuse to replace a batch, except one that was cut short: it is made again as it was."""
    from chaffinch.shuffling.record import Record
    from chaffinch.wire.message_reader import MessageReader

    if target == "-" or kind_of(target) is not Kind.BATCH:
        return
    with suppress(InvalidFile):  # a damaged batch is still somebody's batch
        reader = MessageReader(target)
        reader.close()
        if Record(record).is_unfinished(reader.start.name):
            return
    refuse_to_overwrite(target)
