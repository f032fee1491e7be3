"""The same data again: how the command refuses them, and says that it adds up."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.disk.files import state_folder
from chaffinch.disk.staged import StagedFiles
from chaffinch.ledger.charge import Charge, total
from tests.cli.conftest import USERS, Done


@pytest.fixture
def words(folder: Path) -> tuple[object, ...]:
    return ("run", folder / "members.plan.json", "--data", folder / "people.csv", "--out")


def test_the_same_folder_is_not_filled_again(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    out = folder / "out"
    assert cli(*words, out).code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with (folder / "people.csv").open("a") as file:
        file.write("2000,yes,1\n")  # other data, of the same people
    done = cli(*words, out)
    assert (done.code, done.out) == (4, "")
    assert "Got other data for a folder with 1 release so far." in done.err
    assert "--again" in done.err
    assert json.loads(cli(*words, out, "--json").out)["error"]["code"] == "data-repeated"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert cli(*words, folder / "elsewhere").code == 0
    done = cli(*words, out, "--again")
    assert (done.code, done.out) == (2, "")
    assert "a folder without a release, as the one that is there may be published" in done.err
    assert "name another folder, or add --replace" in done.err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert cli(*words, out, "--again", "--replace").code == 0
    assert cf.load_release(out / "release.json").together.releases == 3  # type: ignore[union-attr]


def test_the_next_round_never_takes_the_place_of_the_last_one(
    cli: Callable[..., Done], folder: Path
) -> None:
    survey = folder / "survey.toml"
    survey.write_text("rounds = 12\n" + survey.read_text())
    people = (folder / "people.csv").read_text()
    (folder / "next.csv").write_text(people + "2000,yes,1\n")
    words = ("run", survey, "--out", folder / "out", "--data")
    assert cli(*words, folder / "people.csv", "--round", 1).code == 0
    before = {path.name: path.read_bytes() for path in (folder / "out").iterdir()}
    done = cli(*words, folder / "next.csv", "--round", 2)
    assert (done.code, done.out) == (2, "")
    assert "a folder without results of another round" in done.err
    assert "Got one with the release.json of round 1." in done.err
    assert "name another folder, or add --replace" in done.err
    assert {path.name: path.read_bytes() for path in (folder / "out").iterdir()} == before
    assert cli(*words, folder / "next.csv", "--round", 2, "--replace").code == 0
    assert cf.load_release(folder / "out" / "release.json").round == 2


def test_the_same_round_of_other_data_is_told(cli: Callable[..., Done], folder: Path) -> None:
    survey = folder / "survey.toml"
    survey.write_text("rounds = 12\n" + survey.read_text())
    assert cli("plan", survey, "-o", folder / "made.plan.json").code == 0
    words = ("run", survey, "--plan", folder / "made.plan.json", "--out")
    first = cli(*words, folder / "one", "--data", folder / "people.csv", "--round", 1)
    assert (first.code, "was made before" in first.err) == (0, False)
    (folder / "next.csv").write_text((folder / "people.csv").read_text() + "2000,yes,1\n")
    for number, told in ((1, True), (2, False)):
        out = folder / f"next-{number}"
        done = cli(*words, out, "--data", folder / "next.csv", "--round", number, "--again")
        said = " ".join(done.err.split())
        assert done.code == 0, done.err
        assert ("a release of round 1 of this plan was made before, of other data" in said) == told


def test_what_a_killed_run_left_goes_even_if_the_next_is_refused(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    """Killed after its release was in place, and before it had cleared away."""
    out = folder / "out"
    assert cli(*words, out).code == 0
    before = sorted(out.iterdir())
    (out / f".chaffinch-staging.{'0' * 16}.part" / "files").mkdir(parents=True)
    assert cli(*words, out).code == 4
    assert sorted(out.iterdir()) == before


def test_another_question_to_the_same_file_adds_up(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    assert cli(*words, folder / "one").code == 0
    other = cf.plan(
        cf.Survey({"age": cf.Choice(range(60))}), users=USERS, target=cf.Target(2, 1e-7)
    )
    other.save(folder / "ages.plan.json")
    ages = ("run", folder / "ages.plan.json", *words[2:], folder / "two")
    assert cli(*ages).code == 4
    done = cli(*ages, "--again")
    assert done.code == 0, done.err
    release = cf.load_release(folder / "two" / "release.json")
    assert release.guarantee == other.guarantee
    assert release.together is not None
    assert release.together.releases == 2
    both = total([Charge.of(other), Charge.of(cf.load_plan(folder / "members.plan.json"))])
    assert release.together.guarantee.delta == math.fsum([1e-6, 1e-7])
    assert release.together.guarantee.epsilon == both.epsilon(1e-6 + 1e-7).upper
    assert 2 < release.together.guarantee.epsilon <= 3.1
    told = " ".join(done.out.split())
    page = (folder / "two" / "release.html").read_text()
    for said in (told, page):
        assert "This release adds to 1 earlier release of the same data" in said
        assert "alone it would be (2, 1e-07)" in said
        assert "in all 2 releases" in said


def test_again_says_nothing_where_nothing_was_before(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    done = cli(*words, folder / "one", "--again")
    assert done.code == 0
    assert "adds to" not in done.out
    assert "together" not in json.loads((folder / "one" / "release.json").read_text())


def test_a_release_that_nobody_remembers_is_not_added_to(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    assert cli(*words, folder / "one").code == 0
    (state_folder() / "releases.record").unlink()
    done = cli(*words, folder / "one", "--again")
    assert (done.code, "does not know" in done.err) == (4, True)
    files = (folder / "ledger.db", "--mark", folder / "ledger.mark")
    assert cli("ledger", "create", *files, "--epsilon", 1, "--delta", 1e-5).code == 0
    paid = (*words, folder / "one", "--ledger", *files)
    done = cli(*paid, "--again")
    assert (done.code, "does not know" in done.err) == (4, True), "nor can it be added to for money"
    assert cli(*words, folder / "two").code == 0, "what was removed is forgotten"


def test_nothing_of_the_data_is_beside_the_release(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    assert cli(*words, folder / "one").code == 0
    assert not list((folder / "one").glob(".*"))
    document = json.loads((folder / "one" / "release.json").read_text())
    assert set(document) == {
        *("format", "plan", "title", "version", "guarantee", "rounds", "reports", "batch"),
        *("level", "one_party", "made_on", "unit", "questions", "digest"),
    }


def test_what_waits_beside_a_release_is_keyed(
    cli: Callable[..., Done],
    folder: Path,
    words: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The note of a stopped run tells apart requests, and nobody without the key can try tables."""
    notes = []

    def stop(one: StagedFiles) -> None:
        notes.append(one.request)
        raise OSError(errno.EIO, "")

    for state in ("one", "two"):
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / state))
        with monkeypatch.context() as patch:
            patch.setattr(StagedFiles, "put_in_place", stop)
            assert cli(*words, folder / f"out-{state}").code == 5
    assert len(set(notes)) == 2


@pytest.mark.long
def test_a_pipe_is_known_by_its_rows(
    shell: Callable[..., object], cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    line = "cat people.csv | chaffinch run members.plan.json --data - --format csv --out {}"
    assert shell(line.format("one"), folder).returncode == 0  # type: ignore[attr-defined]
    assert shell(line.format("two"), folder).returncode == 4  # type: ignore[attr-defined]
    assert cli(*words, folder / "three").code == 4
