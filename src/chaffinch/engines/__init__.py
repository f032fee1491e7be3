"""Bulk work on files, behind one small protocol."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, cast

from chaffinch import checks

if TYPE_CHECKING:
    from chaffinch.engines.base import Engine

__all__ = ["engine"]

ENGINES = {
    "local": ("chaffinch.engines.local", "Local"),
    "spark": ("chaffinch.engines.spark.engine", "Spark"),
}
"""Where each engine is, by the name it is asked for by."""


def engine(name: str = "local", **options: Any) -> Engine:
    """Return the engine of that name with its options; its parts load when it is asked for.

    >>> engine("local").name
    'local'
    """
    module, kind = ENGINES[checks.choice("engine", name, tuple(ENGINES))]
    return cast("Engine", getattr(importlib.import_module(module), kind)(**options))
