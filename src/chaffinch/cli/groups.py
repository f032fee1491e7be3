"""Public groups of a table: each is a collection of its own, if it is large enough."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.cli import paths
from chaffinch.cli.collection import Collection, TableOptions
from chaffinch.cli.output import Output
from chaffinch.errors import DataRepeated, InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.questions import PublicGroup
    from chaffinch.tables.read import Table

_LONGEST_NAME = 40
_FOLDER = re.compile("[0-9]{3,}(-[a-z0-9-]*)?")


def group_runs(
    asked: Collection, data: str, out: Path, where: TableOptions, output: Output, *, anyway: bool
) -> Iterator[tuple[Collection, Path]]:
    """Yield the collection of each group that is large enough, by one plan, and its folder.

    Groups are public, so those that are too small are named with their sizes; nothing else is
    ever told of them.
    """
    group = asked.group
    assert group is not None  # noqa: S101 - asked of surveys with public groups only
    table = where.open(data, output, asked.table)
    if not table.readable_again:
        raise InvalidInput(
            "table of public groups",
            "one that can be read several times",
            Unquoted("a pipe"),
            hint="name a file, or take one group with --group",
        )
    named = asked.columns(where)
    table = asked.resolve_formats(table, named, output)
    asked.check(table, named, asked.whose(where), output)
    sizes = _group_sizes(table, group, named)
    labels = group.question.labels
    small = {label: size for label, size in zip(labels, sizes, strict=True) if size < asked.reports}
    if small:
        listed = ", ".join(f"{label} ({size:,})" for label, size in small.items())
        output.say(
            f"left out, with fewer than {asked.reports:,} reports: {listed}; nothing is released "
            "of them"
        )
    taken = [(place, label) for place, label in enumerate(labels, 1) if label not in small]
    if not taken:
        raise InvalidInput(
            f"groups of {group.name!r}",
            f"at least one of {asked.reports} reports",
            Unquoted(f"none of {len(labels)}"),
            hint="ask for fewer users, or for a private group with `by`",
        )
    plan = asked.make_plan(out, output, anyway=anyway)
    paths.require_name(out).mkdir(parents=True, exist_ok=True)
    asked.keep_plan(out, plan)
    for place, label in taken:
        yield asked.planned_by(plan).of_group(label), out / _folder_name(place, label)


def group_folders(out: Path) -> list[Path]:
    """Return the folders in which releases of public groups may be."""
    try:
        found = sorted(out.iterdir())
    except OSError:
        return []
    return [one for one in found if _FOLDER.fullmatch(one.name) and one.is_dir()]


def all_repeated(groups: int) -> DataRepeated:
    """Return what refuses groups that an earlier run has released already, each of them."""
    return DataRepeated(
        f"groups that are all released already, {groups} of {groups}",
        hint="nothing was released; add --again to make another release of each, which will say "
        "what all of them promise together",
    )


def _group_sizes(table: Table, group: PublicGroup, columns: Mapping[str, str]) -> list[int]:
    import numpy as np

    from chaffinch.encoding.bulk import group_column
    from chaffinch.tables.checking import answer_batches, read_answers

    places = [group_column(group, table, columns)]
    sizes = np.zeros(len(group.question.labels), np.int64)
    for first, batch in answer_batches(table, places):
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
