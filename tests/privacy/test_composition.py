"""What a composition is made of, and what it says it protects."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy import composition
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from
from tests.cases import each_case
from tests.tiers import nightly

COLUMNS = privacy.FlippedFilters(filters=2, bits=20, flip_probability="0.4")
PEOPLE = privacy.FlippedBits(users=20, flip_probability="0.3")
OTHERS = privacy.FlippedBits(users=30, flip_probability="0.4")


@pytest.mark.parametrize("part", [COLUMNS, PEOPLE], ids=["columns", "people"])
def test_a_composition_protects_what_its_parts_protect(part: privacy.Mechanism) -> None:
    for rounds in (
        privacy.compose(part, times=2),
        privacy.compose([part, part]),
        privacy.compose(part, part),
    ):
        assert rounds.neighbours == part.neighbours
        assert rounds.guarantee(1e-6).neighbours == part.neighbours
    with pytest.raises(InvalidInput, match="a mechanism or a list of mechanisms"):
        privacy.compose()


def test_losses_of_people_and_of_columns_do_not_compose() -> None:
    assert COLUMNS.neighbours != PEOPLE.neighbours
    assert privacy.compose(COLUMNS, times=2).neighbours == COLUMNS.neighbours
    with pytest.raises(InvalidInput, match="neighbours"):
        privacy.compose([PEOPLE, COLUMNS])


def test_equal_parts_are_counted_and_inner_compositions_opened() -> None:
    inner = privacy.compose([PEOPLE, OTHERS], times=2)
    assert dict(privacy.compose([inner, PEOPLE], times=3).parts) == {PEOPLE: 9, OTHERS: 6}


def test_nothing_asked_is_nothing_lost() -> None:
    nothing = privacy.compose([])
    assert nothing.parts == ()
    assert 0.0 <= nothing.local_epsilon < 1e-300
    assert (nothing.view, nothing.crowd_words) == ("nothing", "nobody")
    assert nothing.neighbours == PEOPLE.neighbours
    for bracket in (nothing.delta(0.0), nothing.epsilon(1e-6)):
        assert (bracket.lower, bracket.upper) == (0.0, 0.0)
    assert nothing.delta_bound(0.0) == 0.0
    assert nothing.profile_end() == 0.0
    assert nothing.profile_floor == 1e-15


def test_one_round_of_one_mechanism_is_itself() -> None:
    one = privacy.compose(PEOPLE)
    assert one.delta(0.5) == PEOPLE.delta(0.5)
    assert one.epsilon(1e-6) == PEOPLE.epsilon(1e-6)
    assert one.delta_bound(0.5) == PEOPLE.delta_bound(0.5)


def test_one_crowd_of_several_mechanisms_is_told_once() -> None:
    ratios = {"question": "bit", "minus_ratio": "2/3", "flood": ["3/4"]}
    one, other = (
        privacy.SignedDecoys(**ratios, plus_ratio=plus)  # type: ignore[arg-type]
        for plus in ("2/3", "3/4")
    )
    words = "all users among whom the noise was divided, each of them honest"
    assert one.crowd_words == other.crowd_words == words
    assert privacy.compose([one, other, one]).crowd_words == f"{words}, every time"
    assert privacy.compose(one, times=2).crowd_words == f"{words}, every time"
    assert privacy.compose(one).crowd_words == words


def test_words_and_local_guarantees_of_the_parts() -> None:
    both = privacy.compose([PEOPLE, OTHERS, PEOPLE])
    assert both.crowd_words == f"{PEOPLE.crowd_words} (2 times) and {OTHERS.crowd_words} (1 time)"
    assert both.view == PEOPLE.view
    assert both.method == "upper-bound"
    total = 2 * PEOPLE.local_epsilon + OTHERS.local_epsilon
    assert total <= both.local_epsilon <= total * (1 + 1e-12)
    for bracket in (both.delta(both.local_epsilon), both.delta(both.local_epsilon + 1)):
        assert (bracket.lower, bracket.upper) == (0.0, 0.0)
    assert both.delta_bound(both.local_epsilon) == 0.0


@pytest.mark.parametrize("times", [0, -1, 1.5, True, 10**6 + 1])
def test_a_number_of_times_without_sense_is_refused(times: object) -> None:
    with pytest.raises(InvalidInput, match="number of times"):
        privacy.compose(PEOPLE, times=times)  # type: ignore[arg-type]


@pytest.mark.parametrize("resolution", [0.0, 1e-10, 1.5])
def test_a_resolution_without_sense_is_refused(resolution: float) -> None:
    with pytest.raises(InvalidInput, match="resolution"):
        privacy.compose(PEOPLE, times=2, resolution=resolution)


@pytest.mark.parametrize("given", [None, "bits", [PEOPLE, None], {PEOPLE}])
def test_only_mechanisms_are_composed(given: object) -> None:
    with pytest.raises(InvalidInput, match="mechanism"):
        privacy.compose(given)  # type: ignore[arg-type]


TWO = privacy.compose([PEOPLE, OTHERS])


@pytest.mark.parametrize("rounds", [TWO, privacy.compose(PEOPLE, times=2)], ids=["two", "twice"])
def test_the_quick_bound_is_above_the_exact_one_and_not_far(rounds: privacy.Composition) -> None:
    for epsilon in (0.0, 0.3, 1.0):
        exact = rounds.delta(epsilon).upper
        assert exact * (1 - 1e-9) <= rounds.delta_bound(epsilon) <= 2.5 * exact
        assert rounds.delta(epsilon).upper > PEOPLE.delta(epsilon).upper


def test_a_profile_is_delta_at_each_place() -> None:
    places = np.array([0.0, 0.5])
    lower, upper = TWO.profile(places)
    ends = [TWO.delta(float(place)) for place in places]
    assert lower.tolist() == [end.lower for end in ends]
    assert upper.tolist() == [end.upper for end in ends]
    assert (lower < upper).all()


def test_a_profile_is_followed_as_far_as_something_is_proven() -> None:
    assert 1e-15 <= TWO.profile_floor < 1e-9
    assert 0 < TWO.epsilon(TWO.profile_floor).upper <= TWO.local_epsilon


@pytest.mark.parametrize("times", [1, nightly(500)])
def test_the_short_search_ends_a_profile_where_its_floor_is(times: int) -> None:
    """Of many rounds the floor is what losses beyond every profile add up to."""
    rounds = privacy.compose([bits(1000, "0.1"), bits(500, "0.2")], times=times)
    end, floor = rounds.profile_end(), rounds.profile_floor
    assert (floor > 1e-14) == (times > 1)
    assert rounds.delta_bound(end) <= 1.5 * floor
    assert rounds.delta_bound(0.98 * end) > floor
    assert 0 < end < rounds.local_epsilon / 3


def test_a_profile_that_is_nowhere_below_its_floor_has_no_end() -> None:
    """Most of it is infinite loss: it is followed as far as any whose end nobody knows."""
    rounds = privacy.compose(privacy.DecoyedValues(decoys=2, values=2), times=8)
    assert rounds.delta_bound(600.0) > 1 / 4
    assert rounds.profile_end() == 0.0
    assert rounds.nodes()[-1] == pytest.approx(20.0)


@pytest.mark.parametrize("distance", [Fraction(1, 10**6), Fraction(1, 100), Fraction(1)])
def test_what_was_cut_in_any_round_is_paid_for(distance: Fraction) -> None:
    cut = privacy.compose([privacy.Shortened(PEOPLE, distance), OTHERS], times=2)
    whole = privacy.compose([PEOPLE, OTHERS], times=2)
    for epsilon in (0.0, 0.5):
        cost = (1 + math.exp(epsilon)) * 2 * float(distance)
        exact, quick = whole.delta(epsilon), whole.delta_bound(epsilon)
        found = cut.delta(epsilon)
        assert found.upper == pytest.approx(min(exact.upper + cost, 1.0), rel=1e-9)
        assert found.lower <= exact.lower
        assert cut.delta_bound(epsilon) == pytest.approx(min(quick + cost, 1.0), rel=1e-9)
        assert found.upper <= 1.0


def bits(users: int, flip: str) -> privacy.FlippedBits:
    return privacy.FlippedBits(users=users, flip_probability=flip)


@pytest.mark.parametrize(
    ("users", "flip", "times"),
    [(200, "0.1", 20), (1000, "0.02", 100), (1000, "0.269", 1000)],
)
@pytest.mark.long
def test_a_finer_grid_is_never_looser(users: int, flip: str, times: int) -> None:
    part = bits(users, flip)
    ends = [
        privacy.compose(part, times=times, resolution=resolution).epsilon(1e-6).upper
        for resolution in (0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-9)
    ]
    usual = privacy.compose(part, times=times).epsilon(1e-6).upper
    assert max(ends) <= usual
    assert all(fine <= coarse * (1 + 1e-7) for coarse, fine in itertools.pairwise(ends))


@pytest.mark.parametrize(
    ("users", "times", "local"),
    [
        (200, 50, "0.1"),
        *(nightly(200, 50, local) for local in ("0.0001", "1e-10", "1e-36")),
        *(nightly(10**4, 10**4, local) for local in ("0.1", "0.0001", "1e-10", "1e-36")),
        *(nightly(10**6, 10**4, local) for local in ("0.1", "0.0001", "1e-10", "1e-36")),
    ],
)
def test_parts_together_are_never_more_than_their_sum(users: int, times: int, local: str) -> None:
    many, alone = privacy.compose(bits(users, "0.1"), times=times), bits(1, local)
    both = privacy.compose([many, alone])
    plain = many.epsilon(1e-6).upper + alone.local_epsilon
    assert many.epsilon(1e-6).lower < both.epsilon(1e-6).upper <= plain * (1 + 1e-12)
    assert both.delta(plain).upper <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("users", "flip"),
    [(2, "0.45"), (20, "0.499"), nightly(100, "0.45"), nightly(100, "0.499")],
)
def test_two_bits_near_one_half_are_never_more_than_their_sum(users: int, flip: str) -> None:
    one = bits(users, flip)
    two = privacy.compose(one, times=2)
    values = privacy.FlippedValues(users=users, values=3, flip_probability=flip)
    for share in (0.3, 0.6, 0.95):
        epsilon = share * two.local_epsilon
        plain = 2 * one.delta(epsilon / 2).upper * (1 + 1e-9)
        assert two.delta(epsilon).upper <= plain
        assert two.delta_bound(epsilon) <= plain
    for delta in (1e-3, 1e-6, 1e-9):
        plain = 2 * one.epsilon(delta / 2).upper * (1 + 1e-9)
        assert two.epsilon(delta).upper <= plain
        assert values.epsilon(delta).upper <= plain


def test_a_sum_of_parts_with_cuts_and_several_kinds_is_above_the_truth() -> None:
    both = privacy.compose([bits(40, "0.3"), privacy.DecoyedValues(decoys=50, values=4)])
    for epsilon in (0.1, 1.0, 3.0):
        assert both.summed_delta(epsilon) >= both.delta(epsilon).lower
    assert both.summed_epsilon(1e-6) >= both.epsilon(1e-6).upper


@pytest.mark.parametrize(
    ("flip", "times"),
    [("0.45", 100), *(nightly(flip, 1000) for flip in ("0.45", "0.001", "0.1", "0.05", "0.01"))],
)
def test_how_far_many_rounds_of_many_are_known(flip: str, times: int) -> None:
    rounds = privacy.compose(bits(10**6, flip), times=times)
    assert rounds.epsilon(1e-6).relative_width <= 0.002


@pytest.mark.long
@pytest.mark.parametrize("times", [16, 100, 1000])
@pytest.mark.parametrize(
    ("users", "flip"),
    [
        *((10**4, flip) for flip in ("0.01", "0.03", "0.1")),
        *((10**6, flip) for flip in ("0.0001", "0.0003", "0.001", "0.003", "0.009")),
    ],
)
def test_how_far_many_rounds_of_narrow_sums_are_known(users: int, flip: str, times: int) -> None:
    rounds = privacy.compose(bits(users, flip), times=times)
    assert rounds.epsilon(1e-6).relative_width <= 0.002


@pytest.mark.parametrize(("users", "decoys"), [(9, 0), (10, 0), (5, 3)])
def test_every_crowd_is_on_one_side_or_the_other_way_round_on_it(users: int, decoys: int) -> None:
    """In either order each crowd lies below the two profiles that `sides` gives, as they stand."""
    part = privacy.FlippedBits(users=users, flip_probability="0.2", decoys=decoys)
    places = np.array([0.0, 0.1, 0.4, 0.9, 1.3])
    first, second = (side.profile(places)[1] for side in part.sides())
    for ones in range(users):
        orders = [
            part.bit_crowds.knots(ones, ones, mirrored=mirrored, tail=1e-30).deltas(places)[0]
            for mirrored in (False, True)
        ]
        fits = [
            all(
                bool((found <= ends).all())
                for found, ends in zip(way, (first, second), strict=True)
            )
            for way in (orders, orders[::-1])
        ]
        assert any(fits), ones
    assert np.maximum(first, second) == pytest.approx(part.profile(places)[1], rel=1e-6)


def test_rounds_of_one_bit_in_any_mix_of_orders_are_below_the_bound() -> None:
    """Twenty rounds among three, each with its own crowd and order: eight mixes, in floats."""
    part = privacy.FlippedBits(users=3, flip_probability="0.3")
    composed = privacy.compose(part, times=20)
    laws = []
    for ones in range(3):
        others = np.array([1.0])
        for value in [1] * ones + [0] * (2 - ones):
            others = np.convolve(others, [0.3, 0.7] if value else [0.7, 0.3])
        zero, one = np.convolve(others, [0.7, 0.3]), np.convolve(others, [0.3, 0.7])
        laws += [(zero, one), (one, zero)]
    for mix in (
        (20, 0, 0, 0, 0, 0),
        (10, 10, 0, 0, 0, 0),
        (19, 1, 0, 0, 0, 0),
        (0, 20, 0, 0, 0, 0),
        (15, 0, 5, 0, 0, 0),
        (4, 3, 3, 3, 3, 4),
        (0, 0, 20, 0, 0, 0),
        (12, 0, 0, 0, 8, 0),
    ):
        losses, masses = np.zeros(1), np.ones(1)
        for (first, second), times in zip(laws, mix, strict=True):
            for _ in range(times):
                losses = np.add.outer(losses, np.log(first / second)).ravel().round(9)
                masses = np.multiply.outer(masses, first).ravel()
                losses, index = np.unique(losses, return_inverse=True)
                masses = np.asarray(np.bincount(index, masses), dtype=np.float64)
        for epsilon in (0.0, 1.0, 3.0, 6.0):
            over = losses > epsilon
            truth = float((masses[over] * -np.expm1(epsilon - losses[over])).sum())
            assert truth <= composed.delta(epsilon).upper * (1 + 1e-6), mix


def test_a_part_that_stands_twice_counts_twice() -> None:
    alone = privacy.FlippedBits(users=1, flip_probability="1/4")
    crowd = privacy.FlippedBits(users=1000, flip_probability="1/4")
    twice = privacy.Composition(((alone, 1), (alone, 1), (crowd, 1)))
    assert twice == privacy.compose([alone, alone, crowd])
    assert twice.epsilon(1e-6).upper > 2 * alone.local_epsilon
    document = mechanism_document(privacy.compose([alone, crowd]))
    document["parts"] = [document["parts"][0], *document["parts"]]
    # A document has one canonical form, in which no part stands twice.
    with pytest.raises(InvalidInput, match="canonical"):
        mechanism_from(document)


def test_parts_of_two_kinds_of_neighbours_are_refused_however_they_come() -> None:
    people = privacy.FlippedBits(users=10, flip_probability="1/4")
    columns = privacy.FlippedFilters(filters=1, bits=100, flip_probability="1/4")
    with pytest.raises(InvalidInput, match="of one kind"):
        privacy.Composition(((people, 1), (columns, 1)))
    for times in (-1, 0, 10**12 + 1):
        with pytest.raises(InvalidInput, match="number of times"):
            privacy.Composition(((people, times),))


@pytest.mark.parametrize(
    ("table", "users"),
    [
        ([["1", "0"], ["1/2", "1/2"]], 3),
        ([["1", "0"], ["1/201", "200/201"]], 3),
        ([["0", "1"], ["1000/1001", "1/1001"]], 1),
    ],
)
def test_outputs_that_one_value_never_sends_compose_in_bounded_memory(
    table: list[list[str]], users: int
) -> None:
    two = privacy.compose(privacy.amplification.ShuffledTable(table, users=users), times=2)
    one = privacy.amplification.ShuffledTable(table, users=users)
    found = two.delta(1.0)
    assert found.upper >= one.delta(1.0).lower
    assert 0 <= found.lower <= found.upper <= 1


RARE = [
    [["0.5", "0.499999", "0.000001"], ["0.5", "0.49999999", "0.00000001"]],
    [
        ["0.5", "0.499999999", "0.000000001"],
        ["0.5", "0.499999999999999", "0.000000000000001"],
    ],
]


@pytest.mark.long
@pytest.mark.parametrize("rarity", [0, 1])
@pytest.mark.parametrize("resolution", [None, 1e-9, 1e-2])
def test_rounds_of_rare_outputs_are_never_more_than_the_parts_one_by_one(
    rarity: int, resolution: float | None
) -> None:
    table = RARE[rarity]
    one = privacy.amplification.ShuffledTable(table, users=1)
    two = privacy.compose(one, times=2, resolution=resolution)
    for epsilon in (0.0, 0.1, 1.0, 4.0, 5.0, 20.0):
        parts = 2 * one.delta(epsilon / 2).upper
        found = two.delta(epsilon)
        assert found.upper <= parts * (1 + 1e-9)
        assert two.delta_bound(epsilon) <= parts * (1 + 1e-3)
        assert one.delta(epsilon).lower <= found.upper
    rarest = float(table[0][2])
    for delta in (rarest, 1.9 * rarest):
        assert two.epsilon(delta).upper <= 2 * one.epsilon(delta / 2).upper * (1 + 1e-9)


def test_two_rounds_of_rare_outputs_are_known_closely() -> None:
    one = privacy.amplification.ShuffledTable(RARE[0], users=1)
    found = privacy.compose(one, times=2).delta(1.0)
    # One rare output in either round, in floats: two of them are rarer than the width.
    assert found.lower == pytest.approx(2 * 9.728171e-7, rel=1e-4)
    assert found.upper == pytest.approx(2 * 9.728171e-7, rel=1e-4)


def test_chances_of_infinite_losses_are_multiplied_not_added() -> None:
    parts = [
        privacy.DecoyedValues(values=4, users=users, decoy_rate=Fraction(9, 10)) for users in (3, 1)
    ]
    kept = math.prod(1 - part.delta(0.0).lower for part in parts)
    found = privacy.compose(parts).delta(0.0)
    assert found.lower == pytest.approx(1 - kept, rel=1e-5)
    assert found.upper == pytest.approx(1 - kept, rel=1e-8)
    alone = privacy.DecoyedValues(decoys=2, values=2)
    assert privacy.compose(alone, times=8).delta(3.0).upper < 1 - (1 - alone.delta(0.0).lower) ** 8


def test_small_compositions_take_small_grids() -> None:
    parts = [
        privacy.DecoyedValues(values=4, users=users, decoy_rate=Fraction(9, 10)) for users in (3, 1)
    ]
    composed = privacy.compose(parts)
    tracemalloc.start()
    composed.delta(0.0)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 300 << 20


@each_case("times", [1, 3, 1000])
@each_case("epsilon", [0.0, 0.5, 3.0])
def test_parts_one_by_one_in_floats_and_in_rationals(times: int, epsilon: float) -> None:
    deltas = [(1e-9 * (1 + epsilon), times), (0.25, 2), (0.0, 7)]
    exact = 1 - math.prod((1 - Fraction(delta)) ** count for delta, count in deltas)
    joined = composition._joined  # noqa: SLF001 - what the proof rests on
    assert exact <= Fraction(joined(deltas)) <= exact * (1 + Fraction(1, 10**12))
    assert joined([(1.0, 1)]) == 1.0


def test_where_a_profile_ends_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short search, a full one and shares of epsilon all ask for it."""
    digits = [
        privacy.SignedDecoys(
            question="number", plus_ratio=ratio, minus_ratio=ratio, flood=["9", "9"], steps=steps
        )
        for ratio, steps in ((Fraction(7, 10), 2), (Fraction(3, 4), 3))
    ]
    ends = [digit.epsilon(digit.profile_floor).upper for digit in digits]
    seen: list[privacy.Mechanism] = []
    real = privacy.SignedDecoys.profile_end

    def counted(mechanism: privacy.SignedDecoys) -> float:
        seen.append(mechanism)
        return real(mechanism)

    monkeypatch.setattr(privacy.SignedDecoys, "profile_end", counted)
    both = privacy.compose(digits)
    assert both.delta(1.0).upper <= both.delta_bound(1.0) * (1 + 1e-9)
    assert both.summed_delta(1.0) >= both.delta(1.0).lower
    assert seen == digits
    assert [real(digit) for digit in digits] == ends


def test_parts_one_by_one_are_never_certain_twice() -> None:
    assert composition._joined([(1 - 2**-53, 10)]) == 1.0  # noqa: SLF001 - what the proof rests on


def test_sums_are_of_upper_ends() -> None:
    """What was cut is a doubt of every part: their lower ends are far below the upper ones."""
    cut = privacy.Shortened(bits(100, "0.3"), Fraction(1, 10**7))
    both, alone = privacy.compose([cut, OTHERS]), bits(1, "0.1")
    each = 0.5e-6 * (1 - 1e-11)
    ends = cut.epsilon(each).upper + OTHERS.epsilon(each).upper
    assert ends * (1 - 1e-9) <= both.summed_epsilon(1e-6) <= ends * (1 + 1e-9)
    assert ends < both.local_epsilon
    beside = privacy.compose([cut, alone])
    upper = beside.epsilon(1e-6).upper
    assert beside.delta(upper).upper <= 1e-6 * (1 + 1e-6)


def test_a_composition_of_compositions_is_one_of_all_their_rounds() -> None:
    """It was followed as one wide part, which took minutes where signed decoys were in it."""
    one = privacy.FlippedBits(users=1000, flip_probability="0.2")
    two = privacy.FlippedBits(users=500, flip_probability="0.3")
    inner = privacy.Shortened(privacy.compose([one, two]), Fraction(1, 10**12))
    nested, plain = privacy.compose([inner, one]), privacy.compose([one, two, one])
    assert nested._rounds == plain._rounds  # noqa: SLF001 - what is convolved
    assert nested.epsilon(1e-6).upper == pytest.approx(plain.epsilon(1e-6).upper, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1.0])
def test_shares_of_an_epsilon_add_up_to_no_more(
    monkeypatch: pytest.MonkeyPatch, epsilon: float
) -> None:
    both, asked = privacy.compose([PEOPLE, PEOPLE, OTHERS]), list[Fraction]()
    real = privacy.FlippedBits.delta

    def delta(part: privacy.FlippedBits, share: float) -> privacy.Bracket:
        asked.append(Fraction(share) * dict(both.parts)[part])
        return real(part, share)

    both.summed_delta(epsilon)
    reach = [2 * float(PEOPLE.nodes()[-1]), float(OTHERS.nodes()[-1])]
    monkeypatch.setattr(privacy.FlippedBits, "delta", delta)
    both.summed_delta(epsilon)
    assert len(asked) == 2
    assert Fraction(epsilon) * Fraction(999, 1000) < sum(asked) <= Fraction(epsilon)
    # Whose losses reach farther needs more of it.
    assert float(asked[0] / asked[1]) == pytest.approx(reach[0] / reach[1], rel=1e-9)


@pytest.mark.parametrize("delta", [1e-3, 3e-7, 0.7])
def test_shares_of_a_delta_add_up_to_no_more(monkeypatch: pytest.MonkeyPatch, delta: float) -> None:
    both, asked = privacy.compose([PEOPLE, PEOPLE, OTHERS]), list[Fraction]()

    def epsilon(part: privacy.FlippedBits, share: float) -> privacy.Bracket:
        asked.append(Fraction(share) * dict(both.parts)[part])
        return privacy.Bracket(0.0, 0.0)

    monkeypatch.setattr(privacy.FlippedBits, "epsilon", epsilon)
    both.summed_epsilon(delta)
    assert len(asked) == 2
    assert Fraction(delta) * Fraction(999, 1000) < sum(asked) <= Fraction(delta)


def test_rounds_whose_crowds_are_told_apart_are_known_more_closely() -> None:
    """From sixteen of them on; the pair that dominates every crowd alone is half as close again."""
    one = bits(300, "0.1")
    assert privacy.compose(one, times=16).epsilon(1e-6).relative_width <= 0.006
    assert privacy.compose(one, times=15).epsilon(1e-6).relative_width > 0.006


def test_crowds_and_orders_are_told_apart_where_each_of_them_tells_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told(one: privacy.FlippedBits, epsilon: float, times: int = 16) -> tuple[float, float]:
        rounds = privacy.compose(one, times=times)
        plain = rounds._dominating_rounds.upper_delta(epsilon)  # noqa: SLF001 - with nothing told
        return rounds.delta(epsilon).upper, plain

    # By its crowds, of which orders alone tell half as much.
    upper, plain = told(bits(300, "0.1"), 1.0)
    assert upper < 0.93 * plain
    # By its orders, where crowds are not known.
    decoyed = privacy.FlippedBits(users=30, flip_probability="0.2", decoys=20)
    upper, plain = told(decoyed, 1.0, times=65)
    assert upper < 0.98 * plain
    # By its orders, which are known at more epsilons; but not in many rounds: it takes long.
    found = []
    for few in (16, 15):
        monkeypatch.setattr(composition, "_FEW_ROUNDS", few)
        rounds = privacy.compose(bits(100, "0.03"), times=16)
        found.append(min(one.delta(7.0) for one in rounds._adaptive_profiles))  # noqa: SLF001
    assert found[0] < 0.9 * found[1]


def test_many_rounds_are_told_apart_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    one, nothing_told = (
        bits(301, "0.1"),
        privacy.EncodedNumbers(users=50, resolution=3, flip_probability="0.2", slots="together"),
    )
    for times in (25, 30):
        whole = privacy.compose(one, times=times).delta(1.0)
        with monkeypatch.context() as patched:
            patched.setattr(composition, "_TOLD_APART", range(2, 25))
            patched.setattr(composition, "_BLOCK", 10)
            rounds = privacy.compose(one, times=times)
            plain = rounds._dominating_rounds.upper_delta(1.0)  # noqa: SLF001 - with nothing told
            assert whole.upper < rounds.delta(1.0).upper < 0.96 * plain
            assert privacy.compose(nothing_told, times=times)._adaptive_blocks is None  # noqa: SLF001


def test_whatever_loses_more_spreads_farther() -> None:
    one = bits(100, "0.1")
    spread = privacy.compose(one).spread
    assert privacy.compose(one, times=9).spread == pytest.approx(3 * spread)
    assert privacy.compose(bits(100, "0.05")).spread > spread


def test_a_share_too_small_for_a_float_leaves_the_local_guarantee() -> None:
    rounds = privacy.compose(PEOPLE, times=10**6)
    # The smallest double of all, in a million shares.
    assert rounds.summed_epsilon(5e-324) == rounds.local_epsilon


def test_the_largest_losses_are_set_apart_first() -> None:
    """A grid that holds them is too coarse for all the others."""
    parts = [bits(1, flip) for flip in ("0.4", "0.1", "0.3", "0.2")]
    apart = privacy.compose(parts)._local_parts_apart  # noqa: SLF001 - which parts are tried
    rest = [[parts[place] for place in places] for places in ((0, 2, 3), (0, 2), (0,))]
    assert [[part for part, _ in others.parts] for _, others in apart] == rest
    for local, others in apart:
        gone = [part.local_epsilon for part in parts if part not in dict(others.parts)]
        assert math.fsum(gone) <= local <= math.fsum(gone) * (1 + 1e-12)


def test_what_was_cut_inside_of_a_part_is_paid_for() -> None:
    """A part that is a composition itself is followed as one where anything in it was cut."""
    one, two = bits(1000, "0.1"), bits(500, "0.1")
    distance = Fraction(1, 100)
    inner = privacy.Composition(((privacy.Shortened(one, distance), 1), (two, 1)))
    around = privacy.Shortened(inner, Fraction(1, 10**12))
    assert privacy.compose([one, two, one]).delta_bound(1.0) < distance / 10
    for part in (inner, around):
        nested = privacy.Composition(((part, 1), (one, 1)))
        for found in (nested.delta(1.0).upper, nested.delta_bound(1.0)):
            # No epsilon has a smaller cost than 0, where it is twice the distance; what the local
            # guarantee, at which nothing is lost, takes off that is little here.
            assert 1.9 * distance <= found <= (1 + math.exp(1.0)) * distance
