"""`chaffinch send`: one answer, a table, what waits; and nothing private in what it says."""

from __future__ import annotations

import json
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from chaffinch import Ledger, Target
from chaffinch.encoding import client as client_module
from chaffinch.encoding.outbox import Outbox
from chaffinch.protocols import Decoys, Flips
from chaffinch.questions import Bit, Choice
from chaffinch.wire.problems import Kind
from tests.cli.conftest import Done
from tests.encoding.services import Services, running
from tests.engines import plans

LEAST = Fraction(1, 2**64)
Cli = Callable[..., Done]


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.001)
    question = Choice(["a", "b"], missing="count")
    with running(plans.plan_of(("value", question, Decoys(1, LEAST)), users=3)) as found:
        yield found


@pytest.fixture
def words(services: Services, tmp_path: Path) -> list[object]:
    services.plan.save(tmp_path / "plan.json")
    return ["send", "--plan", tmp_path / "plan.json", "--outbox", tmp_path / "outbox"]


def test_an_answer_arrives_once(services: Services, words: list[object], cli: Cli) -> None:
    first, second = (cli(*words, "--answer", "b") for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    assert "1 report arrived" in first.err
    assert "have arrived" in second.err
    assert "that answer counts" not in first.err
    assert "that answer counts, and the new one is not sent" in second.err
    assert services.counted() == [[1]]


def test_what_a_plan_promises_is_said_with_the_first_report_alone(
    services: Services, words: list[object], cli: Cli
) -> None:
    first, again = (cli(*words, "--answer", "b") for _ in range(2))
    assert str(services.plan.promise) in " ".join(first.err.split())
    for later in (again, cli(*words, "--resume")):
        assert (later.code, "promises" in later.err) == (0, False)


def test_an_outbox_that_is_not_there_has_delivered_nothing(
    services: Services, words: list[object], cli: Cli, tmp_path: Path
) -> None:
    done = cli(*words[:-1], tmp_path / "outbux", "--resume")
    assert (done.code, services.bodies) == (2, [])
    assert "The outbox must be a folder that is there" in done.err
    assert not (tmp_path / "outbux").exists()
    (tmp_path / "outbux").mkdir(mode=0o700)
    empty = cli(*words[:-1], tmp_path / "outbux", "--resume")
    assert (empty.code, "arrived" in empty.err) == (0, False)
    assert "nothing to send: this outbox has never had a report for this plan" in empty.err


def test_a_table_arrives_row_by_row(
    services: Services, words: list[object], cli: Cli, tmp_path: Path
) -> None:
    table = tmp_path / "answers.csv"
    table.write_text("value\n" + "a\nb\n\nb\n" * 30)
    done = cli(*words, "--data", table, "--json")
    assert json.loads(done.out) == {
        "arrived": 120,
        "given_up": 0,
        "waiting": 0,
        "earlier": False,
    }
    assert sorted(services.counted()) == [[0]] * 30 + [[1]] * 60 + [[2]] * 30
    again = cli(*words, "--data", table)
    assert again.code == 4
    assert "The data of a round must be sent at most once." in again.err
    assert "taken before" in again.err


def test_what_waits_is_sent_later(services: Services, words: list[object], cli: Cli) -> None:
    services.script = ["drop"]
    stopped = cli(*words, "--answer", "a", "--patience", "0")
    assert stopped.code == 5
    # What is advised can be copied, and works as it is.
    advised = " ".join(stopped.err.split()).partition("`chaffinch ")[2].partition("`")[0]
    assert advised.startswith("send ")
    assert cli(*shlex.split(advised)).code == 0
    assert services.counted() == [[0]]
    assert len(set(services.bodies)) == 1


def test_what_was_given_up_is_said_also_with_an_error(
    services: Services, words: list[object], cli: Cli, tmp_path: Path
) -> None:
    for row, fault in (("a", "lose"), ("b", Kind.OVERLOADED)):
        (tmp_path / row).with_suffix(".csv").write_text(f"value\n{row}\n", encoding="utf-8")
        services.script = [fault]
        assert cli(*words, "--data", tmp_path / f"{row}.csv", "--patience", "0").code == 5
    services.rotate(0)
    services.script = [Kind.OUTDATED_KEYS, 404]
    stopped, done, again = (cli(*words, "--resume") for _ in range(3))
    assert (stopped.code, done.code, again.code) == (5, 0, 0)
    assert "warning: 1 report may or may not have arrived" in " ".join(stopped.err.split())
    assert "1 report arrived" in done.err
    assert "have arrived, or were given up" in " ".join(again.err.split())


# It may strike before anybody holds the socket that was made: the process ends anyway.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_ctrl_c_says_what_waits_and_how_it_is_sent(
    services: Services, words: list[object], cli: Cli
) -> None:
    services.script = ["drop"] * 1000
    main_thread = threading.get_ident()

    def stop() -> None:
        while not services.bodies:
            time.sleep(0.01)
        signal.pthread_kill(main_thread, signal.SIGINT)

    watcher = threading.Thread(target=stop)
    watcher.start()
    stopped = cli(*words, "--answer", "a")
    watcher.join()
    assert stopped.code == 130
    said = " ".join(stopped.err.split())
    assert "in the outbox: 1 report, to be sent with: `chaffinch send --resume --plan" in said
    services.script = []
    command = stopped.err.partition("to be sent with: `")[2].removesuffix("`\nstopped\n")
    assert cli(*shlex.split(command)[1:]).code == 0
    assert services.counted() == [[0]]


def test_ctrl_c_before_a_report_is_made(
    services: Services, words: list[object], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "add", stop)
        stopped = cli(*words, "--answer", "a")
    assert stopped.code == 130
    assert "no report that is ready" in " ".join(stopped.err.split())
    assert cli(*words, "--answer", "a").code == 0
    assert services.counted() == [[0]]


def test_whoever_does_not_run_the_plan_is_not_asked_again(
    services: Services, words: list[object], cli: Cli
) -> None:
    services.script = [Kind.UNKNOWN_PLAN]
    stopped = cli(*words, "--answer", "a")
    assert stopped.code == 5
    assert "the plan file that it runs" in " ".join(stopped.err.split())
    assert "--resume" not in stopped.err


def test_limits_of_the_device_come_first(services: Services, words: list[object], cli: Cli) -> None:
    done = cli(*words, "--answer", "a", "--epsilon", "1", "--delta", "1e-6")
    assert done.code == 2
    assert "within epsilon 1" in done.err
    assert cli(*words, "--answer", "a", "--epsilon", "1").code == 2
    assert services.asked == []


def test_a_ledger_is_charged(cli: Cli, tmp_path: Path) -> None:
    ledger = Ledger.create(
        tmp_path / "ledger", role="client", cap=Target(1e3, 0.9), mark=tmp_path / "mark"
    )
    with running(plans.plan_of(("tea", Bit(), Flips(Fraction(1, 4), 1)), users=3)) as services:
        services.plan.save(tmp_path / "plan.json")
        start = ["send", "--plan", tmp_path / "plan.json", "--outbox", tmp_path / "outbox"]
        start += ["--answer", "yes", "--ledger", tmp_path / "ledger"]
        assert cli(*start).code == 2
        assert cli(*start, "--mark", tmp_path / "mark").code == 0
        assert len(ledger.entries()) == len(services.counted()) == 1


@pytest.mark.parametrize(
    "bad",
    [
        [],
        ["--answer", "a", "--resume"],
        ["--answer", "a", "--answer", "b"],
        ["--answer", "secret-answer"],
        ["--data", "-"],
    ],
)
def test_wrong_words_are_refused_and_no_answer_is_shown(
    services: Services, words: list[object], cli: Cli, bad: list[str]
) -> None:
    done = cli(*words, *bad)
    assert done.code == 2
    assert "secret-answer" not in done.err
    assert services.bodies == []


def test_a_survey_is_answered_by_name(cli: Cli, tmp_path: Path) -> None:
    made = plans.plan_of(
        ("tea", Bit(), Flips(LEAST, 1)),
        ("value", Choice(["a", "b"], missing="count"), Decoys(1, LEAST)),
        users=3,
    )
    with running(made) as services:
        services.plan.save(tmp_path / "plan.json")
        start = ["send", "--plan", tmp_path / "plan.json", "--outbox", tmp_path / "outbox"]
        for bad in (["tea=yes", "tea=yes"], ["tea=yes", "other=secret-answer"], ["yes"]):
            done = cli(*start, *(word for one in bad for word in ("--answer", one)))
            assert done.code == 2
            assert "secret-answer" not in done.err
        assert cli(*start, "--answer", "tea=yes", "--answer", "value=b").code == 0
        (codes,) = services.counted()
        assert sorted(codes) == [0, made.offsets[1] + 1]
