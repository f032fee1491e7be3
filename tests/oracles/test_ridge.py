"""The ridge of best thresholds against exact rationals, certified balls and the search by boxes.

Planted faults must show: a line through the untilted mean, aliases that nobody charges for, and
a polynomial cut short would each put the truth outside of some bracket.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.privacy import Bracket
from chaffinch.privacy.mechanisms.bit_crowds import BitCrowds
from chaffinch.privacy.numerics import crowds, ridge
from tests.cases import each_case
from tests.oracles import balls, exact, judge, settings
from tests.tiers import chequered, nightly

SETTINGS = {False: 80, True: 5_000}


def ridden(mechanism: privacy.FlippedBits, epsilon: float, width: float) -> Bracket | None:
    """Return delta along the ridge, whatever the crowd's size."""
    found = mechanism.bit_crowds.ridge_delta(epsilon, width)
    return None if found is None else found[0]


def draw_bits(source: random.Random, most: int) -> tuple[privacy.FlippedBits, float]:
    """Return a mechanism and an epsilon: anywhere up to the local one, 0, and next to it."""
    flip, users = settings.draw_flip(source), settings.draw_size(source, most, least=2)
    copies, decoys = source.choice([1, 1, 1, 2, 3]), source.choice([0, 0, 1, 5])
    steepest = copies * math.log((1 - flip) / flip)
    share = source.choice(
        [0.0, source.random() ** 3, source.random(), 1 - 10 ** -source.uniform(1, 7)]
    )
    mechanism = privacy.FlippedBits(
        users=users, flip_probability=flip, copies=copies, decoys=decoys
    )
    return mechanism, share * steepest


def rational_complaint(source: random.Random) -> str | None:
    """Return what is wrong with a bracket beside exact rationals; None if the ridge gave up."""
    mechanism, epsilon = draw_bits(source, 14)
    rounded = Fraction(mechanism.flip_probability).limit_denominator(1000)
    flip = min(max(rounded, Fraction(1, 1000)), Fraction(499, 1000))
    mechanism = privacy.FlippedBits(
        users=mechanism.users,
        flip_probability=flip,
        copies=mechanism.copies,
        decoys=mechanism.decoys,
    )
    epsilon = min(epsilon, mechanism.local_epsilon * (1 - 1e-9))
    found = ridden(mechanism, epsilon, 10 ** -source.uniform(2, 9))
    if found is None:
        return None
    pairs = exact.bits_pairs(mechanism.users, flip, mechanism.copies, mechanism.decoys)
    wrong = judge.complaint(found, judge.true_delta(pairs, epsilon))
    return wrong and f"{mechanism!r}.delta({epsilon!r}): {wrong}"


def ball_complaint(source: random.Random) -> str | None:
    """Return the same beside balls, with crowds of up to two hundred."""
    mechanism, epsilon = draw_bits(source, 200)
    found = ridden(mechanism, epsilon, 10 ** -source.uniform(2, 9))
    if found is None:
        return None
    truth = balls.worst_bits_delta(
        mechanism.users,
        mechanism.flip_probability,
        epsilon,
        mechanism.copies,
        mechanism.decoys,
    )
    wrong = judge.ball_complaint(found, truth)
    return wrong and f"{mechanism!r}.delta({epsilon!r}): {wrong}"


def search_complaint(source: random.Random) -> str | None:
    """Return the same beside the search by boxes, in crowds of up to a hundred thousand."""
    flip, users = settings.draw_flip(source), settings.draw_size(source, 100_000, least=300)
    copies, decoys = source.choice([1, 1, 2, 8]), source.choice([0, 0, 50])
    mechanism = privacy.FlippedBits(
        users=users, flip_probability=flip, copies=copies, decoys=decoys
    )
    if not mechanism.bit_crowds.is_wide:
        return None
    spread = math.sqrt(users * copies * flip * (1 - flip))
    epsilon = min(source.uniform(0.0, 7.0) * copies / spread, 0.9 * mechanism.local_epsilon)
    found = ridden(mechanism, epsilon, 10 ** -source.uniform(2, 8))
    if found is None:
        return None
    searched = by_boxes(mechanism, epsilon)
    apart = found.lower > searched.upper or searched.lower > found.upper
    return f"{mechanism!r}.delta({epsilon!r}): {found} and {searched}" if apart else ""


def by_boxes(mechanism: privacy.FlippedBits, epsilon: float) -> Bracket:
    """Return delta by the search that drops records, which knows nothing of thresholds."""
    among = mechanism.bit_crowds
    found = crowds.find_worst(
        among.boxes,
        among.bound_of(_ask_delta(epsilon), 1e-40),
        width=1e-2,
        floor=1e-30,
        most_evaluations=400,
    )
    return Bracket(float(found.lower[0]), float(found.upper[0]))


def _ask_delta(epsilon: float) -> Callable[..., crowds.Ends]:
    def ask(knots: object, spread: float) -> crowds.Ends:
        low, high = knots.delta(epsilon, spread=spread)  # type: ignore[attr-defined]
        return np.array([low]), np.array([high])

    return ask


def complaints(judged: Callable[[random.Random], str | None], seed: int, count: int) -> list[str]:
    """Return every complaint among ``count`` settings that were judged; no one may be rare."""
    source = random.Random(seed)
    found: list[str] = []
    for _ in range(5 * count):
        complaint = judged(source)
        if complaint is not None:
            found.append(complaint)
        if len(found) == count:
            return [one for one in found if one]
    raise AssertionError("the ridge gave up on most settings")


@pytest.mark.parametrize("share", [8, nightly(1)])
@pytest.mark.parametrize("judged", [rational_complaint, ball_complaint])
def test_every_crowd_and_threshold(
    judged: Callable[[random.Random], str | None], share: int
) -> None:
    assert complaints(judged, 1, SETTINGS[False] // share) == []


@pytest.mark.parametrize("settings", [4, nightly(12)])
def test_beside_the_search_by_boxes(settings: int) -> None:
    assert complaints(search_complaint, 2, settings) == []


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("judged", [rational_complaint, ball_complaint])
def test_every_crowd_and_threshold_often(judged: Callable[[random.Random], str | None]) -> None:
    assert complaints(judged, 3, SETTINGS[True]) == []


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_beside_the_search_by_boxes_often() -> None:
    assert complaints(search_complaint, 4, 1_000) == []


@pytest.mark.parametrize(
    ("users", "flip", "copies", "decoys", "epsilon"),
    [
        nightly(41, "0.049249", 100, 0, 284.7926052333387),
        (42, "0.05262", 64, 0, 124.18),
        nightly(6, "0.250913", 300, 1, 269.4757879508546),
    ],
)
def test_many_copies_at_large_epsilons(
    users: int, flip: str, copies: int, decoys: int, epsilon: float
) -> None:
    # The best threshold may be the first one below a strip that is only seen to rise there.
    mechanism = privacy.FlippedBits(
        users=users, flip_probability=flip, copies=copies, decoys=decoys
    )
    truth = balls.bits_delta(
        0, (users - 1) * copies + decoys * copies, Fraction(flip), epsilon, copies
    )
    for found in (ridden(mechanism, epsilon, 1e-3), mechanism.delta(epsilon)):
        assert found is None or not judge.ball_complaint(Bracket(0.0, found.upper), truth)


@each_case(
    ("digits", "share", "decoys"),
    chequered(((d, s) for d in (10, 34, 63) for s in (0.0, 0.4, 0.999)), (0, 5)),
)
def test_flips_next_to_one_half_keep_their_digits(digits: int, share: float, decoys: int) -> None:
    flip = Fraction(1, 2) - Fraction(1, 2**digits)
    mechanism = privacy.FlippedBits(users=150, flip_probability=flip, decoys=decoys)
    epsilon = share * mechanism.local_epsilon
    found = ridden(mechanism, epsilon, 1e-9)
    assert found is not None
    assert found.upper - found.lower <= 1e-9 * found.upper
    truth = balls.worst_bits_delta(150, flip, epsilon, 1, decoys)
    assert not judge.ball_complaint(found, truth)


def test_flips_next_to_one_half_in_a_large_crowd_are_followed_along_the_ridge() -> None:
    flip = Fraction(4503599627026373, 2**53)
    mechanism = privacy.FlippedBits(users=3440, flip_probability=flip, decoys=100)
    found = ridden(mechanism, 0.0, 1e-9)
    assert found == mechanism.delta(0.0)
    assert found is not None
    assert found.lower == pytest.approx(1.0246173e-12)
    twice = privacy.compose(mechanism, times=2).delta(0.0)
    assert found.lower <= twice.upper <= 2 * found.upper


def copies_complaint(source: random.Random) -> str | None:
    """Return what is wrong with many copies at large epsilons, beside one crowd in balls."""
    flip = settings.draw_flip(source)
    users, copies = settings.draw_size(source, 25, least=2), source.choice([4, 8, 30, 60])
    mechanism = privacy.FlippedBits(users=users, flip_probability=flip, copies=copies)
    epsilon = source.uniform(0.3, 0.99) * mechanism.local_epsilon
    if epsilon > 300:
        return None
    found = ridden(mechanism, epsilon, 1e-2)
    if found is None:
        return None
    ones = source.choice([0, 1, users - 1])
    truth = balls.bits_delta(ones * copies, (users - 1 - ones) * copies, flip, epsilon, copies)
    wrong = judge.ball_complaint(Bracket(0.0, found.upper), truth)
    return wrong and f"{mechanism!r}.delta({epsilon!r}): {wrong}"


def test_many_copies_beside_balls() -> None:
    source = random.Random(6)
    found = [copies_complaint(source) for _ in range(30)]
    assert sum(one is not None for one in found) >= 3
    assert [one for one in found if one] == []


def test_epsilons_next_to_the_local_one() -> None:
    for flip in ("0.05", "0.1", "0.25", "0.4", "0.45"):
        mechanism = privacy.FlippedBits(users=40_000, flip_probability=flip)
        epsilon = mechanism.local_epsilon
        for _ in range(4):
            epsilon = math.nextafter(epsilon, 0.0)
            assert mechanism.delta_bound(epsilon) < 1e-12


@pytest.mark.parametrize(
    ("users", "flip", "low", "high"),
    [
        # A prototype in doubles, checked against balls, gave these ends at delta 1e-6.
        (10**6, "0.25", 0.00319282639, 0.00319283411),
        (10**7, "0.05", 0.00365965181, 0.0036596603),
        (10**8, "0.45", 2.52866993e-05, 2.52869104e-05),
        (10**9, "0.01", 0.000730497053, 0.00073049854),
    ],
)
def test_known_ends_of_epsilon(users: int, flip: str, low: float, high: float) -> None:
    found = privacy.FlippedBits(users=users, flip_probability=flip).epsilon(1e-6)
    assert low <= found.lower <= found.upper <= high


# ------------------------------------------------------------------ planted faults


def test_a_line_through_the_untilted_mean_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    place = ridge._Ridge._place_line  # noqa: SLF001 - a fault is planted inside

    def untilted(self: ridge._Ridge, epsilon: float) -> None:
        place(self, epsilon)
        self.w1, self.w0 = np.longdouble(0.95), np.longdouble(0.05)

    monkeypatch.setattr(ridge._Ridge, "_place_line", untilted)  # noqa: SLF001
    found = BitCrowds(Fraction(1, 20), 1, 1, 199).ridge_delta(1.0, 1e-6)
    truth = balls.worst_bits_delta(200, Fraction(1, 20), 1.0, 1, 0)
    assert found is not None
    assert judge.ball_complaint(found[0], truth)


def test_aliases_without_a_charge_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = ridge._Ridge._choose_circle  # noqa: SLF001

    def few_points(self: ridge._Ridge, width: float) -> None:
        choose(self, width)
        self.points = self.points // 6 | 1
        self.kept = min(self.kept, (self.points + 1) // 2)
        self.alias = self.cut = 0.0

    monkeypatch.setattr(ridge._Ridge, "_choose_circle", few_points)  # noqa: SLF001
    found = BitCrowds(Fraction(1, 20), 1, 1, 199).ridge_delta(1.0, 1e-6)
    truth = balls.worst_bits_delta(200, Fraction(1, 20), 1.0, 1, 0)
    assert found is not None
    assert judge.ball_complaint(found[0], truth)


def test_a_dropped_remainder_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge, "_degree", lambda *_: 2)
    monkeypatch.setattr(ridge, "_AROUND", 0)
    found = BitCrowds(Fraction(1, 20), 1, 1, 199).ridge_delta(1.0, 1e-9)
    truth = balls.worst_bits_delta(200, Fraction(1, 20), 1.0, 1, 0)
    assert found is not None
    assert judge.ball_complaint(found[0], truth)


@pytest.mark.parametrize(
    ("users", "flip"), [(1_500, "0.4"), nightly(4_000, "0.1"), (20_000, "0.02")]
)
def test_two_sums_are_two_rounds_of_one_bit(users: int, flip: str) -> None:
    # Wide sums are composed; the search over pairs of crowds must find nothing above, and the
    # crowds that exist are nearly as bad.
    mechanism = privacy.FlippedValues(users=users, values=7, flip_probability=flip)
    found = mechanism.epsilon(1e-6)
    assert found.upper <= found.lower * 1.002
    for epsilon in (0.3 * found.upper, found.upper):
        bracket = mechanism.delta(epsilon)
        for first in (users - 1, users - 5, users // 2, 0):
            for second in (0, 3, (users - 1 - first) // 2):
                if first + second > users - 1:
                    continue
                crowd = mechanism.crowd_delta(first=first, second=second, epsilon=epsilon)
                assert crowd.lower <= bracket.upper
        assert bracket.upper <= bracket.lower * 1.05


@each_case("decoys", [0, 700])
@each_case("epsilon", [0.0, 0.1, 0.4])
def test_the_crowd_that_is_told_has_that_delta(decoys: int, epsilon: float) -> None:
    mechanism = privacy.FlippedBits(users=2_000, flip_probability="0.2", decoys=decoys)
    found = mechanism.bit_crowds.ridge_delta(epsilon, 1e-6)
    assert found is not None
    bracket, crowd = found
    assert mechanism.crowd(ones=crowd).delta(epsilon).upper >= bracket.lower


@pytest.mark.parametrize(
    ("users", "copies", "decoys"), [nightly(700, 1, 0), nightly(300, 1, 100), (300, 3, 0)]
)
def test_trade_off_beside_the_search_by_boxes(
    monkeypatch: pytest.MonkeyPatch, users: int, copies: int, decoys: int
) -> None:
    levels = np.array([1e-6, 0.01, 0.2, 0.5, 0.9, 1.0])
    mechanism = privacy.FlippedBits(
        users=users, flip_probability="0.4", copies=copies, decoys=decoys
    )
    assert mechanism.bit_crowds.is_wide or copies > 1
    monkeypatch.setattr(BitCrowds, "is_wide", True)
    ridden_curve = mechanism.tradeoff(levels)
    monkeypatch.setattr(BitCrowds, "is_wide", False)
    searched = mechanism.tradeoff(levels)
    assert (ridden_curve.lower <= searched.upper).all()
    assert (searched.lower <= ridden_curve.upper).all()
    assert (ridden_curve.upper - ridden_curve.lower).max() < 1e-5
