"""The pages in a real browser: what people do with them, and what must never happen."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Response, expect

import chaffinch as cf
from chaffinch.planning.survey_file import survey_from
from tests.tiers import nightly
from tests.web.browsing import Visit, browser, server

PAGES = ["", "run", "watch", "results", "reach"]
SURVEY = """
title = "Drinks"
users = 60
epsilon = 2.0
rows_are_people = true
[questions.drink]
kind = "choice"
values = ["tea", "coffee", "<b onclick='x'>"]
"""
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mine")
    (folder / "survey.toml").write_text(SURVEY)
    (folder / "people.csv").write_text("drink\n" + "tea\ncoffee\n<b onclick='x'>\n" * 30)
    (folder / "hostile.csv").write_text("drink\n" + f"tea\n{HOSTILE}\n" * 30)
    (folder / "small.csv").write_text("drink\ntea\n")
    return folder


@pytest.fixture(name="address", scope="module")
def _address(folder: Path) -> Iterator[str]:
    with server(folder) as (address, _):
        yield address


@pytest.fixture(name="chromium", scope="module")
def _chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


def test_a_plan_is_chosen_and_taken_home(chromium: Browser, address: str, folder: Path) -> None:
    with Visit.of(chromium, address) as visit:
        page = visit.page
        page.get_by_label("how many people").fill("2,000")
        page.get_by_label("kind of question").select_option("bit")
        assert visit.proven() == "74"
        # Another way to protect it is chosen, and everything follows; the others stay in sight.
        chosen = page.locator("#ways .badge").locator("xpath=ancestor::tr")
        planners = chosen.locator("th").inner_text()
        for name in ("flips, 2 copies", "flips, 4 copies"):
            row = page.locator("tr", has_text=name).first
            row.get_by_role("button", name="choose").click()
            expect(chosen).to_contain_text(name)
            visit.proven()
        page.get_by_role("button", name="let the planner choose").click()
        expect(chosen.locator("th")).to_have_text(planners)
        visit.proven()
        row = page.locator("tr", has_text="flips").first
        row.get_by_role("button", name="choose").click()
        expect(chosen).to_contain_text("flips")
        visit.proven()
        page.get_by_text("The Python", exact=True).click()
        program = page.locator("#python code").inner_text()
        with page.expect_download() as download:
            page.get_by_role("link", name="survey.plan.json").click()
        plan = cf.load_plan(download.value.path())
        names: dict[str, Any] = {}
        exec(program, names)  # noqa: S102 - it is ours
        with page.expect_download() as download:
            page.get_by_role("link", name="survey.toml").click()
        text = Path(download.value.path()).read_text(encoding="utf-8")
        again = folder.parent / "again"
        again.mkdir()
        (again / "survey.toml").write_text(text)
        command = page.locator("#command code").text_content() or ""
        words = [sys.executable, "-m", *command.split()]
        subprocess.run(words, cwd=again, check=True, stdout=subprocess.PIPE)
        assert names["plan"].id == plan.id == cf.load_plan(again / "survey.plan.json").id
        assert page.locator("#code").inner_text().count(plan.id[:12]) == 1
        # The same address is the same plan, and nothing of it was ever sent.
        link = page.url
        assert "#" in link
        page.goto("about:blank")
        page.goto(link)
        visit.proven()
        expect(page.locator("#code")).to_contain_text(plan.id[:12])


def test_the_plan_of_a_table_is_the_same_by_page_command_and_program(
    chromium: Browser, address: str, folder: Path
) -> None:
    with Visit.of(chromium, address) as visit:
        page = visit.page
        page.get_by_label("how many people").fill("2,000")
        page.get_by_label("kind of question").select_option("bit")
        visit.proven()
        devices = page.locator("#code").inner_text()
        trusted = page.locator("p", has_text="Trusted is whoever holds the table")
        assert not trusted.is_visible()
        page.get_by_label("counted by whom").select_option("totals")
        expect(page.locator("#command")).to_contain_text("--view totals")
        visit.proven()
        assert trusted.is_visible()
        assert not page.get_by_text("Trusted are shuffler and analyzer").is_visible()
        looks = page.get_by_role("button", name="whoever holds the table looks")
        assert looks.get_attribute("data-right") == "100"
        expect(page.locator("#views")).to_contain_text("every row, and who gave it")
        assert not page.locator("#guess").is_visible()
        names: dict[str, Any] = {}
        exec(page.locator("#python code").text_content() or "", names)  # noqa: S102 - it is ours
        again = folder.parent / "held"
        again.mkdir()
        for name in ("survey.toml", "survey.plan.json"):
            with page.expect_download() as download:
                page.get_by_role("link", name=name).click()
            download.value.save_as(again / f"page.{name}")
        plan = cf.load_plan(again / "page.survey.plan.json")
        (again / "survey.toml").write_bytes((again / "page.survey.toml").read_bytes())
        words = [
            sys.executable,
            "-m",
            *(page.locator("#command code").text_content() or "").split(),
        ]
        subprocess.run(words, cwd=again, check=True, stdout=subprocess.PIPE)
        assert names["plan"].id == plan.id == cf.load_plan(again / "survey.plan.json").id
        assert plan.view == "totals"
        assert plan.id[:12] not in devices
        # The address holds the choice, too.
        page.reload()
        visit.proven()
        expect(page.locator("#code")).to_contain_text(plan.id[:12])


def test_a_table_is_counted_as_was_chosen_and_a_plan_as_what_it_is(
    chromium: Browser, address: str, folder: Path
) -> None:
    (folder / "devices.toml").write_text(SURVEY)
    survey_from(SURVEY).plan().save(folder / "devices.plan.json")
    (folder / "other.csv").write_text("drink\n" + "tea\ncoffee\n" * 40)
    with Visit.of(chromium, address, "run") as visit:
        page = visit.page
        trusted = page.locator("p", has_text="Trusted is whoever holds the table")
        assert trusted.is_visible()
        views = {}
        for survey, way, out in (
            ("devices.toml", "totals", "one"),
            ("devices.toml", "messages", "two"),
            ("devices.plan.json", "", "three"),
        ):
            page.locator("[name=survey]").select_option(survey)
            page.locator("[name=table]").select_option("other.csv")
            page.locator("[name=out]").fill(out)
            page.locator("#more").evaluate("fold => { fold.open = true; }")
            page.locator("[name=again]").check()
            if way:
                page.get_by_label("counted by whom").select_option(way)
            else:
                # A plan is run as what it is, and nobody is asked.
                assert not page.get_by_label("counted by whom").is_visible()
                assert page.get_by_text("A plan says itself how it is counted").is_visible()
            assert trusted.is_visible() == (way == "totals")
            page.get_by_role("button", name="Run and release").click()
            expect(page.locator("#state")).to_have_text("✓ released")
            views[out] = cf.load_release(folder / out / "release.json").guarantee.view
        assert views == {"one": "totals", "two": "messages", "three": "messages"}


def test_a_table_is_released_whoever_looks_on(
    chromium: Browser, address: str, folder: Path
) -> None:
    with Visit.of(chromium, address, "run") as visit:
        page = visit.page
        page.locator("[name=survey]").select_option("survey.toml")
        page.locator("[name=table]").select_option("people.csv")
        checks = page.get_by_role("button", name="Check the table")
        runs = page.get_by_role("button", name="Run and release")
        # The same, checked again, is told again; what is filled in anew was not checked.
        for _ in range(2):
            checks.click()
            expect(page.locator("#state")).to_have_text("✓ checked")
            expect(page.locator("#checked")).to_contain_text("Every cell is an answer")
            expect(page.locator("#checked")).to_contain_text("every person")
        # How exact a release would be is told before the button that cannot be taken back.
        expect(page.locator("#checked")).to_contain_text("in at least 95 of 100 collections")
        above, below = page.locator("#checked figure").bounding_box(), runs.bounding_box()
        assert above is not None
        assert below is not None
        assert above["y"] + above["height"] < below["y"]
        looks = "one => ['color', 'backgroundColor'].map(name => getComputedStyle(one)[name])"
        assert not set(checks.evaluate(looks)) & set(runs.evaluate(looks))
        page.locator("[name=out]").fill("release")
        expect(page.locator("#checked")).to_be_empty()
        with page.expect_response("**/ask/run"):
            page.get_by_role("button", name="Run and release").click()
        # A run is not the tab's: loaded again, the page shows it again, and what was asked for.
        page.reload()
        expect(page.locator("#state")).to_have_text("✓ released")
        assert page.locator("[name=table]").input_value() == "people.csv"
        page.get_by_role("button", name="Run and release").click()
        expect(page.locator("#outcome")).to_contain_text("at most once")
        # What helps is a control of this page.
        expect(page.locator("#outcome")).to_contain_text("add ‘again’ to make another one")
        page.get_by_role("link", name="Results", exact=True).first.click()
        page.get_by_role("link", name="Drinks").click()
        expect(page.locator("main")).to_contain_text("coffee")
        release = cf.load_release(folder / "release" / "release.json")
        assert release.unit == "person"


def test_the_dial_answers_before_the_server_does(chromium: Browser, address: str) -> None:
    with Visit.of(chromium, address) as visit:
        page = visit.page
        visit.proven()
        expect(page.locator("#price polyline").first).to_be_attached()
        expect(page.locator("#tried")).to_contain_text("made-up people")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        dial = page.get_by_label("Privacy loss", exact=True)
        dial.focus()
        page.keyboard.press("Home")
        # In the same moment, not after a request.
        assert [one for one in asked if "/ask/" in one] == []
        assert page.locator("#promise .odds").inner_text() == "53"
        assert "epsilon 0.1: at most 53 of 100" in (dial.get_attribute("aria-valuetext") or "")
        assert page.locator("#state").inner_text() == "about"
        assert "error" in (dial.get_attribute("aria-valuetext") or "")
        assert float(page.locator("[name=error]").input_value()) > 0.3
        assert page.locator("#promise .guesses circle.cf-leak").count() == 3
        for _ in range(9):
            page.keyboard.press("ArrowRight")
        last = page.locator("[name=epsilon]").input_value()
        visit.proven()
        assert page.locator("#code").inner_text().count(f"epsilon = {last}") <= 1
        page.get_by_text("survey.toml", exact=True).first.click()
        assert f"epsilon = {last}\n" in page.locator("#toml code").inner_text()
        assert len([one for one in asked if one.endswith("/ask/plan")]) < 9


def test_a_reach_keeps_what_was_filled_in(chromium: Browser, address: str) -> None:
    with Visit.of(chromium, address, "reach") as visit:
        page, state = visit.page, visit.page.locator("#state")
        expect(state).to_contain_text("proven")
        page.locator("[name=publishers]").fill("north = 3000\nsouth = 2000")
        expect(page.locator("#reach")).to_contain_text("north and south")
        expect(state).to_contain_text("proven")
        page.get_by_role("button", name="choose", exact=True).last.click()
        expect(page.locator("#reach")).to_contain_text("because it was asked for")
        row = page.locator("#reach .badge").locator("xpath=ancestor::tr").inner_text()
        expect(state).to_contain_text("proven")
        page.reload()
        expect(page.locator("#reach")).to_contain_text("north and south")
        assert page.locator("#reach .badge").locator("xpath=ancestor::tr").inner_text() == row
        # A plan of something else cannot be taken home, and no number of it is in two lines.
        page.locator("[name=epsilon]").fill("abc")
        expect(page.locator("#faults")).to_contain_text("a number")
        assert page.locator("#reach").evaluate("one => one.inert")
        page.locator("[name=epsilon]").fill("1")
        expect(state).to_contain_text("proven")
        assert not page.locator("#reach").evaluate("one => one.inert")
        page.set_viewport_size({"width": 360, "height": 800})
        lines = "all => all.map((one) => one.getClientRects().length)"
        assert set(page.locator("#reach .together").evaluate_all(lines)) == {1}


@pytest.mark.parametrize("width", [360, 1440])
def test_the_thumb_stands_below_the_mark(chromium: Browser, address: str, width: int) -> None:
    with Visit.of(chromium, address, width=width) as visit:
        page = visit.page
        visit.proven()
        expect(page.locator("#price polyline").first).to_be_attached()
        dial = page.get_by_label("Privacy loss", exact=True)
        # As the style sheet says: a browser tells nobody where it draws a thumb.
        thumb = 20
        for key in ("Home", "ArrowRight", "ArrowRight", "End"):
            dial.press(key)
            box, mark = dial.bounding_box(), page.locator("#price .cf-here").bounding_box()
            assert box is not None
            assert mark is not None
            part = float(dial.input_value()) / float(dial.get_attribute("max") or "")
            middle = box["x"] + thumb / 2 + part * (box["width"] - thumb)
            assert abs(mark["x"] + mark["width"] / 2 - middle) < 1


def test_what_is_shown_as_proven_is_what_was_proven(chromium: Browser, address: str) -> None:
    with Visit.of(chromium, address) as visit:
        page = visit.page
        assert visit.proven() == "74"
        expect(page.locator("#price polyline").first).to_be_attached()
        dial, epsilon = (
            page.get_by_label("Privacy loss", exact=True),
            page.locator("[name=epsilon]"),
        )
        together = page.get_by_role("button", name="shuffler and analyzer work together")
        together.click()
        assert page.locator("#promise .odds").inner_text() == "100"
        assert page.locator("#loss").inner_text() == "Nothing protects an answer then."
        dial.focus()
        page.keyboard.press("Home")
        assert page.locator("#loss").inner_text().startswith("Privacy loss ε 0.1: ")
        # The dial is about those who keep their roles, and nothing is to be had before the proof.
        assert page.locator("#promise .odds").inner_text() == "53"
        assert together.get_attribute("aria-pressed") == "false"
        assert page.locator("#code").evaluate("code => code.inert")
        # Back before anything was planned: the same plan is proven, and its odds are shown again.
        epsilon.fill("1")
        assert visit.proven() == "74"
        assert not page.locator("#code").evaluate("code => code.inert")
        # A fault greys what was proven; the same plan again does not.
        epsilon.fill("x")
        expect(page.locator("#promise")).to_have_class("old")
        epsilon.fill("1")
        visit.proven()
        expect(page.locator("#promise")).to_have_class("")
        # Of another crowd, the errors of this one are not shown.
        page.route("**/ask/price", lambda route: route.abort())
        page.get_by_label("how many people").fill("500")
        visit.proven()
        dial.focus()
        page.keyboard.press("Home")
        assert "error" not in (dial.get_attribute("aria-valuetext") or "")
        visit.wrong.clear()


def test_an_error_leads_to_its_epsilon_and_a_fault_leaves_the_old_plan(
    chromium: Browser, address: str
) -> None:
    with Visit.of(chromium, address) as visit:
        page = visit.page
        visit.proven()
        page.get_by_text("Why is that true?").click()
        page.locator("[name=error]").fill("1")
        expect(page.locator("#state")).not_to_contain_text("proven")
        visit.proven()
        assert page.locator("[name=lead][value=error]").is_checked()
        assert 0.05 < float(page.locator("[name=epsilon]").input_value()) < 1
        # What was open stays open, and whoever types goes on typing.
        expect(page.locator("#why")).to_have_attribute("open", "")
        assert page.evaluate("document.activeElement.name") == "error"
        page.get_by_label("how many people").fill("a lot")
        expect(page.locator("#faults")).to_contain_text("users: must be a whole number")
        expect(page.locator("#promise")).to_have_class("old")
        assert page.locator("#promise .odds").is_visible()
        page.get_by_label("how many people").fill("5000")
        # What was wrong is not what stands there now.
        assert page.locator("#faults").inner_text() == ""
        visit.proven()


def test_a_survey_that_is_pasted_leads_until_the_dial_is_turned(
    chromium: Browser, address: str
) -> None:
    text = SURVEY.replace("epsilon = 2.0", "epsilon = 2.5\ndelta = 1e-5")
    with Visit.of(chromium, address) as visit:
        page = visit.page
        page.get_by_label("kind of question").select_option("survey")
        page.locator("[name=survey]").fill(text)
        visit.proven()
        assert page.locator("[name=epsilon]").input_value() == "2.5"
        assert page.locator("[name=title]").input_value() == "Drinks"
        expect(page.locator("#code")).to_contain_text(survey_from(text).plan().id[:12])
        page.get_by_label("Privacy loss", exact=True).press("ArrowLeft")
        visit.proven()
        text = page.locator("#toml code").text_content() or ""
        # The box says what is planned.
        assert page.locator("[name=survey]").input_value() == text
        epsilon = float(page.locator("[name=epsilon]").input_value())
        assert 2 < epsilon < 2.5
        assert survey_from(text).target == cf.Target(epsilon, 1e-5)


def test_several_questions_begin_with_the_one_that_was_planned(
    chromium: Browser, address: str
) -> None:
    with Visit.of(chromium, address) as visit:
        page = visit.page
        page.get_by_label("how many people").fill("3000")
        visit.proven()
        kinds, box = page.get_by_label("kind of question"), page.locator("[name=survey]")
        kinds.select_option("survey")
        visit.proven()
        expect(page.locator("#faults")).to_be_empty()
        assert "users = 3000\n" in box.input_value()
        # As long as nobody has written in it, another question takes its place.
        kinds.select_option("bit")
        visit.proven()
        kinds.select_option("survey")
        assert 'kind = "bit"' in box.input_value()
        visit.proven()


def test_enter_chooses_nothing_and_a_refusal_greys_what_was_planned(
    chromium: Browser, address: str
) -> None:
    with Visit.of(chromium, address) as visit:
        page = visit.page
        visit.proven()
        epsilon, seen = page.locator("[name=epsilon]"), "one => getComputedStyle(one).opacity"
        epsilon.fill("0.7")
        epsilon.press("Enter")
        visit.proven()
        assert "protocol" not in page.url
        expect(page.locator("#ways")).not_to_contain_text("asked for")
        greyed = ["#price", "#dial", "#people", "[name=error]", "#promise"]
        epsilon.fill("0.00001")
        expect(page.locator("#state")).to_have_text("no plan")
        assert all(float(page.locator(one).evaluate(seen)) < 0.5 for one in greyed)
        assert epsilon.evaluate(seen) == "1"
        epsilon.fill("0.7")
        visit.proven()
        assert all(page.locator(one).evaluate(seen) == "1" for one in greyed)


def test_a_page_shows_the_run_that_it_started(chromium: Browser, folder: Path) -> None:
    with (
        server(folder) as (address, _),
        Visit.of(chromium, address, "run") as checks,
        Visit.of(chromium, address, "run") as refused,
    ):
        for visit, table, person, said in (
            (checks, "small.csv", "", "60"),
            (refused, "people.csv", "Nope", "Nope"),
        ):
            page = visit.page
            page.locator("[name=table]").select_option(table)
            page.locator("#more summary").click()
            page.locator("[name=person]").fill(person)
            page.get_by_role("button", name="Run and release").click()
            expect(page.locator("#outcome [role=alert]")).to_contain_text(said)
        for visit, said in ((checks, "60"), (refused, "Nope")):
            visit.page.reload()
            expect(visit.page.locator("#outcome [role=alert]")).to_contain_text(said)
        # What is filled in, and may be why, is in sight.
        assert refused.page.locator("[name=person]").is_visible()
        assert not checks.page.locator("[name=person]").is_visible()
        # A page that has started none shows the last run.
        checks.page.goto(address + "run")
        expect(checks.page.locator("#outcome [role=alert]")).to_contain_text("Nope")


def test_faults_of_a_table_are_told_and_its_cells_never(chromium: Browser, address: str) -> None:
    shown: list[str] = []

    def note(dialog: Dialog) -> None:
        shown.append(dialog.message)
        dialog.dismiss()

    with Visit.of(chromium, address, "run") as visit:
        page = visit.page
        page.on("dialog", note)
        for table, said in (("hostile.csv", "drink"), ("small.csv", "60")):
            page.locator("[name=table]").select_option(table)
            page.get_by_role("button", name="Run and release").click()
            expect(page.locator("#outcome [role=alert]")).to_contain_text(said)
        assert "alert" not in page.locator("#outcome").inner_text()
    with Visit.of(chromium, address) as visit:
        visit.page.on("dialog", note)
        visit.page.locator("[name=values]").fill(f"tea, {HOSTILE}, \"'&lt;")
        visit.proven()
        assert "<script>alert(1)<" in visit.page.locator("#who").inner_text()
    assert shown == []


@pytest.mark.long  # six plans and the prices of two
def test_two_tabs_that_plan_at_once_each_have_their_own_answers(
    chromium: Browser, folder: Path
) -> None:
    """No answer is lost, none is shown in the other tab, and none is asked for by it."""
    with (
        server(folder) as (address, _),
        Visit.of(chromium, address) as one,
        Visit.of(chromium, address) as other,
    ):
        heard: list[dict[str, list[str]]] = [{}, {}]
        for visit, jobs in zip((one, other), heard, strict=True):

            def note(response: Response, jobs: dict[str, list[str]] = jobs) -> None:
                asked, _, job = response.url.rpartition("/ask/")
                if asked:
                    jobs.setdefault(job, []).append(response.json()["job"])
                elif "/jobs/" in response.url:
                    jobs.setdefault("heard", []).append(response.url.split("/")[-2])

            visit.page.on("response", note)
        # The price of the first tab is drawn while the other one plans, again and again.
        one.proven()
        for visit in (one, other):
            visit.page.get_by_label("kind of question").select_option("bit")
        for asked_of in (1100, 1200, 1300):
            for visit, more in ((one, 0), (other, 50)):
                visit.page.get_by_label("how many people").fill(f"{asked_of + more}")
        for visit, people in ((one, "1,300"), (other, "1,350")):
            page = visit.page
            visit.proven()
            expect(page.locator("#tried")).to_contain_text(f"{people} made-up people")
            expect(page.locator("#price[data-priced='12 of 12'] svg").first).to_be_attached()
            toml = page.locator("#toml code").text_content() or ""
            assert f"users = {people.replace(',', '')}\n" in toml
            assert page.locator("#price.old").count() == 0
            expect(page.locator("#faults")).to_be_empty()
        mine, its = heard
        assert not set(mine["heard"]) & set(its["heard"])
        for jobs, others in ((mine, its), (its, mine)):
            asked = {job for name, some in others.items() if name != "heard" for job in some}
            assert not set(jobs["heard"]) & asked
            # The last of each was listened to.
            assert {jobs[name][-1] for name in ("plan", "try", "price")} <= set(jobs["heard"])


def test_two_tabs_and_a_server_that_ends(chromium: Browser, folder: Path) -> None:
    with server(folder) as (address, process):
        with Visit.of(chromium, address) as one, Visit.of(chromium, address) as other:
            assert one.proven() == other.proven() == "74"
        with Visit.of(chromium, address) as visit:
            visit.proven()
            process.terminate()
            process.wait(30)
            visit.page.get_by_label("how many people").fill("7000")
            expect(visit.page.locator("#faults")).to_contain_text("does not answer")
            # Refused, or cut off while an answer was awaited.
            assert all("net::ERR_" in one for one in visit.wrong), visit.wrong
            visit.wrong.clear()


SCREENS = [(360, "light"), nightly(360, "dark"), nightly(768, "light"), (1440, "dark")]


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_everybody_can_use_every_page(
    chromium: Browser, address: str, width: int, scheme: str
) -> None:
    for path in PAGES:
        with Visit.of(chromium, address, path, width=width, scheme=scheme) as visit:
            if path in ("", "reach"):
                expect(visit.page.locator("#state")).to_contain_text("proven")
            for one in visit.page.locator("details").all():
                one.evaluate("fold => { fold.open = true; }")
            assert visit.faults() == [], path


def test_on_paper_everything_is_open(chromium: Browser, address: str) -> None:
    with Visit.of(chromium, address) as visit:
        visit.proven()
        visit.page.emulate_media(media="print")
        assert visit.page.locator("#why p").first.is_visible()
        assert not visit.page.locator("#dial").is_visible()


def test_the_keyboard_is_enough(chromium: Browser, address: str) -> None:
    with Visit.of(chromium, address) as visit:
        page = visit.page
        visit.proven()
        names = []
        for _ in range(40):
            page.keyboard.press("Tab")
            names.append(page.evaluate("document.activeElement.name || document.activeElement.id"))
        wanted = ["users", "kind", "values", "lead", "epsilon", "error", "dial"]
        assert [name for name in names if name in wanted][: len(wanted)] == wanted
        headings = "[...document.querySelectorAll('h1, h2, h3')].map(one => one.tagName)"
        assert page.evaluate(headings)[:2] == ["H1", "H2"]
