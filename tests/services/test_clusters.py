"""A service whose cluster is gone, or hangs: it says so, and does everything else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import ClusterFault
from chaffinch.services.openers import Cluster, ClusterModel
from chaffinch.tables.parallel import Progress
from tests.services.commands import serving, waited, write_settings
from tests.services.oracle import Collection
from tests.services.test_shuffler import ones, sealed, shuffler


def test_a_cluster_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path)
    write_settings(tmp_path, collection.plan)
    collection.show_keys_to(tmp_path / "hop1")
    settings = tmp_path / "hop.toml"
    # No machine is asked there, so nobody has to wait for an answer.
    nowhere = '[shuffler.cluster]\nengine = "spark"\nmaster = "spark://255.255.255.255:7077"\n'
    settings.write_text(settings.read_text() + nowhere)
    path = collection.write_segment(tmp_path / "hop1", collection.seal(range(5)))
    with serving("shuffler", settings) as service:
        waited(lambda: "Spark" in service.get("/readyz") or "cluster" in service.get("/readyz"))
        code, said = service.stop()
    assert code == 0, said
    assert path.exists()


class Jobs:
    """Stands for a cluster: what its jobs do is told here, and how often it was reached."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.faults: list[str] = []
        self.reached = self.closed = 0
        self.hang = False
        self.width = 1
        monkeypatch.setattr("chaffinch.engines.spark.open_on_cluster.running", self._running)
        monkeypatch.setattr("chaffinch.engines.spark.open_on_cluster.take_part", lambda *_: None)
        monkeypatch.setattr("chaffinch.engines.spark.open_on_cluster.Job", self._job)

    @contextmanager
    def _running(self, *_: object, **__: object) -> Iterator[Jobs]:
        self.reached += 1
        try:
            yield self
        finally:
            self.closed += 1

    @contextmanager
    def _job(self, _: Jobs, keys: dict[str, bytes]) -> Iterator[Jobs]:
        self._ring = Keyring(b"", keys)
        yield self

    def map(self, work: Any, items: list[Any], *, progress: Progress) -> list[Any]:
        if self.faults:
            raise ClusterFault(self.faults.pop())
        while self.hang:
            time.sleep(0.01)
            progress(0, len(items))
        return [work(self._ring, item) for item in items]


def test_a_job_that_fails_is_tried_again_and_ticks_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection, data = Collection.make(tmp_path / "keys"), tmp_path / "data"
    jobs, told = Jobs(monkeypatch), []
    jobs.faults = ["A job must end. Got no end."] * 3
    monkeypatch.setattr("chaffinch.services.shuffler._LONG_PAUSE", 0.05)
    collection.write_segment(data, collection.seal(range(5)))
    with shuffler(collection, data, interval_seconds=0.01, cluster=Cluster()) as hop:

        def ticked() -> None:
            told.append(hop.cluster_fault)
            if sealed(data):
                hop.stop.set()

        hop.run(ticked)
        assert told[0] == "A job must end. Got no end."
        assert told[-1] == ""
        assert collection.histogram(sealed(data)) == ones(*range(5))
    assert (jobs.reached, jobs.closed) == (4, 4), "after each fault it is reached anew"


def test_a_job_that_hangs_does_not_hold_up_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection, data = Collection.make(tmp_path / "keys"), tmp_path / "data"
    jobs = Jobs(monkeypatch)
    jobs.hang = True
    path = collection.write_segment(data, collection.seal(range(5)))
    with shuffler(collection, data, cluster=Cluster()) as hop:
        threading.Timer(0.2, hop.stop.set).start()
        start = time.monotonic()
        hop.run()
        assert time.monotonic() - start < 5
        assert hop.overview().counts == {}
    assert path.exists(), "it is opened by the next start"
    assert (jobs.reached, jobs.closed) == (1, 1)


@pytest.mark.parametrize("name", ["patience", "job_seconds"])
def test_no_time_at_all_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        ClusterModel.model_validate({"engine": "spark", name: 0})
