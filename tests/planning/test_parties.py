"""A plan that names its parties: another plan, with the same promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.errors import InvalidInput
from chaffinch.planning.parties import Parties, Party
from chaffinch.planning.plan import Plan, load_plan

FIRST = Party("ours", "01" * 32, "https://shuffler.example:8443/")
SECOND = Party("theirs", "02" * 32, "http://[::1]:9000")
ANALYZER = Party("counting", "03" * 32, "https://analyzer.example")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return cf.plan(cf.Bit(), users=1000, target=cf.Target(1.0, 1e-6))


def test_parties_are_in_the_file_and_in_the_id(plan: Plan, tmp_path: Path) -> None:
    made = plan.run_by(Parties((FIRST, SECOND), ANALYZER, "x25519-ml-kem-768"))
    made.save(tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == made
    assert made.id != plan.id
    assert made.guarantee == plan.guarantee
    assert made.layout.hops == 2
    with pytest.raises(InvalidInput, match="names the parties"):
        _ = plan.layout


def test_the_trust_statement_names_who_must_be_honest(plan: Plan) -> None:
    one, two = Parties((FIRST,), ANALYZER), Parties((FIRST, SECOND), ANALYZER)
    assert "ours does not work together with counting" in plan.run_by(one).explain()
    assert "one of ours and theirs does not" in two.trust(first_hop_alone=False)
    assert "as long as ours does not" in two.trust(first_hop_alone=True)


def test_nobody_is_two_parties() -> None:
    for other in (replace(ANALYZER, identity=FIRST.identity), replace(ANALYZER, name=FIRST.name)):
        with pytest.raises(InvalidInput, match="one party only"):
            Parties((FIRST,), other)
    with pytest.raises(InvalidInput, match="number of hops"):
        Parties((), ANALYZER)


@pytest.mark.parametrize(
    "address", ["ftp://x", "example.org", "https://", "https://a:b@c", "https://a?b", "http://a:x"]
)
def test_an_address_is_one_of_http(address: str) -> None:
    with pytest.raises(InvalidInput, match="address"):
        replace(FIRST, address=address)
    assert FIRST.url("v1", "plans") == "https://shuffler.example:8443/v1/plans"
