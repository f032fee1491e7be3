"""The command ``chaffinch``: files in, files out, one verb for each step.

Standard output is data, standard error is talk. Heavy parts are imported by the verb that
needs them, so that asking for help is quick.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    import sys

    from chaffinch.cli.app import app
    from chaffinch.cli.exits import run_command

    return run_command(app, sys.argv[1:] if words is None else list(words))
