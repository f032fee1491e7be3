"""The three steps by themselves, each what one party does: encode, shuffle, analyze."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from chaffinch.cli import paths, results
from chaffinch.cli.charges import Releasing
from chaffinch.cli.output import Output, counted

if TYPE_CHECKING:
    from chaffinch.wire.message_files import MessageFacts

_OUT = Parameter(name=["--out", "-o"])
_MANY = Parameter(name=["--out", "-o"], negative=())
_MAP = Parameter(negative=())


@Parameter(name="*")
@dataclass(frozen=True)
class Wanted:
    """What a release says, and which budget pays for it."""

    level: str = "95%"
    """How surely an interval holds the truth, such as 95% or 0.95."""
    adjust: Literal["none", "non-negative", "total"] = "none"
    """Move estimates to what is possible, which biases them: at least 0 (non-negative), or
    adding up to the number of reports as well (total)."""
    ledger: Path | None = None
    """The budget that is charged before anything is released."""
    mark: Path | None = None
    """The ledger's high-water mark."""
    key: str | None = None
    """What this release is called in the ledger; without one the name of its batch."""

    def ready(self) -> Releasing:
        """Return what makes the release; a wish that cannot be met is refused right here."""
        from chaffinch.planning.survey_file import share_of

        return Releasing(
            level=share_of(self.level),
            adjustment=self.adjust,
            ledger=paths.opened_ledger(self.ledger, self.mark),
            name="" if self.ledger is None else self.ledger.name,
            key=self.key,
        )


def encode(
    data: str | None = None,
    *,
    plan: Path,
    out: Annotated[str | None, _OUT] = None,
    column: str | None = None,
    map: Annotated[list[str] | None, _MAP] = None,  # noqa: A002
    format: str | None = None,  # noqa: A002
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Turn a table of answers into messages, as their senders would.

    The plan is verified first. What comes out is for the shuffler only.

    Parameters
    ----------
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - or nothing reads a pipe.
    plan
        The plan file.
    out
        Where the messages go: a Parquet file, or - (the default) for the next command.
    column
        The column with the answers to a single question.
    map
        QUESTION=COLUMN, for each question whose column has another name.
    format
        csv, tsv, jsonl, parquet or arrow, where the file's name does not tell.
    """
    from chaffinch.engines import engine
    from chaffinch.tables.read import open_table

    target = paths.target(out, as_json=output.json)
    found = paths.opened_plan(plan)
    names = [part.name for part in found.parts]
    named = paths.columns(names, column, map or [])
    table = open_table(paths.source(data, "answers"), format=format)
    with paths.mapping(names, named), output.counting("encoding", "reports") as tell:
        facts = engine().encode(table, found, target, columns=named or None, progress=tell)
    _done(facts, target, output)


def shuffle(
    messages: list[str] | None = None,
    /,
    *,
    plan: Path,
    out: Annotated[str | None, _OUT] = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Put the messages of a whole crowd in a uniform order.

    The order is drawn with secure randomness. A batch below the plan's number of reports is
    refused.

    Parameters
    ----------
    messages
        Files of encoded messages, together one batch; - or nothing reads a pipe.
    plan
        The plan file.
    out
        Where the messages go: a Parquet file, or - (the default) for the next command.
    """
    from chaffinch.engines import engine

    target = paths.target(out, as_json=output.json)
    found = paths.opened_plan(plan)
    sources = [paths.source(one, "messages") for one in messages or ["-"]]
    with _piped(sources), output.counting("shuffling", "messages") as tell:
        facts = engine().shuffle(sources, found, target, progress=tell)
    _done(facts, target, output)


def analyze(
    messages: list[str] | None = None,
    /,
    *,
    plan: Path,
    out: Annotated[list[Path] | None, _MANY] = None,
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
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

    targets = release_files(out or [])
    paths.apart(targets, [plan, *(messages or [])])
    found = paths.opened_plan(plan)
    sources = [paths.source(one, "messages") for one in messages or ["-"]]
    made = wanted.ready()
    with _piped(sources), output.counting("counting", "messages") as tell:
        tally = engine().tally(sources, found, progress=tell)
    with output.thinking("intervals"):
        release, charge = made(tally, found)
    for path in targets:
        release.save(path)
        output.say(f"wrote {path}")
    if output.json:
        paid = {} if charge is None else {"charge": charge.document()}
        output.document(release.document() | paid)
        return
    results.show(release, output)
    if charge is not None:
        charge.show(output)


def release_files(out: list[Path]) -> list[Path]:
    """Refuse a file of a format that no release has, before anything is charged or counted."""
    from chaffinch.errors import InvalidInput
    from chaffinch.release.survey_files import FORMATS

    for path in map(paths.named, out):
        if path.suffix.lower() not in FORMATS:
            raise InvalidInput("file name", "one that ends in " + ", ".join(FORMATS), path.name)
        paths.writable(path)
    return out


@contextmanager
def _piped(sources: list[str]) -> Iterator[None]:
    """Say of a broken pipe what broke it: the command before, not a file."""
    from chaffinch.errors import InvalidFile

    try:
        yield
    except InvalidFile as error:
        if "-" not in sources or "intact" not in error.message:
            raise
        raise InvalidFile(
            "standard input",
            "a whole stream of chaffinch messages",
            ["one that is empty, cut off, or something else"],
            hint="the command before this one in the pipe failed, or sent something else",
        ) from None


def _done(facts: MessageFacts, target: str, output: Output) -> None:
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
        output.say(f"{counted(facts.reports, 'report')} {facts.stage}{where}")
