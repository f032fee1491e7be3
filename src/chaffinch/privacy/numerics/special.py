"""The special functions of scipy, which are loaded when the first of them is used.

They take as long to load as everything else of a hop together, and whoever collects or hands over
reports never calls one.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # what Python asks of a module is asked of this one
        raise AttributeError(name)
    from scipy import special

    found = globals()[name] = getattr(special, name)
    return found
