"""Keyed digests of ids, and the columns that they name."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from chaffinch.errors import InvalidInput
from chaffinch.sampling import (
    backends,
    digest_again,
    digest_columns,
    digest_ids,
    filters_plain,
    set_columns,
)
from tests.cases import each_case
from tests.sampling.filtering import with_each

KEY = bytes(range(16))
FALSE_ALARM = 1e-6
WORD = 2**64

# The published outputs of SipHash-2-4 under that key, for the messages 00 01 02 … of 0 to 63
# bytes: https://github.com/veorq/SipHash (vectors.h), lowest byte first.
PUBLISHED = bytes.fromhex("""
310e0edd47db6f72 fd67dc93c539f874 5a4fa9d909806c0d 2d7efbd796666785
b7877127e09427cf 8da699cd64557618 cee3fe586e46c9cb 37d1018bf50002ab
6224939a79f5f593 b0e4a90bdf82009e f3b9dd94c5bb5d7a a7ad6b22462fb3f4
fbe50e86bc8f1e75 903d84c02756ea14 eef27a8e90ca23f7 e545be4961ca29a1
db9bc2577fcc2a3f 9447be2cf5e99a69 9cd38d96f0b3c14b bd6179a71dc96dbb
98eea21af25cd6be c7673b2eb0cbf2d0 883ea3e395675393 c8ce5ccd8c030ca8
94af49f6c650adb8 eab8858ade92e1bc f315bb5bb835d817 adcf6b0763612e2f
a5c91da7acaa4dde 716595876650a2a6 28ef495c53a387ad 42c341d8fa92d832
ce7cf2722f512771 e37859f94623f3a7 381205bb1ab0e012 ae97a10fd434e015
b4a31508beff4d31 81396229f0907902 4d0cf49ee5d4dcca 5c73336a76d8bf9a
d0a704536ba93e0e 925958fcd6420cad a915c29bc8067318 952b79f3bc0aa6d4
f21df2e41d4535f9 87577519048f53a9 10a56cf5dfcd9adb eb75095ccd986cd0
51a9cb9ecba312e6 96afadfc2ce666c7 72fe52975a4364ee 5a1645b276d592a1
b274cb8ebf87870a 6f9bb4203de7b381 eaecb2a30b22a87f 9924a43cc1315724
bd838d3aafbf8db7 0b1a2a3265d51aea 135079a3231ce660 932b2846e4d70666
e1915f5cb1eca46c f325965ca16d629f 575ff28e60381be5 724506eb4c328a95
""")
EXPECTED = np.frombuffer(PUBLISHED, dtype="<u8").tolist()


def column_of(ids: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    edges = np.cumsum([0, *map(len, ids)])
    return np.frombuffer(b"".join(ids), dtype=np.uint8), edges


def hashed(ids: list[bytes], key: bytes = KEY) -> list[int]:
    found: list[int] = digest_ids(*column_of(ids), key).tolist()
    return found


def by_the_paper(message: bytes, key: bytes) -> int:
    """Return SipHash-2-4 in whole numbers, word by word, from the paper's description."""
    low, high = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    text = b"somepseudorandomlygeneratedbytes"
    state = [int.from_bytes(text[at : at + 8], "big") for at in range(0, 32, 8)]
    state = [one ^ half for one, half in zip(state, (low, high, low, high), strict=True)]
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        state[3] ^= word
        state = turned(turned(state))
        state[0] ^= word
    state[2] ^= 0xFF
    for _ in range(4):
        state = turned(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def turned(state: list[int]) -> list[int]:
    def left(word: int, by: int) -> int:
        return (word << by | word >> 64 - by) % WORD

    a, b, c, d = state
    for turn_b, turn_d in ((13, 16), (17, 21)):
        a, c = (a + b) % WORD, (c + d) % WORD
        b, d = left(b, turn_b) ^ a, left(d, turn_d) ^ c
        a, c = c, left(a, 32)  # Half a round; the other half is the same with a and c changed.
    return [a, b, c, d]


def test_the_published_vectors_are_met() -> None:
    messages = [bytes(range(length)) for length in range(64)]
    assert [by_the_paper(message, KEY) for message in messages] == EXPECTED
    for together in with_each(lambda: hashed(messages)):
        assert together == EXPECTED
    for alone in with_each(lambda: [hashed([message])[0] for message in messages]):
        assert alone == EXPECTED
    for equal in with_each(lambda: [hashed([message] * 9) for message in messages]):
        assert equal == [[one] * 9 for one in EXPECTED]


@pytest.mark.parametrize("constant", [13, 16, 17, 21, 32])
def test_the_vectors_catch_a_wrong_rotation(constant: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = filters_plain.rotate

    def wrong(words: NDArray[np.uint64], by: int) -> None:
        right(words, by + 1 if by == constant else by)

    monkeypatch.setattr(backends, "FILTER_LOOPS", filters_plain)
    monkeypatch.setattr(filters_plain, "rotate", wrong)
    for length, expected in enumerate(EXPECTED):
        assert hashed([bytes(range(length))])[0] != expected


LENGTHS = st.one_of(st.integers(0, 40), st.sampled_from([0, 7, 8, 16, 63, 64, 255, 256, 300]))


@given(
    sizes=st.lists(LENGTHS, max_size=40),
    key=st.binary(min_size=16, max_size=16),
    seed=st.integers(0, 99),
)
def test_each_id_has_its_own_digest_whatever_stands_beside_it(
    sizes: list[int], key: bytes, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    ids = [generator.bytes(size) for size in sizes]
    expected = [by_the_paper(one, key) for one in ids]
    for found in with_each(lambda: hashed(ids, key)):
        assert found == expected


def test_many_ids_of_mixed_lengths_are_the_same_in_both_forms() -> None:
    generator = np.random.default_rng(5)
    sizes = generator.integers(0, 90, 40_000)
    sizes[100:9000] = 16
    sizes[20_000] = 70_000
    edges = np.concatenate([[11], 11 + np.cumsum(sizes)])
    data = generator.integers(0, 256, edges[-1] + 3, dtype=np.uint8)
    results = with_each(lambda: digest_ids(data, edges, KEY))
    for one in results:
        assert one.dtype == np.uint64
        assert np.array_equal(one, results[0])
    for place in (0, 100, 8999, 19_999, 20_000, 20_001, 39_999):
        message = data[edges[place] : edges[place + 1]].tobytes()
        assert results[0][place] == by_the_paper(message, KEY)


def test_columns_may_be_slices_unaligned_and_of_short_offsets() -> None:
    data = np.frombuffer(b"xxannbobzoe", dtype=np.uint8)
    edges = np.array([2, 5, 8, 11])
    expected = hashed([b"ann", b"bob", b"zoe"])
    shifted = np.frombuffer(b"-" + edges.tobytes(), dtype=np.uint8)[1:].view(np.int64)
    every_second = np.repeat(edges, 2)[::2]
    doubled = np.repeat(data, 2)[::2]

    def run() -> None:
        for offsets in (edges, edges.astype(np.int32), shifted, every_second):
            assert digest_ids(data, offsets, KEY).tolist() == expected
        assert digest_ids(doubled, edges, KEY).tolist() == expected

    with_each(run)


def test_no_ids_and_empty_ids() -> None:
    nothing = np.zeros(0, dtype=np.uint8)
    for found in with_each(lambda: digest_ids(nothing, np.array([0]), KEY)):
        assert len(found) == 0
    for found in with_each(lambda: digest_ids(nothing, np.zeros(12, dtype=np.int64), KEY)):
        assert set(found.tolist()) == {by_the_paper(b"", KEY)}


@each_case(
    "offsets",
    [[-1], [7], [-1, 3], [0, 7], [0, 4, 3], [0, 4, 3, 6], [*[1] * 20, 0, 6], [0, 2**62, 6]],
)
def test_offsets_out_of_range_are_refused(offsets: list[int]) -> None:
    data = np.frombuffer(b"annbob", dtype=np.uint8)

    def refused() -> None:
        with pytest.raises(InvalidInput, match=r"offsets must be rising, and from 0 to 6"):
            digest_ids(data, np.array(offsets), KEY)

    with_each(refused)


SIX = np.zeros(6, dtype=np.uint8)
WHOLE = np.array([0, 6])


@each_case(
    ("data", "offsets", "key"),
    [
        (b"annbob", WHOLE, KEY),
        (SIX.astype(np.int8), WHOLE, KEY),
        (SIX.reshape(2, 3), WHOLE, KEY),
        (SIX, [0, 6], KEY),
        (SIX, WHOLE.astype(np.uint64), KEY),
        (SIX, WHOLE.astype(float), KEY),
        (SIX, WHOLE[:0], KEY),
        (SIX, WHOLE, KEY[:15]),
        (SIX, WHOLE, KEY + b"x"),
        (SIX, WHOLE, "0123456789abcdef"),
    ],
)
def test_what_is_no_column_of_ids_is_refused(data: Any, offsets: Any, key: Any) -> None:
    with pytest.raises(InvalidInput):
        digest_ids(data, offsets, key)


def test_a_refused_key_is_not_shown() -> None:
    with pytest.raises(InvalidInput) as caught:
        digest_ids(SIX, WHOLE, b"secret words")
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidInput, match="key"):
        digest_again(np.zeros(1, dtype=np.uint64), b"secret words")


@each_case("count", [0, 1, 7, 8, 9, 40_000])
def test_a_digest_is_hashed_again_as_its_bytes(count: int) -> None:
    words = np.random.default_rng(2).integers(0, WORD, count, dtype=np.uint64, endpoint=False)
    for found in with_each(lambda: digest_again(words, KEY)):
        assert found.tolist()[:99] == [
            by_the_paper(one.to_bytes(8, "little"), KEY) for one in words.tolist()[:99]
        ]
        edges = np.arange(0, 8 * count + 1, 8)
        text = words.astype("<u8").view(np.uint8)
        assert np.array_equal(found, digest_ids(text, edges, KEY))


# ---------------------------------------------------------------- columns

EDGES = [0, 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2**32, 2**64 - 1]


@given(
    bits=st.one_of(st.integers(1, 2**32), st.sampled_from([1, 2, 3, 63, 2**27, 2**31, 2**32])),
    words=st.lists(st.one_of(st.integers(0, WORD - 1), st.sampled_from(EDGES)), max_size=30),
)
def test_a_column_is_the_digests_share_of_the_width(bits: int, words: list[int]) -> None:
    found = digest_columns(np.array(words, dtype=np.uint64), bits)
    assert found.dtype == np.int64
    assert found.tolist() == [floor(Fraction(word, WORD) * bits) for word in words]


@each_case("bits", [1, 2, 63, 64, 65, 1001, 2**20])
def test_the_bits_of_all_columns_are_set_and_no_others(bits: int) -> None:
    words = np.random.default_rng(bits).integers(0, WORD, 5000, dtype=np.uint64, endpoint=False)
    words[:2] = 0, WORD - 1
    expected = np.zeros(-(-bits // 64) * 64, dtype=np.uint8)
    expected[digest_columns(words, bits)] = 1
    expected[0] = 1  # Was there before.

    def run() -> NDArray[np.uint64]:
        packed = np.zeros(-(-bits // 64), dtype=np.uint64)
        packed[0] = 1
        set_columns(packed, words, bits)
        return packed

    for packed in with_each(run):
        assert np.array_equal(np.unpackbits(packed.view(np.uint8), bitorder="little"), expected)


def test_a_filter_of_two_billion_columns() -> None:
    bits = 2**31

    def run() -> dict[int, int]:
        packed = np.zeros(bits // 64, dtype=np.uint64)  # Untouched pages cost nothing.
        set_columns(packed, np.array([0, 2**63, WORD - 1], dtype=np.uint64), bits)
        places = (0, 1, bits // 128 - 1, bits // 128, bits // 64 - 2, bits // 64 - 1)
        return {place: int(packed[place]) for place in places if packed[place]}

    for found in with_each(run):
        assert found == {0: 1, bits // 128: 1, bits // 64 - 1: 2**63}


DIGESTS = np.zeros(3, dtype=np.uint64)


@each_case(
    ("packed", "words", "bits"),
    [
        (np.zeros(2, dtype=np.uint64), DIGESTS, 64),
        (np.zeros(1, dtype=np.uint64), DIGESTS, 65),
        (np.zeros(1, dtype=np.int64), DIGESTS, 64),
        (np.zeros(4, dtype=np.uint64)[::2], DIGESTS, 128),
        (np.frombuffer(bytes(8), dtype=np.uint64), DIGESTS, 64),
        (np.zeros(1, dtype=np.uint64), DIGESTS.astype(np.int64), 64),
        (np.zeros(1, dtype=np.uint64), [1], 64),
        (np.zeros(1, dtype=np.uint64), DIGESTS, 0),
        (np.zeros(1, dtype=np.uint64), DIGESTS, 2**32 + 1),
        (np.zeros(1, dtype=np.uint64), DIGESTS, 1.0),
    ],
)
def test_bits_are_not_set_where_they_do_not_fit(packed: Any, words: Any, bits: Any) -> None:
    with pytest.raises(InvalidInput):
        set_columns(packed, words, bits)


def unevenness(found: NDArray[np.int64], bits: int) -> float:
    counts = np.bincount(found, minlength=bits)
    expected = len(found) / bits
    return float(np.sum((counts - expected) ** 2) / expected)


def test_ids_fall_evenly_on_the_columns() -> None:
    # Pearson's statistic; a new key would raise a false alarm once in a million.
    bits, count = 1000, 200_000
    limit = stats.chi2.isf(FALSE_ALARM, bits - 1)
    names = np.arange(count, dtype=np.int64).astype("S8")
    data = np.frombuffer(names.tobytes(), dtype=np.uint8)  # Ids 0, 1, 2, … with zeros behind.
    words = digest_ids(data, np.arange(0, 8 * count + 1, 8), KEY)
    assert unevenness(digest_columns(words, bits), bits) < limit
    assert unevenness(digest_columns(digest_again(words, KEY[::-1]), bits), bits) < limit
    # Slightly wrong: one digest in twenty falls on the lower half only.
    lower = np.where(np.arange(count) % 20 == 0, words >> np.uint64(1), words)
    assert unevenness(digest_columns(lower, bits), bits) > limit
