"""A Parquet file that is damaged is refused; pyarrow alone would end the process on some."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.errors import InvalidTable
from chaffinch.tables.read import open_table

TABLE = pa.table({"answer": ["yes", "no"] * 10, "number": list(range(20))})


def parquet(**options: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(TABLE, file, **options)
    return file.getvalue()


def changed_footers(content: bytes) -> Iterator[bytes]:
    """Yield the file with each bit of its footer turned in turn."""
    length = int.from_bytes(content[-8:-4], "little")
    for place in range(len(content) - 8 - length, len(content)):
        for bit in range(8):
            spoiled = bytearray(content)
            spoiled[place] ^= 1 << bit
            yield bytes(spoiled)


def read_all() -> None:
    """Read the answers of every file with a damaged footer: an error of ours, or some rows."""
    for spoiled in changed_footers(parquet()):
        try:
            table = open_table(io.BytesIO(spoiled), format="parquet")
            for batch in table.batches(["answer"]):
                batch.to_pylist()
        except InvalidTable:
            continue
    sys.stdout.write("all read")


def test_every_bit_of_a_footer() -> None:
    """In a process of its own: one that aborts would take the tests with it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.tables.test_damaged_parquet"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all read"), done.stderr


def test_text_that_is_no_text() -> None:
    content = parquet(compression="none", use_dictionary=False)
    assert content.count(b"yes") > 10
    spoiled = content.replace(b"yes", b"y\xffs")
    with pytest.raises(InvalidTable, match="intact Parquet"):
        list(open_table(io.BytesIO(spoiled), format="parquet").batches(["answer"]))


if __name__ == "__main__":
    read_all()
