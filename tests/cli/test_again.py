"""The same data again: refused, unless somebody pays or says that it adds up."""

from __future__ import annotations

import errno
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import chaffinch as cf
from chaffinch.disk.files import state_folder
from chaffinch.disk.staged import StagedFiles
from chaffinch.ledger import Ledger
from chaffinch.ledger.charge import Charge, total
from chaffinch.ledger.release_record import ReleaseRecord, RunRelease
from chaffinch.runs import pipeline
from tests.cli.conftest import USERS, Done
from tests.tiers import nightly


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
    assert cli(*words, out, "--again").code == 0
    assert cf.load_release(out / "release.json").together.releases == 3  # type: ignore[union-attr]


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


def test_the_same_rows_are_known_in_another_file_order_and_folder(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    assert cli(*words, folder / "one").code == 0
    head, *rows = (folder / "people.csv").read_text().splitlines()
    random.Random(1).shuffle(rows)
    (folder / "shuffled.csv").write_text("\n".join([head, *rows]) + "\n")
    pq.write_table(pc.read_csv(folder / "shuffled.csv"), folder / "people.parquet")
    for name in ("people.csv", "shuffled.csv", "people.parquet"):
        done = cli(*words[:3], folder / name, "--out", folder / "two")
        assert (done.code, (folder / "two").exists()) == (4, False), (name, done.err)
    swap = {"yes": "no", "no": "yes"}  # one person has another answer
    first = ",".join(swap.get(cell, cell) for cell in rows[0].split(","))
    (folder / "other.csv").write_text("\n".join([head, first, *rows[1:]]) + "\n")
    assert cli(*words[:3], folder / "other.csv", "--out", folder / "two").code == 0


def test_the_same_answers_are_known_however_they_are_written(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    """Without a change of any answer, nothing of a table makes it other data."""
    assert cli(*words, folder / "one").code == 0
    text = (folder / "people.csv").read_text()
    pq.write_table(pc.read_csv(folder / "people.csv"), folder / "people.parquet")
    (folder / "renamed.csv").write_text(text.replace("member", "is_member"))
    (folder / "spaced.csv").write_text(text.replace(",yes,", ",yes ,").replace(",no,", ", NO,"))
    (folder / "truth.csv").write_text(text.replace(",yes,", ",1,").replace(",no,", ",0,"))
    other_ways: list[tuple[object, ...]] = [
        ("people.parquet", "--person", "id"),
        ("renamed.csv", "--map", "member=is_member"),
        ("spaced.csv",),
        ("truth.csv",),
    ]
    for name, *options in other_ways:
        done = cli(*words[:3], folder / str(name), "--out", folder / "two", *options)
        assert (done.code, "Got data with 1 release so far." in done.err) == (4, True), name


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


@pytest.mark.long
@pytest.mark.parametrize(
    "survey",
    [
        cf.Survey({"member": cf.Bit()}),
        nightly(cf.Survey({"member": cf.Bit(), "old": cf.Bit()}, cross=["member", "old"])),
    ],
    ids=["bit", "cross"],
)
def test_any_number_of_releases_promises_something_together(
    cli: Callable[..., Done], tmp_path: Path, survey: cf.Survey
) -> None:
    """Reports of signed decoys may be cut: composed, some of them prove nothing any more."""
    plan = cf.plan(survey, users=500, target=cf.Target(2, 1e-8))
    plan.save(tmp_path / "plan.json")
    (tmp_path / "people.csv").write_text("member,old\n" + "yes,no\nno,yes\n" * 250)
    run = ("run", tmp_path / "plan.json", "--data", tmp_path / "people.csv")
    words = (*run, "--again", "--anyway", "-o")
    told = []
    for number in range(5):
        out = tmp_path / str(number)
        done = cli(*words, out)
        assert done.code == 0, done.err
        together = cf.load_release(out / "release.json").together
        told.append(2.0 if together is None else together.guarantee.epsilon)
    most = [2.0 * times for times in range(1, 6)]
    assert all(last < new for last, new in pairwise(told)), told
    assert all(epsilon <= added for epsilon, added in zip(told, most, strict=True)), told
    assert told[-1] == most[-1], "the sum of all, where composing proves nothing"


def test_releases_that_protect_nobody_together_are_refused_before_they_are_made(
    cli: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = cf.Survey({"member": cf.Bit()})
    plan = cf.plan(survey, users=USERS, target=cf.Target(4, 1e-6))
    plan.save(folder / "weak.plan.json")
    words = ("run", folder / "weak.plan.json", "--data", folder / "people.csv", "-o")
    assert cli(*words, folder / "one").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "tally_table", lambda *_, **__: pytest.fail("encoded"))
        done = cli(*words, folder / "two", "--again")
    assert (done.code, done.out) == (4, "")
    assert re.search(r"1 release so far, and with this one a promise of \([5-8]", done.err)
    assert "this protects nobody" in done.err
    assert "add --anyway" in done.err
    assert not (folder / "two").exists()
    done = cli(*words, folder / "two", "--again", "--anyway")
    assert done.code == 0, done.err
    together = cf.load_release(folder / "two" / "release.json").together
    assert together is not None
    assert together.guarantee.epsilon > 4.6


def test_a_refusal_tells_what_all_releases_would_promise(
    cli: Callable[..., Done], folder: Path, words: tuple[object, ...]
) -> None:
    assert cli(*words, folder / "one").code == 0
    refused = cli(*words, folder / "two")
    assert refused.code == 4
    found = re.search(
        r"another one like the last they would promise \(([0-9.]+), 2e-06\)", refused.err
    )
    assert found is not None, refused.err
    assert cli(*words, folder / "two", "--again").code == 0
    together = cf.load_release(folder / "two" / "release.json").together
    assert together is not None
    assert float(found[1]) == pytest.approx(together.guarantee.epsilon, rel=0.01)


@pytest.fixture
def two_rounds(folder: Path) -> cf.Plan:
    survey = cf.Survey({"member": cf.Bit()})
    plan = cf.plan(survey, users=USERS, target=cf.Target(1, 1e-6), rounds=2, max_messages=1)
    plan.save(folder / "two.plan.json")
    return plan


def test_a_repeated_round_is_not_forgotten_by_the_next_one(
    cli: Callable[..., Done], folder: Path, two_rounds: cf.Plan
) -> None:
    words = ("run", folder / "two.plan.json", "--data", folder / "people.csv", "--out")
    assert cli(*words, folder / "first", "--round", 1).code == 0
    for again in ("second", "third"):
        assert cli(*words, folder / again, "--round", 1, "--again").code == 0
    refused = cli(*words, folder / "fourth", "--round", 2)
    assert (refused.code, (folder / "fourth").exists()) == (4, False)
    assert "Got data with 3 releases so far." in refused.err
    assert "with this one they would promise (" in refused.err
    assert cli(*words, folder / "fourth", "--round", 2, "--again").code == 0
    fourth = cf.load_release(folder / "fourth" / "release.json")
    together = fourth.together
    assert together is not None
    assert (fourth.round, together.releases) == (2, 4)
    # Four rounds of a plan of two, at the delta of two promises.
    four = total([Charge.of(two_rounds)] * 4)
    assert together.guarantee.delta == 2e-6
    assert together.guarantee.epsilon == four.epsilon(2e-6).upper > 1
    # The third release had told the same: round 2, which was to come, is promised as well.
    third = cf.load_release(folder / "third" / "release.json").together
    assert third is not None
    assert third.guarantee == together.guarantee


def test_what_a_paid_release_says_of_earlier_ones_is_true_when_it_is_recorded(
    cli: Callable[..., Done],
    folder: Path,
    words: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger, mark = folder / "ledger.db", folder / "ledger.mark"
    made = cli("ledger", "create", ledger, "--mark", mark, "--epsilon", 3, "--delta", 1e-5)
    assert made.code == 0
    budget = ("--ledger", ledger, "--mark", mark)
    assert cli(*words, folder / "one", *budget).code == 0
    real, raced = (
        ReleaseRecord.add,
        RunRelease.of(cf.load_plan(folder / "members.plan.json"), 1, "row"),
    )

    def add(runs: ReleaseRecord, new: RunRelease, names: Sequence[str], known: Any) -> None:
        real(runs, replace(raced, subject="0" * 64), names, None)  # another run is quicker
        real(runs, new, names, known)

    with monkeypatch.context() as patch:
        patch.setattr(ReleaseRecord, "add", add)
        done = cli(*words, folder / "two", *budget, "--again")
    assert (done.code, "another run has made a release just now" in done.err) == (4, True)
    assert len(Ledger.open(ledger, mark=mark).entries()) == 1, "nothing was charged"
    assert cli(*words, folder / "two", *budget, "--again").code == 0
    together = cf.load_release(folder / "two" / "release.json").together
    assert together is not None
    assert together.releases == 3


@pytest.mark.long
@pytest.mark.parametrize("order", [(1, 1, 1, 2), (2, 1, 1, 1), (1, 2, 1, 1)])
def test_a_budget_pays_for_as_many_rounds_as_a_plan_has_whichever_they_are(
    cli: Callable[..., Done], folder: Path, two_rounds: cf.Plan, order: tuple[int, ...]
) -> None:
    ledger, mark = folder / "ledger.db", folder / "ledger.mark"
    files = (ledger, "--mark", mark)
    assert cli("ledger", "create", *files, "--epsilon", 1, "--delta", 1e-6).code == 0
    words = ("run", folder / "two.plan.json", "--data", folder / "people.csv", "--ledger", *files)
    codes = [
        cli(*words, "--out", folder / str(place), "--round", number).code
        for place, number in enumerate(order)
    ]
    assert codes == [0, 0, 4, 4]
    assert Ledger.open(ledger, mark=mark).spent().epsilon <= two_rounds.epsilon


@pytest.mark.long
def test_rounds_of_one_plan_are_covered_once(
    cli: Callable[..., Done], folder: Path, two_rounds: cf.Plan
) -> None:
    assert two_rounds.rounds == 2
    words = ("run", folder / "two.plan.json", "--data", folder / "people.csv", "--out")
    assert cli(*words, folder / "o", "--round", 1).code == 0
    assert cli(*words, folder / "o", "--round", 2).code == 0
    assert cf.load_release(folder / "o" / "release.json").together is None
    assert cli(*words, folder / "o", "--round", 2).code == 4
    assert cli(*words, folder / "o", "--round", 2, "--again").code == 0
    together = cf.load_release(folder / "o" / "release.json").together
    assert together is not None
    assert together.releases == 3
    assert together.guarantee.epsilon > 1


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
        *("level", "one_party", "unit", "questions"),
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
