"""A plan that names its parties: another plan, with the same promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.plans.parties import EXAMPLE, Parties, Party, read_parties
from chaffinch.plans.plan import Plan, load_plan

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
    any_one = "one of ours and theirs keeps to the plan and does not work together with counting"
    assert any_one in two.trust(first_hop_alone=False)
    assert "as long as ours does not" in two.trust(first_hop_alone=True)


def test_the_trust_statement_counts_on_hops_before_the_honest_one_to_leave_nobody_out(
    plan: Plan,
) -> None:
    """A bad hop before an honest one drops all but one report and fills up with its own.

    What it can hand to devices does not matter: see ``tests/services/test_bound_routes.py``.
    """
    one, two = Parties((FIRST,), ANALYZER), Parties((FIRST, SECOND), ANALYZER)
    first = "neither leaves reports out nor makes them up"
    assert first in plan.run_by(one).trust
    assert first in two.trust(first_hop_alone=True)
    said = two.trust(first_hop_alone=False)
    assert "and none before it leaves reports out or makes them up" in said
    assert "keys" not in said


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


@pytest.mark.parametrize("address", ["http://hop.example", "http://10.0.0.7:8081", "http://127.1"])
def test_only_the_first_hop_itself_may_answer(address: str) -> None:
    """Somebody on the way takes a report to the hop, and tells the device that it was refused.

    When the key is gone, the report would be sealed anew, and count twice. Or they show the lists
    of last year.
    """
    with pytest.raises(InvalidInput, match="https"):
        Parties((replace(FIRST, address=address),), ANALYZER)


@pytest.mark.parametrize(
    "address", ["https://hop.example", "http://localhost:80", "http://127.0.0.9", "http://[::1]:81"]
)
def test_the_first_hop_is_known_by_tls_or_is_here(address: str) -> None:
    Parties((replace(FIRST, address=address),), ANALYZER)


def test_the_example_names_two_parties(tmp_path: Path) -> None:
    (tmp_path / "parties.toml").write_text(EXAMPLE)
    found = read_parties(tmp_path / "parties.toml")
    assert [one.name for one in found.hops] == ["University"]
    assert found.place_of(found.hops[0].identity) == 1
    assert found.party(2) == found.analyzer
    (tmp_path / "parties.toml").write_text(EXAMPLE.replace('outer_kem = "x25519"', ""))
    assert read_parties(tmp_path / "parties.toml") == found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("address =", "adress =", "hops.0.adress: is not known here; did you mean 'address'?"),
        ("[analyzer]", "[analyser]", "analyser: is not known here; did you mean 'analyzer'?"),
        ("[[hops]]", "[[shufflers]]", "hops: must be there"),
        ("https://shuffler", "ftp://shuffler", "address of a party"),
        ("3d4017", "3D4017", "64 hexadecimal"),
        ('"Ministry"', '"University"', "one party only"),
        ('"x25519"', '"rsa"', "outer_kem"),
        ("[analyzer]", "[analyzer", "no TOML document"),
    ],
)
def test_a_file_of_parties_that_breaks_a_rule_is_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in EXAMPLE
    (tmp_path / "parties.toml").write_text(EXAMPLE.replace(old, new, 1))
    with pytest.raises(InvalidFile, match=said):
        read_parties(tmp_path / "parties.toml")


def test_a_stranger_is_no_party() -> None:
    with pytest.raises(InvalidInput, match="a party of the plan"):
        Parties((FIRST,), ANALYZER).place_of("ff" * 32)
