"""What all tests of this folder share."""

from __future__ import annotations

from tests.in_memory import tmp_path

__all__ = ["tmp_path"]
