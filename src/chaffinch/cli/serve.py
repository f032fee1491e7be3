"""Run the service of a party until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.errors import InvalidInput, Unquoted

app = App(
    name="serve",
    help="Run a service: the collector and the shuffler of a hop, or the analyzer.",
    sort_key=102,
)


@Parameter(name="*")
@dataclass(frozen=True)
class _StartOptions:
    config: Path | None = None
    """The file of its settings; `--example` prints one with a comment on every key."""
    example: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Print an example of the settings."""


@app.command(sort_key=0)
def collector(*, start: _StartOptions = _StartOptions(), output: Output = Output()) -> None:  # noqa: B008 - frozen
    """Collect sealed reports, or batches of the previous hop; acknowledged ones are on the disk."""
    from chaffinch.services import hop

    if not _shows_example(start, hop.EXAMPLE, output):
        settings = hop.read_hop(_config(start))
        hop.serve_collector(settings, _announcer("collector", output))


@app.command(sort_key=1)
def shuffler(*, start: _StartOptions = _StartOptions(), output: Output = Output()) -> None:  # noqa: B008 - frozen
    """Open what the collector has stored, wait for the crowd, shuffle it and forward it."""
    from chaffinch.services import hop

    if not _shows_example(start, hop.EXAMPLE, output):
        settings = hop.read_hop(_config(start))
        hop.serve_shuffler(settings, _announcer("shuffler", output))


@app.command(sort_key=2)
def analyzer(*, start: _StartOptions = _StartOptions(), output: Output = Output()) -> None:  # noqa: B008 - frozen
    """Collect batches of the last hop, open and count them, and show one release of each."""
    from chaffinch.services import analyzer_process

    if not _shows_example(start, analyzer_process.EXAMPLE, output):
        settings = analyzer_process.read_analyzer(_config(start))
        analyzer_process.serve_analyzer(settings, _announcer("analyzer", output))


def _shows_example(start: _StartOptions, text: str, output: Output) -> bool:
    if start.example and output.json:
        output.document({"example": text})
    elif start.example:
        output.drawing(text.rstrip("\n"))
    return start.example


def _config(start: _StartOptions) -> Path:
    if start.config is None:
        hint = "add --config FILE; --example prints one to start from"
        raise InvalidInput("settings", "given", Unquoted("none"), hint=hint)
    return paths.require_name(start.config)


def _announcer(service: str, output: Output) -> Callable[[list[str]], Any]:
    def announce(addresses: list[str]) -> None:
        import sys

        if output.json:
            output.document({"service": service, "addresses": addresses})
        else:
            output.drawing("\n".join(addresses))
        sys.stdout.flush()

    return announce
