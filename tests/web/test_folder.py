"""What the page shows of its folder, and what nobody can name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput
from chaffinch.planning.survey_file import EXAMPLE
from chaffinch.web.folder import Folder
from chaffinch.web.results_panel import load, release_html, results_page, trend_of
from chaffinch.web.run_panel import paid, run_page


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    outside = tmp_path_factory.mktemp("outside")
    root = outside / "mine"
    (root / "deep" / "deeper" / "deepest").mkdir(parents=True)
    (root / "survey.toml").write_text(EXAMPLE)
    (root / "broken.toml").write_text("[[[")
    (root / "hop.toml").write_text('plans = ["x"]\nkeys = "k"\n[collector]\n')
    for name in ("people.csv", "deep/more.PARQUET", ".hidden.csv", "deep/deeper/deepest/far.csv"):
        (root / name).write_text("a\n")
    (outside / "outside.csv").write_text("a\n")
    plan = cf.plan(cf.Bit(), users=200, target=cf.Target(2, 1e-6), title="Tea")
    answers = cf.encode_many([True, False] * 100, plan)
    release = cf.analyze(cf.shuffle(answers), plan)
    for suffix in ("json", "csv", "parquet"):
        release.save(root / f"release.{suffix}")
    for name in ("people.XLSX", "old.dta"):
        (root / name).write_bytes(b"PK")
    plan.save(root / "tea.plan.json")
    return Folder(root)


def test_files_are_listed_by_what_they_are(folder: Folder) -> None:
    assert folder.surveys() == ["survey.toml", "tea.plan.json"]
    assert folder.tables() == ["people.csv", "deep/more.PARQUET"]
    # What was released is no table of answers, and a table that cannot be read is named.
    assert folder.unread() == {
        "old.dta": "of Stata: save it as CSV",
        "people.XLSX": "a spreadsheet: save it as CSV",
    }
    page = "".join(run_page(folder))
    assert "Not read: old.dta, of Stata: save it as CSV; people.XLSX, a spreadsheet" in page
    assert "release.csv" not in page
    assert folder.services() == ["hop.toml"]
    assert list(folder.releases().values()) == ["release.json"]


@pytest.mark.parametrize(
    "name",
    ["", "../outside.csv", ".hidden.csv", "deep/deeper/deepest/far.csv", "/etc/passwd", "no.csv",
     "deep/../people.csv", "./people.csv"],
)  # fmt: skip
def test_nothing_else_can_be_named(folder: Folder, name: str) -> None:
    with pytest.raises(InvalidInput):
        folder.path(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "a/b", "../a", "/etc", "a\0b"])
def test_releases_stay_in_the_folder(folder: Folder, name: str) -> None:
    with pytest.raises(InvalidInput):
        folder.new(name)


def test_what_is_no_file_of_the_folder_is_not_there(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (tmp_path / "outside.csv").write_text("a\n")
    for kind in (".csv", ".toml", ".json"):
        # Whoever opens one waits for somebody who writes.
        os.mkfifo(mine / f"pipe{kind}")
    (mine / "link.csv").symlink_to(tmp_path / "outside.csv")
    (mine / "elsewhere").symlink_to(tmp_path)
    (mine / "two\nlines.csv").write_text("a\n")
    Path(os.fsdecode(os.fsencode(mine) + b"/\xff.csv")).write_text("a\n")
    folder = Folder(mine)
    assert (folder.names(), folder.surveys(), folder.services()) == ([], [], [])
    assert folder.releases() == {}
    with pytest.raises(InvalidInput, match="no link"):
        folder.new("elsewhere")


def test_a_folder_of_very_many_files_is_listed_in_part(tmp_path: Path) -> None:
    for number in range(2100):
        (tmp_path / f"{number:04}.csv").touch()
    assert len(Folder(tmp_path).tables()) == 2000


def test_a_trend_is_listed_and_drawn(tmp_path: Path) -> None:
    plan = cf.plan(cf.Bit(), users=200, target=cf.Target(2, 1e-6), title="Tea")
    answers = [cf.encode_many([True, False] * 100, plan) for _ in range(2)]
    found = [cf.analyze(cf.shuffle(one), plan) for one in answers]
    cf.trend(found, names=["May", "June"], plans=[plan]).save(tmp_path / "trend.json")
    html = "".join(results_page(Folder(tmp_path)))
    assert "Tea: 2 releases" in html
    shown = load(tmp_path / "trend.json")
    assert shown is not None
    html = release_html(shown)
    assert "from May to June" in html
    # The page allows no style but that of its sheet.
    assert "style=" not in html


@pytest.mark.parametrize("rest", ['"x": ' + "[" * 100_000, "}", '"x": 1}'])
def test_a_damaged_release_is_listed_and_leads_nowhere(tmp_path: Path, rest: str) -> None:
    (tmp_path / "bad.json").write_text('{"format": "chaffinch/release@1", ' + rest)
    (tmp_path / "rounds.json").write_text('{"format": "chaffinch/trend@1", ' + rest)
    html = "".join(results_page(Folder(tmp_path)))
    assert html.count("cannot be shown") == 2
    assert "href" not in html


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        Folder(tmp_path / "none")


@pytest.mark.parametrize(
    ("field", "said"), [({"round": "two"}, "round"), ({"ledger": "a.ledger"}, "mark")]
)
def test_what_a_run_cannot_use_is_refused(folder: Folder, field: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        paid({"out": "release", **field}, folder)


def test_releases_of_one_plan_are_told_apart_and_have_a_trend(tmp_path: Path) -> None:
    plan = cf.plan(cf.Bit(), users=200, target=cf.Target(2, 1e-6), title="Tea", rounds=2)
    for turn in (1, 2):
        answers = cf.encode_many([True, False] * 100, plan, round=turn)
        release = cf.analyze(cf.shuffle(answers), plan)
        release.save(tmp_path / f"round-{turn}.json")
    release.save(tmp_path / "copy.json")
    plan.save(tmp_path / "tea.plan.json")
    folder = Folder(tmp_path)
    shown = "".join(results_page(folder))
    assert "round 1 of 2" in shown
    assert "round 2 of 2" in shown
    assert "200 people" in shown
    assert "ε 2" in shown
    assert shown.count("trend of this plan") == 1
    (word,) = re.findall(r"\./trends/([0-9a-f]+)", shown)
    trend = trend_of(folder, word)
    assert trend is not None
    assert "round 1 to round 2" in " ".join(trend.statement().byline)
    assert "law of its noise is not known" not in str(trend)
    assert trend_of(folder, "0" * 16) is None


def test_releases_of_one_table_are_named_by_their_folders_and_days(tmp_path: Path) -> None:
    """They are no rounds: nothing happened between them but another draw of noise."""
    plan = cf.plan(cf.Survey({"tea": cf.Bit()}), users=200, target=cf.Target(1, 1e-6))
    table = {"tea": ["yes", "no"] * 100}
    for name in ("first", "second"):
        cf.run(plan, table, tmp_path / name, again=True, anyway=True)
    folder = Folder(tmp_path)
    shown = "".join(map(str, results_page(folder)))
    assert shown.count("(2 releases of these people)") == 1, "the second knows of the first"
    (word,) = re.findall(r"\./trends/([0-9a-f]+)", shown)
    trend = trend_of(folder, word)
    assert trend is not None
    said = trend.statement()
    assert said.title.endswith(": 2 releases")
    assert {one.name.split(",")[0] for one in trend.rounds} == {"first", "second"}
    assert all(re.search(r", \d+ \w+ \d{4}$", one.name) for one in trend.rounds)
    assert "both releases" in said.promise
    assert " rounds" not in said.title + said.covers + said.promise
