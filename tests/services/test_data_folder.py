"""Keys and data belong together: a service does not start with keys whose data is not there."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from chaffinch import Ledger, Target
from chaffinch.cli import main
from chaffinch.disk.kill_points import VARIABLE
from chaffinch.keys import KeyFolder
from tests import forks
from tests.services.commands import ROLES, serving, write_settings
from tests.services.oracle import Collection

FOLDERS = {"collector": "hop1", "shuffler": "hop1", "analyzer": "analyzer"}
roles = pytest.mark.parametrize("role", ROLES)


@pytest.fixture(autouse=True)
def parties(tmp_path: Path) -> None:
    """Set up a hop and an analyzer that have never run."""
    write_settings(tmp_path, Collection.make(tmp_path).plan)
    Ledger.create(
        tmp_path / "ledger", role="analyzer", cap=Target(1e3, 0.9), mark=tmp_path / "mark"
    )


def start(role: str, root: Path) -> None:
    """Start a service that must run, and end it."""
    with serving(role, root / ROLES[role]) as service:
        assert service.stop()[0] == 0


def refused(role: str, root: Path, failpoint: str = "") -> tuple[int, str]:
    """Return the exit code of a service that does not start, and what it says."""
    words = ["serve", role, "--config", root / ROLES[role]]
    done = forks.run(forks.COMMAND, *words, environment={VARIABLE: failpoint}, timeout=20)
    return done.returncode, " ".join(done.stderr.split())


@roles
def test_a_disk_that_is_not_there_is_not_made_anew(tmp_path: Path, role: str) -> None:
    data = tmp_path / FOLDERS[role]
    start(role, tmp_path)
    data.rename(tmp_path / "elsewhere")
    code, said = refused(role, tmp_path)
    assert code == 5
    assert f"The folder {data.name!r} must be the data of these keys. Got none." in said
    assert "mount its disk" in said
    assert "chaffinch keys create" in said
    assert not data.exists()
    data.mkdir()  # where the disk would be mounted
    assert refused(role, tmp_path)[0] == 5
    assert list(data.iterdir()) == []
    data.rmdir()
    (tmp_path / "elsewhere").rename(data)
    start(role, tmp_path)


def test_data_of_other_keys_is_refused(tmp_path: Path) -> None:
    start("shuffler", tmp_path)
    start("analyzer", tmp_path)
    shutil.rmtree(tmp_path / "hop1")
    shutil.copytree(tmp_path / "analyzer", tmp_path / "hop1")
    code, said = refused("shuffler", tmp_path)
    assert (code, "Got the data of others." in said) == (5, True)


def test_the_two_services_of_a_hop_start_at_once(tmp_path: Path) -> None:
    config = tmp_path / "hop.toml"
    with serving("collector", config), serving("shuffler", config):
        note = tmp_path / "hop1-keys" / "store.name"
        assert note.read_bytes() == (tmp_path / "hop1" / "store.name").read_bytes() != b""
        assert note.stat().st_mode & 0o777 == 0o600


@roles
def test_a_first_start_that_was_cut_is_done_again(tmp_path: Path, role: str) -> None:
    assert refused(role, tmp_path, "data.named")[0] == -signal.SIGKILL
    start(role, tmp_path)
    shutil.rmtree(tmp_path / FOLDERS[role])
    assert refused(role, tmp_path)[0] == 5


def test_keys_of_a_version_before_need_the_data_of_before(tmp_path: Path) -> None:
    start("shuffler", tmp_path)
    (tmp_path / "hop1-keys" / "store.name").unlink()
    (tmp_path / "hop1" / "store.name").unlink()
    (tmp_path / "hop1").rename(tmp_path / "elsewhere")
    assert refused("shuffler", tmp_path)[0] == 5
    # A new disk, or a mark in a folder where none is mounted: nothing that a service has made.
    (tmp_path / "hop1" / "lost+found").mkdir(parents=True)
    assert refused("shuffler", tmp_path)[0] == 5
    shutil.rmtree(tmp_path / "hop1")
    (tmp_path / "elsewhere").rename(tmp_path / "hop1")
    start("shuffler", tmp_path)
    assert KeyFolder.open(tmp_path / "hop1-keys").store


@roles
def test_no_folder_above_the_data_is_made(tmp_path: Path, role: str) -> None:
    config = tmp_path / ROLES[role]
    text = config.read_text().replace(f'data = "{FOLDERS[role]}"', f'data = "{tmp_path}/disk/data"')
    config.write_text(text)
    code, said = refused(role, tmp_path)
    assert code == 5
    assert f"The folder for data must be in a folder that exists. Got {tmp_path}/disk/data" in said
    assert not (tmp_path / "disk").exists()


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_status_makes_nothing_and_names_the_problem(
    tmp_path: Path, role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, words = tmp_path / FOLDERS[role], ["status", "--config", str(tmp_path / ROLES[role])]
    assert main(words) == (role == "shuffler"), "a hop that nobody has shown keys is not ready"
    assert not data.exists()
    assert "these keys" not in capsys.readouterr().out
    start(role, tmp_path)
    shutil.rmtree(data)
    assert main(words) == 1, "what was taken is nowhere"
    said = " ".join(capsys.readouterr().out.split())
    assert "Nothing could be counted: the data of these keys is missing." in said
    assert "ADD UP" not in said
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["adds_up"] is False
    assert f"Problem: the folder {data.name!r} must be the data of these keys" in said
    assert not data.exists()
