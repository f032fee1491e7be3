"""Exact, certified accounting for shuffled collections. Pure mathematics: touches no data."""

from chaffinch.privacy import amplification, published, randomizers
from chaffinch.privacy.calibration import calibrate, calibrate_count
from chaffinch.privacy.composition import Composition, compose
from chaffinch.privacy.groups import Grouped
from chaffinch.privacy.guarantee import Bracket, Guarantee, Target
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.audiences import FlippedAudiences
from chaffinch.privacy.mechanisms.bits import FlippedBits
from chaffinch.privacy.mechanisms.decoys import DecoyedValues
from chaffinch.privacy.mechanisms.filters import FlippedFilters
from chaffinch.privacy.mechanisms.numbers import EncodedNumbers
from chaffinch.privacy.mechanisms.records import FlippedVectors
from chaffinch.privacy.mechanisms.responders import RandomResponders
from chaffinch.privacy.mechanisms.sampled_counts import SampleAndThreshold
from chaffinch.privacy.mechanisms.signed import SignedDecoys
from chaffinch.privacy.mechanisms.values import FlippedValues
from chaffinch.privacy.shortened_reports import Shortened
from chaffinch.privacy.tradeoff import TradeOff

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
    "Grouped",
    "Guarantee",
    "Mechanism",
    "RandomResponders",
    "SampleAndThreshold",
    "Shortened",
    "SignedDecoys",
    "Target",
    "TradeOff",
    "amplification",
    "calibrate",
    "calibrate_count",
    "compose",
    "published",
    "randomizers",
]
