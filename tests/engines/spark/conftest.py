"""One cluster and one application for all files that need them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tests.engines.spark.cluster import Cluster

SECONDS = 300
"""For one of them, on a machine that has much else to do."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from tests.engines.spark import cluster as module
    from tests.engines.spark.work import WORKERS

    folder = tmp_path_factory.mktemp("cluster")
    # Executors are processes of their own, also where one worker starts all of them.
    with module.started(folder, ("127.0.0.1",), module.PRELOADED, WORKERS) as made:
        yield made


@pytest.fixture(scope="session")
def store() -> Iterator[str]:
    """Return the form of addresses in an object store."""
    from tests.disk import object_store

    with object_store.started("cluster") as form:
        yield form


@pytest.fixture(scope="session")
def _application(cluster: Cluster) -> Iterator[SparkContext]:
    from chaffinch.engines.spark.session import running

    with pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.settings.items():
            patch.setenv(name, value)
        with running(cluster.url) as made:
            yield made


@pytest.fixture
def context(_application: SparkContext, monkeypatch: pytest.MonkeyPatch) -> SparkContext:
    """Return the application, as if no party had used it before."""
    from chaffinch.engines.spark import session

    monkeypatch.setattr(session, "_PARTIES", {})
    return _application


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Forgive Spark that it leaves sockets for the collector to close, and that it starts slowly.

    The first one that asks for the cluster waits for its start, too. Tests that kill executors come
    last: nobody has to wait for those that take their places.
    """
    items.sort(key=lambda item: item.path.name == "check_kills.py")
    for item in items:
        if item.path.name.startswith("check_"):
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(SECONDS))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
