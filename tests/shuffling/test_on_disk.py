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
from chaffinch.shuffling.on_disk import Buckets

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

    def read(self, size: int) -> bytes:
        if self._use("read"):
            raise OSError(errno.EIO, "broken")
        if self._use("short read"):
            return self.file.read(size)[:-1]
        return self.file.read(size)


def shuffled(folder: Path) -> list[int]:
    with Buckets(100, secure_words(), folder=folder, memory=50, workers=1) as buckets:
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


@pytest.mark.parametrize("verb", ["write", "read", "short read"])
def test_a_disk_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda **options: Failing(TEMPORARY(**options), verb)
    )
    with pytest.raises(StorageFault, match=verb.rsplit(maxsplit=1)[-1]):
        shuffled(tmp_path)
