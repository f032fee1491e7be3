"""The page about a billion people: its commands run, and its table is what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaffinch.plans.kinds import load_any_plan
from tests.docs import costs_page


@pytest.mark.long
def test_a_row_is_what_its_plan_costs(tmp_path: Path) -> None:
    """The first plan of the page alone; all of them are made at night."""
    (first, *_) = costs_page.commands(0).splitlines()
    costs_page.run(first, tmp_path)
    found = load_any_plan(tmp_path / "bit.plan.json")
    page = costs_page.PAGE.read_text("utf-8")
    for cost in costs_page.costs(found):
        assert costs_page.row(costs_page.NAMES["bit"], cost) in page, "run `make docs`"
    (line, *_) = costs_page.commands(1).splitlines()
    assert "Estimate for 1,000,000,000 people" in costs_page.run(line, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_rows_and_commands(tmp_path: Path) -> None:
    page = costs_page.PAGE.read_text("utf-8")
    assert costs_page.written(page, costs_page.table(costs_page.plans(tmp_path))) == page
    costs_page.run(costs_page.commands(1), tmp_path)
