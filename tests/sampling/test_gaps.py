from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from chaffinch.errors import InvalidInput
from chaffinch.sampling import backends, flip, position_chunks, positions, secure_words
from chaffinch.sampling.gaps import LONGEST, _walk, gap_table
from tests.cases import each_case
from tests.sampling.sources import ALARM, SIGMAS, SeededWords, chance, twice, with_each
from tests.tiers import nightly

numerators = st.one_of(
    st.integers(1, 2**64), st.integers(0, 63).map(lambda power: 2**power), st.just(0)
)


@given(
    numerator=numerators,
    expected=st.integers(0, 20_000),
    seed=st.integers(0, 99),
    planted=st.integers(0, 1),
)
def test_both_implementations_agree(numerator: int, expected: int, seed: int, planted: int) -> None:
    # Planted words equal thresholds, so ties are common; both must break them alike.
    length = min(expected * 2**64 // max(numerator, 1), LONGEST)
    table = gap_table(numerator) if numerator else None
    special_words = (
        [0, 2**64 - 1, *(w for part in table.thresholds for t in part[:40] for w in twice(int(t)))]
        if planted and table
        else []
    )

    def run() -> tuple[bytes, int]:
        words = SeededWords(seed, planted=special_words)
        return positions(words, numerator, length).tobytes(), words.used

    assert len(set(with_each(run))) == 1


def naive(
    counts: list[list[int]], weights: list[int], escape: int, span: tuple[int, int]
) -> tuple[list[int], int]:
    """Walk with Python's own numbers, which never wrap."""
    at, end = span
    found = []
    for digits in zip(*counts, strict=True):
        if digits[-1] == escape:
            at += escape * weights[-1]
        else:
            at += sum(digit * weight for digit, weight in zip(digits, weights, strict=True))
            if at < end:
                found.append(at)
            at += 1
    return found, min(at, end + 1)


@given(data=st.data(), levels=st.integers(1, 6), size=st.integers(1, 50))
def test_walking_is_plain_addition_and_never_wraps(
    data: st.DataObject, levels: int, size: int
) -> None:
    end = data.draw(st.one_of(st.integers(1, 10_000), st.integers(1, LONGEST), st.just(LONGEST)))
    start = data.draw(st.integers(0, end - 1))
    weights = sorted(data.draw(st.lists(st.integers(1, LONGEST), min_size=levels, max_size=levels)))
    escape = data.draw(st.integers(1, 2**12))
    top = st.lists(st.integers(0, escape), min_size=size, max_size=size)
    lower = st.lists(st.integers(0, 2**12 - 1), min_size=size, max_size=size)
    counts = [data.draw(lower) for _ in range(levels - 1)] + [data.draw(top)]

    def run() -> tuple[list[int], int]:
        found = np.empty(size, dtype=np.int64)
        flat = np.array(counts, dtype=np.int64).reshape(-1)
        table = np.array(weights, dtype=np.int64)
        kept, at = backends.LOOPS.walk(flat, table, escape, (start, end), found)
        return found[:kept].tolist(), at

    expected = naive(counts, weights, escape, (start, end))
    assert all(result == expected for result in with_each(run))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(
    ("width", "numerator", "largest"), [(3, 3, 2), nightly(3, 1, 2), nightly(2, 1, 3)]
)
def test_patterns_are_independent_trials_when_every_second_word_is_a_tie(
    width: int, numerator: int, largest: int
) -> None:
    # All 2⁴ patterns of four trials, by chi-square; a small change of q is seen by the
    # larger tests below, at this width the next chance is far away and fails at once.
    table = gap_table(numerator, width, largest)
    words = SeededWords(11, width=width)
    trials = 2000
    seen = np.zeros(16, dtype=np.int64)
    for _ in range(trials):
        found = [place for part in _walk(words, table, 4, 8) for place in part.tolist()]
        seen[sum(1 << place for place in found)] += 1

    def misfit(probability: float) -> float:
        ones = np.array([pattern.bit_count() for pattern in range(16)])
        expected = trials * probability**ones * (1 - probability) ** (4 - ones)
        return float(special.chdtrc(15, ((seen - expected) ** 2 / expected).sum()))

    assert misfit(numerator / 2**width) > ALARM
    assert misfit(numerator / 2**width * 1.2) < ALARM


def gap_misfit(found: NDArray[np.int64], probability: float) -> float:
    """Return the p-value of the gaps against the geometric law, in about 40 equal classes."""
    steps = np.diff(found) - 1
    edges = np.unique((np.log1p(-np.arange(1, 40) / 40) / np.log1p(-probability)).astype(np.int64))
    edges = edges[edges > 0]
    counts = np.bincount(np.searchsorted(edges, steps, side="right"), minlength=len(edges) + 1)
    below = 1 - (1 - probability) ** edges
    expected = len(steps) * np.diff(np.concatenate([[0], below, [1]]))
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float(special.chdtrc(len(edges), statistic))


def pairs_off(found: NDArray[np.int64]) -> float:
    """Return how far neighbouring gaps are from uncorrelated ranks, in sigmas."""
    high = np.diff(found) > np.median(np.diff(found))
    centred = high - high.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred.var() * np.sqrt(len(high) - 1)))


@pytest.mark.usefixtures("loops")
@each_case("probability", [0.3, 0.01, 0.0005, 1e-6, 1e-9])
def test_rate_gaps_and_independence_with_secure_words(probability: float) -> None:
    # A chance 4 % off fails the first two of three statistics, by 21 standard deviations and
    # with a noncentrality of 450; gaps in sorted pairs fail the third.
    numerator = chance(probability)
    length = int(300_000 / probability)
    found = positions(secure_words(), numerator, length)
    sigma = np.sqrt(length * probability * (1 - probability))
    assert abs(len(found) - length * probability) < SIGMAS * sigma
    assert gap_misfit(found, probability) > ALARM
    assert abs(pairs_off(found)) < SIGMAS
    assert found[0] >= 0
    assert found[-1] < length
    assert np.all(np.diff(found) > 0)

    wrong = positions(secure_words(), numerator * 26 // 25, length)
    assert abs(len(wrong) - length * probability) > SIGMAS * sigma
    assert gap_misfit(wrong, probability) < ALARM
    steps = np.diff(found)[: len(found) // 2 * 2 - 2].reshape(-1, 2)
    assert abs(pairs_off(np.cumsum(np.sort(steps, axis=1)))) > SIGMAS


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("probability", [0.3, nightly(0.01), 1e-4])
@pytest.mark.parametrize("runs", [4_000, nightly(20_000)])
def test_the_first_and_the_last_trial_are_like_any_other(probability: float, runs: int) -> None:
    # Short runs start and stop all the time.
    length = max(3, int(1 / probability))
    first = last = 0
    for _ in range(runs):
        found = positions(secure_words(), chance(probability), length)
        first += 0 in found[:1]
        last += length - 1 in found[-1:]
    sigma = np.sqrt(runs * probability * (1 - probability)) + 1
    assert abs(first - runs * probability) < SIGMAS * sigma
    assert abs(last - runs * probability) < SIGMAS * sigma


@pytest.mark.usefixtures("loops")
def test_certain_and_impossible_trials() -> None:
    assert positions(secure_words(), 2**64, 10_000).tolist() == list(range(10_000))
    assert positions(secure_words(), 0, LONGEST).tolist() == []
    assert positions(secure_words(), 2**63, 0).tolist() == []


@pytest.mark.usefixtures("loops")
@each_case("chunk", [1, 7, 4096, 10**9])
def test_chunks_are_sorted_bounded_and_never_empty(chunk: int) -> None:
    parts = list(position_chunks(SeededWords(4), chance(0.01), 60_000, chunk))
    assert all(0 < len(part) <= chunk for part in parts)
    together = np.concatenate(parts)
    assert np.all(np.diff(together) > 0)
    assert 450 < len(together) < 750  # 600 ± 6 sigmas, on fixed words.


@pytest.mark.usefixtures("loops")
def test_the_longest_walk_streams() -> None:
    # 2⁵⁰ trials at chance 2⁻⁴⁰: about 1024 successes, found at once.
    found = positions(SeededWords(4), 2**24, LONGEST)
    assert 800 < len(found) < 1250
    first = list(itertools.islice(position_chunks(SeededWords(4), chance(0.5), LONGEST, 100), 3))
    assert sum(map(len, first)) == 300


@given(
    numerator=numerators,
    size=st.integers(1, 3000),
    spare=st.integers(0, 63),
    seed=st.integers(0, 99),
)
def test_flipping_agrees_and_stays_inside(numerator: int, size: int, spare: int, seed: int) -> None:
    count = size * 64 - spare

    def run() -> bytes:
        packed = np.full(size + 1, 0xF0F0F0F0F0F0F0F0, dtype=np.uint64)
        flip(SeededWords(seed), packed, numerator, count)
        bits = np.unpackbits(packed.view(np.uint8), bitorder="little")
        kept = np.unpackbits(np.full(8, 0xF0, dtype=np.uint8), bitorder="little")
        assert np.array_equal(bits[count:], np.tile(kept, size + 1)[count:])
        return packed.tobytes()

    assert len(set(with_each(run))) == 1


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("probability", [0.01, 0.2])
def test_flipping_turns_the_right_share(probability: float) -> None:
    # A chance 2 % off fails: it is 14 standard deviations away or more.
    count = 64 * 800_000
    sigma = np.sqrt(count * probability * (1 - probability))
    for numerator, right in ((chance(probability), True), (chance(probability * 1.02), False)):
        packed = np.zeros(count // 64, dtype=np.uint64)
        flip(secure_words(), packed, numerator, count)
        off = abs(int(np.bitwise_count(packed).sum()) - count * probability)
        assert (off < SIGMAS * sigma) == right


@each_case(
    ("numerator", "length", "chunk"),
    [(-1, 1, 1), (2**64 + 1, 1, 1), (1, -1, 1), (1, LONGEST + 1, 1), (1, 1, 0), (0.5, 1, 1)],
)
def test_bad_inputs_are_refused_at_once(numerator: int, length: int, chunk: int) -> None:
    with pytest.raises(InvalidInput):
        position_chunks(SeededWords(1), numerator, length, chunk)


def test_flipping_refuses_what_it_cannot_change() -> None:
    good = np.zeros(2, dtype=np.uint64)
    for packed, count in (
        (good, 129),
        (good.astype(np.int64), 1),
        (np.zeros(4, dtype=np.uint64)[::2], 1),
        (good.reshape(1, 2), 1),
    ):
        with pytest.raises(InvalidInput):
            flip(SeededWords(1), packed, 1, count)  # type: ignore[arg-type]
