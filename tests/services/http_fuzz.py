"""Throw requests at collectors that a program made from the description of the services.

``python -m tests.services.http_fuzz 2000`` starts collectors, and schemathesis sends them so many
requests for each operation, good and bad. It fails on any answer of 5xx, and on any that the
description does not know. The ids in the description are those of a plan that is run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from chaffinch.wire import media_types
from tests.meta.repository import ROOT
from tests.services.servers import Site, collecting, make_site
from tests.services.test_openapi import FILE

GOOD = "CHAFFINCH_TEST_GOOD_REPORTS"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"


def main(examples: int) -> int:
    """Return 0 if nothing was found, at a first hop and at a later one."""
    with tempfile.TemporaryDirectory() as name:
        site = make_site(Path(name), hops=2)
        (site.folder / "openapi.json").write_text(json.dumps(_for_site(site)), encoding="utf-8")
        (site.folder / "reports").write_bytes(site.reports(3))
        return max(_attack(site, party, examples) for party in ("hop1", "hop2"))


def _attack(site: Site, party: str, examples: int) -> int:
    with collecting(site, {"batches": {"free_bytes": 1}}, party=party) as service:
        words = [
            *("run", "openapi.json", "--url", f"http://127.0.0.1:{service.port}"),
            *("--checks", CHECKS, "--max-examples", str(examples), "--mode", "all"),
            *("--phases", "examples,coverage,fuzzing", "--no-color"),
        ]
        found = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", *words],
            check=False,
            cwd=site.folder,  # where it leaves its own files
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                "SCHEMATHESIS_HOOKS": "tests.services.http_fuzz",
                GOOD: str(site.folder / "reports"),
            },
        )
        code, _, said = service.stop()
    return int(bool(found.returncode or code or said))


def _for_site(site: Site) -> dict[str, Any]:
    """Return the description with addresses that are there: most requests must get further."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    parameters = found["components"]["parameters"]
    parameters["plan"]["schema"] = {"enum": [site.plan.id, "0" * 64], "type": "string"}
    parameters["round"]["schema"] = {"enum": [1, 2], "type": "integer"}
    # Only the analyzer has releases.
    found["paths"] = {path: rest for path, rest in found["paths"].items() if "rel" not in path}
    return found


def _bodies() -> None:
    """Tell schemathesis, which imports this file, how bodies are made: junk, and almost good."""
    import schemathesis
    from hypothesis import strategies

    good = Path(os.environ[GOOD]).read_bytes()
    cut = strategies.integers(0, len(good)).map(lambda end: good[:end])
    whole = strategies.integers(1, 3).map(lambda number: good[: len(good) // 3 * number])
    changed = strategies.integers(0, len(good) - 1).map(
        lambda place: good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
    )
    reports = strategies.one_of(strategies.binary(), whole, cut, changed)
    schemathesis.openapi.media_type(media_types.REPORTS, reports)
    schemathesis.openapi.media_type(media_types.BATCH, strategies.binary())


if GOOD in os.environ:
    _bodies()

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
