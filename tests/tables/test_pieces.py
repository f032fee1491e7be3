"""Tables in pieces: together they are the table, and each knows where its rows stand."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.errors import InvalidFile, InvalidTable
from chaffinch.tables.pieces import Piece, pieces_of
from chaffinch.tables.read import open_table

ROWS = 1000


@pytest.fixture(name="parquet")
def _parquet(tmp_path: Path) -> Path:
    path = tmp_path / "ids.parquet"
    pq.write_table(pa.table({"id": range(ROWS), "other": range(ROWS)}), path, row_group_size=90)
    return path


def ids_of(piece: Piece) -> list[int]:
    return [one for batch in piece.open().batches(["id"]) for one in batch["id"].to_pylist()]


@pytest.mark.parametrize("largest", [1, 3000, 1 << 30])
def test_the_pieces_of_a_parquet_file_are_the_file(parquet: Path, largest: int) -> None:
    pieces = pieces_of([parquet], largest=largest)
    assert len(pieces) == {1: 12, 3000: -(-parquet.stat().st_size // 3000), 1 << 30: 1}[largest]
    for piece in pieces:
        ids = ids_of(piece)
        assert ids == list(range(piece.first_row - 1, piece.first_row - 1 + len(ids)))
        assert len(ids) == piece.rows == piece.open().rows
    assert sum(piece.rows or 0 for piece in pieces) == ROWS
    assert {piece.name for piece in pieces} == {"ids.parquet"}


def test_a_folder_is_all_its_files_but_what_engines_leave_there(
    parquet: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "ids"
    folder.mkdir()
    (folder / "b.csv").write_text("id\n7\n8\n")
    parquet.rename(folder / "a.parquet")
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), folder / "c.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".b.csv.crc").touch()
    found = pieces_of([folder])
    assert [(piece.name, piece.rows) for piece in found] == [("a.parquet", ROWS), ("b.csv", None)]
    assert [piece.name for piece in pieces_of([folder / "c.parquet"])] == ["c.parquet"]


def test_a_pattern_is_all_files_that_fit_it(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("part-10.csv", "part-02.csv", "other.csv", "part-[0].csv"):
        (tmp_path / name).write_text("id\n7\n")

    def names_of(*sources: str | Path) -> list[str]:
        return [piece.name for piece in pieces_of(sources)]

    assert names_of(tmp_path / "part-*.csv") == ["part-02.csv", "part-10.csv", "part-[0].csv"]
    assert names_of(tmp_path / "part-[0].csv") == ["part-[0].csv"]  # a file of just that name
    monkeypatch.chdir(tmp_path)
    assert names_of("part-?0.csv", parquet.name) == ["part-10.csv", "ids.parquet"]
    with pytest.raises(InvalidFile, match=r"that some file fits. Got 'none-\*.csv'"):
        pieces_of(["none-*.csv"])
    with pytest.raises(InvalidTable, match="patterns are for --engine spark"):
        open_table("part-*.csv")
    os.link("other.csv", "again.csv")
    for given in (["part-02.csv", "part-*.csv"], ["other.csv", "again.csv"]):
        with pytest.raises(InvalidFile, match=r"named once. Got '(part-02|again).csv' twice"):
            pieces_of(given)


def test_a_piece_is_found_from_anywhere(
    parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (piece,) = pieces_of([parquet.name])
    monkeypatch.chdir("/")
    assert len(ids_of(piece)) == ROWS


def test_what_has_no_pieces_is_refused(parquet: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidTable, match="no file named"):
        pieces_of([tmp_path / "none.csv"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidFile, match="empty folder 'empty'"):
        pieces_of([tmp_path / "empty"])
    (tmp_path / "some.csv").write_text("id\n7\n")
    with pytest.raises(InvalidTable, match="row groups"):
        open_table(tmp_path / "some.csv", groups=range(1))
    with pytest.raises(InvalidTable, match="damaged"):
        open_table(parquet, groups=range(12, 13))


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(InvalidTable, match="a pipe"):
        pieces_of([tmp_path / "pipe.csv"])
