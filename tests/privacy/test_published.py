"""Published formulas: the numbers of their sources, their inverses, and their known defects."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special, stats

from chaffinch.errors import InvalidInput
from chaffinch.privacy import published
from tests.cases import each_case
from tests.meta import repository

PAGE = repository.ROOT / "docs" / "reference" / "published.md"
Floats = NDArray[np.float64]


def crowd_law(users: int, q: float, ones: int) -> Floats:
    """Return the law of the sum of the others' reports."""
    first = stats.binom.pmf(np.arange(ones + 1), ones, 1.0 - q)
    second = stats.binom.pmf(np.arange(users - ones), users - 1 - ones, q)
    return np.asarray(np.convolve(first, second))


def pair(users: int, q: float, ones: int) -> tuple[Floats, Floats]:
    """Return the laws of the sum with the target holding 0 and holding 1."""
    others = crowd_law(users, q, ones)
    stay, move = np.append(others, 0.0), np.insert(others, 0, 0.0)
    return (1.0 - q) * stay + q * move, q * stay + (1.0 - q) * move


def delta_of_bits(users: int, q: float, epsilon: float) -> float:
    """Return the worst hockey-stick delta over all crowds, in plain floats."""
    worst = 0.0
    for ones in range(users):
        zero, one = pair(users, q, ones)
        worst = max(worst, float(np.maximum(zero - math.exp(epsilon) * one, 0.0).sum()))
    return worst


# ------------------------------------------------------------------ the table


def test_every_formula_is_complete_and_offered() -> None:
    names = [formula.name for formula in published.FORMULAS]
    assert len(set(names)) == len(names)
    for formula in published.FORMULAS:
        assert formula.compute is getattr(published, formula.name)
        assert formula.name in published.__all__
        assert formula.method == "published"
        for words in (
            formula.label,
            formula.source,
            formula.equation,
            formula.gives,
            formula.domain,
        ):
            assert words
        document = inspect.getdoc(formula.compute) or ""
        assert formula.source.split()[0] in document or "Claim C.1" in document
        assert "Domain:" in document
        assert "Defect:" in document
        assert formula.defect


def test_nothing_that_gives_a_guarantee_uses_a_published_formula() -> None:
    folder = repository.SOURCE / "privacy"
    users = [
        path.name
        for path in sorted(folder.rglob("*.py"))
        if path.parent.name != "published"
        and any(
            name.startswith("chaffinch.privacy.published")
            for name in repository.imports(path, package="chaffinch.privacy")
        )
    ]
    assert users in ([], ["__init__.py"])


def page() -> str:
    """Return the reference page, written from the table of formulas."""
    lines = [
        "# Published formulas",
        "",
        "Closed forms from the literature, in `chaffinch.privacy.published`. They are claims to",
        "compare with, labelled `published`; no guarantee is ever computed from them. Each has a",
        "known defect, and a parameter outside the domain raises `InvalidInput`.",
        "",
        "This page is written from the table `published.FORMULAS`.",
        "",
    ]
    for formula in published.FORMULAS:
        solved = [
            getattr(inverse, "__name__", "")
            for inverse in (formula.claimed_epsilon, formula.claimed_delta)
            if inverse is not None
        ]
        lines += [
            f"## {formula.name}",
            "",
            f"- **Called**: {formula.label}",
            f"- **Source**: {formula.source}",
            f"- **Formula**: {formula.equation}",
            f"- **Gives**: {formula.gives}",
            f"- **Domain**: {formula.domain}",
            f"- **Known defect**: {formula.defect}",
        ]
        if solved:
            lines.append("- **Solved for what it claims**: " + ", ".join(f"`{s}`" for s in solved))
        lines.append("")
    return "\n".join([*lines, "The sources are listed in [references](../references.md).", ""])


def test_the_page_is_up_to_date() -> None:
    # `python -m tests.privacy.test_published` writes it anew.
    assert PAGE.read_text(encoding="utf-8") == page()


# ------------------------------------------------------------------ inverses

CLAIMS: list[tuple[str, dict[str, Any]]] = [
    ("zero_crowd_flip_probability", {"users": 100_000}),
    ("any_crowd_flip_probability", {"users": 100_000}),
    ("flipped_values_flip_probability", {"users": 100_000, "decoys": 500}),
    ("decoy_cover_flip_probability", {"decoys": 100_000}),
    ("binary_sum_flip_probability", {"users": 1_000_000}),
]


@pytest.mark.parametrize(("name", "crowd"), CLAIMS)
@given(epsilon=st.floats(0.1, 1.0), exponent=st.floats(-12.0, -2.0))
def test_claims_invert_the_formula(
    name: str, crowd: dict[str, Any], epsilon: float, exponent: float
) -> None:
    formula = next(f for f in published.FORMULAS if f.name == name)
    assert formula.claimed_epsilon is not None
    assert formula.claimed_delta is not None
    delta = 10.0**exponent
    q = formula.compute(epsilon=epsilon, delta=delta, **crowd)
    claimed = formula.claimed_epsilon(flip_probability=q, delta=delta, **crowd)
    assert claimed == pytest.approx(epsilon, rel=1e-9)
    failing = formula.claimed_delta(flip_probability=q, epsilon=epsilon, **crowd)
    assert failing == pytest.approx(delta, rel=1e-6)


@given(epsilon=st.floats(0.1, 5.0), exponent=st.floats(-12.0, -2.0), values=st.integers(2, 500))
def test_decoys_invert(epsilon: float, exponent: float, values: int) -> None:
    delta = 10.0**exponent
    decoys = math.ceil(published.clear_decoys(epsilon=epsilon, delta=delta, values=values))
    claimed = published.clear_decoys_epsilon(decoys=decoys, values=values, delta=delta)
    assert claimed == pytest.approx(epsilon, rel=0.05)
    assert claimed <= epsilon * (1 + 1e-12)
    failing = published.clear_decoys_delta(decoys=decoys, values=values, epsilon=epsilon)
    assert failing <= delta * (1 + 1e-9)


@given(epsilon=st.floats(0.05, 4.0), users=st.integers(1, 10**9), copies=st.integers(1, 50))
def test_three_sigma_inverts(epsilon: float, users: int, copies: int) -> None:
    q = published.three_sigma_copies_flip_probability(epsilon=epsilon, users=users, copies=copies)
    assert 0.0 < q < 0.5
    back = published.three_sigma_copies_epsilon(users=users, flip_probability=q, copies=copies)
    assert back == pytest.approx(epsilon, rel=1e-6)


@given(responders=st.integers(200, 10**7), exponent=st.floats(-8.0, -2.0))
def test_random_responders_invert(responders: int, exponent: float) -> None:
    delta = 10.0**exponent
    epsilon = published.random_responders_epsilon(responders=responders, delta=delta)
    failing = published.random_responders_delta(responders=responders, epsilon=epsilon)
    assert failing == pytest.approx(delta, rel=1e-6)


@given(
    local=st.floats(0.2, 3.0),
    users=st.integers(500, 10**6),
    exponent=st.floats(-8.0, -3.0),
    values=st.sampled_from([None, 2, 10]),
)
def test_amplification_inverts(
    local: float, users: int, exponent: float, values: int | None
) -> None:
    delta = 10.0**exponent
    given: dict[str, Any] = {"local_epsilon": local, "users": users, "values": values}
    for solve, formula in (
        (published.blanket_hoeffding_epsilon, published.blanket_hoeffding_delta),
        (published.blanket_bennett_epsilon, published.blanket_bennett_delta),
    ):
        epsilon = solve(**given, delta=delta)
        if epsilon < local:
            assert formula(**given, epsilon=epsilon) == pytest.approx(delta, rel=1e-3)


@pytest.mark.parametrize("values", [4, None])
def test_the_inequalities_are_means_over_the_blanket(values: int | None) -> None:
    # The same inequalities term by term, as the authors' program adds them up.
    local, users, epsilon = 1.0, 200, 0.3
    growth, ratio = mp.exp(epsilon), mp.exp(local)
    excess = growth - 1
    if values is None:
        # Of any randomizer the blanket weighs from e^(−ε₀) to 1: the worse of both at each place.
        blanket = 1 / ratio
        spread = (growth + 1) * (ratio - 1 / ratio)
        largest = ratio - growth / ratio
        square = ratio * (growth**2 + 1) - 2 * blanket * growth / ratio**2
    else:
        blanket = values / (ratio + values - 1)
        spread = (1 - blanket) * values * (growth + 1)
        largest = blanket * (1 - growth) + (1 - blanket) * values
        square = blanket * (2 - blanket) * excess**2
        square += (1 - blanket) ** 2 * values * (growth**2 + 1)
    shift = excess * largest / square
    phi = (1 + shift) * mp.log(1 + shift) - shift
    hoeffding = bennett = mp.mpf(0)
    for messages in range(users + 1):
        chance = mp.binomial(users, messages) * blanket**messages
        chance *= (1 - blanket) ** (users - messages)
        hoeffding += (
            chance * spread**2 / (4 * excess) * mp.exp(-2 * messages * excess**2 / spread**2)
        )
        if messages:
            bennett += (
                chance * largest / mp.log(1 + shift) * mp.exp(-messages * square / largest**2 * phi)
            )
    given: dict[str, Any] = {
        "local_epsilon": local,
        "users": users,
        "epsilon": epsilon,
        "values": values,
    }
    scale = blanket * users
    for found, truth in (
        (published.blanket_hoeffding_delta(**given), hoeffding),
        (published.blanket_bennett_delta(**given), bennett),
    ):
        assert found == pytest.approx(min(float(truth / scale), 1.0))


@given(local=st.floats(0.05, 0.5), users=st.integers(2000, 10**8), exponent=st.floats(-9.0, -2.1))
def test_the_first_amplification_inverts(local: float, users: int, exponent: float) -> None:
    delta = 10.0**exponent
    epsilon = published.erlingsson_epsilon(local_epsilon=local, users=users, delta=delta)
    found = published.erlingsson_delta(local_epsilon=local, users=users, epsilon=epsilon)
    assert found == pytest.approx(delta, rel=1e-9)


def test_sampled_counts_invert() -> None:
    asked = published.sample_and_threshold_least(epsilon=1, delta=1e-8, sampling_rate=0.1)
    for threshold in (math.floor(asked), math.ceil(asked)):
        found = published.sample_and_threshold_delta(
            epsilon=1, sampling_rate=0.1, threshold=threshold
        )
        assert (found <= 1e-8) is (threshold >= asked)
    with pytest.raises(InvalidInput):
        published.sample_and_threshold_least(epsilon=1, delta=1e-8, sampling_rate=0.5)


# ------------------------------------------------------------------ numbers of the sources


def test_numbers_that_the_sources_print() -> None:
    q = published.three_sigma_flip_probability(epsilon=math.log(2), users=1000)
    assert round(q, 3) == 0.009  # S1, after (4.45)
    assert q == pytest.approx(0.008764, abs=5e-7)
    once = published.three_sigma_copies_flip_probability(epsilon=math.log(2), users=1000, copies=1)
    assert once == q
    assert math.ceil(published.clear_decoys(epsilon=1, delta=1e-6, values=100)) == 21_356


# ------------------------------------------------------------------ where they hold


@each_case("epsilon", [0.5, 1.0, 2.0])
@each_case(
    "formula",
    [published.any_crowd_flip_probability, published.binary_sum_flip_probability],
)
def test_no_false_case_among_all_crowds(formula: Callable[..., float], epsilon: float) -> None:
    delta, users = 1e-3, 400
    try:
        q = formula(epsilon=epsilon, delta=delta, users=users)
    except InvalidInput:
        assert epsilon < 1.0  # the formula asks for q above 1/2
        return
    assert delta_of_bits(users, q, epsilon) <= delta


@pytest.mark.parametrize("responders", [100, 1000])
def test_random_responders_hold(responders: int) -> None:
    delta = 1e-4
    epsilon = published.random_responders_epsilon(responders=responders, delta=delta)
    hidden = stats.binom.pmf(np.arange(responders + 1), responders, 0.5)
    stay, move = np.append(hidden, 0.0), np.insert(hidden, 0, 0.0)
    assert float(np.maximum(stay - math.exp(epsilon) * move, 0.0).sum()) <= delta


# ------------------------------------------------------------------ where they do not


def test_three_sigma_looks_in_one_direction_only() -> None:
    users, epsilon = 1000, math.log(2)
    q = published.three_sigma_flip_probability(epsilon=epsilon, users=users)
    zero, one = pair(users, q, 0)
    failure = max(float(zero[zero > 2.0 * one].sum()), float(one[one > 2.0 * zero].sum()))
    assert failure == pytest.approx(0.063, abs=0.001)  # 0.0002 is promised
    assert float(np.maximum(zero - 2.0 * one, 0.0).sum()) > 0.01


def test_copies_do_not_gain_precision_at_the_promised_privacy() -> None:
    def spread(copies: int) -> float:
        q = published.three_sigma_copies_flip_probability(epsilon=1, users=10**6, copies=copies)
        return math.sqrt(10**6 * q * (1 - q) / copies) / (1 - 2 * q)

    spreads = [spread(copies) for copies in (1, 2, 4, 16)]
    assert spreads == sorted(spreads)
    assert spreads[0] == pytest.approx(3 / math.expm1(1), rel=1e-9)


def test_flipped_values_are_not_private_as_whole_records() -> None:
    # Everybody else on a third value. The attack looks for the vector that is the target's first
    # value alone, with no vector that is its second value alone.
    users, values = 10**6, 10
    q = published.flipped_values_flip_probability(epsilon=1, delta=1e-6, users=users)
    p = 1.0 - q
    untouched = p**values
    by_others = (users - 1) * q**2 * p ** (values - 2)  # at least one of them, at most
    caught = untouched * (1.0 - by_others)
    mistaken = (by_others + q**2) * (1.0 - untouched)
    assert caught - math.e * mistaken > 0.9


def error_at(alpha: float, first: Floats, second: Floats) -> float:
    """Return the least type II error at level ``alpha`` (Neyman–Pearson with randomization)."""
    order = np.argsort(-(second / first))
    alphas = np.concatenate([[0.0], np.cumsum(first[order])])
    betas = np.concatenate([[1.0], 1.0 - np.cumsum(second[order])])
    return float(np.interp(alpha, alphas, betas))


def test_shifted_binomial_over_claims_for_few_random_answers() -> None:
    users, alpha = 100, 0.6
    q = 1.0 / (2 * users)
    claimed = float(published.shifted_binomial_tradeoff(alpha, users=users, flip_probability=q)[0])
    exact = min(
        min(error_at(alpha, zero, one), error_at(alpha, one, zero))
        for ones in range(0, users, 9)
        for zero, one in [pair(users, q, ones)]
    )
    assert claimed - exact > 0.08


def test_shifted_binomial_is_conservative_for_many_random_answers() -> None:
    users, q = 100, 0.29
    alphas = np.linspace(0.02, 0.98, 25)
    claimed = published.shifted_binomial_tradeoff(alphas, users=users, flip_probability=q)
    for ones in (0, 37, 50):
        zero, one = pair(users, q, ones)
        exact = [min(error_at(a, zero, one), error_at(a, one, zero)) for a in alphas]
        assert np.all(claimed <= np.array(exact) + 1e-12)


def test_shifted_binomial_at_its_knots() -> None:
    users, q = 30, 0.2
    knots = stats.binom.cdf(np.arange(users), users, q)[3:12]
    claimed = published.shifted_binomial_tradeoff(
        knots * (1 - 1e-12), users=users, flip_probability=q
    )
    assert claimed == pytest.approx(stats.binom.sf(np.arange(4, 13), users, q), rel=1e-9)
    ends = published.shifted_binomial_tradeoff([0.0, 1.0], users=users, flip_probability=q)
    assert ends == pytest.approx([1 - (1 - q) ** users, 0.0], abs=1e-12)


def test_gaussian_parameter_is_infinite_as_printed() -> None:
    assert published.shifted_binomial_mu(users=100, flip_probability=0.29) == math.inf
    # It comes from where f is 0 and alpha is not 1.
    last = float(stats.binom.cdf(4, 5, 0.4))
    alphas = [0.5 * (last + 1.0)]
    at_end = published.shifted_binomial_mu(users=5, flip_probability=0.4, alphas=alphas)
    assert at_end == math.inf
    inner = published.shifted_binomial_mu(users=100, flip_probability=0.29, alphas=[0.2, 0.5, 0.8])
    assert 0.1 < inner < 1.0


# ------------------------------------------------------------------ one filter


def filter_ratio(bits: int, before: int, after: int, q: float) -> float:
    """Return the same ratio from the two convolutions."""

    def chance(ones: int) -> float:
        kept = stats.binom.pmf(np.arange(ones + 1), ones, 1 - q)
        risen = stats.binom.pmf(np.arange(bits - ones + 1), bits - ones, q)
        return float(np.convolve(kept, risen)[after])

    return chance(before + 1) / chance(before)


@given(data=st.data(), bits=st.integers(1, 60), q=st.floats(0.02, 0.48))
def test_one_filter_agrees_with_convolution(data: st.DataObject, bits: int, q: float) -> None:
    before = data.draw(st.integers(0, bits - 1))
    after = data.draw(st.integers(0, bits - 1 - before))
    claimed = published.one_filter_ratio(
        bits=bits, input_ones=before, output_ones=after, flip_probability=q
    )
    assert claimed == pytest.approx(filter_ratio(bits, before, after, q), rel=1e-9)


def test_one_filter_beyond_its_domain_is_refused_and_the_mirror_serves() -> None:
    with pytest.raises(InvalidInput, match="below the number of bits"):
        published.one_filter_ratio(bits=20, input_ones=12, output_ones=9, flip_probability=0.2)
    mirror = published.one_filter_ratio(bits=20, input_ones=7, output_ones=11, flip_probability=0.2)
    assert 1.0 / mirror == pytest.approx(filter_ratio(20, 12, 9, 0.2), rel=1e-9)


# ------------------------------------------------------------------ refusals


@each_case("bad", [math.nan, math.inf, -1.0, 0.0, True, "1", None])
def test_bad_parameters_are_refused(bad: Any) -> None:
    good: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "users": 10**6,
        "decoys": 10**6,
        "values": 5,
        "copies": 2,
        "responders": 10**4,
        "flip_probability": 0.01,
    }
    optional = {"decoys", "alphas"}
    for formula in published.FORMULAS:
        for call in (formula.compute, formula.claimed_epsilon, formula.claimed_delta):
            if call is None:
                continue
            names = inspect.signature(call).parameters
            if not set(names) <= set(good):
                continue
            call(**{name: good[name] for name in names})
            for broken in names:
                if broken in optional and bad == 0.0:
                    continue
                with pytest.raises(InvalidInput):
                    call(**{name: bad if name == broken else good[name] for name in names})


def test_crowds_too_small_are_refused_with_the_size_they_need() -> None:
    with pytest.raises(InvalidInput, match="at least 1816"):
        published.any_crowd_flip_probability(epsilon=0.25, delta=1e-6, users=1000)
    needed = published.any_crowd_flip_probability(epsilon=0.25, delta=1e-6, users=1816)
    assert needed < 0.5
    with pytest.raises(InvalidInput, match="large enough"):
        published.any_crowd_epsilon(users=10, flip_probability=0.1, delta=1e-6)
    with pytest.raises(InvalidInput, match="above 8"):
        published.random_responders_epsilon(responders=50, delta=1e-6)
    for alphas in ([0.0], [1.0], [], [math.nan]):
        with pytest.raises(InvalidInput):
            published.shifted_binomial_mu(users=9, flip_probability=0.2, alphas=alphas)


def test_normal_quantile_is_the_one_of_the_source() -> None:
    alphas = np.array([0.3])
    beta = published.shifted_binomial_tradeoff(alphas, users=50, flip_probability=0.3)
    mu = published.shifted_binomial_mu(users=50, flip_probability=0.3, alphas=alphas)
    assert special.ndtr(special.ndtri(1 - 0.3) - mu) == pytest.approx(float(beta[0]))


if __name__ == "__main__":
    Path(PAGE).write_text(page(), encoding="utf-8")
