"""What is granted, what is refused, and what a repeated key means."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from chaffinch import ledger as package
from chaffinch import privacy
from chaffinch.errors import BudgetExhausted, GuaranteeNotProven, InvalidInput
from chaffinch.ledger import Charge, Ledger
from chaffinch.ledger.charge import plan_of_all_groups
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols.flips import Flips
from chaffinch.questions import Bit, Choice, PublicGroup
from tests.cases import each_case
from tests.ledger import made
from tests.ledger.made import BIT, CAP, ONE, OTHER


def test_grants_what_fits_and_not_one_more(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    for count in range(made.GRANTS):
        ledger.charge(ONE, f"key {count}")
    with pytest.raises(BudgetExhausted) as refused:
        ledger.charge(ONE, "one more")
    granted = len(ledger.entries())
    # Composed here without the ledger.
    within = privacy.compose(BIT, times=granted).delta(CAP.epsilon).upper
    beyond = privacy.compose(BIT, times=granted + 1).delta(CAP.epsilon).upper
    assert within <= CAP.delta < beyond
    error = refused.value
    assert error.code == "budget-exhausted"
    assert error.spent == ledger.spent().epsilon <= CAP.epsilon < error.asked
    assert error.remaining == ledger.remaining() == CAP.epsilon - error.spent
    assert len(ledger.entries()) == granted == made.GRANTS


def test_a_refused_charge_leaves_room_for_a_smaller_one(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    ledger.charge(ONE, "a")
    with pytest.raises(BudgetExhausted):
        ledger.charge(Charge("plan", BIT, made.GRANTS), "b")
    assert ledger.charge(Charge("plan", BIT, made.GRANTS - 1), "b").sequence == 2


def test_a_total_exactly_at_the_cap_is_granted(tmp_path: Path) -> None:
    three = privacy.compose(BIT, times=3).epsilon(1e-6).upper
    ledger = made.create(tmp_path, cap=privacy.Target(three, 1e-6))
    ledger.charge(Charge("plan", BIT, 3), "a")
    assert ledger.spent().epsilon == three
    assert ledger.remaining() == 0.0
    below = made.create(tmp_path / "below", cap=privacy.Target(three * (1 - 1e-4), 1e-6))
    with pytest.raises(BudgetExhausted):
        below.charge(Charge("plan", BIT, 3), "a")


def test_one_mechanism_asked_once_is_itself(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    ledger.charge(ONE, "a")
    assert ledger.spent() == BIT.guarantee(delta=1e-6)
    assert ledger.spent().method == "exact"


def test_spent_is_the_exact_composition_in_any_order(tmp_path: Path) -> None:
    charges = [ONE, Charge("other", OTHER, 2), Charge("both", privacy.compose([BIT, OTHER]))]
    expected = privacy.compose([BIT] * 2 + [OTHER] * 3).epsilon(1e-6)
    spent = []
    for name, order in (("forth", charges), ("back", charges[::-1])):
        ledger = made.create(tmp_path / name)
        assert ledger.spent().epsilon == 0.0
        for charge in order:
            before = ledger.would_spend(charge)
            ledger.charge(charge, f"key {len(ledger.entries())}")
            assert ledger.spent() == before
        spent.append(ledger.spent())
    assert spent[0].epsilon == spent[1].epsilon == pytest.approx(expected.upper, rel=1e-4)
    assert spent[0].epsilon >= expected.lower


def test_of_the_public_groups_of_a_plan_the_one_with_the_most_charges_counts(
    tmp_path: Path,
) -> None:
    shops, streets = "5" * 64, "7" * 64
    charges = [
        Charge(f"{shops}/group/0", BIT),
        Charge(f"{shops}/group/1", BIT),
        Charge(f"{shops}/group/1", BIT),
        Charge(f"{shops}/group/2", BIT, 2),
        Charge(f"{streets}/group/11", BIT),
        Charge(f"{streets}/group/1", BIT),
        # A plan that is named without its group, or like one, is another one; so is a round.
        Charge(shops, BIT),
        Charge(f"{shops}/group/", BIT),
        Charge(f"{shops}/1", BIT),
        Charge(f"{shops}/2", BIT),
        Charge("week 5/group/3", OTHER),
        Charge("week 5/group/4", OTHER),
    ]
    expected = privacy.compose([BIT] * 7 + [OTHER] * 2).epsilon(1e-6).upper
    for name, order in (("forth", charges), ("back", charges[::-1])):
        ledger = made.create(tmp_path / name, cap=privacy.Target(20, 1e-6))
        for place, charge in enumerate(order):
            ledger.charge(charge, f"key {place}")
        assert ledger.spent().epsilon == expected
        assert ledger.would_spend(Charge(f"{shops}/group/0", BIT)).epsilon == expected
        assert ledger.would_spend(Charge(f"{shops}/group/2", BIT)).epsilon > expected
        assert made.reopen(tmp_path / name).spent().epsilon == expected


def test_numbers_sent_bit_by_bit_are_composed_bit_by_bit(tmp_path: Path) -> None:
    number = privacy.EncodedNumbers(users=20, resolution=3, flip_probability="0.3")
    ledger = made.create(tmp_path)
    ledger.charge(Charge("number", number, 2), "a")
    assert ledger.spent().epsilon == privacy.compose(BIT, times=6).epsilon(1e-6).upper


def test_where_composition_proves_nothing_the_local_guarantee_counts(tmp_path: Path) -> None:
    large = privacy.FlippedBits(users=1000, flip_probability="0.1")
    twice, both = Charge("plan", large, 2), privacy.compose(large, times=2)
    with pytest.raises(GuaranteeNotProven):
        both.epsilon(1e-30)
    wide = made.create(tmp_path / "wide", cap=privacy.Target(2 * both.local_epsilon, 1e-30))
    wide.charge(twice, "a")
    assert wide.spent().epsilon == both.local_epsilon
    narrow = made.create(tmp_path / "narrow", cap=privacy.Target(0.2 * both.local_epsilon, 1e-30))
    with pytest.raises(BudgetExhausted):
        narrow.charge(twice, "a")


def test_what_cannot_be_proven_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unproven(*_: object) -> privacy.Bracket:
        raise GuaranteeNotProven("delta", asked=1e-3, lower=0.0, upper=1.0)

    fresh = privacy.FlippedBits(users=21, flip_probability="0.3")
    ledger = made.create(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(privacy.FlippedBits, "delta", unproven)
        with pytest.raises(BudgetExhausted):
            ledger.charge(Charge("plan", fresh), "a")
    assert ledger.entries() == ()


def test_what_was_granted_is_never_said_to_be_above_the_cap(tmp_path: Path) -> None:
    # The search for epsilon stops 1e-5 above the truth; this cap lies in between.
    three = privacy.compose(BIT, times=3)
    found = three.epsilon(1e-6).upper
    low, high = found * (1 - 1e-4), found
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if three.delta(middle).upper <= 1e-6 else (middle, high)
    between = (high + found) / 2
    assert high < between < found
    ledger = made.create(tmp_path, cap=privacy.Target(between, 1e-6))
    ledger.charge(Charge("plan", BIT, 3), "a")
    assert ledger.spent().epsilon == between


def test_what_always_leaks_is_refused(tmp_path: Path) -> None:
    ledger = made.create(tmp_path, cap=privacy.Target(1e6, 1e-6))
    with pytest.raises(BudgetExhausted) as refused:
        ledger.charge(Charge("clear", privacy.DecoyedValues(decoys=1, values=5)), "a")
    assert refused.value.asked == math.inf


def test_people_and_columns_are_not_counted_together(tmp_path: Path) -> None:
    columns = privacy.FlippedFilters(filters=2, bits=10_000, flip_probability="0.3")
    ledger = made.create(tmp_path)
    ledger.charge(Charge("reach", columns), "a")
    assert ledger.spent().neighbours == "replace-one-column"
    with pytest.raises(InvalidInput, match="one kind"):
        ledger.charge(ONE, "b")
    with pytest.raises(InvalidInput, match="one kind"):
        Charge("mixed", privacy.compose([columns, BIT]))
    assert made.keys(ledger) == ["a"]


@each_case("times", [0, -1, -0.0, 1.0, math.nan, math.inf, True, "1", None, 10**7])
def test_times_are_refused_never_mended(times: Any) -> None:
    with pytest.raises(InvalidInput):
        Charge("plan", BIT, times)


@each_case("text", ["", "k" * 201, "line\nbreak", "nul\0", "\ud800", 3, None, b"k"])
def test_keys_and_plan_ids_are_short_printable_text(tmp_path: Path, text: Any) -> None:
    ledger = made.create(tmp_path)
    with pytest.raises(InvalidInput):
        ledger.charge(ONE, text)
    with pytest.raises(InvalidInput):
        Charge(text, BIT)
    if text != "":
        with pytest.raises(InvalidInput):
            ledger.charge(ONE, "key", subject=text)
    assert ledger.entries() == ()


def test_charges_are_charges_of_proven_mechanisms(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    nothing: Any = BIT
    with pytest.raises(InvalidInput):
        ledger.charge(nothing, "key")
    with pytest.raises(InvalidInput):
        ledger.would_spend(nothing)
    number: Any = 0.5
    with pytest.raises(InvalidInput):
        Charge("plan", number)


def test_a_repeated_key_charges_nothing(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    first = ledger.charge(ONE, "a")
    again = ledger.charge(Charge("plan", BIT, 1), "a")
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.sequence, again.hash) == (first.sequence, first.hash)
    assert len(ledger.entries()) == 1


def test_a_repeated_key_is_honoured_when_nothing_is_left(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    everything = Charge("plan", BIT, made.GRANTS)
    ledger.charge(everything, "a")
    assert ledger.charge(everything, "a").replayed


@pytest.mark.parametrize(
    ("charge", "subject"),
    [
        (Charge("another", BIT), "s"),
        (Charge("plan", OTHER), "s"),
        (Charge("plan", BIT, 2), "s"),
        (ONE, "t"),
        (ONE, ""),
    ],
)
def test_a_repeated_key_with_anything_else_is_refused(
    tmp_path: Path, charge: Charge, subject: str
) -> None:
    ledger = made.create(tmp_path)
    ledger.charge(ONE, "a", subject="s")
    with pytest.raises(InvalidInput, match="key"):
        ledger.charge(charge, "a", subject=subject)
    assert len(ledger.entries()) == 1


def test_an_analyzer_repeats_a_key_only_for_the_same_batch(tmp_path: Path) -> None:
    ledger = made.create(tmp_path, role="analyzer")
    ledger.charge(ONE, "no batch named")
    with pytest.raises(InvalidInput, match="same subject"):
        ledger.charge(ONE, "no batch named")
    ledger.charge(ONE, "november", subject="batch 1")
    with pytest.raises(InvalidInput, match="same subject"):
        ledger.charge(ONE, "november", subject="batch 2")
    assert ledger.charge(ONE, "november", subject="batch 1").replayed


def released(ledger: Ledger, subject: str, out: list[str]) -> None:
    with ledger.charging(ONE, "november", subject=subject) as entry:
        # Another process would see the charge already.
        assert entry.key in made.keys(ledger)
        out.append(subject)


def test_the_block_runs_after_the_charge_and_again_only_for_the_same_thing(
    tmp_path: Path,
) -> None:
    ledger = made.create(tmp_path)
    out: list[str] = []
    released(ledger, "batch 1", out)
    released(ledger, "batch 1", out)
    with pytest.raises(InvalidInput):
        released(ledger, "batch 2", out)
    assert out == ["batch 1", "batch 1"]
    assert len(ledger.entries()) == 1


def test_without_a_subject_the_block_never_runs_twice(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    out: list[str] = []
    released(ledger, "", out)
    with pytest.raises(InvalidInput):
        released(ledger, "", out)
    assert out == [""]


def test_a_failed_release_stays_charged(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    with pytest.raises(OSError, match="printer"), ledger.charging(ONE, "a"):
        raise OSError("printer on fire")
    assert made.keys(ledger) == ["a"]
    assert ledger.entries()[0].subject == "", "none was given"


def test_no_block_without_a_charge(tmp_path: Path) -> None:
    ledger = made.create(tmp_path)
    too_much = Charge("plan", BIT, made.GRANTS + 1)
    with pytest.raises(BudgetExhausted), ledger.charging(too_much, "a"):
        pytest.fail("released without a charge")


def test_the_same_content_under_another_key_is_charged_once(tmp_path: Path) -> None:
    ledger = made.create(tmp_path, role="analyzer")
    first = ledger.charge(ONE, "a", subject="b", by_subject=True)
    assert not first.replayed
    again = ledger.charge(ONE, "another", subject="b", by_subject=True)
    assert (again.key, again.replayed) == ("a", True)
    with ledger.charging(ONE, "a third", subject="b", by_subject=True) as entry:
        assert (entry.key, entry.replayed) == ("a", True)
    assert made.keys(ledger) == ["a"]
    # Other content, another charge, and whoever goes by the key alone, pay.
    ledger.charge(ONE, "c", subject="other", by_subject=True)
    ledger.charge(Charge("plan", OTHER), "d", subject="b", by_subject=True)
    ledger.charge(ONE, "e", subject="b")
    assert made.keys(ledger) == ["a", "c", "d", "e"]


def test_content_that_is_not_named_is_not_charged_by_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="subject"):
        made.create(tmp_path).charge(ONE, "a", by_subject=True)


def test_a_ledger_has_no_other_parts() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Budget'"):
        _ = package.Budget


def test_a_row_of_a_table_is_charged_in_one_public_group() -> None:
    part = Part("tea", Bit(missing="refuse"), Flips(Fraction(1, 8)))
    plan = Plan("", (part,), 100, 100, 100, 1, 1.0, 1e-6)
    assert Charge.of_table(plan) == Charge.of(plan)
    assert plan_of_all_groups(plan) is plan
    whole = Plan(
        *("", (part,), 100, 100, 100, 1, 1.0, 1e-6),
        group=PublicGroup("shop", Choice(["a", "b", "c"])),
    )
    for number, shop in enumerate("abc"):
        one = whole.of_group(shop)
        assert plan_of_all_groups(one) == whole != one
        charge = Charge.of_table(one)
        assert charge == Charge(f"{whole.id}/group/{number}", one.round_mechanism())
        assert charge != Charge.of(one)
