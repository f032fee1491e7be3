"""What the panels show of every kind of survey: whole, escaped, and true to the plan."""

from __future__ import annotations

import json
import re
import shlex
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chaffinch import reach
from chaffinch.charts.rounding import promise_text
from chaffinch.cli import main
from chaffinch.errors import ChaffinchError
from chaffinch.planning.survey_file import survey_from
from chaffinch.privacy.guarantee import right_guesses
from chaffinch.web.plan_form import STOPS, dial_stops, plan_page
from chaffinch.web.plan_panel import example_html, price_task
from chaffinch.web.planned import planned
from chaffinch.web.survey_form import survey_text
from chaffinch.web.tasks import TASKS
from chaffinch.web.worker import News
from tests.tiers import all_but

NASTY = "<i>&\"'"
HEAD = "users = 300\nepsilon = 4\ndelta = 1e-6\nanyway = true\n"
SURVEYS = {
    "bit": '[questions.q]\nkind = "bit"',
    "choice": f'[questions.q]\nkind = "choice"\nvalues = ["a", {json.dumps(NASTY)}]',
    "flags": '[questions.q]\nkind = "flags"\nnames = ["a", "b", "c"]',
    "number": '[questions.q]\nkind = "number"\nlow = -5\nhigh = 20\nunit = "°C"\nquantiles = true',
    "number with gaps": '[questions.q]\nkind = "number"\nlow = 0\nhigh = 1\nmissing = "count"',
    "several": 'rounds = 2\n[questions.a]\nkind = "bit"\n[questions.b]\nkind = "bit"',
    "cross": 'cross = ["a", "b"]\n[questions.a]\nkind = "bit"\n[questions.b]\nkind = "bit"',
    "many": f'[questions.q]\nkind = "choice"\nvalues = {json.dumps(list("abcdefghijklmnop"))}',
    "groups": 'by_public = "a"\n[questions.a]\nkind = "choice"\nvalues = ["x", "y"]\n'
    '[questions.b]\nkind = "bit"',
    "reports": 'contributions = 2\n[questions.a]\nkind = "bit"\nmissing = "no"',
}
EMPTY = {"input", "meta", "link", "br"}


class Whole(HTMLParser):
    """Reads a fragment, and notes what is not closed, and every id."""

    def __init__(self, fragment: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.names: set[str] = set()
        self.feed(fragment)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.names |= {value or "" for name, value in attrs if name == "name"}
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def fragments(task: str, **given: Any) -> dict[str, str]:
    """Return what a task puts in which place."""
    news: list[News] = []
    TASKS[task](news.append, **given)
    found = {one["to"]: one["html"] for one in news if "to" in one}
    for name, html in found.items():
        whole = Whole(html)
        assert whole.open == [], name
        assert len(whole.ids) == len(set(whole.ids)), name
    return found


@pytest.mark.parametrize("name", all_but(SURVEYS, "reports"))
def test_every_kind_of_survey_is_planned_and_tried(name: str) -> None:
    text = HEAD + SURVEYS[name]
    found = fragments("plan", text=text)
    assert set(found) == {"promise", "example", "reasons", "ways", "code", "who"}
    # Every button is a wish of its own: Enter in a field presses none of them.
    assert 'type="submit"' not in found["ways"]
    assert "one lie moves" in found["ways"]
    _, plan = planned(text, lambda _: None)
    assert plan.id == survey_from(text).plan().id
    assert f">{right_guesses(4.0, 1e-6)}</strong>" in found["promise"]
    assert plan.id[:12] in found["code"]
    assert found["ways"].count('class="badge"') == 1
    tried = fragments("try", text=text, shares=[70.0])
    assert set(tried) == {"out", "views", "guess"}
    # What a device uploads is as long in the table of ways as in what the shuffler sees.
    chosen = next(one for one in re.findall("<tr>.*?</tr>", found["ways"]) if "badge" in one)
    length = re.search('data-label="bytes">([0-9,]+)<', chosen)
    assert length is not None
    assert f"reports of {length[1]} bytes" in tried["views"]
    # Why it is so is told in paragraphs, and as a list of what was not chosen.
    assert found["reasons"].count("<li>") == sum(
        line.startswith("- ") for line in plan.explain().splitlines()
    )
    assert "intervals hold the truth" in tried["out"]
    assert "<i>" not in "".join([*found.values(), *tried.values()])


@pytest.mark.parametrize("name", SURVEYS)
def test_every_kind_of_survey_is_planned_for_one_party_and_tried(name: str) -> None:
    text = HEAD.replace("users", "honest = 0.9\nusers") + SURVEYS[name]
    found = fragments("plan", text=text, view="totals")
    _, plan = planned(text, lambda _: None, view="totals")
    assert plan.view == "totals"
    assert plan.id == survey_from(text).in_view("totals").plan().id
    assert "chaffinch plan survey.toml --view totals" in found["code"]
    program = unescape(
        re.findall("<code>((?:import math.*?)?import chaff.*?)</code>", found["code"], re.DOTALL)[0]
    )
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102 - it is ours
    assert names["plan"].id == plan.id
    # What only devices can keep is neither asked for in silence nor shown as kept.
    assert "Not used: honest, about devices" in found["promise"]
    nothing = 'data-right="100" data-loss="Nothing protects an answer then."'
    assert f"{nothing}>whoever holds the table looks" in found["promise"]
    assert "work together" not in found["promise"]
    assert "collude" not in found["ways"]
    tried = fragments("try", text=text, view="totals", shares=[])
    assert set(tried) == {"out", "views"}
    assert "intervals hold the truth" in tried["out"]
    assert "every row, and who gave it" in tried["views"]


def test_each_what_if_has_its_odds_and_its_privacy_loss() -> None:
    text = HEAD.replace("epsilon = 4", "epsilon = 1\nlocal_epsilon = 4") + SURVEYS["bit"]
    _, plan = planned(text, lambda _: None)
    promise = fragments("plan", text=text)["promise"]
    told = re.findall('data-right="([0-9]+)" data-loss="(.*?)">(.*?)<', promise)
    assert len(told) == 5
    for right, loss, _ in told:
        said = re.match(r"Privacy loss ε ([0-9.]+): .* at most e\^([0-9.]+) = ", loss)
        assert said is not None
        epsilon, exponent = map(float, said.groups())
        assert exponent == pytest.approx(epsilon, rel=1e-3)
        assert int(right) == right_guesses(exponent, 1e-6)
    left = f"Privacy loss ε {promise_text(plan.guarantee.local_epsilon, 4)}:"
    assert told[-1][1].startswith(left)
    assert told[-1][2] == "shuffler and analyzer work together"
    # The dial has it for each stop.
    (stop,) = [one for one in dial_stops(1e-6) if one["epsilon"] == "1"]
    assert stop["loss"].startswith("Privacy loss ε 1: ")
    assert told[0][1].startswith(f"Privacy loss ε {promise_text(plan.guarantee.epsilon, 4)}:")


def test_the_fields_hold_what_a_file_wishes_for() -> None:
    wishes = 'title = "Tea"\nrounds = 2\nhonest = 0.9\nlocal_epsilon = "none"\ninfluence = 90\n'
    news: list[News] = []
    TASKS["plan"](news.append, text=wishes + HEAD + SURVEYS["bit"])
    (asked,) = [one["proven"]["asked"] for one in news if "proven" in one]
    assert asked == {
        "lead": "epsilon", "delta": "1e-06", "title": "Tea", "rounds": "2", "honest": "0.9",
        "local_epsilon": "none", "influence": "90", "contributions": "", "max_messages": "",
    }  # fmt: skip
    shown = Whole("".join(plan_page())).names
    assert set(asked) <= shown
    # Filled in, they are the same wishes.
    form = {"kind": "survey", "survey": wishes + HEAD + SURVEYS["bit"], "epsilon": "4", **asked}
    assert survey_from(survey_text(form)).digest == survey_from(form["survey"]).digest


def test_a_check_says_what_was_counted_and_how_exact_a_release_would_be(tmp_path: Path) -> None:
    survey, table = tmp_path / "survey.toml", tmp_path / "table.csv"
    survey.write_text(
        'users = 60\nepsilon = 2\nperson = "id"\n'
        '[questions.q]\nkind = "choice"\nvalues = ["tea", "milk"]\nmissing = "count"'
    )
    rows = (f"{one % 80},{'tea' if one % 3 else ''}\n" for one in range(150))
    table.write_text("id,q\n" + "".join(rows))
    given: dict[str, Any] = {"survey": str(survey), "table": str(table)}
    given |= {"person": None, "rows_are_people": False, "as_devices": False}
    found = fragments("check", **given)["checked"]
    for words in (
        "80 reports, 60 needed",
        "80 people have 150 rows; 1 row of each, drawn at random",
        "exact counts of private data, for whoever holds the table alone",
        "Privacy loss ε 2: of 100 people",
    ):
        assert words in found
    # Before anything is released: the plan is that of the run.
    plan = survey_from(survey.read_text()).in_view("totals").plan()
    assert example_html(plan) in found
    # What cannot be planned is told beside what was checked.
    survey.write_text(survey.read_text().replace("epsilon = 2", "epsilon = 0.001"))
    found = fragments("check", **given)["checked"]
    assert "Every cell is an answer" in found
    assert 'class="fault"' in found


def test_the_table_stays_when_a_protocol_is_chosen() -> None:
    free = fragments("plan", text=HEAD + SURVEYS["bit"])["ways"]
    text = 'protocol = "flips, 2 copies"\n' + HEAD + SURVEYS["bit"]
    ways = fragments("plan", text=text)["ways"]
    assert planned(text, lambda _: None)[1].id == survey_from(text).plan().id
    (chosen,) = [one for one in re.findall("<tr>.*?</tr>", ways) if 'class="badge"' in one]
    assert "flips, 2 copies" in chosen
    # Any other one is a click away, and so is the planner's.
    assert ways.count("<tr>") == free.count("<tr>")
    assert "let the planner choose" in ways
    # The beginning of several names is none of the table: the best of those is taken.
    first = 'protocol = "signed decoys"\n' + HEAD + SURVEYS["bit"]
    assert planned(first, lambda _: None)[1].id == survey_from(first).plan().id


def test_a_crossed_number_is_explained() -> None:
    text = HEAD + (
        '[questions.t]\nkind = "choice"\nvalues = ["x", "y"]\n[questions.n]\nkind = "number"\n'
        'low = 0\nhigh = 30\nunit = "h"\nmissing = "count"\nby = "t"\n'
        '[questions.b]\nkind = "bit"\nby = "t"'
    )
    example = fragments("plan", text=text)["example"]
    assert re.findall("<h3>(.*?)</h3>", example) == ["n by t", "b by t"]
    # What will be seen is the mean of each group, and not the cells that it comes from.
    figure = example.partition("</figure>")[0]
    assert 'aria-label="mean of n by t"' in figure
    assert [one for one in ("everybody", "x", "y") if f">{one}</text>" in figure] == [
        "everybody",
        "x",
        "y",
    ]
    assert re.search("n is rounded by chance to 0 or .*, which does not move its mean", example)
    assert "also has the shares of b in each t" in example
    out = fragments("try", text=text, shares=[])["out"]
    assert "(missing), which" not in example
    captions = re.findall("<caption>(.*?)</caption>", out)
    assert any("mean of n by t" in one for one in captions)
    assert any("b by t, in percent" in one for one in captions)


@pytest.mark.parametrize("name", ["number", "many", "groups"])
def test_a_plan_is_tried_before_its_sliders_are_there(name: str) -> None:
    tried = fragments("try", text=HEAD + SURVEYS[name], shares=[])
    assert "intervals hold the truth" in tried["out"]


def test_files_of_values_are_those_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "drinks.txt").write_text("tea\ncoffee\n")
    text = HEAD + '[questions.q]\nkind = "choice"\nvalues_file = "drinks.txt"'
    assert "coffee" in fragments("plan", text=text, folder=str(tmp_path))["example"]


def test_what_is_said_of_a_plan_is_on_the_safe_side() -> None:
    found = fragments("plan", text=HEAD + SURVEYS["reports"])
    _, plan = planned(HEAD + SURVEYS["reports"], lambda _: None)
    # What was found is not only near: it is never too small, and counts reports where it should.
    said = re.search(r"within ± ([0-9.]+) %, or ([0-9.]+) reports", found["example"])
    assert said is not None
    share, reports = map(float, said.groups())
    assert plan.margin() <= share / 100 <= 1.1 * plan.margin()
    assert plan.margin() * plan.reports <= reports <= 1.1 * plan.margin() * plan.reports
    # The same number stands in the box of the dial.
    news: list[News] = []
    TASKS["plan"](news.append, text=HEAD + SURVEYS["reports"])
    (proven,) = [one["proven"] for one in news if "proven" in one]
    assert proven["margin"] == said.group(1)
    # Delta is no chance of a larger loss: that chance may be larger than it.
    assert "that it is more" not in found["promise"]
    assert "by a factor of at most e^4 = 54.6, plus" in found["promise"]
    assert "only 210 of 300 are honest" in found["promise"]
    # A mean is told in parts of the range and in its unit, not in people.
    news = []
    TASKS["plan"](news.append, text=HEAD + SURVEYS["number"])
    (proven,) = [one["proven"] for one in news if "proven" in one]
    (ways,) = [one["html"] for one in news if one.get("to") == "ways"]
    assert "people" not in ways
    assert ways.count("°C") >= ways.count("± ")
    far = re.fullmatch(" = ([0-9.]+) °C", proven["people"])
    assert far is not None
    margin = 25 * planned(HEAD + SURVEYS["number"], lambda _: None)[1].margin()
    assert margin <= float(far.group(1)) <= 1.1 * margin


@pytest.mark.long
def test_a_promise_costs_what_its_plan_says() -> None:
    text = HEAD.replace("epsilon = 4", "epsilon = 1.2") + SURVEYS["bit"]
    news: list[News] = []
    price_task(news.append, text=text)
    (stops,) = [one["stops"] for one in news if "stops" in one]
    assert [float(one["epsilon"]) for one in stops] == list(STOPS)
    errors = [float(one["error"]) for one in stops if "error" in one]
    assert len(errors) > len(STOPS) // 2
    assert all(after <= before for before, after in pairwise(errors))
    near = min(stops, key=lambda one: abs(float(one["epsilon"]) - 1.2))
    margin = planned(text, lambda _: None)[1].margin()
    assert float(near["error"]) == pytest.approx(100 * margin, rel=0.2)


def test_reach_is_planned_and_its_faults_are_told() -> None:
    form = {"publishers": "daily = 2,000\nradio 1000", "epsilon": "2.1234567", "delta": "1e-4"}
    found = fragments("reach", form=form)
    assert set(found) == {"reach"}
    assert "--publisher daily=2000 --publisher radio=1000" in found["reach"]
    # The command makes the same plan: no digit of the promise is lost.
    assert "--epsilon 2.1234567 --delta 0.0001" in found["reach"]
    assert "left if a publisher helps the analyzer" in found["reach"]
    assert "Chosen are the fewest hashes" in found["reach"]
    assert re.search("daily and radio</dt><dd>± [0-9.,]+ ids", found["reach"])
    # Another row is a click away, and then the program makes that plan.
    chosen = fragments("reach", form=form | {"hashes": "8"})["reach"]
    assert re.search('8 <span class="badge">chosen', chosen)
    assert chosen.count("<tr>") == found["reach"].count("<tr>")
    assert "--hashes 8" in chosen
    assert programmed(chosen).hashes == 8
    assert programmed(chosen).id[:12] in chosen
    for name, bad in (("publishers", "daily = many"), ("epsilon", "x"), ("publishers", "a=1\na=2")):
        with pytest.raises(ValueError, match="must be"):
            TASKS["reach"](lambda _: None, form=form | {name: bad})


def programmed(html: str) -> Any:
    """Return the plan that the program on a page makes."""
    names: dict[str, Any] = {}
    program = unescape(re.findall("<code>(from .*?)</code>", html, re.DOTALL)[0])
    exec(program.replace("plan.save", "str"), names)  # noqa: S102 - it is ours
    return names["plan"]


@pytest.mark.parametrize(
    "wishes",
    [
        {"ids": "phone", "country_code": "+49", "trunk": "", "shuffled": "1", "title": "Ann’s",
         "shuffler_epsilon": "4", "local_epsilon": "6"},
        {"ids": "e-mail", "country_code": "49"},
    ],
)  # fmt: skip
def test_every_wish_for_a_reach_is_in_the_command_and_the_program(
    wishes: dict[str, str], tmp_path: Path
) -> None:
    form = {"publishers": "a=3000\nb=2000", "epsilon": "2", "delta": "1e-4", "hashes": "1"}
    form |= wishes
    html = fragments("reach", form=form)["reach"]
    plan = programmed(html)
    assert plan.id[:12] in html
    assert (plan.ids.name, plan.title) == (wishes["ids"], wishes.get("title", ""))
    command = unescape(re.findall("<code>chaffinch (.*?)</code>", html)[0])
    target = tmp_path / "reach.plan.json"
    assert main([*shlex.split(command)[:-1], str(target), "-q"]) == 0
    assert reach.load_plan(target).id == plan.id


def test_a_reach_knows_one_rule_for_epsilon_and_asks_for_no_people() -> None:
    form = {"publishers": "a=3000\nb=2000", "delta": "1e-4"}

    def fault(epsilon: str) -> ChaffinchError:
        with pytest.raises(ChaffinchError) as caught:
            TASKS["reach"](lambda _: None, form=form | {"epsilon": epsilon})
        return caught.value

    none, less = fault("0").message, fault("-1").message
    assert none.partition("Got")[0] == less.partition("Got")[0]
    assert "people" not in fault("50").hint
    assert "smaller epsilon" in fault("50").hint


@pytest.mark.parametrize(
    "text",
    [
        "daily = 2,000\nchannel 4 = 1000",
        "daily=2000,channel 4=1000",
        "daily 2,000, channel 4 = 1000",
        "daily = 2 000; channel 4 = 1,000,\r\n",
        "daily=2000 channel 4=1000",
    ],
)
def test_publishers_are_separated_as_people_separate(text: str) -> None:
    found = fragments("reach", form={"publishers": text, "epsilon": "2", "delta": "1e-4"})
    assert "--publisher daily=2000 --publisher &#x27;channel 4=1000&#x27;" in found["reach"]


def test_the_panel_is_whole_before_anything_is_planned() -> None:
    whole = Whole("".join(plan_page()))
    assert whole.open == []
    places = {"promise", "example", "ways", "code", "price", "who", "out", "guess", "views"}
    assert places < set(whole.ids)


def test_faults_of_fields_are_told_without_a_word_about_files() -> None:
    with pytest.raises(ChaffinchError) as caught:
        planned("users = 0\nepsilon = -1\n[questions.answer]\nkind = 'number'", lambda _: None)
    first, *rest = caught.value.message.splitlines()
    assert first == "This cannot be planned yet."
    assert {one.split(":")[0].strip(" -") for one in rest} == {"users", "epsilon", "low", "high"}
    assert caught.value.hint == ""


def test_what_is_left_of_a_wish_for_one_report_is_told_not_what_was_asked_for() -> None:
    """Collusion leaves more than honesty, and no way is worse in all that is shown of it."""
    wishes = "users = 300\nepsilon = 1\ndelta = 1e-6\nlocal_epsilon = 0.5\n"
    text = wishes + SURVEYS["bit"]
    found, (_, plan) = fragments("plan", text=text), planned(text, lambda _: None)
    reached = right_guesses(plan.guarantee.epsilon, 1e-6)
    rights = [int(one) for one in re.findall('data-right="([0-9]+)"', found["promise"])]
    assert rights == sorted(rights)
    assert rights[0] == reached < right_guesses(0.5, 1e-6) == rights[-1]
    assert f">{reached}</strong>" in found["promise"]
    assert "e^1 " not in found["promise"]
    unbeaten = found["ways"].partition('id="beaten"')[0]
    assert re.findall("flips, [0-9]+ cop", unbeaten) == []
    # All of them leave half an epsilon: the copies have a larger error and more messages.
    assert found["ways"].count("ε 0.5") > 3


def test_people_and_ranges_of_a_lie_stand_side_by_side() -> None:
    text = HEAD + (
        '[questions.c]\nkind = "choice"\nvalues = ["x", "y"]\n'
        '[questions.n]\nkind = "number"\nlow = 0\nhigh = 30'
    )
    _, plan = planned(text, lambda _: None)
    people, ranges = (one.influence(plan.slots) for one in plan.parts)
    (chosen,) = [
        one
        for one in re.findall("<tr>.*?</tr>", fragments("plan", text=text)["ways"])
        if 'class="badge"' in one
    ]
    said = re.search(">([0-9.,]+) people; ([0-9.,]+) ranges<", chosen)
    assert said is not None
    assert [float(one) for one in said.groups()] == pytest.approx([people, ranges], rel=1e-3)


def test_what_depends_on_the_answers_is_not_promised_of_95_collections() -> None:
    """How exact a mean is follows from how many answered, or from the size of a group."""
    said = fragments("plan", text=HEAD + SURVEYS["number with gaps"])["example"]
    _, plan = planned(HEAD + SURVEYS["number with gaps"], lambda _: None)
    assert "95 of 100" not in said
    told = re.search(
        r"if everybody answers: .* ± ([0-9.]+) %, or within ± ([0-9.]+) % if half", said
    )
    assert told is not None
    margins = [100 * plan.margin(answered=share) for share in (1.0, 0.5)]
    assert [float(one) for one in told.groups()] == pytest.approx(margins, rel=0.1)
    assert "in at least 95 of 100" in fragments("plan", text=HEAD + SURVEYS["number"])["example"]
