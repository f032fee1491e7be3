from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaffinch import errors
from chaffinch.cli import main
from chaffinch.cli.app import VERBS
from chaffinch.cli.exits import _BY_ERROR, _MEANINGS, _STORAGE, _UNEXPECTED, _exit_code
from chaffinch.cli.ledger import app as ledger
from chaffinch.errors import ChaffinchError
from tests.cli.conftest import Done
from tests.meta import repository
from tests.tiers import nightly

PAGE = repository.ROOT / "docs" / "reference" / "command-line.md"


def every_error(kind: type[ChaffinchError] = ChaffinchError) -> Iterator[type[ChaffinchError]]:
    for below in kind.__subclasses__():
        yield below
        yield from every_error(below)


def test_every_error_has_an_exit_code_of_its_own_row() -> None:
    codes = {kind.code for kind in every_error() if kind.__module__ == errors.__name__}
    assert codes <= set(_BY_ERROR)
    assert set(_BY_ERROR.values()) < set(_MEANINGS)


def test_a_refined_error_ends_like_the_one_it_refines() -> None:
    class Finer(errors.StorageFault):
        code = "finer"

    class Foreign(ChaffinchError):
        code = "foreign"

    assert _exit_code(Finer("x")) == _STORAGE
    assert _exit_code(Foreign("x")) == _UNEXPECTED


def test_every_verb_exit_code_and_error_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    verbs = {verb for verb in (*VERBS, "ledger") if f"`{verb}`" not in page}
    below = {name for name in ledger if not name.startswith("-") and f"ledger {name}" not in page}
    codes = {code for code in _MEANINGS if f"| {code} |" not in page}
    slugs = {slug for slug in _BY_ERROR if f"`{slug}`" not in page}
    assert (verbs, below, codes, slugs) == (set(), set(), set(), set())


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    def breaks(error: BaseException) -> None:
        def raising(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("chaffinch.cli.paths.open_plan", raising)

    return breaks


def test_an_unexpected_error_says_nothing_private(
    cli: Callable[..., Done], broken: Callable[[BaseException], None]
) -> None:
    broken(RuntimeError("CANARY"))
    done = cli("plan", "--check", "x.json")
    assert done.code == 70
    assert "CANARY" not in done.out + done.err
    assert "CHAFFINCH_TRACE=1" in done.err
    assert "RuntimeError" in done.err


def test_the_trace_is_there_when_asked_for(
    cli: Callable[..., Done],
    broken: Callable[[BaseException], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CHAFFINCH_TRACE", "1")
    broken(RuntimeError("where"))
    assert "Traceback" in cli("plan", "--check", "x.json").err


def test_ctrl_c(cli: Callable[..., Done], broken: Callable[[BaseException], None]) -> None:
    broken(KeyboardInterrupt())
    done = cli("plan", "--check", "x.json")
    assert (done.code, done.out, done.err) == (130, "", "stopped\n")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_interruption_that_a_library_makes_an_error_of(
    end: signal.Signals, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        try:
            signal.raise_signal(end)
        except KeyboardInterrupt:
            raise RuntimeError("a schema could not be built") from None

    monkeypatch.setattr("chaffinch.cli.paths.open_plan", stopped)
    done = cli("plan", "--check", "x.json")
    assert (done.code, done.out, done.err) == (130, "", "stopped\n")


@pytest.mark.parametrize("module", ["chaffinch.cli.app", "cyclopts", "rich.console"])
def test_ctrl_c_while_it_is_loaded(module: str) -> None:
    program = f"""
import signal, sys
class Stop:
    def find_spec(self, name, *_):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Stop())
from chaffinch.cli import main
sys.exit(main(["plan", "--example"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")


def test_a_reader_that_went_away_is_no_news(
    cli: Callable[..., Done], broken: Callable[[BaseException], None]
) -> None:
    broken(BrokenPipeError())
    done = cli("plan", "--check", "x.json")
    assert (done.code, done.out, done.err) == (141, "", "")


def test_errors_as_json(cli: Callable[..., Done], tmp_path: Path) -> None:
    done = cli("plan", "--check", tmp_path / "none.json", "--json")
    assert done.code == 5
    assert done.err == ""
    told = json.loads(done.out)["error"]
    assert set(told) == {"code", "message", "hint", "details"}
    assert told["code"] == "storage-fault"


def test_usage_errors_as_json(cli: Callable[..., Done]) -> None:
    done = cli("run", "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"]["code"] == "usage"


def test_words_that_mean_nothing_are_named(cli: Callable[..., Done]) -> None:
    done = cli("encode", "a.csv", "b.csv", "--plan", "plan.json")
    assert done.code == 2
    assert "arguments must be those of the command. Got 'b.csv'." in " ".join(done.err.split())


def test_the_handler_of_signals_is_given_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    main(["--version"])
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("end", [signal.SIGTERM, nightly(signal.SIGHUP), nightly(signal.SIGINT)])
def test_a_terminated_run_leaves_nothing_behind(folder: Path, end: signal.Signals) -> None:
    # Held at standard input: the folder for the results does not exist before the end of it.
    words = ["run", "members.plan.json", "--data", "-", "--format", "csv", "--out", "out"]
    with subprocess.Popen(
        [sys.executable, "-m", "chaffinch", *words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(repository.SOURCE.parent)},
    ) as process:
        assert process.stdin is not None
        # More than is read to tell the format, so that the command waits in mid-table.
        process.stdin.write(b"member\n" + b"yes\n" * 200_000)
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not list(folder.glob("out/.chaffinch*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert list(folder.glob("out/.chaffinch*"))
        process.send_signal(end)
        process.stdin.close()
        assert process.wait(60) == 130
    assert not (folder / "out").exists()
