"""A survey is drafted from a table, without a word of what people answered."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from chaffinch.planning.survey_file import survey_from
from tests.cli.conftest import Done

ROWS = 300
KINDS = {
    "user_id": "id",
    "key": "id",
    "carrier": "choice",
    "delay": "number",
    "price": "number",
    "late": "bit",
    "day": "dates",
    "remark": "text",
    "empty": "empty",
    'odd "name"\x7f': "number",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a column of every kind."""
    lines = [";".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in KINDS)]
    for row in range(ROWS):
        cells = (
            f"u{row % 40}",
            f"k{row}",
            ("Xanadu", "Yonder", "")[row % 3],
            f"{(row - 150) / 8:.3f}" if row % 9 else "",
            f"1.{row:03},50 €",
            ("yes", "no")[row % 2],
            f"2024-{row % 12 + 1:02}-03",
            f"call {row * 7} back",
            "",
            f"{row % 7}",
        )
        lines.append(";".join(cells))
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def completed(text: str) -> str:
    """Return a draft with its facts filled in."""
    filled = text.replace("# FILL IN: users = 20000", "users = 300").replace("# FILL IN: ", "")
    return filled.replace("# missing = ", "missing = ")


def test_a_draft_that_is_not_completed_says_which_lines_are_left(
    cli: Callable[..., Done], table: Path, tmp_path: Path
) -> None:
    draft = tmp_path / "draft.toml"
    assert cli("survey", table, "-o", draft).code == 0
    lines = draft.read_text(encoding="utf-8").splitlines()
    left = [str(number) for number, line in enumerate(lines, 1) if "FILL IN:" in line]
    assert len(left) > 3
    done = cli("check", draft, "--data", table)
    assert done.code == 2
    assert f"complete lines {', '.join(left)}" in " ".join(done.err.split())
    assert "--example" not in done.err
    draft.write_text("epsilom = 1\n")
    assert "plan --example" in cli("check", draft, "--data", table).err


def test_a_column_named_after_people_tells_them_apart(
    cli: Callable[..., Done], tmp_path: Path
) -> None:
    path = tmp_path / "visits.csv"
    rows = [f"m{row % 150},{('phone', 'tablet')[row % 2]},{row % 150}.5" for row in range(ROWS)]
    path.write_text("\n".join(["member,device,account", *rows]) + "\n")
    document = json.loads(cli("survey", path, "--json").out)
    assert document["columns"] == {"member": "id", "device": "choice", "account": "number"}
    assert 'person = "member"   # looks like an id' in document["survey"]


@pytest.mark.parametrize(
    ("columns", "kinds", "line"),
    [
        (["05.03.2024", "31.12.2024"], "dates", 'date_format = "%d.%m.%Y"'),
        (["03/31/2024", "12/01/2024"], "dates", 'date_format = "%m/%d/%Y"'),
        (["31-12-2024", "01-02-2024"], "dates", 'date_format = "%d-%m-%Y"'),
        (
            ["03/04/2024", "12/01/2024"],
            "dates",
            '# FILL IN: date_format = "%d/%m/%Y"   # or "%m/%d/%Y": both fit',
        ),
        (["31.12.2024,2024-12-31", "30.12.2024,2024-12-30"], "choice dates", ""),
        (["31.12.2024,12/31/2024", "30.12.2024,12/31/2024"], "choice choice", ""),
        (["31.31.2024", "30.12.2024"], "choice", ""),
    ],
)
def test_dates_whose_year_does_not_come_first_are_dates(
    cli: Callable[..., Done], tmp_path: Path, columns: list[str], kinds: str, line: str
) -> None:
    path = tmp_path / "days.csv"
    names = ",".join(f"day{place}" for place in range(columns[0].count(",") + 1))
    path.write_text("\n".join([names, *columns * 60]) + "\n")
    document = json.loads(cli("survey", path, "--json").out)
    assert " ".join(document["columns"].values()) == kinds
    assert ("date_format" in document["survey"]) is bool(line)
    if line:
        assert line in document["survey"].splitlines()
        draft = tmp_path / "draft.toml"
        draft.write_text(completed(document["survey"]).replace("users = 300", "users = 120"))
        assert cli("check", draft, "--data", path).code == 0


def test_kinds_are_guessed_and_no_value_is_written(cli: Callable[..., Done], table: Path) -> None:
    done = cli("survey", table, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["columns"] == KINDS
    text = document["survey"]
    for private in ("Xanadu", "Yonder", "18.", "u1", "k1", "call", "1.0", "€", "2024", "300"):
        assert private not in text.replace("epsilon = 1.0", ""), private
    parsed = tomllib.loads(text)
    assert "users" not in parsed
    assert set(parsed["questions"]) == {"carrier", "delay", "price", "late", "day", "column 10"}
    assert all({"values", "low", "high"}.isdisjoint(one) for one in parsed["questions"].values())
    assert '# person = "user_id"' in text
    assert parsed["table"] == {"separator": ";"}
    found = survey_from(completed(text))
    assert found.columns == {"column 10": 'odd "name"\x7f'}


def test_values_are_written_on_somebody_s_word(cli: Callable[..., Done], table: Path) -> None:
    words = [
        word
        for name in ("carrier", "delay", "price", "late", "day", 'odd "name"\x7f')
        for word in ("--with-values", name)
    ]
    out = table.parent / "survey.toml"
    done = cli("survey", table, "-o", out, *words)
    assert (done.code, done.out) == (0, "")
    assert "chaffinch check" in done.err
    text = out.read_text(encoding="utf-8")
    assert 'The values of "carrier", "delay", "price"' in text
    assert "on the word of whoever asked" in text
    parsed = tomllib.loads(text)["questions"]
    assert parsed["carrier"]["values"] == ["Xanadu", "Yonder"]
    assert (parsed["delay"]["low"], parsed["delay"]["high"]) == (-18.625, 18.625)
    assert (parsed["price"]["low"], parsed["price"]["high"]) == (1000.5, 1299.5)
    # Complete, but for the number of people; then every cell answers its question.
    out.write_text(completed(text), encoding="utf-8")
    done = cli("check", out, "--data", table)
    assert done.code == 0, done.err


def test_one_column_of_ids_says_who_is_a_person(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("user_id,tea\n" + "".join(f"u{row // 3},yes\n" for row in range(30)))
    text = cli("survey", path).out
    assert tomllib.loads(text)["person"] == "user_id"
    survey_from(completed(text))


def test_a_draft_asks_who_is_a_person(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("tea\n" + "yes\nno\n" * 20)
    text = cli("survey", path).out
    assert {"person", "rows_are_people"}.isdisjoint(tomllib.loads(text))
    assert survey_from(completed(text).replace("# rows_are", "rows_are")).rows_are_people
    assert survey_from(completed(text).replace("# person", "person")).person == "column"


def test_a_draft_replaces_nothing(cli: Callable[..., Done], table: Path) -> None:
    out = table.parent / "survey.toml"
    out.write_text("mine")
    done = cli("survey", table, "-o", out)
    assert (done.code, out.read_text()) == (2, "mine")
    assert "must be a new file" in done.err


@pytest.mark.parametrize("name", ["user_id", "empty", "nobody", "key"])
def test_values_of_ids_are_never_written(cli: Callable[..., Done], table: Path, name: str) -> None:
    done = cli("survey", table, "--with-values", name)
    assert (done.code, done.out) == (2, "")


def test_too_many_values_are_refused(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "".join(f"word {row % 1500},1\n" for row in range(3000)))
    done = cli("survey", path, "--with-values", "a")
    assert done.code == 2
    assert "at most 1000 different values" in done.err
    assert "word" not in done.err


@pytest.mark.parametrize(
    "cell",
    [
        *("ann@x.org", " yes", "FALSE", "2024-03-05", "20240305", "2024-03-05T17:45", "05.03.2024"),
        *("41", "-1.5", "1e5", "1.234,50", "12%", "7 €", "+49 170 1234", "12:30", "nan"),
    ],
)
def test_no_name_of_a_column_may_be_an_answer(
    cli: Callable[..., Done], tmp_path: Path, cell: str
) -> None:
    path = tmp_path / "people.csv"
    path.write_text(f'Xanadu;Yonder;"{cell}"\nBoth;None;more\n', encoding="utf-8")
    done = cli("survey", path, "--separator", ";", "-o", tmp_path / "survey.toml")
    assert done.code == 2
    assert "the name of column 3" in done.err
    for private in ("Xanadu", "Yonder", cell):
        assert private.strip() not in done.err + done.out
    assert not (tmp_path / "survey.toml").exists()


def test_names_with_digits_are_names(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text('q1,2019 sales,e-mail,"","yes, I do"\n1,2,3,4,5\n', encoding="utf-8")
    assert cli("survey", path).code == 0


def test_a_first_line_of_numbers_is_no_header(cli: Callable[..., Done], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("31,4711.5,x\n30,1.5,y\n")
    done = cli("survey", path)
    assert (done.code, done.out) == (2, "")
    assert "4711" not in done.err


def test_a_pipe_is_drafted_without_values(shell: Callable[..., object], table: Path) -> None:
    done = shell("cat people.csv | chaffinch survey - --format csv", table.parent)
    assert '[questions."late"]' in done.stdout  # type: ignore[attr-defined]
    words = "cat people.csv | chaffinch survey - --format csv --with-values carrier"
    done = shell(words, table.parent)
    assert done.returncode == 2  # type: ignore[attr-defined]
