"""Count a crowd without seeing anyone in it.

``chaffinch.privacy`` says exactly how private a shuffled, randomized collection is.
Parts load when they are first used, so ``import chaffinch`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from types import ModuleType

__version__ = "0.1.0.dev0"

_PARTS = ("charts", "checks", "errors", "privacy")

__all__ = ["__version__", "charts", "checks", "errors", "privacy"]


def __getattr__(name: str) -> ModuleType:
    """Load a part of chaffinch on first use (PEP 562)."""
    if name in _PARTS:
        return importlib.import_module(f"chaffinch.{name}")
    raise AttributeError(f"module 'chaffinch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
