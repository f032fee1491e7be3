"""What a verb prints: data on standard output, messages on standard error."""

from __future__ import annotations

import json as json_module
import math
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from chaffinch.charts.rounding import count_of

if TYPE_CHECKING:
    from rich.console import Console

    from chaffinch.tables.parallel import Progress
    from chaffinch.wire.batches import BatchFacts

_WIDE = 80
_SPINNER = 3
_SILENCE = 10.0
"""After so many seconds a log says how far long work has come."""
_PIECE = re.compile(r"\s*(?:`[^`]*`|\S)+")
"""What stays on one line: a word, such as a path or a flag, or a command in backticks."""
_SPOKEN: ContextVar[tuple[str, ...]] = ContextVar("spoken", default=())


@contextmanager
def speaking(words: Sequence[str]) -> Iterator[None]:
    """Remember the words of a command while it runs."""
    before = _SPOKEN.set(tuple(words))
    try:
        yield
    finally:
        _SPOKEN.reset(before)


def spoken_command() -> str:
    """Return the command that runs now, as somebody can type it again from anywhere."""
    return shlex.join(["cd", str(Path.cwd())]) + " && " + shlex.join(["chaffinch", *_SPOKEN.get()])


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """How a verb speaks; every verb has these two options."""

    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """Print one JSON document on standard output, and nothing else there."""
    quiet: Annotated[bool, Parameter(alias="-q", negative=(), show_default=False)] = False
    """Print nothing on standard error except errors; `plan` prints nothing at all."""

    # ------------------------------------------------------------------ standard output

    def document(self, content: Any) -> None:
        """Print one JSON document; an infinite number becomes the text ``infinite``."""
        text = json_module.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
        sys.stdout.write(text + "\n")

    def words(self, text: str) -> None:
        """Print paragraphs, wrapped to the width of the terminal."""
        import textwrap

        for line in printable(text).split("\n"):
            hang = "  " if line.startswith("- ") else ""  # so that the next one stands out
            wrapped = textwrap.wrap(line, self.width, subsequent_indent=hang)
            sys.stdout.write("\n".join(wrapped) + "\n")

    def drawing(self, text: str) -> None:
        """Print lines as they are, not wrapped."""
        sys.stdout.write(printable(text) + "\n")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> None:
        """Print a table: the first ``texts`` columns are words, the others numbers.

        Where a terminal is too narrow for it, every row is printed as lines of its own.
        """
        from rich.table import Table
        from rich.text import Text

        if _least_width([heads, *rows], texts) > self.width:
            self._lines(heads, rows, texts)
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for place, head in enumerate(heads):
            text = place < texts
            # Words give way when a terminal is narrow; numbers stay whole.
            table.add_column(
                Text(head), justify="left" if text else "right", no_wrap=not text, overflow="fold"
            )
        for row in rows:
            table.add_row(*(Text(printable(cell)) for cell in row))
        self._console().print(table)

    def _lines(self, heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> None:
        wide = max(map(len, heads[texts:]), default=0)
        for row in rows:
            self.words(", ".join(filter(None, row[:texts])))
            for head, cell in zip(heads[texts:], row[texts:], strict=True):
                if cell:
                    self.words(f"  {head:<{wide}}  {cell}")

    @property
    def width(self) -> int:
        """Return how many columns there are."""
        return self._console().width

    def _console(self) -> Console:
        from rich.console import Console

        return Console(
            file=sys.stdout, highlight=False, markup=False, emoji=False, legacy_windows=False
        )

    # ------------------------------------------------------------------ standard error

    def say(self, text: str) -> None:
        """Say something that is not data."""
        if not self.quiet:
            tell(text)

    def advise(self, text: str) -> None:
        """Say what a document tells in its own way; where there is one, nothing is said."""
        if not self.json:
            self.say(text)

    @property
    def _shows_progress(self) -> bool:
        return sys.stderr.isatty() and not self.quiet

    @contextmanager
    def thinking(self, words: str, *, logged: bool = False) -> Iterator[Callable[[str], None]]:
        """Show on one line of a terminal that work goes on; yield a function that says at what.

        In a log nothing is said of work that takes seconds; steps that take minutes are ``logged``.
        """
        if not self._shows_progress:
            once = self._once(f"{words}: ")
            yield once if logged else lambda _step: None
            return
        from rich.console import Console
        from rich.text import Text

        from chaffinch.privacy.progress import show_progress

        console = Console(stderr=True)

        def line(text: str) -> Text:
            found = Text(f"{printable(text)} …")
            # Beside the spinner, on one line: the protocols of a survey may have many names.
            found.truncate(max(console.width - _SPINNER, 1), overflow="ellipsis")
            return found

        with console.status(line(words)) as status:
            doing = words

            def tell(step: str) -> None:
                nonlocal doing
                doing = f"{words}: {step}"
                status.update(line(doing))

            with show_progress(lambda done: status.update(line(f"{doing} ({done})"))):
                yield tell

    @contextmanager
    def counting(self, words: str, unit: str) -> Iterator[Meter]:
        """Show how far work has come; yield what is told how much is done or what is awaited."""
        if not self._shows_progress:
            yield Meter(self._now_and_then(words, unit), self._once())
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24 if console.width >= _WIDE else 8),
            TextColumn("{task.completed:,} " + unit),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(words, total=None)
            yield Meter(
                lambda done, total: bar.update(
                    task, description=words, completed=done, total=total
                ),
                lambda step: bar.update(task, description=printable(step)),
            )

    def _now_and_then(self, words: str, unit: str) -> Progress:
        """Return what says in a log how far long work has come: a line in so many seconds."""
        last = time.monotonic()

        def say(done: int, total: int | None) -> None:
            nonlocal last
            if time.monotonic() - last >= _SILENCE:
                last = time.monotonic()
                of = "" if total is None else f" of {total:,}"
                self.say(f"{words}: {done:,}{of} {unit} ...")

        return say

    def _once(self, before: str = "") -> Callable[[str], None]:
        """Return what says each step once: in a log a line for each shows that work goes on."""
        told: set[str] = set()

        def once(step: str) -> None:
            if step not in told:
                told.add(step)
                self.say(f"{before}{printable(step)} ...")

        return once


@dataclass(frozen=True)
class Meter:
    """Is told how much is done of how much; ``words`` what is waited for before that."""

    count: Progress
    words: Callable[[str], None]

    def __call__(self, done: int, total: int | None) -> None:
        """Show how much is done."""
        self.count(done, total)


def _least_width(rows: Sequence[Sequence[str]], texts: int) -> int:
    """Return how wide a table is at least: words may be wrapped, but not cut; numbers neither."""
    columns = list(zip(*rows, strict=True))
    words = [
        max((len(one) for cell in column for one in cell.split()), default=0)
        for column in columns[:texts]
    ]
    numbers = [max(map(len, column)) for column in columns[texts:]]
    return sum(words) + sum(numbers) + 2 * (len(columns) - 1)


def tell(text: str) -> None:
    """Write lines to standard error; on a terminal they fit its width."""
    if sys.stderr.isatty():
        from rich.console import Console

        text = wrapped(text, Console(file=sys.stderr).width)
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def wrapped(text: str, width: int) -> str:
    """Return a text in lines of a width; only a path, a flag or a command may be longer.

    >>> print(wrapped("hint: try `chaffinch demo` first", 20))
    hint: try
    `chaffinch demo`
    first
    """
    lines = []
    for line in text.split("\n"):
        if len(line) <= width:
            lines.append(line)
            continue
        indent = line[: len(line) - len(line.lstrip())]
        made = ""
        for piece in _PIECE.findall(line):
            if made.strip() and len(made) + len(piece) > width:
                lines.append(made)
                made = ""
            made = made + piece if made else indent + piece.lstrip()
        lines.append(made)
    return "\n".join(lines)


def printable(text: str) -> str:
    r"""Return a text that cannot steer a terminal: titles and names come from files.

    >>> printable("tea\x1b[2J")
    'tea?[2J'
    """
    return "".join(one if one.isprintable() or one == "\n" else "?" for one in text)


def _finite(content: Any) -> Any:
    """Return JSON-ready data without infinities and NaN, which JSON does not have.

    >>> _finite({"epsilon": float("inf"), "shares": (0.5,)})
    {'epsilon': 'infinite', 'shares': [0.5]}
    """
    if isinstance(content, dict):
        return {str(name): _finite(one) for name, one in content.items()}
    if isinstance(content, (list, tuple)):
        return [_finite(one) for one in content]
    if isinstance(content, float) and not math.isfinite(content):
        return "infinite" if content == math.inf else None
    return content


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
