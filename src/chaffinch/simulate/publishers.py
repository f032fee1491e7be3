"""Made-up publishers whose overlaps are known: how many ids were seen how often, and where.

A collection of filters depends on the ids only through these numbers, so that is all that is
kept: ten million ids take no more room than ten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import optimize

from chaffinch import checks
from chaffinch.errors import InvalidInput
from chaffinch.planning.audiences import prediction
from chaffinch.planning.audiences.audience import Audience, Group
from chaffinch.planning.audiences.plan import MOST_IDS
from chaffinch.protocols.noise import Floats
from chaffinch.simulate.seeded import generator

_MOST_DRAWN = 1 << 20
"""Ids whose views are drawn at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Publishers:
    """The ids of all publishers of an audience: how many were seen so often at each.

    ``crowd`` has one entry for each combination of views; views beyond the frequencies of the
    audience count as the last one, and ids that nobody saw are left out.

    >>> both = Publishers(Audience(["daily", "radio"]), {(1, 0): 3, (1, 1): 2})
    >>> both.people, both.sizes, both.truth(Group(all_of=("daily", "radio")))
    (5, (5, 2), 2)
    """

    audience: Audience
    crowd: Mapping[tuple[int, ...], int]
    words: str = "given overlaps"
    """Where the overlaps come from, for the reader of a result."""

    def __post_init__(self) -> None:
        most = self.audience.frequencies
        kept: Counter[tuple[int, ...]] = Counter()
        for seen, ids in self.crowd.items():
            if len(seen) != len(self.audience.publishers):
                raise InvalidInput("crowd", "views at each publisher", seen)
            views = tuple(min(checks.whole("number of views", one), most) for one in seen)
            count = checks.whole("number of ids", ids, most=MOST_IDS)
            if any(views) and count:
                kept[views] += count
        object.__setattr__(self, "crowd", MappingProxyType(dict(sorted(kept.items()))))

    @property
    def people(self) -> int:
        """Return the number of ids that any publisher has."""
        return sum(self.crowd.values())

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of ids of each publisher."""
        places = range(len(self.audience.publishers))
        return tuple(
            sum(ids for seen, ids in self.crowd.items() if seen[place]) for place in places
        )

    def truth(self, group: Group) -> int:
        """Return how many ids are in a group."""
        members = group.members(self.audience)
        return sum(ids for seen, ids in self.crowd.items() if members[seen])

    def id_columns(self, publisher: str, most: int = _MOST_DRAWN) -> Iterator[pa.Array]:
        """Yield the ids of one publisher as texts, each as often as it was seen, in pieces.

        >>> both = Publishers(Audience(["a", "b"], frequencies=2), {(1, 0): 1, (2, 1): 2})
        >>> [column.to_pylist() for column in both.id_columns("a")]
        [['id-0'], ['id-1', 'id-2', 'id-1', 'id-2']]
        """
        place = self.audience.place(publisher)
        first = 0
        for seen, ids in self.crowd.items():
            views, after = seen[place], first + ids
            for start in range(first, after if views else first, most):
                names = [f"id-{number}" for number in range(start, min(start + most, after))]
                yield pa.array(names * views, pa.string())
            first = after


def disjoint(audience: Audience, sizes: Sequence[int]) -> Publishers:
    """Return publishers without a common id, everybody seen once."""
    checked = _sizes(audience, sizes)
    return Publishers(audience, prediction.disjoint(audience, checked), "disjoint")


def nested(audience: Audience, sizes: Sequence[int]) -> Publishers:
    """Return publishers of which each has all ids of every smaller one, everybody seen once."""
    checked = _sizes(audience, sizes)
    crowd: dict[tuple[int, ...], int] = {}
    below = 0
    for level in sorted(set(checked)):
        crowd[tuple(int(size >= level) for size in checked)] = level - below
        below = level
    return Publishers(audience, crowd, "nested")


def independent(
    audience: Audience, sizes: Sequence[int], *, universe: int, seed: int = 0
) -> Publishers:
    """Return publishers that each have every id of a universe by chance, whoever else has it.

    ``sizes`` are what each expects; everybody is seen once.
    """
    checked = _sizes(audience, sizes)
    everyone = checks.whole("number of ids in the universe", universe, least=1, most=MOST_IDS)
    if max(checked) > everyone:
        raise InvalidInput("sizes", "at most the universe", max(checked))
    draws = generator(seed, "crowd")
    held: dict[tuple[int, ...], int] = {(): everyone}
    for size in checked:
        split: dict[tuple[int, ...], int] = {}
        for seen, ids in held.items():
            here = int(draws.binomial(ids, size / everyone))
            split |= {(*seen, 0): ids - here, (*seen, 1): here}
        held = split
    return Publishers(audience, held, "independent")


def heavy_tailed(
    audience: Audience,
    sizes: Sequence[int],
    *,
    universe: int,
    exponent: float = 1.0,
    seed: int = 0,
) -> Publishers:
    """Return publishers of a universe in which few ids are seen often, at many of them.

    The activity of the k-th id falls as 1/k^exponent (Zipf's law), and its views at a publisher
    are a Poisson number in proportion, scaled so that as many ids are seen at all as ``sizes``
    expects.
    """
    checked = _sizes(audience, sizes)
    everyone = checks.whole("number of ids in the universe", universe, least=1, most=10**9)
    steep = checks.real("exponent", exponent, least=0.0, most=20.0)
    if max(checked) > 0.99 * everyone:
        raise InvalidInput("sizes", "at most 99 % of the universe", max(checked))
    activity = np.arange(1.0, everyone + 1.0) ** -steep
    scales = np.array([_scale(activity, size) for size in checked])
    draws = generator(seed, "crowd")
    found: Counter[tuple[int, ...]] = Counter()
    for start in range(0, everyone, _MOST_DRAWN):
        means = np.outer(activity[start : start + _MOST_DRAWN], scales)
        views = np.minimum(draws.poisson(means), audience.frequencies)
        found.update(_count_views(views, audience))
    return Publishers(audience, found, f"heavy-tailed (Zipf with exponent {steep:g})")


def seen_again(publishers: Publishers, chance: float, *, seed: int = 0) -> Publishers:
    """Return the same ids at the same publishers, each view followed by another by chance."""
    again = checks.real("chance of another view", chance, least=0.0, most=1.0)
    draws = generator(seed, "crowd", 1)
    found: Counter[tuple[int, ...]] = Counter(publishers.crowd)
    most = publishers.audience.frequencies
    for place in range(len(publishers.audience.publishers)):
        for views in range(1, most):
            for seen, ids in list(found.items()):
                if seen[place] == views:
                    more = int(draws.binomial(ids, again))
                    found[seen] -= more
                    found[(*seen[:place], views + 1, *seen[place + 1 :])] += more
    return Publishers(publishers.audience, found, f"{publishers.words}, seen again")


def _sizes(audience: Audience, sizes: Sequence[int]) -> tuple[int, ...]:
    if len(sizes) != len(audience.publishers):
        raise InvalidInput("sizes", "one for each publisher", len(sizes))
    return tuple(checks.whole("size of an audience", one, least=1, most=MOST_IDS) for one in sizes)


def _scale(activity: Floats, size: int) -> float:
    """Return the factor of the activities at which ``size`` ids are expected to be seen."""

    def excess(logarithm: float) -> float:
        return float(-np.expm1(-np.exp(logarithm) * activity).sum()) - size

    last = float(np.log(1e4 / activity[-1]))
    return float(np.exp(optimize.brentq(excess, -60.0, last, xtol=1e-9)))


def _count_views(views: NDArray[np.int64], audience: Audience) -> dict[tuple[int, ...], int]:
    grid = audience.grid
    codes = np.ravel_multi_index(tuple(views.T), grid)
    values, counts = np.unique(codes, return_counts=True)
    places = np.stack(np.unravel_index(values, grid), axis=1)
    return {
        tuple(seen): count for seen, count in zip(places.tolist(), counts.tolist(), strict=True)
    }
