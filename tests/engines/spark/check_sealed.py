"""Envelopes on a real cluster: opened as processes open them, claimed once, keys nowhere."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chaffinch.analysis.open_batches import open_batch
from chaffinch.engines.spark.open_on_cluster import SparkPool
from chaffinch.errors import ClusterFault, InvalidInput
from chaffinch.keys import KeyFolder
from chaffinch.services.openers import Cluster as Chosen
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.tables.parallel import Stopped
from tests.analysis.sealed import PEOPLE, LastHop, flips
from tests.engines.spark.kills import killing, wait_for_executors
from tests.engines.spark.work import Held, add, hang
from tests.services.oracle import Collection

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tests.engines.spark.cluster import Cluster

REPORTS = 60


def shuffler(collection: Collection, data: Path, hop: int, cluster: Cluster) -> Shuffler:
    keys = KeyFolder.open(collection.hops[hop - 1].path)
    settings = ShufflerSettings(cluster=Chosen(cluster.url), key_pause_seconds=0.0)
    made = Shuffler(data, keys, [collection.plan], settings)
    if hop == 1:
        collection.show_keys(made)
    return made


@pytest.mark.usefixtures("context")
def test_hops_open_on_a_cluster_and_count_everybody_once(cluster: Cluster, tmp_path: Path) -> None:
    collection = Collection.make(tmp_path / "keys", hops=2)
    first, second = tmp_path / "first", tmp_path / "second"
    reports = collection.seal(range(REPORTS))
    with shuffler(collection, first, 1, cluster) as hop:
        collection.write_segment(first, reports + reports[:7])
        collection.write_segment(first, reports[9:12])
        hop.take()
        hop.tick()
        counts = hop.status.plans[collection.plan.id]
        assert (counts.opened, counts.duplicate, counts.batched) == (REPORTS, 10, REPORTS)
        assert hop.status.adds_up
    with shuffler(collection, second, 2, cluster) as hop:
        for path in (first / "outbox").iterdir():
            (second / "received" / path.name).write_bytes(path.read_bytes())
        hop.take()
        hop.tick()
        assert hop.status.adds_up
    batches = [path.read_bytes() for path in (second / "outbox").glob("*.batch")]
    assert collection.histogram(batches) == Counter(range(REPORTS))
    keys = [one for folder in collection.hops for one in folder.opening_keys().values()]
    private = [secret for one in keys for secret in (one.key.private, one.tag_secret)]
    for path, content in cluster.files():
        assert not any(one in content or one.hex().encode() in content for one in private), path


@pytest.mark.usefixtures("context")
def test_an_analyzer_opens_the_same_on_a_cluster(tmp_path: Path) -> None:
    hop = LastHop.of(flips(), tmp_path)
    path = hop.put(tmp_path / "received", hop.batch(hop.crowd() * 9, reports=9 * PEOPLE))
    keys = hop.keys.opening_keys()
    pool = SparkPool("analyzer")
    try:
        found = open_batch(path, hop.plan, keys, pool)
        with pytest.raises(InvalidInput, match="one of the shuffler's own"):
            list(SparkPool("shuffler").mapped(add, 1, [1]))
    finally:
        pool.close()
    wanted = open_batch(path, hop.plan, keys)
    assert np.array_equal(found.codes, wanted.codes)
    assert found.tags == wanted.tags


@pytest.mark.usefixtures("context")
def test_results_are_in_order_and_nothing_is_sent_for_nothing() -> None:
    pool = SparkPool("shuffler")
    assert list(pool.mapped(add, 100, range(10))) == list(range(100, 110))
    # What cannot travel would be an error, were it sent.
    assert list(pool.mapped(add, lambda: 1, iter(()))) == []  # type: ignore[arg-type]
    pool.close()


@pytest.mark.long
def test_a_lost_executor_loses_no_envelope(context: SparkContext, tmp_path: Path) -> None:
    wait_for_executors(context)
    pool = SparkPool("shuffler", context.master)
    with killing(tmp_path / "gate") as killed:
        found = list(pool.mapped(Held(add, tmp_path / "gate", 3), 100, range(10)))
    assert len(killed) == 1
    assert found == list(range(100, 110))
    pool.close()


@pytest.mark.long
@pytest.mark.usefixtures("context")
def test_a_job_that_hangs_is_cancelled() -> None:
    pool = SparkPool("shuffler", job_seconds=5.0)
    start = time.monotonic()
    with pytest.raises(ClusterFault, match=r"within 5 seconds\. Got no end"):
        list(pool.mapped(hang, 30.0, range(6)))
    assert time.monotonic() - start < 25
    pool.close()


@pytest.mark.usefixtures("context")
def test_a_job_that_hangs_is_cancelled_by_a_stop() -> None:
    stop = threading.Event()
    pool = SparkPool("shuffler", stop=stop)
    assert list(pool.mapped(add, 1, [1])) == [2]
    threading.Timer(0.3, stop.set).start()
    start = time.monotonic()
    with pytest.raises(Stopped):
        list(pool.mapped(hang, 30.0, range(6)))
    assert time.monotonic() - start < 25
    pool.close()
