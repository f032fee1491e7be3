"""The page of a reach is whole, asks for nothing, runs nothing, and says what is promised."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from chaffinch.reach.planning.audience import Group
from tests.release import reach_releases as releases
from tests.release.test_survey_page import KNOWN, Reader, read


@pytest.fixture(scope="module")
def html() -> str:
    return releases.release(asked=[Group(any_of=("daily", "shop"))]).page()


def words_of(reader: Reader) -> str:
    return " ".join("".join(text for _, text in reader.texts).split())


def test_the_page_is_well_formed_and_asks_for_nothing(html: str) -> None:
    reader = read(html)
    assert set(reader.tags) <= KNOWN
    inside = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|//\w|url\(|@import|\bsrc=\w*:", inside)
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_names_of_publishers_are_texts_and_nothing_else() -> None:
    reader = read(releases.release(releases.NASTY, title="</title><script>").page())
    assert set(reader.tags) <= KNOWN
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    for name in releases.NASTY:
        assert name in reader.inside("th")
    assert reader.inside("h1") == ["</title><script>"]


def test_everything_stands_in_its_order(html: str) -> None:
    text = words_of(read(html))
    places = [
        text.index(words)
        for words in (
            "All 3 publishers together reach 35,000 ids (34,920 to 35,080).",
            "Estimated number of ids for 4 values",
            "10,000 ids (9,920 to 10,080) are at daily and radio, 10,000 (9,920 to 10,080)",
            "exactly daily and radio: 5,000",
            "Estimated number of ids for 10 values",
            "2 times or more",
            "daily or shop",
            "Moved by <b>hand</b>.",
            "Of 100 people who guess whether an id is in",
            "at most 74 after seeing all filters.",
            "The promise covers one id, at all 3 publishers together.",
            "every publisher flipping its bits, and on none of them giving the campaign key",
            "at the other publishers has practically no protection (epsilon 15.1) left",
            "one id, at all 3 publishers together, in all its 2 columns, however often",
            "add-remove-one-id",
            "(columns)",
            "(upper-bound)",
            "(epsilon 22.6) for an id at all publishers",
            "How to read this",
            "Facts",
            "a7" * 32,
            "1,048,576 bits",
            "2 for each id",
            "12.345679% of all bits",
            "0b" * 16,
            "c3" * 16,
            "chaffinch 0.1.0.dev0",
        )
    ]
    assert places == sorted(places)


def test_charts_have_words_and_names_of_their_own(html: str) -> None:
    reader = read(html)
    # Reach, parts, overlaps, frequency, asked, the dots, and three dots of their legend.
    assert reader.tags.count("svg") == 6 + 3
    ids = [value for _, name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids)) == 6
    assert all(len(text) > 40 for text in reader.inside("desc"))


def test_one_publisher_seen_once_has_no_overlaps_and_no_colluder() -> None:
    release = releases.release(["daily"], frequencies=1)
    text = words_of(read(release.page()))
    for absent in ("Shared", "How often", "collude", "all publishers together"):
        assert absent not in text
    assert "The promise covers one id." in text
    said = "keeping the campaign key from the analyzer; with the key, an id has practically no"
    assert said in text


@pytest.mark.parametrize(("count", "there"), [(1, False), (2, True), (4, True), (5, False)])
def test_who_shares_what_is_drawn_for_few(count: int, *, there: bool) -> None:
    html = releases.release([f"p{n}" for n in range(count)], frequencies=1).page()
    assert ("Who shares what" in html) is there


def test_the_picture_of_who_shares_what_adds_up_to_the_reach() -> None:
    release = releases.release(["a", "b", "c"], frequencies=1)
    shared = release.statement().sections[1].shared
    assert shared is not None
    # Inclusion and exclusion.
    total = sum(value * (-1) ** (len(some) + 1) for some, value in shared.items())
    assert total == pytest.approx(release.reach.estimate)


def test_an_overlap_that_is_not_known_is_not_drawn() -> None:
    release = releases.release(["a", "b", "c"], frequencies=1)
    some = tuple(row for row in release.rows if row.group != "a and b and c")
    assert "Who shares what" not in replace(release, rows=some).page()


def test_many_rows_are_cut_and_that_is_said() -> None:
    names = [f"p{n}" for n in range(8)]
    asked = [Group(all_of=(a, b, c)) for a in names for b in names for c in names if a < b < c]
    asked += [
        Group(any_of=(a, b, c, d))
        for a in names for b in names for c in names for d in names if a < b < c < d
    ]  # fmt: skip
    asked += [Group(any_of=one.all_of) for one in asked if one.all_of]
    asked += [Group(all_of=one.any_of) for one in asked if len(one.any_of) == 4]
    html = releases.release(names, frequencies=1, asked=asked).page()
    assert f"The 200 largest of {len(asked)} rows." in html


def test_notebooks_show_the_promise_and_rows() -> None:
    release = releases.release(releases.NASTY)
    assert repr(release).startswith("<ReachRelease ")
    shown = release._repr_html_()
    assert "differential privacy" in shown
    assert "<script" not in shown
    assert "<img" not in shown
