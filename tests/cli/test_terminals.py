"""What is said on a terminal fits its width; what goes to a file or a pipe has its own lines."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from chaffinch.cli.output import wrapped
from tests import forks
from tests.meta import repository
from tests.terminal import read_to_end

COMMAND = "`chaffinch send --resume --plan 'my plans/survey.plan.json'`"
PATH = "my/a-folder-with-a-long-name/and-another-one/survey.plan.json"


@pytest.mark.parametrize("width", [20, 40, 70, 200])
def test_lines_break_between_words_and_never_inside_of_a_command_or_a_path(width: int) -> None:
    text = f"hint: it waits in {PATH}; {COMMAND} sends it, with --patience if that takes long"
    lines = wrapped(text, width).split("\n")
    assert " ".join(lines) == text
    assert all(len(line) <= width or line in (f"{PATH};", COMMAND) for line in lines)


def test_lines_that_fit_and_indents_stay_as_they_are() -> None:
    text = "two  columns\n\n  and a line that is indented, and too long\n`a lone one"
    assert wrapped(text, 24) == (
        "two  columns\n\n  and a line that is\n  indented, and too long\n`a lone one"
    )


def ended(words: list[str], folder: Path, columns: int | None) -> str:
    """Return what a command says that fails, on a terminal of a width, or in a pipe."""
    start, inherited_line = forks.as_words()
    command = [*start, *words]
    variables = {name: one for name, one in os.environ.items() if name != "COLUMNS"}
    variables |= {"PYTHONPATH": str(repository.SOURCE.parent), "TERM": "xterm"}
    if columns is None:
        return subprocess.run(
            command,
            cwd=folder,
            env=variables,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            pass_fds=[inherited_line],
        ).stderr
    above, below = pty.openpty()
    fcntl.ioctl(below, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        stdin=below,
        stdout=subprocess.DEVNULL,
        stderr=below,
        pass_fds=[inherited_line],
    ):
        os.close(below)
        said = read_to_end(above)
    return said.decode().replace("\r\n", "\n")


def test_errors_and_hints_fit_a_terminal_and_are_one_line_each_elsewhere(tmp_path: Path) -> None:
    words = ["ledger", "create", "l.db", "--mark", "l.mark", "--epsilon", "0", "--delta", "2"]
    piped, narrow = ended(words, tmp_path, None), ended(words, tmp_path, 40)
    assert max(map(len, piped.splitlines())) > 40 >= max(map(len, narrow.splitlines()))
    assert narrow.split() == piped.split()


def test_progress_is_one_line_that_moves_on_a_terminal_and_nothing_elsewhere(
    tmp_path: Path,
) -> None:
    survey = "users = 200\nepsilon = 8.0\ndelta = 1e-3\nanyway = true\n" + "".join(
        f'[questions.q{place}]\nkind = "bit"\n' for place in range(12)
    )
    (tmp_path / "s.toml").write_text(survey, encoding="utf-8")
    words = ["plan", "s.toml"]
    assert "planning" not in ended(words, tmp_path, None)
    said = ended(words, tmp_path, 60)
    assert "planning" in said
    # A second line would be left by moving the cursor up; once it is, to take away the only one.
    assert said.count("\x1b[1A") == 1
    assert "…" in said
