"""Signed decoys on a device: every burst it could draw, with the exact chance of its table."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from chaffinch.encoding.bulk import encode_numbers
from chaffinch.encoding.device import encode_with
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Signed
from chaffinch.protocols.signed import Digit
from chaffinch.questions import Bit, Choice, Flags, Number, Question
from chaffinch.sampling import SCALE
from chaffinch.simulate import SeededWords
from chaffinch.wire.messages import EMPTY
from tests.encoding.test_transcripts import Scripted, plan_of
from tests.tiers import all_but

QUARTER, EIGHTH = Fraction(1, 4), Fraction(1, 8)
TINY = Signed(EIGHTH, (QUARTER, EIGHTH), 2, 3)
USERS = 2
CASES: dict[str, tuple[Question, Signed, list[object], list[tuple[int, ...]]]] = {
    "bit": (Bit(), TINY, [True, False], [(0,), (1,)]),
    "doubled": (Bit(), replace(TINY, room=4, doubled=True), [True, False], [(0,), (1,)]),
    "choice": (Choice(["a", "b"], missing="refuse"), TINY, ["a", "b"], [(0,), (2,)]),
    "number": (Number(0, 1), replace(TINY, steps=2), [0, 0.5, 1], [(1, 1), (0, 1), (0, 0)]),
    "digits": (
        Number(0, 1),
        replace(TINY, steps=1, finer=(Digit(QUARTER, (EIGHTH,), 2),)),
        [0, 0.4, 0.8, 1],
        [(1, 3, 3), (1, 2, 2), (0, 2, 3), (0, 2, 2)],
    ),
}
Row = tuple[int, ...]


# -------------------------------------------------------------------- the encoder and its table


def draws(protocol: Signed, values: int) -> Iterator[tuple[tuple[int, ...], list[int], Fraction]]:
    """Yield words for every way to draw up to two bursts, the codes they make, and the chance.

    Words of a table are taken from the middle of the cells of its outcomes.
    """
    table = protocol.burst_table(values)
    some = Fraction(table.any_burst, 1 << 64)
    counts, kinds = cells(table.number.weights), cells(table.kinds.weights)
    yield ((1 << 64) - 1,), [], 1 - some
    # What is left over in the table of numbers stands for no burst at all.
    yield (0, *pair(counts[-1][0])), [], some * counts[-1][1]
    for count in (1, 2):
        for chosen in product(range(len(kinds)), repeat=count):
            split = [pair(kinds[kind][0]) for kind in chosen]
            chance = some * counts[count][1] * math.prod(kinds[kind][1] for kind in chosen)
            for places in product(range(values), repeat=count):
                firsts, seconds = zip(*split, strict=True)
                # Two values: the lowest bit of a word.
                last = [(1 << 63) + place for place in places]
                noise = [
                    2 * (place + int(table.parts[kind, 0])) + sign
                    for place, kind in zip(places, chosen, strict=True)
                    for sign, times in enumerate(table.parts[kind, 1:])
                    for _ in range(times)
                ]
                kept = noise if len(noise) <= protocol.room else []
                words = (0, *pair(counts[count][0]), *firsts, *seconds, *last)
                yield words, kept, chance / values**count


def cells(weights: tuple[int, ...]) -> list[tuple[int, Fraction]]:
    """Return a number inside the cell of every outcome, and its chance; the rest comes last."""
    found, start = [], 0
    for weight in (*weights, SCALE - sum(weights)):
        found.append((start + weight // 2, Fraction(weight, SCALE)))
        start += weight
    return found


def pair(number: int) -> tuple[int, int]:
    return number >> 64, number & ((1 << 64) - 1)


@pytest.mark.parametrize("case", CASES)
def test_a_device_sends_its_answer_and_the_bursts_of_its_table(case: str) -> None:
    """Noise that does not fit is dropped whole, and the order tells nothing."""
    question, protocol, answers, codes = CASES[case]
    plan = plan_of(question, protocol)
    sizes: list[dict[int, Fraction]] = []
    for answer, own in zip(answers, codes, strict=True):
        size: defaultdict[int, Fraction] = defaultdict(Fraction)
        rounding = (0,) if question.shape == "number" else ()
        for words, noise, chance in draws(protocol, len(protocol.labels(question))):
            source = Scripted((*rounding, *words))
            sent = encode_with(answer, plan, source).codes
            assert not source.left
            empty = [EMPTY] * (plan.slots - len(own) - len(noise))
            assert list(sent) == sorted([*own, *noise]) + empty
            size[len(own) + len(noise)] += chance
        sizes.append(dict(size))
    assert all(size == sizes[0] for size in sizes), "the number of messages tells no answer"
    step = 2 if protocol.doubled else 1
    assert sorted(sizes[0]) == list(range(len(codes[0]), plan.slots + 1, step))


# -------------------------------------------------------------------- the table and the accountant


def table_law(protocol: Signed, values: int) -> dict[Row, float]:
    """Return the law of one report's noise as the table has it: pluses and minuses by value."""
    table = protocol.burst_table(values)
    some = table.any_burst / 2.0**64
    none = (0,) * (2 * values * len(protocol.digits))
    chances = [weight / 2.0**128 for weight in (*table.kinds.weights, 0)]
    chances[-1] = 1.0 - sum(chances)
    total: defaultdict[Row, float] = defaultdict(float)
    total[none] = 1.0 - some * sum(table.number.weights) / 2.0**128
    now = {none: 1.0}
    for weight in table.number.weights[1:]:
        if weight / 2.0**128 < 1e-17:
            break
        step: defaultdict[Row, float] = defaultdict(float)
        for row, mass in now.items():
            for (digit, plus, minus), chance in zip(table.parts, chances, strict=True):
                for place in range(values):
                    more, code = list(row), 2 * (place + int(digit))
                    more[code] += int(plus)
                    more[code + 1] += int(minus)
                    if sum(more) <= protocol.room:
                        step[tuple(more)] += mass * chance / values
        now = dict(step)
        for row, mass in now.items():
            total[row] += some * weight / 2.0**128 * mass
        # The rest did not fit.
        total[none] += some * weight / 2.0**128 * (1.0 - sum(now.values()))
    return dict(total)


def added(first: dict[Row, float], second: dict[Row, float]) -> dict[Row, float]:
    found: defaultdict[Row, float] = defaultdict(float)
    for (row, mass), (more, chance) in product(first.items(), second.items()):
        found[tuple(a + b for a, b in zip(row, more, strict=True))] += mass * chance
    return found


def leak(noise: dict[Row, float], one: Row, other: Row, growth: float) -> float:
    """Return how far what is seen with one answer exceeds what is seen with another."""
    views = [added(noise, {answer: 1.0}) for answer in (one, other)]
    return sum(max(mass - growth * views[1].get(row, 0.0), 0.0) for row, mass in views[0].items())


BIT = Signed(Fraction(1, 2), (Fraction(3, 2), Fraction(1, 2)), USERS, 26)
DOUBLED = replace(BIT, ratio=QUARTER, doubled=True)
CHOICE = Signed(EIGHTH, (Fraction(1, 2),), USERS, 8)
DIGITS = Signed(EIGHTH, (QUARTER,), USERS, 9, 1, (Digit(Fraction(3, 16), (EIGHTH,), 1),))
VIEWS: dict[str, tuple[Question, Signed, list[tuple[Row, Row]]]] = {
    "bit": (Bit(), BIT, [((1, 0), (0, 1))]),
    "doubled": (Bit(), DOUBLED, [((1, 0), (0, 1))]),
    "number": (Number(0, 1), replace(BIT, steps=2), [((2, 0), (0, 2)), ((1, 1), (0, 2))]),
    "digits": (
        Number(0, 1),
        DIGITS,
        [((1, 0, 1, 0), (0, 1, 0, 1)), ((1, 0, 0, 1), (0, 1, 1, 0)), ((1, 0, 0, 1), (0, 1, 0, 1))],
    ),
    "choice": (
        Choice(["a", "b"], missing="refuse"),
        CHOICE,
        [((1, 0, 0, 0), (0, 0, 1, 0))],
    ),
}


@pytest.mark.parametrize("case", all_but(VIEWS, "digits"))
def test_what_all_devices_show_is_what_the_accountant_says(case: str) -> None:
    question, protocol, moves = VIEWS[case]
    one = table_law(protocol, len(protocol.labels(question)))
    assert sum(one.values()) == pytest.approx(1, abs=1e-12)
    noise = added(one, one)
    mechanism = protocol.mechanism(question, USERS)
    for growth in (1.25, 2.0):
        seen = max(leak(noise, *pair, growth) for move in moves for pair in (move, move[::-1]))
        bracket = mechanism.delta(math.log(growth))
        # What the view of a plan is charged for noise that was cut.
        room = (1 + growth) * USERS * protocol.overflow(question)
        assert bracket.lower - room <= seen <= bracket.upper + room
        assert room < 0.01 * seen


def test_a_flood_or_a_ratio_off_by_a_tenth_would_be_noticed() -> None:
    question, claimed = Bit(), BIT.mechanism(Bit(), USERS).delta(math.log(2.0))
    room = 3 * USERS * BIT.overflow(question)
    for wrong in (
        replace(BIT, flood=tuple(rate * Fraction(7, 8) for rate in BIT.flood)),
        replace(BIT, ratio=Fraction(7, 16)),
        replace(BIT, cut_for=3),
    ):
        one = table_law(wrong, 1)
        assert leak(added(one, one), (1, 0), (0, 1), 2.0) > claimed.upper + room


def test_pairs_must_not_come_in_twos_as_the_noise_of_the_count_does() -> None:
    """Then the parity of the smaller sign would show who is ahead because of the answer."""
    even = replace(DOUBLED, flood=(Fraction(0), Fraction(1)))
    one = table_law(even, 1)
    claimed, room = even.mechanism(Bit(), USERS).delta(8.0), 3 * USERS * even.overflow(Bit())
    assert leak(added(one, one), (1, 0), (0, 1), math.exp(8.0)) > 1 - 1e3 * room
    assert claimed.upper == pytest.approx(1)


# -------------------------------------------------------------------- tables and charges


def ideal(protocol: Signed, size: int) -> list[mpmath.mpf]:
    """Return the chances of 0, 1, … messages of noise for one value, to many digits."""
    share = mpmath.mpf(1) / protocol.cut_for
    steps, unit = [mpmath.mpf(0)] * (size - 1), 2 if protocol.doubled else 1
    for k in range(unit, size, unit):
        power = mpmath.mpf(protocol.ratio.numerator) / protocol.ratio.denominator
        steps[k - 1] = 2 * unit * power ** (k // unit)
    for k, rate in enumerate(protocol.flood, start=1):
        if 2 * k < size:
            steps[2 * k - 1] += 2 * k * mpmath.mpf(rate.numerator) / rate.denominator
    flood = sum(mpmath.mpf(rate.numerator) / rate.denominator for rate in protocol.flood)
    ratio = mpmath.mpf(protocol.ratio.numerator) / protocol.ratio.denominator
    mass = [mpmath.exp(share * (2 * mpmath.log(1 - ratio) - flood))]
    for place in range(1, size):
        terms = (share * steps[k - 1] * mass[place - k] for k in range(1, place + 1))
        mass.append(mpmath.fsum(terms) / place)
    return mass


@pytest.mark.parametrize(
    "protocol",
    [
        TINY,
        Signed(Fraction(3, 4), (QUARTER,) * 8, 1000, 40),
        Signed(QUARTER, (), 10**9, 9),
        Signed(QUARTER, (QUARTER, EIGHTH), 1000, 13, doubled=True),
    ],
)
def test_the_charge_covers_what_does_not_fit_and_little_more(protocol: Signed) -> None:
    with mpmath.workdps(60):
        over = 1 - mpmath.fsum(ideal(protocol, protocol.room + 1))
        charged = protocol.overflow(Bit())
        assert over <= charged <= 1.25 * over


def test_the_table_of_a_device_is_the_law_but_for_the_last_bits() -> None:
    protocol = Signed(QUARTER, (Fraction(3, 4), QUARTER), 1000, 30)
    table = protocol.burst_table(1)
    with mpmath.workdps(60):
        total = -2 * mpmath.log(mpmath.mpf(3) / 4) + 1
        mean = total / 1000
        unit = mpmath.mpf(2) ** -128
        some = mpmath.mpf(table.any_burst) / 2**64
        assert 0 <= some - (1 - mpmath.exp(-mean)) <= mpmath.mpf(2) ** -64
        for count, weight in enumerate(table.number.weights[1:], start=1):
            exact = mpmath.exp(-mean) * mean**count / mpmath.factorial(count) / some
            assert 0 <= exact - weight * unit <= 2 * unit
        for weight, (_, plus, minus) in zip(table.kinds.weights, table.parts, strict=False):
            size = int(max(plus, minus))
            rate = protocol.flood[size - 1] if plus == minus else QUARTER**size / size
            exact = mpmath.mpf(rate.numerator) / rate.denominator / total
            assert 0 <= exact - weight * unit <= 2 * unit
    assert table.number.weights[0] == 0
    assert sum(table.kinds.weights) < SCALE


def test_one_report_in_a_billion_users_is_rounded_by_next_to_nothing() -> None:
    protocol = Signed(Fraction(1, 2), (Fraction(1, 2),) * 16, 10**9, 60)
    table = protocol.burst_table(1)
    assert 10**9 * table.rounding < 1e-26


# -------------------------------------------------------------------- many at once, and words


def plan_for(users: int, question: Question, protocol: Signed) -> Plan:
    plan = plan_of(question, protocol)
    return Plan("", plan.parts, users, users, users, 1, 1.0, 0.5)


QUESTIONS: dict[str, tuple[Question, Signed, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]] = {
    "bit": (Bit(), TINY, np.array([0, 1, 1])),
    "choice": (Choice(["a", "b", "c"], missing="refuse"), TINY, np.array([2, 1, 1])),
    "flags": (Flags(["x", "y"]), TINY, np.array([[0, 1], [1, 1], [0, 0]])),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_many_reports_show_their_counts_only(name: str) -> None:
    question, protocol, answers = QUESTIONS[name]
    plan = plan_for(3, question, protocol)
    longer = 0
    for seed in range(60):
        messages = encode_numbers(plan, [answers], 3, SeededWords(seed)).messages
        assert np.array_equal(messages, np.sort(messages))
        longer += len(messages) > 3 * protocol.answer_messages(question)
    assert longer > 10


def test_answers_without_noise() -> None:
    """Cut for so many that nobody sends any: what is left is the answer, always as long."""
    quiet = Signed(QUARTER, (QUARTER,), 10**9, 5)
    words = SeededWords(1)
    flags = Flags(["x", "y", "z"])
    assert [quiet.encode_one(Bit(), answer, words).tolist() for answer in (1, 0)] == [[0], [1]]
    assert quiet.encode_one(Choice(["a", "b"], missing="count"), 1, words).tolist() == [2]
    assert quiet.encode_one(flags, np.array([0, 2]), words).tolist() == [0, 3, 4]
    many = quiet.encode_many(flags, np.array([[1, 0, 1]]), words).codes
    assert many.tolist() == [0, 3, 4]
    number = Signed(QUARTER, (QUARTER,), 10**9, 5, 4)
    for share, pluses in ((0.0, 0), (0.5, 2), (1.0, 4), (math.nextafter(1.0, 0.0), 4)):
        expected = [0] * pluses + [1] * (4 - pluses)
        assert number.encode_one(Number(0, 1), np.asarray(share), words).tolist() == expected
        assert number.encode_many(Number(0, 1), np.array([share]), words).codes.tolist() == expected
    # Two digits of 4 and 2 steps: 15 values, 0 to 14; the second is 9 = 3·3 + 0.
    finer = replace(number, finer=(Digit(QUARTER, (QUARTER,), 2),))
    for share, expected in (
        (0.0, [1] * 4 + [3] * 2),
        (9 / 14, [0] * 3 + [1] + [3] * 2),
        (1.0, [0] * 4 + [2] * 2),
    ):
        assert finer.encode_one(Number(0, 1), np.asarray(share), words).tolist() == expected
        assert finer.encode_many(Number(0, 1), np.array([share]), words).codes.tolist() == expected


def test_a_plan_file_has_the_parameters_and_nothing_else() -> None:
    before = TINY.document()
    TINY.encode_one(Bit(), 1, SeededWords(1))
    assert TINY.document() == before
    assert set(before) == {"kind", "ratio", "flood", "cut_for", "room"}


def test_what_is_not_sealed_is_padding() -> None:
    """Where the number of messages follows the noise, empty slots cost no public-key work."""
    question = Choice(["a", "b"], missing="refuse")
    wide = Signed(QUARTER, (QUARTER,), 1000, 40)
    assert (wide.report_slots(question), wide.sealed_messages(question)) == (41, 2)
    decoys = Decoys(4, QUARTER)
    assert (decoys.report_slots(question), decoys.sealed_messages(question)) == (5, 2)
