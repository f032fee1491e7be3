"""Changed footers and headers that are read here: pyarrow reads the same in them, or nothing.

pyarrow ends the process over some damaged chunks, so it is asked in one that may end.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from chaffinch.disk.containers.parquet import Footer, read_footer, read_pages
from tests.disk.containers import forged
from tests.meta import repository

EXAMPLES = pytest.mark.parametrize(
    "examples", [1500, pytest.param(40_000, marks=pytest.mark.long)], ids=["some", "many"]
)
_READER = """
import io, json, os, sys
import pyarrow as pa, pyarrow.parquet as pq

def facts(content):
    said = pq.read_metadata(io.BytesIO(content))
    columns = [said.schema.column(at) for at in range(said.num_columns)]
    chunks = [
        [said.row_group(group).column(at) for at in range(said.num_columns)]
        for group in range(said.num_row_groups)
    ]
    return [
        [[one.path, one.max_repetition_level > 0] for one in columns],
        [
            [
                [
                    one.num_values,
                    one.total_compressed_size,
                    one.data_page_offset,
                    one.dictionary_page_offset if one.has_dictionary_page else None,
                ]
                for one in group
            ]
            for group in chunks
        ],
    ]

def values(content):
    return pq.read_table(io.BytesIO(content), use_threads=False).column(0).to_pylist()

ask = {"facts": facts, "values": values}[sys.argv[1]]
files = [bytes.fromhex(line) for line in sys.stdin]
done = 0
while done < len(files):
    read, write = os.pipe()
    if not os.fork():
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        for content in files[done:]:
            try:
                answer = json.dumps(ask(content))
            except Exception:
                answer = "null"
            os.write(write, answer.encode() + b"\\n")
        os._exit(0)
    os.close(write)
    with open(read) as answers:
        for answer in answers:
            print(answer, end="")
            done += 1
    if os.wait()[1]:
        print("null")
        done += 1
"""


def answers_of_pyarrow(question: str, files: list[bytes]) -> list[Any]:
    """Return what pyarrow says of each file, or None where it refuses or ends."""
    done = subprocess.run(
        [sys.executable, "-c", _READER, question],
        input="\n".join(content.hex() for content in files),
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(files)
    return found


def changed(content: bytes, start: int, end: int, times: int) -> Iterator[bytes]:
    """Yield a content with a few of the bytes from ``start`` to ``end`` changed, lost or more."""
    draw = random.Random(20)
    small = [*range(16), *range(16, 256, 16), 0x11, 0x15, 0x16, 0x18, 0x19, 0x1C, 0x80, 0xFF]
    for _ in range(times):
        part = bytearray(content[start:end])
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            place = draw.randrange(len(part))
            byte = draw.choice((draw.choice(small), part[place] ^ 1 << draw.randrange(8)))
            kept = draw.choice((1, 1, 0, 2))
            part[place : place + kept] = bytes([byte] * draw.choice((1, 1, kept)))
        yield content[:start] + bytes(part) + content[end:]


def told(footer: Footer) -> Any:
    """Return what is said here of a footer."""
    return [
        [[leaf.path, leaf.repeated] for leaf in footer.leaves],
        [
            [[one.values, one.packed, one.first_data, one.dictionary] for one in chunks]
            for chunks in footer.groups
        ],
    ]


def written() -> bytes:
    """Return a small file with nested columns, a dictionary and statistics."""
    file = io.BytesIO()
    table = pa.table({"answer": ["yes", "no"] * 3, "list": [[1, 2], []] * 3})
    pq.write_table(table, file, row_group_size=4, store_schema=False)
    return file.getvalue()


def by_hand() -> bytes:
    """Return a small file whose fields have long numbers."""
    return forged.simple([forged.page(bytes(8), 1)], 1)


@EXAMPLES
@pytest.mark.parametrize("make", [written, by_hand])
def test_changed_footers_have_one_reading(make: Any, examples: int) -> None:
    content = make()
    end = len(content) - 8
    start = end - int.from_bytes(content[end : end + 4], "little")
    mine, files = [], []
    for other in changed(content, start, end, examples):
        size = len(other) - start - 8
        one = other[:-8] + size.to_bytes(4, "little") + b"PAR1"
        try:
            mine.append(told(read_footer(io.BytesIO(one))))
        except (EOFError, UnicodeDecodeError):
            continue
        files.append(one)
    theirs = answers_of_pyarrow("facts", files)
    both = [pair for pair in zip(mine, theirs, strict=True) if pair[1] is not None]
    assert len(both) > examples // 20
    assert [one for one, other in both if one != other] == []


@EXAMPLES
def test_changed_headers_have_one_reading(examples: int) -> None:
    """Where pyarrow reads a page, it reads the bytes and as many values as the header says."""
    content = np.arange(1, 7, dtype="<i8").tobytes()
    whole = forged.page(content, 6, codec="none")
    mine, files = [], []
    for page in changed(whole, 0, len(whole) - len(content), examples):
        one = forged.simple([page], 6, codec="none")
        file = io.BytesIO(one)
        footer = read_footer(file)
        try:
            found = list(read_pages(file, footer.groups[0][0], footer.start))
        except EOFError:
            continue
        files.append(one)
        # A page may come before that with other values than data, and a reader passes it over.
        values = b"".join(one[at.start : at.start + 8 * at.values] for at in found)
        mine.append(np.frombuffer(values[:48], "<i8").tolist())
    theirs = answers_of_pyarrow("values", files)
    both = [pair for pair in zip(mine, theirs, strict=True) if pair[1] is not None]
    assert len(both) > examples // 50
    assert [one for one, other in both if one != other] == []
