"""Certificates of every protocol are proven by the checker; tampered ones are not."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chaffinch as cf
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.planning.certificate import _CERTIFICATE_FORMAT, Certificate, _part
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Encoded, FlippedDecoys, Flips, Signed
from chaffinch.protocols.signed import Digit
from chaffinch.protocols.weighted import Weighted
from chaffinch.questions import PublicGroup
from chaffinch.wire.documents import identified
from tests.cli.conftest import Done
from tests.oracles import weighted as other
from tests.tiers import nightly
from tests.tools.checker import PATH, checker

USERS = 2_000
ROOM = 1.03


def drawable(chance: float) -> Fraction:
    return Fraction(int(chance * 2**64), 2**64)


def flat(ratio: Fraction, growth: float, bursts: int) -> tuple[Fraction, ...]:
    """Return the flood of signed decoys whose masses never rise faster than ``growth``."""
    rates = ((growth**k - float(ratio) ** (2 * k)) / k for k in range(1, bursts + 1))
    return tuple(Fraction(math.ceil(rate * 2**40), 2**40) for rate in rates)


FLIP = drawable(0.03)
NEAR, FAR = drawable(0.67), drawable(0.9)
SIGNED = Signed(NEAR, flat(NEAR, 1.2, 12), USERS, 60)
DOUBLED = replace(SIGNED, ratio=drawable(0.5), doubled=True)
FEW = tuple(Fraction(round(8 * 1.9**k / k), 1) for k in range(1, 6))
WEIGHTED = Weighted(
    2, ((Fraction(4), Fraction(4)), (Fraction(9, 2),)), drawable(0.62), FEW, FEW, FEW, USERS, 150
)
WHOLE = replace(WEIGHTED, levels=((Fraction(4),) * 3,), whole_flood=FEW[:2])
PARTS = {
    "bit": Part("bit", cf.Bit(), Flips(FLIP)),
    "copies": Part("copies", cf.Bit(), Flips(FLIP, 3)),
    "gap": Part("gap", cf.Bit(missing="count"), Flips(FLIP, 1, 3)),
    "two": Part("two", cf.Choice(["a", "b"], missing="refuse"), Flips(FLIP, 1, 2)),
    "cut": Part("cut", cf.Choice(range(40), missing="count"), Flips(FLIP, 1, 16)),
    "flags": Part("flags", cf.Flags(["a", "b", "c"]), Flips(FLIP, 2)),
    "gap of flags": Part("gap of flags", cf.Flags(["a", "b"], missing="count"), Flips(FLIP, 2)),
    "clear bit": Part("clear bit", cf.Bit(), Decoys(1, drawable(0.04))),
    "clear": Part("clear", cf.Choice(range(6), missing="count"), Decoys(2, drawable(0.05))),
    "flipped decoys": Part(
        "flipped decoys", cf.Choice(range(6), missing="count"), FlippedDecoys(drawable(0.01), 1, 7)
    ),
    "total": Part("total", cf.Number(0, 60), Encoded(FLIP, 4, together=True)),
    "steps": Part("steps", cf.Number(0, 60), Encoded(FLIP, 3, together=False)),
    "signed": Part("signed", cf.Bit(), SIGNED),
    "signed doubled": Part("signed doubled", cf.Bit(), DOUBLED),
    "signed choice": Part("signed choice", cf.Choice(range(6), missing="count"), SIGNED),
    "signed flags": Part("signed flags", cf.Flags(["a", "b", "c"]), SIGNED),
    "signed number": Part(
        "signed number", cf.Number(0, 60), Signed(FAR, flat(FAR, 1.05, 25), USERS, 300, 4)
    ),
    "weighted": Part("weighted", cf.Number(0, 60), WEIGHTED),
    "weighted, one code": Part("one code", cf.Number(0, 60), WHOLE),
    "signed digits": Part(
        "signed digits",
        cf.Number(0, 60),
        Signed(FAR, flat(FAR, 1.05, 25), USERS, 300, 4, (Digit(NEAR, flat(NEAR, 1.2, 12), 1),) * 2),
    ),
}


LITTLE = other.rates(2, 1.3, 2.0)
WEIGHTED_ALIKE = cf.privacy.WeightedNumbers(
    tops=2,
    levels=[[2.5]],
    ratio=0.7,
    code_flood=LITTLE,
    link_flood=LITTLE,
    top_flood=LITTLE,
)
COUNTED = {
    "gaps": Part("gaps", cf.Number(0, 60, missing="count"), Encoded(FLIP, 2, together=True)),
    "answered": Part("answered", cf.Bit(), Flips(FLIP), "gaps"),
}
"""A number and the count of who answered it, which belong together."""


def promise(*names: str, epsilon: float = 1.0, rounds: int = 1, crowd: int = USERS) -> Plan:
    parts = tuple((PARTS | COUNTED)[name] for name in names)
    rough = Plan("", parts, USERS, USERS, crowd, rounds, epsilon, 1e-3)
    reached = rough.mechanism().delta_bound(epsilon)
    delta = float(f"{max(reached * ROOM, 1e-12):.3e}")
    return Plan("", parts, USERS, USERS, crowd, rounds, epsilon, delta)


@cache
def certified(*names: str, rounds: int = 1) -> tuple[Plan, dict[str, Any]]:
    plan = promise(*names, rounds=rounds)
    return plan, plan.certificate().document()


def verdict(document: Any) -> str:
    """Return "proven", or why it is not."""
    try:
        checker.check(json.loads(json.dumps(document)))
    except checker.Refused as reason:
        return str(reason)
    return "proven"


def tampered(document: dict[str, Any], change: Callable[[dict[str, Any]], object]) -> str:
    """Return the verdict on a changed certificate whose id was made to fit."""
    copy = json.loads(json.dumps(document))
    change(copy)
    body = {key: value for key, value in copy.items() if key not in ("format", "id")}
    return verdict(identified(copy["format"], body))


@pytest.mark.parametrize("name", PARTS)
def test_every_protocol_and_question(name: str) -> None:
    plan, document = certified(name)
    assert document["format"] == _CERTIFICATE_FORMAT
    assert document["plan"] == plan.id
    assert verdict(document) == "proven"
    checker.check_plan(plan.document(), document)


@pytest.mark.parametrize(
    ("names", "rounds"),
    [
        (("bit",), 2),
        nightly(("bit",), 5),
        (("clear", "bit"), 1),
        nightly(("cut", "total", "clear bit"), 2),
        (("signed", "bit"), 3),
        (("weighted", "signed"), 2),
        (("gaps", "answered"), 1),
    ],
)
def test_several_questions_and_rounds(names: tuple[str, ...], rounds: int) -> None:
    plan, document = certified(*names, rounds=rounds)
    assert verdict(document) == "proven"
    checker.check_plan(plan.document(), document)


def test_numbers_that_are_alike_are_worked_out_once() -> None:
    parts = tuple(replace(PARTS["weighted"], name=name) for name in ("a", "b", "c"))
    rough = Plan("", parts, USERS, USERS, USERS, 1, 2.0, 1e-3)
    delta = float(f"{rough.mechanism().delta_bound(2.0) * ROOM:.3e}")
    spent = []
    for some in (parts[:2], parts):
        document = replace(rough, parts=some, delta=delta).certificate().document()
        assert verdict(document) == "proven"
        spent.append(checker.Work.done)
    assert spent[1] < 1.2 * spent[0]


def test_a_choice_among_many_is_composed() -> None:
    part = Part("wide", cf.Choice(range(4), missing="count"), Flips(drawable(0.02), 1, 5))
    plan = Plan("", (part,), 20_000, 20_000, 20_000, 1, 0.3, 3.1e-7)
    document = plan.certificate().document()
    assert document["grid"] is not None
    assert verdict(document) == "proven"


def test_what_trusts_no_shuffler() -> None:
    for names, rounds in ((("bit",), 1), (("cut", "flags"), 3)):
        plan = promise(*names, epsilon=200.0, rounds=rounds, crowd=1)
        document = plan.certificate().document()
        assert document["claim"]["view"] == "one report"
        assert verdict(document) == "proven"


@pytest.mark.parametrize(
    "name", ["bit", "cut", "clear", "flipped decoys", "total", "steps", "signed", "signed number"]
)
def test_a_smaller_promise_is_not_proven(name: str) -> None:
    _, document = certified(name)

    def smaller(field: str, factor: float) -> Callable[[dict[str, Any]], object]:
        def change(copy: dict[str, Any]) -> None:
            copy["claim"][field] = repr(float(copy["claim"][field]) * factor)

        return change

    assert "only proven" in tampered(document, smaller("epsilon", 0.8))
    assert "only proven" in tampered(document, smaller("delta", 0.5))


def test_just_below_the_truth_even_the_best_certificate_proves_nothing() -> None:
    users = 200
    plan = Plan("", (PARTS["bit"],), users, users, users, 1, 1.0, 2e-2)
    document = plan.certificate().document()
    singles = [[ones, ones] for ones in range(users)]
    truth = plan.mechanism().delta(plan.epsilon)

    def claim(delta: float) -> Callable[[dict[str, Any]], object]:
        def change(copy: dict[str, Any]) -> None:
            copy["claim"]["delta"] = repr(delta)
            copy["parts"][0]["runs"] = singles

        return change

    assert tampered(document, claim(truth.upper * (1 + 1e-6))) == "proven"
    assert "only proven" in tampered(document, claim(truth.lower * (1 - 1e-3)))


def _set(*path: str | int, to: Any) -> Callable[[dict[str, Any]], object]:
    def change(copy: dict[str, Any]) -> None:
        place: Any = copy
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


HUGE = 10**4000
CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a gap": (lambda d: d["parts"][0]["runs"].pop(1), "leave out"),
    "the end missing": (lambda d: d["parts"][0]["runs"].pop(), "leave out"),
    "no runs": (_set("parts", 0, "runs", to=[]), "leave out"),
    "reordered": (lambda d: d["parts"][0]["runs"].reverse(), "leave out"),
    "an overlap": (lambda d: d["parts"][0]["runs"].insert(1, [0, 0]), "leave out"),
    "one long run": (_set("parts", 0, "runs", to=[[0, USERS - 1]]), "only proven"),
    "runs of texts": (_set("parts", 0, "runs", to=[["0", "1"]]), "run"),
    "fewer users": (_set("claim", "crowd", to=USERS // 2), "leave out"),
    "more users": (_set("claim", "crowd", to=USERS * 2), "leave out"),
    "more rounds": (_set("claim", "rounds", to=3), "grid"),
    "fewer flips": (
        _set("parts", 0, "parameters", "flip_probability", to=f"{int(0.02 * 2**64)}/2^64"),
        "only proven",
    ),
    "no flips": (_set("parts", 0, "parameters", "flip_probability", to="0/2^64"), "written"),
    "all flips": (
        _set("parts", 0, "parameters", "flip_probability", to="9" * 20 + "/2^64"),
        "large",
    ),
    "other flips": (_set("parts", 0, "parameters", "flip_probability", to="1/32"), "written"),
    "another version": (_set("format", to="chaffinch/certificate@2"), "not a"),
    "another document": (_set("format", to="chaffinch/plan@1"), "not a"),
    "other neighbours": (_set("claim", "neighbours", to="add-remove"), "neighbours"),
    "another view": (_set("claim", "view", to="records"), "view"),
    "another protocol": (_set("parts", 0, "protocol", to="signed"), "not known"),
    "a list as protocol": (_set("parts", 0, "protocol", to=["flips"]), "not known"),
    "an epsilon of NaN": (_set("claim", "epsilon", to="nan"), "written"),
    "an infinite epsilon": (_set("claim", "epsilon", to="inf"), "written"),
    "a huge epsilon": (_set("claim", "epsilon", to="1e999"), "large"),
    "other digits": (_set("claim", "delta", to="\u0661e-3"), "written"),
    "a number as epsilon": (_set("claim", "epsilon", to=1), "written"),
    "a delta of 0": (_set("claim", "delta", to="0"), "above 0"),
    "a delta above 1": (_set("claim", "delta", to="2"), "large"),
    "a huge crowd": (_set("claim", "crowd", to=HUGE), "whole number"),
    "a true crowd": (_set("claim", "crowd", to=True), "whole number"),
    "huge runs": (_set("parts", 0, "runs", to=[[0, HUGE]]), "leave out"),
    "huge copies": (_set("parts", 0, "parameters", "copies", to=HUGE), "whole number"),
    "a field more": (_set("claim", "note", to="trust me"), "other fields"),
    "a field less": (lambda d: d["claim"].pop("rounds"), "other fields"),
    "a parameter more": (_set("parts", 0, "parameters", "slots", to=3), "other fields"),
    "no parts": (_set("parts", to=[]), "parts"),
    "a grid of nothing": (_set("grid", to={"growth": "1/1", "nodes": 5}), "growth"),
    "a grid without end": (_set("grid", to={"growth": "2/1", "nodes": 20_000}), "too far"),
    "a coarse grid": (_set("grid", to={"growth": "2/1", "nodes": 1}), "only proven"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_tampered_certificates_prove_nothing(name: str) -> None:
    change, reason = CHANGES[name]
    assert reason in tampered(certified("bit")[1], change)


def test_a_changed_certificate_does_not_match_its_id() -> None:
    _, document = certified("bit")
    changed = json.loads(json.dumps(document))
    changed["claim"]["rounds"] = 2
    assert "match its id" in verdict(changed)


SIGNED_CHANGES: dict[str, tuple[str, Any, str]] = {
    "less noise": ("ratio", f"{int(0.6 * 2**64)}/2^64", "only proven"),
    "no noise": ("ratio", "0/2^64", "written"),
    "noise without end": ("ratio", f"{2**64 - 1}/2^64", "large"),
    "no flood": ("flood", [], "only proven"),
    "a shorter flood": ("flood", [f"{2**63}/2^64"] * 11, "only proven"),
    "a huge flood": ("flood", [f"{2 * 10**22}/2^64"], "large"),
    "a flood of floats": ("flood", [1.5], "written"),
    "a flood of nothing": ("flood", None, "list"),
    "no room": ("room", 3, "only proven"),
    "cut for more": ("cut_for", USERS + 1, "whole number"),
    "cut for nobody": ("cut_for", 0, "whole number"),
    "steps of a bit": ("steps", 4, "other fields"),
    "doubled by a number": ("doubled", 1, "doubled is not"),
}


@pytest.mark.parametrize("name", SIGNED_CHANGES)
def test_tampered_signed_decoys_prove_nothing(name: str) -> None:
    field, value, reason = SIGNED_CHANGES[name]
    change = _set("parts", 0, "parameters", field, to=value)
    assert reason in tampered(certified("signed")[1], change)


def test_other_changes_of_signed_decoys_prove_nothing() -> None:
    _, document = certified("signed number")
    assert "only proven" in tampered(document, _set("parts", 0, "parameters", "steps", to=8))
    assert "crowds" in tampered(document, _set("parts", 0, "runs", to=[[0, USERS - 1]]))
    fewer = _set("claim", "crowd", to=USERS - 1)
    assert "cut for" in tampered(document, fewer)


RARE, HALF = ["1/2^64"], f"{2**63}/2^64"
WEIGHTED_CHANGES: dict[str, tuple[str, Any, str]] = {
    "less noise": ("ratio", f"{int(0.5 * 2**64)}/2^64", "only proven"),
    "a smaller flood of codes": ("code_flood", [f"{3 * 2**64}/2^64"], "only proven"),
    "a smaller flood of links": ("link_flood", [f"{3 * 2**64}/2^64"], "only proven"),
    "a smaller flood of tops": ("top_flood", [f"{3 * 2**64}/2^64"], "only proven"),
    "hardly a flood": ("link_flood", RARE, "only proven"),
    "no flood": ("link_flood", [], "only proven"),
    "a huge flood": ("code_flood", [f"{2 * 10**22}/2^64", f"{10**23 - 1}/2^64"], "large"),
    "less smoothing": ("levels", [[HALF, HALF], [HALF]], "only proven"),
    "hardly any smoothing": ("levels", [RARE * 2, RARE], "small"),
    "more levels than steps": ("levels", [[HALF] * 25], "too many steps"),
    "no levels": ("levels", [], "list"),
    "levels of nothing": ("levels", [[]], "list"),
    "a wider range": ("tops", 4, "only proven"),
    "no range": ("tops", 0, "whole number"),
    "no room": ("room", 3, "only proven"),
    "cut for more": ("cut_for", USERS + 1, "whole number"),
    "noise without end": ("ratio", f"{2**64 - 1}/2^64", "large"),
    "noise that is nearly without end": ("ratio", f"{2**64 - 2**45}/2^64", "too close to 1"),
    "whole codes without a flood": ("whole_flood", [HALF], "only proven"),
}


@pytest.mark.parametrize("name", WEIGHTED_CHANGES)
def test_tampered_weighted_numbers_prove_nothing(name: str) -> None:
    field, value, reason = WEIGHTED_CHANGES[name]
    change = _set("parts", 0, "parameters", field, to=value)
    assert reason in tampered(certified("weighted")[1], change)


@pytest.mark.long
def test_weighted_numbers_without_end_are_refused_in_bounded_time() -> None:
    def change(copy: dict[str, Any]) -> None:
        wide = {
            "tops": 64,
            "top_flood": [f"{4_900 * 2**64}/2^64"],
            "ratio": f"{2**64 - 2**56}/2^64",
        }
        copy["parts"][0]["parameters"] |= wide

    assert "too long" in tampered(certified("weighted")[1], change)


def test_weighted_numbers_of_another_plan_are_refused() -> None:
    plan, document = certified("weighted, one code")
    changed = json.loads(json.dumps(document))
    changed["parts"][0]["parameters"]["levels"][0][0] = f"{5 * 2**64}/2^64"
    with pytest.raises(checker.Refused, match="other questions"):
        checker.check_plan(plan.document(), changed)
    sent = json.loads(json.dumps(plan.document()))
    sent["messages"]["codes"] += 1
    del sent["id"], sent["format"]
    forgery = identified("chaffinch/plan@1", sent)
    with pytest.raises(checker.Refused, match="sends other messages"):
        checker.check_plan(forgery, {**document, "plan": forgery["id"]})


def test_a_proof_of_weighted_numbers_is_below_no_whole_view() -> None:
    """The worst of all changes of an answer, counted outcome by outcome by another program."""
    flood = (2, 1.3, 2.0)
    noise = other.Noise(other.Layout(2, (1,)), 0.7, (2.5,), flood, flood, flood, size=60)
    rates = [drawable(rate) for rate in other.rates(*flood)]
    sign = checker.Signed(drawable(0.7), rates, 1, choice=False)
    one = checker.Weighted(sign, 2, [drawable(2.5)], rates, [(rates, 1)])
    precision = checker.Precision(Fraction(1, 10**6))
    for epsilon in (0.6, 1.0):
        goal = checker.exponential(Fraction(epsilon))
        (found,) = one.profile([goal], precision)
        pairs = permutations(range(noise.layout.steps + 1), 2)
        worst = max(other.deltas(noise, *pair, [epsilon])[0][0] for pair in pairs)
        library = WEIGHTED_ALIKE.delta_bound(epsilon)
        assert worst <= found / precision.one <= 1.001 * library


def test_changed_digits_prove_nothing() -> None:
    _, document = certified("signed digits")
    finer = ("parts", 0, "parameters", "finer")
    less = f"{int(0.6 * 2**64)}/2^64"
    for field, value in (("ratio", less), ("flood", []), ("steps", 3)):
        assert "only proven" in tampered(document, _set(*finer, 1, field, to=value))
    assert "short list" in tampered(document, _set(*finer, to=[]))
    assert "other fields" in tampered(document, _set(*finer, 0, "room", to=4))
    plan, _ = certified("signed digits")
    shorter = json.loads(json.dumps(document))
    del shorter["parts"][0]["parameters"]["finer"][1]
    with pytest.raises(checker.Refused, match="other questions"):
        checker.check_plan(plan.document(), shorter)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [("cut", "slots", 4), ("clear", "decoy_slots", 1), ("flipped decoys", "slots", 2)],
)
def test_fewer_slots_or_decoys_are_less_private(name: str, field: str, value: int) -> None:
    change = _set("parts", 0, "parameters", field, to=value)
    assert "only proven" in tampered(certified(name)[1], change)


def test_work_without_end_is_refused_in_bounded_time() -> None:
    crowd = 10**9
    wide = f"{2**64 // 3}/2^64"

    def change(copy: dict[str, Any]) -> None:
        copy["claim"]["crowd"] = crowd
        copy["parts"][0]["parameters"] = {"flip_probability": wide, "copies": 10_000}
        copy["parts"][0]["runs"] = [[0, 0], [1, crowd - 1]]
        copy["claim"]["epsilon"] = "1e-12"

    assert "too long" in tampered(certified("bit")[1], change)

    def clear(copy: dict[str, Any]) -> None:
        copy["claim"]["crowd"] = crowd
        copy["parts"][0]["parameters"] = {"decoy_slots": 10**6, "decoy_rate": f"{2**64}/2^64"}

    assert "too long" in tampered(certified("clear")[1], clear)


@pytest.mark.parametrize("delta", ["1e-999", "1e-301"])
def test_masses_of_thousands_of_bits_are_refused_before_any_is_computed(delta: str) -> None:
    assert "too small" in tampered(certified("bit")[1], _set("claim", "delta", to=delta))
    assert checker.Work.done == 0


def test_long_masses_count_for_more() -> None:
    def spent(delta: Fraction) -> int:
        checker.Work.done = 0
        precision = checker.Precision(delta)
        law = precision.binomial(1_000, Fraction(1, 3))
        precision.convolve(law, law)
        return int(checker.Work.done)

    few, many = spent(Fraction(1, 10**6)), spent(Fraction(1, 10**280))
    assert many > 8 * few


# ---------------------------------------------------------------- as a command


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the checker without site packages and without the environment."""
    command = [sys.executable, "-I", "-S", str(PATH), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    plan, _ = certified("cut")
    plan.certificate().save(tmp_path / "proof.json")
    plan.save(tmp_path / "plan.json")
    done = run(tmp_path / "proof.json", tmp_path / "plan.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"proven: plan {plan.id[:16]} is (1, {plan.delta!r})-diff")
    assert done.stdout.count("\n") == 1
    words = PATH.read_text().split()
    assert "numpy" not in words
    assert "float(" not in PATH.read_text()


def test_without_the_plan_the_line_says_so(tmp_path: Path) -> None:
    plan, _ = certified("bit")
    plan.certificate().save(tmp_path / "proof.json")
    done = run(tmp_path / "proof.json")
    assert done.returncode == 0
    assert f"not checked to be those of plan {plan.id[:16]}" in done.stdout


def forged(name: str, change: Callable[[dict[str, Any]], object]) -> str:
    """Return "proven", or why not, of a changed plan with a certificate made to fit its id."""
    plan, document = certified(*(name.split() if name == "gaps answered" else [name]))
    copy = json.loads(json.dumps(plan.document()))
    change(copy)
    form = copy.pop("format")
    copy = identified(form, {key: part for key, part in copy.items() if key != "id"})
    try:
        checker.check_plan(copy, {**document, "plan": copy["id"]})
    except checker.Refused as reason:
        return str(reason)
    return "proven"


QUESTION = ("questions", 0, "question")
PROTOCOL = ("questions", 0, "protocol")
FORGERIES: dict[str, tuple[str, Callable[[dict[str, Any]], object], str]] = {
    "a smaller crowd": ("bit", lambda p: p["crowd"].update(users=3, reports=3), "than it has"),
    "a true round": ("bit", _set("crowd", "rounds", to=True), "whole number"),
    "a field": ("bit", _set("surprise", to="each person reports five times"), "other fields"),
    "times": ("bit", _set("questions", 0, "times", to=5), "other fields"),
    "words": ("bit", _set("guarantee", "more", to="words"), "other fields"),
    "a title": ("bit", _set("title", to=7), "title"),
    "asked often": ("bit", _set(*QUESTION, "asked_times", to=50), "other fields"),
    "perhaps": ("bit", _set(*QUESTION, "missing", to="perhaps"), "not known"),
    "any flag": ("flags", _set(*QUESTION, "missing", to="all"), "not known"),
    "the same flag": ("flags", _set(*QUESTION, "names", to=["a", "a", "b"]), "different"),
    "an unasked gap": ("two", _set(*QUESTION, "missing", to="c"), "stands for"),
    "an unasked value": ("cut", _set(*QUESTION, "unknown", to="40"), "stands for"),
    "a longer range": ("cut", _set(*QUESTION, "values", "last", to=40), "other questions"),
    "an open range": ("cut", _set(*QUESTION, "values", "step", to=2), "other fields"),
    "reversed bounds": ("total", _set(*QUESTION, "high", to="-1"), "order"),
    "an outside gap": ("total", _set(*QUESTION, "missing", to="61"), "order"),
    "a clip in words": ("total", _set(*QUESTION, "clip", to="no"), "written"),
    "another kind": ("bit", _set(*QUESTION, "kind", to="text"), "not known"),
    "true copies": ("bit", _set(*PROTOCOL, "copies", to=True), "parameters"),
    "fewer flips": ("bit", _set(*PROTOCOL, "flip_probability", to="0.025"), "2^-64"),
    "half the flips": ("bit", _set(*PROTOCOL, "flip_probability", to="0.015625"), "parameters"),
    "a parameter": ("bit", _set(*PROTOCOL, "slots", to=1), "parameters"),
    "local": ("bit", _set("guarantee", "local_epsilon", to="0.001"), "local epsilon"),
    "nearly local": (
        "bit",
        _set("guarantee", "local_epsilon", to="3.4760986898352719"),
        "local epsilon",
    ),
    "a local guarantee": ("clear", _set("guarantee", "local_epsilon", to="99"), "clear"),
    "people": ("bit", _set("guarantee", "crowd", to="1000000 honest users"), "words"),
    "no first hop": ("signed", _set("guarantee", "crowd", to=f"{USERS} honest users"), "words"),
    "other sizes": ("clear", _set("messages", "varying", to=["others"]), "messages"),
    "sizes of flips": ("bit", _set("messages", "varying", to=["bit"]), "messages"),
    "a method": ("bit", _set("guarantee", "method", to="trusted"), "method"),
    "slots": ("bit", _set("messages", "slots", to=99), "messages"),
    "codes": ("cut", _set("messages", "codes", to=1), "messages"),
    "more of messages": ("bit", _set("messages", "rounds", to=500), "messages"),
    "free shares": ("bit", _set("honest_shares", to={"anything": "goes"}), "no list"),
    "a field of shares": ("bit", _set("honest_shares", to=[{"share": "0.5"}]), "other fields"),
    "rising shares": (
        "bit",
        _set("honest_shares", to=[{"share": s, "epsilon": "2"} for s in ("0.5", "0.7")]),
        "fall",
    ),
    "better shares": (
        "bit",
        _set("honest_shares", to=[{"share": "0.5", "epsilon": "0.1"}]),
        "rising",
    ),
    "finite behind infinite": (
        "clear",
        _set(
            "honest_shares",
            to=[{"share": "0.7", "epsilon": "infinite"}, {"share": "0.5", "epsilon": "9"}],
        ),
        "rising",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_plan_with_unknown_or_false_content_is_refused(name: str) -> None:
    part, change, reason = FORGERIES[name]
    assert forged(part, lambda _: None) == "proven"
    assert reason in forged(part, change)


@pytest.mark.parametrize(
    "change",
    [
        lambda plan: plan["questions"][1].pop("answers_to"),
        _set("questions", 1, "answers_to", to="others"),
        _set("questions", 1, "question", "missing", to="no"),
        _set("questions", 0, "question", "missing", to="refuse"),
        lambda plan: plan["questions"].reverse(),
    ],
    ids=["not said", "of others", "another bit", "not counted", "in front"],
)
def test_a_number_without_the_count_of_its_answers_is_refused(
    change: Callable[[dict[str, Any]], object],
) -> None:
    assert forged("gaps answered", lambda _: None) == "proven"
    assert forged("gaps answered", change) in (
        "who answered, or a square, is lost",
        "no bit",
    )


def test_shares_are_told_not_to_be_checked(tmp_path: Path) -> None:
    plan, _ = certified("bit")
    shares = ((Fraction(9, 10), 1.2), (Fraction(1, 2), float("inf")))
    shared = Plan("", plan.parts, USERS, USERS, USERS, 1, plan.epsilon, plan.delta, shares)
    for one, said in ((plan, False), (shared, True)):
        one.certificate().save(tmp_path / "proof.json")
        one.save(tmp_path / "plan.json")
        done = run(tmp_path / "proof.json", tmp_path / "plan.json")
        assert done.returncode == 0
        assert ("smaller honest shares is not checked here" in done.stdout) is said
        (tmp_path / "plan.json").unlink()


@pytest.mark.parametrize("chance", [1e-19, 0.003, 0.03, 0.2, 0.4999999])
@pytest.mark.parametrize("rounds", [1, 7, 1_000])
def test_the_local_epsilon_of_every_plan_is_proven(chance: float, rounds: int) -> None:
    flip = Fraction(max(int(chance * 2**64), 1), 2**64)
    parts = (
        Part("a", cf.Bit(), Flips(flip, 3)),
        Part("b", cf.Choice(range(40), missing="count"), Flips(flip, 1, 16)),
        Part("c", cf.Flags(["a", "b", "c"]), Flips(flip, 2)),
        Part("d", cf.Number(0, 60), Encoded(flip, 5, together=False)),
    )
    for some in (parts[:1], parts[1:2], parts):
        plan = Plan("", some, USERS, USERS, USERS, rounds, 1.0, 1e-6)
        losses = sum((checker.local_loss(_part(one)) for one in some), Fraction(0)) * rounds
        assert losses <= Fraction(repr(plan.promise.local_epsilon))
        assert losses > Fraction(plan.promise.local_epsilon) * (1 - Fraction(1, 10**12))


def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    plan, document = certified("bit")
    other, _ = certified("copies")
    proof = tmp_path / "proof.json"
    for content, reason in (
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"format": 1.5}', "no whole number"),
        ('{"format": NaN}', "no whole number"),
        (f'{{"format": {"9" * 5000}}}', "no JSON"),
        ("3", "not a chaffinch/certificate@1"),
        ("{}", "not a chaffinch/certificate@1"),
    ):
        proof.write_text(content)
        done = run(proof)
        assert (done.returncode, done.stderr) == (1, ""), content[:40]
        assert done.stdout.startswith("not proven: ")
        assert reason in done.stdout
        assert done.stdout.count("\n") == 1
    assert run(tmp_path / "none.json").returncode == 1
    assert run().returncode == 1
    proof.write_text(json.dumps(document))
    other.save(tmp_path / "other.json")
    done = run(proof, tmp_path / "other.json")
    assert (done.returncode, done.stdout) == (
        1,
        "not proven: the certificate is about another plan\n",
    )
    done = run(proof, proof)
    assert (done.returncode, done.stdout) == (1, "not proven: it is not a chaffinch/plan@1\n")
    plan.save(tmp_path / "plan.json")
    assert run(proof, tmp_path / "plan.json").returncode == 0


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("parts", 0, "parameters", "flip_probability"), f"{int(0.04 * 2**64)}/2^64"),
        (("parts", 0, "name"), "another"),
        (("parts", 0, "answers"), 1),
        (("claim", "epsilon"), "1.5"),
    ],
)
def test_a_certificate_of_other_parameters_is_not_the_plans(
    path: tuple[str | int, ...], value: Any
) -> None:
    plan, document = certified("bit")
    copy = json.loads(json.dumps(document))
    _set(*path, to=value)(copy)
    with pytest.raises(checker.Refused, match="the plan"):
        checker.check_plan(plan.document(), copy)


# ---------------------------------------------------------------- making them


def test_a_promise_that_does_not_hold_gets_no_certificate() -> None:
    for name in ("bit", "cut", "clear", "steps"):
        plan = promise(name)
        wrong = Plan("", plan.parts, USERS, USERS, USERS, 1, plan.epsilon, plan.delta / 2)
        with pytest.raises(GuaranteeNotProven):
            wrong.certificate()


KINDS = {
    **PARTS,
    "crossed": Part(
        "crossed",
        cf.Cross({"x": cf.Bit(), "y": cf.Choice(["a", "b"], missing="refuse")}),
        Flips(FLIP, 1, 4),
    ),
    "hardly flipped": Part("hardly flipped", cf.Bit(), Flips(Fraction(1, 2**64), 100)),
    "mostly flipped": Part("mostly flipped", cf.Bit(), Flips(Fraction(2**63 - 1, 2**64))),
    "few decoys": Part("few decoys", cf.Bit(), Decoys(2, drawable(0.04))),
    "near one": Part("near one", cf.Bit(), Signed(1 - Fraction(1, 2**25), (), 1, 400)),
    "many digits": Part(
        "many digits",
        cf.Number(0, 60),
        Signed(NEAR, (), 1, 200, 1, (Digit(NEAR, (Fraction(3),), 1),) * 8),
    ),
}


def refusal_of(plan: Plan) -> str:
    """Return why a plan gets no certificate; check the one that it gets."""
    try:
        document = json.loads(json.dumps(plan.certificate().document()))
    except (GuaranteeNotProven, InvalidInput) as reason:
        return str(reason)
    assert verdict(document) == "proven"
    checker.check_plan(json.loads(json.dumps(plan.document())), document)
    return ""


@given(
    names=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2, unique=True),
    users=st.sampled_from([1, 3, 50]),
    rounds=st.sampled_from([1, 2, 7]),
    epsilon=st.sampled_from([1e-9, 0.1, 1.0, 20.0, 699.0, 701.0, 1e6]),
    delta=st.sampled_from([1e-300, 1e-12, 1e-3, 0.4, 1.0]),
)
def test_whoever_has_the_plan_proves_every_certificate(
    names: list[str], users: int, rounds: int, epsilon: float, delta: float
) -> None:
    parts = tuple(KINDS[name] for name in names)
    refusal_of(Plan("", parts, users, users, users, rounds, epsilon, delta))


def test_what_the_checker_would_refuse_gets_no_certificate() -> None:
    """Each of these was certified, and the checker refused what it got."""
    plain = promise("bit", crowd=50)
    group = PublicGroup("region", cf.Choice(["north", "south"], missing="refuse"), "north")
    hop, analyzer = (Party(name, name * 64, f"https://{name}.example") for name in "ab")
    parties = Parties((hop,), analyzer)
    cases = {
        "epsilon or delta is too large": promise("clear bit", epsilon=701.0),
        "a kind of question": Plan("", (KINDS["crossed"],), 50, 50, 50, 1, 1.0, 1.0),
        "public groups": replace(plain, group=group),
        "named parties": replace(plain, parties=parties),
        # Losses without bound of two rounds are added up, and come to more than both may be.
        "over 2 rounds must be at most 0.3745": Plan(
            "", (KINDS["few decoys"],), 50, 50, 50, 2, 1.0, 0.3745
        ),
    }
    for words, plan in cases.items():
        assert words in refusal_of(plan)


def test_nothing_beside_the_checker_stands_for_what_it_imports(tmp_path: Path) -> None:
    """Python looks for its imports in the folder of the file first, and follows the link there."""
    beside = {path.stem for path in PATH.resolve().parent.iterdir()}
    assert "check_certificate" in beside
    assert not beside & sys.stdlib_module_names
    plan = promise("clear bit", crowd=50)
    plan.certificate().save(tmp_path / "c.json")
    command = [sys.executable, str(PATH), "c.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_certificate_that_takes_too_long_to_check_is_not_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = promise("clear bit", crowd=50)
    assert refusal_of(plan) == ""
    monkeypatch.setattr("chaffinch.plans.check_certificate.MOST_WORK", 1000)
    assert "takes too long" in refusal_of(plan)


def test_sums_too_wide_to_be_checked_are_refused_at_once() -> None:
    part = Part("wide", cf.Number(0, 60), Encoded(drawable(0.2), 64, together=True))
    plan = Plan("", (part,), 10**6, 10**6, 10**6, 1, 0.1, 1e-6)
    with pytest.raises(InvalidInput, match="standard deviation of a sum"):
        plan.certificate()


def test_a_certificate_replaces_no_plan(tmp_path: Path) -> None:
    plan, _ = certified("bit")
    plan.save(tmp_path / "plan.json")
    with pytest.raises(InvalidInput, match="a plan"):
        plan.certificate().save(tmp_path / "plan.json")
    assert cf.load_plan(tmp_path / "plan.json") == plan


def test_certificates_are_remade_to_the_letter(tmp_path: Path) -> None:
    plan, document = certified("cut")
    made = Certificate({key: document[key] for key in ("plan", "claim", "parts", "grid")})
    assert made == plan.certificate()
    made.save(tmp_path / "proof.json")
    made.save(tmp_path / "proof.json")
    assert json.loads((tmp_path / "proof.json").read_text()) == document


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    from chaffinch.cli import main

    def call(*words: object) -> Done:
        capfd.readouterr()
        code = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call


def test_plan_writes_a_certificate(cli: Callable[..., Done], tmp_path: Path) -> None:
    plan, proof, again = (tmp_path / name for name in ("b.plan.json", "b.json", "c.json"))
    words = ("plan", "--bit", "--users", 2000, "--epsilon", 1, "--delta", 1e-6)
    done = cli(*words, "--max-messages", 1, "-o", plan, "--certificate", proof)
    assert done.code == 0
    assert f"wrote {proof}" in done.err
    assert run(proof, plan).returncode == 0
    done = cli("plan", "--check", plan, "--certificate", again)
    assert done.code == 0
    assert again.read_bytes() == proof.read_bytes()
    assert cli("plan", "--check", plan, "--certificate", plan).code == 2
    assert cli(*words, "--certificate", tmp_path / "none" / "b.json").code == 5
