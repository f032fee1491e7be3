"""A data folder is bound to its keys: only the data know what was done with the keys.

With an empty folder for data (a disk that is not mounted) and the same keys a service would have
forgotten which reports it has seen, and what it has handed over: it would take copies for new,
and flip filters a second time. So at the first start the data gets a random name, which the key
folder notes. The name is written first: whoever is killed in between finds data with a name and
keys that have noted none, and goes on.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path

from chaffinch.disk.files import atomic, make_folder, read_small, sync_folder
from chaffinch.disk.kill_points import kill_point
from chaffinch.disk.leftovers import alone_in
from chaffinch.disk.storage_errors import storage_fault
from chaffinch.errors import StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.services.status import Status

_NAME = "store.name"
_OF_EVERY_SERVICE = "received"
"""A folder that each of them makes. A disk that was just formatted is not empty, either."""
_LARGEST = 1 << 10


def open_data(data: Path, keys: KeyFolder) -> None:
    """Make the folder for data at the first start with these keys; later, refuse any other."""
    if not data.parent.is_dir():
        raise StorageFault(
            f"The folder for data must be in a folder that exists. Got {data}.",
            hint="mount its disk, or correct `data` in the settings; folders above it are not made",
        )
    if keys.store and data_fault(data, keys) is None:
        return
    # The two services of a hop may start for the first time at once: what was asked above is asked
    # again under the lock.
    with alone_in(keys.path, "store"):
        fault = data_fault(data, keys)
        if fault is not None:
            raise fault
        # The data get their name first. A process that is killed before the keys note it leaves
        # keys without a name, which take the name that is there. In the other order the keys would
        # name data that never were, and refuse every folder.
        try:
            make_folder(data)
            name = _name_of(data) or _give_name(data)
        except OSError as error:
            raise storage_fault(data.name, error, verb="create") from None
        kill_point("data.named")
        keys.note_store(name)


def data_fault(data: Path, keys: KeyFolder) -> StorageFault | None:
    """Return why a folder is not the data of these keys; None if it is, or may become so."""
    noted = keys.store
    try:
        found, is_used = _name_of(data), (data / _OF_EVERY_SERVICE).is_dir()
    except OSError as error:
        raise storage_fault(data.name, error, verb="read") from None
    if noted in ("", found):
        return None
    if noted is None and is_used:
        return None  # both were made by a version that gave no names
    return StorageFault(
        f"The folder {data.name!r} must be the data of these keys. "
        f"Got {'the data of others' if found else 'none'}.",
        hint=f"mount its disk, so that the data is at {data}; a copy from before does not know "
        "what was passed on since (see Backup in the guide); if the data is lost, these keys are "
        "not used again: `chaffinch keys create`, and a new plan that names the new identity",
    )


def without_data(status: Status, data: Path, keys: KeyFolder) -> Status:
    """Return a status that says so where the data of the keys is not there."""
    fault = data_fault(data, keys)
    if fault is None:
        return status
    said = fault.message[0].lower() + fault.message[1:]
    problems = (f"{said} {fault.hint}", *status.problems)
    plans = tuple(replace(plan, has_data=False) for plan in status.plans)
    return replace(status, problems=problems, plans=plans)


def _name_of(data: Path) -> str:
    """Return the name of the data in a folder; empty if there is none."""
    place = data / _NAME
    if not place.exists():
        return ""
    return read_small(place, most=_LARGEST, must_be="the name of data").decode(errors="replace")


def _give_name(data: Path) -> str:
    name = secrets.token_hex(16)
    with atomic(data / _NAME, permissions=0o600) as file:
        file.write(name.encode())
    sync_folder(data)
    return name
