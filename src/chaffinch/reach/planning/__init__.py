"""Plan a reach: audiences, filters, and how exact they will be.

The names here are what ``plan`` can be asked that no party asks where a reach runs; each loads its
part of this room on first use (PEP 562).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.reach.planning import estimator
    from chaffinch.reach.planning.reach_cost import cost_of
    from chaffinch.reach.planning.reach_explanation import explain, plan_html, reach_warnings

__all__ = ["cost_of", "estimator", "explain", "plan_html", "reach_warnings"]

_NAMES = {
    "cost_of": "reach_cost",
    "explain": "reach_explanation",
    "plan_html": "reach_explanation",
    "reach_warnings": "reach_explanation",
}


def __getattr__(name: str) -> Any:
    """Load a part of planning on first use (PEP 562)."""
    if name == "estimator":
        return importlib.import_module("chaffinch.reach.planning.estimator")
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.reach.planning.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.reach.planning' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
