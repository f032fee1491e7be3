"""Exact sampling from secure words, and the hot loops that every party runs.

Probabilities are whole numbers of 2⁻⁶⁴ and every draw is exact: integers only, no
float between the random words and the result. The loops exist twice, in NumPy and in
a small C extension; both read the same words in the same order and give the same result.
Parts load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.sampling.backends import backend
    from chaffinch.sampling.central_noise import discrete_gaussian, discrete_laplace
    from chaffinch.sampling.coins import SCALE, ChanceTable, below, bernoulli, permutation, shuffled
    from chaffinch.sampling.counting import histogram, logo_counts, positional_popcount
    from chaffinch.sampling.digests import digest_again, digest_columns, digest_ids, set_columns
    from chaffinch.sampling.flips import flip, flip_mask, flip_one_hot, flip_packed
    from chaffinch.sampling.gaps import position_chunks, positions
    from chaffinch.sampling.words import KeyedWords, SecureWords, Words, secure_words

__all__ = [
    "SCALE",
    "ChanceTable",
    "KeyedWords",
    "SecureWords",
    "Words",
    "backend",
    "below",
    "bernoulli",
    "digest_again",
    "digest_columns",
    "digest_ids",
    "discrete_gaussian",
    "discrete_laplace",
    "flip",
    "flip_mask",
    "flip_one_hot",
    "flip_packed",
    "histogram",
    "logo_counts",
    "permutation",
    "position_chunks",
    "positional_popcount",
    "positions",
    "secure_words",
    "set_columns",
    "shuffled",
]

_NAMES = {
    "SCALE": "coins",
    "ChanceTable": "coins",
    "KeyedWords": "words",
    "SecureWords": "words",
    "Words": "words",
    "backend": "backends",
    "below": "coins",
    "bernoulli": "coins",
    "digest_again": "digests",
    "digest_columns": "digests",
    "digest_ids": "digests",
    "discrete_gaussian": "central_noise",
    "discrete_laplace": "central_noise",
    "flip": "flips",
    "flip_mask": "flips",
    "flip_one_hot": "flips",
    "flip_packed": "flips",
    "histogram": "counting",
    "logo_counts": "counting",
    "permutation": "coins",
    "position_chunks": "gaps",
    "positional_popcount": "counting",
    "positions": "gaps",
    "secure_words": "words",
    "set_columns": "digests",
    "shuffled": "coins",
}


def __getattr__(name: str) -> Any:
    """Load a part of sampling on first use (PEP 562)."""
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.sampling.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.sampling' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
