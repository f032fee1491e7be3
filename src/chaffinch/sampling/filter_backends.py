"""Which implementation of the filters' loops runs: the same kind as of all other loops."""

from __future__ import annotations

import os
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from chaffinch.sampling import backends, filters_plain


class Loops(Protocol):
    """The dispatch table: a module with these functions. ``filters_plain`` says what each does."""

    def siphash(
        self,
        data: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        key: bytes,
        out: NDArray[np.uint64],
        /,
    ) -> None:
        """Hash the ids in a column."""
        ...

    def siphash_words(
        self, digests: NDArray[np.uint64], key: bytes, out: NDArray[np.uint64], /
    ) -> None:
        """Hash digests again."""
        ...

    def set_bits(
        self, packed: NDArray[np.uint64], digests: NDArray[np.uint64], bits: int, /
    ) -> None:
        """Set the bit of each digest's column."""
        ...

    def count_logos(
        self, rows: tuple[NDArray[np.uint64], ...], bits: int, counts: NDArray[np.int64], /
    ) -> None:
        """Count the logos of stacked rows."""
        ...


def choose(wanted: str) -> tuple[str, Loops]:
    """Return the name and the loops for what the environment variable says."""
    name, loops = backends.chosen(wanted, "_filters", filters_plain)
    return name, cast("Loops", loops)


_, LOOPS = choose(os.environ.get(backends.VARIABLE, ""))
