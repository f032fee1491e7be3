from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import chaffinch as cf
from chaffinch import privacy
from chaffinch.charts.rounding import rounded_up
from chaffinch.errors import (
    GuaranteeNotProven,
    InvalidFile,
    InvalidInput,
    NoPlanFound,
    StorageFault,
)
from chaffinch.planning.candidates import Task, for_error
from chaffinch.planning.survey_file import load_survey
from chaffinch.plans.expansion import Asked
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan, plan_from
from chaffinch.privacy.guarantee import right_guesses
from chaffinch.protocols import Decoys, Flips
from chaffinch.protocols.flipped_records import overflow
from chaffinch.protocols.tuning import flip_for_shift, gaussian_mu
from chaffinch.release.surveys import load_release
from chaffinch.wire.documents import canonical
from tests.tiers import nightly

TARGET = cf.Target(1.0, 1e-6)


@pytest.fixture(scope="module")
def bit_plan() -> Plan:
    return cf.plan(cf.Bit(), users=10_000, target=TARGET, title="dark mode", max_messages=8)


@pytest.fixture(scope="module")
def choice_plan() -> Plan:
    return cf.plan(
        cf.Choice(["tea", "coffee"], missing="count"), users=2_000, target=TARGET, honest=0.8
    )


def test_calibrated_errors_match_the_golden_ones(bit_plan: Plan) -> None:
    """Standard error of the count at n = 10⁴, ε = 1, δ = 1e-6, by copies (50-digit values)."""
    golden = {1: 5.836, 2: 4.978, 4: 4.589, 8: 4.404}
    found = {}
    for one in bit_plan.alternatives:
        protocol = one.parts[0].protocol
        if isinstance(protocol, Flips) and one.crowd > 1:
            found[protocol.copies] = one.error
    assert set(found) == set(golden)
    for copies, error in found.items():
        # Never below: that would be a promise not kept. The short search may cost a little.
        assert golden[copies] * (1 - 2e-4) <= error <= golden[copies] * 1.004


def test_every_alternative_keeps_the_promise_by_the_exact_accountant(choice_plan: Plan) -> None:
    for one in choice_plan.alternatives:
        if not one.parts:
            assert one.name == "local, k-ary response"
            continue
        mechanism = Plan(
            "", one.parts, 2_000, 2_000, one.crowd, 1, one.epsilon, one.delta
        ).mechanism()
        assert mechanism.delta(one.epsilon).upper <= one.delta
    assert {one.name for one in choice_plan.alternatives} >= {"flips with decoys"}


@pytest.mark.parametrize("values", [2, 10])
def test_an_error_is_met_by_the_decoys_that_will_be_seen(values: int) -> None:
    question = cf.Choice(range(values), missing="refuse")
    (variant,) = Decoys.variants(question, 64)
    task = Task((Asked("q", question),), users=5_000, reports=5_000, rounds=1, max_messages=64)
    found = for_error(variant.name, [variant], cf.Error(0.003), 1e-8, task)
    assert found is not None
    protocol = found.parts[0].protocol
    assert isinstance(protocol, Decoys)
    most = protocol.most_messages(question, 5_000) - 5_000
    # As many as leave the count of one value within 15 people with 95%, whatever their number is.
    fakes = stats.binom(most, 1 / values)
    low, high = fakes.ppf(0.025), fakes.isf(0.025)
    assert max(most / values - low, high - most / values) <= 15
    many = stats.binom(math.ceil(1.15 * most), 1 / values)
    assert max(many.mean() - many.ppf(0.025), many.isf(0.025) - many.mean()) > 15


def test_a_little_less_noise_would_break_the_promise(bit_plan: Plan) -> None:
    protocol = next(one for one in bit_plan.alternatives if one.name == "flips").parts[0].protocol
    assert isinstance(protocol, Flips)
    weaker = privacy.FlippedBits(
        users=bit_plan.crowd,
        flip_probability=protocol.flip_probability * Fraction(99, 100),
        copies=protocol.copies,
    )
    assert weaker.delta(bit_plan.epsilon).lower > bit_plan.delta


def test_the_release_waits_for_the_dishonest_too(choice_plan: Plan) -> None:
    assert (choice_plan.users, choice_plan.crowd, choice_plan.reports) == (2_000, 2_000, 2_670)


def test_fewer_honest_users_leave_less(choice_plan: Plan) -> None:
    epsilons = [epsilon for _, epsilon in choice_plan.shares]
    assert [share for share, _ in choice_plan.shares] == [
        Fraction(9, 10),
        Fraction(7, 10),
        Fraction(1, 2),
    ]
    assert choice_plan.epsilon < epsilons[0] < epsilons[1] < epsilons[2]
    choice_plan.verify(shares=True)


def test_what_shares_leave_rises_where_searches_end_apart() -> None:
    # Alone, nine tenths of this crowd are proven a smaller epsilon than the whole of it.
    survey = cf.Survey({f"q{number}": cf.Bit() for number in range(16)})
    made = cf.plan(survey, users=40, target=privacy.Target(8, 1e-2), anyway=True)
    epsilons = [made.epsilon, *(epsilon for _, epsilon in made.shares)]
    assert epsilons == sorted(epsilons)
    assert len(epsilons) == 4
    made.verify(shares=True)


def test_an_error_leads_to_the_privacy_it_allows() -> None:
    wish = cf.Error(0.002, confidence=0.95)
    plan = cf.plan(cf.Bit(), users=1_000, error=wish, max_messages=2)
    part = plan.parts[0]
    assert part.standard_error(plan.reports) <= wish.standard_error(plan.reports) * (1 + 1e-6)
    assert plan.delta == min(1e-8, 1 / 100_000)
    assert plan.mechanism().delta(plan.epsilon).upper <= plan.delta


@pytest.mark.long
def test_a_loose_error_stops_at_a_small_epsilon() -> None:
    plan = cf.plan(cf.Bit(), users=1_000, error=cf.Error(0.5), max_messages=1)
    assert 0.05 < plan.epsilon < 0.2
    told = "No plan goes far below an epsilon of 0.1, so this one is more exact than asked for."
    assert told in plan.explain()
    exact = cf.plan(cf.Bit(), users=1_000, error=cf.Error(0.02), max_messages=1)
    assert "more exact than asked for" not in exact.explain()


def test_rounds_and_questions_are_paid_for_in_full() -> None:
    survey = cf.Survey({"one": cf.Bit(), "two": cf.Bit()}, title="two bits")
    plan = cf.plan(survey, users=1_000, target=cf.Target(2.0, 1e-6), rounds=2, max_messages=2)
    assert plan.rounds == 2
    assert plan.title == "two bits"
    parts = [part.mechanism(plan.crowd) for part in plan.parts]
    assert privacy.compose(parts, times=2).delta(2.0).upper <= 1e-6
    assert privacy.compose(parts, times=3).delta(2.0).lower > 1e-6


def test_a_tiny_epsilon_of_several_questions_is_refused_in_the_words_of_the_caller() -> None:
    """Clear answers would take billions of decoys: no candidate, and no number that was given."""
    survey = cf.Survey({"one": cf.Bit(), "two": cf.Bit()})
    with pytest.raises(NoPlanFound, match="will say nothing"):
        cf.plan(survey, users=200_000, target=cf.Target(1e-6, 1e-6))


def test_what_cannot_be_planned_says_what_can() -> None:
    with pytest.raises(NoPlanFound, match="messages per report") as caught:
        cf.plan(cf.Choice(range(3_000), missing="count"), users=100, target=TARGET, max_messages=4)
    assert "users" in caught.value.hint


@pytest.mark.parametrize(
    "question",
    [
        cf.Flags(["a", "b", "c"]),
        cf.Number(0, 1, quantiles=True),
        nightly(cf.Survey({"one": cf.Bit(), "two": cf.Flags(["a", "b"])})),
    ],
)
def test_too_few_messages_for_any_protocol_is_no_plan(question: cf.Flags) -> None:
    with pytest.raises(NoPlanFound, match="at most 1 messages"):
        cf.plan(question, users=30, target=TARGET, max_messages=1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"users": 0},
        {"users": 10.5},
        {"users": True},
        {"rounds": 0},
        {"honest": 0.0},
        {"honest": math.nan},
        {"max_messages": 0},
        {"error": cf.Error(0.1)},
        {"target": (1.0, 1e-6)},
        {"target": cf.Target(0.0, 1e-6)},
        {"target": None},
    ],
)
def test_a_plan_with_a_wrong_wish_is_refused(wrong: dict[str, object]) -> None:
    wishes: dict[str, object] = {"users": 100, "target": TARGET} | wrong
    with pytest.raises(InvalidInput):
        cf.plan(cf.Bit(), **wishes)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------ files


def test_a_plan_survives_its_file(tmp_path: Path, choice_plan: Plan) -> None:
    choice_plan.save(tmp_path / "x.plan.json")
    again = cf.load_plan(tmp_path / "x.plan.json")
    assert again == choice_plan
    assert again.id == choice_plan.id
    assert again.guarantee == choice_plan.guarantee


def test_a_plan_with_any_byte_changed_is_refused_or_the_same(choice_plan: Plan) -> None:
    text = json.dumps(choice_plan.document(), indent=1).encode()
    for place in range(0, len(text), 7):
        changed = bytearray(text)
        changed[place] ^= 1
        try:
            plan = plan_from(bytes(changed))
        except InvalidFile:
            continue
        # White space may change; what the plan says may not.
        assert plan == choice_plan


def test_a_plan_that_promises_too_much_is_refused(tmp_path: Path, bit_plan: Plan) -> None:
    """Even with a right id: the guarantee is recomputed before anything is encoded."""
    boast = Plan("", bit_plan.parts, 10_000, 10_000, 10_000, 1, 0.9, 1e-6)
    boast.save(tmp_path / "boast.plan.json")
    loaded = cf.load_plan(tmp_path / "boast.plan.json")
    with pytest.raises(GuaranteeNotProven):
        cf.encode("yes", loaded)
    with pytest.raises(GuaranteeNotProven):
        cf.encode_many([True], loaded)


def test_a_document_that_contradicts_itself_is_refused(choice_plan: Plan) -> None:
    document = choice_plan.document()
    document["guarantee"]["local_epsilon"] = "0.1"
    body = {key: value for key, value in document.items() if key != "id"}
    import hashlib

    document["id"] = hashlib.sha256(canonical(body)).hexdigest()
    with pytest.raises(InvalidFile, match="contradicts itself"):
        plan_from(json.dumps(document))


def test_all_faults_of_a_plan_file_show_at_once(choice_plan: Plan) -> None:
    document = choice_plan.document()
    document["surprise"] = 1
    document["crowd"]["users"] = "many"
    del document["title"]
    with pytest.raises(InvalidFile) as caught:
        plan_from(json.dumps(document))
    assert len(caught.value.faults) == 3


def test_of_many_faults_the_first_and_their_number_are_told(choice_plan: Plan) -> None:
    many = {f"surprise {number}": 1 for number in range(5000)} | {"long" * 10**5: 1}
    with pytest.raises(InvalidFile, match="Got 5001 faults:") as caught:
        plan_from(json.dumps(choice_plan.document() | many))
    assert "and 4991 more" in str(caught.value)
    assert len(str(caught.value)) < 5000
    assert len(repr(caught.value.details)) < 5000
    assert len(caught.value.faults) == 5001
    with pytest.raises(InvalidFile) as caught:
        plan_from(json.dumps(choice_plan.document() | {"long" * 10**5: 1}))
    assert len(str(caught.value)) < 1000


def test_half_a_character_makes_no_plan(choice_plan: Plan) -> None:
    for change in ({"title": "\ud800"}, {"\ud800": 1}, {"\x1b[2J": 1}):
        with pytest.raises(InvalidFile) as caught:
            plan_from(json.dumps(choice_plan.document() | change))
        # Whoever prints the message must be able to.
        assert str(caught.value).replace("\n", "").isprintable()


@pytest.mark.parametrize("first", [10**15, -(10**15) - 1, 10**4000], ids=["above", "below", "far"])
def test_a_range_beyond_any_count_makes_no_plan(choice_plan: Plan, first: int) -> None:
    document = choice_plan.document()
    document["questions"][0]["question"]["values"] = {"first": first, "last": first + 10**6 - 1}
    with pytest.raises(InvalidFile, match=r"questions\.0\.question\.choice\.values"):
        plan_from(json.dumps(document))


@pytest.mark.parametrize(
    ("load", "bound"),
    [
        (cf.load_plan, "chaffinch.plans.plan.LARGEST_FILE"),
        (load_survey, "chaffinch.planning.survey_file._LARGEST_FILE"),
        (load_release, "chaffinch.release.release_document._LARGEST_FILE"),
    ],
)
def test_a_file_too_large_or_not_there_is_refused(
    load: Callable[[Path], object], bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageFault, match=r"'none' must be possible to read\. Got no such file"):
        load(tmp_path / "none")
    monkeypatch.setattr(bound, 10)
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(InvalidFile, match="too large"):
        load(tmp_path / "large")
    # A pipe says that its size is 0.
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"x" * 11,))
    writer.start()
    with pytest.raises(InvalidFile, match="too large"):
        load(tmp_path / "pipe")
    writer.join()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"format": "chaffinch/plan@2"}', b"\xff\xfe"])
def test_what_is_no_plan_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidFile):
        plan_from(text)


# ------------------------------------------------------------------------------ pieces


@given(
    st.integers(2, 300),
    st.fractions(Fraction(1, 10**6), Fraction(2, 5)),
    st.integers(1, 300),
)
def test_overflow_bounds_the_true_chance(positions: int, flip: Fraction, slots: int) -> None:
    below = sum(
        math.comb(positions - 1, k) * float(flip) ** k * float(1 - flip) ** (positions - 1 - k)
        for k in range(min(slots, positions))
    )
    assert overflow(positions, flip, slots) >= max(0.0, 1 - below) * (1 - 1e-9) - 1e-12


@given(st.floats(1e-6, 600))
def test_rounded_up_is_never_below(epsilon: float) -> None:
    assert epsilon <= rounded_up(epsilon) <= epsilon * 1.0011


@given(st.floats(0.01, 10), st.integers(1, 10**9), st.floats(1, 64))
def test_flips_are_drawable(mu: float, crowd: int, moved: float) -> None:
    flip = flip_for_shift(mu, crowd, moved)
    assert 0 < flip < Fraction(1, 2)
    assert 2**64 % flip.denominator == 0


def test_the_first_guess_is_the_gaussian_one() -> None:
    """Golden: the Gaussian mechanism with mu = 0.2369 has δ(1) ≈ 1e-6 (sd 4.22 of a count)."""
    assert 1 / gaussian_mu(1.0, 1e-6) == pytest.approx(4.22, abs=0.01)


@pytest.mark.parametrize(("epsilon", "right"), [(0.0, 51), (1.0, 74), (700.0, 100)])
def test_guesses_are_rounded_to_the_safe_side(epsilon: float, right: int) -> None:
    assert right_guesses(epsilon, 1e-6) == right


def test_a_protocol_refuses_what_it_cannot_carry() -> None:
    for question, protocol in (
        (cf.Number(0, 1), Flips(Fraction(1, 4))),
        (cf.Choice(["a", "b"], missing="count"), Flips(Fraction(1, 4))),
        (cf.Choice(["a", "b"], missing="count"), Flips(Fraction(1, 4), 2, 3)),
        (cf.Flags(["a"]), Decoys(1, Fraction(1, 2))),
    ):
        with pytest.raises(InvalidInput):
            Part("q", question, protocol)


@pytest.mark.parametrize("flip", [Fraction(1, 3), Fraction(1, 2), Fraction(0), 0.25])
def test_a_chance_that_cannot_be_drawn_is_refused(flip: object) -> None:
    with pytest.raises(InvalidInput):
        Flips(flip)  # type: ignore[arg-type]


def test_explanations_name_what_matters(choice_plan: Plan) -> None:
    words = choice_plan.explain()
    for needed in (
        "replace-one",
        "of 100 people",
        "90% honest",
        "2,670 reports",
        "collude",
        "local",
    ):
        assert needed in words


@pytest.mark.parametrize("name", ["plan.html", "plan.HTM", "plan.csv", "survey.toml"])
def test_a_plan_is_not_saved_as_something_else(
    name: str, tmp_path: Path, choice_plan: Plan
) -> None:
    with pytest.raises(InvalidInput, match="ends in") as caught:
        choice_plan.save(tmp_path / name)
    assert "explain()" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_crowd_may_be_a_float_that_is_whole() -> None:
    written: Any = 1e3
    found, usual = (
        cf.plan(cf.Bit(), users=n, target=TARGET, max_messages=1) for n in (written, 1000)
    )
    # Not only equal: 1000.0 would be another document.
    assert (found.id, type(found.users)) == (usual.id, int)
    bits = privacy.FlippedBits(users=written, flip_probability="0.1")
    assert type(bits.users) is int
    assert type(privacy.amplification.ShuffledTable([[1, 0], [0, 1]], users=written).users) is int
    with pytest.raises(InvalidInput):
        replace(usual, users=written)
    for users in (1000.5, float("nan"), float("inf"), True, "1000"):
        with pytest.raises(InvalidInput):
            cf.plan(cf.Bit(), users=users, target=TARGET)  # type: ignore[arg-type]


def test_whole_numbers_may_be_the_values_of_a_choice() -> None:
    asked = cf.Choice([1, 2, 5], missing=5, unknown=1)
    assert asked.labels == ("1", "2", "5")
    assert [asked.number(answer) for answer in (2, "2", 2.0, None, "other")] == [1, 1, 1, 2, 0]
    for values in ([1, "1"], [1, 2.5], [True, False], [1, None]):
        with pytest.raises(InvalidInput):
            cf.Choice(values)  # type: ignore[arg-type]


def test_a_plan_is_shown_in_a_line(choice_plan: Plan) -> None:
    assert repr(choice_plan).startswith("<Plan ")
    assert choice_plan.id[:16] in repr(choice_plan)
    assert f"epsilon={choice_plan.epsilon!r}" in repr(choice_plan)
    assert len(repr(choice_plan)) < 300
    certificate = f"<Certificate of plan {choice_plan.id[:16]}: epsilon 1, delta 1e-06>"
    assert repr(choice_plan.certificate()) == certificate
