"""Exact, certified accounting for shuffled collections. Pure mathematics: touches no data."""

from chaffinch.privacy import amplification, published
from chaffinch.privacy.bits import FlippedBits
from chaffinch.privacy.composition import Composition, compose
from chaffinch.privacy.decoys import DecoyedValues
from chaffinch.privacy.guarantee import Bracket, Guarantee
from chaffinch.privacy.values import FlippedValues

__all__ = ["Bracket", "Composition", "DecoyedValues", "FlippedBits", "FlippedValues", "Guarantee", "amplification", "compose", "published"]
