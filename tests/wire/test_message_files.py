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

from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.wire.batches import BatchFacts, CodeCounts, digest_of
from chaffinch.wire.message_reader import MessageReader
from chaffinch.wire.message_writer import MessageWriter
from tests.cases import each_case

FORMATS = ["parquet", "arrow"]
SPACE = 1000
GOOD: dict[str, Any] = {
    "plan_id": "ab" * 32,
    "stage": "encoded",
    "space": SPACE,
    "round": 1,
    "name": "0123456789abcdef" * 2,
}
SCHEMA = pa.schema([pa.field("message", pa.uint32(), nullable=False)])
FACTS = BatchFacts(reports=7, **GOOD)


def codes(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.random.default_rng(seed).integers(0, SPACE, count, dtype=np.uint32)


def save(target: Any, numbers: Any, reports: int = 7, **options: Any) -> None:
    with MessageWriter(target, **(GOOD | options)) as writer:
        writer.write(numbers, reports)


def load(source: Any) -> tuple[list[int], BatchFacts]:
    reader = MessageReader(source)
    numbers = [int(x) for batch in reader.batches() for x in batch]
    return numbers, reader.facts


@each_case("name", ["m.parquet", "m", "m.arrow"])
@each_case("sizes", [[], [0], [5], [70_000, 3, 0, 1 << 20, 1]])
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
    batches = list(reader.batches())
    assert all(batch.dtype == np.uint32 and len(batch) for batch in batches)
    expected = np.concatenate([np.empty(0, np.uint32), *parts])
    assert np.array_equal(np.concatenate([np.empty(0, np.uint32), *batches]), expected)
    assert reader.facts == BatchFacts(reports=sum(size // 2 for size in sizes), **GOOD)
    assert reader.digest == writer.digest
    assert np.array_equal(reader.counts.dense(), np.bincount(expected, minlength=SPACE))
    with pytest.raises(InvalidInput, match="once"):
        next(reader.batches())


@given(
    numbers=st.lists(st.integers(0, 10**7 - 1), max_size=50),
    reports=st.integers(0, 10**9),
    stage=st.sampled_from(["encoded", "shuffled"]),
    form=st.sampled_from(FORMATS),
)
def test_any_messages_survive(numbers: list[int], reports: int, stage: str, form: str) -> None:
    file = io.BytesIO()
    array = np.array(numbers, np.uint32)
    save(file, array, reports, space=10**7, stage=stage, format=form)
    file.seek(0)
    facts = BatchFacts(**(GOOD | {"stage": stage, "reports": reports, "space": 10**7}))
    assert load(file) == (numbers, facts)


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
        with pytest.raises(InvalidInput, match="last message"):
            _ = reader.facts
        assert np.array_equal(np.concatenate(list(reader.batches())), numbers)
        assert reader.facts == FACTS
    thread.join()


def test_facts_count_only_after_reading(tmp_path: Path) -> None:
    save(tmp_path / "m.parquet", codes(9))
    reader = MessageReader(tmp_path / "m.parquet")
    assert reader.start == FACTS
    assert reader.rows == 9
    with pytest.raises(InvalidInput, match="too early"):
        _ = reader.facts
    reader.close()


def test_the_file_is_small_and_flat(tmp_path: Path) -> None:
    save(tmp_path / "m.parquet", codes(1 << 20) % 2, space=2)
    assert (tmp_path / "m.parquet").stat().st_size < (1 << 22) / 10
    found = pq.ParquetFile(tmp_path / "m.parquet")
    assert found.metadata.num_row_groups == 1
    assert found.schema_arrow.remove_metadata() == SCHEMA
    found.close()


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


def parquet(table: pa.Table, facts: dict[str, str], **options: Any) -> bytes:
    sink = io.BytesIO()
    like_ours = {
        "compression": "none",
        "use_dictionary": False,
        "column_encoding": dict.fromkeys(table.column_names, "DELTA_BINARY_PACKED"),
        "write_page_checksum": True,
    }
    with pq.ParquetWriter(sink, table.schema, **(like_ours | options)) as writer:
        writer.write_table(table, row_group_size=max(1, len(table)))
        writer.add_key_value_metadata(facts)
    return sink.getvalue()


def stream(table: pa.Table, facts: dict[str, str], **options: Any) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(
        sink, table.schema.with_metadata(facts), options=pa.ipc.IpcWriteOptions(**options)
    ) as writer:
        writer.write_table(table)
        writer.write_batch(
            pa.record_batch(table.slice(0, 0).to_pydict(), schema=table.schema),
            custom_metadata=facts,
        )
    return sink.getvalue()


def honest(facts: BatchFacts, numbers: list[int], **change: str) -> dict[str, str]:
    """Return metadata with a true digest, by other means, and then something changed."""
    counts = CodeCounts(facts.space)
    counts.add(np.array(numbers, np.uint32))
    texts = {name: str(value) for name, value in vars(facts).items()}
    texts |= {"messages": "2", "digest": digest_of(facts, counts)} | change
    return {f"chaffinch.{name}": text for name, text in texts.items()}


PLAIN = pa.table({"message": pa.array([1, 2], pa.uint32())}, schema=SCHEMA)
KEPT = honest(FACTS, [1, 2])
WRONG: dict[str, tuple[pa.Table, dict[str, str]]] = {
    "another type": (pa.table({"message": pa.array([1], pa.int32())}), KEPT),
    "another name": (pa.table({"messages": pa.array([1], pa.uint32())}), KEPT),
    "gaps": (pa.table({"message": pa.array([1, None], pa.uint32())}), KEPT),
    "two columns": (PLAIN.append_column("x", pa.array([1, 2])), KEPT),
    "no facts": (PLAIN, {}),
    "a version without digests": (PLAIN, KEPT | {"chaffinch.messages": "1"}),
    "another version": (PLAIN, KEPT | {"chaffinch.messages": "3"}),
    "unknown stage": (PLAIN, KEPT | {"chaffinch.stage": "sorted"}),
    "another stage": (PLAIN, KEPT | {"chaffinch.stage": "shuffled"}),
    "another round": (PLAIN, KEPT | {"chaffinch.round": "2"}),
    "another batch": (PLAIN, KEPT | {"chaffinch.name": "ab" * 16}),
    "more reports": (PLAIN, KEPT | {"chaffinch.reports": "8"}),
    "a number in another way": (PLAIN, KEPT | {"chaffinch.reports": "07"}),
    "a digit of another script": (PLAIN, KEPT | {"chaffinch.reports": "٧"}),
    "no number": (PLAIN, KEPT | {"chaffinch.reports": "-1"}),
    "a huge number": (PLAIN, KEPT | {"chaffinch.reports": "9" * 5000}),
    "no space": (PLAIN, KEPT | {"chaffinch.space": "0"}),
    "a huge space": (PLAIN, KEPT | {"chaffinch.space": str(10**7 + 1)}),
    "no plan": (PLAIN, KEPT | {"chaffinch.plan_id": ""}),
    "one fact more": (PLAIN, KEPT | {"chaffinch.other": "1"}),
    "another digest": (PLAIN, KEPT | {"chaffinch.digest": "ab" * 32}),
    "other messages": (PLAIN.slice(1), KEPT),
    "too large": (PLAIN, KEPT | {"chaffinch.space": "2"}),
    **{f"without {key}": (PLAIN, {k: v for k, v in KEPT.items() if k != key}) for key in KEPT},
}


@each_case("made", [parquet, stream])
@each_case("fault", WRONG)
def test_each_fault_is_refused(
    fault: str, made: Callable[[pa.Table, dict[str, str]], bytes]
) -> None:
    assert load(io.BytesIO(made(PLAIN, KEPT))) == ([1, 2], FACTS)
    with pytest.raises(InvalidFile):
        load(io.BytesIO(made(*WRONG[fault])))


def test_version_1_says_what_to_do() -> None:
    with pytest.raises(InvalidFile, match=r"no digest(.|\n)*hint: encode the answers again"):
        load(io.BytesIO(parquet(PLAIN, KEPT | {"chaffinch.messages": "1"})))


def test_all_missing_facts_are_listed() -> None:
    with pytest.raises(InvalidFile) as caught:
        load(io.BytesIO(parquet(PLAIN, {"chaffinch.messages": "2"})))
    assert len(caught.value.faults) == 7


def test_of_very_many_unknown_facts_a_few_are_told() -> None:
    many = {f"chaffinch.x{number}": "y" for number in range(20_000)}
    with pytest.raises(InvalidFile) as caught:
        load(io.BytesIO(stream(PLAIN, KEPT | many)))
    assert len(str(caught.value)) < 2_000


def test_gaps_hidden_behind_a_promise_are_refused() -> None:
    gaps = pa.record_batch([pa.array([1, None], pa.uint32())], schema=SCHEMA)
    with pytest.raises(InvalidFile, match="gap"):
        load(io.BytesIO(stream(pa.Table.from_batches([gaps]), KEPT)))


def test_an_end_that_tells_of_another_plan_is_refused() -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, SCHEMA.with_metadata(KEPT)) as writer:
        empty = pa.record_batch([pa.array([], pa.uint32())], schema=SCHEMA)
        writer.write_batch(empty, custom_metadata=KEPT | {"chaffinch.plan_id": "cd"})
    with pytest.raises(InvalidFile, match="damaged"):
        load(io.BytesIO(sink.getvalue()))


def test_two_streams_in_one_are_refused() -> None:
    one = stream(PLAIN, KEPT)
    with pytest.raises(InvalidFile, match="a single batch"):
        load(io.BytesIO(one + one))


MANY = pa.table({"message": pa.array(np.zeros(1 << 20, np.uint32))}, schema=SCHEMA)


@pytest.mark.parametrize(
    "packing",
    [
        {"compression": "zstd"},
        {"use_dictionary": True, "column_encoding": None},
        {"column_encoding": {"message": "PLAIN"}},
        {"data_page_version": "2.0"},
        {"write_page_checksum": False},
    ],
    ids=str,
)
def test_parquet_that_is_packed_in_another_way_is_refused(packing: dict[str, Any]) -> None:
    """Only what is written here is read, so that no few bytes can be blown up."""
    content = parquet(PLAIN, KEPT, **packing)
    with pytest.raises(InvalidFile, match="packed in another way"):
        MessageReader(io.BytesIO(content))


def test_groups_that_are_too_large_are_refused() -> None:
    table = pa.concat_tables([MANY, PLAIN]).combine_chunks()
    content = parquet(table, honest(FACTS, [0] * (1 << 20) + [1, 2]))
    assert load(io.BytesIO(parquet(MANY, honest(FACTS, [0] * (1 << 20)))))[1] == FACTS
    with pytest.raises(InvalidFile, match="in groups of at most 1048576 messages"):
        MessageReader(io.BytesIO(content))


def test_a_stream_is_not_blown_up() -> None:
    """A small stream cannot take much memory: it is refused by what it says it holds."""
    packed = stream(MANY, honest(FACTS, [0] * (1 << 20)), compression="zstd")
    assert len(packed) < 4000
    with pytest.raises(InvalidFile, match="plain batches"):
        load(io.BytesIO(packed))
    large = pa.record_batch([pa.array(np.zeros(1 << 22, np.uint32))], schema=SCHEMA)
    with pytest.raises(InvalidFile, match="plain batches"):
        load(io.BytesIO(stream(pa.Table.from_batches([large]), KEPT)))


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
