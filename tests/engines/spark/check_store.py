"""Tables and batches in an object store: the same steps, by addresses."""

from __future__ import annotations

import pytest

from chaffinch.engines.local import Local
from chaffinch.engines.spark import session
from chaffinch.engines.spark.engine import Spark
from chaffinch.errors import InvalidCells, InvalidFile
from chaffinch.storage.places import Place
from tests.engines import plans

pytestmark = pytest.mark.usefixtures("context")

USERS = 500
PLAN = plans.clear(USERS, 4)
CODES = plans.answers(USERS, 4)


def test_a_collection_from_store_to_store(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, part in (("a", CODES[:200]), ("b", CODES[200:])):
        with Place.of(store.format(f"tables/{name}.csv")).writing() as file:
            file.write("\n".join(["answer", *(f"v{code}" for code in part), ""]).encode())
    spark, encoded, made = Spark(), store.format("encoded"), store.format("made")
    assert spark.encode(store.format("tables"), PLAN, encoded).reports == USERS
    assert spark.shuffle([encoded], PLAN, made).reports == USERS
    assert sorted(plans.read(made).tolist()) == sorted(CODES.tolist())
    monkeypatch.setattr(session, "_PARTIES", {})
    assert spark.tally([made], PLAN).digest == Local().tally([made], PLAN).digest
    names = Place.of(made).names()
    Place.of(made).inside(names[-1]).remove()
    with pytest.raises(InvalidFile, match="missing"):
        spark.tally([made], PLAN)
    with Place.of(store.format("tables/b.csv")).writing() as file:
        file.write(b"answer\nhidden\n")
    with pytest.raises(InvalidCells, match=r"row 1"):
        spark.encode(store.format("tables"), PLAN, store.format("none"))
    assert Place.of(store.format("none")).names() == []
