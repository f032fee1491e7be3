"""Audiences: reach, overlap and frequency across publishers, from flipped filters.

>>> from chaffinch import Audience, Target, reach
>>> plan = reach.plan(
...     Audience(["daily", "radio"]), sizes=[5_000, 3_000], target=Target(epsilon=1, delta=1e-6)
... )
>>> key = reach.new_key()  # the publishers share it; the analyzer never has it
>>> ids = [f"user-{n}" for n in range(5_000)]
>>> daily = reach.encode(ids, plan, publisher="daily", key=key)
>>> ids = [f"user-{n}" for n in range(4_000, 7_000)]
>>> radio = reach.encode(ids, plan, publisher="radio", key=key)
>>> release = reach.analyze([daily, radio], plan)
>>> abs(release.reach.estimate - 7_000) < 6 * release.reach.standard_error
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.reach.analyzer.reach_analysis import analyze
    from chaffinch.reach.planning.audience import Audience, Group
    from chaffinch.reach.planning.id_rule import IdRule
    from chaffinch.reach.planning.reach_parties import Shuffler
    from chaffinch.reach.planning.reach_plan import ReachPlan, load_plan
    from chaffinch.reach.planning.reach_planner import plan
    from chaffinch.reach.publisher.campaign_key import CampaignKey, load_key, new_key
    from chaffinch.reach.publisher.charging import hand_out
    from chaffinch.reach.publisher.filter_making import encode
    from chaffinch.reach.release import ReachRelease, load_release
    from chaffinch.reach.shuffler.hand_over import shuffle
    from chaffinch.wire.filter_files import Filter, ShuffledColumns, load_columns, load_filter

__all__ = [
    "Audience",
    "CampaignKey",
    "Filter",
    "Group",
    "IdRule",
    "ReachPlan",
    "ReachRelease",
    "ShuffledColumns",
    "Shuffler",
    "analyze",
    "encode",
    "hand_out",
    "load_columns",
    "load_filter",
    "load_key",
    "load_plan",
    "load_release",
    "new_key",
    "plan",
    "shuffle",
]

_NAMES = {
    "Audience": "reach.planning.audience",
    "CampaignKey": "reach.publisher.campaign_key",
    "Filter": "wire.filter_files",
    "Group": "reach.planning.audience",
    "IdRule": "reach.planning.id_rule",
    "ReachPlan": "reach.planning.reach_plan",
    "ReachRelease": "reach.release",
    "ShuffledColumns": "wire.filter_files",
    "Shuffler": "reach.planning.reach_parties",
    "analyze": "reach.analyzer.reach_analysis",
    "encode": "reach.publisher.filter_making",
    "hand_out": "reach.publisher.charging",
    "load_columns": "wire.filter_files",
    "load_filter": "wire.filter_files",
    "load_key": "reach.publisher.campaign_key",
    "load_plan": "reach.planning.reach_plan",
    "load_release": "reach.release",
    "new_key": "reach.publisher.campaign_key",
    "plan": "reach.planning.reach_planner",
    "shuffle": "reach.shuffler.hand_over",
}


def __getattr__(name: str) -> Any:
    """Load a part of reach on first use (PEP 562)."""
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.reach' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
