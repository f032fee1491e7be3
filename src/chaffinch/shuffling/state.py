"""The state of a hop: which reports it opened, which wait for their crowd, which it passed on.

A report moves from one state to the next in exactly one transaction: durable → opened, a copy,
or rejected; pooled → in a batch, or expired. A batch: sealed → acknowledged → purged. At any
time ::

    durable = opened + duplicate + rejected + waiting + damaged
    rejected = undecryptable + malformed + destroyed_key + not_given_out + refused
    opened = pooled + batched + expired

``rejected`` is the sum of its reasons. Each other term is counted where it happens, none is worked
out of the others. A first hop counts reports; a later hop counts items, and pools
those of a batch that is too short to go on by itself.

Replay tags go with the key they belong to. Nothing here tells who sent a report, nor when: the
age of a report is the number of ticks that have passed in this store since it was opened.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from chaffinch.disk.databases import SHUFFLER_STATE
from chaffinch.disk.stores import Store, StoreKind
from chaffinch.errors import StorageFault

_FIRST = (
    """CREATE TABLE counters (
    plan_id TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (plan_id, name)
) WITHOUT ROWID""",
    # Segments that are opened, and may still be in the inbox.
    "CREATE TABLE segments (name TEXT PRIMARY KEY) WITHOUT ROWID",
    """CREATE TABLE tags (
    key INTEGER NOT NULL, tag BLOB NOT NULL, PRIMARY KEY (key, tag)
) WITHOUT ROWID""",
    # Acknowledged reports whose plan or key is not known here; counted: how many of them are
    # counted as durable, none where the plan does not tell how long one is.
    """CREATE TABLE waiting (
    id INTEGER PRIMARY KEY, plan_id TEXT NOT NULL, round INTEGER NOT NULL,
    counted INTEGER NOT NULL, reports BLOB NOT NULL
)""",
    # The items of the reports of one partition that were opened together, one behind the
    # other; sizes: how many items each report has, as unsigned numbers of 4 bytes.
    """CREATE TABLE pool (
    id INTEGER PRIMARY KEY, plan_id TEXT NOT NULL, round INTEGER NOT NULL,
    route BLOB NOT NULL, tick INTEGER NOT NULL, reports INTEGER NOT NULL,
    sizes BLOB NOT NULL, items BLOB NOT NULL
)""",
    "CREATE INDEX pool_partitions ON pool (plan_id, round, route)",
    """CREATE TABLE batches (
    id TEXT PRIMARY KEY, plan_id TEXT NOT NULL, round INTEGER NOT NULL,
    reports INTEGER NOT NULL, items INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('sealed', 'acknowledged', 'purged')),
    receipt BLOB, CHECK ((receipt IS NULL) = (state = 'sealed'))
) WITHOUT ROWID""",
    # Batches of the hop before that are opened: they are never opened again.
    "CREATE TABLE relayed (id TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE clock (tick INTEGER NOT NULL)",
    "INSERT INTO clock VALUES (0)",
)
_SECOND = (
    # The newest list of keys that each party behind a first hop has shown to it.
    """CREATE TABLE key_lists (
    plan_id TEXT NOT NULL, party TEXT NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (plan_id, party)
) WITHOUT ROWID""",
    # Every way through these parties that was given out to devices.
    """CREATE TABLE routes (
    plan_id TEXT NOT NULL, route BLOB NOT NULL, PRIMARY KEY (plan_id, route)
) WITHOUT ROWID""",
)
_THIRD = (
    # Reports for keys that were not given out when they came were kept, and never left.
    """INSERT INTO counters
    SELECT plan_id, name, sign * SUM(reports) FROM pool
    JOIN (SELECT 'opened' AS name, -1 AS sign UNION ALL SELECT 'not_given_out', 1)
    WHERE (plan_id, route) NOT IN (SELECT plan_id, route FROM routes) GROUP BY plan_id, name
    ON CONFLICT (plan_id, name) DO UPDATE SET value = value + excluded.value""",
    "DELETE FROM pool WHERE (plan_id, route) NOT IN (SELECT plan_id, route FROM routes)",
)
_FOURTH = (
    # Why the next party has not signed for a batch, when it was last asked.
    "CREATE TABLE refusals (batch TEXT PRIMARY KEY, why TEXT NOT NULL) WITHOUT ROWID",
    # Damaged segments that were put aside, when all that is whole in them was taken.
    "CREATE TABLE aside (name TEXT PRIMARY KEY) WITHOUT ROWID",
)
_FIFTH = (
    # A route is the names of keys: of one key, what its id and digest were, but for a byte.
    "UPDATE pool SET route = substr(route, 1, 32) WHERE length(route) = 33",
    "UPDATE routes SET route = substr(route, 1, 32) WHERE length(route) = 33",
    # Items for several later parties were sealed without it, and nobody opens them any more;
    # reports that wait unopened had another length.
    """INSERT INTO counters
    SELECT plan_id, name, sign * SUM(reports) FROM pool
    JOIN (SELECT 'opened' AS name, -1 AS sign UNION ALL SELECT 'not_given_out', 1)
    WHERE length(route) <> 32 GROUP BY plan_id, name
    ON CONFLICT (plan_id, name) DO UPDATE SET value = value + excluded.value""",
    """INSERT INTO counters
    SELECT plan_id, 'malformed', SUM(counted) FROM waiting WHERE counted > 0 GROUP BY plan_id
    ON CONFLICT (plan_id, name) DO UPDATE SET value = value + excluded.value""",
    "DELETE FROM pool WHERE length(route) <> 32",
    "DELETE FROM routes WHERE length(route) <> 32",
    "DELETE FROM waiting WHERE counted > 0",
    # Since when the route that it is on is given out, by the wall clock.
    "ALTER TABLE key_lists ADD COLUMN changed REAL",
)
_STATE = StoreKind(
    "state of the shuffler",
    SHUFFLER_STATE,
    steps=(_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH),
    hint="nothing was lost by this: reports stay where they are; if the file is damaged, see "
    "Backup in the guide of services: a copy of it does not know what was passed on since",
)


class Partition(NamedTuple):
    """Reports that may go into one batch: of one plan, one round, and the same way from here."""

    plan_id: str
    round: int
    route: bytes
    """The names of the keys that its items are sealed for."""


class Pooled(NamedTuple):
    """Reports that wait for their crowd, as they were opened together."""

    sizes: bytes
    items: bytes


class Held(NamedTuple):
    """Acknowledged reports whose plan or key is not known here."""

    id: int
    plan_id: str
    round: int
    counted: int
    """How many of them are counted as durable: none where the plan is not known."""
    reports: bytes


class KeptList(NamedTuple):
    """The newest list of keys of a later party."""

    content: bytes
    begun: float | None
    """Since when the route that it is on is given out, by the wall clock; None: not known."""


class Sealed(NamedTuple):
    """A batch that was made here."""

    id: str
    plan_id: str
    round: int
    reports: int
    items: int


@dataclass(frozen=True)
class Counts:
    """What became of everything that was taken for one plan."""

    INVARIANTS: ClassVar = {
        "durable": ("opened", "duplicate", "rejected", "waiting", "damaged"),
        "rejected": ("undecryptable", "malformed", "destroyed_key", "not_given_out", "refused"),
        "opened": ("pooled", "batched", "expired"),
    }
    """What each whole is the sum of, whatever happens."""

    durable: int = 0
    opened: int = 0
    duplicate: int = 0
    undecryptable: int = 0
    malformed: int = 0
    destroyed_key: int = 0
    not_given_out: int = 0
    """Reports for keys that this hop had not given out when it opened them."""
    refused: int = 0
    waiting: int = 0
    damaged: int = 0
    """Reports in what is not whole of segments that were put aside, as far as that can be told."""
    pooled: int = 0
    batched: int = 0
    expired: int = 0

    @property
    def rejected(self) -> int:
        """Return how many were rejected, for whatever reason."""
        return sum(getattr(self, reason) for reason in self.INVARIANTS["rejected"])

    @property
    def adds_up(self) -> bool:
        """Return whether everything that was taken is somewhere, once."""
        return all(
            getattr(self, whole) == sum(getattr(self, part) for part in parts)
            for whole, parts in self.INVARIANTS.items()
        )


class State:
    """The store of a hop; one thread of one process works with it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def open(cls, path: Path) -> State:
        """Return the state of a hop for its one owner; it is made where there is none."""
        return cls(_STATE.open(path))

    def close(self) -> None:
        """Let another process be the owner."""
        self._store.close()

    @contextmanager
    def changing(self, *, spills: bool = True) -> Iterator[Change]:
        """Yield what can be changed; all of the block is done when it has ended, or nothing.

        While one is under way that takes long and ``spills``, nobody else can read.
        """
        with self._store.changing(spills=spills) as connection:
            yield Change(connection)

    # ------------------------------------------------------------------ what is there

    def opened_segments(self) -> set[str]:
        """Return the names of segments that are opened and may still be in the inbox."""
        return {str(name) for (name,) in self._store.rows("SELECT name FROM segments")}

    def is_relayed(self, batch_id: str) -> bool:
        """Return whether a batch of the hop before is opened."""
        return bool(self._store.rows("SELECT 1 FROM relayed WHERE id = ?", (batch_id,)))

    def put_aside(self) -> set[str]:
        """Return the names of damaged segments of which all that is whole was taken."""
        return {str(name) for (name,) in self._store.rows("SELECT name FROM aside")}

    def partitions(self) -> dict[Partition, int]:
        """Return how many reports wait in each partition."""
        query = "SELECT plan_id, round, route, SUM(reports) FROM pool GROUP BY 1, 2, 3"
        return {Partition(*row[:3]): int(row[3]) for row in self._store.rows(query)}

    def sizes(self, partition: Partition) -> list[bytes]:
        """Return how many items each report of a partition has, in the order of ``pooled``."""
        query = "SELECT sizes FROM pool WHERE plan_id = ? AND round = ? AND route = ? ORDER BY id"
        return [sizes for (sizes,) in self._store.rows(query, partition)]

    def pooled(self, partition: Partition) -> Iterator[Pooled]:
        """Yield the reports of a partition, those first that were opened first."""
        query = (
            "SELECT sizes, items FROM pool"
            " WHERE plan_id = ? AND round = ? AND route = ? ORDER BY id"
        )
        return (Pooled(*row) for row in self._store.each(query, partition))

    def key_lists(self) -> dict[tuple[str, str], KeptList]:
        """Return the newest list of keys of each later party, by plan and identity."""
        rows = self._store.rows("SELECT plan_id, party, content, changed FROM key_lists")
        return {(plan_id, party): KeptList(*kept) for plan_id, party, *kept in rows}

    def held(self) -> list[Held]:
        """Return what waits for its plan or key to be known."""
        return [Held(*row) for row in self._store.rows("SELECT * FROM waiting ORDER BY id")]

    def batches(self, state: str) -> list[Sealed]:
        """Return the batches in a state."""
        query = "SELECT id, plan_id, round, reports, items FROM batches WHERE state = ? ORDER BY id"
        return [Sealed(*row) for row in self._store.rows(query, (state,))]

    def refusal(self, name: str) -> str:
        """Return why a batch could not leave, or no batch of a plan be made; empty if not so."""
        found = self._store.rows("SELECT why FROM refusals WHERE batch = ?", (name,))
        return str(found[0][0]) if found else ""

    def receipt(self, batch_id: str) -> bytes | None:
        """Return the receipt for a batch, if there is one."""
        found = self._store.rows("SELECT receipt FROM batches WHERE id = ?", (batch_id,))
        return found[0][0] if found else None

    def tick(self) -> int:
        """Return how many ticks have passed in this store."""
        ((tick,),) = self._store.rows("SELECT tick FROM clock")
        return int(tick)

    def counts(self) -> dict[str, Counts]:
        """Return what became of everything, by plan."""
        return self.overview().counts

    def overview(self) -> Overview:
        """Return what became of everything."""
        return _overview(self._store.rows)


@dataclass(frozen=True)
class Overview:
    """What became of all reports and batches, by plan."""

    counts: dict[str, Counts]
    batches: dict[str, Counter[str]]
    """How many are in each state."""
    has_keys: frozenset[str]
    """Plans of which all later parties have shown their keys."""
    shown: frozenset[tuple[str, str]]
    """Plans, each with the identity of a later party that has shown its keys for it."""
    unsent: dict[str, list[Unsent]]
    """Those that are made and not at the next party."""
    stopped: dict[str, str]
    """Why no batch can be made, where that is so."""


class Unsent(NamedTuple):
    """A batch that waits for the receipt of the next party."""

    id: str
    why: str
    """What came of the last offer; empty if there was none."""


NOTHING = Overview({}, {}, frozenset(), frozenset(), {}, {})


def overview_of(path: Path) -> Overview:
    """Return what became of everything, for somebody who is not the owner."""
    with _STATE.looked_at(path) as connection:
        connection.execute("BEGIN")  # All queries see one moment.
        return _overview(lambda query: connection.execute(query).fetchall())


def is_relayed(path: Path, batch_id: str, *, patience: float | None = None) -> bool:
    """Return whether a batch of the hop before was taken, for somebody who is not the owner.

    A change of the owner is waited for, for so many seconds; without them for a minute.
    """
    if not path.exists():
        return False
    with _STATE.looked_at(path, patience=patience) as connection:
        query = "SELECT 1 FROM relayed WHERE id = ?"
        return connection.execute(query, (batch_id,)).fetchone() is not None


def seen_key_lists(path: Path, plan_id: str, *, patience: float | None = None) -> dict[str, bytes]:
    """Return the lists of the later parties of a plan, for somebody who is not the owner.

    A change of the owner is waited for, for so many seconds; without them for a minute.
    """
    if not path.exists():
        return {}
    with _STATE.looked_at(path, patience=patience) as connection:
        query = "SELECT party, content FROM key_lists WHERE plan_id = ?"
        return dict(connection.execute(query, (plan_id,)).fetchall())


def _overview(rows: Callable[[str], list[tuple[Any, ...]]]) -> Overview:
    found: dict[str, Counter[str]] = {}
    for plan_id, name, value in rows(
        "SELECT * FROM counters"
        " UNION ALL SELECT plan_id, 'pooled', SUM(reports) FROM pool GROUP BY plan_id"
        " UNION ALL SELECT plan_id, 'waiting', SUM(counted) FROM waiting GROUP BY plan_id"
    ):
        found.setdefault(plan_id, Counter())[name] += value
    batches: dict[str, Counter[str]] = {}
    for plan_id, state, number in rows(
        "SELECT plan_id, state, COUNT(*) FROM batches GROUP BY plan_id, state"
    ):
        batches.setdefault(plan_id, Counter())[state] = number
    has_keys = frozenset(plan_id for (plan_id,) in rows("SELECT DISTINCT plan_id FROM routes"))
    shown = frozenset((one, who) for one, who in rows("SELECT plan_id, party FROM key_lists"))
    unsent: dict[str, list[Unsent]] = {}
    for plan_id, *one in rows(
        "SELECT plan_id, id, COALESCE(why, '') FROM batches LEFT JOIN refusals ON batch = id"
        " WHERE state = 'sealed' ORDER BY id"
    ):
        unsent.setdefault(plan_id, []).append(Unsent(*one))
    counts = {plan_id: Counts(**one) for plan_id, one in found.items()}
    stopped = dict(
        rows("SELECT batch, why FROM refusals WHERE batch NOT IN (SELECT id FROM batches)")
    )
    return Overview(counts, batches, has_keys, shown, unsent, stopped)


class Change:
    """What can be done inside a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def claim(self, key: int, tags: Sequence[bytes]) -> list[bool]:
        """Return which envelopes are here for the first time, and remember them all.

        Inserting is the test: of two who have a copy of one envelope, only one can insert.
        """
        # A SELECT first would miss a duplicate in the same call: neither would be there yet.
        fresh = [False] * len(tags)
        insert, cursor = "INSERT OR IGNORE INTO tags VALUES (?, ?)", self._connection.cursor()
        # In the order of the table, which touches each of its pages once.
        for place in sorted(range(len(tags)), key=tags.__getitem__):
            fresh[place] = cursor.execute(insert, (key, tags[place])).rowcount == 1
        return fresh

    def forget_tags(self, keys: Iterable[int]) -> None:
        """Remove the tags of keys that were destroyed: what they were for opens no more."""
        self._connection.executemany("DELETE FROM tags WHERE key = ?", [(key,) for key in keys])

    def add_to_pool(self, partition: Partition, reports: int, sizes: bytes, items: bytes) -> None:
        """Let opened reports wait for their crowd."""
        self._connection.execute(
            "INSERT INTO pool SELECT NULL, ?, ?, ?, tick, ?, ?, ? FROM clock",
            (*partition, reports, sizes, items),
        )

    def take_from_pool(self, partition: Partition, reports: int) -> None:
        """Remove the reports of a partition; refuse if they are not so many as are batched."""
        ((found,),) = self._connection.execute(
            "SELECT COALESCE(SUM(reports), 0) FROM pool"
            " WHERE plan_id = ? AND round = ? AND route = ?",
            partition,
        ).fetchall()
        # The batch was written before this transaction. If anything came or went since, it does not
        # hold what is removed here.
        if found != reports:
            raise StorageFault(f"The pool must hold {reports:,} reports. Got {found:,}.")
        self._connection.execute(
            "DELETE FROM pool WHERE plan_id = ? AND round = ? AND route = ?", partition
        )

    def expire(self, most_ticks: int) -> None:
        """Remove and count the reports that have waited for more than so many ticks."""
        # What came in before this tick has waited for longer than that.
        ((last,),) = self._connection.execute("SELECT tick - ? FROM clock", (most_ticks,))
        found = self._connection.execute(
            "SELECT plan_id, SUM(reports) FROM pool WHERE tick < ? GROUP BY plan_id", (last,)
        ).fetchall()
        for plan_id, reports in found:
            self.count(plan_id, {"expired": reports})
        self._connection.execute("DELETE FROM pool WHERE tick < ?", (last,))

    def pass_tick(self) -> None:
        """Let all that waits grow older by one tick."""
        self._connection.execute("UPDATE clock SET tick = tick + 1")

    def count(self, plan_id: str, counted: Mapping[str, int]) -> None:
        """Add to the counters of a plan."""
        self._connection.executemany(
            "INSERT INTO counters VALUES (?, ?, ?)"
            " ON CONFLICT (plan_id, name) DO UPDATE SET value = value + excluded.value",
            [(plan_id, name, value) for name, value in counted.items() if value],
        )

    def finish_segment(self, name: str) -> None:
        """Note that a segment is opened."""
        self._connection.execute("INSERT INTO segments VALUES (?)", (name,))

    def finish_damaged(self, name: str) -> None:
        """Note that what is whole in a damaged segment is taken; its file stays."""
        self._connection.execute("INSERT INTO aside VALUES (?)", (name,))

    def forget_damaged(self, names: Iterable[str]) -> None:
        """Forget damaged segments that their owner has removed."""
        self._connection.executemany("DELETE FROM aside WHERE name = ?", [(one,) for one in names])

    def forget_segments(self, names: Iterable[str]) -> None:
        """Forget segments that are surely gone from the inbox."""
        self._connection.executemany(
            "DELETE FROM segments WHERE name = ?", [(name,) for name in names]
        )

    def hold(self, plan_id: str, number: int, counted: int, reports: bytes) -> None:
        """Keep reports whose plan or key is not known here."""
        self._connection.execute(
            "INSERT INTO waiting VALUES (NULL, ?, ?, ?, ?)", (plan_id, number, counted, reports)
        )

    def unhold(self, held: int) -> None:
        """Stop keeping reports of which something became."""
        self._connection.execute("DELETE FROM waiting WHERE id = ?", (held,))

    def keep_key_list(self, plan_id: str, party: str, content: bytes) -> None:
        """Keep a list of keys in place of the one before."""
        # On a conflict the moment of the route stays as it is: only ``give_out`` moves it.
        self._connection.execute(
            "INSERT INTO key_lists VALUES (?, ?, ?, NULL)"
            " ON CONFLICT (plan_id, party) DO UPDATE SET content = excluded.content",
            (plan_id, party, content),
        )

    def give_out(self, plan_id: str, route: bytes, begun: float | None = None) -> None:
        """Let reports that name these keys be taken from now on, and for ever.

        ``begun`` is when they came in place of others, by the wall clock.
        """
        statement = "INSERT OR IGNORE INTO routes VALUES (?, ?)"
        self._connection.execute(statement, (plan_id, route))
        if begun is not None:
            # A route goes through all parties of a plan, so the moment stands with each of them.
            statement = "UPDATE key_lists SET changed = ? WHERE plan_id = ?"
            self._connection.execute(statement, (begun, plan_id))

    def is_given_out(self, plan_id: str, route: bytes) -> bool:
        """Return whether devices may have been given these keys by this hop."""
        query = "SELECT 1 FROM routes WHERE plan_id = ? AND route = ?"
        return self._connection.execute(query, (plan_id, route)).fetchone() is not None

    def add_batch(self, batch: Sealed) -> None:
        """Note a batch whose file is in the outbox."""
        self._connection.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, 'sealed', NULL)", batch
        )

    def finish_relay(self, batch_id: str) -> None:
        """Note that a batch of the hop before is opened."""
        self._connection.execute("INSERT INTO relayed VALUES (?)", (batch_id,))

    def note_refusal(self, name: str, why: str) -> None:
        """Note why a batch could not leave, or none be made of a plan; the last reason stays."""
        self._connection.execute("INSERT OR REPLACE INTO refusals VALUES (?, ?)", (name, why))

    def forget_refusal(self, name: str) -> None:
        """Forget what was noted of a batch or a plan: it gets on."""
        self._connection.execute("DELETE FROM refusals WHERE batch = ?", (name,))

    def acknowledge(self, batch_id: str, receipt: bytes) -> None:
        """Keep the receipt for a batch."""
        self.forget_refusal(batch_id)
        # Only from sealed: a receipt that comes twice changes nothing.
        self._connection.execute(
            "UPDATE batches SET state = 'acknowledged', receipt = ?"
            " WHERE id = ? AND state = 'sealed'",
            (receipt, batch_id),
        )

    def mark_purged(self, batch_id: str) -> None:
        """Note that the file of an acknowledged batch is gone."""
        self._connection.execute(
            "UPDATE batches SET state = 'purged' WHERE id = ? AND state = 'acknowledged'",
            (batch_id,),
        )
