"""Exact, certified accounting for shuffled collections. Pure mathematics: touches no data."""

from chaffinch.privacy import amplification, published
from chaffinch.privacy.bits import FlippedBits
from chaffinch.privacy.composition import Composition, compose
from chaffinch.privacy.decoys import DecoyedValues
from chaffinch.privacy.filters import FlippedFilters, flip_probability_for
from chaffinch.privacy.guarantee import Bracket, Guarantee
from chaffinch.privacy.values import FlippedValues
from chaffinch.privacy.vectors import FlippedVectors

__all__ = [
    "Bracket",
    "Composition",
    "DecoyedValues",
    "FlippedBits",
    "FlippedFilters",
    "FlippedValues",
    "FlippedVectors",
    "Guarantee",
    "amplification",
    "compose",
    "flip_probability_for",
    "published",
]
