"""Every flipped bit and every length of a small file: refused, or nothing that is read changed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch.engines.local import Local
from chaffinch.errors import BatchTooSmall, ChaffinchError, InvalidFile, PlanMismatch
from chaffinch.wire.batches import BatchFacts
from chaffinch.wire.message_reader import MessageReader
from chaffinch.wire.message_writer import MessageWriter
from tests.engines import plans
from tests.tiers import chequered

FORMATS = ["parquet", "arrow"]
STAGES = ["encoded", "shuffled"]
PLAN = plans.clear(20, 5)
CODES = np.array([0, 1, 1, 4, 2, 0, 3, 3, 3, 1] * 2, np.uint32)

Read = tuple[list[int], BatchFacts, str]


def written(form: str, stage: str) -> bytes:
    file = io.BytesIO()
    with MessageWriter(file, plan_id=PLAN.id, stage=stage, space=PLAN.codes, format=form) as writer:
        writer.write(CODES, 20)
    return file.getvalue()


def read(content: bytes) -> Read:
    reader = MessageReader(io.BytesIO(content))
    numbers = [int(code) for batch in reader.batches() for code in batch]
    return numbers, reader.facts, reader.digest


def flips(content: bytes) -> Iterator[bytes]:
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            yield bytes(changed)


def accepted(changed: Iterator[bytes], whole: Read) -> tuple[int, int]:
    """Return how many were refused and how many were read; those must be as the whole was."""
    refused = same = 0
    for content in changed:
        try:
            found = read(content)
        except InvalidFile:
            refused += 1
            continue
        assert found == whole
        same += 1
    return refused, same


@pytest.mark.parametrize(("form", "stage"), chequered(((form,) for form in FORMATS), STAGES))
def test_every_flipped_bit(form: str, stage: str) -> None:
    content = written(form, stage)
    refused, same = accepted(flips(content), read(content))
    assert refused + same == 8 * len(content)
    assert refused > 0.4 * 8 * len(content)  # the rest is padding, and sizes that nobody reads


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("form", FORMATS)
def test_every_length(form: str, stage: str) -> None:
    content = written(form, stage)
    _, same = accepted((content[:cut] for cut in range(len(content))), read(content))
    # An Arrow stream may lack its end mark: the closing record came.
    assert same == (0 if form == "parquet" else 1)


@pytest.mark.parametrize("form", FORMATS)
def test_every_run_of_zeros(form: str) -> None:
    """A disk that lost a block gives zeros in its place."""
    content = written(form, "encoded")
    holes = (
        content[:first] + bytes(size) + content[first + size :]
        for size in (4, 16, 64)
        for first in range(0, len(content) - size, 3)
    )
    refused, same = accepted(holes, read(content))
    assert refused > same


@pytest.mark.parametrize("form", FORMATS)
def test_a_damaged_file_leaves_no_trace_of_a_shuffle(form: str, tmp_path: Path) -> None:
    """What was read before the damage showed is nowhere: not written, not in the record."""
    content = written(form, "encoded")
    source, record = tmp_path / "e", tmp_path / "record"
    for number, changed in enumerate(flips(content)):
        if number % 37:
            continue
        source.write_bytes(changed)
        try:
            read(changed)
        except InvalidFile:
            with pytest.raises((InvalidFile, PlanMismatch, BatchTooSmall)):
                Local(workers=1).shuffle([source], PLAN, tmp_path / "s", record=record)
            assert [path.name for path in tmp_path.iterdir()] == ["e"]


@pytest.mark.parametrize("form", FORMATS)
def test_the_file_is_opened_once(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exchange of the file after it was opened changes nothing."""
    path = tmp_path / "m"
    path.write_bytes(written(form, "encoded"))
    opened: list[Any] = []
    plain = Path.open

    def spy(self: Path, *args: Any, **options: Any) -> Any:
        opened.append(self)
        return plain(self, *args, **options)

    monkeypatch.setattr(Path, "open", spy)
    reader = MessageReader(path)
    assert opened == [path]
    (tmp_path / "other").write_bytes(written(form, "shuffled"))
    opened.clear()
    os.replace(tmp_path / "other", path)  # noqa: PTH105
    assert [int(code) for batch in reader.batches() for code in batch] == CODES.tolist()
    assert reader.facts.stage == "encoded"
    assert not opened


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 10**6, 1 << 21).astype(np.uint32)
    with MessageWriter(tmp_path / "m", plan_id="p", stage="encoded", space=10**6) as writer:
        writer.write(numbers, len(numbers))
    reader = MessageReader(tmp_path / "m")
    batches = reader.batches()
    next(batches)
    content = bytearray((tmp_path / "m").read_bytes())
    middle = len(content) * 3 // 4
    content[middle : middle + 100] = bytes(100)
    with (tmp_path / "m").open("r+b") as file:
        file.write(content)
    with pytest.raises(ChaffinchError):
        for _ in batches:
            pass
