"""What the analyzer reads from counts, and how far one report can move it, by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.protocols import Decoys, Encoded, Flips, Signed
from chaffinch.protocols.base import Protocol, _round_heights, round_by_chance, settle_levels
from chaffinch.protocols.noise import MessageNoise, Noise, SignedNoise
from chaffinch.protocols.signed import Digit
from chaffinch.questions import Bit, Choice, Cross, Flags, Number, Question
from chaffinch.simulate import SeededWords
from tests.sampling.sources import ListedWords

QUARTER, EIGHTH = Fraction(1, 4), Fraction(1, 8)
CHOICE, NUMBER = Choice(["a", "b"], missing="refuse"), Number(0, 1)
SIGNED = Signed(QUARTER, (EIGHTH,), 100, 5)
DIGITS = replace(SIGNED, steps=4, finer=(Digit(EIGHTH, (QUARTER,), 2),))
"""Two digits, of 4 and 2 steps: a step of the first is worth 3, and there are 14."""


def test_signed_counts_are_pluses_less_minuses() -> None:
    counts = np.array([[9, 2, 4, 5], [1, 1, 0, 3]])
    reading = SIGNED.read(CHOICE, counts, 10)
    assert reading.tallies.tolist() == [[7, -1], [0, -3]]
    assert reading.noise == SignedNoise(((1, QUARTER),), 100, 1)
    assert not reading.lowered
    assert SIGNED.noise(Bit()) == SignedNoise(((1, QUARTER),), 100, 2)


def test_signed_digits_count_by_what_they_are_worth() -> None:
    reading = DIGITS.read(NUMBER, np.array([9, 2, 4, 5]), 10)
    assert reading.tallies.tolist() == [3 * 7 - 1]
    assert reading.noise == SignedNoise(((3, QUARTER), (1, EIGHTH)), 1400, 2)
    steps = DIGITS.thermometer
    assert (steps.resolution, steps.together, steps.noise) == (14, True, reading.noise)
    with pytest.raises(InvalidInput, match="numbers"):
        _ = SIGNED.thermometer


def test_signed_errors() -> None:
    """A geometric law with ratio a has the variance a/(1 − a)², and there are two of them."""
    one = 2 * 0.25 / 0.75**2
    assert SIGNED.standard_error(CHOICE, 100) == pytest.approx(math.sqrt(one))
    assert SIGNED.standard_error(Bit(), 100) == pytest.approx(math.sqrt(one) / 2)
    noise = 9 * one + 2 * 0.125 / 0.875**2
    rounding = 100 / 4
    assert DIGITS.standard_error(NUMBER, 100) == pytest.approx(math.sqrt(noise / 4 + rounding) / 14)


def test_one_report_moves_so_much() -> None:
    assert SIGNED.influence(CHOICE, 6) == 7
    assert SIGNED.influence(Bit(), 6) == 3.5
    assert DIGITS.influence(NUMBER, 6) == pytest.approx((6 * 3 + 14) / 2 / 14)
    assert Flips(QUARTER).influence(Bit(), 6) == 12
    assert Encoded(QUARTER, 4, together=True).influence(NUMBER, 6) == 3
    assert Decoys(3, QUARTER).influence(CHOICE, 5) == 3


def test_counts_beyond_what_honest_reports_send_are_lowered() -> None:
    flips = Flips(QUARTER)
    for counts, tallies, lowered in (([9, 10], [9, 10], False), ([9, 11], [9, 10], True)):
        reading = flips.read(CHOICE, np.array(counts), 10)
        assert (reading.tallies.tolist(), reading.lowered) == (tallies, lowered)
        assert reading.noise == Noise.flips(QUARTER)
    decoys = Decoys(3, QUARTER)
    for counts, tallies, lowered in (([40, 1], [40, 1], False), ([41, 1], [40, 1], True)):
        reading = decoys.read(CHOICE, np.array(counts), 10)
        assert (reading.tallies.tolist(), reading.lowered) == (tallies, lowered)
    with pytest.raises(InvalidInput, match="one code"):
        SIGNED._noise_of_bits(CHOICE)  # noqa: SLF001 - what no protocol reaches
    assert flips.least_messages(CHOICE, 10) == 0


def test_a_smaller_crowd_sends_as_much_noise() -> None:
    assert Decoys(3, QUARTER).concentrated(CHOICE, Fraction(8)) == Decoys(6, Fraction(1))
    assert Decoys(3, QUARTER).messages_of_all(CHOICE, 100) == MessageNoise(175.0, 56.25, 1 / 3)
    few = SIGNED.concentrated(CHOICE, Fraction(8))
    assert few == replace(SIGNED, cut_for=13, room=few.room), "100/8, rounded up"
    assert few.overflow(CHOICE) <= 1e-9 < replace(few, room=few.room - 1).overflow(CHOICE)
    assert SIGNED.concentrated(CHOICE, Fraction(1)).room > 5
    assert replace(SIGNED, room=4000).concentrated(CHOICE, Fraction(8)).room == 4000
    assert SIGNED.concentrated(CHOICE, Fraction(1000)).cut_for == 1


@pytest.mark.parametrize("protocol", [SIGNED, DIGITS])
def test_a_plan_file_brings_signed_decoys_back(protocol: Signed) -> None:
    assert protocol.form().model_validate(protocol.document()).build() == protocol


def test_signed_decoys_in_words() -> None:
    ending = (
        " in clear, among signed decoys of which every device sends a 1/100 share (their number "
        "tells nothing of the answer and much of the noise: whoever opens reports must not work "
        "with the analyzer)"
    )
    assert SIGNED.sentence() == "the answer is sent" + ending
    assert replace(SIGNED, steps=4).sentence() == "4 messages are sent" + ending
    rounded = "the number is rounded to 14 steps, and 4 + 2 messages are sent for its digits"
    assert DIGITS.sentence() == rounded + ending


@pytest.mark.parametrize(
    ("protocol", "question"),
    [
        (SIGNED, NUMBER),
        (replace(SIGNED, doubled=True), CHOICE),
        (DIGITS, Bit()),
        (DIGITS, Number(0, 1, quantiles=True)),
        (Encoded(QUARTER, 4, together=True), CHOICE),
        (Decoys(3, QUARTER), NUMBER),
    ],
)
def test_a_question_that_a_protocol_does_not_carry_is_refused(
    protocol: Protocol, question: Question
) -> None:
    with pytest.raises(InvalidInput):
        protocol.check(question)


def test_signed_decoys_carry_counts_and_sums() -> None:
    for question in (Bit(), CHOICE, Flags(["x", "y"])):
        SIGNED.check(question)
    DIGITS.check(NUMBER)
    assert (SIGNED.labels(Bit()), DIGITS.labels(NUMBER)) == (("yes",), ("total",))


def test_two_reports_have_the_noise_of_two() -> None:
    """Each of them has 100 pairs on average, and 0.67 messages more: 201 of noise."""
    loud = Signed(QUARTER, (Fraction(100),), 1, 4000)
    for reports in (1, 2, 3):
        sent = len(loud.encode_many(Bit(), np.ones(reports), SeededWords(reports)).codes)
        assert sent == pytest.approx(reports * 202, rel=0.4)


HALF = 1 << 63


def test_heights_are_rounded_by_a_word_each() -> None:
    """A word below the share of the next number rounds up; whole heights stay as they are."""
    heights = np.array([0.0, 1.5, 1.5, 2.25, 3.0])
    words = ListedWords([0, HALF - 1, HALF, HALF >> 1, 0])
    assert _round_heights(heights, words).tolist() == [0, 2, 1, 2, 3]
    shares = np.array([0.0, 0.375, 1.0, 1.0 + 1e-12, np.nextafter(0.25, 0.0)])
    found = round_by_chance(shares, 4, ListedWords([0, 0, 0, 0, (1 << 64) - 4096]))
    assert found.tolist() == [0, 2, 4, 4, 1]


def test_only_a_number_in_a_cross_is_moved_to_its_levels() -> None:
    cross = Cross({"group": Bit(), "spent": NUMBER}, levels=3)
    places = np.array([0.5, 4.5])
    assert settle_levels(cross, places, ListedWords([0, HALF])).tolist() == [1, 4]
    for question in (CHOICE, Cross({"group": Bit(), "other": Bit()})):
        assert settle_levels(question, places, ListedWords([])) is places


def seen(shape: str, share: str, digit: Digit) -> privacy.SignedDecoys:
    """Return the view of one digit if so large a share of the users is honest."""
    return privacy.SignedDecoys(
        question=shape,
        plus_ratio=digit.ratio,
        minus_ratio=digit.ratio,
        flood=digit.flood,
        steps=digit.steps,
        share=Fraction(share),
    )


def test_what_the_accountant_is_told_of_signed_decoys() -> None:
    """The share of honest users, a mechanism for each flag, and one for each digit."""
    one, first, second = SIGNED.digits[0], *DIGITS.digits
    assert SIGNED.mechanism(Bit(), 50) == seen("bit", "1/2", one)
    assert SIGNED.mechanism(CHOICE, 50) == seen("choice", "1/2", one)
    assert SIGNED.mechanism(Bit(), 100) == seen("bit", "1", one)
    # More of them than the noise was cut for: all that is proven is what holds for as many.
    assert SIGNED.mechanism(Bit(), 101) == seen("bit", "101/100", one)
    flags = SIGNED.mechanism(Flags(["x", "y", "z"]), 50)
    assert flags == privacy.compose(seen("bit", "1/2", one), times=3)
    both = [seen("number", "1/2", first), seen("number", "1/2", second)]
    assert DIGITS.mechanism(NUMBER, 50) == privacy.compose(both)
