"""Made-up publishers whose overlaps are known: how many ids were seen how often, and where.

A collection of filters depends on the ids only through these numbers, so that is all that is
kept: ten million ids take no more room than ten.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import optimize, special

from chaffinch.errors import InvalidInput, PlanMismatch, checks
from chaffinch.protocols.noise import Draws, Floats
from chaffinch.reach.analyzer.logos import Logos
from chaffinch.reach.planning import estimator
from chaffinch.reach.planning.audience import Audience, Group
from chaffinch.reach.planning.estimator import Crowd
from chaffinch.reach.planning.reach_plan import MOST_IDS, ReachPlan
from chaffinch.simulate.seeded import generator
from chaffinch.wire.batches import Counts

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
    return Publishers(audience, estimator.disjoint(audience, checked), "disjoint")


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


# ----------------------------------------------------------------------------
# Logo counts drawn at once from their exact law: a collection costs what its logos cost.
#
# Only the counts of the logos are ever seen, and columns that hold the same are exchangeable. So
# ids that were seen alike are thrown together: how many columns their balls hit is one draw, which
# columns these are is a hypergeometric split over what the columns held before, and the flips of
# one row split every logo's count in two. No ball and no bit is drawn, whatever the size.

_TRIES = 16
_NEVER = 1e-20


def draw_logos(plan: ReachPlan, publishers: Publishers, *, seed: int = 0, run: int = 0) -> Logos:
    """Return the logo counts of one collection, as the real filters of these ids would have."""
    if plan.audience != publishers.audience:
        raise PlanMismatch("publishers", expected=plan.id, found="another audience")
    draws = generator(seed, "columns", run)
    before = thrown(
        plan.audience, publishers.crowd, bits=plan.bits, hashes=plan.hashes, draws=draws
    )
    counts = flipped_logos(before, float(plan.all_flips), draws)
    names = [
        hashlib.sha256(f"simulated/{seed}/{run}/{place}".encode()).hexdigest()[:32]
        for place in range(len(plan.audience.publishers) + 1)
    ]
    return Logos(plan_id=plan.id, key=names[0], batches=tuple(names[1:]), counts=counts)


def thrown(audience: Audience, crowd: Crowd, *, bits: int, hashes: int, draws: Draws) -> Counts:
    """Return how many columns hold each logo before anything is flipped.

    >>> two = Audience(["a", "b"])
    >>> draws = np.random.default_rng(1)
    >>> found = thrown(two, {(1, 0): 10, (1, 1): 10}, bits=1000, hashes=1, draws=draws)
    >>> int(found.sum()), int(found[0b10])
    (1000, 0)
    """
    counts = np.zeros(2**audience.rows, np.int64)
    counts[0] = bits
    for seen, ids in crowd.items():
        hit = _columns_hit(hashes * ids, bits, draws)
        held = np.flatnonzero(counts)
        moved = draws.multivariate_hypergeometric(counts[held], hit, method="marginals")
        counts[held] -= moved
        np.add.at(counts, held | _logo(audience, seen), moved)
    return counts


def flipped_logos(counts: Counts, flip: float, draws: Draws) -> Counts:
    """Return the counts after every bit of every column was flipped by chance."""
    rows = len(counts).bit_length() - 1
    found = counts
    for row in range(rows):
        halves = found.reshape(-1, 2, 2**row)
        wrong = draws.binomial(halves, flip)
        found = (halves - wrong + wrong[:, ::-1]).reshape(-1)
    return found


def _logo(audience: Audience, seen: tuple[int, ...]) -> int:
    """Return the bits that an id sets in its columns.

    >>> bin(_logo(Audience(["a", "b"], frequencies=3), (2, 1)))
    '0b1011'
    """
    return sum((2**views - 1) << (place * audience.frequencies) for place, views in enumerate(seen))


def _columns_hit(balls: int, columns: int, draws: Draws) -> int:
    """Return how many columns are hit by so many balls, each of which falls anywhere."""
    # With Poisson balls the numbers of columns that hold 0, 1, 2, … are multinomial. Those of two
    # and more are drawn; then those of one must make up the number of balls, which a binomial
    # gives with a chance that is the chance to accept (probabilistic divide and conquer, Arratia
    # and DeSalvo 2016). Cut off with a chance below 1e-18.
    if balls <= 1:
        return balls
    tries = _tries(balls, columns)
    while True:
        accepted, rest, single = tries.take(draws)
        if accepted.any():
            first = int(np.argmax(accepted))
            return columns - int(rest[first] - single[first])


class _Tries:
    """Numbers of columns with two and more balls, and how likely the rest is."""

    def __init__(self, balls: int, columns: int) -> None:
        self.balls, self.columns = balls, columns
        load = balls / columns
        most = 2
        while columns * special.pdtrc(most, load) > _NEVER:
            most += 1
        self.held = np.arange(2, most + 1)
        chances = np.exp(self.held * math.log(load) - load - special.gammaln(self.held + 1.0))
        total = float(chances.sum())
        self.law = np.append(chances, max(0.0, 1.0 - total))
        self.single = load / (1.0 + load)
        # No fewer are left for one or none, but for a chance below 1e-31 (Bernstein 1927).
        spread = math.sqrt(columns * total * max(0.0, 1.0 - total))
        self.least = max(0, math.floor(columns * (1.0 - total) - 12.0 * spread - 60.0))
        mode = math.floor((self.least + 1) * self.single)
        self.bound = float(self._chance(np.array([float(self.least)]), np.array([float(mode)]))[0])

    def take(self, draws: Draws) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
        """Return which of some tries are accepted, with the columns of at most one, and of one."""
        drawn = draws.multinomial(self.columns, self.law, _TRIES)
        rest = drawn[:, -1]
        # What the drawn columns do not hold must lie in columns of exactly one ball.
        single = self.balls - drawn[:, :-1] @ self.held
        possible = (single >= 0) & (single <= rest) & (rest >= self.least)
        chance = self._chance(rest.astype(np.float64), np.where(possible, single, 0.0))
        # −Exp(1) is the logarithm of a uniform number: accepted with chance e^(chance − bound).
        lucky = -draws.standard_exponential(_TRIES) < chance - self.bound
        return possible & lucky, rest, single

    def _chance(
        self, trials: NDArray[np.float64], hits: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        ways = special.gammaln(trials + 1) - special.gammaln(hits + 1)
        ways = ways - special.gammaln(trials - hits + 1)
        chance = special.xlogy(hits, self.single) + special.xlog1py(trials - hits, -self.single)
        return np.asarray(ways + chance)


@lru_cache(maxsize=4096)
def _tries(balls: int, columns: int) -> _Tries:
    return _Tries(balls, columns)
