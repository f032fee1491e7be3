"""The step of the analyzer: make a release of shuffled messages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.engines import EngineOptions
from chaffinch.cli.output import Output, spoken_command
from chaffinch.cli.release_options import ReleaseOptions, release_files, write_release
from chaffinch.disk.files import is_special
from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.runs.payment import finish_release, refuse_to_replace


def analyze(
    messages: list[str] | None = None,
    /,
    *,
    plan: Path,
    out: Annotated[list[Path] | None, Parameter(name=["--out", "-o"], negative=())] = None,
    wanted: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    work: EngineOptions = EngineOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Turn shuffled messages into estimates with intervals.

    Parameters
    ----------
    messages
        Files of shuffled messages, folders that a cluster has written, or patterns of either, which
        together are one batch; - or no argument reads a pipe.
    plan
        The plan file.
    out
        A file for the release: .html, .json, .csv or .parquet; may be given several times.
    """
    inputs: list[str | Path] = [plan, *(messages or [])]
    targets = release_files(out or [], inputs)
    found = paths.open_plan(plan, output)
    made = wanted.prepare()
    if made.account is not None:
        _refuse_to_lose(messages or ["-"], targets)
    finished = finish_release(targets, made.payer, output.say, inputs=inputs)
    if finished:
        output.say(
            "finished an earlier command that was interrupted after the charge: its release is now "
            "in place"
        )
    sources = [paths.input_source(one, "messages") for one in messages or ["-"]]
    with paths.explain_broken_pipe(sources), output.counting("counting", "messages") as tell:
        tally = work.open(tell.words).tally(sources, found, progress=tell)
    refuse_to_replace(finished, tally.digest)
    with output.thinking("intervals"):
        release = made.release(tally, found)
    bill = made.bill(tally, found, command=spoken_command())
    write_release(release, targets, made.account, bill, inputs=inputs, output=output)


def _refuse_to_lose(messages: Sequence[str], targets: Sequence[Path]) -> None:
    """Refuse to pay for messages from a pipe unless a file keeps the release.

    They cannot be read again: a release that nobody gets to see would be paid for and lost.
    """
    if any(map(paths.is_piped, messages)) and all(map(is_special, targets)):
        raise InvalidInput(
            "output",
            "a file, because a ledger pays and the messages come from a pipe",
            Unquoted("none"),
            hint="add -o FILE, or keep the shuffled messages in a file: messages from a pipe "
            "cannot be read again, so a release that nobody saw would be lost after its charge",
        )
