"""Rows of a Spark frame, stored once before random words are drawn for them.

Spark evaluates a frame anew whenever it needs rows that were lost with an executor, and may get
other rows, or the same ones in other partitions: people would be lost, or be there twice. Blocks
that it caches go with their executors, too. So the columns that are needed, and no others, are
first written to files that all machines see. Every attempt at a partition has a file of its own,
and the one whose result Spark took is named by that result: a copy that is slow, or was given up,
writes beside it and not over it. From there on tasks read files as those of any table.

What tasks of one stage read from another is evaluated again in part if it was lost between the
two. Then a partition could have the rows of another evaluation than the next one, so all of it is
thrown away and read again.

The files are sealed under keys that follow from the secret of the job. They are removed with it.
What a killed job leaves nobody can read; on a disk the next job removes it.
"""

from __future__ import annotations

import re
import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from chaffinch.disk.leftovers import staging_folder
from chaffinch.disk.locations import Place
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.engines.spark.job import Job, cluster_faults
from chaffinch.engines.spark.tasks import Keyring
from chaffinch.errors import ClusterFault, InvalidInput, StorageFault, Unquoted
from chaffinch.tables.parallel import Progress
from chaffinch.tables.pieces import Piece
from chaffinch.tables.read import Table, open_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_KEPT = re.compile(r"rows-[0-9]{5,10}-[0-9a-f]{8}-[0-9a-f]{16}\.sealed")
_PERMISSIONS = 0o600
_LENGTH_BYTES, _NONCE_BYTES, _TAG_BYTES = 8, 12, 16
_MORE, _END = b"more", b"end"
_TIMES = 3
"""How often a frame is read anew when executors are lost while it is read."""


@dataclass(frozen=True)
class FrameRows:
    """A frame of the session that runs, and its columns as those of a table without rows."""

    frame: DataFrame
    first: Table

    @classmethod
    def of(cls, frame: DataFrame) -> FrameRows:
        """Return a frame as a source of rows; nothing of it is evaluated."""
        import pyarrow as pa

        with cluster_faults(of_frame=True):
            names = frame.columns
        # Of what kind a column is matters only where it is read.
        return cls(frame, open_table(pa.table([pa.nulls(0)] * len(names), names=names)))


def is_frame(source: object) -> bool:
    """Return whether something is a frame of Spark; who has one has loaded Spark."""
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import DataFrame

    if not isinstance(source, DataFrame):
        return False
    if not hasattr(source, "_jdf"):
        raise InvalidInput(
            "frame",
            "one of a session of this process",
            Unquoted("one of Spark Connect"),
            hint="write it to files that the cluster reads, and name these",
        )
    return True


@dataclass(frozen=True)
class KeptRows:
    """What one task reads of a frame: the rows of a partition, in a sealed file."""

    place: Place
    number: int
    rows: int
    size: int = 0
    first_row: int = 1
    """The number of its first row in the frame, in the order of the partitions."""

    path = ""
    """All pieces are of one table, which has no name."""
    name = "frame"

    def open(self, ring: Keyring) -> Table:
        """Return its rows as a table."""
        schema = next(self._batches(ring)).schema
        return Table(
            tuple(schema.names), self.rows, self.size, lambda _columns, _rows: self._batches(ring)
        )

    def _batches(self, ring: Keyring) -> Iterator[pa.RecordBatch]:
        try:
            with self.place.open() as file:
                cipher = _cipher(ring, self.number, self.place.name)
                yield from _unsealed(cipher, file, self.size)
        except OSError as error:
            raise storage_fault(self.place.name, error, verb="read") from None
        except (InvalidTag, EOFError):
            raise StorageFault(
                "The rows of a frame must be read as they were written. Got others.",
                hint="check the disks of the cluster; nothing was written",
            ) from None


AnyPiece = Piece | KeptRows
RowSource = Sequence[Piece] | FrameRows


def several_files(pieces: Sequence[AnyPiece]) -> bool:
    """Return whether pieces are of more than one file, so that a fault is told with its name."""
    return len({piece.path for piece in pieces}) > 1


def open_piece(ring: Keyring, piece: AnyPiece) -> Table:
    """Return the rows of a piece as a table, in a task."""
    return piece.open(ring) if isinstance(piece, KeptRows) else piece.open()


@contextmanager
def reading_rows(
    job: Job,
    source: RowSource,
    columns: Sequence[str],
    *,
    folder: Place | None = None,
    scratch: Place | None = None,
    progress: Progress | None = None,
) -> Iterator[Sequence[AnyPiece]]:
    """Give the pieces of a source; those of a frame are kept in a folder meanwhile.

    That is ``folder``, where this job is alone, or else one in ``scratch``.
    """
    if not isinstance(source, FrameRows):
        yield source
        return
    with _scratch_folder(job, scratch) if folder is None else nullcontext(folder) as place:
        token = secrets.token_hex(4)
        try:
            yield _kept(job, _chosen(source, columns), place, token, progress)
        finally:
            with suppress(StorageFault):  # nobody can read what is left
                _remove(place, token)


def left_rows(names: Sequence[str]) -> list[str]:
    """Return those of the names in a folder that are rows of frames, which nobody can read."""
    return [name for name in names if _KEPT.fullmatch(name)]


@contextmanager
def _scratch_folder(job: Job, scratch: Place | None) -> Iterator[Place]:
    """Yield a folder for rows; on a disk one of their own, which goes when its job is gone."""
    if scratch is None and not job.alone:
        raise InvalidInput(
            "scratch",
            "a folder that all machines of the cluster see, where a frame is read",
            None,
            hint='name one: engine("spark", scratch="s3://bucket/folder"); its rows are '
            "stored there encrypted, and removed",
        )
    if scratch is not None and not scratch.local:
        yield scratch
        return
    parent = Path(tempfile.gettempdir() if scratch is None else scratch.text)
    with ExitStack() as stack:
        try:
            made = stack.enter_context(staging_folder(parent))
        except OSError as error:
            raise storage_fault(parent.name, error, verb="write") from None
        yield Place.of(made)


def _chosen(source: FrameRows, columns: Sequence[str]) -> DataFrame:
    # No other column leaves the frame. They are chosen by their places, because Spark has rules of
    # its own for dots and capitals in names.
    source.first.batches(columns)  # raises if one is not there
    places = [source.first.columns.index(name) for name in dict.fromkeys(columns)]
    with cluster_faults(of_frame=True):
        numbered = source.frame.toDF(*(f"c{place}" for place in range(len(source.first.columns))))
        return numbered.select(*(f"c{place}" for place in places)).toDF(*dict.fromkeys(columns))


def _kept(
    job: Job, frame: DataFrame, folder: Place, token: str, progress: Progress | None
) -> list[KeptRows]:
    for _ in range(_TIMES):
        pieces, whole = job.map_rows(partial(_keep, folder, token), frame, progress=progress)
        if whole:
            return _numbered(pieces)
        _remove(folder, token)
    raise ClusterFault(
        "The rows of a frame must be read in one go. Got executors that were lost every time.",
        hint="write the frame to files, and name these; or run it again when the cluster works",
    )


def _numbered(pieces: Sequence[KeptRows]) -> list[KeptRows]:
    found, row = [], 1
    for piece in pieces:
        if piece.rows:
            found.append(replace(piece, first_row=row))
            row += piece.rows
    return found


def _remove(folder: Place, token: str) -> None:
    for name in left_rows(folder.names()):
        if f"-{token}-" in name:
            folder.inside(name).remove()


# ----------------------------------------------------------------------------
# On executors.


def _keep(
    folder: Place, token: str, ring: Keyring, number: int, batches: Iterator[pa.RecordBatch]
) -> KeptRows:
    name = f"rows-{number:05d}-{token}-{secrets.token_hex(8)}.sealed"
    place = folder.inside(name)
    cipher, rows, size = _cipher(ring, number, name), 0, 0
    batch = next((one for one in batches if one.num_rows), None)
    if batch is None:
        return KeptRows(place, number, 0)
    with place.writing(_PERMISSIONS) as file:
        serial = 0
        while batch is not None:
            size += file.write(_sealed(cipher, serial, _MORE, _bytes_of(batch)))
            rows, serial = rows + batch.num_rows, serial + 1
            batch = next((one for one in batches if one.num_rows), None)
        file.write(_sealed(cipher, serial, _END, b""))
    return KeptRows(place, number, rows, size)


def _cipher(ring: Keyring, number: int, name: str) -> AESGCM:
    # Every attempt has a file name of its own, so no key encrypts two files.
    return AESGCM(ring.words("rows", number, name.encode()).take(4).tobytes())


def _sealed(cipher: AESGCM, serial: int, kind: bytes, content: bytes) -> bytes:
    """Return a record of a file: sealed with its place in it, and whether it is the last."""
    sealed = cipher.encrypt(serial.to_bytes(_NONCE_BYTES, "little"), content, kind)
    return len(sealed).to_bytes(_LENGTH_BYTES, "little") + sealed


def _unsealed(cipher: AESGCM, file: Any, size: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    serial = 0
    while True:
        length = int.from_bytes(_exactly(file, _LENGTH_BYTES), "little")
        if length > size:  # no memory is asked for on the word of a changed file
            raise EOFError
        sealed, nonce = _exactly(file, length), serial.to_bytes(_NONCE_BYTES, "little")
        if length == _TAG_BYTES:  # nothing but the tag: the end
            cipher.decrypt(nonce, sealed, _END)
            return
        with pa.ipc.open_stream(cipher.decrypt(nonce, sealed, _MORE)) as reader:
            yield from reader
        serial += 1


def _exactly(file: Any, count: int) -> bytes:
    found: bytes = file.read(count)
    if len(found) != count:
        raise EOFError
    return found


def _bytes_of(batch: pa.RecordBatch) -> bytes:
    import pyarrow as pa

    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())
