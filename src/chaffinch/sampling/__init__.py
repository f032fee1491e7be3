"""Exact sampling from secure words, and the hot loops that every party runs.

Probabilities are whole numbers of 2⁻⁶⁴ and every draw is exact: integers only, no
float between the random words and the result. The loops exist twice, in NumPy and in
a small C extension; both read the same words in the same order and give the same result.
"""

from __future__ import annotations

from chaffinch.sampling.backends import backend
from chaffinch.sampling.coins import SCALE, ChanceTable, below, bernoulli, permutation, shuffled
from chaffinch.sampling.counting import histogram, logo_counts, positional_popcount
from chaffinch.sampling.digests import digest_again, digest_columns, digest_ids, set_columns
from chaffinch.sampling.flips import flip, flip_mask
from chaffinch.sampling.gaps import position_chunks, positions
from chaffinch.sampling.one_hot import flip_one_hot, flip_packed
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
