"""A check and a draft in Python: what the command prints, of files and of frames."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.disk.files import state_folder
from chaffinch.errors import BatchTooSmall, InvalidTable
from tests.runs.conftest import SURVEY, USERS

pandas = pytest.importorskip("pandas")

Command = Callable[..., tuple[int, str]]


def test_all_faults_of_a_frame_are_told_at_once(folder: Path) -> None:
    survey = SURVEY + '[questions.cups]\nkind = "number"\nlow = 0\nhigh = 9\n'
    (folder / "survey.toml").write_text(survey)
    frame = pandas.DataFrame(
        {"tea": [*["yes"] * USERS, "perhaps", None], "cups": [*[1] * USERS, 10, 99]}
    )
    with pytest.raises(InvalidTable) as refused:
        cf.check(frame, folder / "survey.toml")
    said = str(refused.value)
    assert "Got 4 that are not (rows counted from 0):" in said
    for fault in (f"row {USERS}", f"row {USERS + 1}", "column 'tea'", "column 'cups'"):
        assert fault in said
    assert not any(private in said for private in ("perhaps", "99"))


def test_a_check_says_what_the_command_prints(
    folder: Path, table: dict[str, list[object]], command: Command
) -> None:
    """Byte for byte, of the same table in a frame and in a file; and nothing is recorded."""
    text = SURVEY.replace('"refuse"', '"count"')
    text += '[questions.cups]\nkind = "number"\nlow = 0\nhigh = 50\nclip = true\nmissing = 0\n'
    (folder / "survey.toml").write_text(text)
    words = ("check", folder / "survey.toml", "--data", folder / "people.csv", "--json")
    code, printed = command(*words)
    notes: list[str] = []
    found = cf.check(pandas.DataFrame(table), folder / "survey.toml", tell=notes.append)
    assert (code, printed) == (0, json.dumps(found.document(), indent=2) + "\n")
    assert found == cf.check(folder / "people.csv", folder / "survey.toml")
    assert (found.rows, found.protected, found.answers_plainly) == (USERS, "row", False)
    assert found.questions[1].counted["cups"] == {"cells": USERS, "clipped": USERS - 51}
    assert list(found.warnings) == notes
    assert len(notes) == 1, "most cells are clipped"
    assert found.advice.startswith("one row is protected")
    _, shown = command(*words[:-1])
    assert str(found).replace(found.warnings[0], "").split() == shown.split()
    assert not (state_folder() / "releases.record").exists()


def test_a_check_of_people_counts_their_reports(folder: Path) -> None:
    visits = {"who": [n // 2 for n in range(2 * USERS)], "tea": ["yes", "no"] * USERS}
    found = cf.check(visits, folder / "tea.plan.json", person="who")
    assert (found.rows, found.protected, found.of_people) == (USERS, "person", True)
    assert (found.answers_plainly, found.advice) == (True, "")
    with pytest.raises(BatchTooSmall):
        cf.check(
            {**visits, "who": [n // 3 for n in range(2 * USERS)]},
            folder / "survey.toml",
            person="who",
        )


def test_a_draft_is_that_of_the_command(
    folder: Path, table: dict[str, list[object]], command: Command
) -> None:
    code, printed = command("survey", folder / "people.csv", "--with-values", "tea", "--json")
    steps: list[str] = []
    draft = cf.draft_survey(pandas.DataFrame(table), with_values=["tea"], progress=steps.append)
    assert (code, json.loads(printed)["columns"]) == (0, draft.kinds)
    assert json.loads(printed)["survey"] == draft.text
    assert steps[0] == "reading values"
    assert "how many people, not rows, are sure to answer" in draft.text
    (folder / "draft.toml").write_text(
        draft.text.replace("# FILL IN: users = 20000", "users = 150")
    )
    assert cf.check(table, folder / "draft.toml", rows_are_people=True).rows == USERS
