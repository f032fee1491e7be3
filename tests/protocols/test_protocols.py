"""What each protocol says of itself: slots, messages, errors, strengths, limits, words."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from chaffinch import privacy, protocols
from chaffinch.errors import InvalidInput
from chaffinch.protocols import (
    Decoys,
    Encoded,
    FlippedDecoys,
    Flips,
    Protocol,
    every_protocol,
    local_variant,
    protocol_variants,
)
from chaffinch.protocols.base import (
    GRAIN,
    Setting,
    answer_labels,
    cut_chance,
    number_question,
    numerator,
)
from chaffinch.protocols.flipped_records import PACKED_ABOVE, fewest_slots, flip_values, overflow
from chaffinch.protocols.registry import named_variants, row_name, variant_names
from chaffinch.questions import Bit, Choice, Flags, Number, Question
from tests.cases import each_case
from tests.encoding import test_transcripts as transcripts
from tests.encoding.test_order import Seeded

QUARTER, EIGHTH, LEAST = Fraction(1, 4), Fraction(1, 8), Fraction(1, GRAIN)
BIT, CHOICE, FLAGS, NUMBER = (
    Bit(),
    Choice(["a", "b"], missing="count"),
    Flags(["x", "y", "z"]),
    Number(10, 20),
)
QUANTILES = Number(10, 20, quantiles=True)
VALUES = len(CHOICE.labels)


# -------------------------------------------------------------------- what is sent


@pytest.mark.parametrize("case", [name for name in transcripts.CASES if name != "flipped decoys"])
def test_the_fullest_answer_sends_so_many_messages_on_average(case: str) -> None:
    question, protocol, answers, alphabet, _ = transcripts.CASES[case]
    plan = transcripts.plan_of(question, protocol)
    means = []
    for answer in answers:
        law = transcripts.report_law(plan, answer, alphabet)
        assert max(map(sum, law)) <= protocol.report_slots(question) == plan.slots
        means.append(sum(sum(seen) * mass for seen, mass in law.items()))
    assert protocol.expected_messages(question) == float(max(means))


def test_flipped_decoys_send_so_many_messages_on_average() -> None:
    # Three records of three bits: one set, which stays with 7/8, and two others.
    protocol = FlippedDecoys(EIGHTH, 2, 5)
    assert protocol.records == 3
    assert protocol.expected_messages(CHOICE) == 3 * (7 / 8 + 2 / 8)
    assert protocol.report_slots(CHOICE) == 3 * 3
    assert replace(protocol, slots=2).report_slots(CHOICE) == 3 * 2


@each_case(
    ("protocol", "question", "slots"),
    [
        (Flips(QUARTER), BIT, 1),
        (Flips(QUARTER, 3), BIT, 3),
        (Flips(QUARTER, 2), FLAGS, 6),
        (Flips(QUARTER, 1, 2), CHOICE, 2),
        (Flips(QUARTER, 1, 9), CHOICE, 3),
        (Decoys(4, QUARTER), CHOICE, 5),
        (Encoded(QUARTER, 7, together=True), NUMBER, 7),
    ],
)
def test_a_report_has_so_many_slots(protocol: Protocol, question: Question, slots: int) -> None:
    assert protocol.report_slots(question) == slots


def test_codes_have_names() -> None:
    assert Flips(QUARTER).labels(BIT) == ("yes",)
    assert Decoys(1, QUARTER).labels(BIT) == ("no", "yes")
    assert Flips(QUARTER).labels(FLAGS) == ("x", "y", "z")
    assert Encoded(QUARTER, 4, together=True).labels(NUMBER) == ("total",)
    assert Encoded(QUARTER, 4, together=False).labels(NUMBER) == ("10", "12.5", "15", "17.5")


def test_every_way_has_a_name_also_one_in_clear_or_by_wish_alone() -> None:
    names = variant_names(Number(0, 10))
    assert {name.partition(",")[0] for name in names} >= {"number in 8 bits", "signed decoys"}


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("number in 8 bits, total seen", "8 bits, total"),
        ("flips, 4 copies", "flips, 4 copies"),
        ("number in 2 bits; flips", "2 bits; flips"),
    ],
)
def test_tables_print_names_without_what_is_clear(name: str, printed: str) -> None:
    assert row_name(name) == printed


def test_the_room_has_the_names_that_it_says_and_no_other() -> None:
    assert protocols.Flips is Flips
    with pytest.raises(AttributeError, match="no attribute 'Flops'"):
        _ = protocols.Flops


def test_ways_are_asked_for_one_by_one_or_by_their_protocol() -> None:
    question = Choice(["a", "b", "c"])
    names = variant_names(question)
    signed = [name for name in names if name.startswith("signed decoys")]
    assert len(signed) > 2
    assert [one.name for one in named_variants(question, 64, "signed decoys")] == signed
    assert [one.name for one in named_variants(question, 64, "signed-decoys")] == signed
    assert [one.name for one in named_variants(question, 64, signed[1])] == signed[1:2]
    assert named_variants(question, 64, "") == []
    assert named_variants(question, 64, "signed") == []


def test_only_reports_with_few_slots_run_out_of_them() -> None:
    assert Flips(QUARTER).overflow(BIT) == 0.0
    assert Flips(LEAST, 1, 3).overflow(CHOICE) == 0.0
    assert 0 < Flips(LEAST, 1, 2).overflow(CHOICE) < 1e-18
    assert 0 < FlippedDecoys(LEAST, 1, 2).overflow(CHOICE) < 1e-18
    assert Decoys(1, QUARTER).overflow(CHOICE) == 0.0
    assert Decoys(1, QUARTER).records == Flips(QUARTER).records == 1


@pytest.mark.parametrize(
    ("flip", "bits", "packed"),
    [
        (PACKED_ABOVE, 64, False),
        (PACKED_ABOVE + LEAST, 64, True),
        (PACKED_ABOVE + LEAST, 63, False),
        (QUARTER, 65, True),
    ],
)
def test_full_records_leave_as_rows(flip: Fraction, bits: int, packed: bool) -> None:  # noqa: FBT001
    coded = flip_values(np.array([1, 2]), bits, flip, bits, Seeded(0))
    assert (coded.rows is not None) == packed
    if coded.rows is not None:
        assert (coded.rows.first, coded.rows.bits, len(coded.rows.packed)) == (0, bits, 2)
        assert len(coded.codes) == 0


def test_the_largest_and_smallest_numbers_set_all_bits_and_none() -> None:
    for together in (True, False):
        protocol = Encoded(LEAST, 4, together=together)
        for share, ones in ((0.0, 0), (0.5, 2), (1.0, 4), (math.nextafter(1.0, 0.0), 4)):
            codes = np.zeros(ones) if together else np.arange(ones)
            assert protocol.encode_one(NUMBER, share, Seeded(1)).tolist() == codes.tolist()
            many = protocol.encode_many(NUMBER, np.array([share] * 2), Seeded(1)).codes
            assert many.tolist() == codes.tolist() * 2


class Given(Seeded):
    """Words of which the first are given."""

    def __init__(self, *first: int) -> None:
        super().__init__(0)
        self.first = list(first)

    def take(self, count: int) -> NDArray[np.uint64]:
        words = super().take(count)
        given, self.first = self.first[:count], self.first[count:]
        words[: len(given)] = given
        return words


@pytest.mark.parametrize(("word", "ones"), [(2**62 - 1, 1), (2**62, 0)])
def test_one_more_bit_is_set_with_exactly_the_chance_that_is_left(word: int, ones: int) -> None:
    protocol = Encoded(LEAST, 1, together=True)
    assert len(protocol.encode_one(NUMBER, 0.25, Given(word))) == ones
    assert len(protocol.encode_many(NUMBER, np.array([0.25]), Given(word)).codes) == ones


def test_numbers_take_a_word_for_rounding_and_one_for_each_bit() -> None:
    plan = transcripts.plan_of(NUMBER, Encoded(QUARTER, 5, together=True))
    assert transcripts.words_needed(plan, 12.0) == 1 + 5


def test_copies_of_flags_keep_their_places() -> None:
    """Without flips: two copies of the second of three flags, and of the first and the last."""
    protocol, answers = Flips(LEAST, 2), np.array([[0, 1, 0], [1, 0, 1]])
    assert protocol.encode_many(FLAGS, answers, Seeded(0)).codes.tolist() == [1, 1, 0, 2, 0, 2]
    assert protocol.encode_one(FLAGS, [0, 2], Seeded(0)).tolist() == [0, 2, 0, 2]
    two = Flags(["x", "y"])
    assert Flips(LEAST).encode_many(two, np.array([[0, 1]]), Seeded(0)).codes.tolist() == [1]


@pytest.mark.parametrize("answer", [0, 1, 2])
def test_flipped_decoys_send_the_answer_and_flip_each_bit_of_it(answer: int) -> None:
    protocol = FlippedDecoys(QUARTER, 1, 3)
    # Words: the decoy (whose value is 0), then a word for each bit of both records. A word
    # below a quarter flips its bit.
    keep, flip = 2**64 - 1, 0
    for flipped in product([False, True], repeat=6):
        words = Given(0, *(flip if each else keep for each in flipped))
        record = [(value == answer) != flipped[value] for value in range(3)]
        decoy = [(value == 0) != flipped[3 + value] for value in range(3)]
        expected = [*np.flatnonzero(record).tolist(), *np.flatnonzero(decoy).tolist()]
        assert protocol.encode_one(CHOICE, answer, words).tolist() == expected


# -------------------------------------------------------------------- what it is worth


def test_a_mechanism_has_the_parameters_of_the_protocol() -> None:
    assert Flips(QUARTER, 2).mechanism(BIT, 9) == privacy.FlippedBits(
        users=9, flip_probability=QUARTER, copies=2
    )
    assert Flips(QUARTER, 2).mechanism(FLAGS, 9) == privacy.compose(
        privacy.FlippedBits(users=9, flip_probability=QUARTER, copies=2), times=3
    )
    assert Flips(QUARTER, 1, 3).mechanism(CHOICE, 9) == privacy.FlippedValues(
        users=9, values=VALUES, flip_probability=QUARTER
    )
    assert Decoys(2, QUARTER).mechanism(CHOICE, 9) == privacy.DecoyedValues(
        values=VALUES, users=18, decoy_rate=QUARTER
    )
    assert FlippedDecoys(QUARTER, 2, 3).mechanism(CHOICE, 9) == privacy.FlippedValues(
        users=9, decoys=18, values=VALUES, flip_probability=QUARTER
    )
    for together, slots in ((True, "together"), (False, "separate")):
        assert Encoded(QUARTER, 4, together=together).mechanism(
            NUMBER, 9
        ) == privacy.EncodedNumbers(
            users=9,
            resolution=4,
            flip_probability=QUARTER,
            slots=slots,
        )


def test_noise_has_the_parameters_of_the_protocol() -> None:
    flips = Flips(QUARTER, 3).noise(BIT)
    assert (flips.copies, flips.hit, flips.miss, flips.cover_slots) == (3, 1 - QUARTER, QUARTER, 0)
    decoys = Decoys(5, QUARTER).noise(CHOICE)
    assert (decoys.values, decoys.slots, decoys.rate) == (3, 5, QUARTER)
    both = FlippedDecoys(QUARTER, 5, 3).noise(CHOICE)
    assert both.copies == 1
    assert (both.hit, both.miss, both.cover_slots) == (1 - QUARTER, QUARTER, 5)
    assert both.cover == (1 - QUARTER) / 3 + QUARTER * 2 / 3
    assert Encoded(QUARTER, 4, together=True).noise(NUMBER).copies == 4
    assert Encoded(QUARTER, 4, together=False).noise(NUMBER).copies == 1


@pytest.mark.parametrize("bits", [1, 4])
def test_the_error_of_a_number_is_that_of_flips_and_of_rounding(bits: int) -> None:
    reports, flip = 100, 0.25
    flips = reports * flip * (1 - flip) / (1 - 2 * flip) ** 2 / bits
    rounding = reports / (4 * bits**2)
    found = Encoded(QUARTER, bits, together=True).standard_error(NUMBER, reports)
    assert found == pytest.approx(math.sqrt(flips + rounding))


def test_errors_are_those_of_the_noise() -> None:
    protocol = Decoys(5, QUARTER)
    assert protocol.standard_error(CHOICE, 7) == protocol.noise(CHOICE).standard_error(7)


# -------------------------------------------------------------------- cutting


@pytest.mark.parametrize("positions", [3, 50])
@pytest.mark.parametrize("flip", [Fraction(1, 1000), QUARTER])
def test_the_bound_on_overflow_is_the_one_of_chernoff(positions: int, flip: Fraction) -> None:
    zeros, q = positions - 1, float(flip)
    for slots in range(1, positions + 2):
        found = overflow(positions, flip, slots)
        if slots >= positions:
            assert found == 0.0
        elif slots <= zeros * q:
            assert found == 1.0
        else:
            share = slots / zeros
            rest = (1 - share) * math.log((1 - share) / (1 - q)) if share < 1 else 0.0
            true = math.exp(-zeros * (share * math.log(share / q) + rest))
            assert true <= found <= min(true * (1 + 1e-6), 1.0)


def test_as_many_slots_as_are_set_on_average_overflow_for_sure() -> None:
    assert overflow(5, QUARTER, 1) == 1.0
    # Next to the average the bound is 1 and its margin for rounding must not show.
    assert overflow(10**6 + 1, QUARTER - Fraction(1, 10**12), 250_000) == 1.0


def test_the_chance_of_a_cut_is_rounded_up_to_three_digits() -> None:
    assert cut_chance(0.0, 10**6) == 0
    for chance, records in ((1e-12, 7), (1.2345e-9, 1), (0.000999, 999), (3e-200, 10**9)):
        true, found = Fraction(chance) * records, cut_chance(chance, records)
        assert true <= found <= true * Fraction(1011, 1000)
        digits = f"{float(found):e}".split("e")[0].rstrip("0").replace(".", "")
        assert len(digits) <= 3
    assert cut_chance(0.6, 2) == cut_chance(1.0, 1) == cut_chance(1.0, 5) == 1


def test_the_fewest_slots_are_those_that_just_keep_within_delta() -> None:
    arguments = {"records": 1000, "epsilon": 1.0}
    flip = Fraction(1, 100)
    found = fewest_slots(50, flip, **arguments, allowed=1e-9)  # type: ignore[arg-type]
    assert 1 < found < 50
    assert fewest_slots(50, flip, **arguments, allowed=1e-6) < found  # type: ignore[arg-type]
    assert fewest_slots(50, flip, **arguments, allowed=0.0) == 50  # type: ignore[arg-type]
    assert fewest_slots(50, flip, **arguments, allowed=1.0) == 1  # type: ignore[arg-type]


# -------------------------------------------------------------------- strengths


SETTING = Setting(BIT, crowd=1000, epsilon=1.0, cutting=1e-9, delta=1e-6)


def shift(flip: Fraction, crowd: int, moved: float) -> float:
    """Return mu of so many flipped bits: by how many deviations one person moves a tally."""
    q = float(flip)
    return (1 - 2 * q) * math.sqrt(moved / (crowd * q * (1 - q)))


@pytest.mark.parametrize("mu", [0.05, 0.3])
def test_variants_have_the_strength_that_is_asked_for(mu: float) -> None:
    for question, moved in ((BIT, 1.0), (FLAGS, 3.0)):
        for variant in Flips.variants(question, 100):
            made = variant.make(replace(SETTING, question=question), mu)
            assert isinstance(made, Flips)
            assert made.name == variant.name
            moves = made.copies * moved
            assert shift(made.flip_probability, 1000, moves) == pytest.approx(mu, rel=1e-6)
    setting = replace(SETTING, question=CHOICE)
    (variant,) = Flips.variants(CHOICE, 1)
    single = variant.make(setting, mu)
    assert isinstance(single, Flips)
    assert (single.name, single.copies) == (variant.name, 1)
    assert shift(single.flip_probability, 1000, 2.0) == pytest.approx(mu, rel=1e-6)
    (variant,) = FlippedDecoys.variants(CHOICE, 1)
    both = variant.make(setting, mu)
    assert isinstance(both, FlippedDecoys)
    assert (both.name, both.decoys) == (variant.name, 1)
    assert shift(both.flip_probability, 2000, 2.0) == pytest.approx(mu, rel=1e-6)
    for variant in Encoded.variants(NUMBER, 64):
        number = variant.make(replace(SETTING, question=NUMBER), mu)
        assert isinstance(number, Encoded)
        assert number.name == variant.name
        assert number.together
        moves = number.resolution
        assert shift(number.flip_probability, 1000, moves) == pytest.approx(mu, rel=1e-6)


@pytest.mark.parametrize("mu", [0.01, 0.05, 0.3])
def test_decoys_have_the_strength_that_is_asked_for(mu: float) -> None:
    (variant,) = Decoys.variants(CHOICE, 1)
    made = variant.make(replace(SETTING, question=CHOICE), mu)
    assert isinstance(made, Decoys)
    assert made.name == variant.name
    decoys = made.decoy_slots * made.decoy_rate
    assert float(decoys) * 1000 == pytest.approx(2 * VALUES / mu**2, rel=1e-9)
    # As few slots as will do: one less could not hold them.
    assert made.decoy_slots == 1 or made.decoy_slots - 1 < decoys


def test_extreme_strengths_stay_drawable() -> None:
    setting = replace(SETTING, question=CHOICE)
    (variant,) = Decoys.variants(CHOICE, 1)
    assert variant.make(setting, 1e12) == Decoys(1, LEAST)
    # 11.07 grains are rounded up, to the private side.
    assert variant.make(setting, 1e8) == Decoys(1, 12 * LEAST)
    (variant, *_) = Flips.variants(BIT, 1)
    assert variant.make(SETTING, 1e300) == Flips(LEAST)
    assert variant.make(SETTING, 1e-300) == Flips(Fraction(GRAIN // 2 - 1, GRAIN))


@pytest.mark.parametrize(
    ("question", "moved"), [(BIT, 1), (FLAGS, 3), (CHOICE, 2), (NUMBER, 1), (QUANTILES, 8)]
)
def test_the_local_baseline_needs_no_shuffler(question: Question, moved: int) -> None:
    variant = local_variant(question)
    assert variant.name == "local"
    made = variant.make(replace(SETTING, question=question), 2.0)
    flip = made.flip_probability  # type: ignore[attr-defined]
    each = math.log((1 - float(flip)) / float(flip))
    assert each * moved == pytest.approx(2.0, rel=1e-9)
    assert each * moved <= 2.0
    assert made.mechanism(question, 1).local_epsilon <= 2.0 * (1 + 1e-9)
    if isinstance(made, Encoded):
        assert (made.resolution, made.together) == (moved, moved == 1)
    made.check(question)


def test_variants_stay_within_the_messages() -> None:
    def names(question: Question, most: int) -> list[str]:
        return [variant.name for variant in protocol_variants(question, most)]

    assert names(BIT, 1) == ["flips"]
    assert names(BIT, 4) == ["flips", "flips, 2 copies", "flips, 4 copies"]
    assert names(BIT, 5) == names(BIT, 4)
    assert names(FLAGS, 6) == ["flips", "flips, 2 copies"]
    assert names(CHOICE, 100) == ["flips", "flips with decoys"]
    clear = protocol_variants(BIT, 1, clear=True)
    assert [one.name for one in clear[:2]] == ["flips", "clear with decoys"]
    assert all(one.name.startswith("signed decoys") for one in clear[2:])
    assert names(NUMBER, 2) == [
        "number in 1 bits, total seen",
        "number in 2 bits, total seen",
    ]
    assert names(QUANTILES, 1) == ["number in 8 bits, steps seen"]
    assert names(QUANTILES, 16) == ["number in 8 bits, steps seen", "number in 16 bits, steps seen"]


# -------------------------------------------------------------------- limits and words


@each_case(
    ("kind", "arguments"),
    [
        (Flips, (Fraction(1, 2),)),
        (Flips, (QUARTER, 0)),
        (Flips, (QUARTER, 10_001)),
        (Flips, (QUARTER, 1, 0)),
        (Flips, (QUARTER, 1, 10**6 + 1)),
        (Decoys, (0, QUARTER)),
        (Decoys, (10**6 + 1, QUARTER)),
        (Decoys, (1, Fraction(GRAIN + 1, GRAIN))),
        (Decoys, (1, Fraction(1, 3))),
        (FlippedDecoys, (Fraction(1, 2), 1, 1)),
        (FlippedDecoys, (QUARTER, 0, 1)),
        (FlippedDecoys, (QUARTER, 1_001, 1)),
        (FlippedDecoys, (QUARTER, 1, 0)),
        (FlippedDecoys, (QUARTER, 1, 10**6 + 1)),
        (Encoded, (Fraction(1, 2), 1, True)),
        (Encoded, (QUARTER, 0, True)),
        (Encoded, (QUARTER, 1_001, True)),
        (Encoded, (QUARTER, 1, 1)),
    ],
)
def test_parameters_beyond_their_limits_are_refused(
    kind: type[Protocol], arguments: tuple[object, ...]
) -> None:
    with pytest.raises(InvalidInput):
        kind(*arguments)


@each_case(
    "protocol",
    [
        Flips(QUARTER, 10_000),
        Flips(QUARTER, 1, 10**6),
        Decoys(10**6, Fraction(1)),
        FlippedDecoys(QUARTER, 1_000, 10**6),
        Encoded(QUARTER, 1_000, together=True),
        Flips(Fraction(GRAIN // 2 - 1, GRAIN), 1, 1),
        FlippedDecoys(Fraction(GRAIN // 2 - 1, GRAIN), 1, 1),
        Encoded(Fraction(GRAIN // 2 - 1, GRAIN), 1, together=False),
    ],
)
def test_parameters_at_their_limits_are_allowed(protocol: Protocol) -> None:
    document = protocol.document()
    assert document["kind"] == protocol.kind
    assert protocol.form().model_validate(document).build() == protocol


@each_case(
    ("protocol", "question"),
    [
        (Flips(QUARTER), NUMBER),
        (Flips(QUARTER), CHOICE),
        (Flips(QUARTER, 1, 2), BIT),
        (Flips(QUARTER, 2, 2), CHOICE),
        (Decoys(1, QUARTER), FLAGS),
        (FlippedDecoys(QUARTER, 1, 2), BIT),
        (Encoded(QUARTER, 1, together=True), BIT),
        (Encoded(QUARTER, 8, together=True), QUANTILES),
    ],
)
def test_questions_that_a_protocol_cannot_carry_are_refused(
    protocol: Protocol, question: Question
) -> None:
    with pytest.raises(InvalidInput):
        protocol.check(question)


def test_only_numbers_are_numbers() -> None:
    number = Encoded(QUARTER, 1, together=True)
    assert number.thermometer.resolution == 1
    assert number_question(NUMBER) is NUMBER
    with pytest.raises(InvalidInput, match="for numbers"):
        _ = Flips(QUARTER).thermometer
    with pytest.raises(InvalidInput, match="a Number"):
        number_question(BIT)
    with pytest.raises(InvalidInput, match="named answers"):
        answer_labels(NUMBER)


def test_a_chance_is_a_whole_number_of_grains() -> None:
    assert [numerator(chance) for chance in (Fraction(0), LEAST, QUARTER, Fraction(1))] == [
        0,
        1,
        1 << 62,
        1 << 64,
    ]


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (Flips(QUARTER), "each bit of the answer is flipped with probability 0.25"),
        (
            Flips(QUARTER, 2),
            "each bit of the answer is flipped with probability 0.25, 2 times over",
        ),
        (Decoys(6, QUARTER), "the answer is sent in clear with 1.5 decoys on average"),
        (
            FlippedDecoys(QUARTER, 1, 2),
            "the answer and 1 decoy are sent, each bit flipped with probability 0.25",
        ),
        (
            Encoded(QUARTER, 4, together=True),
            "the number becomes 4 bits, each flipped with probability 0.25",
        ),
    ],
)
def test_what_a_device_does_in_words(protocol: Protocol, words: str) -> None:
    assert protocol.sentence() == words


def test_every_protocol_is_listed_once() -> None:
    assert len({protocol.kind for protocol in every_protocol()}) == len(every_protocol()) == 7
