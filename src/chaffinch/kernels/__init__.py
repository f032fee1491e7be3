"""Exact sampling from secure words, and the hot loops that every party runs.

Probabilities are whole numbers of 2⁻⁶⁴ and every draw is exact: integers only, no
float between the random words and the result. The loops exist twice, in NumPy and in
a small C extension; both read the same words in the same order and give the same result.
"""

from __future__ import annotations

from chaffinch.kernels.bernoulli import bernoulli
from chaffinch.kernels.bitslice import flip_mask
from chaffinch.kernels.columns import columns, set_columns
from chaffinch.kernels.flips import flip
from chaffinch.kernels.gaps import position_chunks, positions
from chaffinch.kernels.logos import logo_counts
from chaffinch.kernels.native import backend
from chaffinch.kernels.one_hot import flip_one_hot, flip_packed
from chaffinch.kernels.siphash import digests, redigested
from chaffinch.kernels.tally import histogram, positional_popcount
from chaffinch.kernels.uniform import below, permutation
from chaffinch.kernels.words import SecureWords, Words, secure_words

__all__ = [
    "SecureWords",
    "Words",
    "backend",
    "below",
    "bernoulli",
    "columns",
    "digests",
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
    "redigested",
    "secure_words",
    "set_columns",
]
