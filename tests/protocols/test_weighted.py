"""Weighted numbers on devices: codes, atoms, and what all of them add up to."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.protocols.base import GRAIN, Setting
from chaffinch.protocols.bursts import dropped_chance
from chaffinch.protocols.intervals import two_sided
from chaffinch.protocols.noise import Truth
from chaffinch.protocols.weighted import Weighted, _variant
from chaffinch.protocols.weighted_codes import Layout
from chaffinch.questions import Bit, Number
from chaffinch.simulate import SeededWords
from tests import oracles
from tests.oracles.weighted import rates

QUESTION = Number(0, 100)
LAYOUTS = [(1, (1,)), (3, (3, 2)), (1, (4,)), (2, (1, 1, 2)), (5, (2, 1)), (1, (3, 3))]


def flood(longest: int, growth: float, strength: float) -> tuple[Fraction, ...]:
    return tuple(Fraction(round(rate * 2**40), 2**40) for rate in rates(longest, growth, strength))


def made(**changes: Any) -> Weighted:
    return replace(
        Weighted(
            tops=3,
            levels=(
                (Fraction(7), Fraction(6), Fraction(11, 2)),
                (Fraction(5), Fraction(4)),
            ),
            ratio=Fraction(round(math.exp(-0.85 / 3) * GRAIN), GRAIN),
            code_flood=flood(6, 1.75, 12),
            link_flood=flood(8, 1.5, 20),
            top_flood=flood(12, 1.4, 30),
            cut_for=10_000,
            room=150,
        ),
        **changes,
    )


# ----------------------------------------------------------------------------
# Codes and atoms.


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("tops", "sizes"), LAYOUTS)
def test_codes_are_those_of_another_program(tops: int, sizes: tuple[int, ...], whole: bool) -> None:  # noqa: FBT001
    layout, other = Layout.of(tops, sizes, whole=whole), oracles.weighted.Layout(tops, sizes)
    groups = layout.weights[layout.whole : layout.size - layout.levels - 2].tolist()
    assert groups == [weight for group in other.codes for weight in group]
    steps = np.arange(other.steps + 1)
    found = layout.answer(steps)
    assert (layout.weights[found].sum(axis=1) == steps - other.steps // 2).all()
    if not whole:
        assert layout.weights[found].tolist() == [other.answer(int(one)) for one in steps]
    assert found.shape == (len(steps), 1 if whole else len(sizes))
    assert found.max() < layout.size


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(("tops", "sizes"), LAYOUTS)
def test_atoms_add_up_to_nothing(tops: int, sizes: tuple[int, ...], whole: bool) -> None:  # noqa: FBT001
    layout = Layout.of(tops, sizes, whole=whole)
    other, atoms = oracles.weighted.Layout(tops, sizes), layout.atoms
    named = {
        name: atoms.lists[first : first + number] for name, (first, number) in atoms.parts.items()
    }
    unit = layout.size - layout.levels - 2
    for name, lists in named.items():
        for codes in lists:
            moved = int(layout.weights[list(codes)].sum())
            if name in ("units", "tops"):
                assert len(codes) == 1
                assert moved == layout.weights[codes[0]]
            else:
                assert moved == 0
    assert [codes[0] for codes in named["codes"]] == list(range(layout.whole, unit))
    for code, *units in named["codes"]:
        counts = [units.count(unit + place) for place in range(layout.levels + 2)]
        assert counts == list(other.units(-int(layout.weights[code])))
    assert named["links"] == tuple((u, u, u + 1) for u in range(unit, unit + layout.levels))
    assert named["pairs"] == ((layout.size - 2, layout.size - 1),)
    if whole:
        # An atom of a whole code has, beside it, one code of each group.
        starts = [*(group.first for group in layout.groups), unit]
        for place, (code, *parts) in enumerate(named["whole"]):
            assert code == place
            assert [a <= one < b for one, (a, b) in zip(parts, pairwise(starts), strict=True)]
    assert (atoms.codes_of(np.arange(len(atoms.lists))) == np.concatenate([*atoms.lists])).all()


# ----------------------------------------------------------------------------
# What is sent.


@pytest.mark.parametrize("protocol", [made(), made(whole_flood=flood(3, 1.5, 4))])
def test_an_answer_is_always_as_many_messages(protocol: Weighted) -> None:
    for share in (0.0, 0.3, 0.5, 1.0):
        words = SeededWords(7)
        sizes = {len(protocol.encode_one(QUESTION, share, words)) for _ in range(300)}
        assert min(sizes) == protocol.answer_messages(QUESTION)
        assert max(sizes) <= protocol.report_slots(QUESTION)


@pytest.mark.parametrize("protocol", [made(), made(whole_flood=flood(3, 1.5, 4))])
def test_sums_are_unbiased_and_scatter_as_told(protocol: Weighted) -> None:
    """Every z-value below 5.5, and variances within what so many runs show: false alarm 1e-6."""
    people, runs = 10_000, 400
    shares = np.linspace(0, 1, people)
    sums, sizes = [], []
    words = SeededWords(3)
    for _ in range(runs):
        codes = protocol.encode_many(QUESTION, shares, words).codes
        counts = np.bincount(codes, minlength=protocol.codes(QUESTION))
        reading = protocol.read(QUESTION, counts, people)
        sums.append(int(reading.tallies[0]))
        sizes.append(len(codes))
    law = protocol.noise(QUESTION)
    trials = people * protocol.resolution
    estimates = law.estimate(np.array(sums), trials) / protocol.resolution
    error = protocol.standard_error(QUESTION, people)
    assert abs(estimates.mean() - shares.sum()) < 5.5 * error / math.sqrt(runs)
    # Rounding scatters by a sixth of a step squared on average here, not by a quarter.
    noise = float(law.tally_variance(0, trials)) + people / 6
    spread = math.sqrt(noise) / protocol.resolution
    assert abs(estimates.std() / spread - 1) < 5.5 / math.sqrt(2 * runs) * 1.5
    messages = protocol.messages_of_all(QUESTION, people)
    assert abs(np.mean(sizes) - messages.mean) < 5.5 * math.sqrt(messages.variance / runs)
    assert protocol.least_messages(QUESTION, people) < min(sizes)
    assert math.isclose(messages.mean / people, protocol.expected_messages(QUESTION), rel_tol=1e-9)


def test_devices_and_samplers_have_the_law_of_the_encoder() -> None:
    """The mean of every code, of devices one by one, of all at once, and of drawn tallies."""
    protocol = made(cut_for=40, room=4000)
    people, runs = 40, 300
    shares = np.linspace(0.1, 0.9, people)
    words, size = SeededWords(11), protocol.codes(QUESTION)
    truth = Truth("number", people, np.ones(people, np.int64), shares)
    found = {
        "devices": np.array(
            [
                np.bincount(
                    np.concatenate([protocol.encode_one(QUESTION, one, words) for one in shares]),
                    minlength=size,
                )
                for _ in range(runs)
            ]
        ),
        "at once": np.array(
            [
                np.bincount(protocol.encode_many(QUESTION, shares, words).codes, minlength=size)
                for _ in range(runs)
            ]
        ),
        "drawn": protocol.draw_tallies(
            QUESTION, truth, runs, np.random.default_rng(2), np.zeros(1, np.intp)
        ),
    }
    means = {name: counts.mean(axis=0) for name, counts in found.items()}
    spreads = np.maximum(found["drawn"].std(axis=0), 0.5)
    for name, mean in means.items():
        off = np.abs(mean - means["drawn"]) / spreads / math.sqrt(2 / runs)
        assert off.max() < 5.5, name
        ratio = found[name].std(axis=0) / spreads
        assert np.abs(ratio - 1).max() < 0.45, name


def test_intervals_hold_as_often_as_they_say() -> None:
    """Of 20,000 drawn sums; noise that is a tenth larger misses too often."""
    protocol, runs = made(), 20_000
    law, trials = protocol.noise(QUESTION), 10_000 * made().resolution
    draws = np.random.default_rng(5)
    held = trials // 3
    for factor, fails in ((1.0, False), (1.1, True)):
        noise = draws.negative_binomial(1, float(1 - protocol.ratio), (2, runs)) * 32
        drawn = factor * (noise[0] - noise[1])
        for level, rate in enumerate((7, 6, 5.5, 5, 4)):
            drawn = drawn + factor * (-2) ** level * draws.poisson(rate, runs)
        seen = held + np.rint(drawn).astype(np.int64)
        low, high = two_sided(law, seen, trials, 0.05)
        missed = int(((held < low) | (held > high)).sum())
        assert (missed > 0.05 * runs + 5 * math.sqrt(0.05 * 0.95 * runs)) is fails, missed


# ----------------------------------------------------------------------------
# What it promises, and what it refuses.


def test_it_is_proven_with_what_does_not_fit() -> None:
    protocol = made()
    mechanism = protocol.mechanism(QUESTION, 10_000)
    assert mechanism.share == 1  # type: ignore[attr-defined]
    assert mechanism.delta_bound(1.0) < 1e-6
    assert protocol.mechanism(QUESTION, 5_000).delta_bound(1.0) > 1e-4
    assert 0 < protocol.overflow(QUESTION) < 1e-6
    assert made(room=20).overflow(QUESTION) > 1e-4


@pytest.mark.parametrize("whole", [False, True])
def test_delta_is_not_spent_on_a_loose_tail_in_a_huge_crowd(whole: bool) -> None:  # noqa: FBT001
    """What is charged of noise that does not fit is what the room was chosen for."""
    setting = Setting(QUESTION, 10**9, 1.0, 1e-8, 1e-6)
    protocol = _variant(0.81, whole=whole).make(setting, 0.15)
    assert protocol.overflow(QUESTION) <= 1.001 * dropped_chance(setting)


def test_tails_are_those_of_a_long_sum() -> None:
    """Beside the law worked out far beyond any window, by sums of exact rates."""
    noise = made(cut_for=10**6, ratio=Fraction(3, 4)).noise_messages(QUESTION)
    steps = np.zeros(2001)
    for size, rate in noise.bursts:
        steps[size] += size * rate * noise.scale
    ((ratio, pairs),) = noise.parts
    steps[1:] += 2 * noise.scale * ratio ** np.arange(1.0, 2001)
    for size, rate in enumerate(pairs, start=1):
        steps[2 * size] += 2 * size * rate * noise.scale
    mass = [math.exp(-sum(steps[n] / n for n in range(1, 2001)))]
    for place in range(1, 2001):
        mass.append(float(steps[1 : place + 1] @ np.array(mass[::-1])) / place)
    for first in (20, 70, 100):
        true = math.fsum(mass[first:])
        assert true <= noise.tail(first) <= 1.02 * true


def test_a_document_brings_it_back() -> None:
    for protocol in (made(), made(whole_flood=flood(3, 1.5, 4))):
        document = protocol.document()
        assert document["kind"] == "weighted"
        assert Weighted.form().model_validate(document).build() == protocol


def test_one_report_moves_a_sum_by_half_a_range_a_message() -> None:
    protocol = made()
    assert protocol.influence(QUESTION, 152) == 152 * 48 / 96 + 1
    assert "1/10,000 share" in protocol.sentence()
    names = protocol.message_names(QUESTION)
    assert len(set(names)) == len(names) == protocol.codes(QUESTION)


def test_nobody_sends_nothing() -> None:
    words = SeededWords(5)
    found = [made(cut_for=1, room=4000).encode_many(QUESTION, np.zeros(0), words) for _ in range(9)]
    assert all(len(one.codes) == 0 for one in found)


def test_a_small_crowd_can_send_as_much_noise() -> None:
    few = made().concentrated(QUESTION, Fraction(500))
    assert few.cut_for == 20
    assert few.room > made().room
    assert few.mechanism(QUESTION, 20) == made().mechanism(QUESTION, 10_000)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ratio"):
        made(ratio=Fraction(1, 3))
    with pytest.raises(InvalidInput, match="steps"):
        made(tops=64, levels=((Fraction(1),) * 20,))
    with pytest.raises(InvalidInput, match="mean"):
        made().check(Number(0, 1, quantiles=True))
    with pytest.raises(InvalidInput, match="shape"):
        made().check(Bit())
