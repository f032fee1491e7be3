"""A reach through a shuffler, from the command line: plan, encode, shuffle, analyze."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chaffinch import Audience, Target, reach
from tests.cli.conftest import Done

SIZES = {"daily": 6_000, "radio": 4_000}
TWO = ("--publisher", "daily=6000", "--publisher", "radio=4000", "--epsilon", 2, "--delta", 1e-6)


@pytest.fixture(scope="module")
def plan() -> reach.ReachPlan:
    return reach.plan(
        Audience(list(SIZES)), sizes=SIZES, target=Target(2.0, 1e-6), hashes=1, shuffled=True
    )


@pytest.fixture
def campaign(tmp_path: Path, plan: reach.ReachPlan) -> Path:
    """A folder with a plan, and the filters of two publishers."""
    plan.save(tmp_path / "campaign.plan.json")
    key = reach.new_key()
    for name, first in (("daily", 0), ("radio", 4_000)):
        ids = [f"user-{number}" for number in range(first, first + SIZES[name])]
        made = reach.encode(ids, plan, publisher=name, key=key)
        made.save(tmp_path / f"{name}.filter")
    return tmp_path


def shuffling(folder: Path, *more: object, out: str = "campaign.columns") -> list[object]:
    return [
        "reach", "shuffle", folder / "daily.filter", folder / "radio.filter",
        "--plan", folder / "campaign.plan.json", "--record", folder / "record",
        "-o", folder / out, *more,
    ]  # fmt: skip


def analyzing(folder: Path, *sources: str) -> list[object]:
    files = [folder / one for one in sources]
    return ["reach", "analyze", *files, "--plan", folder / "campaign.plan.json"]


# ---------------------------------------------------------------------------------- plan


def test_a_plan_with_a_shuffler_shows_all_three_promises(
    cli: Callable[..., Done], tmp_path: Path
) -> None:
    more = ("--shuffled", "--shuffler-epsilon", 3, "--local-epsilon", 8)
    done = cli("reach", "plan", *TWO, *more, "-o", tmp_path / "c.plan.json")
    assert done.code == 0, done
    text = " ".join(done.out.split())
    for words in (
        "If publishers help the analyzer, the same holds for an id at the others",
        "the publishers' own flips promise epsilon 3 and delta 1e-06",
        "A publisher who helps the shuffler brings the key",
        "if one of them helps the shuffler. Chosen",
    ):
        assert words in text
    found = reach.load_plan(tmp_path / "c.plan.json")
    found.verify()
    assert found.colluding_epsilon <= 8
    document = json.loads(cli("reach", "plan", *TWO, *more, "--json").out)
    assert document["plan"]["shuffler"]["guarantee"]["epsilon"] == "3"
    assert document["shuffler_epsilon"] == 3.0
    chosen = next(one for one in document["options"] if one["chosen"])
    assert chosen["colluding_epsilon"] == document["colluding_epsilon"] <= 8


def test_a_delta_of_its_own_against_the_shuffler(cli: Callable[..., Done]) -> None:
    done = cli("reach", "plan", *TWO, "--shuffled", "--shuffler-delta", 1e-3, "--json")
    promise = json.loads(done.out)["plan"]["shuffler"]["guarantee"]
    assert (promise["epsilon"], promise["delta"]) == ("2", "0.001")


@pytest.mark.parametrize("more", [["--shuffler-epsilon", 3], ["--local-epsilon", 3]])
def test_what_is_said_of_a_shuffler_needs_one(more: list[object], cli: Callable[..., Done]) -> None:
    done = cli("reach", "plan", *TWO, *more)
    assert (done.code, "--shuffled" in done.err) == (2, True), done


def test_publishers_who_would_refuse_are_told_of(cli: Callable[..., Done]) -> None:
    done = cli("reach", "plan", *TWO, "--shuffled", "--shuffler-epsilon", 12)
    assert "--max-epsilon" in done.err


def test_what_is_left_to_whom_is_compared(cli: Callable[..., Done], campaign: Path) -> None:
    words = ("--plan", campaign / "campaign.plan.json", "--samples", 1000, "--json")
    rows = json.loads(cli("reach", "compare", *words).out)["one_id"]
    found = {row["name"]: row["epsilon"] for row in rows}
    assert found["to the shuffler"] == pytest.approx(found["proven bound"])
    assert found["if a publisher colludes"] < found["to whoever has the key"]


# ---------------------------------------------------------------------------------- shuffle


def test_the_whole_way(cli: Callable[..., Done], campaign: Path) -> None:
    done = cli(*shuffling(campaign))
    assert done.code == 0, done
    assert "without their order" in done.err
    columns = campaign / "campaign.columns"
    assert stat.S_IMODE(columns.stat().st_mode) & 0o077 == 0
    shown = cli(*analyzing(campaign, "campaign.columns"), "--json")
    release = json.loads(shown.out)
    everyone = release["groups"][0]
    assert abs(everyone["estimate"] - 8_000) < 6 * everyone["standard_error"]
    assert release["shuffler_guarantee"]["epsilon"] == 2.0
    text = " ".join(cli(*analyzing(campaign, "campaign.columns")).out.split())
    assert "It counts on the shuffler" in text


def test_again_gives_the_same_bytes_wherever_they_go(
    cli: Callable[..., Done], campaign: Path
) -> None:
    for out in ("campaign.columns", "campaign.columns", "other.columns"):
        assert cli(*shuffling(campaign, out=out)).code == 0
    first, other = (
        (campaign / name).read_bytes() for name in ("campaign.columns", "other.columns")
    )
    assert first == other
    document = json.loads(cli(*shuffling(campaign, "--json")).out)
    assert document["batch"] == json.loads(first)["batch"]
    assert document["file"].endswith("campaign.columns")


def test_another_set_with_the_key_is_refused(cli: Callable[..., Done], campaign: Path) -> None:
    assert cli(*shuffling(campaign)).code == 0
    filters = reach.load_filter(campaign / "radio.filter")
    (campaign / "radio.filter").unlink()
    replace(filters, batch="0" * 32).save(campaign / "radio.filter")
    done = cli(*shuffling(campaign, out="second.columns"))
    assert (done.code, "others than those" in done.err) == (4, True), done
    assert not (campaign / "second.columns").exists()


def test_nothing_else_is_overwritten(cli: Callable[..., Done], campaign: Path) -> None:
    for name in ("daily.filter", "campaign.plan.json"):
        assert cli(*shuffling(campaign, out=name)).code == 2
    (campaign / "notes.txt").write_text("mine")
    assert cli(*shuffling(campaign, out="notes.txt")).code == 2
    assert cli(*shuffling(campaign)).code == 0
    other = (campaign / "campaign.columns").read_bytes()
    words = [one if one != campaign / "record" else campaign / "new" for one in shuffling(campaign)]
    done = cli(*words)
    assert (done.code, "same shuffled columns" in done.err) == (2, True), done
    assert (campaign / "campaign.columns").read_bytes() == other
    # No other verb writes there either.
    done = cli("reach", "plan", *TWO, "-o", campaign / "campaign.columns")
    assert done.code == 2


def test_filters_are_for_the_shuffler_alone(
    cli: Callable[..., Done], campaign: Path, tmp_path: Path
) -> None:
    done = cli(*analyzing(campaign, "daily.filter", "radio.filter"))
    assert (done.code, "reach shuffle" in done.err) == (2, True), done
    (tmp_path / "ids.csv").write_text("id\n" + "".join(f"{n}\n" for n in range(100)))
    reach.new_key().save(tmp_path / "campaign.key")
    done = cli(
        "reach", "encode", tmp_path / "ids.csv", "--plan", campaign / "campaign.plan.json",
        "--key", tmp_path / "campaign.key", "--publisher", "daily", "-o", tmp_path / "new.filter",
        "--anyway",
    )  # fmt: skip
    assert (done.code, "for the shuffler alone" in done.err) == (0, True), done


def test_a_plan_without_a_shuffler_is_refused(cli: Callable[..., Done], campaign: Path) -> None:
    cli("reach", "plan", *TWO, "-o", campaign / "keyed.plan.json")
    words = [
        one if one != campaign / "campaign.plan.json" else campaign / "keyed.plan.json"
        for one in shuffling(campaign)
    ]
    done = cli(*words)
    assert (done.code, "--shuffled" in done.err) == (2, True), done
