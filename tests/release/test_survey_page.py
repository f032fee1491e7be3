"""The page is whole, asks for nothing, runs nothing, and fits every screen."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import chaffinch as cf
from tests.release import survey_releases as releases

VOID = {"meta", "br", "hr", "img", "input", "link"}
KNOWN = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "section", "footer"),
    *(
        "h1",
        "h2",
        "h3",
        "p",
        "span",
        "strong",
        "div",
        "dl",
        "dt",
        "dd",
        "ul",
        "li",
        "figure",
        "figcaption",
    ),
    *("details", "summary"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("svg", "desc", "text", "tspan", "line", "rect", "circle"),
}


class Reader(HTMLParser):
    """Reads a page as a browser would, and refuses tags that do not close in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend((tag, name, value) for name, value in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend((tag, name, value) for name, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def inside(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture(scope="module")
def html() -> str:
    return releases.release().page()


def test_the_page_is_well_formed_and_has_only_tags_of_its_own(html: str) -> None:
    assert html.startswith("<!DOCTYPE html>")
    assert set(read(html).tags) <= KNOWN


def test_labels_are_texts_and_nothing_else(html: str) -> None:
    reader = read(html)
    cells = reader.inside("th")
    for label in releases.NASTY:
        assert label in cells
    assert reader.inside("h1") == ["Break<fast> & more"]
    assert reader.inside("h2")[0] == "dr<i>nk"
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]


def test_the_page_asks_for_nothing_from_elsewhere(html: str) -> None:
    inside = html.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|//\w|url\(|@import|\bsrc=\w*:", inside)
    names = {name for _, name, _ in read(html).attributes}
    assert not names & {"src", "href", "srcset", "action", "data", "style", "background"}


def test_the_page_forbids_itself_everything_but_its_style(html: str) -> None:
    attributes = read(html).attributes
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert ("meta", "content", policy) in attributes
    # The policy must stand before anything it should govern.
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_the_page_fits_screens_paper_and_the_dark(html: str) -> None:
    for words in ("prefers-color-scheme:dark", "@media print", "@media (max-width:36rem)"):
        assert html.count(words) == 1
    assert 'name="viewport"' in html


def test_charts_have_words_for_those_who_listen(html: str) -> None:
    reader = read(html)
    roles = [value for tag, name, value in reader.attributes if (tag, name) == ("svg", "role")]
    hidden = [value for _, name, value in reader.attributes if name == "aria-hidden"]
    assert (roles, hidden) == (["img"] * 3, ["true"] * 3), "two charts, the dots, and a legend"
    ids = [value for _, name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    described = [v for _, name, v in reader.attributes if name == "aria-describedby"]
    assert described == ids
    assert all(len(text) > 40 for text in reader.inside("desc"))


def test_the_answer_comes_first_then_the_promise_and_everything_follows(html: str) -> None:
    text = " ".join("".join(text for _, text in read(html).texts).split())
    places = [
        text.index(words)
        for words in (
            "Estimated number of people for 14 values",
            "mean: 14.56",
            "50 are right by tossing a coin, and at most 74 after seeing everything that was",
            "A hundred dots: 50 right by luck, 24 right because of what is seen, 26 wrong.",
            "one person's 2 answers together if each sends one report, in all 3 rounds.",
            "It counts on 5,000 honest users",
            "Neighbours",
            "Moved by <b>hand</b>.",
            "The intervals of the quantiles hold all together",
            "How to read this",
            "Facts",
            "a7" * 32,
            "chaffinch 0.1.0.dev0",
        )
    ]
    assert places == sorted(places)


def test_jargon_is_folded_away(html: str) -> None:
    assert html.count("<details><summary>") == 3
    folded = "".join(re.findall(r"<details>.*?</details>", html, flags=re.DOTALL))
    for words in ("Neighbours", "replace-one", "Local epsilon", "Method", "a7" * 32):
        assert words in folded
    plain = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    assert not re.search(r"replace-one|Neighbours|[Dd]elta\b|view:", plain)


def test_who_holds_the_table_is_told_apart_from_who_only_counts() -> None:
    apart, together = (replace(releases.release(), one_party=held).page() for held in (False, True))
    assert "by whoever ran this" not in apart
    assert "before it was sent" in apart
    assert "on devices, but by whoever ran this: they hold the table" in together
    assert "<strong>at most 74</strong> after seeing this release." in together
    assert "what is released, which follows from all messages" in together
    for words in ("collude", "before it was sent", "'s device", "hop", "shuffler", "analyzer"):
        assert words not in re.sub(r"<style>.*</style>", "", together, flags=re.DOTALL)


def test_the_parties_of_a_plan_are_named_where_they_are_counted_on() -> None:
    held = "It holds as long as Town does not work together with Office."
    named = replace(releases.release(), trust=held)
    assert f"It counts on 5,000 honest users. {held} If they work together, " in named.page()
    assert "does not collude with the analyzer" not in named.page()
    assert held not in replace(named, one_party=True).page(), "then nobody is counted on"


def test_numbers_show_mean_sum_and_brackets(html: str) -> None:
    cells = read(html).inside("td")
    for cell in ("14.562", "14.362 to 14.763", "72,810", "0.0 to 6.0", "6.0 to 15.0"):
        assert cell in cells


@pytest.mark.long
def test_a_page_of_many_values_stays_small() -> None:
    answer = releases.counted("q", [f"value {n}" for n in range(100_000)])
    html = releases.release(answer).page()
    assert len(html) < 200_000
    reader = read(html)
    assert reader.tags.count("tr") == 201
    assert any("200 largest of 100,000" in text for text in reader.inside("p"))
    assert any("99,960 are left out" in text for text in reader.inside("figcaption"))
    largest = f"value {int(answer.estimates.argmax())}"
    assert reader.inside("th")[6] == largest


def test_few_values_stay_in_the_order_of_the_question() -> None:
    labels = ["b", "a", "c"]
    cells = read(releases.release(releases.counted("q", labels)).page()).inside("th")
    assert cells[6:9] == labels


def test_without_a_title_the_questions_name_the_page() -> None:
    answers = [releases.counted(name, ["yes", "no"]) for name in ("tea", "cups", "milk", "age")]
    for some, name in ((answers[:2], "tea, cups"), (answers, "tea, cups, milk and 1 more")):
        page = releases.release(*some, title="").page()
        assert read(page).inside("h1") == [f"Release of {name}"]


def test_months_and_numbers_stay_in_their_order_in_a_notebook() -> None:
    """Ten of the largest would tell nothing of a season."""
    months = [f"2024-{month:02}" for month in range(1, 13)]
    for labels in (months, [str(age) for age in range(18, 40)]):
        answer = releases.counted("when", labels)
        answer.estimates[:] = [500 + 300 * (place % 2) for place in range(len(labels))]
        card = releases.release(answer)._repr_html_()
        assert "left out" not in card
        places = [card.index(f">{label}<") for label in labels]
        assert places == sorted(places)
    many = releases.counted("what", [f"value {n}" for n in range(12)])
    assert "2 are left out" in releases.release(many)._repr_html_()


def test_an_estimate_outside_of_its_interval_is_explained_beside_it() -> None:
    answer = releases.counted("cups", ["July", "tea", "milk"])
    answer.estimates[:] = [-10.2, 500.0, 20.3]
    answer.low[:], answer.high[:] = [0, 410, 0], [12, 590, 0]
    release = releases.release(answer)
    said = "Outside of their intervals, because noise has moved them beyond what is possible"
    for text in (release.text(), release._repr_html_(), release.page().split("<details")[0]):
        assert said in " ".join(text.split())
        assert "holds: July, milk. There, read the interval." in " ".join(text.split())
    answer.estimates[:] = [3.0, 500.0, 0.2]
    assert "Outside of" not in release.text()


def test_what_is_counted_twice_is_shown_once() -> None:
    """With the smaller error; the other count is folded away, and stays in the files."""
    survey = cf.Survey(
        {
            "town": cf.Choice(["x", "y"], missing="refuse"),
            "bike": cf.Bit(missing="refuse"),
            "wait": cf.Number(0, 60, missing="refuse"),
        },
        cross=[["town", "bike"]],
        by={"wait": "town"},
    )
    plan = cf.plan(survey, users=2000, target=cf.Target(4, 1e-6), view="totals")
    table = {
        "town": ["x", "y"] * 1000,
        "bike": ["yes", "no"] * 1000,
        "wait": list(range(50)) * 40,
    }
    release = cf.run(plan, table, rows_are_people=True)
    towns = [row for row in release.table() if row.value == "town = x"]
    assert len(towns) == 2
    best, other = sorted(towns, key=lambda row: row.standard_error or 0)
    text = " ".join(release.text().split())
    assert f"town, from {best.question}" in text
    assert f"town, from {other.question}" not in text
    assert f"town is also counted in {other.question}, with other noise: use the count here" in text
    assert "parts need not add up to the whole" in text
    before, *folded = release.page().split("<summary>")
    assert f"town, from {other.question}" not in before
    assert any(one.startswith(f"town, from {other.question}: the same") for one in folded)
