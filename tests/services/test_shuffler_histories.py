"""Histories of a first hop: anything that can happen, in any order, drawn from a seed.

Reports come, come again, come as junk; the shuffler ticks, hands over, is restarted, and is
killed at any place; the next party loses requests and replies. Whatever happened: when enough
have come at last, each report was counted once, and no batch was below its crowd.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chaffinch.disk.kill_points import PLACES
from chaffinch.shuffling.state import Change
from tests.services.oracle import Collection, Receiver, dies_at, port_of, receiving
from tests.services.test_shuffler import ones, sealed, shuffler

CROWD, STEPS = 5, 30
ROOMS = ("opening", "outbox", "releasing", "forwarding")
KILLS = [place for place in PLACES if place.split(".")[0] in ROOMS]
FAULTS = ["drop-request", "drop-reply", "busy", "forged", "long"]


class History:
    """What happens to one hop."""

    def __init__(self, seed: int, root: Path) -> None:
        self.draw = Random(seed)
        self.collection = Collection.make(root / "keys", crowd=CROWD, numbers=1000)
        self.data = root / "data"
        self.receiver = Receiver(self.collection, self.collection.analyzer)
        self.sent: list[bytes] = []
        self.kills = 0

    def upload(self, count: int) -> None:
        """Let new reports come, with copies of old ones and junk between them."""
        first = len(self.sent)
        new = self.collection.seal(range(first, first + count))
        self.sent += new
        copies = self.draw.choices(self.sent, k=self.draw.randrange(4))
        junk = [one[:-1] + bytes([one[-1] ^ 1]) for one in self.draw.choices(new, k=1)]
        reports = [*new, *copies, *junk]
        self.draw.shuffle(reports)
        cut = self.draw.randrange(len(reports) + 1)
        for part in (reports[:cut], reports[cut:]):
            if part:
                self.collection.write_segment(self.data, part)

    def work(self, *, hand_over: bool) -> None:
        """Let the shuffler start, do everything once, and stop."""
        with shuffler(self.collection, self.data) as hop:
            hop.take()
            hop.tick()
            assert hop.status.adds_up
            for _ in range(400):
                if not hand_over or not sealed(self.data):
                    break
                hop.forward()

    def step(self) -> None:
        """Let one thing happen."""
        happens = self.draw.randrange(6)
        if happens <= 1:
            self.upload(self.draw.randrange(1, CROWD))
        elif happens == 2:
            self.receiver.faults += self.draw.choices(FAULTS, k=self.draw.randrange(1, 4))
        elif happens == 3:
            self.work(hand_over=self.draw.random() < 0.5)
        else:
            # Something to do, or the place is not reached; more than a crowd, now and then.
            self.upload(self.draw.randrange(1, 2 * CROWD))
            place = f"{self.draw.choice(KILLS)}:{self.draw.choice([1, 1, 1, 2])}"
            self.kills += dies_at(place, lambda: self.work(hand_over=True))

    def end(self) -> None:
        """Let a whole crowd come, and the next party recover."""
        self.upload(CROWD)
        self.receiver.faults.clear()
        self.work(hand_over=False)
        while sealed(self.data):
            self.work(hand_over=True)


def check(seed: int, root: Path) -> int:
    """Let a history happen, look at its end, and return how often the shuffler was killed."""
    history = History(seed, root)
    with receiving(history.receiver, port_of(history.collection.plan, "analyzer")):
        for _ in range(STEPS):
            history.step()
        history.end()
    assert history.receiver.histogram == ones(*range(len(history.sent))), f"seed {seed}"
    return history.kills


def test_each_report_counts_once_whatever_happens(tmp_path: Path) -> None:
    kills = sum(check(seed, tmp_path / str(seed)) for seed in range(3))
    assert kills >= 12


@pytest.mark.long
def test_each_report_counts_once_in_many_histories(tmp_path: Path) -> None:
    kills = sum(check(seed, tmp_path / str(seed)) for seed in range(100, 600))
    assert kills >= 2000


def copies_in_one_segment(root: Path) -> None:
    """Let every report come twice in one segment; the crowd must be complete without the copies."""
    history = History(0, root)
    history.sent = history.collection.seal(range(CROWD - 1))
    history.collection.write_segment(history.data, [*history.sent, *history.sent])
    with receiving(history.receiver, port_of(history.collection.plan, "analyzer")):
        history.end()
    assert history.receiver.histogram == ones(*range(len(history.sent)))


def test_copies_in_one_segment_count_once(tmp_path: Path) -> None:
    copies_in_one_segment(tmp_path)


def test_a_claim_that_selects_before_it_inserts_counts_copies_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: of two copies in one segment, neither is there when they are looked for."""
    monkeypatch.setattr(Change, "claim", _looks_first)
    with pytest.raises(AssertionError):
        copies_in_one_segment(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_histories_notice_a_claim_that_selects_before_it_inserts(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Change, "claim", _looks_first)
    with pytest.raises(AssertionError):
        check(seed, tmp_path)


def _looks_first(change: Change, key: int, tags: list[bytes]) -> list[bool]:
    connection = change._connection  # noqa: SLF001 - as the bug would
    query = "SELECT 1 FROM tags WHERE key = ? AND tag = ?"
    fresh = [connection.execute(query, (key, tag)).fetchone() is None for tag in tags]
    connection.executemany("INSERT OR IGNORE INTO tags VALUES (?, ?)", [(key, t) for t in tags])
    return fresh
