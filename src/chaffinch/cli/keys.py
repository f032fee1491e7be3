"""The key folder of a party: create and show it, rotate and destroy its keys."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from chaffinch.charts.rounding import count_of
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.disk.files import atomic

if TYPE_CHECKING:
    from chaffinch.keys import KeyFolder
    from chaffinch.keys.keyset import KeyEntry

app = App(name="keys", help="Make, show and rotate the keys of a party.", sort_key=101)


@app.command(sort_key=0)
def create(
    folder: Path,
    *,
    kem: Literal["x25519", "x25519-ml-kem-768"] = "x25519",
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Make a key folder with a new identity and a first key, and print the identity for the plan.

    Parameters
    ----------
    folder
        A folder that does not exist yet.
    kem
        The kind of the keys; the second one withstands quantum computers, and is for the first hop
        of a plan that asks for it (outer_kem).
    """
    from chaffinch.keys import KeyFolder
    from chaffinch.plans.parties import KEMS

    made = KeyFolder.create(paths.require_name(folder), kem=KEMS[kem])
    output.say(f"made {folder}; keep a copy of it where only you can read it")
    if output.json:
        output.document({"identity": made.identity_hex})
    else:
        output.drawing(made.identity_hex)


@app.command(sort_key=1)
def show(folder: Path, *, output: Output = Output()) -> None:  # noqa: B008 - frozen
    """Show the identity of a party and the state of each key; no secret is shown.

    Parameters
    ----------
    folder
        The key folder.
    """
    _show(_open(folder), output)


@app.command(sort_key=2)
def rotate(
    folder: Path,
    *,
    at_once: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    pending_hours: float = 1.0,
    active_days: float = 7.0,
    expired_days: float = 2.0,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Change the state of every key for which this is due; run this regularly, from a timer.

    A running service notices the change, and destroys a closed key when nothing is left to open
    with it. How often this runs does not matter.

    Parameters
    ----------
    folder
        The key folder.
    at_once
        Make a new key active now, whatever the periods say; the present one expires.
    pending_hours
        How long a new key is published before devices seal for it.
    active_days
        How long devices seal for a key. Reports of one round that name different keys of the same
        party wait for a crowd each, so a key of a later hop or of the analyzer should last for a
        whole round.
    expired_days
        How long reports are still accepted for an expired key.
    """
    from chaffinch.keys import Periods

    periods = Periods(pending_hours * 3600, active_days * 86_400, expired_days * 86_400)
    opened = _open(folder)
    changed = opened.rotate(at_once=at_once, periods=periods)
    output.say(f"{count_of(len(changed), 'key')} changed" if changed else "no key was due")
    _show(opened, output)


@app.command(sort_key=3)
def destroy(
    folder: Path,
    number: Annotated[int, Parameter(name="ID")],
    *,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Accept nothing more for an expired key; its service destroys it when nothing needs it.

    That takes a minute or more, because acknowledged reports are opened first.

    Parameters
    ----------
    folder
        The key folder.
    number
        The id of the key, as `keys show` prints it.
    """
    opened = _open(folder)
    opened.close(number)
    _show(opened, output)


@app.command(name="list", sort_key=4)
def list_keys(
    folder: Path,
    *,
    plan: Path,
    out: Path,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Write the signed key list for a plan: whoever has it can seal for this party.

    By signing it the party agrees to the plan. A service hands the same bytes to everybody.

    Parameters
    ----------
    folder
        The key folder.
    plan
        The plan file, which must name this party.
    out
        The file for the list.
    """
    opened = _open(folder)
    found = paths.open_plan(plan, output)
    if found.parties is None:
        _ = found.layout  # says what is missing
        return
    party = found.parties.party(found.parties.place_of(opened.identity_hex))
    content = opened.key_list(found.id)
    with atomic(out, overwrite=False) as file:
        file.write(content)
    output.say(f"wrote {out}: the keys of {party.name} for plan {found.id[:16]}")
    if output.json:
        output.document({"party": party.name, "plan": found.id, "serial": opened.serial})


def _open(folder: Path) -> KeyFolder:
    from chaffinch.keys import KeyFolder

    return KeyFolder.open(folder)


def _show(opened: KeyFolder, output: Output) -> None:
    if output.json:
        keys = [_entry(one) for one in opened.entries]
        document = {"identity": opened.identity_hex, "serial": opened.serial, "keys": keys}
        output.document(document)
        return
    output.words(f"Identity {opened.identity_hex}")
    output.words("")
    rows = [[str(one.id), one.state, _kem(one), _moment(one.since)] for one in opened.entries]
    output.table(["key", "state", "kind", "since"], rows, texts=4)


def _entry(entry: KeyEntry) -> dict[str, Any]:
    since = _moment(entry.since)
    return {"id": entry.id, "state": str(entry.state), "kem": _kem(entry), "since": since}


def _kem(entry: KeyEntry) -> str:
    from chaffinch.plans.parties import KEMS

    return next(name for name, number in KEMS.items() if number == entry.kem)


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # a clock beyond all calendars
        return f"second {seconds:.0f}"
