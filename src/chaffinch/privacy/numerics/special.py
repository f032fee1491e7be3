"""The special functions of scipy, loaded when the first of them is used.

They take as long to load as everything else that a hop needs, and a service that collects or
forwards reports never calls them.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # what Python asks of a module is asked of this one
        raise AttributeError(name)
    from scipy import special

    found = globals()[name] = getattr(special, name)
    return found
