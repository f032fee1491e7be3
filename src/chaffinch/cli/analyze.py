"""The analyzer's step by itself: shuffled messages become a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from chaffinch.cli import paths
from chaffinch.cli.batches import explain_broken_pipe
from chaffinch.cli.output import Output
from chaffinch.cli.releasing import (
    ReleaseOptions,
    finish_release,
    hand_out_release,
    refuse_to_replace,
    release_files,
    show_release,
)


def analyze(
    messages: list[str] | None = None,
    /,
    *,
    plan: Path,
    out: Annotated[list[Path] | None, Parameter(name=["--out", "-o"], negative=())] = None,
    wanted: ReleaseOptions = ReleaseOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Turn shuffled messages into estimates with intervals.

    Parameters
    ----------
    messages
        Files of shuffled messages, together one batch; - or nothing reads a pipe.
    plan
        The plan file.
    out
        A file for the release: .html, .json, .csv or .parquet; may be given several times.
    """
    from chaffinch.engines import engine

    inputs: list[str | Path] = [plan, *(messages or [])]
    targets = release_files(out or [], inputs)
    found = paths.open_plan(plan, output)
    sources = [paths.input_source(one, "messages") for one in messages or ["-"]]
    made = wanted.prepare()
    finished = finish_release(targets, made.account, output, inputs=inputs)
    with explain_broken_pipe(sources), output.counting("counting", "messages") as tell:
        tally = engine().tally(sources, found, progress=tell)
    refuse_to_replace(finished, tally.digest)
    with output.thinking("intervals"):
        release = made.release(tally, found)
    charge = hand_out_release(
        dict.fromkeys(targets, release.save),
        made.account,
        lambda account: made.bill(account, tally, found),
        check=lambda: release_files(targets, inputs),
        output=output,
    )
    for path in targets:
        output.say(f"wrote {path}")
    show_release(release, charge, output)
