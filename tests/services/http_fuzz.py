"""Throw requests at services that a program made from the description of the services.

``python -m tests.services.http_fuzz 2000`` starts both hops of a survey, the shuffler of a reach
and its analyzer, and schemathesis sends them so many requests for each operation, good and bad. It
fails on any answer of 5xx, and on any that the description does not know. The ids in the
description are those of a plan that is run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from chaffinch.keys import KeyFolder
from chaffinch.reach.planning.reach_plan import AnyPlan
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.later_keys import LaterKeys
from chaffinch.shuffling.state import State
from chaffinch.wire import media_types
from chaffinch.wire.sealed_filters import seal_filter
from tests.meta.repository import ROOT
from tests.services.campaign import Campaign
from tests.services.oracle import port_of
from tests.services.servers import collecting, make_site
from tests.services.test_openapi import FILE

GOOD = "CHAFFINCH_TEST_GOOD_BODIES"
"""Where a folder with a good body of each kind is named."""
BODIES = {
    "reports": media_types.REPORTS,
    "filter": media_types.FILTER,
    "batch": media_types.BATCH,
}
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance"


def main(examples: int) -> int:
    """Return 0 if nothing was found."""
    with tempfile.TemporaryDirectory() as name:
        return max(_survey(Path(name), examples), _reach(Path(name), examples))


def _survey(folder: Path, examples: int) -> int:
    """Attack a first hop and a later one."""
    site = make_site(folder / "survey", hops=2)
    _show_keys(site.plan, site.folder / "hop1" / "data", site.keys)
    (site.folder / "reports").write_bytes(site.reports(3))
    (site.folder / "openapi.json").write_text(json.dumps(described(site.plan.id)), "utf-8")
    found = []
    for party in ("hop1", "hop2"):
        with collecting(site, {"batches": {"free_bytes": 1}}, party=party) as service:
            found.append(_attack(site.folder, service.port, examples))
            code, _, said = service.stop()
            found.append(int(bool(code or said)))
    return max(found)


def _show_keys(plan: AnyPlan, data: Path, keys: Mapping[str, KeyFolder]) -> None:
    """Let the first hop have seen the keys of all behind it: without them it is not ready."""
    parties = plan.parties
    assert parties is not None
    behind = (*parties.hops[1:], parties.analyzer)
    with closing(State.open(data / "state.sqlite")) as state:
        later = LaterKeys(state, {plan.id: behind}, patience=Patience())
        for party in behind:
            later.take(plan.id, party, keys[party.name].key_list(plan.id))


def _reach(folder: Path, examples: int) -> int:
    """Attack the shuffler of a reach and its analyzer, who has releases too."""
    campaign = Campaign.make(folder / "reach")
    plan, (name, publisher) = campaign.plan, campaign.plan.named_parties.publishers[0]
    _show_keys(plan, campaign.folder / "hop", campaign.keys)
    (stored,) = campaign.keys["hop"].opening_keys().values()
    identity = campaign.keys[name].identity
    content = seal_filter(
        campaign.encode(name).content(), plan.layout, stored.key.sealing, identity
    )
    (campaign.folder / "filter").write_bytes(content)
    found = []
    with campaign.fronts() as process:
        for party in ("hop", "analyzer"):
            text = json.dumps(described(plan.id, publisher, releases=party == "analyzer"))
            (campaign.folder / "openapi.json").write_text(text, "utf-8")
            found.append(_attack(campaign.folder, port_of(plan, party), examples))
        found.append(int(process.poll() is not None))
    return max(found)


def _attack(folder: Path, port: int, examples: int) -> int:
    """Throw requests at one service."""
    words = [
        *("run", "openapi.json", "--url", f"http://127.0.0.1:{port}"),
        *("--checks", CHECKS, "--max-examples", str(examples), "--mode", "all"),
        *("--phases", "examples,coverage,fuzzing", "--no-color"),
    ]
    found = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", *words],
        check=False,
        cwd=folder,  # where it leaves its own files
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "SCHEMATHESIS_HOOKS": "tests.services.http_fuzz",
            GOOD: str(folder),
        },
    )
    return found.returncode


def described(plan: str, publisher: str = "0" * 64, *, releases: bool = False) -> dict[str, Any]:
    """Return the description with addresses that are there: most requests must get further.

    Only the analyzer has ``releases``, and it takes neither reports nor filters.
    """
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    parameters = found["components"]["parameters"]
    parameters["plan"]["schema"] = {"enum": [plan, "0" * 64], "type": "string"}
    parameters["publisher"]["schema"] = {"enum": [publisher, "0" * 64], "type": "string"}
    parameters["round"]["schema"] = {"enum": [1, 2], "type": "integer"}
    others = ("reports", "filters") if releases else ("releases",)
    found["paths"] = {
        path: rest
        for path, rest in found["paths"].items()
        if not any(one in path for one in others)
    }
    return found


def _bodies(folder: Path) -> None:
    """Tell schemathesis, which imports this file, how bodies are made: junk, and almost good."""
    import schemathesis
    from hypothesis import strategies

    def almost(good: bytes) -> Any:
        cut = strategies.integers(0, len(good)).map(lambda end: good[:end])
        whole = strategies.integers(1, 3).map(lambda number: good[: len(good) // 3 * number])
        changed = strategies.integers(0, len(good) - 1).map(
            lambda place: good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        )
        return strategies.one_of(strategies.just(good), whole, cut, changed)

    for name, media_type in BODIES.items():
        made = strategies.binary()
        if (folder / name).exists():
            made |= almost((folder / name).read_bytes())
        schemathesis.openapi.media_type(media_type, made)


if GOOD in os.environ:
    _bodies(Path(os.environ[GOOD]))

if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
