"""What a killed command leaves is private, and gone with the next one."""

from __future__ import annotations

import errno
import os
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from chaffinch import reach
from chaffinch.disk import leftovers
from chaffinch.disk.files import atomic
from chaffinch.disk.leftovers import alone_in, remove_leftovers, staging_folder
from chaffinch.disk.locks import try_lock
from chaffinch.engines.local import Local
from chaffinch.errors import StorageFault
from tests import forks
from tests.engines import plans
from tests.tiers import nightly

PLAN = plans.clear(20, 5)
CODE = """
import os, signal, sys
from pathlib import Path
from chaffinch.disk import files
from chaffinch.engines.local import Local
from tests.engines import plans
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
files.give_name = die
Local(workers=1).encode(["v1"] * 20, plans.clear(20, 5), Path(sys.argv[1]) / "e.parquet")
"""


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def killed(folder: Path) -> Path:
    """Return what an encoding leaves that was killed before its file had its name."""
    done = forks.run(CODE, folder)
    assert done.returncode == -signal.SIGKILL
    (left,) = folder.iterdir()
    return left


def test_what_is_not_shuffled_is_for_its_owner_only(tmp_path: Path) -> None:
    local = Local(workers=1)
    before = os.umask(0)
    try:
        (tmp_path / "old").write_bytes(b"")  # for everybody
        for name in ("e.parquet", "e.arrow", "old"):
            local.encode(["v1"] * 20, PLAN, tmp_path / name)
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
        local.shuffle([tmp_path / "e.arrow"], PLAN, tmp_path / "s")
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    left = killed(tmp_path)
    assert left.name.endswith(".part")
    assert left.stat().st_mode & 0o777 == 0o600
    Local(workers=1).encode(["v1"] * 20, PLAN, tmp_path / "other.parquet")
    assert listing(tmp_path) == ["other.parquet"]


def test_what_a_living_process_holds_stays(tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def write() -> None:
        with atomic(tmp_path / "slow") as file:
            file.write(b"whole")
            inside.set()
            go_on.wait(60)

    thread = threading.Thread(target=write)
    thread.start()
    assert inside.wait(60)
    with staging_folder(tmp_path) as staging:
        (staging / "x").write_bytes(b"")
        remove_leftovers(tmp_path)
        with atomic(tmp_path / "quick") as file:
            file.write(b"whole")
        assert (staging / "x").exists()
    go_on.set()
    thread.join()
    assert listing(tmp_path) == ["quick", "slow"]
    with staging_folder(tmp_path) as staging:  # who writes a key there locks its folder
        reach.new_key().save(staging / "campaign.key")
    assert listing(tmp_path) == ["quick", "slow"]
    assert (tmp_path / "slow").read_bytes() == b"whole"


def test_a_folder_that_is_removed_as_soon_as_it_is_made_is_made_again(tmp_path: Path) -> None:
    """Another run that looks between the making and the lock takes the folder for a leftover."""
    stop = threading.Event()

    def remove() -> None:
        while not stop.is_set():
            remove_leftovers(tmp_path)

    thread = threading.Thread(target=remove)
    thread.start()
    try:
        for number in range(100):
            with staging_folder(tmp_path) as staging:
                (staging / str(number)).write_bytes(b"")
                assert listing(staging) == [str(number)]
    finally:
        stop.set()
        thread.join()
    assert listing(tmp_path) == []


def test_a_lock_excludes_others_while_leftovers_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks for leftovers opens the lock file of a first process and locks it too late."""
    alone = partial(alone_in, tmp_path, "run", patience=0.0)
    first, second = alone(), alone()
    first.__enter__()

    def lock_late(number: int) -> bool | None:
        first.__exit__(None, None, None)
        second.__enter__()
        return try_lock(number)

    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "try_lock", lock_late)
        remove_leftovers(tmp_path)
    with pytest.raises(StorageFault, match="in use"), alone():
        pass
    second.__exit__(None, None, None)
    assert listing(tmp_path) == []


def test_who_was_alone_removes_no_lock_but_its_own(tmp_path: Path) -> None:
    alone = partial(alone_in, tmp_path, "run", patience=0.0)
    with alone():
        (lock,) = tmp_path.iterdir()
        lock.unlink()
        after = alone()
        after.__enter__()
    with pytest.raises(StorageFault, match="in use"), alone():
        pass
    after.__exit__(None, None, None)


def test_a_stop_while_a_lock_is_removed_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, stops = Path.unlink, list[Path]()

    def unlink(path: Path) -> None:
        if not stops:
            stops.append(path)
            raise KeyboardInterrupt
        real(path)

    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(KeyboardInterrupt), alone_in(tmp_path, "run"):
        pass
    assert (len(stops), listing(tmp_path)) == (1, [])


def test_a_stop_before_a_draft_is_used_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").write_bytes(b"old")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "chmod", stop)
    with pytest.raises(KeyboardInterrupt), atomic(tmp_path / "old"):
        pass
    assert listing(tmp_path) == ["old"]


def test_users_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.getuid() + 1
    with alone_in(tmp_path, "run", patience=0.0):
        monkeypatch.setattr(os, "getuid", lambda: other)
        with alone_in(tmp_path, "run", patience=0.0):
            assert len(listing(tmp_path)) == 2
    assert listing(tmp_path) == []


def test_a_staging_folder_is_made_when_leftovers_are_gone(tmp_path: Path) -> None:
    (tmp_path / f".e.parquet.{'0a' * 8}.part").write_bytes(b"not shuffled")
    with staging_folder(tmp_path) as staging:
        assert listing(tmp_path) == [staging.parent.name]


@pytest.mark.parametrize("name", ["release.json", "x" * 150])
def test_a_part_that_nobody_holds_is_a_leftover(name: str, tmp_path: Path) -> None:
    part, number = leftovers.new_part(tmp_path / name, 0o600)
    remove_leftovers(tmp_path)
    assert listing(tmp_path) == [part.name], "it is held"
    os.close(number)
    remove_leftovers(tmp_path)
    assert listing(tmp_path) == []


def test_a_staging_folder_that_nobody_holds_is_a_leftover(tmp_path: Path) -> None:
    with staging_folder(tmp_path) as inside:
        Path(inside.parent).rename(tmp_path / "kept")
        inside.parent.mkdir()
        remove_leftovers(tmp_path)
        assert listing(tmp_path) == ["kept"]


def test_a_part_that_is_always_taken_for_a_leftover_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "holds_new", lambda *_: False)
    with pytest.raises(OSError, match=os.strerror(errno.EBUSY)):
        leftovers.new_part(tmp_path / "release.json", 0o600)


def test_whoever_wants_to_be_alone_says_for_how_long_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def lock_file(_: Path, *, patience: float = -1.0, **__: object) -> int:
        asked.append(patience)
        raise BlockingIOError

    monkeypatch.setattr(leftovers, "lock_file", lock_file)
    with pytest.raises(StorageFault, match="in use"), alone_in(tmp_path, "naming", patience=0.5):
        pass
    assert asked == [0.5]


def test_only_names_of_our_own_are_removed(tmp_path: Path) -> None:
    hexadecimal = "0123456789abcdef"
    kept = ["a.part", f"a.{hexadecimal}.part", f".a.{hexadecimal}.parts", f".{hexadecimal}.part"]
    for name in kept:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "behind").write_bytes(b"")
    link = tmp_path / f".l.{hexadecimal}.part"
    link.symlink_to(tmp_path / "behind")
    gone = tmp_path / f".chaffinch.{hexadecimal}.part"
    gone.mkdir()
    (gone / "encoded.parquet").write_bytes(b"")
    remove_leftovers(tmp_path)
    assert listing(tmp_path) == sorted([*kept, "behind", link.name])


@pytest.mark.parametrize("number", ["SIGTERM", nightly("SIGHUP")])
def test_a_stopped_run_leaves_nothing(
    tmp_path: Path, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"""
import os, signal, sys
from chaffinch.disk import files
from chaffinch.cli import main
def stop(*_, **__):
    os.kill(os.getpid(), signal.{number})
    signal.pause()
files.give_name = stop
sys.exit(main(["encode", "people.csv", "--plan", "plan.json", "-o", "e.parquet"]))
"""
    PLAN.save(tmp_path / "plan.json")
    (tmp_path / "people.csv").write_text("answer\n" + "v1\n" * 20)
    before = listing(tmp_path)
    monkeypatch.chdir(tmp_path)
    done = forks.run(code)
    assert done.returncode == 130, done.stderr
    assert listing(tmp_path) == before
