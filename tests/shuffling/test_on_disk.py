"""Messages that are spilled to a disk: where they go, and a disk that fails."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from chaffinch.errors import StorageFault
from chaffinch.sampling import secure_words
from chaffinch.shuffling import on_disk
from chaffinch.shuffling.on_disk import Buckets
from tests.cases import each_case

CODES = np.arange(100, dtype=np.uint32)
TEMPORARY: Any = tempfile.TemporaryFile


class Failing:
    """A file that fails at one verb from the second use on."""

    def __init__(self, file: IO[bytes], verb: str) -> None:
        self.file, self.verb, self.uses = file, verb, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def _use(self, verb: str) -> bool:
        self.uses += verb == self.verb
        return verb == self.verb and self.uses > 1

    def write(self, data: bytes) -> int:
        if self._use("write"):
            raise OSError(errno.ENOSPC, "full")
        return self.file.write(data)

    def flush(self) -> None:
        if self._use("flush"):
            raise OSError(errno.ENOSPC, "full")
        self.file.flush()

    def read(self, size: int) -> bytes:
        if self._use("read"):
            raise OSError(errno.EIO, "broken")
        if self._use("short read"):
            return self.file.read(size)[:-1]
        return self.file.read(size)


def shuffled(folder: Path) -> list[int]:
    with Buckets(
        np.min_scalar_type(99), secure_words(), folder=folder, memory=50, workers=1
    ) as buckets:
        buckets.fill([CODES, CODES])
        return sorted(code for piece in buckets.ordered() for code in piece.tolist())


def test_what_is_spilled_goes_to_the_folder_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def temporary(**options: Any) -> Any:
        folders.append(options["dir"])
        return TEMPORARY(**options)

    monkeypatch.setattr(tempfile, "TemporaryFile", temporary)
    assert shuffled(tmp_path) == sorted([*range(100), *range(100)])
    assert set(folders) == {tmp_path}


@pytest.mark.parametrize(
    ("verb", "said"),
    [("write", "write"), ("flush", "write"), ("read", "read"), ("short read", "read")],
)
def test_a_disk_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, said: str
) -> None:
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **options: Failing(TEMPORARY(**options), verb)
    )
    with pytest.raises(StorageFault, match=said):
        shuffled(tmp_path)


# -------------------------------------------------------------------- how much is held


class Watched(Buckets):
    """Buckets that keep how many messages came to them at once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(np.min_scalar_type(99), secure_words(), **options)
        self.blocks: list[int] = []
        self.spills: list[int] = []

    def _scattered(self, codes: Any) -> Any:
        self.blocks.append(len(codes))
        return super()._scattered(codes)

    def _spill(self) -> None:
        self.spills.append(sum(int(run.bounds[-1]) for run in self._held))
        super()._spill()


@each_case(
    ("space", "kind"),
    [(1, "u1"), (256, "u1"), (257, "u2"), (65_536, "u2"), (65_537, "u4"), (2**32, "u4")],
)
def test_messages_are_held_in_the_smallest_type(tmp_path: Path, space: int, kind: str) -> None:
    with Buckets(
        np.min_scalar_type(space - 1), secure_words(), folder=tmp_path, memory=50, workers=1
    ) as buckets:
        assert buckets.kind == np.dtype(kind)


@pytest.mark.parametrize(
    ("block", "blocks"), [(5, [8, 8, 4]), (8, [8, 8, 4]), (9, [12, 8]), (100, [20])]
)
def test_messages_are_sent_to_buckets_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, blocks: list[int]
) -> None:
    monkeypatch.setattr(on_disk, "BLOCK", block)
    told: list[int] = []
    with Watched(folder=tmp_path, memory=1000, workers=1) as buckets:
        buckets.fill([CODES[start : start + 4] for start in range(0, 20, 4)], told.append)
        assert buckets.blocks == blocks
        assert told == np.cumsum(blocks).tolist()
        assert len(buckets) == 20


@pytest.mark.parametrize(("memory", "files"), [(39, 1), (40, 0), (29, 1), (9, 1)])
def test_more_than_fits_into_memory_is_spilled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, files: int
) -> None:
    """Forty messages of a byte, ten at once."""
    opened: list[dict[str, Any]] = []

    def temporary(**options: Any) -> Any:
        opened.append(options)
        return TEMPORARY(**options)

    monkeypatch.setattr(on_disk, "BLOCK", 10)
    monkeypatch.setattr(tempfile, "TemporaryFile", temporary)
    with Watched(folder=tmp_path, memory=memory, workers=1) as buckets:
        buckets.fill([CODES[start : start + 10] for start in range(0, 40, 10)])
        assert len(opened) == files
        found = [code for piece in buckets.ordered() for code in piece.tolist()]
    assert sorted(found) == list(range(40))


def test_nothing_is_held_any_more_when_all_is_done(tmp_path: Path) -> None:
    with Watched(folder=tmp_path, memory=1000, workers=1) as buckets:
        buckets.fill([CODES])
        assert sum(len(piece) for piece in buckets.ordered()) == 100
    assert sum(len(piece) for piece in buckets.ordered()) == 0


def test_every_bucket_is_used(tmp_path: Path) -> None:
    """With a mean of 256 messages an empty bucket has a chance below 1e-100."""
    with Watched(folder=tmp_path, memory=1 << 20, workers=1) as buckets:
        buckets.fill([np.zeros(1 << 16, np.uint8)])
    assert (buckets.sizes > 0).all()


def test_memory_is_as_large_after_a_spill_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "BLOCK", 10)
    with Watched(folder=tmp_path, memory=20, workers=1) as buckets:
        buckets.fill([CODES[:10]] * 7)
    assert buckets.spills == [30, 30, 10]


@pytest.mark.parametrize(("memory", "workers", "largest"), [(1, 1, 1), (160, 2, 2), (160, 1, 4)])
def test_no_piece_is_larger_than_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, workers: int, largest: int
) -> None:
    monkeypatch.setattr(on_disk, "BUCKETS", 4)
    with Watched(folder=tmp_path, memory=memory, workers=workers) as buckets:
        buckets.fill([CODES])
        sizes = [len(piece) for piece in buckets.ordered()]
    assert sum(sizes) == 100
    assert max(sizes) <= largest
