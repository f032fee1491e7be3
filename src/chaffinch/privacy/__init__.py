"""Exact, certified accounting for shuffled collections. Pure mathematics: touches no data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.privacy import amplification, published, randomizers
    from chaffinch.privacy.calibration import calibrate, calibrate_count
    from chaffinch.privacy.composition import Composition, compose
    from chaffinch.privacy.groups import Grouped
    from chaffinch.privacy.guarantee import Bracket, Guarantee, Target
    from chaffinch.privacy.mechanism import Mechanism
    from chaffinch.privacy.mechanisms.bits import FlippedBits
    from chaffinch.privacy.mechanisms.decoys import DecoyedValues
    from chaffinch.privacy.mechanisms.filters import FlippedAudiences, FlippedFilters
    from chaffinch.privacy.mechanisms.numbers import EncodedNumbers
    from chaffinch.privacy.mechanisms.records import FlippedVectors
    from chaffinch.privacy.mechanisms.responders import RandomResponders
    from chaffinch.privacy.mechanisms.sampled_counts import SampleAndThreshold
    from chaffinch.privacy.mechanisms.signed import SignedDecoys
    from chaffinch.privacy.mechanisms.totals import NoisyTotals
    from chaffinch.privacy.mechanisms.values import FlippedValues
    from chaffinch.privacy.mechanisms.weighted import WeightedNumbers
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
    "NoisyTotals",
    "RandomResponders",
    "SampleAndThreshold",
    "Shortened",
    "SignedDecoys",
    "Target",
    "TradeOff",
    "WeightedNumbers",
    "amplification",
    "calibrate",
    "calibrate_count",
    "compose",
    "published",
    "randomizers",
]

_PARTS = ("amplification", "published", "randomizers")
_NAMES = {
    "Bracket": "guarantee",
    "Composition": "composition",
    "DecoyedValues": "mechanisms.decoys",
    "EncodedNumbers": "mechanisms.numbers",
    "FlippedAudiences": "mechanisms.filters",
    "FlippedBits": "mechanisms.bits",
    "FlippedFilters": "mechanisms.filters",
    "FlippedValues": "mechanisms.values",
    "FlippedVectors": "mechanisms.records",
    "Grouped": "groups",
    "Guarantee": "guarantee",
    "Mechanism": "mechanism",
    "NoisyTotals": "mechanisms.totals",
    "RandomResponders": "mechanisms.responders",
    "SampleAndThreshold": "mechanisms.sampled_counts",
    "Shortened": "shortened_reports",
    "SignedDecoys": "mechanisms.signed",
    "Target": "guarantee",
    "TradeOff": "tradeoff",
    "WeightedNumbers": "mechanisms.weighted",
    "calibrate": "calibration",
    "calibrate_count": "calibration",
    "compose": "composition",
}


def __getattr__(name: str) -> Any:
    """Load a part of privacy on first use (PEP 562)."""
    if name in _PARTS:
        return importlib.import_module(f"chaffinch.privacy.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.privacy.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.privacy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
