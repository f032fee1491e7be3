"""Every figure of the comparison against exact rationals, and what may be promised of it."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.errors import InvalidInput
from chaffinch.privacy import FlippedFilters
from chaffinch.privacy.guarantee import PROVEN
from chaffinch.reach.planning.comparison import ComparedFigure, compare
from tests.cases import each_case
from tests.oracles import exact
from tests.oracles import filter_procedures as referee
from tests.oracles import filters as oracle

SMALL = [
    (1, 6, "1/5", "1/20"),
    (2, 5, "3/20", "1/20"),
    (2, 7, "3/20", "1/50"),
    (3, 3, "1/4", "1/10"),
]


def made(filters: int, bits: int, flip: str) -> FlippedFilters:
    return FlippedFilters(filters=filters, bits=bits, flip_probability=flip)


def named(rows: tuple[ComparedFigure, ...], name: str) -> ComparedFigure:
    (row,) = [row for row in rows if row.name == name]
    return row


def ends(row: ComparedFigure) -> tuple[float, float]:
    assert row.lower is not None
    assert row.upper is not None
    assert row.lower <= row.upper
    return row.lower, row.upper


@pytest.mark.parametrize(("filters", "bits", "flip", "delta"), SMALL)
def test_the_proven_bound_holds_for_every_crowd(
    filters: int, bits: int, flip: str, delta: str
) -> None:
    row = named(compare(made(filters, bits, flip), float(Fraction(delta))), "proven bound")
    lower, upper = ends(row)
    truth = [
        referee.worst_delta(filters, bits, Fraction(flip), exact.exp_bounds(end)[0])
        for end in (upper, lower * (1 - 1e-5))
    ]
    assert truth[0] <= Fraction(delta) * (1 + Fraction(1, 10**9)) < truth[1]
    assert row.guarantee


@pytest.mark.parametrize(("filters", "bits", "flip", "delta"), SMALL)
def test_the_assumed_pair_is_bracketed(filters: int, bits: int, flip: str, delta: str) -> None:
    row = named(
        compare(made(filters, bits, flip), float(Fraction(delta))), "buffling's pair, certified"
    )
    lower, upper = ends(row)
    over, under = (
        referee.assumed_delta(filters, bits, Fraction(flip), exact.exp_bounds(end)[0])
        for end in (upper * (1 + 1e-9), lower * (1 - 1e-5))
    )
    assert over <= Fraction(delta) < under
    assert row.method == "worst-pair-assumed"
    assert not row.guarantee


def test_the_assumed_pair_can_promise_too_much() -> None:
    """Two filters, seven columns, q = 0.15: a worse crowd exists, and the bound knows it."""
    flip, bits = Fraction(3, 20), 7
    delta = float(referee.assumed_delta(2, bits, flip, exact.exp_bounds(2.0)[0]))
    rows = compare(made(2, bits, "3/20"), delta)
    assumed = ends(named(rows, "buffling's pair, certified"))[1]
    worst = referee.worst_delta(2, bits, flip, exact.exp_bounds(assumed)[0])
    assert worst > Fraction(delta) * Fraction(105, 100)
    assert ends(named(rows, "proven bound"))[0] > assumed


@each_case(
    ("bits", "flip", "delta"),
    [
        (1, "1/5", "1/100"),
        (4, "1/5", "1/10"),
        (60, "1/5", "1/20"),
        (200, "1/10", "1/1000"),
        (200, "2/5", "1/1000000"),
        (30, "1/100", "9/10"),
        (7, "1/4", "1/5"),  # from here on the quantile under the added bit decides
        (12, "2/5", "1/10"),
        (8, "9/20", "1/100"),
    ],
)
def test_one_filter_is_the_exact_quantile(bits: int, flip: str, delta: str) -> None:
    rows = compare(made(1, bits, flip), float(Fraction(delta)), samples=10)
    row = named(rows, "buffling's one filter")
    atoms = referee.one_filter_atoms(bits, 0, Fraction(flip))
    truth = math.log(referee.quantile_ratio(atoms, Fraction(delta)))
    assert list(ends(row)) == pytest.approx([truth] * 2, abs=1e-12)
    assert row.method == "published"
    assert not row.guarantee


def test_one_filter_with_set_bits_is_the_exact_quantile() -> None:
    for bits, ones, flip, delta in (
        (30, 7, "1/5", "1/20"),
        (30, 29, "1/5", "1/20"),
        (24, 20, "1/10", "1/1000"),
        (60, 12, "2/5", "1/1000000"),
    ):
        (row,) = [
            row
            for row in compare(made(1, bits, flip), float(Fraction(delta)), input_ones=ones)
            if row.method == "published"
        ]
        atoms = referee.one_filter_atoms(bits, ones, Fraction(flip))
        truth = math.log(referee.quantile_ratio(atoms, Fraction(delta)))
        assert list(ends(row)) == pytest.approx([truth] * 2, abs=1e-11)


def test_set_bits_are_those_of_one_filter() -> None:
    with pytest.raises(InvalidInput, match="left out for several filters"):
        compare(made(2, 20, "0.2"), 0.1, input_ones=1)
    with pytest.raises(InvalidInput, match="input ones"):
        compare(made(1, 20, "0.2"), 0.1, input_ones=20)


def test_one_filter_is_shown_for_one_filter() -> None:
    names = [[row.name for row in compare(made(k, 20, "0.2"), 0.1)] for k in (1, 2)]
    assert set(names[0]) - set(names[1]) == {"buffling's one filter"}


@pytest.mark.parametrize(
    ("filters", "bits", "flip", "delta"), [(1, 60, "1/5", "1/20"), (2, 30, "3/10", "1/20")]
)
def test_monte_carlo_is_near_the_exact_quantile(
    filters: int, bits: int, flip: str, delta: str
) -> None:
    """A false alarm has a chance of 1e-6 (Dvoretzky, Kiefer, Wolfowitz; two samples)."""
    samples, level = 50_000, Fraction(delta)
    slack = Fraction(math.sqrt(math.log(4e6) / (2 * samples)))
    atoms = referee.filters_atoms(filters, bits, Fraction(flip))
    low, high = (math.log(referee.quantile_ratio(atoms, level, shift)) for shift in (-slack, slack))

    def estimate(chance: str) -> float:
        rows = compare(made(filters, bits, chance), float(level), samples=samples, seed=3)
        row = named(rows, "buffling's Monte Carlo")
        assert (row.samples, row.seed, row.method) == (samples, 3, "monte-carlo")
        return ends(row)[0]

    assert low - 1e-9 <= estimate(flip) <= high + 1e-9
    wrong = str(Fraction(flip) * Fraction(9, 10))  # a tenth less noise leaves the band
    assert not low - 1e-9 <= estimate(wrong) <= high + 1e-9


def test_monte_carlo_says_why_it_was_skipped() -> None:
    for delta, words in ((1e-6, "10,000,000 samples"), (1.0, "no quantile")):
        row = named(compare(made(2, 20, "0.2"), delta), "buffling's Monte Carlo")
        assert row.skipped
        assert row.value == "skipped"
        assert words in row.note
    told = named(compare(made(2, 20, "0.2"), 0.01, samples=1000), "buffling's Monte Carlo")
    assert not told.skipped
    assert named(compare(made(2, 20, "0.2"), 0.01, samples=999), "buffling's Monte Carlo").skipped


@each_case("filters", [1, 2, 3])
@each_case("flip", ["1/50", "1/5"])
def test_the_loudest_move_against_elimination(filters: int, flip: str) -> None:
    row = named(compare(made(filters, 9, flip), 0.1), "loudest move")
    counts = (9, *[0] * (2**filters - 1))
    truth = max(
        oracle.signal_to_noise(counts, Fraction(flip), *move) for move in referee.moves(filters)
    )
    assert list(ends(row)) == pytest.approx([float(truth)] * 2, rel=1e-12)
    assert row.quantity == "signal to noise"
    assert not row.guarantee


def test_the_local_epsilon_is_rounded_up() -> None:
    row = named(compare(made(3, 50, "1/5"), 0.1), "local epsilon")
    assert ends(row)[1] == pytest.approx(3 * math.log(4), rel=1e-15)
    assert exact.exp_bounds(ends(row)[1])[1] >= 64
    assert (row.delta, row.guarantee) == (0.0, True)
    assert float(row.value) >= 3 * math.log(4)


@given(
    st.integers(1, 4), st.integers(1, 400), st.integers(1, 49), st.sampled_from([1e-6, 0.01, 0.3])
)
@settings(max_examples=max(5, settings().max_examples // 40), deadline=None)
def test_what_is_promised_is_proven(filters: int, bits: int, flip: int, delta: float) -> None:
    mechanism = FlippedFilters(filters=filters, bits=bits, flip_probability=Fraction(flip, 100))
    rows = compare(mechanism, delta, samples=2000)
    for row in rows:
        assert not row.guarantee or row.method in PROVEN
        assert row.skipped == (row.lower is None)
        assert row.note.endswith(".")
        if not row.skipped:
            assert all(math.isfinite(end) and end >= 0 for end in ends(row))
    proven, assumed = (
        ends(named(rows, n))[1] for n in ("proven bound", "buffling's pair, certified")
    )
    local = ends(named(rows, "local epsilon"))[1]
    assert assumed <= proven * (1 + 2e-5) + 1e-12
    assert proven <= local
    drawn = named(rows, "buffling's Monte Carlo")
    assert drawn.skipped or ends(drawn)[1] <= local * (1 + 1e-12)


def test_the_comparison_can_be_written_and_read() -> None:
    rows = compare(made(1, 100, "0.2"), 1e-3, samples=20_000, seed=5)
    written = json.loads(json.dumps([row.document() for row in rows], allow_nan=False))
    assert [one["name"] for one in written] == [row.name for row in rows]
    assert [one["guarantee"] for one in written] == [True, True, False, False, False, False]
    assert written[3]["samples"] == 20_000
    assert written[3]["seed"] == 5
    assert "seed" not in written[0]
    again = compare(made(1, 100, "0.2"), 1e-3, samples=20_000, seed=5)
    assert again == rows


@pytest.mark.parametrize("wrong", [{"delta": 0.0}, {"delta": 1.5}, {"samples": 0}, {"seed": -1}])
def test_parameters_are_checked(wrong: dict[str, float]) -> None:
    given_: dict[str, float] = {"delta": 0.1, "samples": 1000, "seed": 0} | wrong
    with pytest.raises(InvalidInput):
        compare(
            made(2, 5, "0.2"),
            given_["delta"],
            samples=int(given_["samples"]),
            seed=int(given_["seed"]),
        )
