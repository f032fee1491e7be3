"""The step of the shuffler: put messages into a uniformly random order."""

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
    """Put the messages of a whole crowd into a uniformly random order.

    The order is drawn with secure randomness. A batch with fewer reports than the plan requires is
    refused, and so are messages that were shuffled before. An interrupted shuffle may be run again
    with the same files.

    Parameters
    ----------
    messages
        Files of encoded messages, folders that a cluster has written, or patterns of either, which
        together are one batch; - or no argument reads a pipe.
    plan
        The plan file.
    out
        The Parquet file for the messages, or - (the default) for a pipe to the next command; with
        --engine spark a new folder.
    record
        The file in which this shuffler records what it has shuffled; by default one for this user
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
