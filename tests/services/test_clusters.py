"""A service whose cluster is gone, or hangs: it says so, and does everything else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from chaffinch.errors import ClusterFault
from chaffinch.parallel import Processes
from chaffinch.services.openers import ClusterModel, ClusterPool
from tests.services.commands import serving, waited, write_settings
from tests.services.oracle import Collection, free_port
from tests.services.test_shuffler import ones, sealed, shuffler


def test_a_cluster_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    collection = Collection.make(tmp_path)
    write_settings(tmp_path, collection.plan)
    collection.show_keys_to(tmp_path / "hop1")
    settings = tmp_path / "hop.toml"
    nowhere = f'[shuffler.cluster]\nengine = "spark"\nmaster = "spark://127.0.0.1:{free_port()}"\n'
    settings.write_text(settings.read_text() + nowhere)
    path = collection.write_segment(tmp_path / "hop1", collection.seal(range(5)))
    with serving("shuffler", settings) as service:
        waited(lambda: "Spark" in service.get("/readyz") or "cluster" in service.get("/readyz"))
        code, said = service.stop()
    assert code == 0, said
    assert path.exists()


class Fragile:
    """A pool whose jobs fail, once for every fault that is planned."""

    def __init__(self, faults: list[str]) -> None:
        self.faults, self.closed = faults, False

    def mapped(
        self, function: Callable[[Any, Any], Any], shared: Any, items: Iterable[Any]
    ) -> Iterator[Any]:
        if self.faults:
            raise ClusterFault(self.faults.pop())
        yield from Processes(1).mapped(function, shared, items)

    def close(self) -> None:
        self.closed = True


def test_a_job_that_fails_is_tried_again_and_ticks_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection, data = Collection.make(tmp_path / "keys"), tmp_path / "data"
    faults, made, told, stop = ["A job must end. Got no end."] * 3, [], [], threading.Event()

    def reach() -> Fragile:
        made.append(Fragile(faults))
        return made[-1]

    monkeypatch.setattr("chaffinch.services.shuffler.open_pool", lambda *_: ClusterPool(reach))
    monkeypatch.setattr("chaffinch.services.shuffler._LONG_PAUSE", 0.05)
    collection.write_segment(data, collection.seal(range(5)))
    with shuffler(collection, data, interval_seconds=0.01) as hop:

        def ticked() -> None:
            told.append(hop.cluster_fault)
            if sealed(data):
                stop.set()

        hop.run(stop, ticked)
        assert told[0] == "A job must end. Got no end."
        assert told[-1] == ""
        assert collection.histogram(sealed(data)) == ones(*range(5))
    assert [one.closed for one in made] == [True] * 4, "after each fault it is reached anew"


@pytest.mark.parametrize("name", ["patience", "job_seconds"])
def test_no_time_at_all_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        ClusterModel.model_validate({"engine": "spark", name: 0})
