"""Amplification by shuffling: never below the truth, and equal to numbers others computed."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from chaffinch.errors import InvalidInput
from chaffinch.privacy import FlippedBits, amplification, compose
from chaffinch.privacy.amplification import ShuffledResponse, ShuffledTable
from chaffinch.privacy.guarantee import Bracket
from tests.cases import each_case
from tests.tiers import chequered, nightly

Row = tuple[Fraction, ...]
Table = tuple[Row, ...]


def response(values: int, ratio: int) -> Table:
    """Return randomized response: the truth is ``ratio`` times as likely as any other value."""
    share = Fraction(1, ratio + values - 1)
    return tuple(
        tuple(share * (ratio if x == v else 1) for v in range(values)) for x in range(values)
    )


@functools.cache
def histogram_law(rows: tuple[Row, ...]) -> dict[tuple[int, ...], Fraction]:
    """Return the exact law of the output counts of users with these rows."""
    outputs = len(rows[0])
    law = {(0,) * outputs: Fraction(1)}
    for row in rows:
        grown: dict[tuple[int, ...], Fraction] = {}
        for counts, mass in law.items():
            for v, chance in enumerate(row):
                key = (*counts[:v], counts[v] + 1, *counts[v + 1 :])
                grown[key] = grown.get(key, Fraction(0)) + mass * chance
        law = grown
    return law


def worst_delta(table: Table, users: int, growth: Fraction) -> Fraction:
    """Return the true delta: all crowds, all ordered pairs, all outputs, in rationals."""
    worst = Fraction(0)
    for crowd in itertools.combinations_with_replacement(table, users - 1):
        laws = [histogram_law((*crowd, row)) for row in table]
        for first, second in itertools.permutations(laws, 2):
            excess = (mass - growth * second.get(key, Fraction(0)) for key, mass in first.items())
            worst = max(worst, sum((part for part in excess if part > 0), Fraction(0)))
    return worst


EPSILONS = [0.0, 0.1, 0.5, 1.0, 1.5]


@each_case("ratio", [2, 9])
@each_case(("values", "users"), [(2, 1), (2, 2), (2, 5), (3, 1), (3, 3), (3, 4)])
def test_randomized_response_is_inside_every_bound(values: int, users: int, ratio: int) -> None:
    table = response(values, ratio)
    mechanism = ShuffledTable(table, users=users)
    for epsilon in EPSILONS:
        truth = worst_delta(table, users, Fraction(math.exp(epsilon)))
        bracket = mechanism.delta(epsilon)
        assert bracket.lower <= float(truth) * (1 + 1e-12)
        assert float(truth) <= bracket.upper * (1 + 1e-12)
        clones = amplification.clone_delta(
            local_epsilon=mechanism.local_epsilon, users=users, epsilon=epsilon
        )
        assert float(truth) <= clones.upper * (1 + 1e-12)
        # The blanket knows the randomizer, the clones only its local epsilon.
        assert bracket.upper <= clones.upper * (1 + 2e-3)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    inputs, outputs = draw(st.integers(2, 3)), draw(st.integers(2, 3))
    rows = []
    for _ in range(inputs):
        shares = draw(st.lists(st.integers(0, 6), min_size=outputs, max_size=outputs))
        shares[draw(st.integers(0, outputs - 1))] += 1
        rows.append(tuple(Fraction(share, sum(shares)) for share in shares))
    return tuple(rows)


@settings(max_examples=40)
@given(table=tables(), users=st.integers(1, 4), epsilon=st.sampled_from([0.0, 0.3, 1.0, 2.5]))
def test_any_table_is_inside_its_bracket(table: Table, users: int, epsilon: float) -> None:
    truth = float(worst_delta(table, users, Fraction(math.exp(epsilon))))
    bracket = ShuffledTable(table, users=users, relative_width=0.02).delta(epsilon)
    assert bracket.lower <= truth + 1e-12
    assert truth <= bracket.upper + 1e-12


def test_a_crowd_of_equals_is_exact_without_anything_to_reveal() -> None:
    # One user: no crowd at all, so both ends are the local hockey-stick.
    table = response(3, 5)
    for epsilon in (0.0, 0.7):
        growth = Fraction(math.exp(epsilon))
        bracket = ShuffledTable(table, users=1).delta(epsilon)
        truth = float(worst_delta(table, 1, growth))
        assert bracket.lower == pytest.approx(truth, rel=2e-3)
        assert bracket.upper == pytest.approx(truth, rel=2e-3)


def clone_oracle(local: float, users: int, epsilon: float) -> float:
    """Return the clone bound by its definition: a sum over the number of clones."""
    keep = math.exp(local) / (math.exp(local) + 1.0)
    total = 0.0
    for clones, chance in enumerate(stats.binom.pmf(np.arange(users), users - 1, math.exp(-local))):
        count = np.arange(clones + 2)
        without = stats.binom.pmf(count, clones, 0.5)
        with_one = stats.binom.pmf(count - 1, clones, 0.5)
        first = keep * with_one + (1.0 - keep) * without
        second = keep * without + (1.0 - keep) * with_one
        total += chance * float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
    return total


@each_case(
    ("users", "local"), chequered(((users,) for users in (1, 2, 7, 60, 400)), [0.2, 1.0, 3.0])
)
def test_clones_agree_with_their_definition(users: int, local: float) -> None:
    for epsilon in (0.0, 0.1 * local, 0.6 * local):
        truth = clone_oracle(local, users, epsilon)
        bracket = amplification.clone_delta(local_epsilon=local, users=users, epsilon=epsilon)
        assert bracket.lower <= truth * (1 + 1e-9)
        assert truth <= bracket.upper * (1 + 1e-9)
        assert bracket.relative_width <= 1e-2


def test_clones_land_in_the_published_interval() -> None:
    # The interval and the closed form are printed by the authors of the bound themselves.
    bracket = amplification.clone_epsilon(local_epsilon=4, users=10**5, delta=1e-6)
    assert bracket.lower >= 0.1675385583317841
    assert bracket.upper <= 0.172790550755978
    assert bracket.relative_width <= 1e-4
    closed = amplification.clone_epsilon_closed_form(local_epsilon=4, users=10**5, delta=1e-6)
    assert closed == pytest.approx(0.5378040242374512, rel=1e-14)


@given(
    local=st.floats(0.01, 4.0),
    users=st.sampled_from([10**4, 10**5, 10**6]),
    delta=st.sampled_from([1e-4, 1e-8, 1e-12]),
)
@settings(max_examples=15)
def test_closed_form_is_above_the_computed_one(local: float, users: int, delta: float) -> None:
    try:
        closed = amplification.clone_epsilon_closed_form(
            local_epsilon=local, users=users, delta=delta
        )
    except InvalidInput:
        assert local > math.log(users / (16 * math.log(4 / delta)))
        return
    at_closed = amplification.clone_delta(local_epsilon=local, users=users, epsilon=closed)
    assert at_closed.upper <= delta


def test_delta_falls_with_users_and_with_epsilon() -> None:
    table = response(4, 20)
    slack = 1 + 3e-3
    by_users = [ShuffledTable(table, users=n).delta(0.5).upper for n in (1, 2, 10, 100, 1000)]
    assert all(b <= a * slack for a, b in itertools.pairwise(by_users))
    lower, upper = ShuffledTable(table, users=200).profile(np.linspace(0.0, 3.2, 9))
    assert np.all(upper[1:] <= upper[:-1] * slack)
    assert np.all(lower <= upper)
    assert upper[-1] == 0.0


def test_epsilon_and_delta_are_inverse() -> None:
    mechanism = ShuffledTable(response(3, 10), users=5000)
    for delta in (1e-3, 1e-9, 1e-12):
        bracket = mechanism.epsilon(delta)
        assert mechanism.delta(bracket.upper).upper <= delta
        assert mechanism.delta(bracket.lower).lower > delta * (1 - 1e-6)
        assert bracket.lower < bracket.upper < mechanism.local_epsilon


def test_a_million_users_and_a_tiny_delta() -> None:
    bracket = ShuffledTable(response(5, 10), users=10**6).epsilon(1e-12)
    # A crowd on a third value is almost a blanket: both ends are nearly the same number.
    assert bracket.upper < 0.021
    assert bracket.relative_width < 1e-3


def test_local_epsilon_and_guarantee() -> None:
    mechanism = ShuffledTable([["3/4", "1/4"], ["1/4", "3/4"]], users=100)
    assert mechanism.local_epsilon == pytest.approx(math.log(3), rel=1e-15)
    assert mechanism.local_epsilon >= math.log(3)
    assert mechanism.blanket == 0.5
    guarantee = mechanism.guarantee(delta=1e-6)
    assert guarantee.proven
    assert guarantee.view == "records"
    assert mechanism.delta(mechanism.local_epsilon).upper == 0.0


def test_tables_without_a_local_guarantee() -> None:
    # Output 0 names the first input, whatever the crowd: half of the time everything is lost.
    mechanism = ShuffledTable([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], users=1000)
    assert mechanism.local_epsilon == math.inf
    assert mechanism.delta(1.0).lower == pytest.approx(0.5)
    assert mechanism.delta(1.0).upper == pytest.approx(0.5, rel=1e-6)
    assert mechanism.epsilon(0.4).upper == math.inf
    assert mechanism.epsilon(0.51).upper < 1.0
    clear = ShuffledTable([[1, 0], [0, 1]], users=1000)
    assert clear.delta(3.0).upper == pytest.approx(1.0)


def test_useless_answers_are_perfectly_private() -> None:
    mechanism = ShuffledTable([[0.3, 0.7], [0.3, 0.7]], users=3)
    assert mechanism.local_epsilon == 0.0
    assert mechanism.delta(0.0).upper == 0.0
    assert mechanism.epsilon(1e-9).upper == 0.0


@each_case(
    "table",
    [
        [[0.5, 0.5]],
        [[], []],
        [[0.5, 0.5], [0.5, 0.4]],
        [[0.5, 0.5], [1.0]],
        [[1.5, -0.5], [0.5, 0.5]],
        [[math.nan, 0.5], [0.5, 0.5]],
        [[True, False], [0.5, 0.5]],
        [["half", "half"], [0.5, 0.5]],
    ],
)
def test_bad_tables_are_refused(table: list[list[float]]) -> None:
    with pytest.raises(InvalidInput):
        ShuffledTable(table, users=10)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "1"])
def test_bad_numbers_are_refused(bad: object) -> None:
    mechanism = ShuffledTable(response(2, 3), users=10)
    for call in (
        lambda: ShuffledTable(response(2, 3), users=bad),  # type: ignore[arg-type]
        lambda: mechanism.delta(bad),  # type: ignore[arg-type]
        lambda: mechanism.epsilon(bad),  # type: ignore[arg-type]
        lambda: amplification.clone_delta(local_epsilon=bad, users=9, epsilon=1),  # type: ignore[arg-type]
        lambda: amplification.clone_delta(local_epsilon=1, users=9, epsilon=bad),  # type: ignore[arg-type]
        lambda: amplification.clone_epsilon(local_epsilon=1, users=bad, delta=1e-6),  # type: ignore[arg-type]
        lambda: amplification.clone_epsilon_closed_form(local_epsilon=1, users=9, delta=bad),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput):
            call()


@pytest.mark.parametrize(("local", "epsilon"), [(5.0, 4.9), (1.0, 0.999), (1.0, 0.5)])
def test_below_the_local_epsilon_an_upper_end_is_never_zero(local: float, epsilon: float) -> None:
    """The true number is above 0 there, however many zeros it has behind the point."""
    for users in (10**4, 10**6, 10**8):
        bracket = amplification.clone_delta(local_epsilon=local, users=users, epsilon=epsilon)
        assert 0 <= bracket.lower <= bracket.upper <= 1
        assert bracket.upper > 0
        table = ShuffledTable(response(2, 3), users=users)
        assert table.delta(epsilon * table.local_epsilon / local).upper > 0
        assert table.delta(table.local_epsilon) == Bracket(0.0, 0.0)


def test_the_clone_bound_is_no_more_than_certain() -> None:
    bracket = amplification.clone_delta(local_epsilon=680, users=10, epsilon=679)
    assert bracket.upper == 1


@pytest.mark.parametrize(("values", "ratio"), chequered([(9,), (16,)], [3, 20, 100]))
def test_a_crowd_on_a_third_value_closes_the_gap_of_large_tables(values: int, ratio: int) -> None:
    bracket = ShuffledTable(response(values, ratio), users=1000).epsilon(1e-6)
    assert bracket.relative_width <= 0.005


@settings(max_examples=40)
@given(table=tables(), users=st.integers(1, 4), epsilon=st.sampled_from([0.0, 0.3, 1.0, 2.5]))
def test_the_laws_of_one_crowd_are_no_worse_than_the_worst(
    table: Table, users: int, epsilon: float
) -> None:
    first, second = ShuffledTable(table, users=users).instance()
    assert first.sum() == pytest.approx(1.0, rel=1e-13)
    assert second.sum() == pytest.approx(1.0, rel=1e-13)
    truth = float(worst_delta(table, users, Fraction(math.exp(epsilon))))
    for one, two in ((first, second), (second, first)):
        assert np.maximum(one - math.exp(epsilon) * two, 0.0).sum() <= truth + 1e-12


@pytest.mark.parametrize(("values", "users"), [(2, 4), (3, 5), (3, 2)])
def test_the_laws_of_one_crowd_keep_all_that_it_shows(values: int, users: int) -> None:
    """Randomized response of three values: the crowd's own is the third kind of message."""
    table = response(values, 5)
    first, second = ShuffledTable(table, users=users).instance()
    crowd = (table[min(2, values - 1)],) * (users - 1)
    laws = [histogram_law((*crowd, table[value])) for value in (1, 0)]
    for growth in (1.0, 1.5, 3.0):
        shown = float(np.maximum(first - growth * second, 0.0).sum())
        exact = Fraction(growth)
        pairs = [(mass, laws[1].get(key, Fraction(0))) for key, mass in laws[0].items()]
        truths = [
            float(sum((max(a - exact * b, Fraction(0)) for a, b in order), Fraction(0)))
            for order in (pairs, [(b, a) for a, b in pairs])
        ]
        assert any(shown == pytest.approx(truth, rel=1e-12) for truth in truths)


@pytest.mark.long
@pytest.mark.parametrize(("values", "ratio"), [(3, 5), (10, 20)])
def test_many_rounds_of_a_table_have_two_close_ends(values: int, ratio: int) -> None:
    once = ShuffledTable(response(values, ratio), users=1000)
    bracket = compose(once, times=100).epsilon(1e-6)
    assert bracket.relative_width <= 0.005
    assert bracket.lower > 5 * once.epsilon(1e-6).upper


@pytest.mark.long
def test_rounds_of_a_table_of_two_hold_those_of_the_bit_that_it_is() -> None:
    """Randomized response of two values is a flipped bit, whose own bracket is narrower."""
    flipped = compose(FlippedBits(users=1000, flip_probability="0.25"), times=50).epsilon(1e-6)
    table = compose(ShuffledTable(response(2, 3), users=1000), times=50).epsilon(1e-6)
    assert table.lower <= flipped.upper
    assert flipped.lower <= table.upper
    assert table.lower == pytest.approx(flipped.lower, rel=1e-3)


# ------------------------------------------------------------------ response by its local epsilon


@each_case("ratio", [2, 9])
@each_case(("values", "users"), [(2, 1), (2, 5), (3, 4), (4, 3), (5, 3)])
def test_response_by_its_local_epsilon_holds_the_truth(values: int, users: int, ratio: int) -> None:
    mechanism = ShuffledResponse(local_epsilon=math.log(ratio), values=values, users=users)
    for epsilon in EPSILONS:
        truth = worst_delta(response(values, ratio), users, Fraction(math.exp(epsilon)))
        bracket = mechanism.delta(epsilon)
        assert bracket.lower <= float(truth) * (1 + 1e-9)
        assert float(truth) <= bracket.upper * (1 + 1e-9) + 1e-16


@pytest.mark.parametrize("values", [2, 3, nightly(4), 7])
def test_a_response_is_its_whole_table(values: int) -> None:
    short = ShuffledResponse(local_epsilon=math.log(5), values=values, users=50)
    whole = ShuffledTable(response(values, 5), users=50)
    assert short.local_epsilon == math.log(5)
    assert short.blanket == pytest.approx(whole.blanket, rel=1e-12)
    for epsilon in (0.1, 0.5, 1.0):
        one, other = short.delta(epsilon), whole.delta(epsilon)
        assert one.lower == pytest.approx(other.lower, rel=2e-3)
        assert one.upper == pytest.approx(other.upper, rel=2e-3)


def test_a_response_among_many_values_is_quick_and_shown() -> None:
    mechanism = ShuffledResponse(local_epsilon=5, values=10**6, users=10**6)
    assert mechanism.epsilon(1e-6).upper < 0.000504
    assert repr(mechanism) == "ShuffledResponse(local_epsilon=5.0, values=1000000, users=1000000)"
    assert repr(ShuffledTable(response(3, 2), users=9)) == (
        "ShuffledTable(<3 inputs, 3 outputs>, users=9)"
    )
    assert "ShuffledResponse" in mechanism._repr_html_()


@pytest.mark.parametrize(
    "bad", [{"local_epsilon": -1}, {"local_epsilon": math.nan}, {"values": 1}, {"users": 0}]
)
def test_bad_responses_are_refused(bad: dict[str, float]) -> None:
    given = {"local_epsilon": 1.0, "values": 3, "users": 10} | bad
    with pytest.raises(InvalidInput):
        ShuffledResponse(**given)  # type: ignore[arg-type]


def test_a_table_with_zeros_is_asked_for_any_epsilon() -> None:
    half = ShuffledTable([[1, 0], ["1/2", "1/2"]], users=100)
    far = [half.delta(epsilon) for epsilon in (4096.0, 1e7, 1e300)]
    # The second value names itself with chance 1/2, whatever epsilon is.
    assert all(one.lower <= 0.5 <= one.upper < 0.5 * (1 + 1e-9) for one in far)
    assert far[0].lower > 0.5 * (1 - 1e-9)
