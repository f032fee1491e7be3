"""Every order is equally likely, in memory, through the file, and in finer buckets."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from chaffinch.engines.local import Local
from chaffinch.protocols import Flips
from chaffinch.questions import Choice
from chaffinch.sampling import secure_words
from chaffinch.shuffling import on_disk
from chaffinch.shuffling.on_disk import Buckets
from tests.engines import plans

FALSE_ALARM = 1e-7


def one_order(folder: Path, codes: NDArray[np.uint32], memory: int) -> tuple[int, ...]:
    space = int(codes.max()) + 1
    with Buckets(
        np.min_scalar_type(space - 1), secure_words(), folder=folder, memory=memory, workers=1
    ) as buckets:
        buckets.fill([codes])
        return tuple(np.concatenate(list(buckets.ordered())).tolist())


def surprise(seen: Counter[tuple[int, ...]], orders: list[tuple[int, ...]]) -> float:
    """Return the chance of counts of orders at least so uneven."""
    assert set(seen) <= set(orders)
    return float(stats.chisquare([seen[order] for order in orders]).pvalue)


# With 1 byte, all is spilled at once, and buckets are split until they hold one message.
@pytest.mark.parametrize(
    "case",  # buckets, memory, messages, runs
    [(2, 10**6, 5, 2400), (256, 10**6, 3, 120), (4, 2 * 40, 5, 2400), (4, 1, 4, 480)],
    ids=["in memory", "all buckets", "finer buckets", "spilled"],
)
def test_all_orders_are_equally_likely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[int, int, int, int]
) -> None:
    buckets, memory, items, runs = case
    monkeypatch.setattr(on_disk, "BUCKETS", buckets)
    codes = np.arange(items, dtype=np.uint32)
    orders = list(itertools.permutations(range(items)))
    assert runs >= 20 * math.factorial(items)
    seen = Counter(one_order(tmp_path, codes, memory) for _ in range(runs))
    assert surprise(seen, orders) > FALSE_ALARM
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fault", ["no order inside a bucket", "uneven buckets kept in order"])
def test_a_wrong_shuffle_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def still(_words: Any, count: int) -> NDArray[np.int64]:
        return np.arange(count)

    def mostly_first(_self: Any, codes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        # The first message comes to the first bucket more often than the others.
        drawn = secure_words().take(len(codes)) >> np.uint64(63)
        drawn[:1] &= secure_words().take(1) >> np.uint64(63)
        order = np.argsort(drawn, kind="stable")
        return codes[order], np.array([0, int((drawn == 0).sum()), len(codes)])

    monkeypatch.setattr(on_disk, "BUCKETS", 2)
    if fault == "no order inside a bucket":
        monkeypatch.setattr(on_disk, "permutation", still)
    else:
        monkeypatch.setattr(Buckets, "_scattered", mostly_first)
    codes = np.arange(4, dtype=np.uint32)
    seen = Counter(one_order(tmp_path, codes, 10**6) for _ in range(3000))  # noncentrality 340
    assert surprise(seen, list(itertools.permutations(range(4)))) < FALSE_ALARM


def correlations(codes: NDArray[Any]) -> list[float]:
    """Return how message and place, and neighbouring messages, hang together."""
    numbers = codes.astype(np.float64)
    places = np.arange(len(codes))
    return [
        abs(float(np.corrcoef(numbers, places)[0, 1])),
        *(abs(float(np.corrcoef(numbers[k:], numbers[:-k])[0, 1])) for k in (1, 2, 500)),
    ]


@pytest.mark.parametrize("memory", [1 << 28, 50_000], ids=["in memory", "spilled"])
def test_places_say_nothing_about_messages(
    tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 100_000
    monkeypatch.setattr(on_disk, "BLOCK", 10_000)
    question = Choice(range(size - 1), missing="count")
    plan = plans.plan_of(("answer", question, Flips(plans.LEAST, 1, size)), users=size)
    codes = np.arange(size, dtype=np.uint32)
    source = plans.written(tmp_path / "e.parquet", plan, codes)
    Local(workers=2, memory=memory).shuffle([source], plan, tmp_path / "s.parquet")
    found = plans.read(tmp_path / "s.parquet")
    assert np.array_equal(np.sort(found), codes)
    # Each correlation has standard deviation 1/√n, and there are four of them.
    limit = stats.norm.isf(FALSE_ALARM / 8) / math.sqrt(size)
    assert max(correlations(found)) < limit
    # Shuffled inside blocks only, which a shuffle of batch after batch would be: seen.
    random = np.random.default_rng(0)
    blocks = np.concatenate([random.permutation(part) for part in np.split(codes, 10)])
    assert max(correlations(blocks)) > limit


def test_buckets_hold_the_smallest_type_and_every_message(tmp_path: Path) -> None:
    for space, kind in ((1, "u1"), (256, "u1"), (257, "u2"), (65_537, "u4"), (2**32, "u4")):
        codes = np.array([0, space - 1, space // 2] * 30, np.uint32)
        with Buckets(
            np.min_scalar_type(space - 1), secure_words(), folder=tmp_path, memory=50, workers=2
        ) as buckets:
            buckets.fill([codes[:10], codes[10:10], codes[10:]])
            assert buckets.kind == np.dtype(kind)
            assert len(buckets) == 90
            found = np.concatenate(list(buckets.ordered()))
        assert np.array_equal(np.sort(found), np.sort(codes))


@settings(max_examples=25)
@given(
    batches=st.lists(st.lists(st.integers(0, 299), max_size=30), max_size=8),
    memory=st.integers(1, 2000),
    block=st.integers(1, 50),
    workers=st.integers(1, 3),
)
def test_no_message_is_lost_or_made(
    batches: list[list[int]], memory: int, block: int, workers: int
) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as name,
        Buckets(
            np.min_scalar_type(299),
            secure_words(),
            folder=Path(name),
            memory=memory,
            workers=workers,
        ) as buckets,
    ):
        patch.setattr(on_disk, "BUCKETS", 8)
        patch.setattr(on_disk, "BLOCK", block)
        buckets.sizes = np.zeros(8, np.int64)
        buckets.fill([np.array(batch, np.uint32) for batch in batches])
        found = [code for piece in buckets.ordered() for code in piece.tolist()]
    assert sorted(found) == sorted(itertools.chain(*batches))


def test_nothing_is_an_order_too(tmp_path: Path) -> None:
    with Buckets(
        np.min_scalar_type(4), secure_words(), folder=tmp_path, memory=50, workers=2
    ) as buckets:
        buckets.fill([])
        assert len(np.concatenate(list(buckets.ordered()))) == 0
