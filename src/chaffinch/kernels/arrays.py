"""What the loops ask of an array: its type, one dimension, and no gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InvalidInput


def contiguous(name: str, array: NDArray[Any], *types: type[np.generic]) -> NDArray[Any]:
    """Return the array of one of these types as the loops read it: copied only if it must be."""
    return np.require(_typed(name, array, types), requirements=["C", "A"])


def writable(name: str, array: NDArray[Any], kind: type[np.generic], size: int) -> NDArray[Any]:
    """Return the array if it holds ``size`` items that can be written in place."""
    if len(_typed(name, array, (kind,))) != size or not array.flags.carray:
        raise InvalidInput(name, f"a writable, contiguous array of {size}", len(array))
    return array


def _typed(name: str, array: NDArray[Any], types: tuple[type[np.generic], ...]) -> NDArray[Any]:
    names = " or ".join(np.dtype(one).name for one in types)
    rule = f"a one-dimensional array of {names}"
    if not isinstance(array, np.ndarray):
        raise InvalidInput(name, rule, type(array).__name__)
    if array.ndim != 1 or array.dtype not in types:
        raise InvalidInput(name, rule, f"{array.ndim}-dimensional array of {array.dtype.name}")
    return array
