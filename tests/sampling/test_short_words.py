"""Gaps from quarters of words: the same law as from whole words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.sampling import backends, plain
from chaffinch.sampling.gaps import LONGEST, _walk, gap_table
from tests.cases import each_case
from tests.sampling.sources import ListedWords, available, pieces_of, twice, with_each

SHORT = [2**56, 2**58, int(0.01 * 2**64), 2**62, 2**63 + 1, 2**64]


def strolled(
    pieces: list[int], thresholds: list[int], span: tuple[int, int]
) -> tuple[list[int], int, int]:
    """Walk with the words and thresholds themselves, one gap after the other."""
    at, end = span
    found, taken = [], 0
    while taken + 4 <= len(pieces) and at < end:
        part = pieces[taken : taken + 4]
        word = sum(piece << shift for piece, shift in zip(part, (48, 32, 16, 0), strict=True))
        gap = sum(threshold > word for threshold in thresholds)
        first = {threshold >> 48 for threshold in thresholds}
        short = part[0] not in first and gap < len(thresholds)
        if not short and (word in thresholds or word == 0):
            break
        taken += 1 if short else 4
        at += gap
        if gap < len(thresholds):
            if at < end:
                found.append(at)
            at += 1
    return found, min(at, end), taken if at < end else len(pieces)


@given(
    st.sampled_from(SHORT),
    st.integers(0, 300),
    st.one_of(st.integers(0, 2000), st.just(LONGEST - 5)),
    st.integers(0, 2**32),
)
def test_leaping_is_walking_with_whole_words(
    numerator: int, size: int, room: int, seed: int
) -> None:
    table = gap_table(numerator)
    assert table.short is not None
    thresholds = table.thresholds[0]
    generator = np.random.default_rng(seed)
    pieces = generator.integers(0, 2**16, size, dtype=np.uint16)
    # Many pieces start like a threshold, and a few are one: no word decides those.
    for place in generator.integers(0, max(size - 4, 1), size // 8):
        planted = pieces_of(int(generator.choice(thresholds)))[: int(generator.integers(1, 4))]
        pieces[place : place + len(planted)] = planted[: size - place]
    if size > 60 and seed % 3 == 0:
        pieces[50:54] = pieces_of(int(thresholds[0]))

    def leaped() -> tuple[list[int], int, int]:
        found = np.empty(size, np.int64)
        given = (pieces, table.short, thresholds)
        kept, at, taken = backends.LOOPS.leap(*given, (5, 5 + room), found)  # type: ignore[arg-type]
        return found[:kept].tolist(), at, taken

    expected = strolled(pieces.tolist(), thresholds[:-1].tolist(), (5, 5 + room))
    assert all(result == expected for result in with_each(leaped))


@each_case("numerator", SHORT)
def test_a_short_word_decides_only_what_every_word_it_starts_decides(numerator: int) -> None:
    # All 2¹⁶ of them: with this, short words have the law of whole words exactly.
    table = gap_table(numerator)
    assert table.short is not None
    lowest = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
    ends = []
    for words in (lowest, lowest | np.uint64(2**48 - 1)):
        counts = np.empty(1 << 16, np.int64)
        plain.lookup(words, table.thresholds[0], table.guides[0], counts)
        ends.append(counts)
    decided = (ends[0] == ends[1]) & (ends[0] >= 0) & (ends[0] < table.escape)
    assert np.array_equal(table.short < 2**15, decided)
    assert np.array_equal(table.short[decided], ends[0][decided])
    assert np.all(table.short - 2**15 * (~decided) <= ends[1] + table.escape * (ends[1] < 0))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(("more", "gap"), [(0, 4), (2**64 - 1, 3)])
def test_a_tie_is_broken_by_more_bits(more: int, gap: int) -> None:
    # The fourth threshold to 64 bits, then as little or as much as can be.
    table = gap_table(int(0.01 * 2**64) | 1)
    tied = twice(int(table.thresholds[0][3]))[1]
    after = int(np.array([0x8000] * 4, dtype=np.uint16).view(np.uint64)[0])
    words = ListedWords([after, tied, *[after] * 14, more, *[after] * 999])
    found = np.concatenate(list(_walk(words, table, 10_000, 61)))
    usual = np.diff(found)[0] - 1
    assert np.unique(np.diff(found) - 1).tolist() == sorted({usual, gap})
    assert found[4] - found[3] - 1 == gap


def test_leaping_refuses_buffers_that_do_not_fit() -> None:
    if "native" not in available():
        pytest.skip("the C extension is not built here")
    leap = backends.choose("native")[1].leap
    table = gap_table(2**58)
    assert table.short is not None
    short, thresholds = table.short, table.thresholds[0]
    pieces, found = np.zeros(8, np.uint16), np.empty(5, np.int64)
    assert leap(pieces, short, thresholds, (0, 10**6), found) == (0, 0, 0)  # A tie at once.
    beyond = np.full_like(short, 2**15 + len(thresholds))
    for arguments in (
        (pieces, short, thresholds[:-1].copy(), (0, 10**6), found),  # no 0 where searches stop
        (pieces, short[1:].copy(), thresholds, (0, 10**6), found),
        (pieces, beyond, thresholds, (0, 10**6), found),
        (pieces, short, thresholds, (0, 10**6), found[1:].copy()),
        (pieces, short, thresholds, (-1, 10**6), found),
        (pieces, short, thresholds, (7, 6), found),
        (pieces, short, thresholds, (0, LONGEST + 1), found),
        (pieces.view(np.uint8)[1:], short, thresholds, (0, 10**6), found),
    ):
        with pytest.raises(ValueError, match="must fit"):
            leap(*arguments)
