"""A disk that is rebuilt from calls, and what is left on it when all ends after any of them.

A kill leaves what every call has done. A power cut leaves what was synced, and of the rest
whatever it likes: of each write to a file all, nothing, or a torn part up to a sector; of the
names in a folder a first part of what was done to them. So this disk promises less than most:
the sync of a file is not that of its name, and nothing is in order that no sync has put in order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tests.services.faults.calls import Call

SECTOR = 512
Image = dict[str, bytes | None]
"""What is below a folder, by path: the content of a file, None for a folder."""


@dataclass
class _File:
    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes since then, place and data; no data: the file was cut there."""

    def change(self, place: int, data: bytes | None) -> None:
        self.pending.append((place, data))
        _apply(self.content, place, data)

    def sync(self) -> None:
        self.synced, self.pending = bytes(self.content), []

    def after_cut(self, drawn: Drawn) -> bytes:
        left = bytearray(self.synced)
        for place, data in self.pending:
            part = drawn.part(place, data)
            if part is not None:
                _apply(left, place, part if data is not None else None)
        return bytes(left)


def _apply(content: bytearray, place: int, data: bytes | None) -> None:
    if len(content) < place:
        content.extend(bytes(place - len(content)))
    if data is None:
        del content[place:]
    else:
        content[place : place + len(data)] = data


@dataclass(eq=False)
class _Step:
    """Names that change at once, in one folder or in two."""

    names: list[tuple[_Folder, str, _File | _Folder | None]]

    def apply(self, to: Callable[[_Folder], dict[str, _File | _Folder]]) -> None:
        for folder, name, node in self.names:
            if node is None:
                to(folder).pop(name, None)
            else:
                to(folder)[name] = node


@dataclass(eq=False)
class _Folder:
    names: dict[str, _File | _Folder] = field(default_factory=dict)
    synced: dict[str, _File | _Folder] = field(default_factory=dict)
    pending: list[_Step] = field(default_factory=list)

    def sync(self) -> None:
        for step in self.pending:
            step.apply(lambda folder: folder.synced)
            for folder in {id(one): one for one, _, _ in step.names}.values():
                if folder is not self:
                    folder.pending.remove(step)
        self.pending = []


class Drawn:
    """What a power cut leaves, drawn from a seed. Every third keeps or loses all that it can."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._all = self._random.choice([None, None, None, False, True])

    def part(self, place: int, data: bytes | None) -> bytes | None:
        """Return what is left of a write; None for nothing."""
        kept = self._random.random() if self._all is None else float(not self._all)
        if data is None:
            return b"" if kept < 0.5 else None
        if kept < 0.4:
            return data
        first = -place % SECTOR
        sectors = range(first, len(data), SECTOR)
        if kept > 0.7 or not sectors:
            return None
        return data[: self._random.choice(sectors)]

    def first(self, many: int) -> int:
        """Return how many of the steps in a folder are left."""
        return self._random.randint(0, many) if self._all is None else many * self._all


class Disk:
    """What is below a folder; it starts with what is there, all of it synced."""

    def __init__(self, root: Path) -> None:
        self._path = PurePosixPath(root)
        self._files: dict[int, _File | _Folder] = {}
        self._root = self._load(root)

    def _load(self, path: Path) -> _Folder:
        folder = _Folder()
        self._files[path.stat().st_ino] = folder
        for entry in path.iterdir():
            if entry.is_dir():
                folder.names[entry.name] = self._load(entry)
            else:
                content = entry.read_bytes()
                node = _File(bytearray(content), content)
                folder.names[entry.name] = self._files[entry.stat().st_ino] = node
        folder.synced = dict(folder.names)
        return folder

    def do(self, call: Call) -> bool:
        """Do what a call has done; return whether anything is another way now."""
        node = self._files.get(call.file)
        if call.what == "o":
            return self._open(call)
        if call.what == "w" and isinstance(node, _File):
            node.change(call.number, call.first)
        elif call.what == "t" and isinstance(node, _File):
            node.change(call.number, None)
        elif call.what == "s" and node is not None:
            node.sync()
        elif call.what == "m":
            folder = self._files[call.file] = _Folder()
            self._change((*self._place(call.first), folder))
        elif call.what == "u":
            self._change((*self._place(call.first), None))
        elif call.what in "rl":
            place, name = self._place(call.first)
            change = [(*self._place(call.second), place.names[name])]
            self._change(*change, *[(place, name, None)] * (call.what == "r"))
        else:
            return False
        return True

    def _open(self, call: Call) -> bool:
        folder, name = self._place(call.first)
        if name not in folder.names:
            new = self._files[call.file] = _File()
            self._change((folder, name, new))
            return True
        known = folder.names[name]
        if call.number and isinstance(known, _File) and known.content:
            known.change(0, None)
            return True
        return False

    def _change(self, *names: tuple[_Folder, str, _File | _Folder | None]) -> None:
        step = _Step(list(names))
        step.apply(lambda folder: folder.names)
        for folder in {id(one): one for one, _, _ in names}.values():
            folder.pending.append(step)

    def _place(self, path: bytes) -> tuple[_Folder, str]:
        *parents, name = PurePosixPath(path.decode()).relative_to(self._path).parts
        folder: _File | _Folder = self._root
        for parent in parents:
            assert isinstance(folder, _Folder)
            folder = folder.names[parent]
        assert isinstance(folder, _Folder)
        return folder, name

    def after_kill(self) -> Image:
        """Return what is there for whoever comes after a kill."""
        return dict(_walk("", self._root, lambda one: one.names, lambda one: bytes(one.content)))

    def after_cut(self, seed: int) -> Image:
        """Return what is there when the power comes back."""
        drawn = Drawn(seed)
        kept: dict[int, dict[str, _File | _Folder]] = {}
        folders = list(_folders(self._root))
        alive = {
            id(folder): set(map(id, folder.pending[: drawn.first(len(folder.pending))]))
            for folder in folders
        }
        for folder in folders:
            names = kept[id(folder)] = dict(folder.synced)
            for step in folder.pending:
                if all(id(step) in alive.get(id(one), ()) for one, _, _ in step.names):
                    mine = _Step([one for one in step.names if one[0] is folder])
                    mine.apply(lambda _, names=names: names)  # type: ignore[misc]
        look: Callable[[_Folder], dict[str, _File | _Folder]] = lambda one: kept.get(  # noqa: E731
            id(one), one.synced
        )
        return dict(_walk("", self._root, look, lambda one: one.after_cut(drawn)))


def _folders(folder: _Folder) -> Iterator[_Folder]:
    yield folder
    for node in folder.names.values():
        if isinstance(node, _Folder):
            yield from _folders(node)


def _walk(
    path: str,
    folder: _Folder,
    names: Callable[[_Folder], dict[str, _File | _Folder]],
    content: Callable[[_File], bytes],
) -> Iterator[tuple[str, bytes | None]]:
    for name, node in sorted(names(folder).items()):
        place = f"{path}{name}"
        if isinstance(node, _Folder):
            yield place, None
            yield from _walk(f"{place}/", node, names, content)
        else:
            yield place, content(node)


def image_of(root: Path) -> Image:
    """Return what is below a folder of the real disk."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
    }


def write_image(image: Image, root: Path) -> None:
    """Put an image on the real disk, for its owner alone."""
    root.mkdir(mode=0o700)
    for name, content in image.items():
        if content is None:
            (root / name).mkdir(mode=0o700)
        else:
            (root / name).touch(mode=0o600)
            (root / name).write_bytes(content)


def rebuilt(root: Path, calls: Iterable[Call]) -> Disk:
    """Return the disk after all calls."""
    disk = Disk(root)
    for call in calls:
        disk.do(call)
    return disk
