"""Plans with a shuffler: three promises, each recomputed from its flips, and their files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import pytest

from chaffinch.errors import GuaranteeNotProven, InvalidFile, InvalidInput
from chaffinch.privacy import Target
from chaffinch.reach.planning.audience import Audience
from chaffinch.reach.planning.reach_parties import Shuffler, both_flips, local_flip
from chaffinch.reach.planning.reach_plan import _FORMAT, ReachPlan, plan_from
from chaffinch.reach.planning.reach_planner import plan
from chaffinch.wire.documents import identified
from tests.cases import each_case
from tests.reach.publishing import small_plan
from tests.reach.test_estimates import audience
from tests.tiers import chequered

TARGET = Target(epsilon=1, delta=1e-9)
KEYED_ID = "6c8f680be53d02c92822d96c435b271e482e810bbb5f82fc8ea0869dfc5cef44"
SMALL = {"bits": 2**16, "hashes": 1}
WISHES: list[dict[str, Any]] = [
    {},
    {"shuffler_target": Target(3, 1e-6)},
    {"shuffler_target": Target(0.5, 1e-9)},
    {"local_epsilon": 6.0},
    {"local_epsilon": 3.0, "shuffler_target": Target(3, 1e-9)},
]


@lru_cache
def keyed(publishers: int = 2, **more: Any) -> ReachPlan:
    sizes = [60_000 // (place + 1) for place in range(publishers)]
    return plan(audience(publishers), sizes=sizes, target=TARGET, **more)


@lru_cache
def shuffled(publishers: int = 2, **more: Any) -> ReachPlan:
    return keyed(publishers, shuffled=True, **more)


def fewer(flip: Fraction) -> Fraction:
    return Fraction(int(flip * 2**64 * 999 // 1000), 2**64)


@pytest.mark.parametrize(("wish", "publishers"), chequered(((wish,) for wish in WISHES), (3, 1)))
def test_all_three_promises_hold(publishers: int, wish: dict[str, Any]) -> None:
    # One row is accounted exactly, which takes long where it has many bits.
    found = shuffled(publishers, **wish, **(SMALL if publishers == 1 else {}))
    found.verify()
    assert found.shuffler is not None
    own = wish.get("shuffler_target", TARGET)
    assert found.mechanism.flip_probability == found.shuffler.flip_probability
    assert found.mechanism.delta_bound(1) <= 1e-9
    assert found.own_mechanism.delta_bound(own.epsilon) <= own.delta
    assert (found.shuffler.epsilon, found.shuffler.delta) == (own.epsilon, own.delta)
    left = found.colluding_epsilon if publishers > 1 else found.guarantee.local_epsilon
    assert left <= wish.get("local_epsilon", math.inf)
    odds = float((1 - found.flip_probability) / found.flip_probability)
    rows = max(publishers - 1, 1)
    assert left == pytest.approx(rows * found.hashes * math.log(odds))


def test_no_more_is_flipped_than_was_asked_for() -> None:
    """A thousandth fewer flips, of the shuffler or of publishers, and a promise is broken."""
    found = shuffled()
    assert found.shuffler is not None
    less = replace(found.shuffler, flip_probability=fewer(found.shuffler.flip_probability))
    for broken in (
        replace(found, shuffler=less),
        replace(found, flip_probability=fewer(found.flip_probability)),
        replace(found, shuffler=replace(found.shuffler, epsilon=0.99)),
        replace(found, epsilon=0.99),
    ):
        with pytest.raises(GuaranteeNotProven):
            broken.verify()
    local = shuffled(local_epsilon=3.0)
    assert local.colluding_epsilon == pytest.approx(3.0, rel=1e-9)


def test_the_shuffler_flips_what_publishers_flip_in_a_plan_without_one() -> None:
    """For the same filters: the same bound, for whoever flips."""
    same = {"bits": 2**20, "hashes": 2}
    without, found = keyed(**same), shuffled(**same)
    assert found.shuffler is not None
    assert found.shuffler.flip_probability == without.flip_probability == found.flip_probability
    assert found.all_flips == both_flips(without.flip_probability, without.flip_probability)
    assert without.all_flips == without.flip_probability
    # The flips' part of the variance grows as their number does, and not more.
    assert without.standard_error < found.standard_error < 1.5 * without.standard_error


def test_each_party_accepts_what_it_accepts_of_both_promises() -> None:
    found = shuffled(shuffler_target=Target(3, 1e-6))
    found.verify(within=Target(3, 1e-6))
    for within in (Target(2.9, 1e-6), Target(3, 1e-7), Target(0.9, 1e-6)):
        with pytest.raises(InvalidInput, match="promise of a plan"):
            found.verify(within=within)


def test_what_is_weighed_are_all_flips() -> None:
    found = shuffled(shuffler_target=Target(3, 1e-6))
    chosen = next(one for one in found.options if one.hashes == found.hashes)
    assert chosen.flip == float(found.all_flips)
    assert chosen.own == float(found.flip_probability)
    assert chosen.standard_error == found.standard_error
    assert all(one.own < one.flip for one in found.options)
    assert all(one.own == one.flip for one in keyed().options)


@each_case(
    "wrong",
    [
        {"shuffler_target": TARGET},
        {"local_epsilon": 1.0},
        {"shuffled": True, "shuffler_target": 1.0},
        {"shuffled": True, "shuffler_target": Target(1, 0.5)},
        {"shuffled": True, "local_epsilon": 0.0},
        {"shuffled": True, "local_epsilon": math.nan},
        {"shuffled": True, "local_epsilon": "3"},
    ],
)
def test_impossible_wishes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        plan(Audience(["daily"]), sizes=[10_000], target=TARGET, **wrong)


@each_case(
    "wrong",
    [
        (Fraction(1, 3), 1.0, 1e-9),
        (Fraction(1, 4), 0.0, 1e-9),
        (Fraction(1, 4), math.nan, 1e-9),
        (Fraction(1, 4), 101.0, 1e-9),
        (Fraction(1, 4), 1.0, 0.0),
        (Fraction(1, 4), 1.0, 0.1),
    ],
)
def test_impossible_shufflers_are_never_born(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        Shuffler(*wrong)


@pytest.mark.parametrize("flip", [Fraction(0), Fraction(1, 2), Fraction(3, 4)])
def test_a_plan_has_no_shuffler_without_flips(flip: Fraction) -> None:
    with pytest.raises(InvalidInput):
        replace(shuffled(), shuffler=Shuffler(flip, 1.0, 1e-9))
    with pytest.raises(InvalidInput):
        replace(shuffled(), shuffler=1.0)  # type: ignore[arg-type]


@each_case("epsilon", [0.01, 1.0, 7.3, 100.0])
@each_case("hashes", [1, 16])
def test_the_least_local_flip(epsilon: float, hashes: int) -> None:
    two = Audience(["a", "b", "c"], frequencies=2)
    flip = local_flip(two, hashes, epsilon)
    for chance, fits in ((flip, True), (fewer(flip), False)):
        left = 4 * hashes * math.log(float((1 - chance) / chance))
        assert (left <= epsilon * (1 + 1e-12)) is fits


# ----------------------------------------------------------------- words and files


def test_the_explanation_names_all_three() -> None:
    words = shuffled(shuffler_target=Target(3, 1e-6)).explain()
    for part in (
        "If publishers help the analyzer, the same holds for an id at the others",
        "no publisher and never has the campaign key",
        "the publishers' own flips promise epsilon 3 and delta 1e-06",
        "only the own flips are left to an id at the other publishers",
        "is sent to the shuffler alone",
        "The shuffler flips every bit of every filter again",
    ):
        assert part in words
    assert "With the key, only the own flips are left" in shuffled(1, **SMALL).explain()
    assert "shuffler" not in keyed().explain()


def test_a_plan_file_holds_all_of_it() -> None:
    found = shuffled(shuffler_target=Target(3, 1e-6))
    document = found.document()
    again = plan_from(json.dumps(document))
    assert (again, again.id) == (found, found.id)
    assert again.shuffler_guarantee == found.shuffler_guarantee
    assert document["shuffler"]["guarantee"]["epsilon"] == "3"
    assert document["guarantee"]["crowd"].endswith("; flipped by the shuffler")
    assert document["shuffler"]["guarantee"]["crowd"].endswith("; flipped by the publishers")


def test_a_plan_without_a_shuffler_says_nothing_of_one() -> None:
    assert "shuffler" not in keyed().document()
    assert keyed().shuffler_guarantee is None


def test_ids_stay_what_they_are() -> None:
    """Made by the first version that had shufflers; a plan without one is from before."""
    one = small_plan(title="Autumn", shuffled=Fraction(1, 8))
    assert one.shuffler is not None
    told = replace(one, epsilon=1.5, shuffler=replace(one.shuffler, epsilon=2.5))
    assert told.id == "8b91000df19e51cda338f66ba1792e5946db1ce32739a26afbd335377c7bcc51"
    assert replace(told, shuffler=None).id == KEYED_ID


def test_the_shape_is_part_of_the_id() -> None:
    one = small_plan(shuffled=Fraction(1, 4))
    assert one.id != replace(one, shuffler=None).id


@each_case(
    "change",
    [
        lambda told: told.pop("guarantee"),
        lambda told: told.update(flip_probability="0.3"),
        lambda told: told.update(more="yes"),
        lambda told: told["guarantee"].update(crowd="1048576 columns"),
        lambda told: told["guarantee"].update(local_epsilon="1"),
        lambda told: told["guarantee"].update(epsilon="infinite"),
        lambda told: told["guarantee"].update(method="exact"),
    ],
)
def test_a_changed_shuffler_is_refused(change: Any) -> None:
    document = json.loads(json.dumps(shuffled().document()))
    change(document["shuffler"])
    body = {key: value for key, value in document.items() if key not in ("format", "id")}
    with pytest.raises(InvalidFile):
        plan_from(json.dumps(identified(_FORMAT, body)))
