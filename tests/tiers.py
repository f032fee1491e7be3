"""Which settings of a test are left to the nightly tier."""

from __future__ import annotations

from typing import Any

import pytest


def nightly(*setting: object) -> Any:
    """Return a setting for `make test-long`: a slow one, or one between others."""
    return pytest.param(*setting, marks=pytest.mark.long)
