"""Rows of the table of protocols, taken on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from tests.cli.conftest import Done

USERS = 400


@pytest.mark.long
def test_every_row_that_is_printed_can_be_asked_for_and_run(
    cli: Callable[..., Done], tmp_path: Path
) -> None:
    table = tmp_path / "people.csv"
    table.write_text("answer\n" + "tea\ncoffee\n" * (USERS // 2))
    words = ("plan", "--choice", "tea,coffee", "--users", USERS, "--epsilon", 1, "--delta", 1e-6)
    rows = json.loads(cli(*words, "--json").out)["protocols"]
    for place, row in enumerate(rows):
        path = tmp_path / f"{place}.plan.json"
        name = row["protocol"]
        done = cli(*words, "--protocol", name, "--anyway", "-o", path)
        assert done.code == 0, done.err
        assert cf.load_plan(path).part().protocol.name in {name, "flips", "signed decoys"}
        if name in {"flips", "local"}:
            out = tmp_path / f"{place}"
            done = cli("run", path, "--data", table, "--rows-are-people", "-o", out, "--again")
            assert done.code == 0, done.err
            assert (out / "release.csv").exists()


def test_refused_rows_on_the_command_line(cli: Callable[..., Done], tmp_path: Path) -> None:
    words = ("plan", "--bit", "--users", USERS, "--epsilon", 1, "--delta", 1e-6)
    # An empty name is no wish that was not uttered, but a script's variable that was not set.
    for unknown in ("flops", ""):
        done = cli(*words, "--protocol", unknown)
        assert (done.code, "one of 'flips'" in done.err) == (2, True), unknown
    done = cli(*words, "--protocol", "flips, 8 copies", "--max-messages", 2)
    assert (done.code, "more than 2 messages" in " ".join(done.err.split())) == (3, True)
    done = cli("plan", "--check", tmp_path / "x.plan.json", "--protocol", "flips")
    assert (done.code, "only when a plan is made" in done.err) == (2, True)
