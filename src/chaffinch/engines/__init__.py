"""Bulk work on files, behind one small protocol."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from chaffinch import checks

if TYPE_CHECKING:
    from chaffinch.engines.base import Engine

__all__ = ["engine"]

_ENGINES = {"local": ("chaffinch.engines.local", "Local")}


def engine(name: str = "local") -> Engine:
    """Return the engine of that name; its parts load when it is asked for.

    >>> engine("local").name
    'local'
    """
    module, kind = _ENGINES[checks.choice("engine", name, tuple(_ENGINES))]
    return cast("Engine", getattr(importlib.import_module(module), kind)())
