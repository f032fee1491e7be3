"""Mechanisms to test laws on: hypothesis strategies, small enough to be asked many times."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from chaffinch import privacy

flips = st.fractions(min_value=Fraction(1, 1000), max_value=Fraction(49, 100), max_denominator=1000)
epsilons = st.floats(min_value=0.0, max_value=8.0, allow_nan=False)


def bits(most: int = 200) -> st.SearchStrategy[privacy.FlippedBits]:
    """Return flipped bits with copies and fake bits."""
    return st.builds(
        privacy.FlippedBits,
        users=st.integers(1, most),
        flip_probability=flips,
        copies=st.integers(1, 4),
        decoys=st.integers(0, 50),
    )


decoyed = st.builds(
    privacy.DecoyedValues, decoys=st.integers(0, 500), values=st.integers(2, 50)
) | st.builds(
    privacy.DecoyedValues,
    users=st.integers(1, 500),
    decoy_rate=st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100),
    values=st.integers(2, 50),
)
flipped_values = st.builds(
    privacy.FlippedValues,
    users=st.integers(1, 20),
    decoys=st.integers(0, 4),
    values=st.integers(2, 20),
    flip_probability=flips,
)
numbers = st.builds(
    privacy.EncodedNumbers,
    users=st.integers(1, 12),
    resolution=st.integers(1, 4),
    flip_probability=flips,
    slots=st.sampled_from(["separate", "together"]),
)
rows = st.builds(
    privacy.FlippedVectors,
    users=st.integers(1, 60),
    bits=st.integers(1, 3),
    flip_probability=flips,
) | st.builds(
    privacy.FlippedFilters,
    filters=st.integers(1, 3),
    bits=st.integers(1, 60),
    flip_probability=flips,
)
audiences = st.builds(
    privacy.FlippedAudiences,
    filters=st.integers(1, 3),
    bits=st.integers(1, 60),
    hashes=st.integers(1, 3),
    flip_probability=flips,
)
scales = st.fractions(Fraction(1, 4), Fraction(20), max_denominator=64)
totals = st.builds(
    privacy.NoisyTotals,
    law=st.sampled_from(["laplace", "gaussian"]),
    scale=scales,
    counts=st.integers(1, 6),
) | st.builds(
    privacy.NoisyTotals,
    law=st.sampled_from(["laplace", "gaussian"]),
    scale=scales,
    steps=st.integers(1, 30),
)
responders = st.builds(privacy.RandomResponders, responders=st.integers(0, 200))
ratios = st.fractions(Fraction(1, 100), Fraction(4, 5), max_denominator=100)
signed = (
    st.builds(
        privacy.SignedDecoys,
        question=st.sampled_from(["bit", "choice"]),
        plus_ratio=ratios,
        minus_ratio=ratios,
        flood=st.lists(st.fractions(Fraction(0), Fraction(3), max_denominator=20), max_size=4),
        share=st.sampled_from([Fraction(1), Fraction(1), Fraction(1, 2)]),
    )
    | st.builds(
        privacy.SignedDecoys,
        question=st.just("number"),
        plus_ratio=ratios,
        minus_ratio=ratios,
        flood=st.lists(st.fractions(Fraction(0), Fraction(3), max_denominator=20), max_size=4),
        steps=st.integers(1, 4),
    )
    | st.builds(
        privacy.SignedDecoys,
        question=st.just("bit"),
        plus_ratio=ratios,
        minus_ratio=ratios,
        flood=st.lists(st.fractions(Fraction(0), Fraction(3), max_denominator=20), max_size=4),
        share=st.sampled_from([Fraction(1), Fraction(1, 2)]),
        doubled=st.just(value=True),
    )
)
rates = st.lists(
    st.fractions(Fraction(1, 4), Fraction(3), max_denominator=20), min_size=1, max_size=3
)
levels = st.lists(
    st.fractions(Fraction(1, 2), Fraction(4), max_denominator=20), min_size=1, max_size=2
)
weighted_numbers = st.builds(
    privacy.WeightedNumbers,
    tops=st.integers(1, 3),
    levels=st.lists(levels, min_size=1, max_size=2),
    ratio=ratios,
    code_flood=rates,
    link_flood=rates,
    top_flood=rates,
    whole_flood=st.none() | rates,
    share=st.sampled_from([Fraction(1), Fraction(1), Fraction(1, 2)]),
)
any_mechanism = (
    audiences
    | bits()
    | decoyed
    | flipped_values
    | numbers
    | responders
    | rows
    | signed
    | totals
    | weighted_numbers
)
