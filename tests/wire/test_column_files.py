"""Files of shuffled columns: read back as they were, or refused."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.protected import kind_of
from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.wire.documents import identified
from chaffinch.wire.filter_files import _FORMAT, ShuffledColumns, load_columns
from tests.cases import each_case

COLUMNS = ShuffledColumns(
    "a7" * 32, "0b" * 16, "c3" * 16, 64, 2, np.array([40, 10, 8, 6], np.int64)
)


def written(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps(document))
    return path


def changed(**facts: Any) -> dict[str, Any]:
    """Return a document with other facts and an id that fits them."""
    return identified(_FORMAT, COLUMNS.body() | facts)


def test_a_file_is_read_back_and_belongs_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "campaign.columns"
    COLUMNS.save(path)
    found = load_columns(path)
    assert found.content() == COLUMNS.content() == path.read_bytes()
    assert found.digest == COLUMNS.digest == json.loads(path.read_bytes())["id"]
    assert not found.counts.flags.writeable
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert kind_of(path) is Kind.COLUMNS


def test_the_bytes_stay_what_they_are() -> None:
    """Another encoder of the same counts must come to the same id: canonical JSON, SHA-256."""
    assert COLUMNS.digest == "7b85e0408c06a6880defcab1fa16791f8b71b3c5c639060ad5deb5612253c70f"
    document = json.loads(COLUMNS.content())
    del document["id"]
    plain = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    assert hashlib.sha256(plain).hexdigest() == COLUMNS.digest


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    whole = COLUMNS.content()
    path = tmp_path / "campaign.columns"
    for place in range(len(whole) - 1):  # the line break behind it is nobody's
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(InvalidFile):
            load_columns(path)
    for size in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:size])
        with pytest.raises(InvalidFile):
            load_columns(path)


@each_case(
    "facts",
    [
        {"counts": [40, 10, 8, 7]},
        {"counts": [40, 10, 14]},
        {"counts": [40, 10, 8, 6, 0]},
        {"counts": [-1, 51, 8, 6]},
        {"counts": [40.0, 10, 8, 6]},
        {"counts": [True, 49, 8, 6]},
        {"counts": []},
        {"rows": 1},
        {"rows": 21},
        {"rows": 0},
        {"bits": 32},
        {"bits": 2**30},
        {"plan_id": "a7"},
        {"key": "A7" * 16},
        {"batch": ""},
        {"publishers": ["daily"]},
    ],
)
def test_impossible_columns_are_refused(facts: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidFile):
        load_columns(written(tmp_path / "campaign.columns", changed(**facts)))


def test_files_of_another_kind_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "campaign.columns"
    later = json.loads(COLUMNS.content()) | {"format": "chaffinch/columns@2"}
    with pytest.raises(InvalidFile, match="format") as caught:
        load_columns(written(path, later))
    assert "another version" in caught.value.hint
    with pytest.raises(InvalidFile):
        load_columns(written(path, {"format": "chaffinch/plan@1"}))


@pytest.mark.long
def test_a_million_counts_fit(tmp_path: Path) -> None:
    counts = np.full(2**20, 2**9, np.int64)
    large = ShuffledColumns("a7" * 32, "0b" * 16, "c3" * 16, 2**29, 20, counts)
    large.save(tmp_path / "large.columns")
    assert load_columns(tmp_path / "large.columns").digest == large.digest


@pytest.mark.parametrize(
    "counts",
    [
        np.array([40, 10, 8, 7], np.int64),
        np.array([40, 10, 14], np.int64),
        np.array([40, 10, 8, 6], np.int32),
        np.array([-2, 52, 8, 6], np.int64),
    ],
)
def test_impossible_columns_are_never_born(counts: Any) -> None:
    with pytest.raises(InvalidInput):
        ShuffledColumns("a7" * 32, "0b" * 16, "c3" * 16, 64, 2, counts)
