"""A headline says what was found, and no more than the intervals do."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chaffinch as cf
from chaffinch.privacy.guarantee import right_guesses
from chaffinch.release.headlines import (
    change_headline,
    largest_headline,
    mean_headline,
    overlap_headline,
    reach_headline,
    share_headline,
)
from chaffinch.release.statement import Line, headline_text
from tests.release import survey_releases as releases

WHOSE = "of all 1,000 people answered yes"


def line(label: str, estimate: float, error: float, *, apart: float = 2.0) -> Line:
    each = (max(estimate - 2 * error, 0.0), estimate + 2 * error)
    wide = apart * 2 * error
    return Line(label, estimate, error, each, (max(estimate - wide, 0.0), estimate + wide), 0)


def said(*rows: Line, crowd: int = 1000) -> str:
    return headline_text(largest_headline(rows, sign="%", crowd=crowd))


def test_the_largest_value_has_the_interval_for_all_together() -> None:
    found = said(line("tea", 500, 2), line("milk", 300, 2))
    assert found == "tea is the most common of 2: 50.0% (49.2 to 50.8% for all together)."


def test_each_value_may_be_the_largest_where_intervals_overlap() -> None:
    # By themselves the two intervals are apart; the larger one was picked after looking.
    rows = line("tea", 400, 2), line("milk", 411, 2), line("beer", 100, 2)
    assert rows[1].ends[0] > rows[0].ends[1]
    assert said(*rows) == (
        "milk and tea may each be the most common of 3, as their intervals overlap: "
        "41.1% (40.3 to 41.9%) and 40.0% (39.2 to 40.8%); intervals for all together."
    )


def test_many_that_may_be_the_largest_are_counted() -> None:
    rows = [line(f"v{n}", 100 + n, 5) for n in range(9)]
    assert said(*rows).startswith(
        "9 of 9 may each be the most common: their intervals overlap. The largest estimate is 10.8%"
    )
    assert said(*rows).endswith(", v8.")


def test_noise_that_drowns_everything_is_called_so() -> None:
    rows = line("tea", 400, 200), line("milk", 500, 200)
    assert said(*rows) == "Too noisy to say which is the most common."
    yes = share_headline(line("yes", 400, 200), 1000, WHOSE)
    assert headline_text(yes) == "Too noisy to say: 0 to 80% of all 1,000 people answered yes."
    mean = mean_headline(line("mean", 30, 10), "min", "", (0.0, 60.0))
    assert headline_text(mean) == "Too noisy to say: the mean lies from 10 to 50 min."


@given(
    st.lists(st.tuples(st.floats(0, 1000), st.floats(0.5, 40)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_who_may_be_the_largest_is_never_left_out(
    found: list[tuple[float, float]], random: object
) -> None:
    rows = [line(f"v{n}", estimate, error) for n, (estimate, error) in enumerate(found)]
    # Truths anywhere in the intervals for all together: the largest of them is a named value.
    draw = getattr(random, "uniform")  # noqa: B009
    truths = [draw(*row.together) for row in rows if row.together]
    best = rows[int(np.argmax(truths))].label
    words = headline_text(largest_headline(rows))
    alone = re.match(r"(v\d+) is the most common", words)
    named = re.match(r"(v\d+(?:, v\d+)*(?: and v\d+)?) may each", words)
    if alone:
        assert alone[1] == best
    elif named:
        assert best in re.findall(r"v\d+", named[1])


@pytest.mark.parametrize(
    ("estimate", "error", "begins"),
    [
        (798, 1.5, "About 4 of 5 of all 1,000 people answered yes: 79.8% (79.5 to 80.1%)."),
        (505, 8, "About 1 of 2 of all 1,000 people answered yes: 50.5% (48.9 to 52.1%)."),
        # 1 of 2 lies in the interval, and is too far from the estimate for "about".
        (460, 30, "46.0% of all 1,000 people answered yes (40.0 to 52.0%)."),
        (894, 0.5, "About 9 of 10 of all 1,000 people answered yes: 89.4% (89.3 to 89.5%)."),
        (163, 1, "16.3% of all 1,000 people answered yes (16.1 to 16.5%)."),
    ],
)
def test_a_share_of_yes(estimate: float, error: float, begins: str) -> None:
    assert headline_text(share_headline(line("yes", estimate, error), 1000, WHOSE)) == begins


def test_missing_answers_are_no_value_to_lead() -> None:
    answer = releases.counted("drink", ["tea", "milk", "(missing)"])
    answer.estimates[:] = [700, 300, 4000]
    for column, far in ((answer.low_together, -90), (answer.high_together, 90)):
        column[:] = answer.estimates + far
    section = releases.release(answer).statement().sections[0]
    assert headline_text(section.headline).startswith("tea is the most common of 2: 14.0%")


def test_shares_are_of_those_who_answered_where_gaps_are_counted() -> None:
    """A headline names what its share is of, and it is what the table and the files call so."""
    survey = cf.Survey(
        {
            "told": cf.Bit(missing="count"),
            "full": cf.Bit(missing="refuse"),
            "drink": cf.Choice(["tea", "milk"], missing="count"),
        }
    )
    plan = cf.plan(survey, users=8000, target=cf.Target(4, 1e-6), view="totals")
    table = {
        "told": ["yes", "no", "no", ""] * 2000,
        "full": ["yes", "no", "no", "no"] * 2000,
        "drink": ["tea", "tea", "milk", ""] * 2000,
    }
    release = cf.run(plan, table, rows_are_people=True)
    told, told_shares, full, drink, _ = release.statement().sections
    # Shares within 1 percentage point, 30 standard errors: a fair run is outside below 1e-9.
    assert re.match(
        r"About 1 of 3 of those who answered said yes: 3[34](\.\d+)?%", headline_text(told.headline)
    )
    assert re.match(
        r"About 1 of 4 of all 8,000 people answered yes: 2[45](\.\d+)?%",
        headline_text(full.headline),
    )
    assert re.match(
        r"tea is the most common of 2: 6[67](\.\d+)?% of those who answered",
        headline_text(drink.headline),
    )
    # Beside counts stand no shares of all, which would be other ones.
    assert (told.crowd, full.crowd, drink.crowd) == (None, 8000, None)
    yes = next(row for row in told_shares.rows if row.label == "yes")
    assert yes.estimate == pytest.approx(100 / 3, abs=1)
    names = {row.value: row.estimate for row in release.table() if row.kind == "share"}
    assert names["yes, share of answers"] == pytest.approx(yes.estimate / 100)


def test_means_reaches_and_changes() -> None:
    assert headline_text(mean_headline(line("mean", 14.5621, 0.1), "min", "", None)) == (
        "The mean is 14.6 min (14.3 to 14.8)."
    )
    reach = reach_headline(line("", 35_000, 40), ["daily", "radio"])
    assert headline_text(reach) == "All 2 publishers together reach 35,000 ids (34,920 to 35,080)."
    shared = line("daily and radio", 900, 40), line("daily and shop", 56, 40)
    assert headline_text(overlap_headline(shared)) == "900 ids (820 to 980) are at daily and radio."
    few = headline_text(overlap_headline(shared[1:]))
    assert few == "No shared ids can be told from the noise."
    apart = Line("tea, May → June", 3.0, 0.5, (2.0, 4.0), (1.5, 4.5), 1)
    alike = Line("milk, May → June", -0.4, 0.5, (-1.4, 0.6), (-1.9, 1.1), 1)
    found = headline_text(change_headline([apart, alike], "percentage points"))
    assert found.startswith("tea, May → June: +3.0 percentage points (1.5 to 4.5 for all together)")
    assert headline_text(change_headline([alike], "")) == (
        "No change can be told from the noise when all are taken together."
    )


def test_the_odds_are_the_same_numbers_as_data_as_in_words_and_as_dots() -> None:
    release = releases.release()
    odds = release.guarantee.odds
    assert odds.right == right_guesses(release.guarantee.epsilon, release.guarantee.delta) == 74
    assert sum(odds) == 100
    page = release.page()
    dots = re.findall(r'<circle [^>]*class="(cf-luck|cf-leak|cf-wrong)"', page)
    legend = ["cf-luck", "cf-leak", "cf-wrong"]
    drawn = ["cf-luck"] * odds.by_luck + ["cf-leak"] * odds.by_seeing + ["cf-wrong"] * odds.wrong
    assert dots == drawn + legend
    assert f"at most {odds.right} after seeing" in str(release)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 4.0, 9.0, math.inf])
def test_odds_never_promise_more_than_is_proven(epsilon: float) -> None:
    exact = 100 / (1 + math.exp(-min(epsilon, 700)))
    assert exact <= right_guesses(epsilon, 0.0) < exact + 1 + 1e-9
