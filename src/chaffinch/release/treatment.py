"""How gaps, and answers that do not fit, were treated: a release says it beside its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from chaffinch.questions import COUNT, REFUSE, Bit, Choice, Flags, Number, Question

CONSERVATIVE = (
    "The interval of the mean is conservative: it covers flips exactly and rounding in the worst "
    "case, so it is often much wider than two standard errors to each side."
)


def treated(question: Question) -> list[str]:
    """Return the sentences about gaps and answers that do not fit, from a question's rules.

    >>> treated(Bit())
    ["Missing answers count as 'no'."]
    """
    return list(_KINDS[question.kind](question))


def _gaps(counted_as: str, *, refused: bool) -> str:
    return "Missing answers were refused" if refused else f"Missing answers count as {counted_as}"


def _named(question: Bit | Choice) -> Iterator[str]:
    # A gap that is counted has a row of its own.
    if question.missing != COUNT:
        gaps = _gaps(f"'{question.missing}'", refused=question.missing == REFUSE)
        yield f"{gaps}."


def _choice(question: Choice) -> Iterator[str]:
    yield from _named(question)
    if question.unknown is not None:
        yield f"Answers that are not listed count as '{question.unknown}'."


def _number(question: Number) -> Iterator[str]:
    unit = f" {question.unit}" if question.unit else ""
    refused = question.missing == REFUSE
    gaps = _gaps("" if refused else f"{question.missing:.10g}{unit}", refused=refused)
    beyond = "moved to the nearest bound" if question.clip else "refused"
    yield f"{gaps}; numbers beyond {question.low:.10g} to {question.high:.10g} were {beyond}."


def _flags(question: Flags) -> Iterator[str]:
    yield f"{_gaps('none of them', refused=question.missing == REFUSE)}."


_KINDS: dict[str, Callable[[Any], Iterator[str]]] = {
    Bit.kind: _named,
    Choice.kind: _choice,
    Number.kind: _number,
    Flags.kind: _flags,
}
