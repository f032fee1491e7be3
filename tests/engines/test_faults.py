"""Whatever goes wrong is said, and leaves every folder as it was."""

from __future__ import annotations

import errno
import io
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.disk import files
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.encoding import bulk
from chaffinch.engines import local as module
from chaffinch.engines.local import Local
from chaffinch.errors import (
    BatchTooSmall,
    ChaffinchError,
    GuaranteeNotProven,
    InvalidFile,
    InvalidInput,
    InvalidTable,
    PlanMismatch,
    StorageFault,
)
from chaffinch.protocols import Flips
from chaffinch.questions import Bit
from chaffinch.shuffling import on_disk
from chaffinch.tables.read import open_table
from chaffinch.wire.batches import BatchFacts, new_name
from tests import forks
from tests.engines import plans

USERS = 1000
PLAN = plans.clear(USERS, 5)
CODES = plans.answers(USERS, 5)
ENGINE = Local(workers=2, memory=1000)
FULL = Path("/dev/full")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a table and messages, and older results that must stay."""
    plans.table(tmp_path / "table.parquet", CODES)
    plans.written(tmp_path / "encoded.parquet", PLAN, CODES)
    plans.written(tmp_path / "encoded.arrow", PLAN, CODES)
    plans.written(tmp_path / "shuffled.parquet", PLAN, CODES, stage="shuffled")
    plans.written(tmp_path / "few.parquet", PLAN, CODES[1:])
    (tmp_path / "out.parquet").write_bytes(b"an older file")
    return tmp_path


def cut(folder: Path, name: str, keep: float) -> Path:
    whole = (folder / name).read_bytes()
    path = folder / f"cut-{name}"
    path.write_bytes(whole[: int(len(whole) * keep)])
    return path


def facts(stage: str = "encoded") -> BatchFacts:
    return BatchFacts(PLAN.id, stage, USERS, PLAN.codes, 1, new_name())


MESSAGES: dict[str, tuple[Callable[[Path], Any], type[ChaffinchError], str]] = {
    "another plan": (
        lambda f: plans.written(f / "x.parquet", plans.clear(USERS - 1, 5), CODES),
        PlanMismatch,
        "must belong to plan",
    ),
    "too few": (lambda f: f / "few.parquet", BatchTooSmall, "1,000 reports or more. Got 999"),
    "cut file": (lambda f: cut(f, "encoded.parquet", 0.8), InvalidFile, "damaged, cut off"),
    "cut stream": (lambda f: cut(f, "encoded.arrow", 0.9), InvalidFile, "damaged, cut off"),
    "no file": (lambda f: f / "none.parquet", InvalidFile, "no file named"),
    "a table": (lambda f: f / "table.parquet", InvalidFile, "no mark"),
    "another space": (
        lambda f: plans.written(f / "x.parquet", PLAN, CODES, space=6),
        InvalidFile,
        "of 5 possible messages",
    ),
    "a larger code": (
        lambda f: plans.forged(f / "x.parquet", facts(), [*CODES[1:].tolist(), 5]),
        InvalidFile,
        "below 5",
    ),
    "too many messages": (
        lambda f: plans.forged(f / "x.parquet", facts(), CODES.tolist() * 2 + [0]),
        InvalidFile,
        "at most 2 messages for each report",
    ),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_messages_that_are_not_shuffled(folder: Path, kind: str) -> None:
    make, error, words = MESSAGES[kind]
    source = make(folder)
    before = plans.listing(folder)
    with pytest.raises(error, match=words):
        ENGINE.shuffle([source], PLAN, folder / "out.parquet")
    assert plans.listing(folder) == before


def test_shuffling_and_counting_want_the_right_stage(folder: Path) -> None:
    before = plans.listing(folder)
    with pytest.raises(InvalidFile, match=r"of shuffled messages. Got encoded(.|\n)*shuffle the"):
        ENGINE.tally([folder / "encoded.parquet"], PLAN)
    with pytest.raises(InvalidFile, match=r"of encoded messages. Got shuffled"):
        ENGINE.shuffle([folder / "shuffled.parquet"], PLAN, folder / "out.parquet")
    assert plans.listing(folder) == before


def test_counting_refuses_what_shuffling_does(folder: Path) -> None:
    other = plans.written(folder / "o.parquet", plans.clear(USERS - 1, 5), CODES, stage="shuffled")
    with pytest.raises(PlanMismatch):
        ENGINE.tally([other], PLAN)
    few = plans.written(folder / "f.parquet", PLAN, CODES[1:], stage="shuffled")
    with pytest.raises(BatchTooSmall):
        ENGINE.tally([few], PLAN)
    large = plans.forged(folder / "l.parquet", facts("shuffled"), [*CODES[1:].tolist(), 5])
    with pytest.raises(InvalidFile, match="below 5"):
        ENGINE.tally([large], PLAN)
    many_more = plans.forged(folder / "m.parquet", facts("shuffled"), CODES.tolist() * 3)
    with pytest.raises(InvalidFile, match="at most 2 messages"):
        ENGINE.tally([many_more], PLAN)
    with pytest.raises(InvalidFile, match="damaged"):
        ENGINE.tally([cut(folder, "shuffled.parquet", 0.5)], PLAN)


@pytest.mark.parametrize("sources", [[], "encoded.parquet"])
def test_sources_are_a_list(folder: Path, sources: Any) -> None:
    with pytest.raises(InvalidInput, match="message files"):
        ENGINE.shuffle(sources, PLAN, folder / "out.parquet")


def test_what_is_read_is_not_overwritten(folder: Path) -> None:
    before = plans.listing(folder)
    (folder / "link.parquet").symlink_to(folder / "encoded.parquet")
    with pytest.raises(InvalidInput, match="another file than the source"):
        ENGINE.shuffle([folder / "encoded.parquet"], PLAN, folder / "link.parquet")
    with pytest.raises(InvalidInput, match="another file than the source"):
        ENGINE.encode(folder / "table.parquet", PLAN, str(folder / "table.parquet"))
    (folder / "link.parquet").unlink()
    assert plans.listing(folder) == before


def test_a_plan_that_does_not_hold_encodes_nothing(folder: Path) -> None:
    weak = plans.plan_of(
        ("answer", Bit(), Flips(Fraction(1, 2**20))), users=10, epsilon=1.0, delta=1e-9
    )
    before = plans.listing(folder)
    with pytest.raises(GuaranteeNotProven):
        ENGINE.encode(["yes", "no"], weak, folder / "out.parquet")
    assert plans.listing(folder) == before


@pytest.mark.parametrize("bad", [[USERS - 1], [0], [150, 720, 999], [399, 400, 401]])
def test_the_first_unknown_answer_is_named_by_its_row(
    folder: Path, bad: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ROWS", 100)
    values = [f"v{number}" for number in CODES.tolist()]
    for place in bad:
        values[place] = "a secret"
    pq.write_table(pa.table({"answer": values}), folder / "table.parquet")
    before = plans.listing(folder)
    with pytest.raises(InvalidTable) as caught:
        ENGINE.encode(folder / "table.parquet", PLAN, folder / "out.parquet")
    assert caught.value.row == bad[0]
    assert "secret" not in str(caught.value)
    assert plans.listing(folder) == before


def test_an_answer_comes_before_a_later_fault_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ROWS", 10)
    values = ["v0"] * 14 + ["unknown"] + ["v0"] * 15
    source = folder / "table.parquet"
    pq.write_table(
        pa.table({"answer": values}), source, row_group_size=10, write_page_checksum=True
    )
    last = pq.read_metadata(source).row_group(2).column(0)
    damaged = bytearray(source.read_bytes())
    damaged[last.dictionary_page_offset + last.total_compressed_size - 1] ^= 255
    source.write_bytes(damaged)
    with pytest.raises(InvalidTable, match="damaged"):
        list(open_table(source).batches(["answer"]))
    with pytest.raises(InvalidTable) as caught:
        ENGINE.encode(source, PLAN, folder / "out.parquet")
    assert caught.value.row == 14


class Full:
    """A disk that is full at the k-th writing."""

    def __init__(self, patch: pytest.MonkeyPatch, k: int) -> None:
        self.left = k
        raw, append, sync = files._Raw.write, on_disk._append, os.fsync  # noqa: SLF001

        def raw_write(file: files._Raw, data: Any, /) -> int:
            try:
                self.count()
            except OSError as error:
                raise storage_fault(file.label, error, verb="write") from None
            return raw(file, data)

        patch.setattr(files._Raw, "write", raw_write)  # noqa: SLF001
        patch.setattr(on_disk, "_append", self.counted(append))
        patch.setattr(os, "fsync", self.counted(sync))

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any) -> Any:
            self.count()
            return function(*given)

        return counting

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(errno.ENOSPC, "")


@pytest.mark.parametrize("target", ["out.parquet", "out.arrow"])
@pytest.mark.parametrize("verb", ["encode", "shuffle"])
def test_a_disk_that_is_full_at_any_writing(
    folder: Path, verb: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "BUCKETS", 4)
    monkeypatch.setattr(on_disk, "BLOCK", 500)
    small = Local(workers=2, memory=10_000 if verb == "encode" else 800)
    work: dict[str, Callable[[], BatchFacts]] = {
        "encode": lambda: small.encode(folder / "table.parquet", PLAN, folder / target),
        "shuffle": lambda: small.shuffle([folder / "encoded.parquet"], PLAN, folder / target),
    }
    before = plans.listing(folder)
    failures = 0
    while plans.listing(folder) == before:
        with monkeypatch.context() as patch:
            Full(patch, failures + 1)
            # The sync of the folder comes last, and does not fail what is complete.
            with suppress(StorageFault):
                work[verb]()
                break
        failures += 1
    assert sorted(plans.listing(folder)) == sorted({*before, target})
    assert len(plans.read(folder / target)) == USERS
    assert failures >= 2 if verb == "encode" else failures >= 6


@pytest.mark.skipif(not FULL.exists(), reason="no such device here")
def test_a_full_device(folder: Path) -> None:
    with pytest.raises(StorageFault, match="no space left"):
        ENGINE.encode(folder / "table.parquet", PLAN, FULL)
    with pytest.raises(StorageFault, match="no space left"):
        ENGINE.shuffle([folder / "encoded.parquet"], PLAN, FULL)


@pytest.mark.parametrize(
    ("target", "words"), [("none/out.parquet", "no such file or folder"), ("", "a folder")]
)
def test_no_place_to_write_to_is_seen_before_reading(folder: Path, target: str, words: str) -> None:
    def never(_done: int, _total: int | None) -> None:
        pytest.fail("something was read")

    before = plans.listing(folder)
    for verb, source in (("shuffle", ["encoded.parquet"]), ("encode", "table.parquet")):
        given: Any = [folder / source[0]] if isinstance(source, list) else folder / source
        with pytest.raises(StorageFault, match=words):
            getattr(ENGINE, verb)(given, PLAN, folder / target, progress=never)
    assert plans.listing(folder) == before


def test_an_error_in_a_worker_is_raised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "ROWS", 100)

    def failing(plan: Any, names: Any, first: int, *rest: Any) -> Any:
        if first in {301, 501}:
            raise MemoryError(first)
        return bulk.encode_batch(plan, names, first, *rest)

    monkeypatch.setattr(module, "encode_batch", failing)
    before = plans.listing(folder)
    with pytest.raises(MemoryError, match="301"):
        ENGINE.encode(folder / "table.parquet", PLAN, folder / "out.parquet")
    assert plans.listing(folder) == before


@pytest.mark.parametrize("verb", ["encode", "shuffle"])
def test_an_interrupt_leaves_nothing(
    folder: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ROWS", 100)
    before = plans.listing(folder)
    threads = threading.active_count()

    def interrupt(done: int, total: int | None) -> None:
        if total == USERS and done >= 300:
            signal.raise_signal(signal.SIGINT)

    work: dict[str, tuple[Callable[..., Any], Any]] = {
        "encode": (ENGINE.encode, folder / "table.parquet"),
        "shuffle": (ENGINE.shuffle, [folder / "encoded.parquet"]),
    }
    run, source = work[verb]
    with pytest.raises(KeyboardInterrupt):
        run(source, PLAN, folder / "out.parquet", progress=interrupt)
    assert plans.listing(folder) == before
    assert threading.active_count() == threads


def test_a_killed_shuffle_leaves_no_messages_behind(folder: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from tests.engines import plans
from chaffinch.engines.local import Local
from chaffinch.shuffling import on_disk
on_disk.BLOCK = 100
append, sizes = on_disk._append, []
def spy(file, codes):
    append(file, codes)
    sizes.append(len(codes))
    if sum(sizes) > 500:
        file.flush()
        print(os.fstat(file.fileno()).st_mode & 0o777, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
on_disk._append = spy
folder = Path(sys.argv[1])
plan = plans.clear(1000, 5)
Local(memory=800).shuffle([folder / "encoded.parquet"], plan, folder / "out.parquet")
"""
    before = plans.listing(folder)
    done = forks.run(code, folder)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert int(done.stdout) == 0o600
    assert plans.listing(folder) == before


def test_the_messages_of_a_failed_stream_are_refused(folder: Path) -> None:
    values = ["v0"] * USERS + ["unknown"]
    out = io.BytesIO()
    with pytest.raises(InvalidTable):
        ENGINE.encode(values, PLAN, out)
    with pytest.raises(InvalidFile, match="cut off"):
        ENGINE.shuffle([out], PLAN, folder / "out.parquet")
    assert np.array_equal(plans.read(folder / "encoded.parquet"), CODES)
