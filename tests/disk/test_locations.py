"""A place is used in the same way on a disk and in an object store."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from chaffinch.disk import locations
from chaffinch.disk.locations import Place, is_address
from chaffinch.disk.storage_errors import may_pass
from chaffinch.errors import InvalidInput, StorageFault
from tests.disk import object_store


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with object_store.started("places") as form:
        yield form


@pytest.fixture(params=["path", "file", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "path":
        return Place.of(tmp_path / "folder")
    if request.param == "file":
        return Place.of(f"file://{tmp_path}/folder")
    return Place.of(request.getfixturevalue("store").format(tmp_path.name))


def written(place: Place, content: bytes) -> Place:
    with place.writing() as file:
        file.write(content)
    return place


def test_what_is_written_is_read(folder: Place) -> None:
    assert folder.names() == []
    assert not folder.is_folder()
    folder.make_folder(0o700)
    file = written(folder.inside("a b.txt"), b"hello")
    written(folder.inside("c"), b"")
    with file.open() as found:
        assert (found.read(2), found.seek(1), found.read()) == (b"he", 1, b"ello")
    assert folder.names() == ["a b.txt", "c"]
    assert (file.name, file.is_file(), file.is_folder()) == ("a b.txt", True, False)
    assert (folder.is_file(), folder.is_folder()) == (False, True)
    written(file, b"other")
    with file.open() as found:
        assert found.read() == b"other"
    file.remove()
    file.remove()
    assert folder.names() == ["c"]
    with pytest.raises(FileNotFoundError):
        file.open()


def test_a_failure_leaves_what_was_there(folder: Place) -> None:
    folder.make_folder(0o777)
    file = written(folder.inside("a"), b"old")

    def fail() -> None:
        with file.writing() as new:
            new.write(b"new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with file.open() as found:
        assert found.read() == b"old"
    assert folder.names() == ["a"]


def test_permissions_are_those_that_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(0o777)
    folder = Place.of(tmp_path / "folder")
    folder.make_folder(0o700)
    with folder.inside("a").writing(0o600) as file:
        file.write(b"x")
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "folder" / "a").stat().st_mode) == 0o600


def test_faults_are_named_without_the_words_of_a_store(store: str) -> None:
    nowhere = Place.of(store.replace("places/", "nowhere/").format("x"))
    with pytest.raises(
        StorageFault, match=r"'s3://nowhere/x' must be possible to write. Got no such"
    ) as caught:
        written(nowhere, b"x")
    assert not may_pass(caught.value)
    with pytest.raises(StorageFault, match="must be possible to use"):
        Place.of("nothing://bucket/x").names()


def test_paths_are_not_taken_for_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(map(is_address, ["a", "/a", "a:b", "C:/a", "-", Path("s3://a")]))
    monkeypatch.chdir(tmp_path)
    assert Place.of("a").text == str(tmp_path / "a")
    assert Place.of("file:///a%20b").text == "/a b"


def test_a_folder_that_is_made_is_open_to_nobody_more_than_the_mask_allows(tmp_path: Path) -> None:
    tmp_path.chmod(0o2755)  # folders in it belong to its group, and say so with a bit of their own
    made = Place.of(tmp_path / "made")
    before = os.umask(0o022)
    try:
        made.make_folder(0o777)
    finally:
        os.umask(before)
    assert stat.S_IMODE(Path(made.text).stat().st_mode) & 0o777 == 0o755
    Path(made.text).chmod(0o2775)
    made.make_folder(0o700)
    assert stat.S_IMODE(Path(made.text).stat().st_mode) & 0o777 == 0o700


@pytest.mark.parametrize(
    ("address", "fine"),
    [
        ("abfs://box@account.dfs.core.windows.net/a", True),
        ("abfss://box@account.dfs.core.windows.net/a", True),
        ("abfs://account:word@account.dfs.core.windows.net/a", False),
        ("s3://word@box/a", False),
        ("s3://name:word@box/a", False),
    ],
)
def test_an_address_has_no_password(address: str, *, fine: bool) -> None:
    if fine:
        assert Place.of(address).text == address
        return
    with pytest.raises(InvalidInput, match="without a name or a password") as caught:
        Place.of(address)
    assert "word@" not in str(caught.value)


class Cut:
    """A file system that ends in the middle of a file, if it is told to; all else is a disk's."""

    def __init__(self, *, cut: bool) -> None:
        self._disk = LocalFileSystem()
        self._cut = cut

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    @contextmanager
    def open_output_stream(self, path: str) -> Iterator[Any]:
        with self._disk.open_output_stream(path) as file:
            yield file
            file.flush()
            if self._cut:
                raise OSError(errno.ECONNRESET, "gone")


def test_where_files_show_while_they_are_written_they_get_their_name_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Place.of("hdfs://nodes/folder")
    (tmp_path / "folder").mkdir()
    monkeypatch.setattr(locations, "_system", lambda _root: (Cut(cut=True), str(tmp_path)))
    with pytest.raises(StorageFault, match="'hdfs://nodes/folder/a' must be") as caught:
        written(folder.inside("a"), b"hello")
    assert may_pass(caught.value)
    assert not list((tmp_path / "folder").iterdir())
    monkeypatch.setattr(locations, "_system", lambda _root: (Cut(cut=False), str(tmp_path)))
    for content in (b"hello", b"other"):
        assert written(folder.inside("a"), content).read() == content
    (tmp_path / "folder" / f"a.{'0' * 16}.unfinished").touch()  # of a writer that was killed
    assert folder.names() == ["a"]
    folder.remove_unfinished()
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["a"]
