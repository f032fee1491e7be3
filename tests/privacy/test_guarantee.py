"""What is printed of a promise never promises more than was proven."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from chaffinch.privacy import Bracket, Guarantee

positive = st.floats(1e-280, 1e280)


@given(positive, positive, positive)
def test_printed_numbers_are_rounded_to_the_safe_side(
    epsilon: float, delta: float, local: float
) -> None:
    promise = Guarantee(epsilon, delta, "replace-one", "messages", "somebody", local, "exact")
    found = re.match(r"\((\S+), (\S+)\)-.*collude: (\S+)$", str(promise))
    assert found
    for text, value in zip(found.groups(), (epsilon, delta, local), strict=True):
        # A short decimal stands for itself: 1e-8 is what was asked for, not its nearest float.
        assert Fraction(text) >= Fraction(value) or float(text) == value
        assert float(text) <= value * 1.01


@given(positive, positive)
def test_a_printed_bracket_holds_the_bracket(one: float, two: float) -> None:
    bracket = Bracket(min(one, two), max(one, two))
    low, high = str(bracket).strip("[]").split(", ")
    assert Fraction(low) <= Fraction(bracket.lower)
    assert Fraction(bracket.upper) <= Fraction(high)


def test_no_local_protection_is_said_in_words() -> None:
    promise = Guarantee(1.0, 1e-6, "replace-one", "messages", "somebody", math.inf, "exact")
    assert str(promise).endswith("infinite (no protection)")


def test_a_promise_reads_as_it_was_asked_for() -> None:
    promise = Guarantee(0.1, 1e-8, "replace-one", "messages", "somebody", 2.0, "exact")
    assert str(promise).startswith("(0.1, 1e-08)-")
