"""A run without a folder, killed at each of its file operations: the same call has its release."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

import pytest

import chaffinch as cf
from chaffinch.disk.files import state_folder
from chaffinch.errors import DataRepeated
from tests.runs.conftest import USERS
from tests.runs.test_run_table import Columns, releases_of

KILLED, REFUSED = 9, 4
OPERATIONS = {
    *("open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir"),
    *("shutil.rmtree", "sqlite3.connect", "fcntl.flock"),
}


def call(plan: cf.Plan, table: Columns, killed_at: int) -> int:
    """Run in another process, killed at one of its operations (0: at none); return how it ended."""
    process = os.fork()
    if process:
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    done = 0

    def watch(event: str, _: tuple[Any, ...]) -> None:
        nonlocal done
        done += event in OPERATIONS
        if done == killed_at:
            os._exit(KILLED)

    sys.addaudithook(watch)
    try:
        cf.run(plan, table)
        os._exit(0)
    except DataRepeated:
        os._exit(REFUSED)
    finally:
        os._exit(1)


@pytest.mark.long
def test_the_same_call_has_the_release_of_a_run_that_was_killed(
    plan: cf.Plan, table: Columns
) -> None:
    """But where nothing is left to do except to remove its empty folder and its lock."""
    cf.run(plan, {"tea": ["no"] * USERS})  # loads everything that the copies need
    lost, ended, place = 0, KILLED, 0
    while ended == KILLED:
        place += 1
        shutil.rmtree(state_folder())
        ended = call(plan, table, place)
        recorded = len(releases_of(table))
        again = call(plan, table, 0)
        assert len(releases_of(table)) == 1, place
        assert again in ({0, REFUSED} if recorded else {0}), place
        lost += ended == KILLED and again == REFUSED
    assert (ended, again) == (0, REFUSED)
    assert place > 50
    assert lost <= 2
