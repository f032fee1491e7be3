from __future__ import annotations

from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.errors import InvalidFile, StorageFault
from chaffinch.planning.survey_file import EXAMPLE, load_survey, share_of, survey_from
from chaffinch.tables.dialect import Settings
from tests.cases import each_case

GOOD = 'users = 100\nepsilon = 1\n[questions.a]\nkind = "bit"\n'


def test_the_example_is_a_survey() -> None:
    found = survey_from(EXAMPLE)
    assert found.survey.title == "Browsers and reading time"
    assert found.survey.questions == {
        "browser": cf.Choice(
            ["chrome", "firefox", "safari", "other"], unknown="other", missing="other"
        ),
        "reading": cf.Number(0, 60, unit="minutes", clip=True),
    }
    assert (found.users, found.target, found.error) == (20_000, cf.Target(1.0, 1e-8), None)


def test_what_the_example_comments_out_works_too() -> None:
    lines = []
    for line in EXAMPLE.splitlines():
        bare = line.removeprefix("# ")
        option = line.startswith("# ") and (" = " in bare or bare.startswith("[")) and "#" in bare
        flat = line.startswith(("# [questions", "# kind", "# names", "# missing", "# [table"))
        lines.append(bare if option or flat else line)
    text = "\n".join(lines).replace("epsilon = 1.0", "").replace("# confidence", "confidence")
    found = survey_from(text)
    assert found.error == cf.Error(0.005, 0.95, together=True)
    assert set(found.survey.questions) == {"browser", "reading", "member", "settings", "visited"}
    assert found.columns == {"browser": "Browser"}
    assert found.table == Settings(
        "semicolon",
        "cp1252",
        line_breaks=True,
        decimal=",",
        thousands=".",
        percent="number",
        date_format="%d.%m.%Y",
        missing_values=("NA", "?"),
    )
    reading = cf.Number(
        0, 60, unit="minutes", clip=True, missing="count", quantiles=True, spread=True
    )
    assert found.survey.questions["reading"] == reading


def test_gaps_are_refused_unless_a_survey_says_otherwise() -> None:
    kinds = {
        "bit": "",
        "choice": 'values = ["a", "b"]',
        "number": "low = 0\nhigh = 1",
        "flags": 'names = ["a"]',
    }
    for kind, rest in kinds.items():
        text = f'users = 10\nepsilon = 1\n[questions.q]\nkind = "{kind}"\n{rest}\n'
        for words, missing in (("", "refuse"), ('missing = "count"\n', "count")):
            question = survey_from(f"{text}{words}").survey.questions["q"]
            assert not isinstance(question, cf.Cross)
            assert question.missing == missing
        assert survey_from(text).table == Settings()


@pytest.mark.parametrize("zeros", [16, 4000, 5000])
def test_a_range_beyond_any_count_is_a_fault(zeros: int) -> None:
    ends = f"first = 1{'0' * zeros}, last = 1{'0' * (zeros - 1)}9"
    text = f'{GOOD}[questions.b]\nkind = "choice"\nvalues = {{{ends}}}\n'
    with pytest.raises(InvalidFile):
        survey_from(text)


def test_all_faults_are_told_at_once() -> None:
    text = """
title = 3
usres = 2000
epsilon = -1
[questions.a]
kind = "chioce"
[questions.b]
kind = "choice"
valeus = ["a", "b"]
[questions.c]
kind = "number"
low = 5
high = 2
[questions.d]
missing = "no"
[questions.e]
kind = "bit"
missing = "maybe"
"""
    with pytest.raises(InvalidFile) as caught:
        survey_from(text)
    told = "\n".join(caught.value.faults)
    for part in (
        "title:",
        "users: must be there",
        "usres: is not known here; did you mean 'users'?",
        "epsilon:",
        "questions.a: kind must be bit, choice, number or flags, not 'chioce'",
        "'chioce'; did you mean 'choice'?",
        "questions.b.valeus: is not known here; did you mean 'values'?",
        "questions.c: The upper bound must be above",
        "questions.d: needs a kind",
        "questions.e: The missing answer must be one of",
    ):
        assert part in told
    assert len(caught.value.faults) == 9


@each_case(
    ("text", "part"),
    [
        ("users = 100\n[questions.a]\nkind = 'bit'\n", "epsilon or error"),
        (GOOD.replace("epsilon = 1", "epsilon = 1\nerror = '1%'"), "epsilon or error"),
        (GOOD.replace("epsilon = 1", "epsilon = 1\nconfidence = '95%'"), "confidence"),
        (GOOD.replace("epsilon = 1", "epsilon = 1\ntogether = true"), "together: belongs to"),
        (GOOD.replace("epsilon = 1", "error = '1%'\ntogether = 'no'"), "together"),
        (GOOD.replace("epsilon = 1", "epsilon = true"), "epsilon"),
        (GOOD.replace("epsilon = 1", "epsilon = nan"), "epsilon: must be a number"),
        (GOOD.replace("epsilon = 1", "epsilon = 0"), "epsilon: must be above 0, not 0"),
        (GOOD.replace("epsilon = 1", "epsilon = 1\ndelta = 2"), "delta: must be below 1"),
        (GOOD.replace("epsilon = 1", "epsilon = 1\nhonest = 2"), "honest: must be 1 or less"),
        (GOOD.replace("epsilon = 1", "epsilon = 1\nperson = ''"), "person: must not be empty"),
        (GOOD.replace("epsilon = 1", "epsilon = inf"), "epsilon"),
        (GOOD.replace("users = 100", "users = 1.5"), "users"),
        (GOOD.replace("users = 100", "users = 0"), "users: must be 1 or more"),
        (
            GOOD.replace("bit", "number") + "low = 'a'\nhigh = 3\n",
            "questions.a.low: must be a number",
        ),
        (GOOD.replace("bit", "choice") + "dates = 'year'\n", "dates: must be 'month', 'weekday'"),
        (GOOD + "values = ['a']\n", "questions.a.values"),
        (GOOD + "[table]\nseperator = 'tab'\n", "table.seperator: is not known here; did you mean"),
        (GOOD + "[table]\nline_breaks = 1\n", "table.line_breaks: "),
        (GOOD + "[table]\ndecimal = ','\nthousands = ','\n", "sign between thousands"),
        ("table = 3\n" + GOOD, "table: "),
        ("users = 100\nepsilon = 1\nquestions = {}\n", "questions"),
        ("users = 100\nepsilon = 1\nquestions = 3\n", "questions"),
        ("users = 100\nepsilon = 1\n[questions]\na = 3\n", "questions.a: must be a table"),
        ("users = 1\nusers = 2\n", "line 2"),
        (GOOD + "[questions.a]\n", "(at line 5"),
    ],
)
def test_a_fault_names_its_place(text: str, part: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        survey_from(text)
    assert part in str(caught.value)
    assert "Input" not in str(caught.value)


def test_values_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "values.txt").write_text("tea\n\n coffee \n", encoding="utf-8")
    text = 'users = 9\nepsilon = 1\n[questions.a]\nkind = "choice"\nvalues_file = "values.txt"\n'
    path = tmp_path / "s.toml"
    path.write_text(text)
    assert load_survey(path).survey.questions["a"] == cf.Choice(["tea", "coffee"])
    path.write_text(text + 'values = ["x", "y"]\n')
    with pytest.raises(InvalidFile, match="one of them"):
        load_survey(path)
    path.write_text(text.replace("values.txt", "none.txt"))
    with pytest.raises(InvalidFile, match=r"questions\.a.*none\.txt"):
        load_survey(path)


def test_ranges_of_whole_numbers() -> None:
    text = "users = 9\nepsilon = 1\n[questions.a]\nkind = 'choice'\nvalues = {first = 1, last = 9}"
    assert survey_from(text).survey.questions["a"] == cf.Choice(range(1, 10))


def test_shares() -> None:
    assert (share_of("0.5%"), share_of("95 %"), share_of(0.9)) == (0.005, 0.95, 0.9)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageFault):
        load_survey(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidFile, match="UTF-8"):
        load_survey(tmp_path / "bytes.toml")
