"""The command ``chaffinch``: files in, files out, one verb for each step.

Standard output is data, standard error is talk. Heavy parts are imported by the verb that
needs them, so that asking for help is quick.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]

_INTERRUPTED = 130
"""The exit code of a command that was stopped; ``exits`` says what it means."""


class _NoFrames:
    """Says that pandas is missing: a command reads files, never frames.

    Where it is installed, pyarrow would load it at its first array, and a command takes a
    quarter of its time for that.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Refuse pandas; what is asked for otherwise is for others to find."""
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    import atexit
    import gc
    import sys
    from contextlib import suppress

    # Here, because somebody may stop a command while it is still being loaded.
    try:
        from chaffinch.cli.app import app
        from chaffinch.cli.exits import run_command

        if words is None:
            sys.meta_path.insert(0, _NoFrames)
            # At its end Python looks through all that is loaded for what can be freed. That takes
            # a sixth of the time of a command, and all of it is freed a moment later. Nothing here
            # is finished by being freed: files and databases are closed where they are used.
            atexit.register(gc.freeze)
        return run_command(app, sys.argv[1:] if words is None else list(words))
    except KeyboardInterrupt:
        with suppress(OSError):  # nobody listens; the exit code still tells
            sys.stderr.write("stopped\n")
        return _INTERRUPTED
