"""Logo counts drawn at once from their exact law: a collection costs what its logos cost.

Only the counts of the logos are ever seen, and columns that hold the same are exchangeable. So
ids that were seen alike are thrown together: how many columns their balls hit is one draw, which
columns these are is a hypergeometric split over what the columns held before, and the flips of
one row split every logo's count in two. No ball and no bit is drawn, whatever the size.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import special

from chaffinch.errors import PlanMismatch
from chaffinch.planning.audiences.audience import Audience
from chaffinch.planning.audiences.plan import ReachPlan
from chaffinch.planning.audiences.prediction import Crowd
from chaffinch.protocols.noise import Draws
from chaffinch.simulate.publishers import Publishers
from chaffinch.simulate.seeded import generator
from chaffinch.wire.batches import Counts

if TYPE_CHECKING:
    from chaffinch.analysis.audiences.logos import Logos

_TRIES = 16
_NEVER = 1e-20


def draw_logos(plan: ReachPlan, publishers: Publishers, *, seed: int = 0, run: int = 0) -> Logos:
    """Return the logo counts of one collection, as the real filters of these ids would have."""
    from chaffinch.analysis.audiences.logos import Logos

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
        hit = columns_hit(hashes * ids, bits, draws)
        held = np.flatnonzero(counts)
        moved = draws.multivariate_hypergeometric(counts[held], hit, method="marginals")
        counts[held] -= moved
        np.add.at(counts, held | logo(audience, seen), moved)
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


def logo(audience: Audience, seen: tuple[int, ...]) -> int:
    """Return the bits that an id sets in its columns.

    >>> bin(logo(Audience(["a", "b"], frequencies=3), (2, 1)))
    '0b1011'
    """
    return sum((2**views - 1) << (place * audience.frequencies) for place, views in enumerate(seen))


def columns_hit(balls: int, columns: int, draws: Draws) -> int:
    """Return how many columns are hit by so many balls, each of which falls anywhere.

    With Poisson balls the numbers of columns that hold 0, 1, 2, … are multinomial. Those of two
    and more are drawn; then those of one must make up the number of balls, which a binomial
    gives with a chance that is the chance to accept (probabilistic divide and conquer, Arratia
    and DeSalvo 2016). Cut off with a chance below 1e-18.
    """
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
        single = self.balls - drawn[:, :-1] @ self.held
        possible = (single >= 0) & (single <= rest) & (rest >= self.least)
        chance = self._chance(rest.astype(np.float64), np.where(possible, single, 0.0))
        lucky = -draws.standard_exponential(_TRIES) < chance - self.bound
        return possible & lucky, rest, single

    def _chance(
        self, trials: NDArray[np.float64], hits: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the logarithm of the binomial law."""
        ways = special.gammaln(trials + 1) - special.gammaln(hits + 1)
        ways = ways - special.gammaln(trials - hits + 1)
        chance = special.xlogy(hits, self.single) + special.xlog1py(trials - hits, -self.single)
        return np.asarray(ways + chance)


@lru_cache(maxsize=4096)
def _tries(balls: int, columns: int) -> _Tries:
    return _Tries(balls, columns)
