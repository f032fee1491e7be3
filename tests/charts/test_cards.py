"""What a notebook shows stands on a card that no theme and no system makes unreadable."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

import chaffinch as cf
from chaffinch import charts, planning, privacy
from chaffinch.cards import DARK, LIGHT, card
from tests.charts.test_heat import colour, luminance
from tests.release import reach_releases, survey_releases
from tests.release.test_survey_page import KNOWN, read

NASTY = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shown(curve: charts.Figure) -> dict[str, str]:
    plan = cf.plan(cf.Bit(), users=1000, target=cf.Target(1.0, 1e-6), title=NASTY)
    release, reach = survey_releases.release(), reach_releases.release(reach_releases.NASTY)
    guarantee = replace(plan.guarantee, crowd=NASTY)
    things = {
        "plan": plan,
        "alternatives": plan.alternatives,
        "cost": plan.cost(),
        "guarantee": guarantee,
        "bracket": privacy.Bracket(0.5, 1.0),
        "mechanism": privacy.FlippedBits(users=1000, flip_probability=0.03),
        "release": release,
        "answer": release.answers[0],
        "reach": reach,
        "curve": curve,
        "odds": charts.guesses_chart(guarantee.odds),
        "price": charts.price_chart(
            planning.price(cf.Bit(), users=1000, epsilons=[2, 1, 0.5], protocol="flips"), marked=1
        ),
        "check": cf.check({"answer": ["yes", "no"] * 500}, plan),
        "views": cf.simulate.collect(plan, cf.simulate.uniform(plan, 1000)),
    }
    return {name: thing._repr_html_() for name, thing in things.items()}  # type: ignore[attr-defined]


def test_everything_has_a_title_paper_and_ink_of_its_own(shown: dict[str, str]) -> None:
    for name, html in shown.items():
        assert html.startswith('<div class="cf-card" style="color-scheme:light;background:#'), name
        assert html.count('class="cf-card-title"') == 1, name
        assert "max-width" in html, name
        assert "prefers-color-scheme" not in html, name


def test_labels_are_texts_and_tags_close(shown: dict[str, str]) -> None:
    for html in shown.values():
        assert "<script" not in html
        assert "<img" not in html
        assert set(read(html).tags) <= {*KNOWN, "style", "clippath", "g", "polyline", "polygon"}
    for name in ("plan", "guarantee", "reach"):
        assert "&lt;script&gt;" in shown[name]


def test_rules_of_a_card_are_for_cards_alone_and_for_any_size_of_letters(
    shown: dict[str, str],
) -> None:
    for name, html in shown.items():
        style = "".join(re.findall("<style>(.*?)</style>", html, flags=re.DOTALL))
        ours = re.findall(r"(?:^|[},])\s*([^{},@]+)(?=[{,])", style)
        assert [one for one in ours if ".cf-" not in one] == [], name
        # But for when a picture counts as narrow, which is no size of anything.
        assert not re.search(r"[\d.]rem\b", re.sub("@container[^{]*", "", style)), name


def test_no_head_of_a_table_is_empty(shown: dict[str, str]) -> None:
    for name, html in shown.items():
        assert not re.search(r"<th[^>]*></th>", html), name


def test_what_a_promise_costs_is_read_off_an_axis(shown: dict[str, str]) -> None:
    for words in (">0.5</text>", ">2</text>", ">epsilon</text>", "both axes are logarithmic"):
        assert words in shown["price"]


@pytest.mark.long
def test_names_and_numbers_of_a_price_stand_apart() -> None:
    prices = planning.price(
        cf.Choice(["a", "b", "c", "d"]), users=10_000, epsilons=[0.1, 0.3, 1.0, 4.5]
    )
    drawn = charts.price_chart(prices, marked=1.0, labelled=False).svg(name="price", styled=False)
    found = re.findall(r'<text x="([^"]*)" y="([^"]*)"[^>]*>([^<]*)</text>', drawn)
    left = sorted(float(y) for x, y, _ in found if x != "100%")
    assert {"a trusted centre", "this plan", "trusting nobody"} <= {words for *_, words in found}
    # The last number stands below the lines, which have come down to its place at the right.
    assert [x for x, _, words in found if words == "± 0.01%"] == ["0"]
    assert all(after - before > 14 for before, after in pairwise(left))


def test_a_plan_says_what_to_expect(shown: dict[str, str]) -> None:
    for words in ("at most 74", "95% interval to expect", "people)", "differential privacy"):
        assert words in shown["plan"]
    assert "left if they collude" in shown["alternatives"]
    assert "[0.5, 1]" in shown["bracket"]


def test_a_release_says_in_a_notebook_what_its_page_says(shown: dict[str, str]) -> None:
    page = survey_releases.release().page()
    for piece in re.findall(r'<p class="(?:headline|lead)">.*?</p>', page):
        assert piece in shown["release"]


def test_pictures_of_two_releases_in_one_notebook_have_names_of_their_own() -> None:
    both = survey_releases.release(), replace(survey_releases.release(), batch="1" * 32)
    names = [set(re.findall(r' id="([^"]*)"', one._repr_html_())) for one in both]
    assert names[0]
    assert not names[0] & names[1]


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_letters_have_a_contrast_of_4_5_and_marks_of_3(palette: str) -> None:
    found = dict(re.findall(r"--cf-([\w-]+):#([0-9a-f]{6})", palette))

    def contrast(one: str, other: str) -> float:
        light, dark = sorted(
            (luminance(colour(found[name])) for name in (one, other)), reverse=True
        )
        return (light + 0.05) / (dark + 0.05)

    for paper in ("paper", "box", "alarm"):
        for letters in ("ink", "soft"):
            assert contrast(letters, paper) >= 4.5
        for mark in ("main", "leak", "luck", "cap"):
            assert contrast(mark, paper) >= 3
    assert contrast("bar", "paper") >= 3


def test_notes_that_say_nothing_take_no_room() -> None:
    assert card("t", notes=["", "Something."]).count("cf-small") == card("t").count("cf-small") + 1
