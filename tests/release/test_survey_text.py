"""What a release says in plain text and in notebooks."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest

import chaffinch as cf
from chaffinch.charts.text_tables import _text_width
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from tests.release import survey_releases as releases


def test_text_fits_into_80_columns_and_says_what_matters() -> None:
    text = str(releases.release())
    assert max(map(_text_width, text.splitlines())) <= 80
    joined = " ".join(text.split())
    for words in (
        "50 are right by tossing a coin, and at most 74 after seeing everything",
        "one person's 2 answers together if each sends one report, in all 3 rounds",
        "(1, 1e-06)-differential privacy, proven (exact)",
        "epsilon 4.5 is left",
        "5,000 reports",
        "Moved by <b>hand</b>.",
        "median",
    ):
        assert words in joined


def test_text_rounds_intervals_outwards() -> None:
    answer = releases.counted("q", ["a", "b"])
    answer.estimates[:] = 100.4
    answer.low[:] = 50.9
    answer.high[:] = 150.1
    row = next(line for line in str(releases.release(answer)).splitlines() if line[:5] == "  a  ")
    assert row.split() == ["a", "2.00%", "100", "44", "50", "151"]


@pytest.mark.parametrize(("error", "shown"), [(9.03, "9.0"), (18.06, "18"), (415.2, "415")])
def test_standard_errors_have_two_digits_in_text_and_on_the_page(error: float, shown: str) -> None:
    answer = releases.counted("q", ["a", "b"])
    answer.standard_errors[:] = error
    release = releases.release(answer)
    row = next(line for line in str(release).splitlines() if line[:3] == "  a")
    assert row.split()[3] == shown
    assert f'<td data-label="standard error">{shown}</td>' in release.page()


def test_text_says_which_intervals_hold_together() -> None:
    alone = " ".join(str(releases.release(releases.counted("q", ["a", "b"]))).split())
    assert "with probability 95% for each value by itself." in alone
    both = " ".join(str(releases.release(releases.number())).split())
    assert "The intervals of the quantiles hold all together, with a probability of at" in both


def test_the_local_epsilon_is_one_number_everywhere() -> None:
    release = releases.release(releases.counted("q", ["a", "b"]), local=7.4313)
    for said in (str(release), release.page()):
        assert set(re.findall(r"\b7\.4[0-9]*", said)) == {"7.432"}


def test_text_shows_forty_of_many_the_largest_first() -> None:
    labels = [f"v{n}" for n in range(1000)]
    answer = releases.counted("q", labels)
    lines = str(releases.release(answer)).splitlines()
    rows = [line.split()[0] for line in lines if line.startswith("  v") and line[3].isdigit()]
    expected = sorted(labels, key=lambda label: -answer.estimates[int(label[1:])])[:40]
    assert rows == expected
    assert "  The 40 largest of 1,000 rows." in lines


def test_a_release_that_counts_on_nobody_says_so() -> None:
    alone = cf.privacy.Guarantee(1.0, 1e-6, "replace-one", "one report", "oneself", 1.0, "exact")
    words = replace(releases.release(), guarantee=alone).statement().trust
    assert words == "It counts on nobody else: it holds even if all others collude."


@pytest.mark.parametrize(
    ("local", "words"),
    [(math.inf, "no protection is left"), (4.0001, "epsilon 4.001 is left")],
)
def test_what_is_left_when_they_collude(local: float, words: str) -> None:
    assert words in releases.release(local=local).statement().trust


def test_unproven_guarantees_say_so() -> None:
    guess = cf.privacy.Guarantee(1.0, 1e-6, "new", "new view", "crowd", 1.0, "published")
    terms = dict(replace(releases.release(), guarantee=guess).statement().terms)
    assert terms["Method"] == "published (not proven)"
    assert terms["Neighbours"] == "new"
    assert terms["View"] == "new view"


def test_notebooks_show_releases_and_plans_without_running_their_labels() -> None:
    shown = releases.release()._repr_html_()
    assert "differential privacy" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    many = releases.release(releases.counted("q", [f"v{n}" for n in range(1000)]))
    assert "The 10 largest of 1,000 values; 990 are left out." in many._repr_html_()
    assert repr(many).startswith("<Release ")
    assert repr(many).endswith(", 1000 rows>")

    flips = Flips(Fraction(1, 4))
    part = Part("<script>", cf.Bit(), flips)
    plan = Plan("<img>", (part,), 100, 100, 100, 1, 1.0, 1e-3)
    shown = plan._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert "differential privacy" in shown


def test_a_real_release_speaks_of_its_own_plan() -> None:
    part = Part("late", cf.Bit(), Flips(Fraction(1, 4)))
    plan = Plan("trains", (part,), 100, 100, 100, 1, 1.5, 1e-3)
    answers = [place % 3 == 0 for place in range(100)]
    release = cf.analyze(cf.shuffle(cf.encode_many(answers, plan)), plan)
    text = str(release)
    assert text.startswith("trains\n")
    assert f"{release.answers[0].estimates[0]:,.0f}" in text
    assert str(plan.promise.within_local).split(";")[0] in " ".join(text.split())
