"""Campaign keys: what follows from them, who may read their files, and that they stay unseen."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pwd
import shutil
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaffinch.disk.leftovers import alone_in
from chaffinch.errors import ChaffinchError, InvalidFile, InvalidInput, StorageFault
from chaffinch.privacy import Target
from chaffinch.reach.publisher.campaign_key import CampaignKey, load_key, new_key
from chaffinch.reach.publisher.filter_making import encode as publishers_encode
from chaffinch.wire.filter_files import Filter
from tests.cases import each_case
from tests.reach.publishing import KEY, SECRET, small_plan

PLAN, OTHER = "a" * 64, "b" * 64
encode = partial(publishers_encode, within=Target(epsilon=100, delta=0.01))


def by_the_standard(secret: bytes, info: bytes, length: int) -> bytes:
    """Return HKDF-SHA256 without a salt, from RFC 5869."""
    key = hmac.digest(bytes(32), secret, hashlib.sha256)
    out, block = b"", b""
    for number in range(1, -(-length // 32) + 1):
        block = hmac.digest(key, block + info + bytes([number]), hashlib.sha256)
        out += block
    return out[:length]


def test_hash_keys_and_fingerprint_follow_the_standard() -> None:
    first, further = KEY.hash_keys(PLAN)
    expected = by_the_standard(SECRET, f"chaffinch/reach@1/hash/{PLAN}".encode(), 32)
    assert first + further == expected
    assert len(first) == len(further) == 16
    name = by_the_standard(SECRET, f"chaffinch/reach@1/fingerprint/{PLAN}".encode(), 16)
    assert KEY.fingerprint(PLAN) == name.hex()


def test_every_plan_and_every_key_has_its_own() -> None:
    another = CampaignKey(bytes(31) + b"\1")
    derived = [(key, plan) for key in (KEY, another) for plan in (PLAN, OTHER)]
    assert len({key.hash_keys(plan) for key, plan in derived}) == 4
    assert len({key.fingerprint(plan) for key, plan in derived}) == 4


def test_new_keys_differ() -> None:
    assert len({new_key().secret for _ in range(20)}) == 20


def test_a_saved_key_comes_back_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "campaign.key"
    KEY.save(path)
    assert load_key(path) == KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "campaign.key"
    KEY.save(path)
    with pytest.raises(StorageFault):
        new_key().save(path)
    assert load_key(path) == KEY


@pytest.mark.skipif(os.name != "posix", reason="permissions of this kind are POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "campaign.key"
    KEY.save(path)
    path.chmod(mode)
    with pytest.raises(InvalidFile, match="owner only") as caught:
        load_key(path)
    assert "chmod 600" in caught.value.hint


@each_case(
    "content",
    [
        b"",
        b"nothing of the kind",
        b"chaffinch-campaign-key-1:" + SECRET.hex().encode()[:-2],
        b"chaffinch-campaign-key-1:" + SECRET.hex().encode() + b"00",
        b"chaffinch-campaign-key-1:" + SECRET.hex().encode()[:-1] + b"x",
        b"chaffinch-campaign-key-2:" + SECRET.hex().encode(),
        b"chaffinch-campaign-key-1:\xff\xfe",
        b"x" * 5000,
    ],
)
def test_what_is_no_key_file_is_refused_without_being_shown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "campaign.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidFile) as caught:
        load_key(path)
    assert SECRET.hex()[:8] not in str(caught.value)


def test_a_key_never_shows_itself() -> None:
    texts = [repr(KEY), str(KEY), f"{KEY}", repr([KEY]), repr({"key": KEY})]
    with pytest.raises(InvalidInput) as caught:
        CampaignKey(SECRET[:-1])
    texts += [str(caught.value), repr(caught.value), repr(caught.value.details)]
    for text in texts:
        assert "canary" not in text
        assert SECRET.hex()[:8] not in text


@each_case("secret", [b"", bytes(31), bytes(33), "x" * 32, None, bytearray(32)])
def test_what_is_not_32_bytes_is_no_key(secret: object) -> None:
    with pytest.raises(ChaffinchError, match="32 bytes"):
        CampaignKey(secret)  # type: ignore[arg-type]


def test_every_wrong_digit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "campaign.key"
    KEY.save(path)
    text = path.read_text()
    start = text.index(":") + 1
    for place in range(start, len(text) - 1):
        for digit in "0123456789abcdef-":
            if digit == text[place]:
                continue
            path.write_text(text[:place] + digit + text[place + 1 :])
            with pytest.raises(InvalidFile, match="wrong digits"):
                load_key(path)
    for cut in range(start, len(text) - 1):
        path.write_text(text[:cut])
        with pytest.raises(InvalidFile, match="wrong digits"):
            load_key(path)


def test_key_files_without_check_digits_are_still_read(tmp_path: Path) -> None:
    path = tmp_path / "campaign.key"
    path.write_text(f"chaffinch-campaign-key-1:{SECRET.hex()}\n")
    path.chmod(0o600)
    assert load_key(path) == KEY
    path.write_text(f"chaffinch-campaign-key-1:{SECRET.hex()[1:]}\n")
    with pytest.raises(InvalidFile, match="wrong digits"):
        load_key(path)


# ----------------------------------------------------------------------------
# What a key has made.


def test_a_key_makes_one_filter_for_each_publisher(tmp_path: Path) -> None:
    plan = small_plan(bits=1 << 12)
    CampaignKey(SECRET).save(tmp_path / "campaign.key")
    (tmp_path / "link").symlink_to("campaign.key")
    for key in (CampaignKey(SECRET), load_key(tmp_path / "campaign.key")):
        encode(["a"], plan, publisher="daily", key=key)
        encode(["a"], plan, publisher="radio", key=key)
        for other, why in (
            (plan, "made no filter of 'daily'"),
            (small_plan(bits=1 << 13), "made no filter for another plan"),
        ):
            with pytest.raises(InvalidInput, match=why):
                encode(["a"], other, publisher="daily", key=key)
    for name in ("campaign.key", "link"):
        with pytest.raises(InvalidInput, match="made no filter of 'daily'"):
            encode(["a"], plan, publisher="daily", key=load_key(tmp_path / name))
    usual, beside = load_key(tmp_path / "campaign.key").records
    for record in (usual, beside):
        assert stat.S_IMODE(record.stat().st_mode) == 0o600
        assert SECRET.hex() not in record.read_text()
        assert SECRET.hex()[:8] not in str(record)


def _rename(key: Path) -> Path:
    return key.rename(key.with_name("renamed.key"))


def _move(key: Path) -> Path:
    folder = key.parent / "elsewhere"
    folder.mkdir()
    return key.rename(folder / key.name)


def _link(key: Path) -> Path:
    os.link(key, key.with_name("hard.key"))
    return key.with_name("hard.key")


def _copy(key: Path) -> Path:
    return Path(shutil.copy(key, key.with_name("copy.key")))


def _swap_folder(key: Path) -> Path:
    old = key.parent.rename(key.parent.with_name("old"))
    key.parent.mkdir()
    shutil.copy(old / key.name, key)
    return key


@pytest.mark.parametrize("change", [_rename, _move, _link, _copy, _swap_folder])
def test_a_key_is_known_wherever_its_file_goes(
    change: Callable[[Path], Path], tmp_path: Path
) -> None:
    path, plan = tmp_path / "keys" / "campaign.key", small_plan()
    path.parent.mkdir()
    new_key().save(path)
    encode(["a"], plan, publisher="daily", key=load_key(path))
    key = load_key(change(path))
    with pytest.raises(InvalidInput, match="made no filter of 'daily'"):
        encode(["a"], plan, publisher="daily", key=key)
    encode(["a"], plan, publisher="radio", key=key)


@pytest.mark.parametrize("lost", [0, 1])
def test_either_record_forbids_a_second_filter(lost: int, tmp_path: Path) -> None:
    path, plan = tmp_path / "campaign.key", small_plan()
    new_key().save(path)
    key = load_key(path)
    made = encode(["a"], plan, publisher="daily", key=key)
    key.records[lost].unlink()
    with pytest.raises(InvalidInput, match="made no filter of 'daily'"):
        encode(["a"], plan, publisher="daily", key=load_key(path))
    with pytest.raises(InvalidInput, match="made no filter of 'daily'"):
        load_key(path).remember(replace(made, batch="0" * 32))
    encode(["a"], plan, publisher="radio", key=load_key(path))
    assert load_key(path).made_for("radio") is not None


def test_a_key_is_for_one_plan_whoever_the_publisher_is(tmp_path: Path) -> None:
    path, plan, other = tmp_path / "campaign.key", small_plan(), small_plan(bits=2048)
    assert plan.id != other.id
    held = new_key()
    encode(["a"], plan, publisher="daily", key=held)
    with pytest.raises(InvalidInput, match="for another plan") as refused:
        encode(["a"], other, publisher="radio", key=held)
    assert plan.id[:16] in str(refused.value)
    assert "a key is for one collection" in refused.value.hint
    held.save(path)
    with pytest.raises(InvalidInput, match="for another plan"):
        encode(["a"], other, publisher="radio", key=load_key(path))
    with pytest.raises(InvalidInput, match="for another plan"):
        load_key(path).take("radio", other.id, "1" * 64)
    assert load_key(path).made_for("radio") is None
    encode(["a"], plan, publisher="radio", key=load_key(path))


def test_an_entry_without_a_plan_forbids_no_plan(tmp_path: Path) -> None:
    path = tmp_path / "campaign.key"
    new_key().save(path)
    load_key(path).take("daily", "", "1" * 64)
    load_key(path).take("radio", PLAN, "2" * 64)
    with pytest.raises(InvalidInput, match="for another plan"):
        load_key(path).take("shop", OTHER, "3" * 64)


def test_a_key_whose_records_get_no_name_has_made_nothing(tmp_path: Path) -> None:
    path = tmp_path / "campaign.key"
    new_key().save(path)
    key = load_key(path)
    taking = key.taking("daily", PLAN, "1" * 64)
    taking.__enter__()
    for record in key.records:  # a folder is not replaced by a file
        record.mkdir()
    with pytest.raises(ChaffinchError):
        taking.__exit__(None, None, None)
    for record in key.records:
        record.rmdir()
    assert key.made_for("daily") is None
    key.take("daily", PLAN, "2" * 64)
    assert load_key(path).made_for("daily") == key.made_for("daily")


def test_another_state_folder_knows_the_key_by_what_is_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that runs at night often has other variables than its owner."""
    path, plan = tmp_path / "campaign.key", small_plan()
    new_key().save(path)
    encode(["a"], plan, publisher="daily", key=load_key(path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    with pytest.raises(InvalidInput, match="made no filter of 'daily'"):
        encode(["a"], plan, publisher="daily", key=load_key(path))


def test_a_saved_key_is_recorded_from_then_on(tmp_path: Path) -> None:
    path, plan, key = tmp_path / "campaign.key", small_plan(), new_key()
    key.save(path)
    encode(["a"], plan, publisher="daily", key=key)
    with pytest.raises(InvalidInput, match="made no filter of 'daily'"):
        encode(["a"], plan, publisher="daily", key=load_key(path))


def test_a_key_that_cannot_be_saved_leaves_no_record(tmp_path: Path) -> None:
    path, key = tmp_path / "campaign.key", new_key()
    encode(["a"], small_plan(), publisher="daily", key=key)
    path.write_text("another key")
    with pytest.raises(StorageFault, match="exists already"):
        key.save(path)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_key_on_a_disk_that_cannot_be_written_to_is_recorded_in_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plan = tmp_path / "campaign.key", small_plan()
    new_key().save(path)
    real = os.access
    monkeypatch.setattr(os, "access", lambda one, mode: one != tmp_path and real(one, mode))
    encode(["a"], plan, publisher="daily", key=load_key(path))
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    with pytest.raises(InvalidInput, match="made no filter of 'daily'"):
        encode(["a"], plan, publisher="daily", key=load_key(path))


def test_a_key_from_a_pipe_has_nothing_beside_it(tmp_path: Path) -> None:
    path, plan = tmp_path / "campaign.key", small_plan()
    new_key().save(path)

    def piped() -> CampaignKey:
        reading, writing = os.pipe()
        os.write(writing, path.read_bytes())
        os.close(writing)
        try:
            return load_key(f"/dev/fd/{reading}")
        finally:
            os.close(reading)

    encode(["a"], plan, publisher="daily", key=piped())
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
    for key in (piped(), load_key(path)):
        with pytest.raises(InvalidInput, match="made no filter of 'daily'"):
            encode(["a"], plan, publisher="daily", key=key)


@pytest.mark.parametrize("home", ["here", None])
def test_a_key_is_not_used_where_its_record_would_not_be_found_again(
    home: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_key().save(tmp_path / "campaign.key")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_STATE_HOME")
    if home is None:
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.setattr(pwd, "getpwuid", dict[int, Any]().__getitem__)  # an unknown user
    else:
        monkeypatch.setenv("HOME", home)
    with pytest.raises(StorageFault, match="home folder must be an absolute path"):
        encode(["a"], small_plan(), publisher="daily", key=load_key("campaign.key"))
    assert [one.name for one in tmp_path.iterdir()] == ["campaign.key"]


def test_two_that_record_at_once_take_turns(tmp_path: Path) -> None:
    """The second one waits for the first, and then finds what it has recorded."""
    path = tmp_path / "campaign.key"
    new_key().save(path)
    made = encode(["a"], small_plan(), publisher="daily", key=new_key())
    other = replace(made, batch="0" * 32)
    refused: list[InvalidInput] = []

    def second() -> None:
        try:
            load_key(path).remember(other)
        except InvalidInput as error:
            refused.append(error)

    waiting = threading.Thread(target=second)
    with alone_in(tmp_path, "keys"):
        waiting.start()
        time.sleep(0.2)
        assert waiting.is_alive()
        record = tmp_path / "campaign.key.record"
        # What the first one writes while it is alone.
        aside = tmp_path / "aside" / "campaign.key"
        aside.parent.mkdir()
        shutil.copy(path, aside)
        record.write_bytes(_recorded_beside(aside, made))
    waiting.join(30)
    assert len(refused) == 1
    assert len(json.loads(record.read_bytes())["filters"]) == 1


def _recorded_beside(path: Path, made: Filter) -> bytes:
    """Return the record of a key, beside its file, after it has made a filter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(path.parent))
        key = load_key(path)
        key.remember(made)
        return key.records[1].read_bytes()


def test_a_saved_key_takes_along_what_it_has_made(tmp_path: Path) -> None:
    key = new_key()
    made = encode(["a"], small_plan(), publisher="daily", key=key)
    key.save(tmp_path / "campaign.key")
    loaded = load_key(tmp_path / "campaign.key")
    found = loaded.made_for("daily")
    assert found is not None
    assert found["batch"] == made.batch
    loaded.remember(made)  # the very same again
    with pytest.raises(InvalidInput, match="made no filter"):
        loaded.remember(replace(made, batch="0" * 32))


def test_a_refused_table_leaves_the_key_unused(tmp_path: Path) -> None:
    new_key().save(tmp_path / "campaign.key")
    key = load_key(tmp_path / "campaign.key")
    with pytest.raises(ChaffinchError):
        encode([None], small_plan(), publisher="daily", key=key)
    assert key.made_for("daily") is None
    encode(["a"], small_plan(), publisher="daily", key=key)


@each_case("text", ["", "{}", "[]", '{"format": "chaffinch/key-record@1"}', "\0"])
@each_case("kept", ["usual", "beside"])
def test_a_damaged_record_is_refused(text: str, kept: str, tmp_path: Path) -> None:
    new_key().save(tmp_path / "campaign.key")
    usual = load_key(tmp_path / "campaign.key").records[0]
    place = usual if kept == "usual" else tmp_path / "campaign.key.record"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    with pytest.raises(InvalidFile, match="the record of a campaign key"):
        encode(["a"], small_plan(), publisher="daily", key=load_key(tmp_path / "campaign.key"))


def test_no_letter_of_a_record_can_change(tmp_path: Path) -> None:
    """Whatever single byte is another, the key does not forget what it has made."""
    new_key().save(tmp_path / "campaign.key")
    plan, (place, other) = small_plan(), load_key(tmp_path / "campaign.key").records
    made = encode(["a"], plan, publisher="daily", key=load_key(tmp_path / "campaign.key"))
    other.unlink()
    content = place.read_bytes()
    for number, byte in enumerate(content):
        place.write_bytes(content[:number] + bytes([byte ^ 1]) + content[number + 1 :])
        try:
            found = load_key(tmp_path / "campaign.key").made_for("daily")
        except InvalidFile:
            continue
        assert found is not None
        assert found["batch"] == made.batch
