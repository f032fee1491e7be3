"""Batches of messages on the command line: what is said of one, and of a pipe that broke."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chaffinch.cli.output import Output, count_of

if TYPE_CHECKING:
    from chaffinch.wire.batches import BatchFacts


@contextmanager
def explain_broken_pipe(sources: list[str]) -> Iterator[None]:
    """Say of a broken pipe what broke it: the command before, not a file."""
    from chaffinch.errors import InvalidFile, Reason

    try:
        yield
    except InvalidFile as error:
        if "-" not in sources or error.reason is not Reason.DAMAGED:
            raise
        raise InvalidFile(
            "standard input",
            "a whole stream of chaffinch messages",
            ["one that is empty, cut off, or something else"],
            hint="the command before this one in the pipe failed, or sent something else",
        ) from None


def show_batch(facts: BatchFacts, target: str, output: Output) -> None:
    """Say what a batch of messages holds and where it went."""
    if output.json:
        document: dict[str, Any] = {
            "plan": facts.plan_id,
            "stage": facts.stage,
            "reports": facts.reports,
            "file": target,
        }
        output.document(document)
    else:
        where = "" if target == "-" else f", written to {target}"
        output.say(f"{count_of(facts.reports, 'report')} {facts.stage}{where}")
