from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

import chaffinch
from chaffinch.cli.app import VERBS
from tests.cli.conftest import Done
from tests.tiers import nightly

HEAVY = {"numpy", "scipy", "pyarrow", "pydantic", "cryptography", "matplotlib"}


def test_help_lists_every_verb_with_a_sentence(cli: Callable[..., Done]) -> None:
    done = cli("--help")
    assert done.code == 0
    rows = [line.strip("│ ").split(maxsplit=1) for line in done.out.splitlines() if "│" in line]
    said = dict(row for row in rows if len(row) == 2)
    assert {*VERBS, "ledger"} <= set(said)
    assert "--version" in said


@pytest.mark.parametrize("verb", [*VERBS, "ledger"])
def test_every_verb_has_json_and_quiet(verb: str, cli: Callable[..., Done]) -> None:
    words = [verb, "show"] if verb == "ledger" else [verb]
    done = cli(*words, "--help")
    assert done.code == 0
    assert "--json" in done.out
    assert "--quiet" in done.out


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        (["plan"], "with --error: the smallest epsilon"),
        (["simulate"], "at least 100"),
        (["audit"], "at least 1000"),
        (["run"], "--replace"),
        (["check"], "#N/A, <NA>, NaN"),
        (["ledger", "charge"], "An analyzer names the release"),
    ],
)
def test_help_says_what_is_easily_missed(
    verb: list[str], said: str, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert said in " ".join(cli(*verb, "--help").out.split())


def test_no_words_at_all_are_help(cli: Callable[..., Done]) -> None:
    assert "Usage: chaffinch" in cli().out


def test_version(cli: Callable[..., Done]) -> None:
    assert cli("--version").out.strip() == chaffinch.__version__


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], *map(nightly, (["--version"], ["nonsense"]))]
)
def test_asking_for_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\nfrom chaffinch.cli import main\n"
        f"main({words!r})\nprint('@', *({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["@"]


def test_a_misspelled_verb_is_guessed(cli: Callable[..., Done]) -> None:
    done = cli("encdoe")
    assert done.code == 2
    assert done.err.startswith("error: ")
    assert 'Did you mean "encode"?' in done.err


def test_a_misspelled_option_is_guessed(cli: Callable[..., Done]) -> None:
    done = cli("plan", "--usres", "3")
    assert done.code == 2
    assert done.err.splitlines() == [
        "error: Options must be those of the command. Got '--usres'.",
        "hint: did you mean --users? see `chaffinch plan --help`",
    ]


@pytest.mark.parametrize("words", ["run s.toml --dat x", "check s.toml --dat=x -q", "check --dat"])
def test_a_misspelled_option_comes_before_a_missing_one(
    cli: Callable[..., Done], words: str
) -> None:
    done = cli(*words.split())
    assert done.code == 2
    assert "Got '--dat'." in done.err
    assert "did you mean --data?" in done.err
    assert "--data must be followed by a value" in cli("check", "s.toml", "--data").err


def test_an_option_of_another_verb_is_no_misspelled_one(cli: Callable[..., Done]) -> None:
    done = cli("run", "survey.toml", "--data", "people.csv", "--out", "result", "--epsilon", "2")
    assert done.code == 2
    assert "did you mean" not in done.err
    assert "`chaffinch run --help`" in done.err


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["run", "survey.toml", "--data", "people.csv"], "--out must be given"),
        (["run", "survey.toml", "--out"], "--out must be followed by a value"),
        (["run"], "SURVEY must be given"),
        (["keys", "create"], "FOLDER must be given"),
        (["privacy"], "MECHANISM must be given"),
    ],
)
def test_a_missing_word_is_told_in_ours(
    cli: Callable[..., Done], words: list[str], rule: str
) -> None:
    done = cli(*words)
    assert done.code == 2
    assert f"{rule}. Got nothing." in done.err
    verbs = [word for word in words[:2] if word.isalpha()]
    assert f"hint: see `chaffinch {' '.join(verbs)} --help`" in done.err
