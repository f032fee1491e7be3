"""Tables and batches in an object store: the same steps, by addresses."""

from __future__ import annotations

import pytest

from chaffinch.disk.locations import Place
from chaffinch.engines.local import Local
from chaffinch.engines.spark import session
from chaffinch.engines.spark.engine import Spark
from chaffinch.errors import InvalidCells, InvalidFile, StorageFault
from chaffinch.privacy import Target
from chaffinch.reach.publisher.campaign_key import CampaignKey
from chaffinch.reach.publisher.filter_making import Loaded
from chaffinch.tables.pieces import TableFiles
from tests.engines import plans
from tests.reach.publishing import KEY, made_up, small_plan

pytestmark = pytest.mark.usefixtures("context")

USERS = 500
PLAN = plans.clear(USERS, 4)
CODES = plans.answers(USERS, 4)


def test_a_collection_from_store_to_store(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, part in (("a", CODES[:200]), ("b", CODES[200:])):
        with Place.of(store.format(f"tables/{name}.csv")).writing() as file:
            file.write("\n".join(["answer", *(f"v{code}" for code in part), ""]).encode())
    parts = TableFiles.of(store.format("tables/*.csv")).pieces
    assert [piece.name for piece in parts] == ["a.csv", "b.csv"]
    with pytest.raises(InvalidFile, match="that some file fits"):
        TableFiles.of(store.format("tables/*.parquet"))
    with pytest.raises(InvalidFile, match=r"'b.csv' twice"):
        TableFiles.of([store.format("tables/b.csv"), store.format("tables")])
    spark, encoded, made = Spark(), store.format("encoded"), store.format("made")
    assert spark.encode(store.format("tables"), PLAN, encoded).reports == USERS
    assert spark.shuffle([store.format("enc*")], PLAN, made).reports == USERS
    assert sorted(plans.read(made).tolist()) == sorted(CODES.tolist())
    monkeypatch.setattr(session, "_PARTIES", {})
    assert spark.tally([made], PLAN).digest == Local().tally([made], PLAN).digest
    names = Place.of(made).names()
    Place.of(made).inside(names[-1]).remove()
    with pytest.raises(InvalidFile, match="missing"):
        spark.tally([made], PLAN)
    with Place.of(store.format("tables/b.csv")).writing() as file:
        file.write(b"answer\nhidden\n")
    with pytest.raises(InvalidCells, match="row 2, as a spreadsheet counts"):
        spark.encode(store.format("tables"), PLAN, store.format("none"))
    assert Place.of(store.format("none")).names() == []


def test_a_reach_from_a_store(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan(bits=1 << 12)
    for name, ids in (("a", range(100)), ("b", range(50, 150))):
        with Place.of(store.format(f"ids/{name}.csv")).writing() as file:
            file.write("\n".join(["id", *map(str, ids), ""]).encode())
    told: list[Loaded] = []
    made = Spark().make_filter(
        store.format("ids"),
        plan,
        publisher="daily",
        key=CampaignKey(KEY.secret),
        within=Target(epsilon=100, delta=0.01),
        told=told.append,
    )
    assert (told[0].rows, made.publisher) == (200, "daily")
    for one in (made, made_up(plan, "radio", load=0.1)):
        with Place.of(store.format(f"{one.publisher}.filter")).writing() as file:
            file.write(one.content())
    monkeypatch.setattr(session, "_PARTIES", {})
    addresses = [store.format(f"{name}.filter") for name in plan.audience.publishers]
    counted = Spark().count_logos(addresses, plan)
    assert counted.digests[0] == made.digest
    assert int(counted.counts.sum()) == plan.bits
    with pytest.raises(StorageFault, match=r"none\.filter"):
        Spark().count_logos([store.format("none.filter")], plan)
