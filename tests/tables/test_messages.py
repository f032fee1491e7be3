"""Messages come back as they were written, with their facts, or not at all."""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import ChaffinchError, InvalidFile, InvalidInput, PlanMismatch, StorageFault
from chaffinch.wire.message_files import MessageFacts, MessageReader, MessageWriter, open_messages

FORMATS = ["parquet", "arrow"]
SPACE = 1000
GOOD: dict[str, Any] = {"plan_id": "ab" * 32, "stage": "encoded", "space": SPACE}
SCHEMA = pa.schema([pa.field("message", pa.uint32(), nullable=False)])
FACTS = MessageFacts(reports=7, **GOOD)


def codes(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.random.default_rng(seed).integers(0, SPACE, count, dtype=np.uint32)


def save(target: Any, numbers: Any, reports: int = 7, **options: Any) -> None:
    with MessageWriter(target, **(GOOD | options)) as writer:
        writer.write(numbers, reports)


def load(source: Any) -> tuple[list[int], MessageFacts]:
    reader = MessageReader(source)
    numbers = [int(x) for batch in reader.batches() for x in batch]
    return numbers, reader.facts


@pytest.mark.parametrize("name", ["m.parquet", "m", "m.arrow"])
@pytest.mark.parametrize("sizes", [[], [0], [5], [70_000, 3, 0, 1 << 20, 1]])
def test_what_is_written_is_read(name: str, sizes: list[int], tmp_path: Path) -> None:
    path = tmp_path / name
    parts = [codes(size, seed) for seed, size in enumerate(sizes)]
    with MessageWriter(path, **GOOD) as writer:
        for part in parts:
            mine = part.copy()
            writer.write(mine, len(part) // 2)
            mine[:] = 0  # the writer keeps no hold of the caller's array
        assert not path.exists()
    reader = MessageReader(path)
    for _ in range(2):
        batches = list(reader.batches())
        assert all(batch.dtype == np.uint32 and len(batch) for batch in batches)
        expected = np.concatenate([np.empty(0, np.uint32), *parts])
        assert np.array_equal(np.concatenate([np.empty(0, np.uint32), *batches]), expected)
    assert reader.facts == MessageFacts(reports=sum(size // 2 for size in sizes), **GOOD)


@given(
    numbers=st.lists(st.integers(0, 2**32 - 1), max_size=50),
    reports=st.integers(0, 10**9),
    stage=st.sampled_from(["encoded", "shuffled"]),
    form=st.sampled_from(FORMATS),
)
def test_any_messages_survive(numbers: list[int], reports: int, stage: str, form: str) -> None:
    file = io.BytesIO()
    array = np.array(numbers, np.uint32)
    save(file, array, reports, space=2**32, stage=stage, format=form)
    file.seek(0)
    assert load(file) == (numbers, MessageFacts("ab" * 32, stage, reports, 2**32))


def test_a_pipe() -> None:
    out, into = os.pipe()
    numbers = codes(300_000)

    def fill() -> None:
        with os.fdopen(into, "wb") as file:
            save(file, numbers)

    thread = threading.Thread(target=fill)
    thread.start()
    with os.fdopen(out, "rb") as file:
        reader = MessageReader(file)
        assert reader.start.space == SPACE
        with pytest.raises(InvalidInput, match="last batch"):
            _ = reader.facts
        assert np.array_equal(np.concatenate(list(reader.batches())), numbers)
        assert reader.facts == FACTS
    thread.join()


def test_parquet_facts_are_known_before_reading(tmp_path: Path) -> None:
    save(tmp_path / "m.parquet", codes(9))
    assert MessageReader(tmp_path / "m.parquet").facts == FACTS


def test_the_file_is_small_and_flat(tmp_path: Path) -> None:
    save(tmp_path / "m.parquet", codes(1 << 20) % 2, space=2)
    assert (tmp_path / "m.parquet").stat().st_size < (1 << 22) / 10
    found = pq.ParquetFile(tmp_path / "m.parquet")
    assert found.metadata.num_row_groups == 1
    assert found.schema_arrow.remove_metadata() == SCHEMA
    found.close()


@pytest.mark.parametrize("form", FORMATS)
def test_cut_anywhere_it_is_refused(form: str) -> None:
    file = io.BytesIO()
    save(file, codes(500), format=form)
    whole = file.getvalue()
    last = len(whole) - 8  # an Arrow stream may lack its end mark: the closing record came
    for cut in [*range(0, last, 41), *range(last - 8, last)]:
        with pytest.raises(InvalidFile):
            load(io.BytesIO(whole[:cut]))
    assert load(io.BytesIO(whole))[1] == FACTS


def test_a_flipped_bit_is_noticed() -> None:
    file = io.BytesIO()
    save(file, codes(500), format="parquet")
    whole = file.getvalue()
    for place in range(60, 500, 20):  # inside the one page
        with pytest.raises(InvalidFile):
            load(io.BytesIO(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]))


def interrupted(target: Any, form: str, error: type[BaseException]) -> None:
    with MessageWriter(target, format=form, **GOOD) as writer:
        writer.write(codes(1 << 21), 5)
        raise error


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_writer_leaves_nothing_that_reads(
    error: type[BaseException], form: str, tmp_path: Path
) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"old")
    file = io.BytesIO()
    for target in (path, file):
        with pytest.raises(error):
            interrupted(target, form, error)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
    with pytest.raises(InvalidFile):
        load(io.BytesIO(file.getvalue()))


class Full(io.BytesIO):
    """A sink whose k-th write fails, and every later one."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.left = k

    def write(self, data: Any, /) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, "full")
        return super().write(data)


@pytest.mark.parametrize("form", FORMATS)
def test_a_sink_that_fills_at_any_write(form: str) -> None:
    for k in range(100):
        file = Full(k)
        try:
            save(file, codes(3000), format=form)
        except StorageFault as fault:
            assert "no space" in str(fault)  # noqa: PT017
            # The last write of a stream is its end mark, after everything that counts.
            with suppress(InvalidFile):
                assert load(io.BytesIO(file.getvalue())) == (codes(3000).tolist(), FACTS)
                assert form == "arrow"
        else:
            break
    assert k > 3
    assert load(io.BytesIO(file.getvalue()))[1] == FACTS


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk(form: str) -> None:
    with pytest.raises(StorageFault, match=r"'full'.*no space"):
        save("/dev/full", codes(10), format=form)


def parquet(table: pa.Table, facts: dict[str, str]) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(facts)
    return sink.getvalue()


def stream(table: pa.Table, facts: dict[str, str]) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema.with_metadata(facts)) as writer:
        writer.write_table(table)
        writer.write_batch(
            pa.record_batch(table.slice(0, 0).to_pydict(), schema=table.schema),
            custom_metadata=facts,
        )
    return sink.getvalue()


PLAIN = pa.table({"message": pa.array([1, 2], pa.uint32())}, schema=SCHEMA)
KEPT = FACTS.metadata()
WRONG: dict[str, tuple[pa.Table, dict[str, str]]] = {
    "another type": (pa.table({"message": pa.array([1], pa.int32())}), KEPT),
    "another name": (pa.table({"messages": pa.array([1], pa.uint32())}), KEPT),
    "gaps": (pa.table({"message": pa.array([1, None], pa.uint32())}), KEPT),
    "two columns": (PLAIN.append_column("x", pa.array([1, 2])), KEPT),
    "no facts": (PLAIN, {}),
    "another version": (PLAIN, KEPT | {"chaffinch.messages": "2"}),
    "unknown stage": (PLAIN, KEPT | {"chaffinch.stage": "sorted"}),
    "no number": (PLAIN, KEPT | {"chaffinch.reports": "-1"}),
    "a huge number": (PLAIN, KEPT | {"chaffinch.reports": "9" * 5000}),
    "no space": (PLAIN, KEPT | {"chaffinch.space": "0"}),
    "no plan": (PLAIN, KEPT | {"chaffinch.plan_id": ""}),
    "too large": (PLAIN, KEPT | {"chaffinch.space": "2"}),
    **{f"without {key}": (PLAIN, {k: v for k, v in KEPT.items() if k != key}) for key in KEPT},
}


@pytest.mark.parametrize("made", [parquet, stream])
@pytest.mark.parametrize("fault", WRONG)
def test_each_fault_is_refused(
    fault: str, made: Callable[[pa.Table, dict[str, str]], bytes]
) -> None:
    assert load(io.BytesIO(made(PLAIN, KEPT))) == ([1, 2], FACTS)
    with pytest.raises(InvalidFile):
        load(io.BytesIO(made(*WRONG[fault])))


def test_all_missing_facts_are_listed() -> None:
    with pytest.raises(InvalidFile) as caught:
        load(io.BytesIO(parquet(PLAIN, {"chaffinch.messages": "1"})))
    assert len(caught.value.faults) == 5


def test_gaps_hidden_behind_a_promise_are_refused() -> None:
    gaps = pa.record_batch([pa.array([1, None], pa.uint32())], schema=SCHEMA)
    with pytest.raises(InvalidFile, match="gap"):
        load(io.BytesIO(stream(pa.Table.from_batches([gaps]), KEPT)))


def test_an_end_that_tells_of_another_plan_is_refused() -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, SCHEMA.with_metadata(KEPT)) as writer:
        empty = pa.record_batch([pa.array([], pa.uint32())], schema=SCHEMA)
        writer.write_batch(empty, custom_metadata=KEPT | {"chaffinch.plan_id": "cd"})
    with pytest.raises(PlanMismatch):
        load(io.BytesIO(sink.getvalue()))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_several_files_are_read_as_one(suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.{suffix}" for i in range(3)]
    for seed, path in enumerate(paths):
        save(path, codes(100, seed), reports=seed)
    messages = open_messages(paths)
    found = np.concatenate(list(messages.batches()))
    assert np.array_equal(found, np.concatenate([codes(100, seed) for seed in range(3)]))
    assert messages.facts == MessageFacts(reports=3, **GOOD)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"plan_id": "cd" * 32}, PlanMismatch),
        ({"stage": "shuffled"}, InvalidFile),
        ({"space": SPACE + 1}, InvalidFile),
    ],
)
def test_files_that_do_not_belong_together(
    change: dict[str, Any], error: type[ChaffinchError], tmp_path: Path
) -> None:
    save(tmp_path / "a", codes(3))
    save(tmp_path / "b", codes(3), **change)
    with pytest.raises(error, match="'b'"):
        open_messages([tmp_path / "a", tmp_path / "b"])


def test_one_file_twice_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "a", codes(3))
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(InvalidInput, match="twice"):
        open_messages([tmp_path / "a", tmp_path / "b"])
    empty: list[str] = []
    for none in (empty, str(tmp_path / "a")):
        with pytest.raises(InvalidInput):
            open_messages(none)


@pytest.mark.parametrize("name", ["none", "folder", "empty", "text"])
def test_what_is_no_message_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_bytes(b"hello\n" * 30)
    with pytest.raises(InvalidFile, match=name):
        load(tmp_path / name)


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([SPACE], np.uint32),
        np.array([1], np.int64),
        np.zeros((2, 2), np.uint32),
    ],
)
def test_wrong_messages_are_not_written(numbers: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="messages"):
        save(tmp_path / "m", numbers)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change", [{"plan_id": ""}, {"stage": "sorted"}, {"space": 0}, {"format": "csv"}]
)
def test_wrong_facts_are_not_written(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        MessageWriter(tmp_path / "m", **(GOOD | change))


def test_a_writer_must_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="writer"):
        MessageWriter(tmp_path / "m", **GOOD).write(codes(1), 1)
