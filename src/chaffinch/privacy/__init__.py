"""Exact, certified accounting for shuffled collections. Pure mathematics: touches no data."""

from chaffinch.privacy.bits import FlippedBits
from chaffinch.privacy.guarantee import Bracket, Guarantee

__all__ = ["Bracket", "FlippedBits", "Guarantee"]
