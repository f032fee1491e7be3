"""Figures as plain data, and one renderer per medium. The numbers come from ``privacy``."""

from chaffinch.charts.amplification import Bound, amplification_bounds
from chaffinch.charts.axis import Axis
from chaffinch.charts.curves import privacy_curve, tradeoff
from chaffinch.charts.estimates import Dot, DotFigure, estimates_chart, number_chart
from chaffinch.charts.figure import Figure, Series, Terms
from chaffinch.charts.heat import HeatFigure
from chaffinch.charts.trends import TrendFigure, trend_chart

__all__ = [
    "Axis",
    "Bound",
    "Dot",
    "DotFigure",
    "Figure",
    "HeatFigure",
    "Series",
    "Terms",
    "TrendFigure",
    "amplification_bounds",
    "estimates_chart",
    "number_chart",
    "privacy_curve",
    "tradeoff",
    "trend_chart",
]
