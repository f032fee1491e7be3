"""The question of a reach: which ids each publisher reaches, and how often.

Every publisher holds a list of ids. Together their filters have ``rows``: one for each
publisher and each frequency, in that order, so that row f − 1 of a publisher says of a column
that one of its ids was seen at least f times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.questions import label
from chaffinch.wire.filter_files import MOST_ROWS

_FEW = 4
"""Of so many publishers every part is counted, as pictures show them."""
_MOST_OVERLAPS = 66
"""All pairs of twelve publishers."""


@dataclass(frozen=True)
class Audience:
    """Several publishers, asked how many people they reach together.

    ``frequencies`` is how far views are counted: with 3 it can be told who was seen at least
    once, twice and three times.

    >>> audience = Audience(["daily", "radio"], frequencies=3)
    >>> audience.rows, audience.row("radio", 2)
    (6, 4)
    """

    publishers: tuple[str, ...]
    frequencies: int = 1

    kind: ClassVar[str] = "audience"

    def __init__(self, publishers: Iterable[str], *, frequencies: int = 1) -> None:
        if isinstance(publishers, str):
            raise InvalidInput("publishers", "a list of names", publishers)
        names = tuple(publishers)
        for name in names:
            _publisher(name)
        if not names or len(set(names)) < len(names):
            raise InvalidInput("publishers", "at least one, all with different names", names)
        levels = checks.whole("number of frequencies", frequencies, least=1, most=MOST_ROWS)
        if len(names) * levels > MOST_ROWS:
            raise InvalidInput(
                "publishers times frequencies",
                f"at most {MOST_ROWS}",
                Unquoted(f"{len(names)} × {levels}"),
                hint="2 to the power of this many combinations are counted: ask for fewer",
            )
        object.__setattr__(self, "publishers", names)
        object.__setattr__(self, "frequencies", levels)

    @property
    def rows(self) -> int:
        """Return the number of bits of a column."""
        return len(self.publishers) * self.frequencies

    def place(self, publisher: object) -> int:
        """Return the number of a publisher, from 0 on."""
        if not isinstance(publisher, str) or publisher not in self.publishers:
            listed = ", ".join(map(repr, self.publishers))
            raise InvalidInput("publisher", f"one of {listed}", publisher)
        return self.publishers.index(publisher)

    def row(self, publisher: str, frequency: int = 1) -> int:
        """Return the row of those seen at least ``frequency`` times at a publisher."""
        level = checks.whole("frequency", frequency, least=1, most=self.frequencies)
        return self.place(publisher) * self.frequencies + level - 1

    @property
    def grid(self) -> tuple[int, ...]:
        """Return the shape of all that can be true of an id: how often seen, per publisher."""
        return (self.frequencies + 1,) * len(self.publishers)


def _publisher(name: str) -> None:
    label("name of a publisher", name)
    padded = f" {name} "
    if "," in name or any(f" {word} " in padded for word in ("and", "or", "not")):
        # Groups are named by these words, and two groups must not have one name.
        raise InvalidInput(
            "name of a publisher", "without a comma and the words 'and', 'or', 'not'", name
        )


@dataclass(frozen=True)
class Group:
    """Which ids to count: seen at any of some publishers, at all of some, at none of some.

    ``times`` counts views at the publishers of ``any_of`` and ``all_of`` together.

    >>> Group(any_of=("daily", "radio")).name
    'daily or radio'
    >>> Group(all_of=("daily", "radio")).name
    'daily and radio'
    >>> Group(all_of=("daily",), none_of=("radio",)).name
    'daily, not radio'
    """

    any_of: tuple[str, ...] = ()
    all_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()
    times: int = 1

    def __post_init__(self) -> None:
        for parameter in ("any_of", "all_of", "none_of"):
            given = getattr(self, parameter)
            if isinstance(given, str):
                raise InvalidInput(parameter, "a list of publishers", given)
            object.__setattr__(self, parameter, tuple(given))
        if not (self.any_of or self.all_of):
            raise InvalidInput(
                "group",
                "of ids seen at some publisher",
                Unquoted("no publisher"),
                hint="give any_of",
            )
        if len(set(self.named)) < len(self.named):
            raise InvalidInput("group", "one that names each publisher once", self.named)
        checks.whole("number of times", self.times, least=1, most=MOST_ROWS)

    @property
    def named(self) -> tuple[str, ...]:
        """Return all publishers that the group names."""
        return (*self.any_of, *self.all_of, *self.none_of)

    @property
    def name(self) -> str:
        """Return the group in words."""
        words = " or ".join(self.any_of)
        if self.all_of:
            both = " and ".join(self.all_of)
            words = f"({words}) and {both}" if words else both
        if self.none_of:
            words += ", not " + " or ".join(self.none_of)
        if self.times > 1:
            words += f", seen {self.times} times or more"
        return words

    def members(self, audience: Audience) -> NDArray[np.bool_]:
        """Return which combinations of views belong to the group, on the audience's grid."""
        seen = np.indices(audience.grid)
        places = {
            kind: [audience.place(name) for name in getattr(self, kind)]
            for kind in ("any_of", "all_of", "none_of")
        }
        checks.whole("number of times", self.times, least=1, most=audience.frequencies)
        found: NDArray[np.bool_] = np.ones(audience.grid, dtype=np.bool_)
        if places["any_of"]:
            found &= (seen[places["any_of"]] > 0).any(axis=0)
        found &= (seen[places["all_of"]] > 0).all(axis=0)
        found &= ~(seen[places["none_of"]] > 0).any(axis=0)
        counted = seen[places["any_of"] + places["all_of"]].sum(axis=0)
        found &= counted >= self.times
        return found


def usual_groups(audience: Audience) -> Sequence[Group]:
    """Return what people ask first: everyone, each publisher, what each adds, and overlaps."""
    names = audience.publishers
    groups = [Group(any_of=names)]
    if len(names) > 1:
        groups += [Group(any_of=(name,)) for name in names]
        # Those at some publishers and at no other; of all of them that is their overlap.
        for size in range(1, len(names) if len(names) <= _FEW else 2):
            for some in combinations(names, size):
                others = tuple(name for name in names if name not in some)
                groups.append(Group(all_of=some, none_of=others))
        groups += [Group(all_of=some) for some in _overlaps(names)[:_MOST_OVERLAPS]]
    groups += [Group(any_of=names, times=times) for times in range(2, audience.frequencies + 1)]
    return tuple(groups)


def overlaps_left_out(audience: Audience) -> int:
    """Return how many overlaps of two are too many to be usual."""
    return max(0, len(_overlaps(audience.publishers)) - _MOST_OVERLAPS)


def _overlaps(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return all overlaps of up to four publishers, and of more the pairs."""
    most = len(names) if len(names) <= _FEW else 2
    return [some for size in range(2, most + 1) for some in combinations(names, size)]
