"""Figures as plain data, and one renderer per medium. The numbers come from ``privacy``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaffinch.charts.amplification import Bound, amplification_bounds
    from chaffinch.charts.axis import Axis
    from chaffinch.charts.curves import privacy_curve, tradeoff
    from chaffinch.charts.estimates import Dot, DotFigure, estimates_chart, number_chart
    from chaffinch.charts.figure import Figure, Series, Terms
    from chaffinch.charts.guesses import GuessFigure, guesses_chart
    from chaffinch.charts.heat import HeatFigure
    from chaffinch.charts.price import PriceFigure, price_chart
    from chaffinch.charts.trends import TrendFigure, trend_chart

__all__ = [
    "Axis",
    "Bound",
    "Dot",
    "DotFigure",
    "Figure",
    "GuessFigure",
    "HeatFigure",
    "PriceFigure",
    "Series",
    "Terms",
    "TrendFigure",
    "amplification_bounds",
    "estimates_chart",
    "guesses_chart",
    "number_chart",
    "price_chart",
    "privacy_curve",
    "tradeoff",
    "trend_chart",
]

_NAMES = {
    "Axis": "axis",
    "Bound": "amplification",
    "Dot": "estimates",
    "DotFigure": "estimates",
    "Figure": "figure",
    "GuessFigure": "guesses",
    "HeatFigure": "heat",
    "PriceFigure": "price",
    "Series": "figure",
    "Terms": "figure",
    "TrendFigure": "trends",
    "amplification_bounds": "amplification",
    "estimates_chart": "estimates",
    "guesses_chart": "guesses",
    "number_chart": "estimates",
    "price_chart": "price",
    "privacy_curve": "curves",
    "tradeoff": "curves",
    "trend_chart": "trends",
}


def __getattr__(name: str) -> Any:
    """Load a part of charts on first use (PEP 562)."""
    if name in _NAMES:
        return getattr(importlib.import_module(f"chaffinch.charts.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'chaffinch.charts' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
