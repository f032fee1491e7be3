"""Jobs on a real cluster: order, errors, the same words again, secrets that stay inside."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaffinch.engines.spark.job import Job
from chaffinch.engines.spark.session import running, take_part
from chaffinch.engines.spark.tasks import Keyring, Merged, Outcome
from chaffinch.errors import ClusterFault, InvalidFile, InvalidInput, Reason, StorageFault
from tests.engines.spark.kills import killing
from tests.engines.spark.work import (
    PATIENCE_SECONDS,
    PAUSE_SECONDS,
    WORKERS,
    Held,
    Losing,
    Noted,
    Stumbling,
    draw,
    draw_anew,
    joined,
    key_of,
    refuse_the_third,
    sent,
    sent_everywhere,
    squared,
    stumble,
    write_to_log,
)

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tests.engines.spark.cluster import Cluster

PIECES = [5, 3, 8, 1]
KEY = bytes(range(32))


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
    with Job(context) as job, pytest.raises(ClusterFault, match=r"ValueError at work") as it:
        job.map(stumble, PIECES)
    assert "private" not in str(it.value)


def test_bytes_for_a_part_stand_in_the_order_of_their_pieces(context: SparkContext) -> None:
    with Job(context) as job:
        found = job.exchange(PIECES, sent, joined, parts=4)
    assert found == [
        (0, b"\x05\x05|\x03|\x08\x08"),
        (1, b"\x03\x03|\x01"),
        (2, b"\x05|\x08|\x01\x01"),
        (3, b""),
    ]


def test_nothing_is_done_for_a_part_before_everything_has_come(
    context: SparkContext, cluster: Cluster, tmp_path: Path
) -> None:
    """Where Spark cannot get the rest of what a task reads, the task sees an early end."""
    with Job(context) as job:
        losing = Losing(cluster.folder / "local", tmp_path)
        assert job.exchange(PIECES, sent_everywhere, losing, parts=6) == [len(PIECES)] * 6
        assert job._repeated(())  # noqa: SLF001 - some of it was lost, and made again
    notes = sorted(path.name for path in tmp_path.iterdir())
    assert notes == [*(f"{part}-{len(PIECES)}" for part in range(6)), "lost"]


def test_a_piece_that_is_refused_stops_every_part(context: SparkContext, tmp_path: Path) -> None:
    def scatter(ring: Keyring, piece: int) -> list[tuple[int, bytes]]:
        return sent(ring, refuse_the_third(ring, piece))

    def gather(_ring: Keyring, part: int, _blobs: list[bytes]) -> None:
        (tmp_path / str(part)).touch()

    with Job(context) as job, pytest.raises(InvalidFile, match="half of one"):
        job.exchange(PIECES, scatter, gather, parts=3)
    assert not list(tmp_path.iterdir())


def test_words_are_the_same_for_the_same_work_of_one_job_only(context: SparkContext) -> None:
    with Job(context) as job:
        first, second = job.map(draw, [1, 2, 1]), job.map(draw, [1, 2, 1])
    with Job(context) as job:
        other = job.map(draw, [1, 2, 1])
    assert first == second
    assert first[0] == first[2] != first[1]
    assert not set(first) & set(other)


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


@pytest.mark.long
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


def found_in(cluster: Cluster, secret: bytes) -> list[Path]:
    """Return the files of a cluster that hold a secret, as it is or in hexadecimal."""
    return [
        path
        for path, content in cluster.files()
        if secret in content or secret.hex().encode() in content
    ]


def test_nothing_secret_is_written_anywhere(context: SparkContext, cluster: Cluster) -> None:
    with Job(context, {"campaign": KEY}) as job:
        assert job.map(key_of, [0, 1]) == [KEY, KEY]
        secret = job._ring.value._secret  # noqa: SLF001 - to look for it
        for one in (secret, KEY):
            assert not found_in(cluster, one)
            assert not shown_by_processes(cluster, one)
        # The search sees what it is to see: the folder of the cluster is in every environment.
        assert len(shown_by_processes(cluster, str(cluster.folder).encode())) > WORKERS


def shown_by_processes(cluster: Cluster, secret: bytes) -> list[Path]:
    """Return the words and environments of processes of a cluster that hold a secret."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            shown = {name: (place / name).read_bytes() for name in ("cmdline", "environ")}
            if str(cluster.folder).encode() in b"".join(shown.values()):
                found += [
                    place / name
                    for name, text in shown.items()
                    if secret in text or secret.hex().encode() in text
                ]
    return found


def test_a_secret_in_the_description_of_a_task_would_be_found(
    context: SparkContext, cluster: Cluster
) -> None:
    """The search above sees what it is to see: the event log, and the logs of executors."""
    described, printed = os.urandom(32), os.urandom(32)
    context.setJobDescription(described.hex())
    context.parallelize([printed], 1).foreach(write_to_log)
    context.setJobDescription(None)  # type: ignore[arg-type]
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found_in(cluster, described) and found_in(cluster, printed)):
        assert time.monotonic() < end, "a planted secret is not found"
        time.sleep(PAUSE_SECONDS)
    assert any("events" in path.parts for path in found_in(cluster, described))
    assert any("work" in path.parts for path in found_in(cluster, printed))


# ------------------------------------------------------------------------------ faults


@pytest.mark.parametrize(
    ("number", "times", "tries"),
    [
        pytest.param(errno.EIO, 2, 3, id="passing"),
        pytest.param(errno.EACCES, 99, 1, id="refused", marks=pytest.mark.long),
        pytest.param(errno.ETIMEDOUT, 99, 3, id="staying", marks=pytest.mark.long),
    ],
)
def test_a_fault_of_a_store_is_tried_again_unless_it_will_not_pass(
    context: SparkContext, tmp_path: Path, number: int, times: int, tries: int
) -> None:
    work = Stumbling(tmp_path, times, number)
    with Job(context) as job:
        if times == 2:
            assert job.map(work, [0, 1]) == [0, 1]
            assert (tmp_path / "part-1").read_bytes() == b"content"
        else:
            with pytest.raises(StorageFault, match="'part-1' must be possible to write"):
                job.map(work, [0, 1])
    assert [len((tmp_path / f"tries-{piece}").read_text()) for piece in (0, 1)] == [1, tries]


def test_merging_holds_two_results_at_a_time() -> None:
    held: list[int] = []

    def arrived() -> Iterator[tuple[int, Outcome[Weighty]]]:
        for number in (3, 0, 2, 1):
            yield number, Outcome(Weighty(number))
            held.append(Weighty.alive)

    merged = Merged(Weighty.plus, lambda one: one.number)
    assert [outcome.value for _, outcome in merged(0, arrived())] == [6]
    assert max(held) <= 2
    refusals = [(2, Outcome[int](fault="second")), (1, Outcome[int](fault="first"))]
    ((_, refused),) = Merged[int, int](max, None)(0, iter(refusals))
    assert "first" in str(refused.error)


class Weighty:
    """A result of which it is known how many there are."""

    alive = 0

    def __init__(self, number: int) -> None:
        self.number = number
        Weighty.alive += 1

    def __del__(self) -> None:
        Weighty.alive -= 1

    def plus(self, other: Weighty) -> Weighty:
        self.number += other.number
        return self
