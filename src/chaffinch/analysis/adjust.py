"""Optional repairs of estimates, each with a sentence that says what was done.

Unbiased estimates may be negative and need not add up. Making them look possible is
post-processing, so it costs no privacy, but it moves the mean of what is reported:
small counts come out too large on average. Intervals belong to the unadjusted tallies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.errors.checks import real
from chaffinch.protocols.noise import Floats

_SET_TO_ZERO = "Negative estimates were set to 0"
_MOVED = "Estimates were moved to the nearest ones that are at least 0"


def was_adjusted(note: str) -> bool:
    """Return whether a note of a release says that its estimates are biased."""
    return note.startswith((_SET_TO_ZERO, _MOVED))


def non_negative(estimates: ArrayLike) -> tuple[Floats, str]:
    """Return the estimates with negative ones set to 0, and a sentence that says so.

    Examples
    --------
    >>> adjusted, said = non_negative([-2.0, 5.0])
    >>> adjusted
    array([0., 5.])
    >>> print(said)
    Negative estimates were set to 0 (1 of 2); this biases small counts and their sum upwards.
    """
    raw = _finite(estimates)
    changed = int(np.count_nonzero(raw < 0))
    said = (
        f"{_SET_TO_ZERO} ({changed} of {raw.size}); this biases small counts and their sum upwards."
    )
    return np.maximum(raw, 0.0), said


def to_total(estimates: ArrayLike, total: float) -> tuple[Floats, str]:
    """Return the nearest estimates that are at least 0 and add up to ``total``, and a sentence.

    Nearest in the sum of squares. The answer is max(estimate − shift, 0) for one shift,
    found after one sort [Held, Wolfe and Crowder 1974].

    Examples
    --------
    >>> to_total([-2.0, 5.0, 3.0], 6.0)[0]
    array([0., 4., 2.])
    """
    raw = _finite(estimates)
    total = real("total", total, least=0.0)
    if raw.size == 0:
        raise InvalidInput("estimates", "at least one number", Unquoted("none"))
    # Everything is relative to the largest estimate, so that the shift keeps its digits.
    top = raw.max()
    falling = np.sort((raw - top).ravel())[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, raw.size + 1)
    # With the right shift exactly the estimates above it stay positive. The first does always.
    positive = max(int(np.count_nonzero(falling > shifts)), 1)
    adjusted = np.maximum((raw - top) - shifts[positive - 1], 0.0)
    said = (
        f"{_MOVED} and add up to {total:g} "
        f"({raw.size - positive} of {raw.size} became 0); "
        "this biases them: small counts upwards, large ones a little downwards or upwards."
    )
    return adjusted, said


def _finite(estimates: ArrayLike) -> Floats:
    raw = np.asarray(estimates, dtype=np.float64)
    if not np.isfinite(raw).all():
        raise InvalidInput("estimates", "finite numbers", Unquoted("one that is not finite"))
    return raw
