"""Which implementation of the loops runs: the C extension where it was built, else NumPy.

There are two extensions, one for messages and one for filters; each has a table of functions
here, a reference in NumPy (`plain`, `filters_plain`), and what both ask of an array: its type,
one dimension, and no gaps.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput, checks
from chaffinch.sampling import filters_plain, plain

State = plain.State
VARIABLE = "CHAFFINCH_KERNELS"
"""Set it to ``numpy`` or ``native`` to choose; without it the fastest one that is there."""


class Loops(Protocol):
    """The dispatch table: a module with these functions. ``plain`` says what each does."""

    def compare_planes(
        self,
        planes: NDArray[np.uint64],
        digits: NDArray[np.uint8],
        below: NDArray[np.uint64],
        undecided: NDArray[np.uint64],
        /,
    ) -> None:
        """Compare digit planes with digits."""
        ...

    def collect_open(self, undecided: NDArray[np.uint64], lanes: NDArray[np.int64], /) -> int:
        """List the words with an open lane."""
        ...

    def refine(
        self,
        plane: NDArray[np.uint64],
        digit: int,
        below: NDArray[np.uint64],
        undecided: NDArray[np.uint64],
        lanes: NDArray[np.int64],
        /,
    ) -> int:
        """Compare one more digit of the open words."""
        ...

    def lookup(
        self,
        drawn: NDArray[np.uint64],
        thresholds: NDArray[np.uint64],
        guide: NDArray[np.uint16],
        counts: NDArray[np.int64],
        /,
    ) -> int:
        """Count the thresholds above each word."""
        ...

    def walk(
        self,
        counts: NDArray[np.int64],
        weights: NDArray[np.int64],
        escape: int,
        span: tuple[int, int],
        found: NDArray[np.int64],
        /,
    ) -> tuple[int, int]:
        """Turn gaps into positions."""
        ...

    def leap(
        self,
        pieces: NDArray[np.uint16],
        short: NDArray[np.uint16],
        thresholds: NDArray[np.uint64],
        span: tuple[int, int],
        found: NDArray[np.int64],
        /,
    ) -> tuple[int, int, int]:
        """Turn short words into positions."""
        ...

    def xor_positions(self, bits: NDArray[np.uint64], positions: NDArray[np.int64], /) -> None:
        """Flip the bits at positions."""
        ...

    def place(
        self,
        positions: NDArray[np.int64],
        bounds: NDArray[np.int64],
        state: State,
        column: int,
        slots: int,
        /,
    ) -> int:
        """Give flipped zeros of one-hot records their slots."""
        ...

    def scatter(
        self,
        source: tuple[NDArray[np.uint16], NDArray[np.uint16], NDArray[np.uint64]],
        bounds: NDArray[np.int64],
        state: State,
        reached: tuple[int, int],
        slots: int,
        /,
    ) -> tuple[int, int, int]:
        """Leap and place at once."""
        ...

    def row_ones(self, rows: NDArray[np.uint64], counts: NDArray[np.int64], /) -> None:
        """Count the ones in each row."""
        ...

    def histogram(self, codes: NDArray[np.uint32], counts: NDArray[np.int64], /) -> int:
        """Count codes."""
        ...

    def popcount(self, rows: NDArray[np.uint8], stride: int, counts: NDArray[np.int64], /) -> None:
        """Count ones per bit position."""
        ...

    def index_texts(
        self,
        texts: list[object],
        places: dict[str, int],
        most: int,
        found: NDArray[np.int32],
        /,
    ) -> int:
        """Give each different text of a list a number."""
        ...


class FilterLoops(Protocol):
    """The same for filters; ``filters_plain`` says what each function does."""

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
    name, loops = _choose_module(wanted, "_native", plain)
    return name, cast("Loops", loops)


def choose_filters(wanted: str) -> tuple[str, FilterLoops]:
    """Return the same for the loops of filters."""
    name, loops = _choose_module(wanted, "_filters", filters_plain)
    return name, cast("FilterLoops", loops)


def _choose_module(wanted: str, extension: str, fallback: ModuleType) -> tuple[str, ModuleType]:
    """Return a C extension if it is wanted and was built from these sources, else the other.

    Both say which edition of the loops they hold.
    """
    checks.choice(f"variable {VARIABLE}", wanted, ("", "native", "numpy"))
    if wanted != "numpy":
        try:
            built = importlib.import_module(f"chaffinch.sampling.{extension}")
        except ImportError:
            built = None
        # An extension of another edition reads its arguments differently.
        if getattr(built, "EDITION", 0) == fallback.EDITION:
            return "native", cast("ModuleType", built)
        if wanted == "native":
            rule = "numpy or unset where the C extension was not built, or from older sources"
            raise InvalidInput(f"variable {VARIABLE}", rule, wanted)
    return "numpy", fallback


# Chosen once, at import: the words of one draw are never read by two implementations.
_NAME, LOOPS = choose(os.environ.get(VARIABLE, ""))
_, FILTER_LOOPS = choose_filters(os.environ.get(VARIABLE, ""))


def backend() -> str:
    """Return which loops run in this process: ``"native"`` or ``"numpy"``."""
    return _NAME


def contiguous(name: str, array: NDArray[Any], *types: type[np.generic]) -> NDArray[Any]:
    """Return the array of one of these types as the loops read it: copied only if it must be."""
    # Contiguous and aligned: the loops in C walk plain pointers.
    return np.require(_check_type(name, array, types), requirements=["C", "A"])


def writable(name: str, array: NDArray[Any], kind: type[np.generic], size: int) -> NDArray[Any]:
    """Return the array if it holds ``size`` items that can be written in place."""
    if len(_check_type(name, array, (kind,))) != size or not array.flags.carray:
        raise InvalidInput(name, f"a writable, contiguous array of {size}", len(array))
    return array


def _check_type(
    name: str, array: NDArray[Any], types: tuple[type[np.generic], ...]
) -> NDArray[Any]:
    names = " or ".join(np.dtype(one).name for one in types)
    rule = f"a one-dimensional array of {names}"
    if not isinstance(array, np.ndarray):
        raise InvalidInput(name, rule, type(array).__name__)
    if array.ndim != 1 or array.dtype not in types:
        raise InvalidInput(name, rule, f"{array.ndim}-dimensional array of {array.dtype.name}")
    return array
