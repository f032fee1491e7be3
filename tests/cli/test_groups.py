"""Crosses and groups from the command line: one release, or one for each public group."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.disk.staged import StagedFiles
from chaffinch.ledger import Ledger
from chaffinch.ledger.charge import Charge, total
from chaffinch.ledger.release_record import ReleaseRecord
from tests.cli.conftest import Done

PUBLIC = """
users = 300
epsilon = 2
delta = 1e-4
max_messages = 1
by_public = "airport"
[questions.airport]
kind = "choice"
values = ["EWR", "J F/K", "LGA"]
missing = "refuse"
column = "origin"
[questions.delayed]
kind = "bit"
"""
CROSS = """
users = 500
epsilon = 3
delta = 1e-4
local_epsilon = 60
cross = ["airport", "delayed"]
[questions.airport]
kind = "choice"
values = ["EWR", "J F/K"]
missing = "refuse"
column = "origin"
[questions.delayed]
kind = "bit"
"""


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    rows = ["EWR,yes"] * 200 + ["EWR,no"] * 200 + ["J F/K,no"] * 350 + ["LGA,yes"] * 20
    (tmp_path / "flights.csv").write_text("\n".join(["origin,delayed", *rows]) + "\n")
    (tmp_path / "public.toml").write_text(PUBLIC)
    (tmp_path / "cross.toml").write_text(CROSS.replace('"J F/K"]', '"J F/K", "LGA"]'))
    return tmp_path


def test_a_cross_from_a_survey_to_a_release(cli: Callable[..., Done], flights: Path) -> None:
    out = flights / "out"
    done = cli("run", flights / "cross.toml", "--data", flights / "flights.csv", "-o", out)
    assert done.code == 0, done.err
    assert "airport \\ delayed" in done.out
    found = {row.value: row for row in cf.load_release(out / "release.json").table()}
    row = found["share of delayed = yes, where airport = EWR"]
    # Twice the interval of 95 percent: a fair run is further off with chance below 1e-4.
    assert abs(row.estimate - 0.5) < 2 * (row.high - row.low)
    # The same survey finds its plan again, whose levels and cells are the planner's.
    words = ("run", flights / "cross.toml", "--data", flights / "flights.csv", "-o", out)
    again = cli(*words, "--again", "--replace")
    assert "using the plan that was made for this survey before" in again.err
    page = (flights / "out" / "release.html").read_text()
    assert "Shares and means of groups lie in their intervals with about 95%" in page


def test_every_public_group_that_is_large_enough_has_a_release(
    cli: Callable[..., Done], flights: Path
) -> None:
    out = flights / "out"
    done = cli("run", flights / "public.toml", "--data", flights / "flights.csv", "-o", out)
    assert done.code == 0, done.err
    # A column of people would be refused, so it is no advice.
    for told in (done.err, done.out):
        assert "several rows, in one public group or in several" in " ".join(told.split())
    assert "--person COLUMN" not in done.err
    assert "left out, with fewer than 300 reports: LGA (20); nothing is released" in done.err
    assert sorted(one.name for one in out.iterdir() if one.is_dir()) == ["001-ewr", "002-j-f-k"]
    here = cf.load_release(out / "001-ewr" / "release.json")
    there = cf.load_release(out / "002-j-f-k" / "release.json")
    assert (here.reports, here.group) == (400, ("airport", "EWR"))
    assert (there.reports, there.group) == (350, ("airport", "J F/K"))
    # One plan, made once, of which each group has its own.
    plan = cf.load_plan(out / "survey.plan.json")
    own = cf.load_plan(out / "001-ewr" / "survey.plan.json")
    assert plan.of_group("EWR") == own
    assert (plan.parts, plan.epsilon) == (own.parts, own.epsilon)
    # The same groups again are the same people; so is the whole table.
    words = ("run", flights / "public.toml", "--data", flights / "flights.csv", "-o")
    assert cli(*words, flights / "more", "--group", "EWR").code == 4
    whole = flights / "cross.toml"
    assert cli("run", whole, *words[2:], flights / "whole").code == 4


def test_groups_once_more_cost_a_row_two_releases_and_not_one_for_each_group(
    cli: Callable[..., Done], flights: Path
) -> None:
    words = ("run", flights / "public.toml", "--data", flights / "flights.csv", "-o")
    assert cli(*words, flights / "out").code == 0
    done = cli(*words, flights / "out", "--again", "--replace")
    assert done.code == 0, done.err
    plan = cf.load_plan(flights / "out" / "survey.plan.json")
    twice = total([Charge.of(plan)] * 2).epsilon(2 * plan.delta).upper
    for folder, releases in (("001-ewr", 3), ("002-j-f-k", 4)):
        together = cf.load_release(flights / "out" / folder / "release.json").together
        assert together is not None
        assert (together.releases, together.unit) == (releases, "row")
        promise = together.guarantee
        assert (promise.epsilon, promise.delta) == (max(twice, plan.epsilon), 2 * plan.delta)
    # All rows of another question to all groups add up with whichever group a row is in.
    other = cli("run", flights / "cross.toml", *words[2:], flights / "whole", "--again", "--anyway")
    assert other.code == 0, other.err
    together = cf.load_release(flights / "whole" / "release.json").together
    cross = cf.load_plan(flights / "whole" / "survey.plan.json")
    assert together is not None
    three = total([*[Charge.of(plan)] * 2, Charge.of(cross)])
    assert together.guarantee.delta == 3e-4
    assert together.guarantee.epsilon == max(three.epsilon(3e-4).upper, cross.epsilon)


def test_one_budget_pays_for_every_group_once(cli: Callable[..., Done], flights: Path) -> None:
    files = ("--ledger", flights / "ledger.db", "--mark", flights / "ledger.mark")
    budget = ("--epsilon", 2, "--delta", 1e-4)
    assert cli("ledger", "create", files[1], *files[2:], *budget).code == 0
    words = ("run", flights / "public.toml", "--data", flights / "flights.csv", *files, "-o")
    assert cli(*words, flights / "out").code == 0
    plan = cf.load_plan(flights / "out" / "survey.plan.json")
    ledger = Ledger.open(flights / "ledger.db", mark=flights / "ledger.mark")
    charged = [one.charge.plan_id for one in ledger.entries()]
    assert charged == [f"{plan.id}/group/{number}" for number in (0, 1)]
    assert ledger.spent().epsilon == min(2, plan.round_mechanism().epsilon(1e-4).upper)
    # The second time is one time too many for each of them.
    for group in ("EWR", "J F/K"):
        done = cli(*words, flights / "more", "--group", group, "--replace")
        assert (done.code, "nothing was charged" in done.err) == (4, True), done.err
    # Of reports from elsewhere nobody knows that none of them comes from two groups.
    third = plan.of_group("LGA")
    assert ledger.would_spend(Charge.of_table(third)) == ledger.spent()
    assert ledger.would_spend(Charge.of(third)).epsilon > ledger.spent().epsilon


def test_public_groups_promise_in_all_rounds_to_rows_or_to_people(
    cli: Callable[..., Done], flights: Path
) -> None:
    (flights / "public.toml").write_text("rounds = 2\n" + PUBLIC)
    words = ("run", flights / "public.toml", "--data", flights / "flights.csv", "-o")
    assert cli(*words, flights / "out", "--round", 1).code == 0
    mixed = cli(*words, flights / "two", "--round", 2, "--rows-are-people")
    assert (mixed.code, "another one than in an earlier round" in mixed.err) == (2, True)


def test_one_public_group_by_itself(cli: Callable[..., Done], flights: Path) -> None:
    words = ("run", flights / "public.toml", "--data", flights / "flights.csv", "-o")
    done = cli(*words, flights / "one", "--group", "J F/K", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["release"]["public_group"] == ["airport", "J F/K"]
    apart = cli(*words, flights / "apart", "--group", "J F/K", "--person", "delayed")
    assert apart.code == 2
    assert "told apart by rows where groups are public" in apart.err
    small = cli(*words, flights / "small", "--group", "LGA")
    assert small.code == 4
    assert "must have 300 rows of the group 'LGA' or more. Got 20." in small.err
    assert cli(*words, flights / "none", "--group", "BOS").code == 2
    assert not (flights / "small" / "release.json").exists()
    other = ("run", flights / "cross.toml", "--data", flights / "flights.csv", "-o")
    assert cli(*other, flights / "cross", "--group", "EWR").code == 2


def test_groups_that_are_all_too_small_are_refused_before_planning(
    cli: Callable[..., Done], flights: Path
) -> None:
    (flights / "public.toml").write_text(PUBLIC.replace("users = 300", "users = 500"))
    done = cli(
        "run", flights / "public.toml", "--data", flights / "flights.csv", "-o", flights / "out"
    )
    assert done.code == 2
    assert "EWR (400), J F/K (350), LGA (20)" in done.err
    assert not (flights / "out").exists()


def contents(out: Path) -> dict[str, bytes]:
    found = (path for path in out.rglob("*") if path.is_file())
    return {str(path.relative_to(out)): path.read_bytes() for path in found}


@pytest.fixture
def stopped(
    cli: Callable[..., Done], flights: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[type, str], tuple[object, ...]]:
    """Stop a run of public groups at its second group; return its command."""

    def stop(where: type, step: str) -> tuple[object, ...]:
        survey, data = flights / "public.toml", flights / "flights.csv"
        words = ("run", survey, "--data", data, "-o", flights / "out")
        taken, real = [], getattr(where, step)

        def take(*given: object) -> object:
            taken.append(step)
            if len(taken) > 1:
                raise OSError(errno.EIO, "")
            return real(*given)

        with monkeypatch.context() as patch:
            patch.setattr(where, step, take)
            assert cli(*words).code != 0
        assert (flights / "out" / "001-ewr" / "release.json").exists()
        assert not (flights / "out" / "002-j-f-k" / "release.json").exists()
        return words

    return stop


@pytest.mark.parametrize(
    ("where", "step"),
    [(ReleaseRecord, "add"), (StagedFiles, "put_in_place")],
    ids=["unpaid", "paid"],
)
def test_a_stopped_run_of_groups_goes_on(
    cli: Callable[..., Done],
    flights: Path,
    stopped: Callable[[type, str], tuple[object, ...]],
    where: type,
    step: str,
) -> None:
    words, out = stopped(where, step), flights / "out"
    first = contents(out / "001-ewr")
    done = cli(*words)
    assert done.code == 0, done.err
    assert f"released by an earlier run, and left as it is: {out / '001-ewr'}" in done.err
    assert contents(out / "001-ewr") == first
    there = cf.load_release(out / "002-j-f-k" / "release.json")
    assert (there.reports, there.together) == (350, None)
    # Nothing is left to do: from here on it is again.
    before = contents(out)
    done = cli(*words)
    assert (done.code, "all released already, 2 of 2" in done.err) == (4, True)
    assert contents(out) == before
    assert cli(*words, "--again").code == 2
    assert contents(out) == before
    assert cli(*words, "--again", "--replace").code == 0
    assert cf.load_release(out / "001-ewr" / "release.json").together is not None


def test_groups_that_wait_are_finished_without_the_table(
    cli: Callable[..., Done], flights: Path, stopped: Callable[[type, str], tuple[object, ...]]
) -> None:
    words, out = stopped(StagedFiles, "put_in_place"), flights / "out"
    (flights / "flights.csv").write_text("other")
    first = contents(out / "001-ewr")
    done = cli(*words, "--finish")
    assert done.code == 0, done.err
    assert contents(out / "001-ewr") == first
    assert cf.load_release(out / "002-j-f-k" / "release.json").reports == 350
    assert cli(*words, "--finish").code == 2


def test_a_group_with_other_rows_is_not_taken_for_released(
    cli: Callable[..., Done], flights: Path, stopped: Callable[[type, str], tuple[object, ...]]
) -> None:
    words, out = stopped(ReleaseRecord, "add"), flights / "out"
    rows = (flights / "flights.csv").read_text()
    before = contents(out)
    (flights / "flights.csv").write_text(rows.replace("EWR,yes", "EWR,no", 1))
    assert cli(*words).code == 4
    assert contents(out) == before
    # Of another group it does not matter.
    (flights / "flights.csv").write_text(rows.replace("LGA,yes", "LGA,no", 1))
    done = cli(*words)
    assert done.code == 0, done.err
    assert contents(out).items() >= before.items()
