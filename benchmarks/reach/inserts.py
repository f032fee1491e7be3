"""Insert ids into a filter, against other Bloom filters and against what memory allows.

Everybody fills a filter of the same number of bits with one hash function. Chaffinch hashes
a column of texts as it lies in memory, with a secret key; the others take Python strings,
one by one, and their strings are new in every turn, because a string remembers its hash.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from pybloom_live import BloomFilter
from rbloom import Bloom

from benchmarks.findings import Finding, Goal, Line, processor_seconds, ratio
from chaffinch.sampling import backend, backends, digest_ids, set_columns

BITS = 1 << 27
IDS, ID_BYTES = 10_000_000, 16
IDS_AT_ONCE = 1 << 16
KEY = bytes(range(16))
REPEATS = 5
SHARES = {"chaffinch, numpy": 50, "rbloom": 50, "pybloom-live": 500}
"""Who inserts a part of the ids only; times are per id."""
OURS, LIMIT = "chaffinch, native", "memory: set bits, no hashing"
PEER_AIM = 5.0
# A filter of n/ln 2 bits is best for n ids and one hash function, at a half of false positives.
CAPACITY, FALSE_POSITIVES = int(BITS * math.log(2.0)), 0.5


def findings() -> Iterator[Finding]:
    """Yield the table."""
    generator = np.random.default_rng(1)
    data = np.frombuffer(generator.bytes(IDS * ID_BYTES // 2).hex().encode(), dtype=np.uint8)
    words = generator.integers(0, 2**64, IDS, dtype=np.uint64, endpoint=False)
    offsets = np.arange(0, len(data) + 1, ID_BYTES)  # A column of texts brings them along.
    some = offsets[: IDS // SHARES["chaffinch, numpy"] + 1]
    packed = np.zeros(BITS // 64, dtype=np.uint64)
    bloom, peer = Bloom(CAPACITY, FALSE_POSITIVES), BloomFilter(CAPACITY, FALSE_POSITIVES)
    assert bloom.size_in_bits == BITS
    assert (peer.num_slices, -(-peer.num_bits // 64)) == (1, BITS // 64)
    few = _strings(data, IDS // SHARES["rbloom"])
    fewer = _strings(data, IDS // SHARES["pybloom-live"])
    jobs: dict[str, Callable[[], object]] = {
        OURS: lambda: _ours("", data, offsets, packed),
        LIMIT: lambda: _only_set(words, packed),
        "chaffinch, numpy": lambda: _ours("numpy", data, some, packed),
        "rbloom": lambda: bloom.update(next(few)),
        "pybloom-live": lambda: _one_by_one(peer, next(fewer)),
    }
    seconds = {
        name: [one * SHARES.get(name, 1) for one in runs]
        for name, runs in processor_seconds(jobs, repeats=REPEATS, least_seconds=0.0).items()
    }
    yield Finding(
        f"Insert {IDS:,} ids of {ID_BYTES} bytes into {BITS:,} bits, one thread",
        ("ns per id", "M ids/s", "x chaffinch", "ids inserted"),
        [_line(name, runs, seconds[OURS]) for name, runs in seconds.items()],
        [
            f"kernels: {backend()}; one hash function each",
            "memory: as many bits set at random places of the same array, places given",
            "a part of the ids is inserted where the column says so; times are per id",
        ],
    )


def _line(name: str, runs: list[float], ours: list[float]) -> Line:
    each = 1e9 * float(np.median(runs)) / IDS
    against = ratio(runs, ours)
    goal = Goal(PEER_AIM, against) if name in ("rbloom", "pybloom-live") else None
    return Line(name, (each, 1e3 / each, against, float(IDS // SHARES.get(name, 1))), goal)


def _ours(
    kind: str, data: NDArray[np.uint8], offsets: NDArray[np.int64], packed: NDArray[np.uint64]
) -> None:
    before = backends.FILTER_LOOPS
    backends.FILTER_LOOPS = backends.choose_filters(kind)[1]
    try:
        for start in range(0, len(offsets) - 1, IDS_AT_ONCE):
            edges = offsets[start : start + IDS_AT_ONCE + 1]
            set_columns(packed, digest_ids(data, edges, KEY), BITS)
    finally:
        backends.FILTER_LOOPS = before


def _only_set(words: NDArray[np.uint64], packed: NDArray[np.uint64]) -> None:
    for start in range(0, len(words), IDS_AT_ONCE):
        set_columns(packed, words[start : start + IDS_AT_ONCE], BITS)


def _strings(data: NDArray[np.uint8], count: int) -> Iterator[list[str]]:
    """Return new strings for the one run of every turn, made before any of them is timed."""
    text = data[: count * ID_BYTES].tobytes().decode()
    places = range(0, len(text), ID_BYTES)
    return iter([[text[place : place + ID_BYTES] for place in places] for _ in range(REPEATS + 1)])


def _one_by_one(peer: BloomFilter, ids: list[str]) -> None:
    for one in ids:
        peer.add(one)
