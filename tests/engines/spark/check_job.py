"""Jobs on a real cluster: order, errors, the same words again, secrets that stay inside."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaffinch.engines.spark.job import Job, Keyring
from chaffinch.engines.spark.session import running, take_part
from chaffinch.errors import ClusterFault, InvalidFile, InvalidInput, Reason
from tests.engines.spark.kills import Held, killing

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tests.engines.spark.cluster import Cluster

PIECES = [5, 3, 8, 1]
KEY = bytes(range(32))


def squared(_ring: Keyring, piece: int) -> int:
    return piece * piece


def test_results_are_in_the_order_of_the_pieces(context: SparkContext) -> None:
    told: list[tuple[int, int | None]] = []
    with Job(context) as job:
        assert job.map(squared, PIECES, sizes=PIECES, progress=lambda *one: told.append(one)) == [
            25,
            9,
            64,
            1,
        ]
        assert job.map(squared, []) == []
    assert told[-1] == (17, 17)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def refuse_the_third(_ring: Keyring, piece: int) -> int:
    if piece == 8:
        raise InvalidFile("file 'a'", "whole", ["half of one"], hint="again", reason=Reason.DAMAGED)
    return piece


def stumble(_ring: Keyring, piece: int) -> int:
    raise ValueError(f"private {piece}")


def test_what_a_task_refuses_is_raised_as_it_is_and_tried_once(
    context: SparkContext, tmp_path: Path
) -> None:
    def noted(ring: Keyring, piece: int) -> int:
        with (tmp_path / str(piece)).open("a") as file:
            file.write("x")
        return refuse_the_third(ring, piece)

    with Job(context) as job, pytest.raises(InvalidFile, match="half of one") as caught:
        job.map(noted, PIECES)
    assert (caught.value.hint, caught.value.reason) == ("again", Reason.DAMAGED)
    assert (tmp_path / "8").read_text() == "x"


def test_any_other_error_is_one_line_without_what_it_says(context: SparkContext) -> None:
    with Job(context) as job, pytest.raises(ClusterFault, match=r"ValueError at check_job") as it:
        job.map(stumble, PIECES)
    assert "private" not in str(it.value)


def sent(_ring: Keyring, piece: int) -> list[tuple[int, bytes]]:
    return [(piece % 3, bytes([piece])), ((piece + 1) % 3, bytes([piece, piece]))]


def joined(_ring: Keyring, part: int, blobs: list[bytes]) -> tuple[int, bytes]:
    return part, b"|".join(blobs)


def test_bytes_for_a_part_stand_in_the_order_of_their_pieces(context: SparkContext) -> None:
    with Job(context) as job:
        found = job.exchange(PIECES, sent, joined, parts=4)
    assert found == [
        (0, b"\x05\x05|\x03|\x08\x08"),
        (1, b"\x03\x03|\x01"),
        (2, b"\x05|\x08|\x01\x01"),
        (3, b""),
    ]


def test_a_piece_that_is_refused_stops_every_part(context: SparkContext, tmp_path: Path) -> None:
    def scatter(ring: Keyring, piece: int) -> list[tuple[int, bytes]]:
        return sent(ring, refuse_the_third(ring, piece))

    def gather(_ring: Keyring, part: int, _blobs: list[bytes]) -> None:
        (tmp_path / str(part)).touch()

    with Job(context) as job, pytest.raises(InvalidFile, match="half of one"):
        job.exchange(PIECES, scatter, gather, parts=3)
    assert not list(tmp_path.iterdir())


def draw(ring: Keyring, piece: int) -> bytes:
    return ring.words("draw", piece, hashlib.sha256(b"input").digest()).take(4).tobytes()


def test_words_are_the_same_for_the_same_work_of_one_job_only(context: SparkContext) -> None:
    with Job(context) as job:
        first, second = job.map(draw, [1, 2, 1]), job.map(draw, [1, 2, 1])
    with Job(context) as job:
        other = job.map(draw, [1, 2, 1])
    assert first == second
    assert first[0] == first[2] != first[1]
    assert not set(first) & set(other)


def key_of(ring: Keyring, _piece: int) -> bytes:
    return ring.keys["campaign"]


def test_keys_reach_the_tasks_of_their_job_and_end_with_it(context: SparkContext) -> None:
    with Job(context, {"campaign": KEY}) as job:
        assert job.map(key_of, [0]) == [KEY]
        assert "campaign" not in repr(job._ring.value)  # noqa: SLF001 - what a log would show
    with pytest.raises(ClusterFault, match="must finish"):
        job.map(key_of, [0])


def test_an_application_works_for_one_party(context: SparkContext) -> None:
    take_part(context, "shuffler")
    take_part(context, "shuffler")
    with pytest.raises(InvalidInput, match=r"one of the analyzer's own(.|\n)*two applications"):
        take_part(context, "analyzer")


def test_the_session_that_runs_is_used_and_stays(context: SparkContext, cluster: Cluster) -> None:
    with running() as found:
        assert found is context
    with running(cluster.url) as found:
        assert found is context
    with pytest.raises(InvalidInput, match="master"), running("local[1]"):
        pass
    with Job(context) as job:
        assert job.map(squared, [3]) == [9]


def draw_anew(_ring: Keyring, _piece: int) -> bytes:
    """Do what a task must not: draw other words when it is run again."""
    return os.urandom(32)


@dataclass(frozen=True)
class Noted:
    """Notes what was drawn, every time that it is."""

    function: Callable[[Keyring, int], bytes]
    folder: Path

    def __call__(self, ring: Keyring, piece: int) -> bytes:
        drawn = self.function(ring, piece)
        with (self.folder / f"{self.function.__name__}-{piece}").open("a") as file:
            file.write(f"{drawn.hex()}\n")
        return drawn


def test_a_lost_executor_changes_nothing_unless_a_task_draws_again(
    context: SparkContext, tmp_path: Path
) -> None:
    """A task draws, is lost with its executor, and draws again: the test sees if it is the same."""
    gate = tmp_path / "gate"

    def both(ring: Keyring, piece: int) -> bytes:
        Noted(draw_anew, tmp_path)(ring, piece)
        drawn = Noted(draw, tmp_path)(ring, piece)
        return Held(lambda: drawn, gate, 0)() if piece == 1 else drawn

    with Job(context) as job:
        before = job.map(draw, [0, 1, 2])
        with killing(gate) as killed:
            after = job.map(both, [0, 1, 2])
    assert len(killed) == 1
    assert after == before
    same, other = ((tmp_path / f"{name}-1").read_text().split() for name in ("draw", "draw_anew"))
    assert (len(same), len(set(same))) == (2, 1)
    assert (len(other), len(set(other))) == (2, 2)


def test_nothing_secret_is_written_anywhere(context: SparkContext, cluster: Cluster) -> None:
    with Job(context, {"campaign": KEY}) as job:
        assert job.map(key_of, [0, 1]) == [KEY, KEY]
        secret = job._ring.value._secret  # noqa: SLF001 - to look for it
        kept = list(cluster.folder.rglob("*"))
        for path in kept:
            if path.is_file():
                content = path.read_bytes()
                assert secret not in content, path
                assert KEY not in content, path
                assert secret.hex().encode() not in content, path
    assert any(path.parent.name == "events" for path in kept)
