"""The first start of a service: keys are made, data gets its name, and work begins."""

from __future__ import annotations

from pathlib import Path

from chaffinch.keys import KeyFolder
from chaffinch.services.data_folder import open_data
from chaffinch.shuffling.state import State
from tests.services.faults.calls import note
from tests.services.faults.scenes import End

_TAG = bytes(16)


class FirstStart:
    """A party that has nothing but a folder, and may be ended while it makes all else."""

    @classmethod
    def make(cls, root: Path) -> FirstStart:
        """Return a first start in a new folder."""
        root.mkdir(mode=0o700)
        return cls()

    def play(self, root: Path) -> None:
        """Make keys, open the data, and remember that a report was there."""
        note(f"told {KeyFolder.create(root / 'keys').identity_hex}")
        self._start(root)

    def _start(self, root: Path) -> bool:
        """Start as a service does; return whether the report is there for the first time."""
        open_data(root / "data", KeyFolder.open(root / "keys"))
        note("told started")
        state = State.open(root / "data" / "state.sqlite")
        try:
            with state.changing() as change:
                (fresh,) = change.claim(1, [_TAG])
        finally:
            state.close()
        note("told tag")
        return fresh

    def come_back(self, end: End, root: Path, *, life: int = 1) -> None:
        """Start again: nothing is refused, nothing forgotten, and keys and data know each other."""
        del life
        keys, told = root / "keys", end.told - {"started", "tag"}
        if keys.exists() or told:
            found = KeyFolder.open(keys)
            assert told <= {found.identity_hex}, "other keys"
            assert found.store or "started" not in end.told, "keys that have forgotten their data"
        else:
            note(f"told {KeyFolder.create(keys).identity_hex}")
        fresh = self._start(root)
        assert not (fresh and "tag" in end.told), "a report that was forgotten"
        assert KeyFolder.open(keys).store == (root / "data" / "store.name").read_text() != ""
