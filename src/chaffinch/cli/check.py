"""A table against a survey: every cell is looked at, and all faults are told at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.cli.collection import TableOptions, open_collection
from chaffinch.cli.output import Output, count_of

if TYPE_CHECKING:
    from chaffinch.tables.checking import AnswerColumns
    from chaffinch.tables.substitutions import Substitutions

_HEADS = {"missing": "blank", "unknown": "unlisted", "clipped": "clipped"}
"""What the counts of cells that count as something else are called."""


def check(
    survey: Path,
    *,
    data: str,
    where: TableOptions = TableOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Check every cell of a table against a survey, before anything is planned.

    All faults are told at once: how many cells of which column break which rule, and the first
    rows. What the cells hold is not shown. What is no fault but counts as something else than what
    it holds is told, too: blank cells, unlisted ones, clipped numbers. This is for whoever holds
    the table: these counts are not protected, so they are no part of any release.

    Parameters
    ----------
    survey
        A survey file (.toml) or a plan file (.json).
    data
        The table: CSV, TSV, JSONL, Parquet or Arrow; - reads a pipe.
    """
    from chaffinch.tables.substitutions import Substitutions

    asked = open_collection(survey, None, output)
    named = asked.columns(where)
    whose = asked.whose(where)
    table = asked.resolve_formats(where.open(data, output, asked.table), named, output)
    substitutions = Substitutions()
    rows = asked.check(table, named, whose, output, substitutions).rows or 0
    places = dict(zip(asked.questions, asked.answer_columns(table, named), strict=True))
    for words in substitutions.warnings:
        output.say(words)
    if output.json:
        output.document(
            {
                "rows": rows,
                "protected": whose.unit,
                "rows_needed": asked.reports,
                "notes": list(table.notes),
                "questions": [_facts(name, place, substitutions) for name, place in places.items()],
            }
        )
        return
    _show_questions(places, substitutions, output)
    output.words("")
    counted = count_of(rows, "row" if whose.person is None else "report")
    output.words(f"{counted}, {asked.reports:,} needed; {_verdict(substitutions)}")
    if whose.unit == "row":
        output.words(f"Note: {whose.hint(table, asked.group)}.")


def _facts(name: str, place: AnswerColumns, substitutions: Substitutions) -> dict[str, Any]:
    """Return what is known of a question, with counts where something is to be told."""
    found: dict[str, Any] = {
        "question": name,
        "kind": place.question.kind,
        "columns": _column_names(place),
    }
    counts = [
        {"column": column, "cells": counted.cells, **counted.nonzero}
        for column, counted in substitutions.of(name).items()
    ]
    return {**found, "counted": counts} if counts else found


def _column_names(place: AnswerColumns) -> list[str]:
    """Return what columns are called; the name of one that nobody asked for may be a cell."""
    return list(place.columns) if len(place.columns) > 1 else [place.shown]


def _show_questions(
    places: Mapping[str, AnswerColumns], substitutions: Substitutions, output: Output
) -> None:
    """Print where each question is answered, and how many of its cells are no plain answers."""
    counts = {
        name: [counted.nonzero for counted in substitutions.of(name).values()] for name in places
    }
    told = {
        how: words
        for how, words in _HEADS.items()
        if any(how in one for all_of in counts.values() for one in all_of)
    }
    rows = []
    for name, place in places.items():
        sums = [sum(one.get(how, 0) for one in counts[name]) for how in told]
        shown = [f"{number:,}" if number else "" for number in sums]
        rows.append([name, place.question.kind, ", ".join(_column_names(place)), *shown])
    output.table(["question", "kind", "column", *told.values()], rows, texts=3)


def _verdict(substitutions: Substitutions) -> str:
    if not substitutions.words:
        return "every cell answers its question."
    return (
        "every cell answers its question, or counts as the survey says; how many do stands above. "
        "These are exact counts of private data, for whoever holds the table alone; no release "
        "tells them."
    )
