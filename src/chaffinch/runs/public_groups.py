"""Public groups of a table: each large enough group is a collection of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.encoding.bulk import group_column
from chaffinch.errors import DataRepeated, InvalidInput, Unquoted
from chaffinch.tables.checking import answer_batches, read_answers

if TYPE_CHECKING:
    from chaffinch.runs.answer_table import AnswerTable
    from chaffinch.runs.listener import Listener

_LONGEST_NAME = 40
_FOLDER = re.compile("[0-9]{3,}(-[a-z0-9-]*)?")


def large_groups(table: AnswerTable, listener: Listener) -> dict[str, str]:
    """Return the groups that are large enough, each with the name of its folder.

    Every cell is checked. Groups are public, so the names and sizes of groups that are too small
    are reported; nothing else about them is ever released.
    """
    asked, group = table.asked, table.asked.group
    assert group is not None  # noqa: S101 - asked of surveys with public groups only
    if not table.table.readable_again:
        raise InvalidInput(
            "table of public groups",
            "one that can be read several times",
            Unquoted("a pipe"),
            hint="name a file, or take one group with --group (group=...)",
        )
    table.check(listener)
    labels = group.question.labels
    sizes = dict(zip(labels, _group_sizes(table), strict=True))
    small = {label: size for label, size in sizes.items() if size < asked.reports}
    if small:
        listed = ", ".join(f"{label} ({size:,})" for label, size in small.items())
        listener.say(
            f"left out, with fewer than {asked.reports:,} reports: {listed}; nothing is released "
            "of them"
        )
    if len(small) == len(labels):
        raise InvalidInput(
            f"groups of {group.name!r}",
            f"at least one of {asked.reports} reports",
            Unquoted(f"none of {len(labels)}"),
            hint="ask for fewer users, or for a private group with `by`",
        )
    numbered = enumerate(labels, 1)
    return {label: _folder_name(place, label) for place, label in numbered if label not in small}


def group_folders(out: Path) -> list[str]:
    """Return the names of the folders in which releases of public groups may be."""
    try:
        found = sorted(out.iterdir())
    except OSError:
        return []
    return [one.name for one in found if _FOLDER.fullmatch(one.name) and one.is_dir()]


def all_repeated(groups: int) -> DataRepeated:
    """Return the error for groups that earlier runs have all released."""
    return DataRepeated(
        f"groups that are all released already, {groups} of {groups}",
        hint="nothing was released; add --again (again=True) to make another release of each, "
        "which will say what all of them promise together",
    )


def _group_sizes(table: AnswerTable) -> list[int]:
    group = table.asked.group
    assert group is not None  # noqa: S101 - asked where there is one
    places = [group_column(group, table.table, table.columns)]
    sizes = np.zeros(len(group.question.labels), np.int64)
    for first, batch in answer_batches(table.table, places):
        (numbers,) = read_answers(places, first, batch)
        sizes += np.bincount(numbers, minlength=len(sizes))
    return [int(size) for size in sizes]


def _folder_name(place: int, label: str) -> str:
    """Return a name that every disk takes, and no two groups share.

    >>> _folder_name(3, "New York / JFK")
    '003-new-york-jfk'
    """
    plain = re.sub("[^a-z0-9]+", "-", label.lower()).strip("-")[:_LONGEST_NAME]
    return f"{place:03d}-{plain}".strip("-")
