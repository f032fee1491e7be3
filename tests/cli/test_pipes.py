from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from chaffinch.cli import main
from tests import forks
from tests.cli.conftest import USERS, Done
from tests.meta import repository
from tests.terminal import read_to_end

Shell = Callable[..., subprocess.CompletedProcess[str]]
P = "--plan members.plan.json"
COLOUR = re.compile("\x1b\\[[0-9;]*(3[0-7]|38)[0-9;]*m")


def test_three_parties_in_a_pipe(shell: Shell, folder: Path) -> None:
    line = f"chaffinch encode people.csv {P} -q | chaffinch shuffle {P} | chaffinch analyze {P}"
    done = shell(f"{line} --json", folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reports"] == USERS
    assert done.stderr == f"{USERS:,} reports shuffled\n"


def test_when_the_first_fails_all_fail(shell: Shell, folder: Path) -> None:
    (folder / "people.csv").write_text("member\n" + "yes\n" * 3000 + "CANARY\n")
    line = (
        f"chaffinch encode people.csv {P} | chaffinch shuffle {P} | chaffinch analyze {P} --json;"
        ' echo "${PIPESTATUS[@]}"'
    )
    done = shell(line, folder)
    *document, codes = done.stdout.splitlines()
    assert codes == "2 2 2"
    assert json.loads("\n".join(document))["error"]["code"] == "invalid-file"
    assert done.stderr.count("error: ") == 2  # the third told it as JSON
    assert "CANARY" not in done.stderr


@pytest.mark.long
def test_when_the_second_fails_the_third_does(shell: Shell, folder: Path) -> None:
    (folder / "people.csv").write_text("member\nyes\nno\n")
    line = (
        f"chaffinch encode people.csv {P} | chaffinch shuffle {P} | chaffinch analyze {P};"
        ' echo "${PIPESTATUS[@]}"'
    )
    assert shell(line, folder).stdout == "0 4 2\n"


def within_a_minute(line: str) -> str:
    """Return a line that fails if the command in it waits for ever."""
    return f"export -f chaffinch; timeout 60 bash -c '{line}'"


@pytest.mark.long
def test_a_batch_that_comes_while_a_table_is_read_stays(
    shell: Shell, cli: Callable[..., Done], folder: Path
) -> None:
    """An encoding waits for its table; a shuffle ends meanwhile, and has the same output."""
    mine = ("--plan", folder / "members.plan.json")
    assert cli("encode", folder / "people.csv", *mine, "-o", folder / "e.parquet").code == 0
    os.mkfifo(folder / "table")
    line = (
        f"chaffinch encode table --format csv {P} -o x.parquet & exec 3> table; "
        f"chaffinch shuffle e.parquet {P} -o x.parquet -q && sha256sum x.parquet; "
        "cat people.csv >&3; exec 3>&-; wait $!; echo $?; sha256sum x.parquet"
    )
    done = shell(within_a_minute(line), folder)
    first, code, second = done.stdout.splitlines()
    assert (code, first) == ("2", second), done.stderr
    assert "another file than one with messages" in done.stderr


def test_a_release_to_a_named_pipe(shell: Shell, cli: Callable[..., Done], folder: Path) -> None:
    mine = ("--plan", folder / "members.plan.json")
    assert cli("encode", folder / "people.csv", *mine, "-o", folder / "e.parquet").code == 0
    assert cli("shuffle", folder / "e.parquet", *mine, "-o", folder / "s.parquet").code == 0
    os.mkfifo(folder / "r.json")
    line = f"cat r.json > told & chaffinch analyze s.parquet {P} -o r.json && wait"
    done = shell(within_a_minute(line), folder)
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "told").read_text())["reports"] == USERS


@pytest.mark.long
@pytest.mark.skipif(shutil.which("flock") is None, reason="flock(1) is not there")
def test_a_run_under_flock_on_its_own_folder(shell: Shell, folder: Path) -> None:
    """The usual way to keep two jobs apart."""
    run = 'flock out bash -c "chaffinch run members.plan.json --data people.csv -o out"'
    done = shell(within_a_minute(f"mkdir out && {run}"), folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "release.json").exists()


def test_a_table_from_a_pipe(shell: Shell, folder: Path) -> None:
    line = f"cat people.csv | chaffinch encode - --format csv {P} -o - | chaffinch shuffle {P} -o s"
    done = shell(line, folder, fresh=True, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0, done.stderr
    assert (folder / "s").exists()
    imported = {line.rpartition(" ")[2] for line in done.stderr.splitlines()}
    assert "pyarrow" in imported
    assert "pandas.core" not in imported, "a command reads no frames"


def test_plans_and_surveys_through_pipes(shell: Shell, folder: Path) -> None:
    done = shell("chaffinch plan - -o - < survey.toml | chaffinch plan --check - --json", folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["title"] == "Members"


@pytest.mark.parametrize(
    "words",
    [
        ["run", "members.plan.json", "--data", "people.csv", "--out", "-"],
        ["ledger", "create", "-", "--mark", "mark", "--epsilon", "1", "--delta", "1e-6"],
        ["privacy", "bits", "--users", "9", "--flip", "0.1", "--plot", "-"],
        ["analyze", "x.parquet", "--plan", "members.plan.json", "-o", "-"],
    ],
)
def test_where_a_pipe_will_not_do(
    words: list[str], cli: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    done = cli(*words)
    assert done.code == 2
    assert "Got '-'" in done.err
    assert sorted(folder.iterdir()) == before


def test_a_reader_that_leaves_early(shell: Shell, folder: Path) -> None:
    done = shell('chaffinch plan --example | true; echo "${PIPESTATUS[0]}"', folder)
    assert done.stdout.strip() in {"0", "141"}  # the text may fit into the pipe
    assert done.stderr == ""


def test_a_full_disk_behind_standard_output(shell: Shell, folder: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    for line in (
        "chaffinch plan --check members.plan.json -q --explain > /dev/full",
        f"chaffinch encode people.csv {P} > /dev/full",
    ):
        done = shell(line, folder)
        assert done.returncode == 5
        assert done.stderr.count("error: ") == 1
        assert "no space left" in done.stderr


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_lines_fit_the_width_and_have_no_colour(
    columns: int, cli: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    plan = folder / "members.plan.json"
    for words in (
        ("run", plan, "--data", folder / "people.csv", "--out", folder / "o"),
        ("plan", "--check", plan, "--explain"),
        ("--help",),
        ("run", "--help"),
    ):
        done = cli(*words, *([] if "--help" in words else ["-q"]))
        assert (done.code, done.err) == (0, "")
        assert "\x1b" not in done.out
        assert max(map(len, done.out.splitlines())) <= columns


@pytest.mark.long
def test_words_stay_whole(cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("compare", "--users", 100, "--epsilon", 1, "--delta", 1e-6, "--values", 3, "-q")
    monkeypatch.setenv("COLUMNS", "200")
    known = set(cli(*words).out.split())
    for columns in (60, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        done = cli(*words)
        assert max(map(len, done.out.splitlines())) <= columns
        table = done.out.split("\n\n")[1]
        assert set(table.split()) <= known
        assert ("published" in table) is (columns == 80)


def test_one_report_is_not_many(cli: Callable[..., Done], folder: Path) -> None:
    (folder / "one.csv").write_text("member\nyes\n")
    plan = ("--plan", folder / "members.plan.json")
    done = cli("encode", folder / "one.csv", *plan, "-o", folder / "m")
    assert done.err.startswith("1 report encoded")


def on_a_terminal(words: list[str], folder: Path, **environment: str) -> str:
    """Return what a command says on a terminal that is its standard error."""
    above, below = pty.openpty()
    variables = {name: one for name, one in os.environ.items() if name != "NO_COLOR"}
    variables |= {"PYTHONPATH": str(repository.SOURCE.parent), "TERM": "xterm-256color"}
    variables["CHAFFINCH_TRACE"] = "1"  # seen only when something goes wrong
    command, inherited_line = forks.as_words()
    with subprocess.Popen(
        [*command, *words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=below,
        env=variables | environment,
        pass_fds=[inherited_line],
    ) as process:
        os.close(below)
        said = read_to_end(above)
        assert process.wait(60) == 0, said.decode()
    return said.decode()


RUN = ["run", "members.plan.json", "--data", "people.csv", "--out", "o"]


def test_progress_and_its_colours_are_for_terminals(folder: Path) -> None:
    coloured = on_a_terminal(RUN, folder)
    assert "encoding" in coloured
    assert "shuffling" in coloured
    assert COLOUR.search(coloured)
    assert not COLOUR.search(on_a_terminal([*RUN, "--again", "--replace"], folder, NO_COLOR="1"))


@pytest.mark.long
def test_quiet_is_quiet_on_a_terminal(folder: Path) -> None:
    assert on_a_terminal([*RUN, "--quiet"], folder) == ""


def test_quiet_when_piped(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert main(RUN) == 0
    said = capfd.readouterr().err
    assert "wrote" in said
    assert "encoding" not in said
