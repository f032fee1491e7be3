"""A batch in a folder: many files of messages and, written last, what they are together.

It is how a cluster writes a batch, because nobody there holds all of it. A part is a Parquet file
with the pages that every file of messages has. It has no facts, only the name of its batch, so no
reader takes it for a batch by itself. ``manifest.json`` has the facts and the digest, with the
texts of the other containers, and the names of all parts with how many messages each holds. The
digest is the one that a single file of this name, these facts and messages has.

A folder without a manifest is no batch: whoever wrote it has not finished. Names of parts have a
random end that is the same for all parts of one job, so what an earlier job left, or still writes,
never takes the place of a part. Any part more or less than the manifest tells is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, BinaryIO

import numpy as np
from pydantic import Field

from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.locations import Place
from chaffinch.errors import InvalidFile, Reason, checks
from chaffinch.wire.batches import BatchFacts, Codes, facts_from_texts, facts_to_texts
from chaffinch.wire.document_forms import Form, Listed
from chaffinch.wire.documents import document_bytes, identified, read_document
from chaffinch.wire.message_pages import MessagePages
from chaffinch.wire.message_writer import PERMISSIONS, write_parquet

MANIFEST = "manifest.json"
PART_MESSAGES = 1 << 22
"""About how many messages a part gets; putting them into order takes 32 bytes for each."""
_FORM = "chaffinch/batch-folder@1"
_LARGEST_MANIFEST = 1 << 24
MOST_PARTS = 100_000
_PART_MARK = "chaffinch.messages-part"
"""The key under which a part has the name of its batch."""
_PART = re.compile(r"part-[0-9]{5,10}-[0-9]{5,10}-[0-9a-f]{8}\.parquet")
_LIKE_A_PART = re.compile(r"part-.*\.parquet")
"""What readers of folders take for a part, theirs and ours."""


@dataclass(frozen=True)
class BatchPart:
    """A file of a folder, and how many messages it holds."""

    name: str
    messages: int


@dataclass(frozen=True)
class Manifest:
    """What the parts of a folder are together."""

    facts: BatchFacts
    digest: str
    parts: tuple[BatchPart, ...]

    @property
    def texts(self) -> dict[str, str]:
        """Return the facts as they stand in the file."""
        return facts_to_texts(self.facts, self.digest)


class _PartForm(Form):
    makes = BatchPart

    name: Annotated[str, Field(pattern=rf"^{_PART.pattern}$")]
    messages: Annotated[int, Field(ge=0, le=10**15)]


class _ManifestForm(Form):
    texts: Annotated[dict[str, str], Field(alias="facts")]
    parts: Annotated[
        tuple[Annotated[BatchPart, _PartForm.written()], ...], Listed(at_most=MOST_PARTS)
    ]


def part_name(piece: int, serial: int, token: str) -> str:
    """Return the name of a part: from which piece of work, the how many-th, of which job."""
    return f"part-{piece:05d}-{serial:05d}-{token}.parquet"


def write_part(folder: Place, name: str, facts: BatchFacts, codes: Codes) -> BatchPart:
    """Write the messages of one part; who does it again writes the same bytes."""
    with folder.inside(name).writing(PERMISSIONS[facts.stage]) as file:
        write_parquet(file, codes, {_PART_MARK: facts.name})
    return BatchPart(name, len(codes))


def write_manifest(folder: Place, manifest: Manifest) -> None:
    """Write what the parts are together, when all of them are there: now it is a batch."""
    checks.whole("number of parts", len(manifest.parts), most=MOST_PARTS)
    body = _ManifestForm.document(manifest)
    # Written last: a folder without it is the output of a job that has not ended.
    with folder.inside(MANIFEST).writing(PERMISSIONS[manifest.facts.stage]) as file:
        file.write(document_bytes(identified(_FORM, body)))


def read_manifest(folder: Place) -> Manifest:
    """Return what a folder says it holds, if its parts are those that it names."""
    label = folder.name
    held = folder.names()
    if MANIFEST not in held:
        raise InvalidFile(
            "message file",
            "a file, or a folder with the batch of a cluster",
            [f"the folder {label!r} without {MANIFEST}"],
            hint="if it is the output of a job, that has not ended well: run it again",
        )
    with folder.inside(MANIFEST).open() as file:
        content = file.read(_LARGEST_MANIFEST + 1)
    if len(content) > _LARGEST_MANIFEST:
        raise InvalidFile(f"message file {label!r}", "with a short manifest", ["a long one"])
    form, _ = read_document(
        content, _ManifestForm, _FORM, name=f"{label}/{MANIFEST}", kind=Kind.BATCH
    )
    texts = {key.encode(): text.encode() for key, text in form.texts.items()}
    facts, digest = facts_from_texts(label, texts)
    _check_names(label, [one.name for one in form.parts], held)
    return Manifest(facts, digest, form.parts)


def _check_names(label: str, told: Sequence[str], held: Sequence[str]) -> None:
    if len(set(told)) < len(told):
        raise InvalidFile(f"message file {label!r}", "of parts that are there once", ["one twice"])
    missing = sorted(set(told) - set(held))
    if missing:
        raise InvalidFile(
            f"message file {label!r}",
            "a folder with all parts that its manifest names",
            [f"{len(missing)} missing, {missing[0]!r} first"],
            hint="have it sent again; nothing of it was used",
            reason=Reason.DAMAGED,
        )
    # A part of another job would not be counted, so whoever put it there would lose its messages.
    added = [name for name in held if _LIKE_A_PART.fullmatch(name) and name not in set(told)]
    if added:
        raise InvalidFile(
            f"message file {label!r}",
            "a folder with no other parts than its manifest names",
            [f"{added[0]!r} as well"],
            hint="it belongs to another job; nothing of it counts: move it away",
        )


def left_behind(names: Sequence[str]) -> list[str]:
    """Return those of the names in a folder that are parts of some batch of ours.

    Tables of other engines are in folders of files that are called much the same.
    """
    return [name for name in names if _PART.fullmatch(name)]


def part_pages(file: BinaryIO, part: BatchPart, facts: BatchFacts) -> MessagePages:
    """Return the pages of a part; refuse one of another batch, or of another length."""
    pages = MessagePages(file, part.name)
    found = (pages.metadata or {}).get(_PART_MARK.encode(), b"")
    if found != facts.name.encode():
        raise InvalidFile(
            f"message file {part.name!r}",
            "a part of the batch that its folder holds",
            ["one of another batch" if found else "something else"],
            reason=Reason.DAMAGED,
        )
    pages.check()
    if pages.rows != part.messages:
        raise EOFError
    return pages


def cut_parts(codes: Iterator[Codes], largest: int) -> Iterator[Codes]:
    """Yield messages in parts of one size, and the rest if there is one."""
    held: list[Codes] = []
    have = 0
    for some in codes:
        while have + len(some) >= largest:
            held.append(some[: largest - have])
            some = some[largest - have :]  # noqa: PLW2901 - what is left of it
            yield np.concatenate(held)
            held, have = [], 0
        held.append(some)
        have += len(some)
    if have:
        yield np.concatenate(held)
