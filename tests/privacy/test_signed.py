"""The accountant of signed decoys: laws that must hold, extreme parameters, refusals."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chaffinch import privacy
from chaffinch.errors import GuaranteeNotProven, InvalidInput
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from
from chaffinch.privacy.mechanisms.signed import SignedDecoys
from chaffinch.privacy.numerics.floods import _MOST_PLACES, Flood
from chaffinch.privacy.numerics.positive_parts import Doubt, PositiveParts, on_few_ratios
from chaffinch.privacy.numerics.precision import Wide
from tests.cases import each_case
from tests.laws.mechanisms import epsilons, ratios, signed
from tests.oracles import balls
from tests.oracles import signed as referees
from tests.tiers import all_but

RATE = st.fractions(Fraction(0), Fraction(3), max_denominator=20)


def flat(ratio: float, growth: float, delta: float) -> list[float]:
    """Return the flood of a bit whose masses never rise faster than ``growth``."""
    rates: list[float] = []
    left = math.log((1 - ratio) / delta)
    while left > 0:
        k = len(rates) + 1
        rates.append(min((growth**k - ratio ** (2 * k)) / k, left))
        left -= rates[-1]
    return rates


A = math.exp(-0.4)
FLAT = SignedDecoys(question="bit", plus_ratio=A, minus_ratio=A, flood=flat(A, math.exp(0.2), 1e-6))


def changed(mechanism: SignedDecoys, **fields: Any) -> SignedDecoys:
    names = ("question", "plus_ratio", "minus_ratio", "flood", "steps", "share", "doubled")
    return SignedDecoys(**{name: getattr(mechanism, name) for name in names} | fields)


# ---------------------------------------------------------------- more noise is post-processing


@given(mechanism=signed, more=st.lists(RATE, max_size=5), epsilon=epsilons)
def test_more_flood_never_hurts(
    mechanism: SignedDecoys, more: list[Fraction], epsilon: float
) -> None:
    """Bursts more are independent of everything: whoever sees fewer can add them."""
    both = itertools.zip_longest(mechanism.flood, more, fillvalue=Fraction(0))
    larger = changed(mechanism, flood=[one + two for one, two in both])
    assert larger.delta(epsilon).lower <= mechanism.delta(epsilon).upper


@given(
    mechanism=signed, share=st.fractions(Fraction(1, 5), 1, max_denominator=20), epsilon=epsilons
)
def test_a_larger_share_never_hurts(
    mechanism: SignedDecoys, share: Fraction, epsilon: float
) -> None:
    fewer, more = sorted([mechanism.share, share])
    less, better = changed(mechanism, share=fewer), changed(mechanism, share=more)
    assert better.delta(epsilon).lower <= less.delta(epsilon).upper


@pytest.mark.long
@given(mechanism=signed, share=st.sampled_from(["11/10", 2, "7/2"]), epsilon=epsilons)
def test_of_more_users_than_noise_was_cut_for_only_the_upper_end_is_known(
    mechanism: SignedDecoys, share: str, epsilon: float
) -> None:
    whole, more = changed(mechanism, share=1), changed(mechanism, share=share)
    assert (whole.method, more.method) == ("exact", "upper-bound")
    assert (more.delta(epsilon).lower, more.delta(epsilon).upper) == (
        0.0,
        whole.delta(epsilon).upper,
    )
    assert (more.epsilon(0.1).lower, more.instance()) == (0.0, None)
    assert more.epsilon(0.1).upper == whole.epsilon(0.1).upper


def test_more_users_than_noise_was_cut_for_are_inside_their_bracket() -> None:
    """Twice the users send twice the noise: the truth lies below both ends of the noise once."""
    ratio, flood = Fraction(1, 2), [Fraction(3, 4), Fraction(1, 4)]
    once = SignedDecoys(question="bit", plus_ratio=ratio, minus_ratio=ratio, flood=flood)
    for users in (2, 3):
        with balls.precision(200):
            law = referees.noise(ratio, ratio, flood, Fraction(users), 60)
            truth = float(referees.steps_delta(law, 1, balls.ball(Fraction(2))).upper())
        assert truth < 0.9 * once.delta(math.log(2.0)).lower
        assert truth in changed(once, share=users).delta(math.log(2.0))


@given(mechanism=signed, larger=ratios, which=st.sampled_from(["plus", "minus"]), epsilon=epsilons)
def test_a_larger_ratio_never_hurts(
    mechanism: SignedDecoys, larger: Fraction, which: str, epsilon: float
) -> None:
    """Geom(p′) is Geom(p) plus, with chance (p′ − p)/(1 − p), one more and Geom(p′)."""
    name = f"{which}_ratio"
    assume(larger >= getattr(mechanism, name))
    assert (
        changed(mechanism, **{name: larger}).delta(epsilon).lower <= mechanism.delta(epsilon).upper
    )


@given(mechanism=signed, epsilon=epsilons)
def test_plus_and_minus_are_alike(mechanism: SignedDecoys, epsilon: float) -> None:
    assume(mechanism.question != "choice")
    mirrored = changed(
        mechanism, plus_ratio=mechanism.minus_ratio, minus_ratio=mechanism.plus_ratio
    )
    assert mirrored.delta(epsilon) == mechanism.delta(epsilon)


@given(mechanism=signed, logs=st.tuples(epsilons, epsilons, epsilons))
def test_delta_is_convex_in_the_ratio(
    mechanism: SignedDecoys, logs: tuple[float, float, float]
) -> None:
    low, middle, high = sorted(logs)
    assume(low < middle < high)
    share = math.expm1(middle - low) / math.expm1(high - low)
    ends = [mechanism.delta(one) for one in (low, middle, high)]
    chord = (1 - share) * ends[0].upper + share * ends[2].upper
    assert ends[1].lower <= chord * (1 + 1e-12)


@given(mechanism=signed, epsilon=epsilons)
def test_a_number_of_more_steps_is_no_safer(mechanism: SignedDecoys, epsilon: float) -> None:
    number = changed(mechanism, question="number", doubled=False)
    assert number.delta(epsilon).lower <= changed(number, steps=3).delta(epsilon).upper


@given(mechanism=signed)
def test_documents_bring_the_mechanism_back(mechanism: SignedDecoys) -> None:
    assert mechanism_from(mechanism_document(mechanism)) == mechanism


@given(mechanism=signed, epsilon=epsilons)
def test_brackets_are_narrow(mechanism: SignedDecoys, epsilon: float) -> None:
    assert mechanism.delta(epsilon).relative_width < 1e-9


@given(mechanism=signed, delta=st.floats(1e-9, 0.9))
def test_epsilon_and_delta_agree(mechanism: SignedDecoys, delta: float) -> None:
    found = mechanism.epsilon(delta)
    if math.isinf(found.upper):
        assert mechanism.delta(1e6).upper >= delta
    else:
        assert mechanism.delta(found.upper).upper <= delta


# ---------------------------------------------------------------- the law of the cover


def exact_masses(flood: Flood, size: int) -> list[Any]:
    """Return w(0), w(1), … in balls: the series of the flood times that of the geometric law."""
    with balls.precision(400):
        bursts = referees.bursts(flood.rates, Fraction(1), size)
        found, ratio = [(1 - balls.ball(flood.ratio)) * bursts[0]], balls.ball(flood.ratio)
        for burst in bursts[1:]:
            found.append(ratio * found[-1] + (1 - ratio) * burst)
        return found


floods = st.builds(
    Flood,
    rates=st.lists(RATE, max_size=6).map(tuple),
    ratio=st.fractions(Fraction(1, 10**6), Fraction(9, 10), max_denominator=10**6),
)


@given(flood=floods)
def test_masses_never_grow_faster_than_said(flood: Flood) -> None:
    masses, growth = exact_masses(flood, 60), flood.growth()
    with balls.precision(400):
        for before, after in itertools.pairwise(masses):
            assert not after > balls.ball(growth) * before
            assert not after < balls.ball(flood.ratio) * before


@given(flood=floods)
def test_the_growth_is_the_largest_quotient_up_to_a_bit_of_256(flood: Flood) -> None:
    weights = [k * rate + flood.ratio**k for k, rate in enumerate(flood.rates, start=1)]
    weights = [Fraction(1), *weights, flood.ratio ** (len(weights) + 1)]
    exact = max(after / before for before, after in itertools.pairwise(weights))
    exact = max(exact, flood.ratio)
    assert exact <= flood.growth() <= exact * (1 + Fraction(1, 2**240))


@given(flood=floods, power=st.integers(3, 60))
def test_the_window_leaves_out_no_more_than_asked(flood: Flood, power: int) -> None:
    tail = Wide(10.0) ** -power
    size = flood.window(tail)
    assume(size < 2000)
    with balls.precision(400):
        rest = 1 - sum(exact_masses(flood, size))
        assert not rest > balls.ball(Fraction(1, 10**power))


@given(flood=floods)
def test_masses_are_as_exact_as_said(flood: Flood) -> None:
    law = flood.law(Wide(1e-30))
    with balls.precision(400):
        for mass, truth in zip(law.mass, exact_masses(flood, len(law.mass)), strict=True):
            error = abs(balls.ball(Fraction(*mass.as_integer_ratio())) / truth - 1)
            assert error < balls.ball(Fraction(*law.relative.as_integer_ratio()))


def test_a_flood_of_nothing_is_geometric() -> None:
    flood = Flood((), Fraction(1, 3))
    assert flood.growth() == pytest.approx(Fraction(1, 3), rel=1e-60)
    assert [float(mass) for mass in flood.law(Wide(1e-30)).mass[:3]] == pytest.approx(
        [2 / 3, 2 / 9, 2 / 27]
    )


def test_views_of_a_share_lack_no_more_than_said() -> None:
    """An answer moves rows of the two-dimensional law, and none of them out of sight."""
    from chaffinch.privacy.mechanisms import signed as accountant

    mechanism = SignedDecoys(
        question="number", plus_ratio="1/2", minus_ratio="2/5", flood=["1"], steps=10, share="1/2"
    )
    joint, doubt = mechanism._joint(Wide(1e-6))  # noqa: SLF001 - no other way to a large tail
    for moved in (1, 5, 10):
        for view in accountant._shifted(joint, moved, -moved, 1):  # noqa: SLF001
            assert 0 < 1 - view.sum() <= doubt.missing


# ---------------------------------------------------------------- the hockey-stick of two laws


def test_a_settled_ratio_bounds_every_other() -> None:
    first, second = np.array([Wide(0.5), Wide(0.5)]), np.array([Wide(0.25), Wide(0.75)])
    parts = PositiveParts.of(first, second, Doubt(Wide(0.01)), settled=(Wide(2), Wide(1e-9)))
    asked = np.array([Wide(1.999), Wide(2.0), Wide(3.0)])
    high = parts.ends(asked, asked)[1]
    assert high[0] == pytest.approx(0.001, rel=1e-5)
    assert [float(end) for end in high[1:]] == pytest.approx([1e-9, 0.0], abs=1e-8)


@pytest.mark.parametrize("field", ["noise", "missing", "lacking"])
def test_every_doubt_widens_its_ends(field: str) -> None:
    first, second = np.array([Wide(0.5), Wide(0.5)]), np.array([Wide(0.25), Wide(0.75)])
    sure, asked = Doubt(Wide(1e-18)), np.array([Wide(1.5)])
    narrow = PositiveParts.of(first, second, sure).ends(asked, asked)
    doubt = replace(sure, **{field: Wide(0.01)})
    wider = PositiveParts.of(first, second, doubt).ends(asked, asked)
    grown = [float(narrow[0][0] - wider[0][0]), float(wider[1][0] - narrow[1][0])]
    expected = {"noise": [0.025, 0.025], "missing": [0.0, 0.01], "lacking": [0.015, 0.0]}
    assert grown == pytest.approx(expected[field], abs=1e-12)


_MASS = st.one_of(st.just(0.0), st.floats(1e-30, 0.05))


@given(
    masses=st.lists(st.tuples(_MASS, _MASS), min_size=1, max_size=20),
    ratio=st.one_of(st.floats(1e-9, 1e9), st.integers(0, 19)),
)
def test_few_ratios_bound_the_hockey_stick_closely(
    masses: list[tuple[float, float]], ratio: float
) -> None:
    """Against exact rationals; at the ratio of an outcome most would be lost by rounding it."""
    laws = np.array(masses).T
    if isinstance(ratio, int):
        one, two = masses[ratio % len(masses)]
        ratio = min(one / two, 1e30) if two else 1.0
    exact = sum(
        max(Fraction(one) - Fraction(ratio) * Fraction(two), Fraction(0)) for one, two in masses
    )
    asked = np.array([Wide(ratio)])
    few = PositiveParts.of(*on_few_ratios(laws[0], laws[1], Doubt(Wide(0))))
    bound = float(few.ends(asked, asked)[1][0])
    assert exact <= Fraction(bound)
    # Between neighbours a hockey-stick moves by at most their distance times the second law.
    step = 1.2e-3 * max(abs(math.log(max(ratio, 1e-34))), 0.02)
    assert bound <= float(exact) + step * ratio * float(laws[1].sum()) + 1e-11


@given(mechanism=signed, share=st.sampled_from(["1/5", "1/2", "9/10"]), epsilon=epsilons)
def test_a_quick_bound_for_fewer_users_is_close(
    mechanism: SignedDecoys, share: str, epsilon: float
) -> None:
    few = changed(mechanism, share=share)
    assume(not few.takes_minutes)
    exact, quick = few.delta(epsilon), few.delta_bound(epsilon)
    assert exact.lower <= quick <= 1.02 * exact.upper + 1e-15


def test_signs_beyond_the_followed_ones_are_rare() -> None:
    """Summed one by one: fewer would be too few for the tail, and all of them are not needed."""
    from chaffinch.privacy.mechanisms import signed as accountant
    from chaffinch.privacy.numerics.floods import negative_binomial_masses

    for plus, minus, share in (("9/10", "9/10", 1), ("9/10", "1/2", 1), ("3/10", "3/10", "1/2")):
        mechanism = SignedDecoys(
            question="bit", plus_ratio=plus, minus_ratio=minus, flood=["1"], share=share
        )
        most = accountant._most_signs(mechanism, Wide(1e-9))  # noqa: SLF001
        one, two = (
            negative_binomial_masses(Fraction(ratio), Fraction(share), 1500)[0]
            for ratio in (plus, minus)
        )
        both = np.convolve(one, two)
        assert float(both[most + 1 :].sum()) <= 1e-9
        if plus == minus and share == 1:
            assert float(both[most - 120 :].sum()) > 1e-9


# ---------------------------------------------------------------- extremes


def test_what_only_one_answer_shows_stays_at_every_epsilon() -> None:
    """δ(∞) of a bit is the chance of no minus at all."""
    always = float((1 - Fraction(A)) * Fraction(math.exp(-float(sum(FLAT.flood)))))
    for epsilon in (5.0, 700.0, 2000.0, 1e9):
        assert FLAT.delta(epsilon).upper == pytest.approx(always, rel=1e-12)
        assert FLAT.delta(epsilon).lower == pytest.approx(always, rel=1e-12)
    assert FLAT.epsilon(0.99e-6) == privacy.Bracket(math.inf, math.inf)
    assert FLAT.epsilon(1.01e-6).upper < 1.0


def test_delta_reaches_down_to_the_smallest_floats() -> None:
    mechanism = changed(FLAT, flood=flat(A, math.exp(0.2), 1e-300))
    bracket = mechanism.delta(1.0)
    assert bracket.lower <= 1e-300 * (1 + 1e-9)
    assert bracket.upper == pytest.approx(1e-300, rel=1e-6)


def test_an_epsilon_that_may_be_infinite_has_a_lower_end() -> None:
    """The flood leaves 1e-6 but for the last digits of floats: nobody knows on which side."""
    found = FLAT.epsilon(1e-6)
    assert found.upper == math.inf
    assert 0.999999 < found.lower < 1.1


def test_an_infinite_loss_leaves_no_gaussian_parameter() -> None:
    found = FLAT.gaussian_mu()
    assert found.upper == math.inf
    assert 3.2 < found.lower < 3.3


def test_at_the_knife_edge_the_bracket_stays_narrow() -> None:
    for epsilon in (1.0, math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)):
        assert FLAT.delta(epsilon).relative_width < 1e-11


LARGE: dict[str, dict[str, Any]] = {
    "rate": {"flood": [700]},
    "long bursts": {"flood": [0] * 99 + [600]},
    "ratio": {"plus_ratio": 0.999, "minus_ratio": 0.999},
    "choice": {"question": "choice", "plus_ratio": 0.999, "minus_ratio": 0.999},
    "tiny ratio": {"plus_ratio": Fraction(1, 2**64), "minus_ratio": Fraction(1, 2**64)},
    "tiny ratios, many steps": {
        "question": "number",
        "plus_ratio": Fraction(1, 2**64),
        "minus_ratio": Fraction(1, 2**30),
        "steps": 100,
    },
    "steps": {"question": "number", "plus_ratio": 0.99, "minus_ratio": 0.99, "steps": 64},
}


@pytest.mark.parametrize("name", all_but(LARGE, "long bursts", "choice", "ratio"))
def test_large_parameters_need_little_memory(name: str) -> None:
    tracemalloc.start()
    try:
        bracket = changed(FLAT, **LARGE[name]).delta(1.0)
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()
    assert bracket.relative_width < 1e-9


TOO_LARGE: dict[str, dict[str, Any]] = {
    "ratio": {"plus_ratio": 1 - 1e-9, "minus_ratio": 1 - 1e-9},
    "nearest ratio": {"plus_ratio": 1 - Fraction(1, 2**64), "minus_ratio": 1 - Fraction(1, 2**64)},
    "long bursts": {"flood": [Fraction(1, 100)] * 10_000},
    "share": {"plus_ratio": 0.999, "minus_ratio": 0.999, "share": 0.5},
}


@pytest.mark.parametrize("fields", TOO_LARGE.values(), ids=TOO_LARGE)
def test_what_cannot_be_followed_is_refused_at_once(fields: dict[str, Any]) -> None:
    with pytest.raises(GuaranteeNotProven, match="farther from 1"):
        changed(FLAT, **fields).delta(1.0)


def test_a_law_that_is_too_long_is_refused_before_it_is_made() -> None:
    with pytest.raises(GuaranteeNotProven, match=str(_MOST_PLACES)):
        FLAT._cover.bursts(_MOST_PLACES + 1)  # noqa: SLF001 - the one place that refuses


# ---------------------------------------------------------------- many rounds

ROUNDS: dict[str, tuple[dict[str, Any], float]] = {
    "bit": ({}, 1e-4),
    "unlike ratios": ({"minus_ratio": 0.6}, 1e-4),
    "choice": ({"question": "choice", "plus_ratio": A * A, "minus_ratio": A * A}, 1e-3),
    "number": (
        {
            "question": "number",
            "plus_ratio": 0.88,
            "minus_ratio": 0.88,
            "steps": 3,
            "flood": [4] * 4,
        },
        0.1,
    ),
}


@pytest.mark.parametrize("name", all_but(ROUNDS, "choice"))
def test_rounds_are_narrow(name: str) -> None:
    fields, delta = ROUNDS[name]
    found = privacy.compose(changed(FLAT, **fields), times=10).epsilon(delta)
    assert found.upper <= found.lower * 1.001


@pytest.mark.long
def test_many_rounds_under_a_wide_cover_are_narrow() -> None:
    """A long law is known to fewer digits; without it a single round was the lower end."""
    ratio = math.exp(-0.08)
    flood = flat(ratio, math.exp(0.02), 1e-12)
    wide = SignedDecoys(question="bit", plus_ratio=ratio, minus_ratio=ratio, flood=flood)
    for rounds in (100, 1_000, 10_000):
        assert privacy.compose(wide, times=rounds).epsilon(1e-6).relative_width < 2e-3


@given(mechanism=signed, epsilon=epsilons)
def test_the_instance_is_no_worse_than_the_mechanism(
    mechanism: SignedDecoys, epsilon: float
) -> None:
    pair = mechanism.instance()
    assume(pair is not None)
    assert pair is not None
    for first, second in (pair, pair[::-1]):
        assert first.sum() == pytest.approx(1, abs=1e-12)
        excess = np.maximum(first - math.exp(epsilon) * second, 0).sum()
        assert excess <= mechanism.delta(epsilon).upper * (1 + 1e-11) + 1e-15


def test_an_instance_that_is_too_long_is_none() -> None:
    assert changed(FLAT, share="1/2").instance() is None
    assert changed(FLAT, question="choice", plus_ratio=0.99, minus_ratio=0.99).instance() is None


# ---------------------------------------------------------------- refusals

BAD: list[tuple[str, Any, str]] = [
    ("question", "flags", "question"),
    ("plus_ratio", 0, "plus ratio"),
    ("plus_ratio", 1, "plus ratio"),
    ("minus_ratio", float("nan"), "minus ratio"),
    ("minus_ratio", 1e-300, "minus ratio"),
    ("minus_ratio", 1 - Fraction(1, 2**65), "minus ratio"),
    ("flood", "1/2", "flood"),
    ("flood", [-1], "rate of the flood"),
    ("flood", [float("inf")], "rate of the flood"),
    ("flood", [300, 300, 101], "flood"),
    ("flood", [0] * 10_001, "flood"),
    ("flood", None, "flood"),
    ("steps", 2, "number of steps"),
    ("steps", 0, "number of steps"),
    ("share", 0, "honest share"),
    ("share", 2**64, "honest share"),
    ("doubled", "yes", "doubled"),
]


@each_case(("name", "value", "said"), BAD)
def test_what_is_no_parameter_is_refused(name: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        changed(FLAT, **{name: value})


def test_noise_is_doubled_where_an_answer_is_yes_or_no() -> None:
    with pytest.raises(InvalidInput, match="for a bit"):
        changed(FLAT, question="choice", doubled=True)


def test_epsilon_is_checked() -> None:
    for epsilon in (-1.0, float("nan"), "1"):
        with pytest.raises(InvalidInput, match="epsilon"):
            FLAT.delta(epsilon)  # type: ignore[arg-type]


def test_words_say_who_is_counted_on() -> None:
    assert "all users" in FLAT.crowd_words
    assert "share of 0.5" in changed(FLAT, share="1/2").crowd_words
    assert math.isinf(FLAT.local_epsilon)
