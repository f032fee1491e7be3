"""Broken pipelines, each wrong in one way that a real one might be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.encoding.bulk import encode_numbers
from chaffinch.encoding.device import encode_with
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys
from chaffinch.protocols.base import GRAIN
from chaffinch.sampling import Words, below, bernoulli
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate import Pipeline, SeededWords
from chaffinch.wire.batches import Codes
from chaffinch.wire.messages import EMPTY, Origin, Report, Reports, Shuffled
from tests.simulate.settings import changed

Answers = list[NDArray[Any]]
Coder = Callable[[NDArray[Any], Any, Words], Codes]


@lru_cache
def _changed(plan: Plan, factor: float) -> Plan:
    return changed(plan, factor)


def less_noise(factor: float) -> Pipeline:
    """Flip, or send decoys, less often than the plan says."""

    def device(answer: object, plan: Plan, words: Words) -> Report:
        report = encode_with(answer, _changed(plan, factor), words)
        return replace(report, origin=Origin.of(plan))

    def encode(plan: Plan, numbers: Answers, count: int, words: Words) -> Reports:
        reports = encode_numbers(_changed(plan, factor), numbers, count, words)
        return replace(reports, origin=Origin.of(plan))

    return Pipeline(encode=encode, device=device)


def no_noise() -> Pipeline:
    """Send the truth: the two worlds have nothing in common."""
    return less_noise(2.0**-38)


def own_words(plan_words: Callable[[Words], Words]) -> Pipeline:
    """Draw the noise from other words than those that are handed in."""

    def encode(plan: Plan, numbers: Answers, count: int, words: Words) -> Reports:
        return encode_numbers(plan, numbers, count, plan_words(words))

    return Pipeline(encode=encode)


def stale_batch() -> Pipeline:
    """Use the noise of the batch before in every second batch."""
    calls: list[int] = []

    def words_of(_: Words) -> Words:
        calls.append(0)
        return SeededWords((len(calls) - 1) // 2)

    return own_words(words_of)


def one_key() -> Pipeline:
    """Start every batch from the same key."""
    return own_words(lambda _: SeededWords(4))


def by_part(coder: Coder) -> Pipeline:
    """Encode every question with a broken coder of codes that start at 0."""

    def encode(plan: Plan, numbers: Answers, count: int, words: Words) -> Reports:
        codes = [
            coder(answers, part.protocol, words).astype(np.uint32) + np.uint32(first)
            for part, first, answers in zip(plan.parts, plan.offsets, numbers, strict=True)
        ]
        return Reports(Origin.of(plan), count, np.concatenate(codes))

    return Pipeline(encode=encode)


def flips(protocol: Any, words: Words, count: int) -> NDArray[np.bool_]:
    chance = protocol.flip_probability
    return bernoulli(words, chance.numerator * (GRAIN // chance.denominator), count)


def sent(held: NDArray[np.bool_]) -> Codes:
    return np.zeros(int(held.sum()), np.uint32)


def shared_seed() -> Pipeline:
    """Give every user the same seed: all flip, or none."""
    return by_part(lambda bits, how, words: sent((bits > 0) ^ flips(how, words, 1)))


def target_never_flips() -> Pipeline:
    """Leave the first user's bit as it is."""

    def coder(bits: NDArray[Any], how: Any, words: Words) -> Codes:
        held = flips(how, words, len(bits))
        held[0] = False
        return sent((bits > 0) ^ held)

    return by_part(coder)


def one_way_flips() -> Pipeline:
    """Flip a one to a zero but never a zero to a one."""
    return by_part(lambda bits, how, words: sent((bits > 0) & ~flips(how, words, len(bits))))


def same_flip_for_all_copies() -> Pipeline:
    """Draw one flip for all copies of a bit."""

    def coder(bits: NDArray[Any], how: Any, words: Words) -> Codes:
        held = (bits > 0) ^ flips(how, words, len(bits))
        return sent(np.repeat(held, how.copies))

    return by_part(coder)


def only(chosen: slice) -> Pipeline:
    """Lose the reports of some of the others; the count still speaks of all."""

    def encode(plan: Plan, numbers: Answers, count: int, words: Words) -> Reports:
        kept = [np.concatenate([answers[:1], answers[1:][chosen]]) for answers in numbers]
        return replace(encode_numbers(plan, kept, len(kept[0]), words), count=count)

    return Pipeline(encode=encode)


def decoys_from(draw: Callable[[Words, int], NDArray[Any]]) -> Pipeline:
    """Send the right number of decoys, with values drawn wrongly."""

    def coder(values: NDArray[Any], how: Decoys, words: Words) -> Codes:
        chance = how.decoy_rate.numerator * (GRAIN // how.decoy_rate.denominator)
        count = int(bernoulli(words, chance, len(values) * how.decoy_slots).sum())
        return np.concatenate([values.astype(np.uint32), draw(words, count).astype(np.uint32)])

    return by_part(coder)


def decoys_in_wrong_range(size: int) -> Pipeline:
    """Start the decoys at the second value: none of them ever looks like the first."""
    return decoys_from(lambda words, count: 1 + below(words, size - 1, count))


def lopsided_decoys(size: int) -> Pipeline:
    """Take the larger of two uniform values."""

    def draw(words: Words, count: int) -> NDArray[Any]:
        return np.maximum(below(words, size, count), below(words, size, count))

    return decoys_from(draw)


def no_decoys() -> Pipeline:
    """Forget the decoys."""
    return decoys_from(lambda words, count: below(words, 2, 0 * count))


def reordered(order: Callable[[Codes], Codes]) -> Pipeline:
    """Let messages out in an order that tells where they came from."""

    def shuffle(reports: Reports | Iterable[Report], words: Words) -> Shuffled:
        assert isinstance(reports, Reports)
        shuffled = shuffle_with(reports, words)
        return replace(shuffled, messages=order(reports.messages))

    return Pipeline(shuffle=shuffle)


def identity() -> Pipeline:
    """Do not shuffle."""
    return reordered(lambda messages: messages)


def reversed_order() -> Pipeline:
    """Turn the order round, which shuffles nothing."""
    return reordered(lambda messages: messages[::-1])


def first_half_kept() -> Pipeline:
    """Shuffle the second half only."""

    def order(messages: Codes) -> Codes:
        middle = len(messages) // 2
        mixed = np.random.default_rng(1).permutation(messages[middle:])
        return np.concatenate([messages[:middle], mixed])

    return reordered(order)


# ----------------------------------------------------------------------------
# Signed decoys: a bit sends plus for yes and minus for no.


def other_noise(**fields: Any) -> Pipeline:
    """Draw the noise of signed decoys with other parameters than the plan has."""

    @lru_cache
    def other(plan: Plan) -> Plan:
        protocols: list[Any] = [part.protocol for part in plan.parts]
        parts = zip(plan.parts, protocols, strict=True)
        return replace(
            plan,
            parts=tuple(replace(part, protocol=replace(how, **fields)) for part, how in parts),
        )

    def encode(plan: Plan, numbers: Answers, count: int, words: Words) -> Reports:
        return replace(encode_numbers(other(plan), numbers, count, words), origin=Origin.of(plan))

    return Pipeline(encode=encode)


def recoded(change: Callable[[Codes, NDArray[Any], int], Codes]) -> Pipeline:
    """Change the messages of each question, whose codes start at 0, after they were drawn."""

    def encode(plan: Plan, numbers: Answers, count: int, words: Words) -> Reports:
        found = []
        for part, first, answers in zip(plan.parts, plan.offsets, numbers, strict=True):
            codes = part.protocol.encode_many(part.question, answers, words).codes
            changed_codes = change(codes, answers, part.slots)
            found.append(np.where(changed_codes == EMPTY, EMPTY, changed_codes + first))
        return Reports(Origin.of(plan), count, np.concatenate(found).astype(np.uint32))

    return Pipeline(encode=encode)


def swapped_signs() -> Pipeline:
    """Take plus for minus and minus for plus."""
    return recoded(lambda codes, _, __: codes ^ np.uint32(1))


def without_no(codes: Codes, answers: NDArray[Any]) -> Codes:
    """Return the messages without those of a no; codes are sorted, and a minus is the larger."""
    return codes[: len(codes) - int(np.count_nonzero(answers == 0))]


def silent_no() -> Pipeline:
    """Send nothing for a no."""
    return recoded(lambda codes, answers, _: without_no(codes, answers))


def with_dummies(codes: Codes, count: int) -> Codes:
    return np.concatenate([codes, np.full(count, EMPTY, np.uint32)])


def dummy_no() -> Pipeline:
    """Send a dummy for a no."""
    return recoded(
        lambda codes, answers, _: with_dummies(
            without_no(codes, answers), int(np.count_nonzero(answers == 0))
        )
    )


def dummies_pass() -> Pipeline:
    """Let the empty slots of every report through to the analyzer."""
    return recoded(
        lambda codes, answers, slots: with_dummies(codes, len(answers) * slots - len(codes))
    )


def size_follows_answer() -> Pipeline:
    """Forget the noise of a device whose answer is no."""

    def device(answer: object, plan: Plan, words: Words) -> Report:
        report = encode_with(answer, plan, words)
        if answer is True:
            return report
        return replace(report, codes=(1, *[EMPTY] * (len(report.codes) - 1)))

    return Pipeline(device=device)
