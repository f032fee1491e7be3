"""Tables of 128-bit chances: every edge is where it must be, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput
from chaffinch.sampling import SCALE, ChanceTable
from tests.cases import each_case

WORD = 1 << 64
TABLES: dict[str, tuple[int, ...]] = {
    "one word decides": (1 << 126, 1 << 127),
    "edges inside one word": (5, 7, WORD - 12, 1),
    "many edges with one upper word": (3 * WORD + 1, 1, 0, 2, 10 * WORD),
    "up to the end": (1, SCALE - 2, 1),
    "nothing left": (SCALE,),
    "no chance first": (0, 0, 1 << 100),
    "empty": (),
}


class Given:
    """Words from pairs: all first ones, then all second ones, as a table takes them."""

    def __init__(self, numbers: list[int]) -> None:
        pairs = [divmod(number, WORD) for number in numbers]
        self.words = [first for first, _ in pairs] + [second for _, second in pairs]

    def take(self, count: int) -> NDArray[np.uint64]:
        assert count == len(self.words)
        return np.array(self.words, dtype=np.uint64)


@each_case("weights", TABLES.values(), ids=TABLES)
def test_every_edge_is_exact(weights: tuple[int, ...]) -> None:
    edges = [sum(weights[: place + 1]) for place in range(len(weights))]
    near = {edge + off for edge in [0, *edges, SCALE] for off in range(-2, 3)}
    near |= {edge // WORD * WORD + off for edge in edges for off in (-1, 0, WORD - 1, WORD)}
    numbers = sorted(number for number in near if 0 <= number < SCALE)
    expected = [sum(edge <= number for edge in edges) for number in numbers]
    assert ChanceTable(weights).draw(Given(numbers), len(numbers)).tolist() == expected
    assert len(set(expected)) >= 1 + sum(weight > 0 for weight in weights) - (sum(weights) == SCALE)


@pytest.mark.parametrize("weights", [(-1,), (SCALE, 1), (1, SCALE)])
def test_impossible_weights_are_refused(weights: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput):
        ChanceTable(weights)
