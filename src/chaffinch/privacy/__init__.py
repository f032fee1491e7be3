"""Exact, certified accounting for shuffled collections. Pure mathematics: touches no data."""

from chaffinch.privacy import amplification, published
from chaffinch.privacy.audiences import FlippedAudiences
from chaffinch.privacy.bits import FlippedBits
from chaffinch.privacy.composition import Composition, compose
from chaffinch.privacy.decoys import DecoyedValues
from chaffinch.privacy.filters import FlippedFilters
from chaffinch.privacy.guarantee import Bracket, Guarantee, Target
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numbers import EncodedNumbers
from chaffinch.privacy.search import calibrate, calibrate_count
from chaffinch.privacy.shortened import Shortened
from chaffinch.privacy.tradeoff import TradeOff
from chaffinch.privacy.values import FlippedValues
from chaffinch.privacy.vectors import FlippedVectors

__all__ = [
    "Bracket",
    "Composition",
    "DecoyedValues",
    "EncodedNumbers",
    "FlippedAudiences",
    "FlippedBits",
    "FlippedFilters",
    "FlippedValues",
    "FlippedVectors",
    "Guarantee",
    "Mechanism",
    "Shortened",
    "Target",
    "TradeOff",
    "amplification",
    "calibrate",
    "calibrate_count",
    "compose",
    "published",
]
