"""Brackets, guarantees and the questions every mechanism answers by default."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.privacy import Bracket, FlippedBits, Guarantee, Target
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.numerics.precision import Floats


def test_a_bracket_holds_its_ends_and_what_is_between() -> None:
    bracket = Bracket(1.0, 2.0)
    assert [value in bracket for value in (0.9, 1.0, 1.5, 2.0, 2.1)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    with pytest.raises(ValueError, match="lower <= upper"):
        Bracket(2.0, 1.0)
    with pytest.raises(ValueError, match="lower <= upper"):
        Bracket(math.nan, 1.0)


def test_the_width_of_a_bracket_is_the_doubt_in_its_safe_end() -> None:
    assert Bracket(3.0, 4.0).relative_width == 0.25
    assert Bracket(-4.0, -2.0).relative_width == 1.0
    assert Bracket(0.0, 0.0).relative_width == 0.0
    assert Bracket(math.inf, math.inf).relative_width == 0.0
    assert Bracket(1.0, math.inf).relative_width == math.inf


def test_numbers_are_printed_with_so_many_digits() -> None:
    assert str(Bracket(1 / 3, 2 / 3)) == "[0.3333333333, 0.6666666667]"
    assert str(Bracket(0.0, math.inf)) == "[0, inf]"
    assert str(Bracket(1.0, 1.0)) == "[1, 1]"
    promise = Guarantee(1 / 3, 1.23456e-7, "n", "messages", "c", 2 / 3, "exact")
    assert str(promise).startswith("(0.333334, 1.24e-07)-differential privacy, proven (exact)")
    assert str(promise).endswith("if shuffler and analyzer collude: 0.6667")
    # Six and three digits are short: they stand for themselves.
    short = Guarantee(0.123456, 1.23e-7, "n", "columns", "c", 2.0, "upper-bound")
    assert str(short).startswith("(0.123456, 1.23e-07)-differential privacy, proven")
    assert "if the order of the columns is known: 2" in str(short)


@pytest.mark.parametrize(
    ("method", "proven"),
    [
        ("exact", True),
        ("upper-bound", True),
        ("worst-pair-assumed", False),
        ("monte-carlo", False),
        ("published", False),
    ],
)
def test_only_proofs_are_called_proven(method: str, proven: bool) -> None:  # noqa: FBT001
    promise = Guarantee(1.0, 1e-6, "n", "messages", "c", 2.0, method)  # type: ignore[arg-type]
    assert promise.proven is proven
    assert (", proven (" in str(promise)) is proven
    assert (", not proven (" in str(promise)) is not proven


@pytest.mark.parametrize(("epsilon", "delta"), [(-1.0, 0.1), (math.nan, 0.1), (1.0, 2.0)])
def test_a_target_without_sense_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InvalidInput):
        Target(epsilon, delta)


class Line(Mechanism):
    """A mechanism with nothing of its own but a delta that falls on two lines to its end."""

    neighbours = "anything"
    view = "messages"
    method = "exact"

    def __init__(self, local: float = 2.0) -> None:
        self.local = local

    @property
    def crowd_words(self) -> str:
        return "somebody"

    @property
    def local_epsilon(self) -> float:
        return self.local

    def delta(self, epsilon: float) -> Bracket:
        upper = max(0.5 - 0.25 * epsilon, 0.0)
        return Bracket(0.5 * upper, upper)

    def profile(self, epsilons: Floats) -> tuple[Floats, Floats]:
        ends = [self.delta(float(epsilon)) for epsilon in epsilons]
        return np.array([e.lower for e in ends]), np.array([e.upper for e in ends])


def test_what_a_mechanism_does_not_say_follows_from_delta() -> None:
    line, places = Line(), np.array([0.0, 1.0])
    assert line.delta_bound(1.0) == line.delta(1.0).upper == 0.25
    assert line.profile_bound(places).tolist() == [0.5, 0.25]
    assert line.opened is line
    assert not line.takes_minutes
    assert line.instance() is None
    found = line.epsilon(0.125)
    assert found.upper == pytest.approx(1.5)
    assert found.lower == pytest.approx(1.0)
    promise = line.guarantee(delta=0.125)
    assert promise.epsilon == found.upper
    assert promise == Guarantee(
        found.upper, 0.125, "anything", "messages", "somebody", 2.0, "exact"
    )


def test_epsilon_stays_below_the_local_one() -> None:
    assert Line(1.2).epsilon(0.125).upper == 1.2


def test_nodes_go_from_zero_to_where_the_profile_ends() -> None:
    nodes = Line().nodes()
    assert len(nodes) == Line.profile_nodes
    assert nodes[0] == 0.0
    assert nodes[-1] == pytest.approx(2.0)
    assert (np.diff(nodes) > 0).all()
    assert (np.diff(nodes, 2) > -1e-12).all(), "denser where delta is large"
    assert nodes[64] == pytest.approx(2.0 * 0.5**2)


def test_mu_is_a_bracket_of_a_real_mechanism() -> None:
    found = FlippedBits(users=20, flip_probability="0.3").gaussian_mu()
    assert 0 < found.lower <= found.upper < 10
    weak = Line().gaussian_mu()
    assert weak.lower < weak.upper, "its ends of delta differ, so do those of mu"
