"""What a reach says in plain text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from chaffinch.charts.text_tables import _text_width
from tests.release import reach_releases as releases


@pytest.mark.parametrize("width", [60, 80, 100])
def test_text_fits_and_says_what_matters(width: int) -> None:
    truths = {row.group: row.estimate for row in releases.release().rows}
    shown = releases.release().text(width=width, truths=truths)
    assert max(map(_text_width, shown.splitlines())) <= width
    joined = " ".join(shown.split())
    for words in (
        "50 are right by tossing a coin, and at most 74 after seeing all filters",
        "(1, 1e-09)-differential privacy, proven (upper-bound)",
        "practically no protection (epsilon 15.1)",
        "all publishers 35,000 40 34,920 35,080 35,000",
        "once or more 35,000",
        "2 times or more 17,500",
        "note: Moved by <b>hand</b>.",
    ):
        assert words in joined


def test_truths_are_shown_only_when_they_are_given() -> None:
    assert "truth" not in str(releases.release())
    some = releases.release().text(truths={"daily": 20_123.0})
    line = next(line for line in some.splitlines() if line.startswith("  daily "))
    assert line.split()[-1] == "20,123"


def test_intervals_are_rounded_outwards() -> None:
    release = releases.release(["daily"], frequencies=1)
    row = release.rows[0]._replace(estimate=100.4, low=50.9, high=150.1)
    shown = str(replace(release, rows=(row,)))
    line = next(line for line in shown.splitlines() if line.startswith("  daily  "))
    assert line.split() == ["daily", "100", "40", "50", "151"]


def test_no_protection_is_called_so() -> None:
    release = releases.release(colluding=math.inf)
    assert "an id at the other publishers has no protection left." in release.statement().trust
    terms = dict(release.statement().terms)
    assert terms["Against a colluder"].startswith("no protection")


def test_an_unproven_guarantee_says_so() -> None:
    release = releases.release()
    guess = replace(release.guarantee, method="worst-pair-assumed")
    terms = dict(replace(release, guarantee=guess).statement().terms)
    assert terms["Method"] == "worst-pair-assumed (not proven)"
    assert "not proven" in str(replace(release, guarantee=guess).guarantee)


def test_many_rows_are_cut() -> None:
    release = releases.release()
    row = release.rows[0]._replace(kind="asked")
    shown = str(replace(release, rows=(release.rows[0], *(row for _ in range(50)))))
    assert "  The 40 largest of 50 rows." in shown.splitlines()


def test_without_a_title_the_plan_names_it() -> None:
    assert str(releases.release(title="")).startswith("Reach of plan " + ("a7" * 32)[:16])
