"""What was acknowledged is in the inbox, whatever happens; what was not is cut off, and no more."""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import struct
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from chaffinch.disk.kill_points import VARIABLE
from chaffinch.errors import Reason, StorageFault
from chaffinch.shuffling.inbox import (
    SegmentWriter,
    Upload,
    read_segment,
    recover,
    salvage,
    sealed_segments,
    unopened_segments,
)
from tests import forks
from tests.cases import each_case
from tests.tiers import nightly

PLAN = "5a" * 32
HEAD, BLOCK, UPLOAD = 28, 24, 40
"""Bytes of a head: of a segment, a block, an upload."""
UPLOADS = [Upload(PLAN, place + 1, bytes([place]) * (20 + place)) for place in range(5)]


def _left_open(folder: Path, *groups: Sequence[Upload]) -> Path:
    """Return the segment that a dead collector has left with these blocks in it."""
    folder.mkdir(exist_ok=True)
    writer = SegmentWriter(folder)
    for group in groups:
        writer.append(group)
    (path,) = folder.glob("*.open")
    content = path.read_bytes()
    writer.seal()
    path.with_suffix(".segment").unlink()
    path.write_bytes(content)
    return path


def _kept(folder: Path) -> list[Upload]:
    return [upload for path in sealed_segments(folder) for upload in read_segment(path)]


def test_uploads_are_read_as_they_were_written(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path)
    assert writer.length == 0
    writer.append(UPLOADS[:3])
    writer.append(UPLOADS[3:])
    assert (sealed_segments(tmp_path), unopened_segments(tmp_path)) == ([], 1)
    sealed = writer.seal()
    assert sealed is not None
    (tmp_path / "another.damaged").touch()
    assert (sealed_segments(tmp_path), unopened_segments(tmp_path)) == ([sealed], 1)
    assert read_segment(sealed) == UPLOADS
    assert sealed.stat().st_mode & 0o777 == 0o600
    assert writer.length == 0
    assert writer.seal() is None


def test_an_upload_without_reports_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Nobody is told to send none; whoever does must not take others along."""
    writer = SegmentWriter(tmp_path)
    writer.append([UPLOADS[0], Upload(PLAN, 1, b"")])
    writer.seal()
    assert _kept(tmp_path) == [UPLOADS[0], Upload(PLAN, 1, b"")]


def test_a_large_segment_is_sealed_and_no_name_comes_twice(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, largest=100)
    for upload in UPLOADS:
        writer.append([upload])
    found = sealed_segments(tmp_path)
    assert len(found) == len(UPLOADS)
    for path in found:
        path.unlink()
    again = SegmentWriter(tmp_path, largest=1)
    again.append(UPLOADS)
    assert not set(found) & set(sealed_segments(tmp_path))


def test_a_segment_is_sealed_by_the_byte_that_makes_it_large(tmp_path: Path) -> None:
    length = HEAD + BLOCK + UPLOAD + len(UPLOADS[0].reports)
    for largest, sealed in ((length + 1, 0), (length, 1)):
        writer = SegmentWriter(tmp_path, largest=largest)
        writer.append(UPLOADS[:1])
        assert len(sealed_segments(tmp_path)) == sealed
        writer.seal()
        for path in sealed_segments(tmp_path):
            path.unlink()


def test_a_folder_that_is_gone_is_a_fault_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(StorageFault):
        SegmentWriter(tmp_path / "gone").append(UPLOADS)


def test_several_collectors_share_a_folder_and_take_nothing_from_the_living(
    tmp_path: Path,
) -> None:
    first, second = SegmentWriter(tmp_path), SegmentWriter(tmp_path)
    first.append(UPLOADS[:1])
    second.append(UPLOADS[1:2])
    assert recover(tmp_path) == 0
    assert sealed_segments(tmp_path) == []
    first.append(UPLOADS[2:3])
    first.seal()
    second.seal()
    assert sorted(_kept(tmp_path)) == sorted(UPLOADS[:3])


def test_a_torn_tail_is_cut_at_every_byte(tmp_path: Path) -> None:
    path = _left_open(tmp_path, UPLOADS[:2], UPLOADS[2:4])
    content = path.read_bytes()
    last = len(_left_open(tmp_path / "one", UPLOADS[:2]).read_bytes())
    for end in range(last, len(content) + 1):
        for tail in (b"", bytes(len(content) - end), os.urandom(len(content) - end)):
            for sealed in sealed_segments(tmp_path):
                sealed.unlink()
            path.write_bytes(content[:end] + tail)
            whole = content[:end] + tail == content  # Also by chance.
            assert recover(tmp_path) == (0 if whole else end + len(tail) - last)
            assert _kept(tmp_path) == UPLOADS[: 4 if whole else 2]


def test_a_segment_that_was_just_made_is_no_fault(tmp_path: Path) -> None:
    content = _left_open(tmp_path, UPLOADS).read_bytes()
    path = next(tmp_path.glob("*.open"))
    for end in range(28 + 1):
        path.write_bytes(content[:end])
        assert recover(tmp_path) == (end if end < 28 else 0)
        assert list(tmp_path.iterdir()) == []
    path.write_bytes(bytes(28))
    assert recover(tmp_path) == 28, "a head that was never on the disk"
    assert list(tmp_path.iterdir()) == []


def test_damage_before_acknowledged_bytes_is_kept_and_nothing_is_cut(tmp_path: Path) -> None:
    path = _left_open(tmp_path, UPLOADS[:2], UPLOADS[2:4])
    content = path.read_bytes()
    last = len(_left_open(tmp_path / "one", UPLOADS[:2]).read_bytes())
    sealed = path.with_suffix(".segment")
    for place in range(last):
        for bit in (0, 7):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            assert recover(tmp_path) == 0
            assert sealed.read_bytes() == damaged
            with pytest.raises(StorageFault, match=sealed.name) as fault:
                read_segment(sealed)
            assert fault.value.reason is Reason.DAMAGED
            found = salvage(sealed)
            # A fault in the head takes nothing along; one in a block nothing but that block.
            assert found.uploads == (UPLOADS[:4] if place < HEAD else UPLOADS[2:4])
            assert place >= HEAD or not found.lost


@pytest.mark.parametrize("bad", [512, 1024, 4096])
def test_a_first_sector_that_the_disk_does_not_give_takes_only_its_blocks_along(
    tmp_path: Path, bad: int
) -> None:
    groups = [[Upload(PLAN, 1, bytes([place]) * 200), UPLOADS[0]] for place in range(30)]
    path = _left_open(tmp_path, *groups)
    block = (path.stat().st_size - HEAD) // len(groups)
    content = bytearray(path.read_bytes())
    content[:bad] = bytes(bad)
    path.write_bytes(content)
    assert recover(tmp_path) == 0
    left = [upload for one in groups[-(-(bad - HEAD) // block) :] for upload in one]
    damaged = path.with_suffix(".segment")
    assert salvage(damaged).uploads == left
    for name in (f"{path.stem}.damaged", f"{path.stem}.2.damaged"):
        damaged = damaged.rename(damaged.with_name(name))
        assert salvage(damaged).uploads == left
    foreign = damaged.rename(damaged.with_name("of another name.damaged"))
    assert salvage(foreign) == ([], []), "nobody knows where a block starts"
    foreign.write_bytes(bytes(HEAD + BLOCK + 3 * UPLOAD))
    assert salvage(foreign) == ([], []), "zeros look like uploads without reports"
    damaged.write_bytes(bytes(bad))
    assert salvage(damaged) == ([], [])


def test_a_damaged_head_takes_nothing_along_where_the_name_does_not_mark_blocks(
    tmp_path: Path,
) -> None:
    """As in segments of the version before."""
    path = _left_open(tmp_path, UPLOADS[:2], UPLOADS[2:4])
    path = path.rename(path.with_stem("5a" * 16))
    content = bytearray(path.read_bytes())
    content[:HEAD] = bytes(HEAD)
    path.write_bytes(content)
    assert recover(tmp_path) == 0
    assert salvage(path.with_suffix(".segment")) == (UPLOADS[:4], [])


@pytest.mark.parametrize("torn", [0, 30])
def test_what_a_stranger_sends_is_not_taken_for_a_block(tmp_path: Path, torn: int) -> None:
    """A report that holds a block of its own does not take all others along."""
    inner = struct.pack(">32sII", bytes.fromhex(PLAN), 1, 20) + bytes(20)
    made_up = bytes(16) + struct.pack(">II", len(inner), crc32(inner)) + inner
    hostile = Upload(PLAN, 1, bytes(1000) + made_up)
    path = _left_open(tmp_path, [hostile], UPLOADS[:2], UPLOADS[2:4])
    content = bytearray(path.read_bytes())
    content[:512] = bytes(512)
    path.write_bytes(content[: len(content) - torn])
    assert recover(tmp_path) == 0
    found = salvage(path.with_suffix(".segment"))
    assert found.uploads == (UPLOADS[:2] if torn else UPLOADS[:4])


def test_nothing_is_cut_off_a_segment_that_the_disk_does_not_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _left_open(tmp_path, UPLOADS[:2], UPLOADS[2:4])
    content = path.read_bytes()

    def read_bytes(_path: Path) -> bytes:
        raise OSError(errno.EIO, "")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", read_bytes)
        assert recover(tmp_path) == 0
    assert path.with_suffix(".segment").read_bytes() == content


@pytest.mark.parametrize("last", [False, True])
def test_a_page_that_the_disk_does_not_give_takes_one_block_along_and_no_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    last: bool,  # noqa: FBT001 - a case
) -> None:
    """Larger than what is read at once: the pieces on either side of the page are as they were."""
    groups = [[Upload(PLAN, place, os.urandom(100_000))] for place in range(30)]
    path = _left_open(tmp_path, *groups)
    recover(tmp_path)
    sealed = path.with_suffix(".segment")
    assert read_segment(sealed) == [upload for (upload,) in groups]
    bad, read = sealed.stat().st_size - 1 if last else (1 << 20) + 5000, os.pread

    def pread(number: int, length: int, place: int) -> bytes:
        if place <= bad < place + length:
            raise OSError(errno.EIO, "")
        return read(number, length, place)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(StorageFault, match=sealed.name):
        read_segment(sealed)
    hit = (bad - HEAD) // (BLOCK + UPLOAD + 100_000)
    uploads, lost = salvage(sealed)
    assert uploads == [upload for (upload,) in groups if upload.round != hit]
    assert [(one.round, len(one.reports)) for one in lost] == [(hit, 100_000)]
    ((kept,), page) = groups[hit], bytes(4096)
    at = bad // 4096 * 4096 - (HEAD + hit * (BLOCK + UPLOAD + 100_000) + BLOCK + UPLOAD)
    assert lost[0].reports == (kept.reports[:at] + page + kept.reports[at + 4096 :])[:100_000]


@pytest.mark.parametrize("body", [b"short", bytes(40) + b"behind", bytes(36) + b"\0\0\0\1"])
def test_a_block_that_its_uploads_do_not_fill_is_damaged(tmp_path: Path, body: bytes) -> None:
    path = _left_open(tmp_path, UPLOADS[:2])
    block = bytes.fromhex(path.stem) + struct.pack(">II", len(body), crc32(body)) + body
    sealed = path.rename(path.with_suffix(".segment"))
    sealed.write_bytes(sealed.read_bytes() + block)
    with pytest.raises(StorageFault, match=sealed.name) as fault:
        read_segment(sealed)
    assert fault.value.reason is Reason.DAMAGED
    assert salvage(sealed).uploads == UPLOADS[:2]


def test_how_many_bytes_are_lost_is_told_where_the_heads_of_uploads_are_whole(
    tmp_path: Path,
) -> None:
    path = _left_open(tmp_path, UPLOADS[:2], UPLOADS[2:4])
    content = bytearray(path.read_bytes())
    content[HEAD + BLOCK + UPLOAD] ^= 1
    path.write_bytes(content)
    recover(tmp_path)
    lost = salvage(path.with_suffix(".segment")).lost
    assert [len(one.reports) for one in lost] == [len(one.reports) for one in UPLOADS[:2]]


def test_of_a_segment_that_was_removed_nothing_is_left_and_any_other_fault_is_told(
    tmp_path: Path,
) -> None:
    """What cannot be read today is there tomorrow: whoever took it for removed would lose it."""
    gone, unreadable = tmp_path / f"{'5a' * 16}.segment", tmp_path / f"{'5b' * 16}.segment"
    assert salvage(gone) == ([], [])
    unreadable.mkdir()
    with pytest.raises(StorageFault):
        salvage(unreadable)


def test_every_changed_byte_and_every_cut_of_a_sealed_segment_is_refused(tmp_path: Path) -> None:
    path = _left_open(tmp_path, UPLOADS[:2], UPLOADS[2:4]).with_suffix(".segment")
    recover(tmp_path)
    content = path.read_bytes()
    ends = {len(_left_open(tmp_path / "one", UPLOADS[:2]).read_bytes()), len(content)}
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        for bad in [bytes(damaged)] + [content[:place]] * (place not in ends):
            path.write_bytes(bad)
            with pytest.raises(StorageFault, match=path.name):
                read_segment(path)


# ----------------------------------------------------------------------------
# Kills: a process that says what is durable, and dies.

PROGRAM = """
import sys
from pathlib import Path
from chaffinch.shuffling.inbox import SegmentWriter, Upload, recover
folder, start = Path(sys.argv[1]), int(sys.argv[2])
recover(folder)
writer = SegmentWriter(folder, largest=400)
for number in range(start, start + 12):
    writer.append([Upload("5a" * 32, number, b"x" * 100)])
    print(number, flush=True)
writer.seal()
"""


def _run(folder: Path, start: int, failpoint: str) -> tuple[int, list[int]]:
    done = forks.run(PROGRAM, folder, start, environment={VARIABLE: failpoint})
    return done.returncode, [int(word) for word in done.stdout.split()]


@each_case("time", [1, 2, 3])
@each_case(
    "place",
    ["inbox.created", "inbox.written", "inbox.synced", "inbox.sealing", "inbox.sealed"],
)
def test_what_was_told_is_there_after_a_kill(tmp_path: Path, place: str, time: int) -> None:
    code, told = _run(tmp_path, 0, f"{place}:{time}")
    assert code == -signal.SIGKILL
    code, more = _run(tmp_path, 100, "")
    assert code == 0
    kept = [upload.round for upload in _kept(tmp_path)]
    assert set(told + more) <= set(kept)
    assert len(set(kept)) == len(kept)
    assert len(kept) <= len(told) + len(more) + 1
    assert list(tmp_path.glob("*.open")) == []


# Kills at every call of the system: before it, and in the middle of a write.

CALLS = ("open", "writev", "fdatasync", "fsync", "rename", "close", "ftruncate")


def _die_at(folder: Path, sizes: Sequence[int], step: int, *, torn: bool) -> list[int] | None:
    """Write uploads in a fork that is killed at a step; return what it told, None if it lived."""
    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        _arm(step, torn=torn)
        writer = SegmentWriter(folder, largest=700)
        number = 0
        for size in sizes:
            group = [Upload(PLAN, number + place, b"x" * 50) for place in range(size)]
            writer.append(group)
            number += size
            _WRITE(outside, bytes(range(number - size, number)))
        writer.seal()
        os._exit(0)
    os.close(outside)
    with open(inside, "rb") as told:  # noqa: PTH123 - a handle, not a path
        numbers = list(told.read())
    _, status = os.waitpid(child, 0)
    return numbers if os.WIFSIGNALED(status) else None


_WRITE = os.write


def _arm(step: int, *, torn: bool) -> None:
    """Let this process die at a step."""
    left = [step]

    def dying(real: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if torn and real is writev:
                    content = b"".join(given[1])
                    _WRITE(given[0], content[: len(content) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **named)

        return call

    writev = os.writev
    for name in CALLS:
        setattr(os, name, dying(getattr(os, name)))


@pytest.mark.parametrize(
    ("sizes", "least"), [([3, 1, 7, 2, 5], 20), nightly([1] * 12, 20), nightly([20, 1, 1], 10)]
)
@pytest.mark.parametrize("torn", [False, True])
def test_nothing_told_is_lost_whichever_call_is_the_last(
    tmp_path: Path, sizes: list[int], least: int, *, torn: bool
) -> None:
    for step in count(1):
        folder = tmp_path / str(step)
        folder.mkdir()
        told = _die_at(folder, sizes, step, torn=torn)
        if told is None:
            break
        recover(folder)
        kept = sorted(upload.round for upload in _kept(folder))
        assert kept == list(range(len(kept)))
        assert set(told) <= set(kept)
        assert list(folder.glob("*.open")) == []
    assert step > least, "it was killed at so many calls"


# ----------------------------------------------------------------------------
# Power cuts: what was written and not synced is lost, torn or kept.


class _Disk:
    """Remembers how long each file was when it was last synced, and its name in its folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, syncs: bool) -> None:
        self.synced: dict[int, int] = {}
        self.names: dict[int, str] = {}
        for name in ("fdatasync", "fsync"):
            monkeypatch.setattr(os, name, self._sync if syncs else lambda _number: None)

    def _sync(self, number: int) -> None:
        found = os.fstat(number)
        if stat.S_ISDIR(found.st_mode):
            self.names = {os.stat(one, dir_fd=number).st_ino: one for one in os.listdir(number)}
        self.synced[found.st_ino] = found.st_size

    def cut_power(self, folder: Path, draw: random.Random) -> None:
        """Let every file keep what was synced, and anything or nothing of the rest."""
        for path in list(folder.iterdir()):
            content = path.read_bytes()
            sure = self.synced.get(path.stat().st_ino, 0)
            end = draw.randint(sure, len(content))
            torn = bytearray(content[:end])
            for _ in range(draw.randint(0, 2) if end > sure else 0):
                start = draw.randrange(sure, end)
                stop = draw.randint(start, end)
                torn[start:stop] = bytes(stop - start)
            path.write_bytes(torn)
            # A name is in its folder, or as it was when that was synced: none, if it is new.
            name = draw.choice([path.name, self.names.get(path.stat().st_ino)])
            if name is None:
                path.unlink()
            else:
                path.rename(path.with_name(name))


def _lost_in_power_cuts(folder: Path, monkeypatch: pytest.MonkeyPatch, *, syncs: bool) -> int:
    """Return how many acknowledged uploads are gone after 200 power cuts."""
    lost = 0
    for seed in range(200):
        draw = random.Random(seed)
        place = folder / str(seed)
        place.mkdir()
        with monkeypatch.context() as patch:
            disk = _Disk(patch, syncs=syncs)
            writer = SegmentWriter(place, largest=draw.randint(200, 2000))
            told = _write_until_the_cut(writer, draw, patch)
            disk.cut_power(place, draw)
        if writer._number is not None:  # noqa: SLF001 - the process would be gone, and its lock
            os.close(writer._number)  # noqa: SLF001
        try:
            recover(place)
            kept = {upload.round for upload in _kept(place)}
        except StorageFault:
            kept = set()
        lost += len(set(told) - kept)
    return lost


def _write_until_the_cut(
    writer: SegmentWriter, draw: random.Random, patch: pytest.MonkeyPatch
) -> list[int]:
    """Write some blocks; the last one is written and no longer synced."""
    told: list[int] = []
    for number in range(draw.randint(0, 12)):
        writer.append([Upload(PLAN, number, draw.randbytes(draw.randint(1, 300)))])
        told.append(number)

    def cut(_number: int) -> None:
        raise KeyboardInterrupt

    patch.setattr(os, "fdatasync", cut)
    with pytest.raises(KeyboardInterrupt):
        writer.append([Upload(PLAN, 1000, draw.randbytes(300))])
    return told


def test_nothing_acknowledged_is_lost_in_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _lost_in_power_cuts(tmp_path, monkeypatch, syncs=True) == 0


def test_a_writer_that_does_not_sync_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _lost_in_power_cuts(tmp_path, monkeypatch, syncs=False) > 100


# ----------------------------------------------------------------------------
# A disk that is full, or fails.


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list: its number is how many bytes the disk still takes."""
    room = [0]
    write = os.writev

    def writev(number: int, parts: Sequence[memoryview]) -> int:
        content = b"".join(parts)[: min(room[0], 37)]  # short writes, too
        if not content:
            raise OSError(errno.ENOSPC, "")
        room[0] -= len(content)
        return write(number, [content])

    monkeypatch.setattr(os, "writev", writev)
    return room


def test_a_full_disk_takes_nothing_of_a_block_and_goes_on_when_there_is_space(
    tmp_path: Path, room: list[int]
) -> None:
    writer = SegmentWriter(tmp_path)
    kept: list[Upload] = []
    reasons = set()
    for space in range(0, 400, 7):
        room[0] = space
        try:
            writer.append(UPLOADS[:2])
        except StorageFault as fault:
            reasons.add(fault.reason)
        else:
            kept.extend(UPLOADS[:2])
    assert 0 < len(kept) < 100
    assert reasons == {Reason.NO_SPACE}
    writer.seal()
    assert _kept(tmp_path) == kept
    assert len(list(tmp_path.iterdir())) == 1


def test_a_segment_whose_first_block_found_no_room_is_none(tmp_path: Path, room: list[int]) -> None:
    writer = SegmentWriter(tmp_path)
    for room[0], length in ((10, 0), (30, 28)):
        with pytest.raises(StorageFault):
            writer.append(UPLOADS)
        assert writer.length == length
    assert writer.seal() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["fsync", "ftruncate"])
def test_a_disk_that_fails_while_a_segment_is_made_or_cut_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Nobody knows what is on the disk then: it is not a disk that is merely full."""
    writer = SegmentWriter(tmp_path)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "")

    if call == "ftruncate":
        writer.append(UPLOADS[:1])
        monkeypatch.setattr(os, "writev", full)
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StorageFault) as fault:
        writer.append(UPLOADS[1:])
    assert fault.value.reason is Reason.UNCERTAIN


def test_an_open_segment_that_cannot_be_read_or_cut_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _left_open(tmp_path, UPLOADS[:2])
    with path.open("ab") as file:
        file.write(b"torn")
    content = path.read_bytes()

    def fail(*_: object) -> Any:
        raise OSError(errno.EACCES, "")

    for where, name in ((Path, "read_bytes"), (os, "ftruncate")):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, fail)
            with pytest.raises(StorageFault, match=path.name):
                recover(tmp_path)
        assert path.read_bytes() == content
    assert recover(tmp_path) == 4
    assert _kept(tmp_path) == UPLOADS[:2]


@pytest.fixture
def handles() -> Iterator[set[int]]:
    """Yield a set that holds the files that are open: each of them has a lock, too."""
    handles: set[int] = set()
    real_open, real_close = os.open, os.close

    def opened(*given: Any) -> int:
        number = real_open(*given)
        handles.add(number)
        return number

    def closed(number: int) -> None:
        handles.remove(number)
        real_close(number)

    # A patch of its own: it ends before pytest opens the test's folder in order to remove it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", opened)
        patch.setattr(os, "close", closed)
        yield handles


def test_all_that_was_cut_off_is_counted_and_every_file_is_closed(
    tmp_path: Path, handles: set[int]
) -> None:
    for place in range(3):
        with _left_open(tmp_path, UPLOADS[:2]).open("ab") as file:
            file.write(b"torn" * (place + 1))
        (path,) = tmp_path.glob("*.open")
        path.rename(path.with_suffix(".aside"))
    for path in tmp_path.glob("*.aside"):
        path.rename(path.with_suffix(".open"))
    assert recover(tmp_path) == 4 + 8 + 12
    assert not handles
    assert len(_kept(tmp_path)) == 6


def test_a_segment_that_could_not_be_made_is_closed(
    tmp_path: Path, handles: set[int], room: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    room[0] = 10
    with pytest.raises(StorageFault):
        SegmentWriter(tmp_path).append(UPLOADS)
    assert (handles, list(tmp_path.iterdir())) == (set(), [])
    monkeypatch.setattr("chaffinch.shuffling.inbox.holds_new", lambda *_: False)
    with pytest.raises(StorageFault):
        SegmentWriter(tmp_path).append(UPLOADS)
    assert not handles


def test_a_segment_that_cannot_get_its_name_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "")

    writer = SegmentWriter(tmp_path)
    writer.append(UPLOADS)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(StorageFault) as fault:
            writer.seal()
    assert fault.value.reason is Reason.UNCERTAIN
    writer.seal()


def test_a_fault_of_another_kind_is_not_taken_for_a_damaged_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _left_open(tmp_path, UPLOADS)

    def fail(*_: object) -> None:
        raise OSError(errno.ESTALE, "")

    monkeypatch.setattr(os, "pread", fail)
    for read in (read_segment, salvage):
        with pytest.raises(StorageFault) as fault:
            read(path)
        assert fault.value.reason is not Reason.DAMAGED


def test_a_block_of_which_only_the_marker_came_is_cut_off(tmp_path: Path) -> None:
    """The rest is zeros, which are the length and the CRC of nothing."""
    path = _left_open(tmp_path, UPLOADS[:2])
    path.write_bytes(path.read_bytes() + bytes.fromhex(path.stem) + bytes(8))
    assert recover(tmp_path) == BLOCK
    assert _kept(tmp_path) == UPLOADS[:2]


def test_a_failed_sync_is_not_taken_for_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = SegmentWriter(tmp_path)
    writer.append(UPLOADS[:1])

    def fail(_number: int) -> None:
        raise OSError(errno.EIO, "")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageFault) as fault:
        writer.append(UPLOADS[1:])
    assert fault.value.reason is Reason.UNCERTAIN
