"""A batch in a folder is read like any other, and nothing that is not exactly it is read at all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.locations import Place
from chaffinch.disk.protected import kind_of
from chaffinch.engines.local import Local
from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.wire.batch_folders import (
    MANIFEST,
    MOST_PARTS,
    BatchPart,
    Manifest,
    cut_parts,
    part_name,
    read_manifest,
    write_manifest,
    write_part,
)
from chaffinch.wire.batches import BatchFacts, CodeCounts, digest_of, new_name
from chaffinch.wire.documents import document_bytes, identified
from chaffinch.wire.message_pieces import cut_batch
from chaffinch.wire.message_reader import MessageReader
from tests.engines import plans

USERS = 300
PLAN = plans.clear(USERS, 5)
CODES = plans.answers(USERS, 5).astype(np.uint32)
ENDING = "0123abcd"


def filled(folder: Path, *, name: str = "", stage: str = "shuffled") -> Path:
    """Write a batch of three parts, one of them empty."""
    folder.mkdir()
    place = Place.of(folder)
    facts = BatchFacts(PLAN.id, stage, USERS, PLAN.codes, 1, name or new_name())
    counts = CodeCounts(PLAN.codes)
    counts.add(CODES)
    parts = [
        write_part(place, part_name(number, 0, ENDING), facts, codes)
        for number, codes in enumerate([CODES[:100], CODES[:0], CODES[100:]])
    ]
    write_manifest(place, Manifest(facts, digest_of(facts, counts), tuple(parts)))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path / "batch")


def part(folder: Path, number: int) -> Path:
    return folder / part_name(number, 0, ENDING)


def test_a_folder_is_read_as_the_file_of_the_same_batch(folder: Path, tmp_path: Path) -> None:
    reader = MessageReader(folder)
    found = np.concatenate(list(reader.batches()))
    assert found.tolist() == CODES.tolist()
    name = reader.facts.name
    alone = plans.written(tmp_path / "a.parquet", PLAN, CODES, stage="shuffled", name=name)
    other = MessageReader(alone)
    list(other.batches())
    assert (reader.facts, reader.digest, reader.rows) == (other.facts, other.digest, USERS)
    assert Local().tally([folder], PLAN).digest == Local().tally([alone], PLAN).digest


def test_one_machine_shuffles_what_a_cluster_encoded(tmp_path: Path) -> None:
    source = filled(tmp_path / "batch", stage="encoded")
    Local().shuffle([source], PLAN, tmp_path / "made.parquet")
    assert sorted(plans.read(tmp_path / "made.parquet").tolist()) == sorted(CODES.tolist())


def test_pieces_are_the_parts_and_hold_the_messages(folder: Path, tmp_path: Path) -> None:
    cut = cut_batch(7, folder)
    assert [piece.rows for piece in cut.pieces] == [100, 0, 200]
    assert {piece.batch for piece in cut.pieces} == {7}
    found = [codes for piece in cut.pieces for codes in piece.batches()]
    assert np.concatenate(found).tolist() == CODES.tolist()
    assert sum(piece.counts().total for piece in cut.pieces) == USERS
    alone = plans.written(tmp_path / "a.parquet", PLAN, CODES, stage="shuffled")
    (piece,) = cut_batch(0, alone).pieces
    assert np.concatenate(list(piece.batches())).tolist() == CODES.tolist()


def test_a_large_file_is_cut_between_its_row_groups(tmp_path: Path) -> None:
    plan = plans.clear(1, 2)
    codes = np.zeros(9 << 20, np.uint32)
    codes[::3] = 1
    path = plans.written(tmp_path / "a.parquet", plan, codes)
    cut = cut_batch(0, path)
    assert [piece.rows for piece in cut.pieces] == [4 << 20, 4 << 20, 1 << 20]
    ones = [int(piece.counts().dense()[1]) for piece in cut.pieces]
    assert sum(ones) == int(codes.sum())
    other = plans.written(tmp_path / "b.parquet", plan, codes)
    other.replace(path)
    with pytest.raises(InvalidFile, match="damaged"):
        list(cut.pieces[1].batches())


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_part_alone_is_no_batch_and_is_not_written_over(folder: Path, number: int) -> None:
    with pytest.raises(InvalidFile, match="no mark of one"):
        MessageReader(part(folder, number))
    assert kind_of(part(folder, number)) is Kind.BATCH
    assert kind_of(folder) is Kind.BATCH
    assert kind_of(folder / MANIFEST) is Kind.BATCH
    with pytest.raises(InvalidInput, match="one with messages"):
        Local().encode({"answer": ["v1"]}, PLAN, part(folder, number))


def read(folder: Path) -> list[int]:
    reader = MessageReader(folder)
    return [int(code) for codes in reader.batches() for code in codes]


def test_every_missing_added_or_exchanged_part_is_refused(folder: Path, tmp_path: Path) -> None:
    other = filled(tmp_path / "other")
    changes: dict[str, Any] = {
        "1 missing": lambda one: part(one, 0).unlink(),
        "'part-00001-00000-0123abcd.parquet' first": lambda one: part(one, 1).unlink(),
        "as well": lambda one: shutil.copy(part(one, 0), one / part_name(9, 0, ENDING)),
        "other parts": lambda one: (one / "part-00000.parquet").touch(),
        "another batch": lambda one: shutil.copy(part(other, 0), part(one, 0)),
        "damaged": lambda one: shutil.copy(part(one, 2), part(one, 0)),
        r"without manifest\.json": lambda one: (one / MANIFEST).unlink(),
        "no file|damaged": lambda one: shutil.copy(one / MANIFEST, part(one, 0)),
        "content that does not match": lambda one: edit(one, lambda text: text.replace("200", "9")),
        "no JSON": lambda one: edit(one, lambda text: text[:-5]),
    }
    for words, change in changes.items():
        copy = tmp_path / "copy"
        shutil.copytree(folder, copy)
        change(copy)
        with pytest.raises(InvalidFile, match=words):
            read(copy)
        with pytest.raises(InvalidFile):
            Local().tally([copy], PLAN)
        shutil.rmtree(copy)
    assert sorted(read(folder)) == sorted(CODES.tolist())


def edit(folder: Path, change: Any) -> None:
    path = folder / MANIFEST
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def rewritten(folder: Path, **changes: Any) -> None:
    """Write another manifest with a true id."""
    document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    body = {key: document[key] for key in ("facts", "parts")} | changes
    made = identified("chaffinch/batch-folder@1", body)
    (folder / MANIFEST).write_bytes(document_bytes(made))


def test_a_manifest_that_says_something_else_is_refused(folder: Path) -> None:
    document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    facts, parts = document["facts"], document["parts"]
    for changes, words in [
        ({"parts": parts[:2]}, "other parts"),
        ({"parts": [*parts, parts[0]]}, "one twice"),
        ({"parts": [parts[0] | {"name": "../other/part"}, *parts[1:]]}, "name"),
        ({"parts": [parts[0] | {"messages": -1}, *parts[1:]]}, "messages"),
        ({"parts": [parts[0] | {"messages": 99}, *parts[1:]]}, "damaged"),
        ({"facts": facts | {"chaffinch.reports": "301"}}, "damaged"),
        ({"facts": facts | {"chaffinch.digest": "0" * 64}}, "damaged"),
        ({"facts": facts | {"chaffinch.other": "1"}}, "unknown fact"),
        ({"facts": {}}, "no mark"),
        ({"more": 1}, "more"),
    ]:
        rewritten(folder, **changes)
        with pytest.raises(InvalidFile, match=words):
            read(folder)
    rewritten(folder, facts=facts, parts=parts)
    assert sorted(read(folder)) == sorted(CODES.tolist())


def test_any_changed_byte_of_a_part_is_refused(folder: Path) -> None:
    path = part(folder, 0)
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            found = read(folder)
        except InvalidFile:
            continue
        assert sorted(found) == sorted(CODES.tolist())
    path.write_bytes(whole)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidFile):
            read(folder)


def test_parts_are_cut_by_their_size() -> None:
    cut = [
        part.tolist()
        for part in cut_parts(iter(np.split(np.arange(11, dtype=np.uint32), [3, 4, 9])), 4)
    ]
    assert cut == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert list(cut_parts(iter([]), 4)) == []
    assert [len(one) for one in cut_parts(iter([np.arange(8, dtype=np.uint32)]), 4)] == [4, 4]


def test_the_parts_are_the_same_bytes_when_they_are_written_again(tmp_path: Path) -> None:
    name = new_name()
    one, two = filled(tmp_path / "one", name=name), filled(tmp_path / "two", name=name)
    assert plans.listing(one) == plans.listing(two)
    assert read_manifest(Place.of(one)) == read_manifest(Place.of(two))


def test_no_more_parts_are_written_than_are_read(tmp_path: Path) -> None:
    facts = BatchFacts(PLAN.id, "encoded", 1, PLAN.codes, 1, new_name())
    many = tuple(BatchPart(part_name(one, 0, ENDING), 1) for one in range(MOST_PARTS + 1))
    with pytest.raises(InvalidInput, match="number of parts"):
        write_manifest(Place.of(tmp_path), Manifest(facts, "0" * 64, many))
    assert not list(tmp_path.iterdir())
