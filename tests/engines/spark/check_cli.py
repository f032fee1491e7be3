"""The verbs with ``--engine spark``: the same words, and not one of Spark's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaffinch.cli import main
from chaffinch.engines.local import Local
from chaffinch.engines.spark import session
from tests.engines import plans

if TYPE_CHECKING:
    from pyspark import SparkContext

    from tests.engines.spark.cluster import Cluster

USERS = 600
PLAN = plans.clear(USERS, 4)
CODES = plans.answers(USERS, 4)
NOTE = (
    "note: every row became the report of one person; where one person has several rows, "
    "--person COLUMN tells people apart"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    PLAN.save(tmp_path / "plan.json")
    (tmp_path / "tables").mkdir()
    plans.table(tmp_path / "tables" / "a.parquet", CODES[:300])
    plans.table(tmp_path / "tables" / "b.parquet", CODES[300:])
    return tmp_path


def said_of(text: str) -> list[str]:
    """Return what was said, but for what is thought of the plan."""
    return [line for line in text.splitlines() if not line.startswith("warning: with epsilon")]


def test_the_pipeline_on_a_cluster(
    context: SparkContext,
    cluster: Cluster,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    del context
    monkeypatch.chdir(folder)
    spark = ["--plan", "plan.json", "--engine", "spark", "--master", cluster.url]
    assert main(["encode", "tables/*.parquet", *spark, "-o", "encoded"]) == 0
    one_machine = ["--plan", "plan.json", "-o", "encoded.parquet", "-q"]
    assert main(["encode", "tables/*.parquet", *one_machine]) == 0
    assert sorted(plans.read("encoded")) == sorted(plans.read("encoded.parquet"))
    assert main(["shuffle", "encoded", *spark, "-o", "made", "--record", "record"]) == 0
    said = capfd.readouterr()
    assert (said.out, said_of(said.err)) == (
        "",
        [
            "600 reports encoded, written to encoded",
            NOTE,
            "600 reports shuffled, written to made",
        ],
    )
    assert main(["shuffle", "encoded", *spark, "-o", "other", "--record", "record"]) == 4
    assert main(["encode", "tables", *spark, "-o", "made"]) == 2
    assert main(["encode", "tables", *spark]) == 2
    assert main(["encode", "tables", *spark, "-o", "x", "--person", "answer"]) == 2
    assert main(["encode", "tables", *spark[:2], "-o", "x", "--person", "answer"]) == 2
    assert main(["encode", "tables", "--plan", "plan.json", "-o", "x", "--master", "y"]) == 2
    assert not (folder / "x").exists()
    # The analyzer is another party, whose application has worked for nobody else.
    assert main(["analyze", "made", *spark, "--json"]) == 2
    assert "two applications" in capfd.readouterr().out
    monkeypatch.setattr(session, "_PARTIES", {})
    assert main(["analyze", "made", *spark, "--json"]) == 0
    release = json.loads(capfd.readouterr().out)
    assert main(["analyze", "made", "--plan", "plan.json", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == release
    assert Local().tally(["made"], PLAN).reports == USERS


@pytest.mark.long
def test_a_verb_starts_an_application_of_its_own(cluster: Cluster, folder: Path) -> None:
    """All cores of the cluster are taken, so it runs beside it."""
    encoded, made = folder / "encoded.parquet", folder / "made.parquet"
    Local().encode(folder / "tables", PLAN, encoded)
    Local().shuffle([encoded], PLAN, made, record=folder / "record")
    words = [sys.executable, "-m", "chaffinch", "analyze", "made.parquet", "--plan", "plan.json"]
    done = subprocess.run(
        [*words, "--engine", "spark", "--master", "local[1]", "--json"],
        cwd=folder,
        env=os.environ | cluster.settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert said_of(done.stderr) == ["starting Java ...", "starting an application ..."]
    alone = subprocess.run([*words, "--json"], cwd=folder, capture_output=True, check=True)
    assert json.loads(alone.stdout) == json.loads(done.stdout)
