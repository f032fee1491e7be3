"""Which keys a party has, and by which rule each of them comes and goes.

A key is *pending* while devices learn of it, *active* while they seal for it, *expired* while
what was sealed for it is still taken, *closed* while what was taken is still opened, and
*destroyed* in the end. There is one active key at any time. The times are those of the wall
clock, which may jump: a key takes at most one step at a time, stays in each state for a whole
period of the clock as it is then, and is never destroyed by age.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from chaffinch.errors import InvalidFile, Reason, StorageFault, checks
from chaffinch.wire.document_forms import Form, Hex64, Many, Written
from chaffinch.wire.documents import faults_of, unique_keys

_FORMAT = "chaffinch/keyset@1"
_IDS = 256
"""An id is one byte of an envelope."""
_HOUR, _DAY = 3600, 86_400


class KeyState(StrEnum):
    """How far on a key is."""

    PENDING = "pending"
    ACTIVE = "active"
    EXPIRED = "expired"
    CLOSED = "closed"
    DESTROYED = "destroyed"


@dataclass(frozen=True)
class Periods:
    """How many seconds a key stays in each state."""

    pending: float = _HOUR
    active: float = 7 * _DAY
    expired: float = 2 * _DAY

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            checks.real(f"seconds that a key is {name}", value, least=0.0)


@dataclass(frozen=True)
class KeyEntry:
    """What the set says of one key: everything but the key."""

    id: int
    kem: int
    state: KeyState
    since: float
    """When it came into the state, in seconds of the wall clock."""
    digest: str
    """SHA-256 of the file that the key is in."""

    def moved(self, state: KeyState, now: float) -> KeyEntry:
        """Return the key a state further on."""
        return replace(self, state=state, since=now)


@dataclass(frozen=True)
class Keyset:
    """All keys of a party, in the order in which they were made."""

    serial: int
    """Grows with every change."""
    entries: tuple[KeyEntry, ...]

    @property
    def active(self) -> KeyEntry:
        """Return the key to seal for."""
        return next(one for one in self.entries if one.state is KeyState.ACTIVE)

    @property
    def pending(self) -> KeyEntry | None:
        """Return the key that is to come."""
        return next((one for one in self.entries if one.state is KeyState.PENDING), None)

    @property
    def accepted(self) -> tuple[KeyEntry, ...]:
        """Return the keys for which envelopes are taken, the active one first."""
        others = (KeyState.PENDING, KeyState.EXPIRED)
        return (self.active, *(one for one in self.entries if one.state in others))

    @property
    def opening(self) -> tuple[KeyEntry, ...]:
        """Return the keys that still open, the active one first."""
        closed = (one for one in self.entries if one.state is KeyState.CLOSED)
        return (*self.accepted, *closed)

    def entry(self, number: int) -> KeyEntry | None:
        """Return what is known of the key with that id."""
        return next((one for one in self.entries if one.id == number), None)

    def next_id(self) -> int:
        """Return the id of the next key: the one after the last, if its key is destroyed."""
        living = {one.id for one in self.entries if one.state is not KeyState.DESTROYED}
        last = self.entries[-1].id if self.entries else 0
        for step in range(1, _IDS + 1):
            if (number := (last + step) % _IDS) not in living:
                return number
        raise StorageFault(
            f"The key folder must hold fewer than {_IDS} keys that open. Got no free id.",
            hint="expired keys go when nothing needs them: look why reports wait unopened",
        )

    # ------------------------------------------------------------------ the rule

    def wants_pending(self, now: float, periods: Periods) -> bool:
        """Return whether it is time for the next key to be made known."""
        return self.pending is None and now - self.active.since >= periods.active - periods.pending

    def stepped(self, now: float, periods: Periods, *, at_once: bool = False) -> Keyset:
        """Return the set a step further on.

        The pending key takes over when it is known and the active one has had its time; a key
        that was expired before is closed when it has had its.
        """
        # A time to come is one of before the clock was put back: its period starts again.
        told = self.changed(*(replace(one, since=min(one.since, now)) for one in self.entries))
        past = [
            one.moved(KeyState.CLOSED, now)
            for one in told.entries
            if one.state is KeyState.EXPIRED and now - one.since >= periods.expired
        ]
        told, active, pending = told.changed(*past), told.active, told.pending
        if pending is None:
            return told
        waited = now - pending.since >= periods.pending and now - active.since >= periods.active
        if not (waited or at_once):
            return told
        return told.changed(
            active.moved(KeyState.EXPIRED, now), pending.moved(KeyState.ACTIVE, now)
        )

    def changed(self, *entries: KeyEntry) -> Keyset:
        """Return the set with other entries in place of those of the same id, or with new ones.

        A new key comes last, also where it takes the id of one that was destroyed.
        """
        given = {one.id: one for one in entries}
        kept = [one for one in self.entries if given.get(one.id, one).digest == one.digest]
        held = {one.id for one in kept}
        new = [one for one in entries if one.id not in held]
        merged = (*(given.get(one.id, one) for one in kept), *new)
        return self if merged == self.entries else Keyset(self.serial + 1, merged)

    # ------------------------------------------------------------------ the file

    def content(self) -> bytes:
        """Return the set as it stands in its file."""
        return json.dumps(_KeysetForm.document(self), indent=2).encode() + b"\n"

    @classmethod
    def read(cls, content: bytes, *, name: str) -> Keyset:
        """Return the set of a file; refuse one that breaks a rule."""
        rule = f"a list of keys in the format {_FORMAT}"
        try:
            document = json.loads(content, object_pairs_hook=unique_keys)
            made: Keyset = _KeysetForm.model_validate(document).build()
        except ValidationError as fault:
            faults = faults_of(fault)
        except (ValueError, RecursionError):
            faults = ["no JSON document"]
        else:
            states = Counter(one.state for one in made.entries)
            faults = []
            if len({one.id for one in made.entries}) < len(made.entries):
                faults.append("two keys of one id")
            if states[KeyState.ACTIVE] != 1:
                faults.append(f"{states[KeyState.ACTIVE]} active keys where there must be one")
            if states[KeyState.PENDING] > 1:
                faults.append("two pending keys")
            if not faults:
                return made
        raise InvalidFile(f"file {name}", rule, faults, reason=Reason.DAMAGED)


_STATES = Literal["pending", "active", "expired", "closed", "destroyed"]


class _EntryForm(Form):
    makes = KeyEntry

    id: Annotated[int, Field(ge=0, lt=_IDS)]
    kem: int
    state: Annotated[KeyState, Written(_STATES, KeyState, str)]
    since: Annotated[float, Field(allow_inf_nan=False)]
    digest: Hex64


class _KeysetForm(Form):
    makes = Keyset

    format: Literal["chaffinch/keyset@1"]
    serial: Annotated[int, Field(ge=1, lt=1 << 64)]
    entries: Annotated[Many[Annotated[KeyEntry, _EntryForm.written()]], Field(alias="keys")]
