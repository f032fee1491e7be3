"""A reach that names who runs it: shuffler, analyzer, and every publisher by its identity."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.plans.parties import Party
from chaffinch.reach.planning.reach_parties import ReachParties, read_reach_parties
from chaffinch.reach.planning.reach_plan import load_plan
from chaffinch.wire.envelopes import OpeningKey
from chaffinch.wire.filter_files import filter_from
from chaffinch.wire.sealed_filters import START_LENGTH, pad, seal_filter, unpad
from tests.cases import each_case
from tests.reach import publishing

FLIP = Fraction(1, 8)
HOP = Party("University", "0" * 64, "https://shuffler.example.org")
ANALYZER = Party("Ministry", "1" * 64, "https://analyzer.example.com")
PUBLISHERS = (("radio", "2" * 64), ("daily", "3" * 64))
PARTIES = ReachParties((HOP,), ANALYZER, "x25519", PUBLISHERS)
FILE = f"""
[[hops]]
name = "University"
identity = "{"0" * 64}"
address = "https://shuffler.example.org"
[analyzer]
name = "Ministry"
identity = "{"1" * 64}"
address = "https://analyzer.example.com"
[publishers]
radio = "{"2" * 64}"
daily = "{"3" * 64}"
"""


def test_a_plan_with_parties_is_another_plan_and_comes_back(tmp_path: Path) -> None:
    plan = publishing.small_plan(shuffled=FLIP)
    named = plan.run_by(PARTIES)
    assert named.id != plan.id
    assert "parties" not in plan.document()
    named.save(tmp_path / "plan.json")
    found = load_plan(tmp_path / "plan.json")
    assert (found, found.id) == (named, named.id)
    assert found.named_parties.publishers == PUBLISHERS[::-1], "in the order of the plan"
    assert "University" in named.explain()
    (tmp_path / "parties.toml").write_text(FILE)
    assert plan.run_by(read_reach_parties(tmp_path / "parties.toml")) == named


@each_case(
    ("old", "new"),
    [
        ("2" * 64, "3" * 64),  # two publishers
        ("2" * 64, "0" * 64),  # the shuffler is a publisher
        ("2" * 64, "1" * 64),  # the analyzer is one
        ("2" * 64, "2" * 63),
        ("2" * 64, "G" * 64),
        ("[publishers]", "[others]"),
        ("[analyzer]", '[[hops]]\nname="a"\nidentity="4"\naddress="http://a"\n[analyzer]'),
    ],
)
def test_nobody_is_two_parties(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "parties.toml").write_text(FILE.replace(old, new))
    with pytest.raises(InvalidFile):
        read_reach_parties(tmp_path / "parties.toml")


def test_parties_are_those_of_the_plan() -> None:
    with pytest.raises(InvalidInput, match="one with a shuffler"):
        publishing.small_plan().run_by(PARTIES)
    with pytest.raises(InvalidInput, match="those of the plan"):
        publishing.small_plan(("daily", "shop"), shuffled=FLIP).run_by(PARTIES)
    with pytest.raises(InvalidInput, match="those of the plan"):
        publishing.small_plan(("daily",), shuffled=FLIP).run_by(PARTIES)
    with pytest.raises(InvalidInput, match="names the parties"):
        _ = publishing.small_plan(shuffled=FLIP).layout


@pytest.mark.parametrize("kem", ["x25519", "x25519-ml-kem-768"])
def test_all_sealed_filters_of_a_plan_have_one_length(kem: str) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    names = ("a", "a publisher with quite a long name as some have")
    parties = ReachParties(
        (HOP,), ANALYZER, kem, tuple((name, str(5 + n) * 64) for n, name in enumerate(names))
    )
    plan = publishing.small_plan(names, shuffled=FLIP, frequencies=2).run_by(parties)
    key = OpeningKey.new(3, plan.layout.outer_kem)
    lengths = set()
    for name in names:
        for ids in (["user-0"], [f"user-{n}" for n in range(500)]):
            made = publishing.encode(ids, plan, publisher=name)
            identity = Ed25519PrivateKey.generate()
            sealed = seal_filter(made.content(), plan.layout, key.sealing, identity)
            lengths.add(len(sealed))
            padded = key.open(sealed[START_LENGTH:], plan.layout.binding(1, 1))
            assert padded is not None
            content = unpad(padded, plan.layout.filter_length)
            assert content is not None
            assert filter_from(content).digest == made.digest
            # For another layer or plan it does not open.
            assert key.open(sealed[START_LENGTH:], plan.layout.binding(2, 1)) is None
    assert lengths == {plan.layout.sealed_length}


def test_padding_has_one_form() -> None:
    padded = pad(b"abc", 16)
    assert (len(padded), unpad(padded, 16)) == (16, b"abc")
    assert unpad(padded, 15) is None
    assert unpad(padded[:-1] + b"\1", 16) is None
    assert unpad(b"\xff" * 16, 16) is None
    with pytest.raises(InvalidInput, match="at most 12 bytes"):
        pad(bytes(13), 16)
