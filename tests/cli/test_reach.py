"""Reach from the command line: every verb, its files, and what it refuses."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from chaffinch import Audience, Ledger, Target, privacy, reach
from chaffinch.cli.reach import VERBS
from chaffinch.cli.reach.publisher_verbs import _PromiseOptions
from chaffinch.errors import StorageFault
from chaffinch.reach.publisher.filter_making import WITHIN
from chaffinch.reach.release import load_release as load_reach_release
from tests.cli.conftest import Done
from tests.cli.test_help import HEAVY
from tests.meta import repository

PAGE = repository.ROOT / "docs" / "reference" / "command-line.md"
SIZES = {"daily": 6_000, "radio": 4_000}
SHARED = 2_000
TWO = ("--publisher", "daily=6000", "--publisher", "radio=4000", "--delta", 1e-6)


@pytest.fixture(scope="module")
def plan() -> reach.ReachPlan:
    target = Target(2.0, 1e-6)
    return reach.plan(Audience(list(SIZES)), sizes=SIZES, target=target, hashes=1, title="Autumn")


@pytest.fixture
def campaign(tmp_path: Path, plan: reach.ReachPlan) -> Path:
    """A folder with a plan, a key, and the ids of two publishers."""
    plan.save(tmp_path / "campaign.plan.json")
    reach.new_key().save(tmp_path / "campaign.key")
    first = range(SIZES["daily"])
    second = range(SIZES["daily"] - SHARED, SIZES["daily"] - SHARED + SIZES["radio"])
    for name, numbers in (("daily", first), ("radio", second)):
        lines = ["id,views", *(f"user-{number},{1 + number % 3}" for number in numbers)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def encoding(folder: Path, publisher: str) -> list[object]:
    return [
        "reach", "encode", folder / f"{publisher}.csv", "--plan", folder / "campaign.plan.json",
        "--key", folder / "campaign.key", "--publisher", publisher, "--column", "id",
        "-o", folder / f"{publisher}.filter",
    ]  # fmt: skip


@pytest.fixture
def filters(campaign: Path, cli: Callable[..., Done]) -> list[Path]:
    for publisher in SIZES:
        assert cli(*encoding(campaign, publisher)).code == 0
    return [campaign / f"{publisher}.filter" for publisher in SIZES]


def analyzing(filters: list[Path], *more: object) -> list[object]:
    return ["reach", "analyze", *filters, "--plan", filters[0].parent / "campaign.plan.json", *more]


def test_a_quiet_plan_says_nothing(cli: Callable[..., Done], tmp_path: Path) -> None:
    target = tmp_path / "c.plan.json"
    done = cli("reach", "plan", *TWO, "--epsilon", 2, "-o", target, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert cli("reach", "plan", "--check", target, "-q", "--explain").out


def test_a_size_in_another_form_is_spelled_out(cli: Callable[..., Done]) -> None:
    for word, meant in (("daily=12k", "daily=12000"), ("daily=1,200,000", "daily=1200000")):
        done = cli("reach", "plan", "--publisher", word, "--epsilon", 1)
        assert f"hint: did you mean {meant}?" in done.err


# ---------------------------------------------------------------------------------- help


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_json_and_quiet_and_is_documented(
    verb: str, cli: Callable[..., Done]
) -> None:
    done = cli("reach", verb, "--help")
    assert done.code == 0
    assert "--json" in done.out
    assert "--quiet" in done.out
    assert f"reach {verb}" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [["reach", "--help"], ["reach", "encode", "--help"]])
def test_asking_for_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\nfrom chaffinch.cli import main\n"
        f"main({words!r})\nprint('@', *({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["@"]


# ---------------------------------------------------------------------------------- plan


@pytest.mark.parametrize("columns", [60, 80])
def test_a_plan_shows_promise_trust_and_what_was_weighed(
    columns: int, cli: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = cli("reach", "plan", *TWO, "--epsilon", 2, "-o", tmp_path / "c.plan.json")
    assert done.code == 0, done
    assert max(map(len, done.out.splitlines())) <= columns
    text = " ".join(done.out.split())
    for words in (
        "The promise covers one id",
        "In odds",
        "analyzer not having the campaign key",
        "colluder: epsilon left to an id at the other publishers",
        "hashes bits",
        "about: the flips are a guess",
    ):
        assert words in text
    assert ("unflipped: what would be left" in text) is (columns == 80)
    rows = [line for line in done.out.splitlines() if line.startswith(("→  ", "about  "))]
    assert sum(line.startswith("→") for line in rows) == 1
    assert len(rows) > 3
    reach.load_plan(tmp_path / "c.plan.json").verify()


def test_a_plan_has_a_delta_unless_another_is_asked_for(cli: Callable[..., Done]) -> None:
    words = ("reach", "plan", "--publisher", "a=600", "--publisher", "b=400", "--epsilon", 2)
    document = json.loads(cli(*words, "--json").out)
    assert float(document["plan"]["guarantee"]["delta"]) == 1e-8


def test_a_plan_as_json(cli: Callable[..., Done]) -> None:
    done = cli("reach", "plan", *TWO, "--epsilon", 2, "--frequencies", 2, "--json", "--explain")
    document = json.loads(done.out)
    assert document["plan"]["format"] == "chaffinch/reach-plan@1"
    assert document["plan"]["filters"]["frequencies"] == 2
    assert "The promise covers" in document["explanation"]
    chosen = [one for one in document["options"] if one["chosen"]]
    assert [one["guessed"] for one in chosen] == [False]
    assert chosen[0]["standard_error"] == document["standard_error"]
    assert chosen[0]["filter_bytes"] == document["filter_bytes"]
    assert chosen[0]["colluding_epsilon"] == document["colluding_epsilon"]
    assert all(one["guessed"] for one in document["options"] if not one["chosen"])


def test_what_is_fixed_stays_fixed(cli: Callable[..., Done]) -> None:
    words = ("--bits", 2**17, "--hashes", 2, "--title", "Two", "--json")
    document = json.loads(cli("reach", "plan", *TWO, "--epsilon", 2, *words).out)["plan"]
    assert (document["filters"]["bits"], document["filters"]["hashes"]) == (2**17, 2)
    assert document["title"] == "Two"
    small = json.loads(cli("reach", "plan", *TWO, "--epsilon", 2, "--max-bits", 8192, "--json").out)
    assert small["plan"]["filters"]["bits"] <= 8192


def test_a_rule_for_ids_stands_in_the_plan(cli: Callable[..., Done]) -> None:
    words = ("--ids", "phone", "--country-code", "39", "--trunk", "none", "--json")
    document = json.loads(cli("reach", "plan", *TWO, "--epsilon", 2, *words).out)["plan"]
    assert document["ids"] == {"rule": "phone", "country_code": "39", "trunk": ""}
    for more in ([], ["--explain"]):
        shown = cli("reach", "plan", *TWO, "--epsilon", 2, "--ids", "e-mail", *more).out
        assert " ".join(shown.split()).count("Ids are e-mail addresses") == 1
    assert cli("reach", "plan", *TWO, "--epsilon", 2, "--ids", "email").code == 2
    assert cli("reach", "plan", *TWO, "--epsilon", 2, "--country-code", "49").code == 2


def test_a_useless_promise_is_planned_only_anyway(cli: Callable[..., Done]) -> None:
    refused = cli("reach", "plan", *TWO, "--epsilon", 6)
    assert refused.code == 3
    assert "protects nobody" in refused.err
    assert "--anyway" in refused.err
    done = cli("reach", "plan", *TWO, "--epsilon", 6, "--anyway")
    assert done.code == 0
    assert "Warning: with epsilon 6 " in done.out


def test_checking_a_plan(cli: Callable[..., Done], campaign: Path) -> None:
    path = campaign / "campaign.plan.json"
    done = cli("reach", "plan", "--check", path)
    assert (done.code, "its guarantee holds" in done.err) == (0, True)
    assert "holds no alternatives" in done.out
    assert json.loads(cli("reach", "plan", "--check", path, "--json").out)["verified"] is True
    assert cli("plan", "--check", path).code == 2  # a plan of another kind


def test_a_plan_that_promises_too_much_is_refused(
    cli: Callable[..., Done], plan: reach.ReachPlan, tmp_path: Path
) -> None:
    replace(plan, epsilon=0.5).save(tmp_path / "false.plan.json")
    done = cli("reach", "plan", "--check", tmp_path / "false.plan.json")
    assert (done.code, done.out) == (4, "")
    assert "do not use it" in done.err


def test_a_plan_through_a_pipe(cli: Callable[..., Done]) -> None:
    done = cli("reach", "plan", *TWO, "--epsilon", 2, "-o", "-")
    assert json.loads(done.out)["format"] == "chaffinch/reach-plan@1"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], 2),
        (["--epsilon", 1], 2),
        (["--publisher", "daily=10", "--epsilon", 1], 3),
        (["--publisher", "daily=10", "--delta", 1e-6], 2),
        (["--publisher", "daily", "--epsilon", 1, "--delta", 1e-6], 2),
        (["--publisher", "daily=many", "--epsilon", 1, "--delta", 1e-6], 2),
        (["--publisher", "=5", "--epsilon", 1, "--delta", 1e-6], 2),
        (["--publisher", "a=5", "--publisher", "a=6", "--epsilon", 1, "--delta", 1e-6], 2),
        (["--publisher", "a=0", "--epsilon", 1, "--delta", 1e-6], 2),
        ([*TWO, "--epsilon", 1, "--frequencies", 11], 2),
        ([*TWO, "--epsilon", 0], 2),
        ([*TWO, "--epsilon", 1, "--check", "x.json"], 2),
        (["--check", "none.json"], 5),
        (["--publisher", "a=10", "--epsilon", 0.001, "--delta", 1e-9], 3),
    ],
)
def test_wrong_wishes(words: list[object], code: int, cli: Callable[..., Done]) -> None:
    done = cli("reach", "plan", *words)
    assert done.code == code, done
    assert done.out == ""
    assert done.err.count("error: ") == 1


# ---------------------------------------------------------------------------------- key


def test_a_key_is_private_new_and_says_whom_it_is_for(
    cli: Callable[..., Done], tmp_path: Path
) -> None:
    path = tmp_path / "campaign.key"
    done = cli("reach", "key", "-o", path)
    assert done.code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = " ".join(done.out.split())
    assert "The analyzer must not have it" in text
    assert "for one collection" in text
    before = path.read_bytes()
    assert before.decode().strip().rpartition(":")[2] not in done.out + done.err
    again = cli("reach", "key", "-o", path)
    assert (again.code, path.read_bytes()) == (2, before)
    assert "never overwritten" in again.err
    assert json.loads(cli("reach", "key", "-o", tmp_path / "b", "--json").out)["file"]
    assert cli("reach", "key", "-o", "-").code == 2
    quiet = cli("reach", "key", "-o", tmp_path / "c", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


# ---------------------------------------------------------------------------------- encode


def test_a_filter_says_nothing_of_how_many(campaign: Path, cli: Callable[..., Done]) -> None:
    done = cli(*encoding(campaign, "daily"), "--json")
    document = json.loads(done.out)
    assert set(document) == {
        "plan", "publisher", "key", "batch", "bits", "frequencies", "file",
    }  # fmt: skip
    assert reach.load_filter(document["file"]).batch == document["batch"]
    spoken = cli(*encoding(campaign, "daily"))
    assert spoken.out == ""
    assert "6,000" not in spoken.err
    assert "6000" not in spoken.err


def test_ids_through_a_pipe(
    campaign: Path, shell: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    line = (
        "chaffinch reach encode - --format csv --plan campaign.plan.json --key campaign.key "
        "--publisher daily --column id -o piped.filter < daily.csv"
    )
    done = shell(line, campaign)
    assert done.returncode == 0, done.stderr
    assert reach.load_filter(campaign / "piped.filter").publisher == "daily"


def test_views_may_be_counted_in_a_column(cli: Callable[..., Done], campaign: Path) -> None:
    plan = reach.plan(
        Audience(["daily"], frequencies=3), sizes=[6_000], target=Target(4, 1e-6), hashes=1
    )
    plan.save(campaign / "campaign.plan.json")
    done = cli(*encoding(campaign, "daily"), "--counts", "views")
    assert done.code == 0, done
    release = json.loads(cli(*analyzing([campaign / "daily.filter"]), "--json").out)
    by_kind = [row for row in release["groups"] if row["kind"] == "frequency"]
    truth = [4_000, 2_000]
    assert len(by_kind) == 2
    for row, seen in zip(by_kind, truth, strict=True):
        assert abs(row["estimate"] - seen) < 6 * row["standard_error"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"--publisher": "shop"}, 2),
        ({"--column": "name"}, 2),
        ({"--column": "views", "--counts": "id"}, 2),
        ({"--key": "daily.csv"}, 2),
        ({"--key": "none.key"}, 5),
        ({"--plan": "daily.csv"}, 2),
        ({"--missing": "perhaps"}, 2),
        ({"-o": "none/daily.filter"}, 5),
        ({"-o": "-"}, 2),
        ({"--ledger": "l"}, 2),
    ],
)
def test_what_cannot_be_encoded_leaves_nothing(
    change: dict[str, str],
    code: int,
    campaign: Path,
    cli: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(campaign)
    before = sorted(campaign.rglob("*"))
    words = dict(zip(*[iter(map(str, encoding(campaign, "daily")[3:]))] * 2, strict=True))
    options = [word for pair in (words | change).items() for word in pair]
    done = cli("reach", "encode", "daily.csv", *options)
    assert done.code == code, done
    assert done.err.count("error: ") == 1
    assert "user-" not in done.err
    assert sorted(campaign.rglob("*")) == before


def test_a_row_without_an_id_is_refused_or_skipped(
    campaign: Path, cli: Callable[..., Done]
) -> None:
    (campaign / "daily.csv").write_text("id,views\nuser-1,1\n,1\nuser-3,1\n")
    refused = cli(*encoding(campaign, "daily"))
    assert (refused.code, "user-" in refused.err) == (2, False)
    assert cli(*encoding(campaign, "daily"), "--missing", "skip", "--anyway").code == 0


def test_ids_are_spelled_by_the_rule_of_the_plan(
    campaign: Path, plan: reach.ReachPlan, cli: Callable[..., Done]
) -> None:
    ruled = replace(plan, ids=reach.IdRule("e-mail"))
    ruled.save(campaign / "campaign.plan.json")
    table = campaign / "daily.csv"
    lines = ["id", *(f"User{n}@Example.org " for n in range(6000)), "canary", '" "']
    table.write_text("\n".join(lines) + "\n")
    refused = cli(*encoding(campaign, "daily"))
    assert refused.code == 2
    told = " ".join(refused.err.split())
    assert "in row 6002, and none in row 6003, as a spreadsheet counts" in told
    assert "canary" not in refused.out + refused.err
    done = cli(*encoding(campaign, "daily"), "--unfit", "skip", "--missing", "skip")
    assert done.code == 0, done
    assert "6,000 ids changed by the rule e-mail" in done.err
    assert "skipped: 1 row without an id, 1 row with an id that does not fit" in done.err
    # Nobody but the publisher is told.
    assert b"6000" not in (campaign / "daily.filter").read_bytes().split(b"\n")[1]


def test_a_publisher_pays_once_and_never_makes_a_second_filter(
    campaign: Path, cli: Callable[..., Done]
) -> None:
    files = ("--ledger", campaign / "l", "--mark", campaign / "m")
    cap = ("--epsilon", 3, "--delta", 1e-5, "--role", "client")
    assert cli("ledger", "create", campaign / "l", "--mark", campaign / "m", *cap).code == 0
    done = cli(*encoding(campaign, "daily"), *files, "--json")
    charge = json.loads(done.out)["charge"]
    assert charge["key"].endswith("/daily")
    made = (campaign / "daily.filter").read_bytes()
    again = cli(*encoding(campaign, "daily"), *files)
    assert again.code == 2
    assert "new key" in again.err
    assert (campaign / "daily.filter").read_bytes() == made
    # Another publisher, or another key, is another occasion.
    assert cli(*encoding(campaign, "radio"), *files).code == 0
    assert not list(campaign.glob(".chaffinch-*"))


def test_nothing_is_handed_out_that_does_not_fit(campaign: Path, cli: Callable[..., Done]) -> None:
    files = ("--ledger", campaign / "l", "--mark", campaign / "m")
    cap = ("--epsilon", 0.5, "--delta", 1e-6, "--role", "client")
    assert cli("ledger", "create", campaign / "l", "--mark", campaign / "m", *cap).code == 0
    done = cli(*encoding(campaign, "daily"), *files)
    assert done.code == 4
    assert not (campaign / "daily.filter").exists()
    assert not list(campaign.glob("daily.filter*"))


# ---------------------------------------------------------------------------------- analyze


def test_the_whole_way(filters: list[Path], cli: Callable[..., Done]) -> None:
    folder = filters[0].parent
    outs = [word for kind in ("html", "json", "csv") for word in ("-o", folder / f"r.{kind}")]
    done = cli(*analyzing(filters[::-1], *outs))
    assert done.code == 0, done
    release = load_reach_release(folder / "r.json")
    truths = {"daily or radio": 8_000, "daily": 6_000, "daily and radio": 2_000}
    for group, truth in truths.items():
        row = release.row(group)
        assert abs(row.estimate - truth) < 6 * row.standard_error
    assert max(map(len, done.out.splitlines())) <= 80
    for words in ("all publishers", "only daily", "daily and radio", "campaign key"):
        assert words in done.out
    assert "<svg" in (folder / "r.html").read_text(encoding="utf-8")


def test_groups_that_are_asked_for(filters: list[Path], cli: Callable[..., Done]) -> None:
    asked = ("--any", "radio", "--all", "radio, daily", "--any", "daily,radio")
    document = json.loads(cli(*analyzing(filters, *asked, "--json")).out)
    # All of these are usual ones already, in whatever order they are named.
    assert [row["kind"] for row in document["groups"]].count("asked") == 0
    wrong = cli(*analyzing(filters, "--any", "daily,shop"))
    assert (wrong.code, "'shop'" in wrong.err) == (2, True)


def test_level_and_adjustment(filters: list[Path], cli: Callable[..., Done]) -> None:
    wide = json.loads(cli(*analyzing(filters, "--level", "99.9%", "--json")).out)
    usual = json.loads(cli(*analyzing(filters, "--json")).out)
    assert wide["groups"][0]["high"] > usual["groups"][0]["high"]
    moved = json.loads(cli(*analyzing(filters, "--adjust", "non-negative", "--json")).out)
    assert any("biases" in note for note in moved["notes"])


def test_the_analyzer_pays_once(filters: list[Path], cli: Callable[..., Done]) -> None:
    folder = filters[0].parent
    files = ("--ledger", folder / "l", "--mark", folder / "m")
    cap = ("--epsilon", 3, "--delta", 1e-5)
    assert cli("ledger", "create", folder / "l", "--mark", folder / "m", *cap).code == 0
    first = json.loads(cli(*analyzing(filters, *files, "--json")).out)
    assert (first["charge"]["charged_before"], first["charge"]["key"]) == (False, first["key"])
    again = cli(*analyzing(filters, *files))
    assert "charged before to l" in again.out
    # Other filters under the same key would show the same columns again.
    filters[0].unlink()
    for record in reach.load_key(folder / "campaign.key").records:
        record.unlink()
    assert cli(*encoding(folder, "daily")).code == 0
    other = cli(*analyzing(filters, *files))
    assert (other.code, "one for each collection" in other.err) == (2, True)


def test_nothing_is_charged_for_a_release_that_cannot_be_written(
    filters: list[Path], cli: Callable[..., Done]
) -> None:
    folder = filters[0].parent
    files = ("--ledger", folder / "l", "--mark", folder / "m")
    cap = ("--epsilon", 3, "--delta", 1e-5)
    assert cli("ledger", "create", folder / "l", "--mark", folder / "m", *cap).code == 0
    assert cli(*analyzing(filters, *files, "-o", folder / "nowhere" / "r.html")).code == 5
    shown = json.loads(cli("ledger", "show", folder / "l", "--mark", folder / "m", "--json").out)
    assert shown["charges"] == []
    plan = folder / "campaign.plan.json"
    checked = cli("ledger", "check", folder / "l", "--mark", folder / "m", "--plan", plan)
    assert (checked.code, "it fits" in checked.out) == (0, True)


def test_filters_that_do_not_belong_together(filters: list[Path], cli: Callable[..., Done]) -> None:
    folder = filters[0].parent
    missing = cli(*analyzing(filters[:1]))
    assert (missing.code, "radio" in missing.err) == (2, True)
    assert cli(*analyzing([*filters, filters[0]])).code == 2
    (folder / "campaign.key").unlink()
    reach.new_key().save(folder / "campaign.key")
    filters[0].unlink()
    assert cli(*encoding(folder, "daily")).code == 0
    other = cli(*analyzing(filters))
    assert (other.code, "one campaign key" in other.err) == (2, True)
    filters[1].write_bytes(filters[1].read_bytes()[:-100])
    assert cli(*analyzing(filters)).code == 2
    assert cli(*analyzing([*filters[:1], folder / "none.filter"])).code == 5
    wrong = cli(*analyzing(filters, "-o", folder / "r.xlsx"))
    assert (wrong.code, ".json" in wrong.err) == (2, True)


def test_filters_that_are_full_are_refused(campaign: Path, cli: Callable[..., Done]) -> None:
    small = reach.plan(Audience(["daily"]), sizes=[100], target=Target(4, 1e-4), bits=256)
    small.save(campaign / "campaign.plan.json")
    done = cli(*encoding(campaign, "daily"), "--json")
    assert done.code == 2
    assert json.loads(done.out)["error"]["code"] == "filter-full"
    assert not (campaign / "daily.filter").exists()


def test_what_was_charged_is_never_lost(
    campaign: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the charge and the last name of the file everything may go wrong."""
    files = ("--ledger", campaign / "l", "--mark", campaign / "m")
    cap = ("--epsilon", 3, "--delta", 1e-5, "--role", "client")
    assert cli("ledger", "create", campaign / "l", "--mark", campaign / "m", *cap).code == 0
    folder = [*encoding(campaign, "daily")[:-1], campaign]
    assert cli(*folder, *files).code == 5

    link = os.link

    def failing(path: Path, target: Path) -> None:
        if Path(target).name == "daily.filter":
            raise OSError(errno.EACCES, "")
        link(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", failing)
        done = cli(*encoding(campaign, "daily"), *files)
    assert (done.code, "nothing is lost" in done.err) == (5, True)
    assert not list(campaign.glob("daily.filter*"))
    digest = charges(campaign, cli)[0]["subject"]
    again = cli(*encoding(campaign, "daily"), *files, "--json")
    assert (again.code, "finished an earlier" in again.err) == (0, True)
    assert json.loads(again.out)["charge"]["charged_before"]
    assert reach.load_filter(campaign / "daily.filter").digest == digest
    assert len(charges(campaign, cli)) == 1
    assert not list(campaign.glob(".*"))


def charges(campaign: Path, cli: Callable[..., Done]) -> list[dict[str, Any]]:
    """Return what the ledger of a campaign holds."""
    shown = cli("ledger", "show", campaign / "l", "--mark", campaign / "m", "--json")
    found: list[dict[str, Any]] = json.loads(shown.out)["charges"]
    return found


@pytest.mark.parametrize("stop", [KeyboardInterrupt, StorageFault("The disk must work. Got none.")])
@pytest.mark.parametrize("written", [True, False])
def test_whatever_stops_a_charge_the_filter_is_kept_if_it_was_charged(
    *,
    written: bool,
    stop: BaseException,
    campaign: Path,
    cli: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = ("--ledger", campaign / "l", "--mark", campaign / "m")
    cap = ("--epsilon", 3, "--delta", 1e-5, "--role", "client")
    assert cli("ledger", "create", campaign / "l", "--mark", campaign / "m", *cap).code == 0
    charge = Ledger.charge

    def stopped(ledger: Ledger, *given: Any, **more: Any) -> None:
        if written:
            charge(ledger, *given, **more)
        raise stop

    monkeypatch.setattr(Ledger, "charge", stopped)
    done = cli(*encoding(campaign, "daily"), *files)
    assert done.code != 0
    monkeypatch.undo()
    assert not list(campaign.glob("daily.filter*"))
    assert len(list(campaign.glob(".chaffinch-*.waiting"))) == written
    before = charges(campaign, cli)
    assert len(before) == written
    again = cli(*encoding(campaign, "daily"), *files)
    assert again.code == 0
    after = charges(campaign, cli)
    assert len(after) == 1
    assert not written or after == before
    assert reach.load_filter(campaign / "daily.filter").digest == after[0]["subject"]


def test_a_ledger_pays_for_its_own_role_only(filters: list[Path], cli: Callable[..., Done]) -> None:
    folder = filters[0].parent
    for role in ("client", "analyzer"):
        cap = ("--epsilon", 3, "--delta", 1e-5, "--role", role)
        files = (folder / role, "--mark", folder / f"{role}.mark")
        assert cli("ledger", "create", *files, *cap).code == 0
    paid = ("--ledger", folder / "client", "--mark", folder / "client.mark")
    wrong = cli(*analyzing(filters, *paid))
    assert (wrong.code, "of the role analyzer" in wrong.err) == (2, True)
    filters[0].unlink()
    paid = ("--ledger", folder / "analyzer", "--mark", folder / "analyzer.mark")
    wrong = cli(*encoding(folder, "daily"), *paid)
    assert (wrong.code, "of the role client" in wrong.err) == (2, True)


def test_no_output_overwrites_an_input(filters: list[Path], cli: Callable[..., Done]) -> None:
    plan = filters[0].parent / "campaign.plan.json"
    before = plan.read_bytes()
    done = cli(*analyzing(filters, "-o", plan))
    assert (done.code, "another file than a plan" in done.err) == (2, True)
    assert plan.read_bytes() == before


def test_a_publisher_accepts_no_empty_promise(campaign: Path, cli: Callable[..., Done]) -> None:
    assert Target(_PromiseOptions().max_epsilon, _PromiseOptions().max_delta) == WITHIN
    for more, code in ((("--max-epsilon", 1), 2), (("--max-delta", 1e-9), 2), ((), 0)):
        done = cli(*encoding(campaign, "daily"), *more)
        assert done.code == code, done
        assert (campaign / "daily.filter").exists() is (code == 0)
    assert "the plan promises (2, 1e-06)-differential privacy" in done.err


def test_a_publisher_is_told_what_went_in(campaign: Path, cli: Callable[..., Done]) -> None:
    (campaign / "daily.csv").write_text("id,views\nuser-1,1\nuser-2,1\n")
    done = cli(*encoding(campaign, "daily"), "--anyway")
    assert "2 rows read, about 2 different ids" in done.err
    assert "is this the right table?" in done.err
    again = cli(*encoding(campaign, "daily"), "--anyway")
    assert (again.code, "has made no filter of 'daily' yet" in again.err) == (2, True)


def test_a_list_of_another_size_is_refused_before_anything_is_recorded(
    campaign: Path, cli: Callable[..., Done]
) -> None:
    """A wrong column burned the key for its publisher."""
    paid = ("--ledger", campaign / "ledger.db", "--mark", campaign / "ledger.mark")
    made = ("ledger", "create", paid[1], *paid[2:], "--role", "client")
    assert cli(*made, "--epsilon", 2, "--delta", 1e-6).code == 0
    words = encoding(campaign, "daily")
    words[words.index("id")] = "views"
    done = cli(*words, *paid)
    assert (done.code, done.out) == (2, "")
    assert "Got less than half of them." in done.err
    assert "the right --column? Otherwise" in done.err
    assert "about 3 different ids" in done.err
    assert "different ids;" not in cli(*words, "-q", *paid).err
    assert not (campaign / "daily.filter").exists()
    assert not list(campaign.glob("*.record"))
    assert len(Ledger.open(campaign / "ledger.db", mark=campaign / "ledger.mark").entries()) == 0
    (campaign / "many.csv").write_text("\n".join(["id", *map(str, range(12_500))]) + "\n")
    many = [campaign / "many.csv" if one == campaign / "daily.csv" else one for one in words]
    many[many.index("views")] = "id"
    assert "Got more than twice as many." in cli(*many, *paid).err
    assert cli(*encoding(campaign, "daily"), *paid).code == 0


def test_a_key_is_never_overwritten(campaign: Path, cli: Callable[..., Done]) -> None:
    before = (campaign / "campaign.key").read_bytes()
    for verb in (["plan", *TWO, "--epsilon", 2], encoding(campaign, "daily")[1:-2]):
        done = cli("reach", *verb, "-o", campaign / "campaign.key")
        assert (done.code, "another file than a key" in done.err) == (2, True)
    assert (campaign / "campaign.key").read_bytes() == before


def test_a_key_that_others_can_read_is_refused(campaign: Path, cli: Callable[..., Done]) -> None:
    (campaign / "campaign.key").chmod(0o644)
    done = cli(*encoding(campaign, "daily"))
    assert (done.code, "chmod 600" in done.err) == (2, True)


# ---------------------------------------------------------------------------------- the others


@pytest.mark.long
@pytest.mark.parametrize("columns", [60, 80])
def test_figures_side_by_side(
    columns: int, campaign: Path, cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = cli("reach", "compare", "--plan", campaign / "campaign.plan.json")
    assert done.code == 0, done
    assert max(map(len, done.out.splitlines())) <= columns
    for words in ("upper-bound", "worst-pair-assumed", "monte-carlo", "if a publisher"):
        assert words in done.out
    again = cli("reach", "compare", "--plan", campaign / "campaign.plan.json", "--json")
    document = json.loads(again.out)
    proven, key, colluding, assumed = document["one_id"]
    assert proven["guarantee"]
    assert not assumed["guarantee"]
    assert assumed["epsilon"] <= proven["epsilon"] <= 2.0 * (1 + 1e-6)
    assert colluding["epsilon"] < key["epsilon"]
    assert document["one_column"][0]["method"] == "upper-bound"


def test_figures_by_numbers(cli: Callable[..., Done]) -> None:
    numbers = ("--filters", 1, "--bits", 1000, "--flip", "0.1")
    done = cli("reach", "compare", *numbers, "--delta", 1e-3)
    assert "1 filter of 1,000 bits" in done.out
    assert "if a publisher" not in done.out
    assert cli("reach", "compare", *numbers).code == 2
    assert cli("reach", "compare", "--delta", 1e-3).code == 2
    assert cli("reach", "compare", *numbers, "--delta", 1e-3, "--plan", "x").code == 2


@pytest.mark.long
def test_monte_carlo_runs_by_default_or_says_what_it_needs(cli: Callable[..., Done]) -> None:
    numbers = ("reach", "compare", "--filters", 2, "--bits", 1000, "--flip", "0.2", "--delta")

    def sampled(delta: float, *more: object) -> dict[str, Any]:
        document = json.loads(cli(*numbers, delta, *more, "--json").out)
        (row,) = [row for row in document["one_column"] if row["method"] == "monte-carlo"]
        return dict(row)

    usual = sampled(1e-4)
    assert (usual["samples"], usual["upper"] > 0) == (100_000, True)
    rare = sampled(1e-6)
    assert rare["upper"] is None
    assert "needs 10,000,000 samples" in rare["note"]
    assert "--samples 10000000 takes them" in rare["note"]
    assert "a delta of 1e-05 or more (--delta)" in sampled(1e-9)["note"]
    # What a note says is enough is enough.
    assert sampled(1e-3, "--samples", 10_000)["upper"] > 0


def test_one_filter_with_bits_that_are_set(cli: Callable[..., Done]) -> None:
    numbers = ("reach", "compare", "--filters", 1, "--bits", 200, "--flip", "0.1", "--delta", 1e-3)

    def epsilon(*more: object) -> float:
        document = json.loads(cli(*numbers, *more, "--json").out)
        (row,) = [row for row in document["one_column"] if row["method"] == "published"]
        return float(row["upper"])

    usual = epsilon()
    assert epsilon("--input-ones", 0) == usual
    assert epsilon("--input-ones", 100) < usual
    assert cli(*numbers, "--input-ones", 200).code == 2
    two = ("reach", "compare", "--filters", 2, "--bits", 200, "--flip", "0.1", "--delta", 1e-3)
    assert "left out for several" in cli(*two, "--input-ones", 1).err


def test_the_smallest_flip_probability(cli: Callable[..., Done]) -> None:
    wanted = ("--epsilon", 1, "--delta", 1e-6, "--filters", 2, "--bits", 10_000, "--hashes", 2)
    document = json.loads(cli("reach", "flips", *wanted, "--json").out)
    of_id, of_column, assumed = (Fraction(row["flip_probability"]) for row in document["flips"])
    assert [row["guarantee"] for row in document["flips"]] == [True, True, False]
    ids = {"filters": 2, "bits": 10_000, "hashes": 2}
    for flip, kept in ((of_id, True), (of_id * Fraction(99, 100), False)):
        found = privacy.FlippedAudiences(**ids, flip_probability=flip)
        assert (found.delta_bound(1) <= 1e-6) == kept
    columns = {"filters": 2, "bits": 10_000}
    for flip, kept in ((of_column, True), (of_column * Fraction(99, 100), False)):
        assert (
            privacy.FlippedFilters(**columns, flip_probability=flip).delta(1).upper <= 1e-6
        ) == kept
    assert assumed < of_column < of_id
    table = cli("reach", "flips", *wanted)
    assert "2 filters of 10,000 bits, 2 columns for each id" in table.out
    assert all(words in table.out for words in ("one id", "worst-pair-assumed", "upper-bound"))
    assert cli("reach", "flips", *wanted[:2], "--delta", 0, *wanted[4:]).code == 2


def test_observations_are_drawn(cli: Callable[..., Done], tmp_path: Path) -> None:
    done = cli("reach", "figures", "-o", tmp_path / "figures", "--json")
    files = [Path(name) for name in json.loads(done.out)["files"]]
    assert all(path.exists() for path in files)
    assert {path.suffix for path in files} == {".svg", ".html"}
    assert set(cli("reach", "figures", "-o", tmp_path / "figures").out.split()) == set(
        map(str, files)
    )


def test_the_demo_tells_the_truth_and_that_it_can(cli: Callable[..., Done], tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = cli("reach", "demo", "-o", folder)
    assert done.code == 0, done
    # What names a file is there to be copied, and not cut.
    assert max(len(line) for line in done.out.splitlines() if str(folder) not in line) <= 80
    assert f"chaffinch reach plan --check {folder / 'campaign.plan.json'} --explain" in done.out
    assert "only because these ids are made up" in " ".join(done.out.split())
    again = json.loads(cli("reach", "demo", "-o", folder, "--json", "--quiet").out)
    assert all(Path(file).exists() for file in again["files"])
    assert sorted(map(str, folder.iterdir())) == sorted(again["files"])
    truth = again["made_up_truth"]
    for row in again["release"]["groups"]:
        # Seven standard errors: fourteen rows miss it with chance 4e-11.
        assert abs(row["estimate"] - truth[row["group"]]) < 7 * row["standard_error"]
    command = done.out.strip().splitlines()[-1].split()
    assert cli(*command[1:]).code == 0


# ---------------------------------------------------------------------------------- lists


def listed(folder: Path, lines: list[str]) -> None:
    (folder / "daily.csv").write_text("\n".join(lines) + "\n")


def test_addresses_in_several_spellings_need_a_rule(
    campaign: Path, cli: Callable[..., Done], plan: reach.ReachPlan
) -> None:
    assert plan.ids.name == "as-is"
    listed(campaign, ["id", *(f"{'U' if n % 3 else 'u'}{n}@b.org" for n in range(6_000))])
    done = cli(*encoding(campaign, "daily"))
    assert done.code != 0
    assert "4,000 of 6,000 ids have capital letters" in done.err
    assert "--ids e-mail" in done.err
    assert "the plan promises" not in done.err  # nothing was made
    done = cli(*encoding(campaign, "daily"), "--anyway")
    assert done.code == 0, done.err
    assert "4,000 of 6,000 ids" in done.err
    assert "the plan promises" in done.err


def test_other_ids_with_capitals_are_only_told(campaign: Path, cli: Callable[..., Done]) -> None:
    listed(campaign, ["id", *(f"User-{n}" for n in range(6_000))])
    done = cli(*encoding(campaign, "daily"))
    assert done.code == 0, done.err
    assert "6,000 of 6,000 ids have capital letters" in done.err


def test_a_plan_hints_at_rules_for_ids(cli: Callable[..., Done]) -> None:
    words = ("reach", "plan", *TWO, "--epsilon", 2, "--hashes", 1)
    assert "--ids e-mail" in cli(*words).out
    assert "plan with" not in cli(*words, "--ids", "e-mail").out


def test_a_column_that_is_not_named_is_guessed_only_by_a_usual_name(
    campaign: Path, cli: Callable[..., Done]
) -> None:
    asked = [one for one in encoding(campaign, "daily") if one not in ("--column", "id")]
    for names, hint in (
        ("country,E-mail", "add --column E-mail"),
        ("ann miller,berlin", "--column, column="),
    ):
        listed(campaign, [names, "a,b"])
        done = cli(*asked)
        assert hint in done.err
        assert "miller" not in done.err


def test_a_column_of_misfits_is_probably_another_one(
    tmp_path: Path, campaign: Path, cli: Callable[..., Done]
) -> None:
    target = Target(2.0, 1e-6)
    audience = Audience(list(SIZES))
    path = tmp_path / "campaign.plan.json"
    path.unlink()
    reach.plan(audience, sizes=SIZES, target=target, hashes=1, ids="e-mail").save(path)
    for table, asked in (
        (["id,at", *["u@b.org,DE"] * 9, "u,DE"], False),
        (["id,at", "DE,b"], True),
    ):
        listed(campaign, table)
        assert ("is this the column" in cli(*encoding(campaign, "daily")).err) is asked


def test_a_key_of_another_plan_is_told_before_its_publisher(
    campaign: Path, cli: Callable[..., Done], plan: reach.ReachPlan
) -> None:
    assert cli(*encoding(campaign, "daily")).code == 0
    path = campaign / "campaign.plan.json"
    path.unlink()
    replace(plan, title="Another").save(path)
    done = cli(*encoding(campaign, "daily"))
    assert "made no filter for another plan" in done.err
    assert "SHA-256" not in done.err
