"""A number on a grid, with two-sided geometric noise."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.amplification import ShuffledTable
from chaffinch.privacy.numerics.precision import exp_ends, grain_above
from chaffinch.privacy.shuffled_randomizers import check_local_epsilon


class DiscreteLaplace(ShuffledTable):
    """A number on a grid of ``steps`` steps, with two-sided geometric noise, cut off at both ends.

    The noise z has chance (1 − a)/(1 + a)·a^|z|, a = e^(−ε₀/steps): the Laplace law on a grid. What
    falls outside 0…steps is sent as the nearest end [Ghosh, Roughgarden and Sundararajan 2009].

    >>> DiscreteLaplace(local_epsilon=1, steps=4, users=1000).epsilon(1e-6).upper < 0.132
    True
    """

    most_steps: ClassVar[int] = 32

    def __init__(
        self, *, local_epsilon: float, steps: int, users: int, relative_width: float = 1e-3
    ) -> None:
        asked = check_local_epsilon(local_epsilon)
        self.steps = checks.whole("number of steps", steps, least=1, most=self.most_steps)
        # Down: a quotient that was rounded up would be more than was asked for, steps times over.
        step = math.nextafter(asked / self.steps, 0.0)
        self.ratio = grain_above(1 / exp_ends(step)[0])
        if not self.ratio < 1:
            raise InvalidInput("local epsilon", "above 0", local_epsilon)
        rows = [self._row(value) for value in range(self.steps + 1)]
        super().__init__(rows, users=users, relative_width=relative_width)
        self._local = min(self._local, asked)

    def __repr__(self) -> str:
        return f"DiscreteLaplace(steps={self.steps}, users={self.users})"

    def _row(self, value: int) -> list[Fraction]:
        """Return the chances of the outputs 0 … steps."""
        ratio, steps = self.ratio, self.steps
        ends = ratio**value / (1 + ratio), ratio ** (steps - value) / (1 + ratio)
        middle = [
            (1 - ratio) / (1 + ratio) * ratio ** abs(output - value) for output in range(1, steps)
        ]
        return [ends[0], *middle, ends[1]]
