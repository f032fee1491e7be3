"""Where files are: on this machine, or in a store that an address names.

An address (``s3://``, ``gs://``, ``abfs://``, ``hdfs://``) is opened by pyarrow, in the driver and
in the tasks of a cluster alike, with what the environment says about credentials. A file is there
in full or not at all: on a disk it takes its name when it is written, so it does in Hadoop's file
system, and in a store it is put there in one piece.
"""

from __future__ import annotations

import errno
import functools
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import unquote, urlsplit

from chaffinch.disk.files import AnyPath, atomic, sync_folder
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import InvalidInput, Unquoted

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")
_NAMED = ("abfs", "abfss")
"""Where the name of a container stands before the sign @, and a password only after a colon."""
_RENAMED = ("hdfs", "viewfs")
"""Where a file shows while it is written, and is renamed when it is there in full."""
_UNFINISHED = re.compile(r".*\.[0-9a-f]{16}\.unfinished", re.DOTALL)
_REFUSED = {
    "ACCESS_DENIED": errno.EACCES,
    "INVALID_ACCESS_KEY_ID": errno.EACCES,
    "SIGNATURE_DOES_NOT_MATCH": errno.EACCES,
    "NO_SUCH_BUCKET": errno.ENOENT,
}
"""What a store says that will not pass, and of what number that is on a disk."""


def is_address(source: object) -> bool:
    """Return whether a text names a store, and not a path."""
    return isinstance(source, str) and _ADDRESS.match(source) is not None


@dataclass(frozen=True)
class Place:
    """A file or a folder, by its absolute path or its address."""

    text: str

    @classmethod
    def of(cls, source: AnyPath) -> Place:
        """Return the place of a path, which whoever reads it may call from elsewhere."""
        if not is_address(source):
            return cls(os.path.realpath(source))
        parts = urlsplit(str(source))
        before, sign, _ = parts.netloc.rpartition("@")
        named = parts.scheme in _NAMED and ":" not in before
        if sign and not named:
            raise InvalidInput(
                "address",
                "one without a name or a password in it",
                Unquoted(f"one of {parts.scheme}://"),
                hint="credentials come from the environment: addresses are seen by whoever sees "
                "the tasks of a cluster",
            )
        return cls(unquote(parts.path)) if parts.scheme == "file" else cls(str(source))

    @property
    def name(self) -> str:
        """Return its last name, for messages."""
        path = self.text if self.local else urlsplit(self.text).path
        return Path(path).name or self.text

    @property
    def local(self) -> bool:
        """Return whether it is a path."""
        return not is_address(self.text)

    def inside(self, name: str) -> Place:
        """Return the place of a name in this folder."""
        if self.local:
            return Place(str(Path(self.text) / name))
        start, sign, options = self.text.partition("?")
        return Place(f"{start.rstrip('/')}/{name}{sign}{options}")

    def is_folder(self) -> bool:
        """Return whether there is a folder here, or, in a store, names that begin like one."""
        if self.local:
            return Path(self.text).is_dir()
        from pyarrow.fs import FileType

        return bool(self._info().type == FileType.Directory)

    def is_file(self) -> bool:
        """Return whether there is a file here."""
        if self.local:
            return Path(self.text).is_file()
        from pyarrow.fs import FileType

        return bool(self._info().type == FileType.File)

    def names(self, *, unfinished: bool = False) -> list[str]:
        """Return the names in this folder, in order; none where there is no folder.

        Files that are being written elsewhere than on a disk are left out unless asked for.
        """
        with self._faults("read"):
            if self.local:
                path = Path(self.text)
                return sorted(one.name for one in path.iterdir()) if path.is_dir() else []
            from pyarrow.fs import FileSelector

            system, path_there = self._there()
            selector = FileSelector(path_there, allow_not_found=True)
            found = sorted(one.base_name for one in system.get_file_info(selector))
            return [name for name in found if unfinished or not _UNFINISHED.fullmatch(name)]

    def open(self) -> BinaryIO:
        """Return the bytes of this file; FileNotFoundError where none is."""
        if self.local:
            return Path(self.text).open("rb", buffering=1 << 20)
        system, path = self._there()
        return cast("BinaryIO", system.open_input_file(path))

    def read(self) -> bytes:
        """Return all bytes of this file."""
        with self._faults("read"), self.open() as file:
            return file.read()

    def make_folder(self, permissions: int) -> None:
        """Make this folder, for whoever may use it; in a store there is nothing to make."""
        if not self.local:
            return
        path = Path(self.text)
        with self._faults("write"):
            path.mkdir(permissions, exist_ok=True)
            found = stat.S_IMODE(path.stat().st_mode)
            if found & 0o777 & ~permissions:  # less than before, and what the mask took stays away
                path.chmod(found & permissions)
            sync_folder(path.parent)

    @contextmanager
    def writing(self, permissions: int = 0o666) -> Iterator[BinaryIO]:
        """Yield a file that is here in full when the block ends well, and else not at all.

        What was here is replaced. In a store it is held in memory until then.
        """
        if self.local:
            with atomic(self.text, permissions=permissions) as file:
                yield file
            return
        held = io.BytesIO()
        yield held
        with self._faults("write"):
            system, path = self._there()
            if urlsplit(self.text).scheme in _RENAMED:
                _write_renamed(system, path, held)
            else:
                _write(system, path, held)

    def remove(self) -> None:
        """Remove this file, if it is there."""
        with self._faults("write"):
            if self.local:
                Path(self.text).unlink(missing_ok=True)
                return
            system, path = self._there()
            with suppress(FileNotFoundError):
                system.delete_file(path)

    def remove_unfinished(self) -> None:
        """Remove from this folder what writers that were killed have left; nobody may write now."""
        if not self.local:
            for name in self.names(unfinished=True):
                if _UNFINISHED.fullmatch(name):
                    self.inside(name).remove()

    def _info(self) -> Any:
        with self._faults("read"):
            system, path = self._there()
            return system.get_file_info(path)

    def _there(self) -> tuple[Any, str]:
        parts = urlsplit(self.text)
        root = parts._replace(path="").geturl()
        with self._faults("use"):
            system, start = _system(root)
        return system, f"{start}{unquote(parts.path)}"

    @contextmanager
    def _faults(self, verb: str) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except OSError as error:
            raise storage_fault(self._shown, _with_number(error), verb=verb) from None
        except (pa.ArrowException, ValueError):
            fault = OSError(errno.ENOTSUP, "")
            raise storage_fault(self._shown, fault, verb=verb) from None

    @property
    def _shown(self) -> str:
        """Return the name for errors; of a store, where it is, without its options."""
        return self.name if self.local else self.text.partition("?")[0]


def _with_number(error: OSError) -> OSError:
    """Return an error that says what is wrong; of a store's own words none is shown."""
    if error.errno is not None:
        return error
    known = (number for words, number in _REFUSED.items() if words in str(error))
    missing = isinstance(error, FileNotFoundError)
    return OSError(errno.ENOENT if missing else next(known, errno.EIO), "")


def _write(system: Any, path: str, held: io.BytesIO) -> None:
    with system.open_output_stream(path) as file:
        file.write(held.getbuffer())


def _write_renamed(system: Any, path: str, held: io.BytesIO) -> None:
    """Write a file that has its name when it is there in full.

    A name that is taken is not replaced by renaming, so what was there is removed before: whoever
    looks in that moment finds none. Parts are written again with the same bytes only.
    """
    from pyarrow.fs import FileType

    made = f"{path}.{secrets.token_hex(8)}.unfinished"
    try:
        _write(system, made, held)
        if system.get_file_info(path).type == FileType.File:
            system.delete_file(path)
        system.move(made, path)
    except BaseException:
        with suppress(OSError):
            system.delete_file(made)
        raise


@functools.lru_cache(maxsize=16)
def _system(root: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    system, start = FileSystem.from_uri(root)
    return system, str(start).rstrip("/")
