"""How often ids were seen: against a plain count, in small and in bounded memory."""

from __future__ import annotations

import os
import stat
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import StorageFault
from chaffinch.reach.publisher.filter_making import Repeats

SMALLEST = 16


def found(batches: list[list[int]], most: int, held: int = SMALLEST) -> dict[int, set[int]]:
    """Return which digests were seen at least so many times."""
    seen: dict[int, set[int]] = {times: set() for times in range(2, most + 1)}
    with Repeats(most, held=held) as repeats:
        for batch in batches:
            repeats.add(np.array(batch, dtype=np.uint64))
        for times, digests in repeats.seen():
            seen[times] |= set(digests.tolist())
    return seen


def counted(batches: list[list[int]], most: int) -> dict[int, set[int]]:
    """Return the same from a plain count."""
    counts = Counter(digest for batch in batches for digest in batch)
    return {
        times: {digest for digest, count in counts.items() if count >= times}
        for times in range(2, most + 1)
    }


few = st.integers(0, 5)
many = st.integers(0, 2**64 - 1)
near = st.builds(lambda cell, rest: (cell << 52) + rest, st.integers(0, 3), st.integers(0, 9))


@given(st.lists(st.lists(st.one_of(few, many, near), max_size=60), max_size=8), st.integers(1, 6))
def test_repeats_are_what_a_plain_count_says(batches: list[list[int]], most: int) -> None:
    assert found(batches, most) == counted(batches, most)
    assert found(batches, most, held=10_000) == counted(batches, most)


def test_many_runs_are_put_together_again() -> None:
    random = np.random.default_rng(3)
    ids = random.integers(0, 2**64, 20_000, dtype=np.uint64)
    views = ids[random.integers(0, len(ids), 60_000)]
    batches = [part.tolist() for part in np.array_split(views, 37)]
    assert found(batches, 4, held=1000) == counted(batches, 4)


def test_a_digest_at_each_end_of_its_range_is_found() -> None:
    edges = [cell << 52 for cell in range(0, 4096, 7)]
    ends = [(cell << 52) - 1 for cell in range(7, 4096, 7)]
    batches = [edges + ends] * 3
    assert found(batches, 3, held=500) == counted(batches, 3)


class Counted:
    """Count what is written to a temporary file."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        self.status: os.stat_result | None = None
        make = tempfile.TemporaryFile

        def made(*args: Any, **kwargs: Any) -> Any:
            file = make(*args, **kwargs)
            self.status = os.fstat(file.fileno())
            outer = self

            class Watched:
                def write(self, data: Any) -> int:
                    outer.bytes += len(data)
                    return int(file.write(data))

                def __getattr__(self, name: str) -> Any:
                    return getattr(file, name)

            return Watched()

        patch.setattr(tempfile, "TemporaryFile", made)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def test_what_fits_is_not_written(written: Counted) -> None:
    assert found([list(range(900))] * 2, 2, held=10_000)[2] == set(range(900))
    assert not written.bytes


def test_one_id_a_million_times_takes_no_room(written: Counted) -> None:
    with Repeats(3, held=1000) as repeats:
        for _ in range(100):
            repeats.add(np.full(10_000, 42, np.uint64))
        seen = [(times, set(digests.tolist())) for times, digests in repeats.seen()]
    assert seen == [(2, {42}), (3, {42})]
    assert not written.bytes


def test_a_frequent_id_among_many_is_thinned_in_every_run(written: Counted) -> None:
    random = np.random.default_rng(5)
    with Repeats(2, held=1000) as repeats:
        for _ in range(50):
            own = random.integers(0, 2**64, 1000, dtype=np.uint64)
            repeats.add(np.concatenate([np.full(9_000, 42, np.uint64), own]))
        seen = {digest for _, digests in repeats.seen() for digest in digests.tolist()}
    assert seen == {42}
    # 50,000 ids once each, and of 450,000 copies only two in each of at most 100 runs.
    assert written.bytes <= 8 * (50_000 + 200)


def test_memory_is_bounded_whatever_is_added(written: Counted) -> None:
    held, total = 1 << 14, 1 << 20
    random = np.random.default_rng(7)
    tracemalloc.start()
    try:
        with Repeats(3, held=held) as repeats:
            for _ in range(total // held):
                repeats.add(random.integers(0, 2**64, held, dtype=np.uint64))
            for _ in repeats.seen():
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert written.bytes == 8 * total
    # 64 runs of 32 KiB of cuts each, and a few times what is held; all of it would be 8 MiB.
    assert peak < 64 * (1 << 15) + 8 * 8 * held + (1 << 18)


@pytest.mark.skipif(os.name != "posix", reason="permissions of this kind are POSIX")
def test_nobody_else_can_read_what_is_written(written: Counted) -> None:
    found([list(range(100))], 2)
    assert written.status is not None
    assert not stat.S_IMODE(written.status.st_mode) & 0o077
    assert written.status.st_nlink == 0


def test_a_full_disk_is_a_clear_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: Any, **_kwargs: Any) -> Iterator[None]:
        raise OSError(28, "no space")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageFault, match="temporary file"):
        found([list(range(100))], 2)
