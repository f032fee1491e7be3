"""A statement is all that renderers need, and holding a release needs no drawing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from chaffinch.reach.release import ReachRelease
from chaffinch.release.page import statement_page
from chaffinch.release.publication import Publication, _statement_text
from chaffinch.release.statement import Line, Section
from chaffinch.release.surveys import Release
from tests.release import reach_releases, survey_releases

RELEASES = [survey_releases.release(), reach_releases.release()]


@pytest.mark.parametrize("release", RELEASES, ids=["survey", "reach"])
def test_text_and_page_come_from_the_statement_alone(release: Publication) -> None:
    statement = release.statement()
    assert _statement_text(statement) == str(release)
    assert statement_page(statement) == release.page()
    renamed = replace(statement, title="another", sections=statement.sections[:1])
    for said in (_statement_text(renamed), statement_page(renamed)):
        assert "another" in said
        assert statement.sections[1].heading not in said


@pytest.mark.parametrize("release", RELEASES, ids=["survey", "reach"])
def test_every_row_of_the_table_has_a_line_under_its_name(release: Release | ReachRelease) -> None:
    table = [row._asdict() for row in release.table()]
    rows = [row for section in release.statement().sections for row in section.rows]
    said = {(row.name or row.label, row.estimate) for row in rows}
    names = [(fields.get("value") or fields["group"], fields["estimate"]) for fields in table]
    assert said == set(names)


def test_the_largest_rows_are_shown_where_there_are_too_many() -> None:
    rows = tuple(Line(f"v{n}", float(n % 5), 1.0, None, None, 0) for n in range(10))
    section = Section("s", "S", "in people", "value", rows, "people")
    assert section.leading(10) == rows
    assert section.left_out(10) == ""
    # Equal ones stay in their order.
    assert [row.label for row in section.leading(3)] == ["v4", "v9", "v3"]
    assert section.left_out(3) == "The 3 largest of 10 rows."


def test_truths_stand_beside_rows_of_their_name_only() -> None:
    statement = reach_releases.release().statement().with_truths({"daily or radio or shop": 7.0})
    told = [(row.label, row.truth) for section in statement.sections for row in section.rows]
    assert [one for one in told if one[1] is not None] == [
        ("all publishers", 7.0),
        ("once or more", 7.0),
    ]


def test_whoever_makes_a_release_loads_no_charts() -> None:
    makers = "chaffinch.analysis.analyze, chaffinch.reach.analyzer.reach_analysis"
    # Numbers in words and tables in text are no drawings, and stand in the same room.
    code = f"import {makers}, sys; print([m for m in sys.modules if m.endswith(('.svg', '.axis'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
