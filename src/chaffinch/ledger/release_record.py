"""What `run` has released, and of which data: the same data again is not free.

One file for each user. It holds, of every release, what it exposed (plan, mechanism, round),
and what its data were called: keyed digests, with a random key that is in this file alone. So
nothing about the data is beside a release, and a digest without the key says nothing.

Data have several names: that of the file, byte by byte, that of the rows that were read, in
whatever file and order, that of their answers, however they are written and whatever column they
or the people are in, and that of each release that was made of them. Releases are of the same data
if a chain of shared names leads from one to the other.

Order of writing, for every release: its files are in full on the disk, then it is written here,
durably, then the files get their names (``disk.paid_files``). Whether it may be made is
looked up under the write lock, so of two runs at once the second finds the first one.

What this cannot know: a record that was removed, or restored from a backup, has forgotten;
other users and machines have records of their own; and a table with a row more or a corrected
cell is other data, unless its release goes into the folder of the one before. So is another file
for other questions: of other columns, under other names, with other values or other bounds.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.charts.rounding import add_promises
from chaffinch.disk.databases import RUN_RECORD, RecordKind
from chaffinch.disk.files import AnyPath, state_folder
from chaffinch.errors import DataRepeated
from chaffinch.ledger.charge import Charge, charge_from, plan_of_all_groups, promised_at, total
from chaffinch.privacy import Guarantee

if TYPE_CHECKING:
    from chaffinch.plans.plan import Plan

_STATEMENTS = (
    """CREATE TABLE head (
    record TEXT NOT NULL CHECK (typeof(record) = 'text' AND length(record) = 32),
    key BLOB NOT NULL CHECK (typeof(key) = 'blob' AND length(key) = 32)
)""",
    """CREATE TABLE releases (
    sequence INTEGER PRIMARY KEY,
    subject TEXT NOT NULL UNIQUE CHECK (typeof(subject) = 'text' AND length(subject) = 64),
    plan TEXT NOT NULL CHECK (typeof(plan) = 'text'),
    mechanism TEXT NOT NULL CHECK (typeof(mechanism) = 'text'),
    epsilon REAL NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon BETWEEN 0 AND 1e308),
    delta REAL NOT NULL CHECK (typeof(delta) = 'real' AND delta BETWEEN 0 AND 1),
    rounds INTEGER NOT NULL CHECK (typeof(rounds) = 'integer' AND rounds >= 1),
    round INTEGER NOT NULL CHECK (typeof(round) = 'integer' AND round >= 1),
    unit TEXT NOT NULL CHECK (unit IN ('person', 'row'))
)""",
    """CREATE TABLE data (
    name TEXT NOT NULL CHECK (typeof(name) = 'text' AND length(name) = 64),
    release INTEGER NOT NULL REFERENCES releases (sequence),
    PRIMARY KEY (name, release)
)""",
    "CREATE INDEX names ON data (release)",
)
_RECORD = RecordKind(
    "record of runs",
    RUN_RECORD,
    version=1,
    statements=_STATEMENTS,
    whole="SELECT COUNT(*) FROM head",
    hint="nothing was released; the record tells which data were released before, and is kept in "
    "the user's state folder ($XDG_STATE_HOME/chaffinch/releases.record): make it reachable, or "
    "restore it as it was after the last run",
)
_SAME_DATA = """WITH RECURSIVE same (name) AS (
    SELECT name FROM data WHERE name IN ({})
    UNION
    SELECT other.name FROM same
    JOIN data AS own ON own.name = same.name
    JOIN data AS other ON other.release = own.release
)
SELECT release FROM data WHERE name IN same"""
_ALL_NAMES = "SELECT release FROM data WHERE name IN ({}) GROUP BY release HAVING COUNT(*) = {}"
_OF_PLAN = "SELECT sequence FROM releases WHERE plan IN ({})"
_RELEASES = """SELECT subject, plan, mechanism, epsilon, delta, rounds, round, unit FROM releases
WHERE sequence IN ({}) ORDER BY sequence"""


@dataclass(frozen=True)
class RunRelease:
    """What one release of a run has exposed."""

    subject: str
    """The digest of its batch."""
    charge: Charge
    """One round of its plan."""
    epsilon: float
    delta: float
    """What its plan promises, for all its rounds."""
    rounds: int
    round: int
    unit: str
    """What it promised to protect: a person, or merely a row."""

    @classmethod
    def of(cls, plan: Plan, round: int | None, unit: str) -> RunRelease:  # noqa: A002
        """Return what a release exposes, as a round of its plan.

        Public groups of one plan share the charge of the plan for all of them, and the rounds of
        each have numbers of their own: those of the group with number g follow on g times as many.
        Where devices send the reports, nobody knows that none of them sends in several groups:
        there each group is a plan of its own.
        """
        number, charge = 1 if round is None else round, Charge.of(plan)
        if plan.group is not None and unit != "report":
            charge = Charge.of(plan_of_all_groups(plan))
            number += plan.group.number * plan.rounds
        return cls("", charge, plan.epsilon, plan.delta, plan.rounds, number, unit)

    def is_covered_by(self, other: RunRelease) -> bool:
        """Return whether both are rounds of one plan, whose promise covers each of them once."""
        same = (self.charge, self.unit) == (other.charge, other.unit)
        return same and self.round != other.round


def are_covered(releases: Iterable[RunRelease]) -> bool:
    """Return whether the promise of one plan covers all releases: each round at most once.

    Every two of them are compared, so that a round that was released twice is never forgotten.
    """
    return all(one.is_covered_by(other) for one, other in combinations(releases, 2))


def promise_together(releases: Iterable[RunRelease]) -> Guarantee:
    """Return what all releases cost one person together, whatever the order they were made in.

    Every plan counts with all its rounds, released or not, and with what ``_repeats`` adds to
    them; of all plans it is the composition. Releases of one plan that promised something to
    rows and to people count as those of two plans.

    It is told at the sum of deltas: there is always a proof for that, because epsilons and deltas
    of promises add up (basic composition). One promise is enough for as many rounds as its plan
    has, whichever they are, since all rounds of a plan have one mechanism. The composed
    mechanisms mostly prove less; where reports may be cut, that can use up all of the delta, and
    then the sum of epsilons stays. It is never less than what one plan promises.
    """
    made: defaultdict[tuple[Charge, float, float, int, str], Counter[int]]
    made = defaultdict(Counter)
    for one in releases:
        made[one.charge, one.epsilon, one.delta, one.rounds, one.unit][one.round] += 1
    charges, epsilons, deltas = [], [], []
    for (charge, epsilon, delta, rounds, _), times in made.items():
        repeats = _repeats(times, rounds)
        charges += [replace(charge, times=some) for some in (rounds, repeats) if some]
        promises = math.ceil((rounds + repeats) / rounds)
        epsilons += [epsilon] * promises
        deltas += [delta] * promises
    composed = promised_at(total(charges), min(1.0, add_promises(deltas)))
    added = add_promises(epsilons)
    if not composed.epsilon <= added:
        return replace(composed, epsilon=added, method="upper-bound")
    return replace(composed, epsilon=max(composed.epsilon, *epsilons))


def _repeats(times: Mapping[int, int], rounds: int) -> int:
    """Return to how many rounds more than its plan has one person is exposed.

    ``times`` tells how often each round was released. It counts so often, and once where it was
    not released: the promise was made for all rounds, so each of them may still come. The sum of
    max(1, times) over all rounds is their number and that of all repeats.

    Who answers in a public group answers in no other one and cannot move, so it is the group with
    the most repeats that counts. Which one a person is in may differ from plan to plan: taking
    the largest number of each plan bounds what anybody is exposed to.
    """
    repeats: Counter[int] = Counter()
    for number, count in times.items():
        group = (number - 1) // rounds
        repeats[group] += count - 1
    return max(repeats.values())


class ReleaseRecord:
    """The releases of this user's runs, in a file that only grows."""

    def __init__(self, path: AnyPath | None = None) -> None:
        """Open the record of this user, or the one in ``path``; make it where there is none."""
        self._path = state_folder() / "releases.record" if path is None else Path(path).absolute()
        _RECORD.create(self._path, _write_head)
        with self._writing() as connection:
            head = connection.execute("SELECT record, key FROM head").fetchone()
        self.id: str = head[0]
        """The record's own name, drawn at random when it was made."""
        self.key: bytes = head[1]
        """The secret key of all names."""

    def name_of(self, kind: str, content: bytes) -> str:
        """Return what data are called here: of a file, of its rows, or of a release."""
        return hmac.new(self.key, kind.encode() + b"\0" + content, hashlib.sha256).hexdigest()

    def of_same_data(self, names: Sequence[str]) -> tuple[RunRelease, ...]:
        """Return the releases of the data of these names, the first one first."""
        with self._writing() as connection:
            return _same_data(connection, names)

    def of_all_names(self, names: Sequence[str]) -> tuple[RunRelease, ...]:
        """Return the releases that have each of these names themselves."""
        with self._writing() as connection:
            return _named(connection, _ALL_NAMES.format("{}", len(set(names))), names)

    def add(
        self, release: RunRelease, names: Sequence[str], known: Sequence[RunRelease] | None
    ) -> None:
        """Record a release durably before it is handed out; a second time changes nothing.

        Refused if the data have other releases than those that are ``known``, which were taken
        into account: another run was quicker. Without them nothing is looked up.
        """
        with self._writing(adding=True) as connection:
            if _is_there(connection, release.subject):
                return
            if known is not None and _same_data(connection, names) != tuple(known):
                raise DataRepeated(
                    "data of which another run has made a release just now",
                    hint="nothing was released; run the same command again to see what it adds to",
                )
            charge = release.charge
            exposed = (release.subject, charge.plan_id, charge.document)
            promise = (release.epsilon, release.delta, release.rounds, release.round, release.unit)
            row = connection.execute(
                "INSERT INTO releases VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", (*exposed, *promise)
            )
            connection.executemany(
                "INSERT INTO data VALUES (?, ?)", [(name, row.lastrowid) for name in set(names)]
            )
            connection.execute("COMMIT")

    def of_plan(self, plan_id: str) -> tuple[RunRelease, ...]:
        """Return the releases of a plan so far, of whatever data."""
        with self._writing() as connection:
            return _named(connection, _OF_PLAN, [plan_id])

    def remove(self, subject: str) -> None:
        """Forget a release that was recorded and then not made."""
        with self._writing(adding=True) as connection:
            where = "(SELECT sequence FROM releases WHERE subject = ?)"
            connection.execute(f"DELETE FROM data WHERE release IN {where}", (subject,))  # noqa: S608
            connection.execute("DELETE FROM releases WHERE subject = ?", (subject,))
            connection.execute("COMMIT")

    def is_charged(self, _key: str, subject: str) -> bool:
        """Return whether a release was recorded, durably."""
        with self._writing() as connection:
            return _is_there(connection, subject)

    def _writing(self, *, adding: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        return _RECORD.writing(self._path, adding=adding)


def _write_head(connection: sqlite3.Connection) -> None:
    head = (secrets.token_hex(16), secrets.token_bytes(32))
    connection.execute("INSERT INTO head VALUES (?, ?)", head)


def _same_data(connection: sqlite3.Connection, names: Sequence[str]) -> tuple[RunRelease, ...]:
    return _named(connection, _SAME_DATA, names)


def _named(
    connection: sqlite3.Connection, which: str, names: Sequence[str]
) -> tuple[RunRelease, ...]:
    held = ", ".join("?" * len(names))
    rows = connection.execute(_RELEASES.format(which.format(held)), list(names)).fetchall()
    return tuple(
        RunRelease(subject, charge_from(plan, mechanism, 1), *numbers)
        for subject, plan, mechanism, *numbers in rows
    )


def _is_there(connection: sqlite3.Connection, subject: str) -> bool:
    row = connection.execute("SELECT 1 FROM releases WHERE subject = ?", (subject,)).fetchone()
    return row is not None
