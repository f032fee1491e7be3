"""A place is used in the same way on a disk and in an object store."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.storage.places import Place, is_address
from tests.storage import object_store


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
    with pytest.raises(StorageFault, match="'x' must be possible to write"):
        written(nowhere, b"x")
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
