"""How missing answers, and answers that do not fit, were treated: the notes of a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from chaffinch.questions import COUNT, REFUSE, Bit, Choice, Cross, Flags, Number, Question

CONSERVATIVE_MEAN = (
    "The interval of the mean is conservative: it covers flips exactly and rounding in the worst "
    "case, so it is often much wider than two standard errors to each side."
)

NO_MEAN = (
    "Warning: it may be that nobody answered, so no mean can be given: its interval is the whole "
    "range."
)
NO_SHARES = (
    "Warning: it may be that nobody answered, so no shares among those who did can be given."
)


def treatment_notes(question: Question) -> list[str]:
    """Return the sentences about missing answers and those that do not fit, by a question's rules.

    >>> treatment_notes(Bit(missing="no"))
    ["Missing answers count as 'no'."]
    """
    return list(_NOTES[question.kind](question))


def _gap_clause(counted_as: str, *, refused: bool) -> str:
    return "Missing answers were refused" if refused else f"Missing answers count as {counted_as}"


def _label_notes(question: Bit | Choice) -> Iterator[str]:
    # Missing answers that are counted have a row of their own.
    if question.missing != COUNT:
        gaps = _gap_clause(f"'{question.missing}'", refused=question.missing == REFUSE)
        yield f"{gaps}."


def _choice_notes(question: Choice) -> Iterator[str]:
    yield from _label_notes(question)
    if question.unknown is not None:
        yield f"Answers that are not listed count as '{question.unknown}'."


def _number_notes(question: Number) -> Iterator[str]:
    unit = f" {question.unit}" if question.unit else ""
    gaps = "Missing answers are counted, and mean and sum are those of the others"
    if question.missing != COUNT:
        refused = question.missing == REFUSE
        gaps = _gap_clause("" if refused else f"{question.missing:.10g}{unit}", refused=refused)
    beyond = "moved to the nearest bound" if question.clip else "refused"
    yield f"{gaps}; numbers beyond {question.low:.10g} to {question.high:.10g} were {beyond}."


def _flag_notes(question: Flags) -> Iterator[str]:
    if question.missing != COUNT:
        yield f"{_gap_clause('none of them', refused=question.missing == REFUSE)}."


def _cross_notes(question: Cross) -> Iterator[str]:
    for name, one in question.questions.items():
        for note in treatment_notes(one):
            yield f"{name}: {note}"


_NOTES: dict[str, Callable[[Any], Iterator[str]]] = {
    Bit.kind: _label_notes,
    Choice.kind: _choice_notes,
    Number.kind: _number_notes,
    Flags.kind: _flag_notes,
    Cross.kind: _cross_notes,
}
