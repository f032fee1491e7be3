"""Malformed bytes for everything that reads what travels: none is taken, and nothing breaks.

``python -m tests.wire.fuzz envelopes 10000000`` lets a coverage-guided fuzzer (atheris) make them,
on all cores; ``make test-long`` does so. Each target takes any bytes and raises if a reader takes
what nobody made, or fails in another way than by refusing.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from chaffinch.errors import InvalidFile
from chaffinch.tables.parallel import cores
from chaffinch.wire.documents import canonical, one_line
from chaffinch.wire.envelopes import HYBRID, X25519, Binding, OpeningKey
from chaffinch.wire.filter_files import _FORMAT as COLUMNS
from chaffinch.wire.filter_files import columns_from, filter_from
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.problems import Kind, Problem, problem_word
from chaffinch.wire.sealed_batches import HEAD_LENGTH, check_batch
from chaffinch.wire.sealed_filters import START_LENGTH, FilterLayout, is_whole, pad, unpad
from chaffinch.wire.sealed_reports import Layout
from chaffinch.wire.signatures import SIGNATURE, sign

STORED = json.loads((Path(__file__).parents[1] / "vectors" / "wire.json").read_text("utf-8"))
BINDING = Binding(STORED["plan"], STORED["round"], "hop1")
LAYOUT = Layout(STORED["plan"], STORED["reports"][0]["slots"])
IDENTITY = Ed25519PrivateKey.from_private_bytes(bytes(32))
PUBLIC = IDENTITY.public_key().public_bytes_raw()
REPORT = bytes.fromhex(STORED["reports"][0]["sealed"])
KEY = OpeningKey(7, X25519, bytes.fromhex(STORED["parties"]["hop1"]["private"]))
BATCH = bytes.fromhex(STORED["batch"]["content"])
FILTER = bytes.fromhex(STORED["filter"]["sealed"])
FILTERS = FilterLayout(STORED["plan"], 32, 4, STORED["filter"]["bits"])
PUBLISHER = bytes.fromhex(STORED["filter"]["identity"])
HYBRID_ENVELOPE = bytes.fromhex(STORED["hybrid"]["sealed"])
HYBRID_KEY = OpeningKey(7, HYBRID, bytes.fromhex(STORED["hybrid"]["private"]))


def envelopes(data: bytes) -> bool:
    """Try to open bytes: as they are, behind a true head, or as changes to a true envelope.

    Return whether they were malformed.
    """
    how, rest = (data[0], data[1:]) if data else (0, b"")
    key, true = (HYBRID_KEY, HYBRID_ENVELOPE) if how >= 240 else (KEY, REPORT)
    # Changes are wherever the first bytes say.
    at, new = int.from_bytes(rest[:2], "big") % (len(true) + 1), rest[2:]
    if how % 4 == 0:
        tried = rest
    elif how % 4 == 1:
        tried = (key.head + rest).ljust(len(true), b"\0")[: len(true)]
    elif how % 4 == 2:
        changes = (bytes(at) + new).ljust(len(true), b"\0")[: len(true)]
        tried = bytes(one ^ other for one, other in zip(true, changes, strict=True))
    else:  # some bytes taken out, others put in
        tried = true[:at] + new[1:] + true[at + int.from_bytes(new[:1], "big") :]
    # Branches, not one comparison: an input that opens is worth keeping to the fuzzer.
    if key.open(tried, BINDING) is not None:
        assert tried == true, "an envelope that nobody made was opened"
        return False
    assert tried != true, "the true envelope was not opened"
    return True


def payloads(data: bytes) -> bool:
    """Try to unpack bytes: there is one way to write a payload."""
    for tried in (data, data.ljust(LAYOUT.payload_length, b"\0")[: LAYOUT.payload_length]):
        found = LAYOUT.unpack(tried)
        if found is not None:
            route, items = found
            length = LAYOUT.item_length(1)
            parts = [items[at : at + length] for at in range(0, len(items), length)]
            assert LAYOUT.pack(route, parts) == tried
    return True


def key_lists(data: bytes) -> bool:
    """Sign bytes as a list of keys: what is read is written the same way again."""
    content = data + sign(IDENTITY, b"chaffinch keys", data)
    with suppress(InvalidFile):
        found = KeyList.read(content, plan_id=STORED["plan"], identity=PUBLIC)
        assert found.signed(IDENTITY) == content
    with suppress(InvalidFile):
        KeyList.read(data + bytes(64), plan_id=STORED["plan"], identity=PUBLIC)
        raise AssertionError("a list that nobody signed was taken")
    return True


def batches(data: bytes) -> bool:
    """Sign bytes as a batch: what is read has the head that is there, and all of its items."""
    head_bytes, items = data[:HEAD_LENGTH], data[HEAD_LENGTH:]
    signature = sign(IDENTITY, b"chaffinch batch", hashlib.sha256(data).digest())
    content = head_bytes + signature + items
    with suppress(InvalidFile):
        head, name = check_batch(io.BytesIO(content), PUBLIC)
        assert head.pack() == data[:HEAD_LENGTH]
        assert head.items * head.item_length == len(data) - HEAD_LENGTH
        assert name == hashlib.sha256(data).hexdigest()
    with suppress(InvalidFile):
        check_batch(io.BytesIO(head_bytes + bytes(64) + items), PUBLIC)
        raise AssertionError("a batch that nobody signed was taken")
    return True


def filters(data: bytes) -> bool:
    """Seal bytes as a filter: what is read is written the same way, and nobody else has signed."""
    padded = data.ljust(FILTERS.filter_length, b"\0")[: FILTERS.filter_length]
    content = unpad(padded, FILTERS.filter_length)
    assert content is None or pad(content, FILTERS.filter_length) == padded
    for file in (data, content or b"", _with_digest(data)):
        with suppress(InvalidFile):
            assert filter_from(file).content() == file
        with suppress(InvalidFile):
            assert json.loads(columns_from(file).content()) == json.loads(file)
    changed = bytes(one ^ other for one, other in zip(FILTER, data, strict=False))
    sealed = changed + FILTER[len(changed) :]
    start, envelope = sealed[:START_LENGTH], hashlib.sha256(sealed[START_LENGTH:]).digest()
    if is_whole(PUBLISHER, FILTERS, start, envelope):
        assert sealed == FILTER, "a filter that its publisher has not signed was taken"
        return False
    return True


def _with_digest(data: bytes) -> bytes:
    """Return a file of a filter or of columns with the digest that belongs to its facts.

    No fuzzer finds a digest, so behind it nothing else would ever be looked at.
    """
    first, _, rest = data.partition(b"\n")
    is_filter = first == b"chaffinch/filter@1"
    line = rest.partition(b"\n")[0] if is_filter else first
    try:
        facts = dict(json.loads(line).items())  # JSON of another kind has none
        if not is_filter:
            body = {name: facts[name] for name in facts if name not in ("format", "id")}
            return one_line(COLUMNS, body)
        facts.pop("sha256", None)
        start = -(-(len(first) + len(line) + 2) // 64) * 64
        facts["sha256"] = hashlib.sha256(canonical(facts) + data[start:]).hexdigest()
        head = first + b"\n" + canonical(facts) + b"\n"
    except (ValueError, TypeError, AttributeError, RecursionError):
        return b""
    return head + bytes(-len(head) % 64) + data[start:]


def problems(data: bytes) -> bool:
    """Read bytes as a problem document: it has a word, or none."""
    word = problem_word(data)
    assert word is None or isinstance(word, str)
    return True


READERS = (
    "envelopes", "key_lists", "sealed_batches", "sealed_reports", "problems",
    "sealed_filters", "filter_files", "documents",
)  # fmt: skip
"""The files of ``wire`` that read what travels."""
TARGETS: dict[str, Callable[[bytes], bool]] = {
    "envelopes": envelopes,
    "payloads": payloads,
    "key_lists": key_lists,
    "batches": batches,
    "filters": filters,
    "problems": problems,
}


def seeds() -> dict[str, list[bytes]]:
    """Return where each target starts from."""
    return {
        "envelopes": [
            b"\0" + REPORT,
            b"\1" + REPORT[7:],
            b"\2\0\0\1",
            b"\3\0\1\2ab",
            b"\xf2\0\x40\1",
            b"\xf3\0\x40\1",
        ],
        "payloads": [bytes.fromhex(one["payload"]) for one in STORED["reports"]],
        "key_lists": [bytes.fromhex(one["content"])[:-64] for one in STORED["key_lists"]],
        "batches": [BATCH[:HEAD_LENGTH] + BATCH[HEAD_LENGTH + SIGNATURE :]],
        "filters": [
            bytes.fromhex(STORED["filter"]["file"]),
            bytes.fromhex(STORED["columns"]["file"]),
            KEY.open(FILTER[START_LENGTH:], FILTERS.binding(1, 1)) or b"",
            bytes(100),
            bytes(len(FILTER) - 1) + b"\1",
        ],
        "problems": [Problem(kind, "detail", (1, 2)).body() for kind in Kind],
    }


def main(target: str, runs: int) -> int:
    """Fuzz a target so many times, on all cores; return 0 if nothing was found."""
    number = cores()
    shares = [runs // number + (place < runs % number) for place in range(number)]
    with TemporaryDirectory() as folder:
        processes = [
            subprocess.Popen([sys.executable, "-m", "tests.wire.fuzz", target, str(share), folder])
            for share in shares
        ]
        codes = [process.wait() for process in processes]
    found = sum(code != 0 for code in codes)
    words = f"{target}: {runs:,} malformed inputs, {found} of {number} processes found a fault"
    sys.stdout.write(words + "\n")
    return int(found > 0)


def work(target: str, runs: int, folder: str) -> None:
    """Fuzz in this process; never returns."""
    import atheris

    own = Path(folder) / f"{target}-{os.getpid()}"
    own.mkdir()
    for place, content in enumerate(seeds()[target]):
        (own / str(place)).write_bytes(content)
    for function in instrumented():
        atheris.instrument_func(function)
    left = runs

    def one(data: bytes) -> None:
        nonlocal left
        left -= TARGETS[target](data)
        if not left:
            os._exit(0)  # The fuzzer itself knows no such end.

    options = ["-max_len=4096", "-len_control=0", "-verbosity=0", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], str(own), *options], one)
    atheris.Fuzz()


def instrumented() -> Iterator[FunctionType]:
    """Yield every function that reads what travels: the fuzzer sees their branches."""
    for name in READERS:
        module = sys.modules[f"chaffinch.wire.{name}"]
        for thing in [*vars(module).values()]:
            inner = vars(thing).values() if isinstance(thing, type) else [thing]
            for one in inner:
                function = getattr(one, "__func__", one)
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    yield function
    yield from (one for one in TARGETS.values() if isinstance(one, FunctionType))


if __name__ == "__main__":
    if len(sys.argv) == 4:
        work(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    else:
        sys.exit(main(sys.argv[1], int(sys.argv[2])))
