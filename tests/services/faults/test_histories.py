"""Any history of all parties: what is acknowledged comes out once, in batches of a crowd.

Uploads, copies, junk, lost messages, crashes in the middle of work, new keys and a clock that is
ten years off come in any order. A history that fails is shrunk to its shortest.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from chaffinch.disk import kill_points
from chaffinch.keys import folder as key_folder
from tests.services.faults.world import Upload, World, sealed_uploads
from tests.services.oracle import Collection

CROWD = 4
NUMBERS = 200
TEN_YEARS = 10 * 365.25 * 86400
_ROOMS = ("opening.", "relaying.", "outbox.", "releasing.", "forwarding.", "analyzer.", "ledger.")
PLACES = [place for place in kill_points.PLACES if place.startswith(_ROOMS)]
"""Where the one thread can crash that works for all parties here."""


class Crash(BaseException):
    """The end of everything that is under way, at one place."""


class _Crashing:
    """Stands where a kill would stand: whoever comes by does not go on."""

    def __init__(self, place: str) -> None:
        self._place = place

    def pass_by(self, place: str) -> None:
        if place == self._place:
            raise Crash


class Histories(RuleBasedStateMachine):
    """All parties, and what was told by them."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(dir=memory()))
        self._patch = pytest.MonkeyPatch()
        self._numbers = iter(range(NUMBERS))
        self._uploads: list[Upload] = []
        self._fillers: list[Upload] = []
        self._known: set[int] = set()
        self._rotations = 0

    @initialize(hops=some.integers(1, 2))
    def start(self, hops: int) -> None:
        root = self._folder / "world"
        self._collection: Collection = World.prepare(root, crowd=CROWD, numbers=NUMBERS, hops=hops)
        self._world = World(root, self._collection.plan).__enter__()

    def _seal(self, name: str, reports: int) -> Upload:
        numbers = [next(self._numbers) for _ in range(reports)]
        (upload,) = sealed_uploads(self._collection, [(name, 1, numbers)])
        return upload

    def _send(self, upload: Upload, times: int = 1) -> None:
        statuses = set(self._world.send(*[upload] * times))
        assert statuses in ({201}, {422}), "a closed key takes nothing more"
        if statuses == {201}:
            self._known.update(upload.numbers)

    @rule(reports=some.integers(1, 3), senders=some.sampled_from([1, 1, 2, 8]))
    def upload(self, reports: int, senders: int) -> None:
        self._uploads.append(self._seal("upload", reports))
        self._send(self._uploads[-1], senders)

    @precondition(lambda self: self._uploads)
    @rule(which=some.integers(0))
    def send_again(self, which: int) -> None:
        self._send(self._uploads[which % len(self._uploads)])

    @precondition(lambda self: self._uploads)
    @rule(which=some.integers(0), place=some.integers(0))
    def send_junk(self, which: int, place: int) -> None:
        """Send a report that somebody has changed behind its head."""
        upload = self._uploads[which % len(self._uploads)]
        length = self._collection.plan.layout.report_length
        junk = bytearray(upload.body[:length])
        junk[7 + place % (length - 7)] ^= 1
        self._world.send(Upload("junk", 1, (), bytes(junk)))
        assert self._world.send(Upload("short", 1, (), bytes(junk[:-1]))) == [400]

    @rule()
    def work(self) -> None:
        self._world.seal()
        self._world.work()
        self._look()

    @rule(faults=some.lists(some.sampled_from(["drop-request", "drop-reply", ""]), max_size=4))
    def lose_messages(self, faults: list[str]) -> None:
        self._world.lose(*faults)

    @rule(place=some.sampled_from(PLACES))
    def crash(self, place: str) -> None:
        self._world.seal()
        self._patch.setattr(kill_points, "_wanted", _Crashing(place))
        try:
            self._world.work()
        except Crash:
            pass
        finally:
            self._patch.setattr(kill_points, "_wanted", None)
        self._restart()

    @rule(years=some.sampled_from([-1.0, 1.0]))
    def set_clock(self, years: float) -> None:
        clock = key_folder._clock  # noqa: SLF001 - where all keys take their time from
        self._patch.setattr(key_folder, "_clock", lambda now: clock(now) + years * TEN_YEARS)
        self._restart()

    @precondition(lambda self: self._rotations < 3)
    @rule(at_once=some.booleans())
    def rotate(self, at_once: bool) -> None:  # noqa: FBT001 - drawn
        # Whoever waits for a crowd with the old keys must find one in the end.
        self._fillers.append(self._seal("filler", CROWD))
        self._rotations += 1
        for keys in (*self._collection.hops, self._collection.analyzer):
            keys.rotate(at_once=at_once)
        self._world.follow_keys()

    def _restart(self) -> None:
        self._world.__exit__(None, None, None)
        self._world.__enter__()

    def _look(self) -> None:
        found = self._world.histogram()
        assert all(times == 1 for times in found.values()), found
        assert found.keys() <= self._known
        self._world.check_law()

    def teardown(self) -> None:
        try:
            if hasattr(self, "_world"):
                self._end()
        finally:
            self._patch.undo()
            shutil.rmtree(self._folder)

    def _end(self) -> None:
        """Let a crowd come for everybody who waits, and look whether all have come out."""
        try:
            self._fillers.append(self._seal("filler", CROWD))
            for filler in self._fillers:
                self._send(filler)
            self.work()
            # Who was sealed for a key that is closed by now may wait for ever, but is not lost.
            counts = self._world.hops[0].overview().counts[self._collection.plan.id]
            missing = self._known - self._world.histogram().keys()
            assert len(missing) == counts.pooled, "acknowledged and lost"
            refused = any(not self._known.issuperset(one.numbers) for one in self._fillers)
            assert refused or not missing, "everybody has a crowd"
        finally:
            self._world.__exit__(None, None, None)


def memory() -> Path | None:
    """Return a folder in memory, where there is one."""
    found = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
    return found if found.is_dir() else None


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=max(10, settings().max_examples // 5), stateful_step_count=15, deadline=None
)
