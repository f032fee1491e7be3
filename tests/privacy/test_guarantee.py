"""What is printed of a promise never promises more than was proven."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidInput
from chaffinch.privacy import Bracket, Guarantee, Target
from chaffinch.privacy.guarantee import commas_in

positive = st.floats(1e-280, 1e280)


@given(positive, positive, positive)
def test_printed_numbers_are_rounded_to_the_safe_side(
    epsilon: float, delta: float, local: float
) -> None:
    promise = Guarantee(epsilon, delta, "replace-one", "messages", "somebody", local, "exact")
    found = re.match(
        r"\((\S+), (\S+)\)-.*collude: (\S+)( \(practically no protection\))?$", str(promise)
    )
    assert found
    for text, value in zip(found.groups()[:3], (epsilon, delta, local), strict=True):
        # A short decimal stands for itself: 1e-8 is what was asked for, not its nearest float.
        assert Fraction(text) >= Fraction(value) or float(text) == value
        assert float(text) <= value * 1.01


@given(positive, positive)
def test_a_printed_bracket_holds_the_bracket(one: float, two: float) -> None:
    bracket = Bracket(min(one, two), max(one, two))
    low, high = str(bracket).strip("[]").split(", ")
    assert Fraction(low) <= Fraction(bracket.lower)
    assert Fraction(bracket.upper) <= Fraction(high)


def test_large_counts_have_commas_and_nothing_else_has() -> None:
    words = "1000 users, 999 of them, 1234567 of 0.12345 and a1234"
    assert commas_in(words) == "1,000 users, 999 of them, 1,234,567 of 0.12345 and a1234"


def test_no_local_protection_is_said_in_words() -> None:
    promise = Guarantee(1.0, 1e-6, "replace-one", "messages", "somebody", math.inf, "exact")
    assert str(promise).endswith("infinite (no protection)")


def test_a_promise_reads_as_it_was_asked_for() -> None:
    promise = Guarantee(0.1, 1e-8, "replace-one", "messages", "somebody", 2.0, "exact")
    assert str(promise).startswith("(0.1, 1e-08)-")


# ------------------------------------------------------------------ a bracket as a number


@given(positive, positive, st.integers(1, 15))
def test_a_format_rounds_both_ends_outwards(one: float, two: float, digits: int) -> None:
    bracket = Bracket(min(one, two), max(one, two))
    low, high = f"{bracket:.{digits}g}".strip("[]").split(", ")
    assert Fraction(low) <= Fraction(bracket.lower)
    assert Fraction(bracket.upper) <= Fraction(high)
    assert len(low.partition("e")[0].replace(".", "").strip("0")) <= digits
    assert f"{bracket}" == str(bracket)


@pytest.mark.parametrize("spec", [".3f", ".0g", "10.3g", "x", ".16g"])
def test_a_format_that_would_not_round_outwards_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="a bracket is formatted"):
        format(Bracket(0.1, 0.2), spec)


def test_a_bracket_stands_for_its_upper_end() -> None:
    bracket = Bracket(0.4, 0.6)
    assert float(bracket) == 0.6
    assert bracket <= 0.6 < Fraction(61, 100)
    assert not bracket < 0.6
    # Doubt counts as too much: this is what refuses a promise of 0.5.
    assert bracket > 0.5
    assert not bracket > 0.6
    assert not bracket <= 0.5
    assert not bracket >= 0.7
    assert bracket >= 0.6


@pytest.mark.parametrize("order", [operator.lt, operator.le, operator.gt, operator.ge])
def test_two_brackets_are_not_ordered(order: Callable[[Bracket, Bracket], bool]) -> None:
    with pytest.raises(TypeError):
        order(Bracket(0.1, 0.2), Bracket(0.3, 0.4))
    assert max([Bracket(0.1, 0.4), Bracket(0.2, 0.3)], key=float) == Bracket(0.1, 0.4)


def test_a_promise_is_shown_in_a_notebook() -> None:
    promise = Guarantee(0.1, 1e-8, "replace-one", "messages", "<b>", 2.0, "exact")
    shown = promise._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "at most 53 are right" in shown


def test_a_promise_without_delta_says_what_is_missing() -> None:
    with pytest.raises(InvalidInput, match="Got none") as caught:
        Target(epsilon=1)
    assert "1e-8" in caught.value.hint
