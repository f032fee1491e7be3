"""The checker as strangers have it: one file, loaded by its path."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[2] / "tools" / "check_certificate.py"


def _load() -> Any:
    spec = spec_from_file_location("check_certificate", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["check_certificate"] = module
    spec.loader.exec_module(module)
    return module


checker = _load()
