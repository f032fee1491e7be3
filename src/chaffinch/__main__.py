"""``python -m chaffinch`` is the command ``chaffinch``."""

from __future__ import annotations

import sys

from chaffinch.cli import main

if __name__ == "__main__":
    sys.exit(main())
