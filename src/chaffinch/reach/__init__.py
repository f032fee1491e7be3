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
    from chaffinch.reach.analysis import analyze
    from chaffinch.reach.audience import Audience, Group
    from chaffinch.reach.charging import hand_out
    from chaffinch.reach.encoding import encode
    from chaffinch.reach.filter_file import Filter, load_filter
    from chaffinch.reach.keys import CampaignKey, load_key, new_key
    from chaffinch.reach.plan_file import load_plan
    from chaffinch.reach.planner import plan
    from chaffinch.reach.plans import ReachPlan
    from chaffinch.reach.release import ReachRelease
    from chaffinch.reach.release_documents import load_release

__all__ = [
    "Audience",
    "CampaignKey",
    "Filter",
    "Group",
    "ReachPlan",
    "ReachRelease",
    "analyze",
    "encode",
    "hand_out",
    "load_filter",
    "load_key",
    "load_plan",
    "load_release",
    "new_key",
    "plan",
]

_NAMES = {
    "Audience": "audience",
    "CampaignKey": "keys",
    "Filter": "filter_file",
    "Group": "audience",
    "ReachPlan": "plans",
    "ReachRelease": "release",
    "analyze": "analysis",
    "encode": "encoding",
    "hand_out": "charging",
    "load_filter": "filter_file",
    "load_key": "keys",
    "load_plan": "plan_file",
    "load_release": "release_documents",
    "new_key": "keys",
    "plan": "planner",
}


def __getattr__(name: str) -> Any:
    """Load a part of reach on first use (PEP 562)."""
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.reach.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.reach' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
