from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chaffinch import load_release
from chaffinch.ledger import Ledger
from tests.cli.conftest import Done
from tests.tiers import all_but


@pytest.fixture
def budget(cli: Callable[..., Done], folder: Path) -> tuple[object, ...]:
    """A budget that one release exhausts."""
    files = (folder / "ledger.db", "--mark", folder / "ledger.mark")
    assert cli("ledger", "create", *files, "--epsilon", 1, "--delta", 1e-5).code == 0
    return files


def test_a_budget_is_charged_once_and_then_refuses(cli: Callable[..., Done], folder: Path) -> None:
    ledger, mark = folder / "ledger.db", folder / "ledger.mark"
    budget = ("--ledger", ledger, "--mark", mark)
    made = cli("ledger", "create", ledger, "--mark", mark, "--epsilon", 1, "--delta", 1e-5)
    assert made.code == 0
    words = ("run", folder / "members.plan.json", "--data", folder / "people.csv", *budget)
    assert cli(*words, "--out", folder / "one", "--key", "first").code == 0
    assert len(Ledger.open(ledger, mark=mark).entries()) == 1
    done = cli(*words, "--out", folder / "two", "--key", "second")
    assert done.code == 4
    assert "nothing was charged" in done.err
    assert not (folder / "two").exists()
    alone = cli(*words[:-2], "--out", folder / "three")
    assert (alone.code, (folder / "three").exists()) == (2, False)


def test_a_second_ledger_in_the_place_of_one_is_refused_with_what_to_do(
    cli: Callable[..., Done], budget: tuple[object, ...]
) -> None:
    done = cli("ledger", "create", *budget, "--epsilon", 2, "--delta", 1e-5)
    assert done.code == 2
    assert "hint: a ledger is never replaced" in done.err
    assert "epsilon 1 with" in cli("ledger", "show", *budget).out


def test_a_release_says_what_was_charged(
    cli: Callable[..., Done], folder: Path, budget: tuple[object, ...]
) -> None:
    mine = ("--plan", folder / "members.plan.json")
    encoded, shuffled = folder / "encoded.parquet", folder / "shuffled.parquet"
    cli("encode", folder / "people.csv", *mine, "-o", encoded)
    cli("shuffle", encoded, *mine, "-o", shuffled)
    free = ("analyze", shuffled, *mine)
    assert "charge" not in json.loads(cli(*free, "--json").out)
    words = (*free, "--ledger", *budget)
    first = cli(*words).out.splitlines()[-1]
    spent = Ledger.open(budget[0], mark=budget[2]).spent().epsilon  # type: ignore[arg-type]
    assert first.startswith("charged to ledger.db: epsilon 0.")
    assert first.endswith(" of 1 spent")
    assert 0 <= float(first.split()[4]) - spent < 1e-4
    assert "charged before to ledger.db" in cli(*words).out
    charge = json.loads(cli(*words, "--json").out)["charge"]
    assert (charge["charged_before"], charge["spent"]) == (True, spent)


LINES = {
    "to another pipe": ["{send} | {analyze} - -o r.json -o l.json"],
    "elsewhere": [
        "{send} | {analyze} > /dev/full",
        "{send} | {analyze} /dev/stdin",
        "{send} > s.arrow & {analyze} s.arrow; code=$?; cat s.arrow > rest; exit $code",
    ],
}


@pytest.mark.parametrize("way", all_but(LINES, "elsewhere"))
def test_messages_from_a_pipe_are_paid_for_where_a_file_keeps_the_release(
    way: str,
    cli: Callable[..., Done],
    shell: Callable[..., subprocess.CompletedProcess[str]],
    folder: Path,
    budget: tuple[object, ...],
) -> None:
    """The batch is nowhere else: what nobody sees could not be released again."""
    mine = ("--plan", folder / "members.plan.json")
    assert cli("encode", folder / "people.csv", *mine, "-o", folder / "e.parquet").code == 0
    os.mkfifo(folder / "r.json")
    os.mkfifo(folder / "s.arrow")
    (folder / "l.json").symlink_to("r.json")
    mine_too = "--plan members.plan.json"
    analyze = f"chaffinch analyze {mine_too} --ledger ledger.db --mark ledger.mark"
    send = f"chaffinch shuffle e.parquet {mine_too} --record $(mktemp -u record-XXXXXX)"
    for line in LINES[way]:
        done = shell(line.format(send=send, analyze=analyze), folder)
        assert "the messages come from a pipe" in done.stderr, (line, done)
        assert done.returncode == 2, (line, done)
    ledger = Ledger.open(budget[0], mark=budget[2])  # type: ignore[arg-type]
    assert list(ledger.entries()) == []
    line = f"{send} > s && {analyze} < s && {analyze} < s"  # and there it stays
    assert shell(line, folder).returncode == 0
    assert len(ledger.entries()) == 1


@pytest.mark.long
def test_a_file_keeps_the_release_of_a_pipe(
    shell: Callable[..., subprocess.CompletedProcess[str]],
    folder: Path,
    budget: tuple[object, ...],
) -> None:
    mine = "--plan members.plan.json"
    line = (
        f"chaffinch encode people.csv {mine} | chaffinch shuffle {mine} | chaffinch analyze {mine} "
        "--ledger ledger.db --mark ledger.mark -o r.json > /dev/full"
    )
    assert shell(line, folder).returncode == 5
    load_release(folder / "r.json")
    assert len(Ledger.open(budget[0], mark=budget[2]).entries()) == 1  # type: ignore[arg-type]


def test_run_says_what_was_charged(
    cli: Callable[..., Done], folder: Path, budget: tuple[object, ...]
) -> None:
    words = ("run", folder / "members.plan.json", "--data", folder / "people.csv")
    done = cli(*words, "--out", folder / "o", "--ledger", *budget, "--key", "first", "--json")
    charge = json.loads(done.out)["charge"]
    assert (charge["ledger"], charge["key"], charge["charged_before"]) == (
        "ledger.db", "first", False,
    )  # fmt: skip
    assert 0 < charge["spent"] <= charge["cap"]["epsilon"] == 1


def test_what_is_left_and_what_does_not_fit(
    cli: Callable[..., Done], folder: Path, budget: tuple[object, ...]
) -> None:
    plan = ("--plan", folder / "members.plan.json")
    assert "for 0 charges together. Left: 1;" in " ".join(
        cli("ledger", "show", *budget).out.split()
    )
    assert cli("ledger", "check", *budget, *plan).code == 0
    assert cli("ledger", "charge", *budget, *plan, "--key", "first").code == 0
    shown = " ".join(cli("ledger", "show", *budget).out.split())
    assert "for 1 charge together. Left: 0." in shown
    left = float(shown.partition("Left: ")[2].partition(";")[0])
    remaining = json.loads(cli("ledger", "show", *budget, "--json").out)["remaining"]
    assert 0 <= remaining - left < 1e-3
    done = cli("ledger", "check", *budget, *plan)
    assert (done.code, "it does not fit" in done.out) == (4, True)
    assert json.loads(cli("ledger", "check", *budget, *plan, "--json").out)["fits"] is False
    assert cli("ledger", "check", *budget).code == 0


def test_looking_at_a_broken_ledger_offers_no_charge(
    cli: Callable[..., Done], folder: Path, budget: tuple[object, ...]
) -> None:
    (folder / "ledger.db").write_bytes(b"x" * 5000)
    for verb in ("show", "check"):
        done = cli("ledger", verb, *budget)
        assert done.code == 5
        assert "tried again" not in done.err
        assert "is not used" in done.err


def test_long_keys_are_shortened(
    cli: Callable[..., Done],
    folder: Path,
    budget: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "a-very-long-name-of-an-occasion-in-the-spring"
    plan = ("--plan", folder / "members.plan.json")
    assert cli("ledger", "charge", *budget, *plan, "--key", key).code == 0
    for columns, start in ((60, key[:19]), (80, key[:31])):
        monkeypatch.setenv("COLUMNS", str(columns))
        row = cli("ledger", "show", *budget).out.splitlines()[-1]
        assert row.split()[:2] == ["1", start + "…"]
