"""The order of messages says nothing that their counts do not: least of all which is the answer."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from chaffinch.encoding.bulk import encode_numbers
from chaffinch.encoding.device import encode_with
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, FlippedDecoys, Flips, Protocol
from chaffinch.questions import Bit, Choice
from chaffinch.wire.messages import EMPTY
from tests.cases import each_case
from tests.encoding import test_transcripts as transcripts
from tests.encoding.test_transcripts import QUARTER, Scripted
from tests.engines import plans
from tests.tiers import nightly

VALUES = Choice([f"v{i}" for i in range(5)], missing="refuse")
CHOICES: dict[str, Protocol] = {
    "flips": Flips(QUARTER, 1, 5),
    "decoys": Decoys(3, Fraction(1, 2)),
    "flipped decoys": FlippedDecoys(QUARTER, 2, 5),
}


class Seeded:
    """Words that a seed gives: no test by chance."""

    def __init__(self, seed: int) -> None:
        self.source = np.random.default_rng(seed)

    def take(self, count: int) -> NDArray[np.uint64]:
        return self.source.integers(2**64, size=count, dtype=np.uint64)


def in_order(codes: tuple[int, ...]) -> tuple[int, ...]:
    """Return codes as any report with the same counts has them: sorted, empty slots last."""
    return tuple(sorted(codes))  # The empty code is the largest.


@each_case("most", [1024, nightly(4096)])
@each_case("case", transcripts.CASES)
def test_a_report_shows_its_counts_only(case: str, most: int) -> None:
    """Whatever random words it draws, two reports with the same counts are the same."""
    question, protocol, answers, alphabet, _ = transcripts.CASES[case]
    plan = transcripts.plan_of(question, protocol)
    for answer in answers:
        needed = transcripts.words_needed(plan, answer)
        # All of them, or of very many every so-many-th; odd, so that every word takes part.
        step = len(alphabet) ** needed // most | 1
        for words in islice(product(alphabet, repeat=needed), None, None, step):
            codes = encode_with(answer, plan, Scripted(words)).codes
            assert codes == in_order(codes)


def test_a_report_on_several_questions_shows_its_counts_only() -> None:
    plan = plans.plan_of(
        ("tea", Bit(), Decoys(1, Fraction(1, 2))),
        ("value", VALUES, Decoys(2, Fraction(1, 2))),
        users=1,
    )
    seen = set()
    for seed in range(200):
        for tea, value in product([True, False], VALUES.values):
            codes = encode_with({"tea": tea, "value": value}, plan, Seeded(seed)).codes
            assert codes == in_order(codes)
            seen.add(codes.index(EMPTY) if EMPTY in codes else len(codes))
    assert seen == {2, 3, 4, 5}, "every number of decoys occurs"


@each_case("people", [1, 7])
@each_case("protocol", CHOICES.values(), ids=CHOICES)
def test_many_reports_show_their_counts_only(protocol: Protocol, people: int) -> None:
    plan = plans.plan_of(("value", VALUES, protocol), users=people)
    for seed in range(50):
        answers = np.random.default_rng(seed).integers(5, size=people)
        messages = encode_numbers(plan, [answers], people, Seeded(seed)).messages
        assert np.array_equal(messages, np.sort(messages))
        assert len(messages) or people == 1


def test_each_question_of_many_reports_shows_its_counts_only() -> None:
    parts = [(f"value {i}", VALUES, protocol) for i, protocol in enumerate(CHOICES.values())]
    people, plan = 7, plans.plan_of(*parts, users=7)
    answers = [np.arange(people) % 5] * len(parts)
    messages = encode_numbers(plan, answers, people, Seeded(1)).messages
    assert np.array_equal(messages, np.sort(messages))
    assert set(messages // 5) == {0, 1, 2}


def packed_plan(people: int) -> Plan:
    """Return a plan whose records are so full that they are kept as rows of bits."""
    question = Choice(range(64), missing="refuse")
    return plans.plan_of(("value", question, FlippedDecoys(QUARTER, 1, 64)), users=people)


def test_rows_do_not_tell_answers_from_decoys() -> None:
    """Everyone holds the first value: its bits are set as often in one half of the rows."""
    people = 4_000
    (rows,) = encode_numbers(packed_plan(people), [np.zeros(people)], people, Seeded(0)).rows
    first = np.unpackbits(rows.packed, axis=1, bitorder="little")[:, 0].astype(bool)
    assert len(first) == 2 * people
    # Were decoys last, the halves would have means 3/4 and about 1/4; six deviations are 0.05.
    halves = first[:people].mean(), first[people:].mean()
    assert abs(halves[0] - halves[1]) < 0.07
    assert abs(np.mean(first[::2]) - np.mean(first[1::2])) < 0.07
