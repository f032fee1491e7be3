"""The verbs that compute: privacy, compare, simulate, audit, ledger."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

import chaffinch as cf
from chaffinch import privacy
from chaffinch.charts.curves import mechanism_name
from chaffinch.cli.compare import _named, _Randomizer
from chaffinch.cli.privacy import _MECHANISMS, _make_mechanism, _Parameters
from chaffinch.planning import published_parameters
from chaffinch.privacy import published
from tests.cli.conftest import YES, Done

BITS = ("privacy", "bits", "--users", 200, "--flip", "0.1")


def test_privacy_tells_both_ends(cli: Callable[..., Done]) -> None:
    document = json.loads(cli(*BITS, "--delta", 1e-6, "--epsilon", 0.5, "--json").out)
    own = privacy.FlippedBits(users=200, flip_probability="0.1")
    first, second = document["numbers"]
    assert (first["lower"], first["upper"]) == (own.epsilon(1e-6).lower, own.epsilon(1e-6).upper)
    assert (second["lower"], second["upper"]) == (own.delta(0.5).lower, own.delta(0.5).upper)
    assert document["method"] == "exact"


def test_privacy_as_a_table_and_a_drawing(cli: Callable[..., Done], tmp_path: Path) -> None:
    done = cli(*BITS, "--curve", "--tradeoff", "--plot", tmp_path / "t.svg")
    assert done.code == 0, done.err
    assert max(map(len, done.out.splitlines())) <= 80
    assert "exact, worst crowd" in done.out
    assert done.out.count("Neighbours: replace-one") >= 2
    assert (tmp_path / "t.svg").read_text().startswith("<")


def test_the_table_rounds_outwards(cli: Callable[..., Done]) -> None:
    done = cli(*BITS, "--delta", 1e-6)
    row = next(line for line in done.out.splitlines() if line.startswith("delta 1e-06"))
    bracket = privacy.FlippedBits(users=200, flip_probability="0.1").epsilon(1e-6)
    low, high = map(float, row.split()[-2:])
    assert low <= bracket.lower <= bracket.upper <= high


@pytest.mark.long
def test_vectors_tell_what_each_end_is(cli: Callable[..., Done]) -> None:
    vectors = ("privacy", "vectors", "--users", 1000, "--bits", 8, "--flip", "0.3")
    own = privacy.FlippedVectors(users=1000, bits=8, flip_probability="0.3")
    proven, assumed = own.epsilon(1e-6).upper, own.assumed_pair().epsilon(1e-6)
    document = json.loads(cli(*vectors, "--delta", 1e-6, "--epsilon", 2, "--json").out)
    first, second = document["numbers"]
    assert first["upper"] == proven > 2 * first["lower"]
    assert (first["lower_is"], first["upper_is"]) == ("worst crowd found", "privacy blanket")
    assert first["assumed_pair"] == {
        "lower": assumed.lower,
        "upper": assumed.upper,
        "method": "worst-pair-assumed",
    }
    assert first["assumed_pair"]["lower"] <= first["lower"]
    pair = own.assumed_pair().delta(2.0)
    assert (second["assumed_pair"]["lower"], second["assumed_pair"]["upper"]) == (
        pair.lower,
        pair.upper,
    )
    assert document["unproven"].startswith("Unproven: ")
    out = cli(*vectors, "--delta", 1e-6).out
    assert max(map(len, out.splitlines())) <= 80
    lines = [line for line in out.splitlines() if "1.34" in line or "3.26" in line]
    # A crowd, a proof and the exact pair: no line has both ends of the wide bracket.
    assert ["1.34835" in line for line in lines] == [True, False, True]
    assert "worst crowd found" in lines[0]
    assert "every crowd, proven" in lines[1]
    assert "assumed pair" in lines[2]
    assert "Unproven: " in out


def test_short_words_and_single_bits_say_what_proves_them(cli: Callable[..., Done]) -> None:
    few = ("privacy", "vectors", "--users", 2, "--bits", 3, "--flip", "0.1", "--epsilon", 1)
    assert json.loads(cli(*few, "--json").out)["numbers"][0]["upper_is"] == "one word alone"
    single = ("privacy", "vectors", "--users", 200, "--bits", 1, "--flip", "0.1", "--delta", 1e-6)
    document = json.loads(cli(*single, "--json").out)
    assert "unproven" not in document
    assert "assumed_pair" not in document["numbers"][0]


@pytest.mark.long
def test_rounds_of_vectors_tell_what_each_end_is(cli: Callable[..., Done]) -> None:
    vectors = ("privacy", "vectors", "--users", 60, "--bits", 2, "--flip", "0.3", "--times", 2)
    document = json.loads(cli(*vectors, "--delta", 1e-6, "--json").out)
    (row,) = document["numbers"]
    assert row["lower"] < row["upper"]
    assert (row["lower_is"], row["upper_is"]) == ("worst crowd found", "its rounds composed")
    assert "assumed_pair" not in row
    assert "in a round" in document["unproven"]
    lines = cli(*vectors, "--delta", 1e-6).out.splitlines()
    assert any("worst crowd found" in line for line in lines)
    assert any("every crowd, proven (its rounds" in line for line in lines)
    assert any(line.startswith("Unproven: ") for line in lines)


def test_rounds_cost_more(cli: Callable[..., Done]) -> None:
    def epsilon(*more: object) -> float:
        document = json.loads(cli(*BITS, "--delta", 1e-6, "--json", *more).out)
        return float(document["numbers"][0]["upper"])

    assert epsilon("--times", 3) > epsilon()


def test_every_mechanism_can_be_made(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("3/4,1/4\n0.25,0.75\n")
    given = _Parameters(
        users=50,
        flip="1/5",
        decoys=40,
        values=3,
        bits=2,
        filters=2,
        resolution=4,
        question="bit",
        ratio="2/3",
        responders=20,
        sampling="0.1",
        threshold=5,
        hashes=1,
        permanent="1/2",
        steps=4,
        law="gaussian",
        scale="2",
        flood="3/4,5/12",
        local_epsilon=1.0,
        table=table,
    )
    for name, (kind, needed, _) in _MECHANISMS.items():
        only = {one: getattr(given, one) for one in needed}
        if name == "decoys":
            only["decoys"] = 40
        assert type(_make_mechanism(name, _Parameters(**only))).__name__ == kind.split(".")[-1]


def test_noise_of_one_party_and_audiences_have_the_numbers_of_python(
    cli: Callable[..., Done],
) -> None:
    for words, own in (
        (
            ("totals", "--law", "gaussian", "--scale", 5, "--counts", 2),
            privacy.NoisyTotals(law="gaussian", scale=5, counts=2),
        ),
        (
            ("audiences", "--filters", 2, "--bits", 1024, "--hashes", 2, "--flip", "0.2"),
            privacy.FlippedAudiences(filters=2, bits=1024, hashes=2, flip_probability="0.2"),
        ),
    ):
        (row,) = json.loads(cli("privacy", *words, "--delta", 1e-4, "--json").out)["numbers"]
        assert (row["lower"], row["upper"]) == (own.epsilon(1e-4).lower, own.epsilon(1e-4).upper)
        done = cli("privacy", *words)
        assert done.code == 0, done.err
        shown = " ".join(done.out.split())
        assert ("scale 5, 2 counts" in shown) == (words[0] == "totals")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("privacy", "bits", "--users", 10), "--flip must be given"),
        ((*BITS, "--values", 3), "bits takes --users, --flip, --copies, --decoys"),
        (("privacy", "bits", "--users", 10, "--flip", "0.7"), "flip probability"),
        (("privacy", "bitts"), "Did you mean"),
        ((*BITS, "--plot", "figure.txt"), "file name"),
    ],
)
def test_wrong_parameters(words: tuple[object, ...], part: str, cli: Callable[..., Done]) -> None:
    done = cli(*words)
    assert done.code == 2
    assert part in done.err


def test_compare_labels_proofs_and_claims(cli: Callable[..., Done]) -> None:
    words = ("compare", "--users", 200, "--epsilon", 1, "--delta", 1e-4, "--values", 3)
    document = json.loads(cli(*words, "--json").out)
    lines = document["lines"]
    exact = next(one for one in lines if one["protocol"] == "flipped bit")
    assert exact["kind"] == "exact"
    found = privacy.FlippedBits(users=200, flip_probability=exact["value"])
    assert found.delta(1.0).upper <= 1e-4
    claimed = next(one for one in lines if one["source"].startswith("Zhilyaev 2020 (4.48)"))
    assert claimed["kind"] == "published"
    asked = published.any_crowd_flip_probability(users=200, epsilon=1.0, delta=1e-4)
    assert claimed["value"] == asked
    assert claimed["ratio"] == pytest.approx(asked / exact["value"])
    assert {one["kind"] for one in lines} == {"exact", "published"}
    centre = next(one for one in lines if one["protocol"] == "trusted centre, bit")
    assert (centre["source"], centre["people_with_centre"]) == ("discrete Laplace", 200)
    share = math.ceil(200 * centre["error"] / exact["error"])
    assert exact["people_with_centre"] == share
    number = next(one for one in lines if one["protocol"] == "number in 8 bits")
    noises = [one["error"] for one in lines if one["protocol"] == "trusted centre, number"]
    assert number["people_with_centre"] == math.ceil(200 * min(noises) / number["error"])


def test_compare_as_a_table(cli: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    # What takes the longest is left out.
    monkeypatch.setattr(published_parameters, "_values", lambda *_: iter(()))
    words = ("compare", "--users", 20, "--epsilon", 1, "--delta", 1e-4, "--values", 3)
    out = cli(*words).out
    assert max(map(len, out.splitlines())) <= 80
    for part in ("exact", "published", "nothing", "note: Zhilyaev and Zeber 2016a (4.45)"):
        assert part in out


def test_simulate_is_repeatable_and_as_predicted(cli: Callable[..., Done], folder: Path) -> None:
    words = ("simulate", "--plan", folder / "members.plan.json", "--runs", 200, "--seed", 7)
    first, second = cli(*words, "--json"), cli(*words, "--json")
    assert first.code == 0
    assert first.out == second.out
    assert json.loads(first.out)["faults"] == []
    assert "as predicted" in " ".join(cli(*words, "--population", "zipf").out.split())


def test_simulating_a_table_does_not_tell_its_counts(
    cli: Callable[..., Done], folder: Path
) -> None:
    # A seed that is drawn has twenty digits, among which the count may stand by chance.
    words = ("simulate", "--plan", folder / "members.plan.json", "--runs", 200, "--seed", 7)
    column = ("--population", f"{folder / 'people.csv'}:member")
    document = json.loads(cli(*words, *column, "--json").out)
    assert not {"truth", "mean"} & set(document["values"][0])
    out = cli(*words, *column).out
    assert f"{YES:,}" not in out
    assert str(YES) not in out
    assert cli(*words, "--population", "gauss").code == 2


def test_audit(cli: Callable[..., Done], folder: Path) -> None:
    words = ("audit", "--plan", folder / "members.plan.json", "--trials", 1000, "--seed", 3)
    done = cli(*words, "--crowd", 10, "--json")
    assert done.code == 0, done.out
    document = json.loads(done.out)
    assert document["ok"] is True
    assert all(one["lower_bound"] <= one["claimed"] for one in document["findings"])
    done = cli(*words, "--crowd", 10)
    assert "No violation found" in done.out
    assert "1,000" in done.out
    assert "attacking: 1,000 collections of each of two worlds" in done.err
    assert "attacking: 1 attack done" in done.err


@pytest.mark.long
def test_an_audit_that_tests_nothing_is_refused(cli: Callable[..., Done], folder: Path) -> None:
    path = folder / "signed.plan.json"
    asked = ("--bit", "--users", 1000, "--epsilon", 1, "--delta", 1e-6, "--local-epsilon", "none")
    assert cli("plan", *asked, "--out", path).code == 0
    words = ("audit", "--plan", path, "--trials", 1000, "--seed", 3)
    alone = cli(*words, "--crowd", 1)
    assert alone.code == 4
    assert "Nothing was tested" in alone.out
    small = cli(*words, "--crowd", 20)
    assert small.code == 0
    for part in ("real path", "law of tallies", "sizes and answers", "not looked at"):
        assert part in small.out
    assert json.loads(cli(*words, "--crowd", 1, "--json").out)["untested"] == ["answer"]


def test_a_ledger_from_making_to_refusing(cli: Callable[..., Done], folder: Path) -> None:
    place = (folder / "ledger.db", "--mark", folder / "ledger.mark")
    plan = ("--plan", folder / "members.plan.json")
    made = cli("ledger", "create", *place, "--epsilon", 1, "--delta", 1e-5)
    assert made.code == 0
    assert cli("ledger", "create", *place, "--epsilon", 1, "--delta", 1e-5).code == 2
    before = json.loads(cli("ledger", "check", *place, *plan, "--json").out)
    assert (before["spent"], before["fits"]) == (0, True)
    document = json.loads(cli("ledger", "charge", *place, *plan, "--key", "one", "--json").out)
    assert document["spent"] == pytest.approx(before["with_plan"])
    assert [one["key"] for one in document["charges"]] == ["one"]
    refused = cli("ledger", "charge", *place, *plan, "--key", "two", "--json")
    assert refused.code == 4
    assert json.loads(refused.out)["error"]["code"] == "budget-exhausted"
    shown = cli("ledger", "show", *place)
    assert "proven for 1 charge together." in " ".join(shown.out.split())


def test_a_ledger_that_was_rolled_back(cli: Callable[..., Done], folder: Path) -> None:
    ledger = folder / "ledger.db"
    place = (ledger, "--mark", folder / "ledger.mark")
    cli("ledger", "create", *place, "--epsilon", 3, "--delta", 1e-5)
    old = ledger.read_bytes()
    plan = ("--plan", folder / "members.plan.json")
    assert cli("ledger", "charge", *place, *plan, "--key", "one").code == 0
    ledger.write_bytes(old)
    assert cli("ledger", "show", *place).code == 4


def test_adjusted_estimates_say_so(cli: Callable[..., Done], folder: Path) -> None:
    words = ("run", folder / "members.plan.json", "--data", folder / "people.csv")
    done = cli(*words, "--out", folder / "o", "--adjust", "non-negative", "--level", "99%")
    assert done.code == 0
    assert "note: Negative estimates were set to 0" in done.out
    assert "99%" in done.out
    assert cf.load_plan(folder / "o" / "survey.plan.json").title == "Members"


# ------------------------------------------------------------------ numbers as people write them


def test_a_crowd_may_be_written_with_an_exponent(cli: Callable[..., Done]) -> None:
    words = ("privacy", "bits", "--flip", "10%", "--epsilon", 1, "--json")
    told = [json.loads(cli(*words, "--users", users).out) for users in ("1e3", "1000", "1000.0")]
    assert told[0] == told[1] == told[2]
    assert told[0]["numbers"][0]["upper"] == (
        privacy.FlippedBits(users=1000, flip_probability="1/10").delta(1.0).upper
    )


def test_a_delta_may_be_a_percentage(cli: Callable[..., Done]) -> None:
    words = ("privacy", "bits", "--flip", "0.1", "--users", 200, "--json", "--delta")
    assert json.loads(cli(*words, "1%").out) == json.loads(cli(*words, "0.01").out)


@pytest.mark.parametrize("users", ["2.7", "1e999999999", "1e-3", "many", "10%"])
def test_what_is_no_whole_number_is_refused_not_rounded(
    users: str, cli: Callable[..., Done]
) -> None:
    done = cli("privacy", "bits", "--flip", "0.1", "--users", users, "--delta", "1e-6")
    assert done.code == 2
    assert "--users" in done.err


def test_an_epsilon_is_no_share(cli: Callable[..., Done]) -> None:
    done = cli("privacy", "bits", "--flip", "0.1", "--users", 200, "--epsilon", "10%")
    assert done.code == 2


# ------------------------------------------------------------------ randomizers that people bring

RESPONSE = ("--users", 100, "--values", 4, "--local-epsilon", 1, "--delta", 1e-6)


@pytest.mark.long
def test_bounds_of_a_response_stand_side_by_side(cli: Callable[..., Done], tmp_path: Path) -> None:
    plot = tmp_path / "bounds.svg"
    compared = json.loads(cli("compare", *RESPONSE, "--plot", plot, "--json").out)
    shown = json.loads(cli("privacy", "response", *RESPONSE, "--json").out)
    assert compared["bounds"] == shown["bounds"]
    names = [row["name"] for row in compared["bounds"]]
    assert names[:2] == ["worst crowd found", "privacy blanket"]
    assert "Wang et al. 2024" in plot.read_text()
    out = cli("compare", *RESPONSE).out
    assert max(map(len, out.splitlines())) <= 80
    assert "below the truth for k-ary response" in " ".join(out.split())
    # Below 0.394302, which is the truth of that crowd.
    assert "0.394296" in out


@pytest.mark.long
def test_named_randomizers_stand_beside_the_same_bounds(cli: Callable[..., Done]) -> None:
    asked = ("--users", 200, "--delta", 1e-6, "--local-epsilon", 1)
    compared = json.loads(
        cli("compare", *asked, "--randomizer", "laplace", "--values", 5, "--json").out
    )
    shown = json.loads(cli("privacy", "laplace", *asked, "--values", 5, "--json").out)
    assert compared["bounds"] == shown["bounds"]
    assert compared["mechanism"] == shown["mechanism"]
    # Only of k-ary response is it known where that claim is below the truth.
    assert not any("k-ary" in row["note"] for row in compared["bounds"])
    kinds = {row["name"]: row["kind"] for row in compared["bounds"]}
    assert kinds["blanket, Bennett"] == kinds["blanket, Hoeffding"] == "published"
    assert kinds["clones, numerical"] == kinds["privacy blanket"] == "proven"


def test_a_randomizer_that_nothing_is_asked_of_is_refused(cli: Callable[..., Done]) -> None:
    asked = ("compare", "--users", 1000, "--delta", 1e-6, "--randomizer", "laplace")
    done = cli(*asked, "--epsilon", 1)
    assert done.code == 2
    assert "--local-epsilon" in done.err
    # In the words of what was given: values, not steps.
    done = cli(*asked, "--local-epsilon", 1, "--values", 100)
    assert done.code == 2
    assert "number of values" in done.err
    assert "2 to 33" in done.err


def test_randomizers_are_found_by_their_short_names(cli: Callable[..., Done]) -> None:
    for verb in ("privacy", "compare"):
        words = " ".join(cli(verb, "--help").out.replace("│", " ").split())
        assert all(short in words for short in ("GRR", "k-RR", "SUE", "OUE", "OLH")), verb


def test_a_subset_has_a_size_in_words() -> None:
    words = mechanism_name(_named("subset-selection", 2.0, 10, 50))
    assert "10 values, subsets of 1, local epsilon 2" in words


def test_sampled_counts_are_asked_for_any_epsilon(cli: Callable[..., Done]) -> None:
    asked = ("privacy", "sample", "--sampling", 0.105, "--threshold", 20, "--epsilon", 1e6)
    (row,) = json.loads(cli(*asked, "--json").out)["numbers"]
    assert row["lower"] <= 0.105**20 * (1 + 1e-9) <= row["upper"] * (1 + 1e-8)


def test_every_randomizer_has_the_same_name_twice() -> None:
    for name in get_args(_Randomizer):
        kind = _MECHANISMS[name][0].rsplit(".", maxsplit=1)[-1]
        assert type(_named(name, 1.0, 4, 50)).__name__ == kind


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("table.csv", "3/4, 1/4\n\n0.25,0.75\n"),
        ("table.json", '[[0.75, "1/4"], ["1/4", 0.75]]'),
    ],
)
def test_a_table_in_a_file_is_exact(
    name: str, text: str, cli: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    words = ("--table", tmp_path / name, "--users", 1000, "--delta", 1e-6, "--json")
    document = json.loads(cli("privacy", "table", *words).out)
    bits = privacy.FlippedBits(users=1000, flip_probability="1/4")
    assert document["bounds"][0]["epsilon"] == bits.epsilon(1e-6).upper


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("table.csv", "0.5,0.6\n0.5,0.5\n", "sum to 1"),
        ("table.csv", "a,b\n1,0\n", "chance in the table"),
        ("table.csv", "", "two rows"),
        ("table.json", "{}", "list of lists"),
        ("table.json", "[1, 2]", "list of lists"),
        ("table.json", "[", "list of lists"),
        ("none.csv", None, "none.csv"),
    ],
)
def test_a_table_that_is_none_is_refused(
    name: str, text: str | None, part: str, cli: Callable[..., Done], tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    done = cli("compare", "--table", tmp_path / name, "--users", 10, "--delta", 1e-6)
    assert done.code in {2, 5}
    assert part in done.err


@pytest.mark.parametrize(
    "more",
    [(), ("--epsilon", 1, "--local-epsilon", 1), ("--epsilon", 1, "--plot", "figure.svg")],
)
def test_compare_needs_one_thing_to_compare(
    more: tuple[object, ...], cli: Callable[..., Done]
) -> None:
    done = cli("compare", "--users", 100, "--delta", 1e-6, *more)
    assert done.code == 2
    assert "must be" in done.err


def test_signed_decoys_by_their_parameters(cli: Callable[..., Done]) -> None:
    words = ("--question", "bit", "--ratio", "2/3", "--flood", "3/4,5/12", "--epsilon", 1)
    document = json.loads(cli("privacy", "signed", *words, "--json").out)
    own = privacy.SignedDecoys(
        question="bit", plus_ratio="2/3", minus_ratio="2/3", flood=["3/4", "5/12"]
    )
    assert document["numbers"][0]["upper"] == own.delta(1.0).upper


@pytest.mark.parametrize(
    "delta", ["1/0%", "1e-400%", "1e-400", "1e-999999999%", "1e-999999999", "1e999999999%", "%"]
)
def test_a_share_that_is_none_is_refused(cli: Callable[..., Done], delta: str) -> None:
    done = cli(*BITS, "--delta", delta)
    assert done.code == 2, done.out
    assert delta.removesuffix("%") in done.err


@pytest.mark.parametrize("users", ["1e-400", "1e-999999999", "1e999999999", "2e-1", "1/0"])
def test_a_number_of_users_that_is_none_is_refused(cli: Callable[..., Done], users: str) -> None:
    done = cli("privacy", "bits", "--users", users, "--flip", "0.1", "--delta", "0.1%")
    assert done.code == 2, done.out
    assert users in done.err
