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
    from chaffinch.analysis.audiences.analyze import analyze
    from chaffinch.encoding.publisher.campaign_key import CampaignKey, load_key, new_key
    from chaffinch.encoding.publisher.charging import hand_out
    from chaffinch.encoding.publisher.filters import encode
    from chaffinch.planning.audiences.audience import Audience, Group
    from chaffinch.planning.audiences.id_rule import IdRule
    from chaffinch.planning.audiences.plan import ReachPlan, load_plan
    from chaffinch.planning.audiences.planner import plan
    from chaffinch.planning.audiences.shuffler import Shuffler
    from chaffinch.release.audiences import ReachRelease
    from chaffinch.release.documents import load_reach_release as load_release
    from chaffinch.shuffling.filters import shuffle
    from chaffinch.wire.column_files import ShuffledColumns, load_columns
    from chaffinch.wire.filter_files import Filter, load_filter

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
    "Audience": "planning.audiences.audience",
    "CampaignKey": "encoding.publisher.campaign_key",
    "Filter": "wire.filter_files",
    "Group": "planning.audiences.audience",
    "IdRule": "planning.audiences.id_rule",
    "ReachPlan": "planning.audiences.plan",
    "ReachRelease": "release.audiences",
    "ShuffledColumns": "wire.column_files",
    "Shuffler": "planning.audiences.shuffler",
    "analyze": "analysis.audiences.analyze",
    "encode": "encoding.publisher.filters",
    "hand_out": "encoding.publisher.charging",
    "load_columns": "wire.column_files",
    "load_filter": "wire.filter_files",
    "load_key": "encoding.publisher.campaign_key",
    "load_plan": "planning.audiences.plan",
    "load_release": "release.documents",
    "new_key": "encoding.publisher.campaign_key",
    "plan": "planning.audiences.planner",
    "shuffle": "shuffling.filters",
}
# Where surveys have a function of the same name beside it.
_OWN_NAMES = {"load_release": "load_reach_release"}


def __getattr__(name: str) -> Any:
    """Load a part of reach on first use (PEP 562)."""
    if name in _NAMES:
        module = importlib.import_module(f"chaffinch.{_NAMES[name]}")
        return getattr(module, _OWN_NAMES.get(name, name))
    raise AttributeError(f"module 'chaffinch.reach' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
