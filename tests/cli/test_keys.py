from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import chaffinch as cf
from chaffinch.keys import KeyFolder
from chaffinch.plans.parties import EXAMPLE
from chaffinch.wire.envelopes import HYBRID
from chaffinch.wire.key_lists import KeyList
from tests.cli.conftest import Done


@pytest.fixture
def keys(cli: Callable[..., Done], tmp_path: Path) -> Path:
    assert cli("keys", "create", tmp_path / "keys").code == 0
    return tmp_path / "keys"


def test_creating_prints_the_identity_alone(cli: Callable[..., Done], tmp_path: Path) -> None:
    done = cli("keys", "create", tmp_path / "keys")
    assert done.code == 0
    assert done.out.strip() == KeyFolder.open(tmp_path / "keys").identity_hex
    again = cli("keys", "create", tmp_path / "keys")
    assert again.code == 5
    assert "exists already" in again.err
    assert KeyFolder.open(tmp_path / "keys").identity_hex == done.out.strip()


def test_a_first_hop_may_have_keys_of_both_kinds(cli: Callable[..., Done], tmp_path: Path) -> None:
    done = cli("keys", "create", tmp_path / "keys", "--kem", "x25519-ml-kem-768", "--json")
    folder = KeyFolder.open(tmp_path / "keys")
    assert json.loads(done.out) == {"identity": folder.identity_hex}
    assert folder.entries[0].kem == HYBRID


def test_rotating_is_for_a_timer(cli: Callable[..., Done], keys: Path) -> None:
    assert "no key was due" in cli("keys", "rotate", keys).err
    done = cli("keys", "rotate", keys, "--at-once")
    assert done.code == 0
    words = [line.split()[:2] for line in done.out.splitlines() if line[:1].isdigit()]
    assert words == [["1", "expired"], ["2", "active"]]
    found = json.loads(cli("keys", "show", keys, "--json").out)
    assert [one["state"] for one in found["keys"]] == ["expired", "active"]


def test_a_key_that_is_to_be_destroyed_is_closed(cli: Callable[..., Done], keys: Path) -> None:
    assert cli("keys", "destroy", keys, 1).code == 2  # it is active
    cli("keys", "rotate", keys, "--at-once")
    assert cli("keys", "destroy", keys, 1).code == 0
    found = json.loads(cli("keys", "show", keys, "--json").out)
    assert [one["state"] for one in found["keys"]] == ["closed", "active"]


def test_nothing_secret_is_printed(cli: Callable[..., Done], keys: Path) -> None:
    cli("keys", "rotate", keys, "--at-once")
    secrets = [
        secret
        for one in KeyFolder.open(keys).opening_keys().values()
        for secret in (one.tag_secret.hex(), one.key.private.hex())
    ]
    for words in (("show",), ("show", "--json"), ("rotate",), ("rotate", "--json")):
        done = cli("keys", words[0], keys, *words[1:])
        assert not any(secret in done.out + done.err for secret in secrets)


def test_a_folder_that_others_may_read_is_refused(cli: Callable[..., Done], keys: Path) -> None:
    keys.chmod(0o750)
    done = cli("keys", "show", keys)
    assert done.code == 5
    assert "for its owner alone" in done.err


def test_a_party_signs_a_list_for_its_plan(
    cli: Callable[..., Done], keys: Path, folder: Path, plan: cf.Plan
) -> None:
    listed = folder / "keys.list"
    words = ("keys", "list", keys, "--out", listed, "--plan")
    assert cli(*words, folder / "members.plan.json").code == 2  # it names nobody
    identity = KeyFolder.open(keys).identity_hex
    old = next(line for line in EXAMPLE.splitlines() if line.startswith("identity"))
    parties = folder / "parties.toml"
    parties.write_text(EXAMPLE)
    sealed = folder / "sealed.plan.json"
    planned = ("plan", "--check", folder / "members.plan.json", "--parties", parties, "-o", sealed)
    assert cli(*planned).code == 0
    assert "a party of the plan" in cli(*words, sealed).err  # it names others
    sealed.unlink()
    parties.write_text(EXAMPLE.replace(old, f'identity = "{identity}"'))
    assert cli(*planned).code == 0
    assert cli(*words, sealed).code == 0
    found = cf.load_plan(sealed)
    content = listed.read_bytes()
    KeyList.read(content, plan_id=found.id, identity=bytes.fromhex(identity))
    assert found.id != plan.id
    assert cli(*words, sealed).code == 5  # nothing is overwritten
