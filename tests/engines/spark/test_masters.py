"""A master is looked at before anything is started, and what is wrong with it is said."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from chaffinch.cli import main
from chaffinch.cli.engines import EngineOptions
from chaffinch.engines.spark import masters
from chaffinch.engines.spark.engine import Spark
from chaffinch.engines.spark.masters import check_master
from chaffinch.engines.spark.session import running
from chaffinch.errors import ChaffinchError, ClusterFault, InvalidInput
from chaffinch.services.openers import Cluster, ClusterModel, open_pool
from tests.cases import each_case
from tests.engines import plans

SECONDS = 15.0
"""Far below the minute that Spark would take."""
SUBMITTED = "--conf spark.authenticate.secret=0123456789abcdef pyspark-shell"
NOWHERE = "spark://127.0.0.1:1"


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_folder: Path) -> Path:
        pytest.fail("Java is started")

    monkeypatch.setattr("chaffinch.engines.spark.session.java_home", never)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.function is not test_a_master_may_start_while_it_is_asked:
        monkeypatch.setattr(masters, "ANSWER_SECONDS", 0.3)


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield f"127.0.0.1:{found.getsockname()[1]}"


@pytest.mark.usefixtures("_no_java")
def test_a_master_that_is_not_there_is_named_at_once() -> None:
    start = time.monotonic()
    with pytest.raises(ClusterFault) as told, running(NOWHERE):
        pass
    assert time.monotonic() - start < SECONDS
    assert "The Spark master spark://127.0.0.1:1 must answer. Got 127.0.0.1:1: nobody" in str(
        told.value
    )
    assert "check the address" in str(told.value.hint)


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("spark://no-such-machine.invalid:7077", "no machine of that name"),
        ("spark://two..dots:7077", "no machine of that name"),
        (f"{NOWHERE},127.0.0.1:2", "127.0.0.1:1: nobody listens there; 127.0.0.1:2: nobody"),
        ("k8s://https://127.0.0.1:1", "nobody listens"),
        ("k8s://127.0.0.1:1", "nobody listens"),
    ],
)
def test_nobody_answers(master: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masters, "getproxies", dict)
    with pytest.raises(ClusterFault, match=told):
        check_master(master)


def test_a_full_queue_of_a_master_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()[:2]
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.settimeout(0)
            one.connect_ex(address)
            waiting.append(one)
        with pytest.raises(ClusterFault, match=r"no answer in 0\.3 seconds"):
            check_master(f"spark://127.0.0.1:{address[1]}")
        for one in waiting:
            one.close()


def test_a_master_may_start_while_it_is_asked() -> None:
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        start = threading.Timer(0.5, late.listen)
        start.start()
        check_master(f"spark://127.0.0.1:{late.getsockname()[1]}")
        start.join()


def test_one_of_several_masters_is_enough(listening: str) -> None:
    check_master(f"spark://{listening}")
    check_master(f"{NOWHERE},{listening}")


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_one_machine_is_not_asked(master: str) -> None:
    check_master(master)


@each_case(
    "master",
    [
        "",
        "host:7077",
        "other://x",
        "mesos://host:5050",
        "spark:/host",
        "spark://host",
        "spark://",
        "spark://a:1,b",
        "spark://a:x",
    ],
)
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(InvalidInput, match=r"must be such as spark://host:7077"):
        check_master(master)


@pytest.mark.usefixtures("_no_java")
@each_case(
    ("master", "meant"),
    [
        ("sparky://host:7077", "spark://host:7077"),
        ("k8://https://host:443", "k8s://https://host:443"),
        ("yarn_", "yarn"),
        ("locale[2]", "local[2]"),
        ("loacl[2]", "local[2]"),
        ("Local [*]", "local[*]"),
        ("local[2", "local"),
        ("local[x]", "local"),
        ("SPARK://host:7077", "spark://host:7077"),
    ],
)
def test_a_misspelled_master_is_told_before_anything_is_started(master: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match="such as spark://host:7077") as told, running(master):
        pass
    assert str(told.value.hint) == f"nothing was started; did you mean {meant}?"


def test_yarn_must_be_told_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with pytest.raises(ClusterFault, match="HADOOP_CONF_DIR or YARN_CONF_DIR"):
        check_master("yarn")
    (tmp_path / "spark-env.sh").touch()
    check_master("yarn")
    (tmp_path / "spark-env.sh").unlink()
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path))
    check_master("yarn")


@pytest.mark.usefixtures("_no_java")
def test_a_service_gets_the_same_fault() -> None:
    cluster = ClusterModel(engine="spark", master=NOWHERE).build()
    with pytest.raises(ClusterFault) as told:
        list(open_pool("shuffler", 1, cluster, threading.Event()).mapped(max, 1, [2]))
    assert told.value.message
    assert told.value.hint
    with pytest.raises(ClusterFault) as here, running(NOWHERE):
        pass
    assert str(told.value) == str(here.value)


def test_everybody_is_as_patient() -> None:
    assert EngineOptions().patience == Spark().patience == Cluster().patience
    assert ClusterModel(engine="spark", patience=7.0).build() == Cluster(patience=7.0)


@pytest.mark.parametrize("patience", [-1.0, float("nan")])
def test_patience_is_a_number_of_seconds(patience: float) -> None:
    with pytest.raises(ChaffinchError, match="patience"), running("local[1]", patience=patience):
        pass


@pytest.mark.long
@pytest.mark.timeout(400)
def test_what_answers_and_is_no_master_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        threading.Thread(target=_hang_up, args=[other], daemon=True).start()
        master = f"spark://127.0.0.1:{other.getsockname()[1]}"
        words = ["encode", "a.csv", "--plan", "plan.json", "--engine", "spark", "-o", "made"]
        plans.clear(2, 4).save(tmp_path / "plan.json")
        (tmp_path / "a.csv").write_text("answer\nv0\nv1\n", "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "chaffinch", *words, "--master", master],
            cwd=tmp_path,
            env=os.environ | {"PYSPARK_SUBMIT_ARGS": SUBMITTED},
            capture_output=True,
            text=True,
            check=False,
        )
    said = f"error: The Spark application must start on {master}. Got no reply from what listens"
    assert done.returncode == 5, done.stderr
    assert done.stderr.count("error:") == 1
    assert said in done.stderr
    assert not done.stdout


def _hang_up(server: socket.socket) -> None:
    with suppress(OSError):
        while True:
            server.accept()[0].close()


@pytest.mark.usefixtures("_no_java")
def test_a_verb_ends_with_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plans.clear(100, 4).save(tmp_path / "plan.json")
    plans.table(tmp_path / "a.parquet", plans.answers(100, 4))
    words = ["encode", "a.parquet", "--plan", "plan.json", "--engine", "spark", "-o", "made"]
    assert main([*words, "--master", NOWHERE, "--json"]) == 5
    said = capfd.readouterr()
    assert json.loads(said.out)["error"]["code"] == "cluster-fault"
    assert "Traceback" not in said.err
    assert not (tmp_path / "made").exists()
