"""Figures as plain data, and one renderer per medium. The numbers come from ``privacy``."""

from chaffinch.charts.curves import privacy_curve
from chaffinch.charts.figure import Axis, Figure, Series, Terms
from chaffinch.charts.tradeoffs import tradeoff

__all__ = ["Axis", "Figure", "Series", "Terms", "privacy_curve", "tradeoff"]
