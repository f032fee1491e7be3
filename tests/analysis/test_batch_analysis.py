"""The analyzer at work: killed anywhere, cheated by a hop, out of budget, on a full disk."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sqlite3
import stat
import time
from collections.abc import Iterable
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import replace
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch.analysis import batch_analysis as analyzer_module
from chaffinch.analysis import paid_releases, survey_analysis
from chaffinch.analysis import received as received_module
from chaffinch.analysis.analyze import analyze
from chaffinch.analysis.batch_analysis import Analyzer, AnalyzerCounts, analyzer_counts
from chaffinch.analysis.open_batches import OpenedBatch, open_batch
from chaffinch.analysis.received import KnownBatch, KnownBatches, Received
from chaffinch.analysis.survey_analysis import SurveyAnalysis
from chaffinch.disk import databases, stores
from chaffinch.errors import RETRYABLE, InvalidInput, StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Charge, Ledger
from chaffinch.privacy import FlippedFilters, Target
from chaffinch.release.surveys import read_release
from chaffinch.wire.arrivals import Arrival, Expected, has_arrived
from chaffinch.wire.messages import Tally
from chaffinch.wire.problems import Kind, Problem
from chaffinch.wire.sealed_batches import HEAD_LENGTH, START_LENGTH, BatchHead
from tests import forks
from tests.analysis.crashing import accepted_names, main, open_analyzer
from tests.analysis.sealed import PEOPLE, Batch, LastHop, decoys, flips
from tests.services.oracle import bad_sector
from tests.tiers import nightly

PLENTY = Target(1000.0, 0.5)
KILLS = (
    "arrival.written",
    "arrival.synced",
    "arrival.named",
    "arrival.stored",
    "analyzer.counted",
    "analyzer.opened",
    "ledger.written",
    "ledger.charged",
    "analyzer.paid",
    "analyzer.released",
)


@pytest.fixture
def hop(tmp_path: Path) -> LastHop:
    """Return a hop whose analyzer has keys and a plan."""
    made = LastHop.of(flips(), tmp_path)
    made.plan.save(tmp_path / "plan.json")
    for name in ("sent", "receipts"):
        (tmp_path / name).mkdir()
    return made


def sent(hop: LastHop, folder: Path, *batches: Batch) -> list[str]:
    for batch in batches:
        hop.put(folder / "sent", batch)
    return [batch.id for batch in batches]


def two_batches(hop: LastHop, folder: Path) -> list[str]:
    """Send three reports for each person in two batches, which share thirty messages."""
    first, second = [*hop.crowd(), *hop.crowd()], hop.crowd()
    mixed = hop.batch([*second, *first[:30]], reports=2 * PEOPLE)
    return sent(hop, folder, hop.batch(first, reports=2 * PEOPLE), mixed)


def with_ledger(folder: Path, cap: Target = PLENTY) -> Ledger:
    return Ledger.create(folder / "ledger", role="analyzer", cap=cap, mark=folder / "mark")


def lives(*pairs: tuple[Path, str], how: str = "careful") -> list[int]:
    """Return how analyzers ended, each in a folder and killed at a place."""
    words = [f"{folder}={place}" for folder, place in pairs]
    done = forks.run(forks.MODULE, "tests.analysis.crashing", how, *words)
    assert done.returncode == 0, done.stderr
    return [int(code) for code in done.stdout.split()]


def copies(folder: Path, count: int) -> list[Path]:
    """Return copies of a folder."""
    made = [folder.parent / f"{folder.name}-{number}" for number in range(count)]
    for one in made:
        shutil.copytree(folder, one)
    return made


def state(folder: Path) -> KnownBatches:
    return KnownBatches(folder / "data" / "state.sqlite")


def counts_of(hop: LastHop, folder: Path) -> AnalyzerCounts:
    return analyzer_counts(folder / "data")[hop.plan.id]


def check_all(hop: LastHop, folder: Path, batches: list[str]) -> dict[str, bytes]:
    """Check that everything was counted once, paid for once and released; return the releases."""
    counts, received = counts_of(hop, folder), state(folder)
    assert (counts.released, counts.waiting, counts.adds_up) == (len(batches), 0, True)
    assert counts.replayed == 30
    tallies = [received.tally(one).counts.tolist() for one in batches]
    assert list(map(sum, zip(*tallies, strict=True))) == [3] * PEOPLE
    assert not list((folder / "data" / "received").iterdir())
    assert sorted(path.name for path in (folder / "receipts").iterdir()) == sorted(batches)
    found = {one: received.release(one) or b"" for one in batches}
    for release in found.values():
        assert read_release(release).plan_id == hop.plan.id
    if (folder / "ledger").exists():
        ledger = Ledger.open(folder / "ledger", mark=folder / "mark")
        kept = [ledger.content_of(entry) for entry in ledger.entries()]
        assert sorted(found.values()) == sorted(content or b"" for content in kept)
    return found


def test_killed_anywhere_everything_is_counted_paid_and_released_once(
    hop: LastHop, tmp_path: Path
) -> None:
    batches = two_batches(hop, tmp_path)
    with_ledger(tmp_path)
    places = [f"{place}:{time}" for place in KILLS for time in (1, 2)]
    folders = copies(tmp_path, len(places))
    ends = lives(*zip(folders, places, strict=True))
    assert ends == [-signal.SIGKILL] * len(places)
    for folder in folders:
        main(folder, 0.95)
        found = check_all(hop, folder, batches)
        main(folder, 0.95)
        assert check_all(hop, folder, batches) == found


@pytest.mark.parametrize("step", [22_000, nightly(11_000)])
def test_a_full_disk_loses_nothing(hop: LastHop, tmp_path: Path, step: int) -> None:
    batches = two_batches(hop, tmp_path)
    with_ledger(tmp_path)
    open_analyzer(tmp_path).close()  # whoever cannot make its state has taken nothing
    limits = range(0, 90_000, step)
    folders = copies(tmp_path, len(limits))
    ends = lives(
        *((folder, f"full:{limit}") for folder, limit in zip(folders, limits, strict=True))
    )
    assert set(ends) == {0, 2}
    assert ends[0] == 2
    for folder in folders:
        main(folder, 0.95)
        check_all(hop, folder, batches)


def level_after_a_kill(hop: LastHop, folder: Path, how: str) -> float:
    """Return the level of a release that was paid for at 95 %, and finished by a later process."""
    (batch,) = sent(hop, folder, hop.batch(hop.crowd()))
    with_ledger(folder)
    assert lives((folder, "ledger.charged"), how=how) == [-signal.SIGKILL]
    main(folder, 0.5)
    received = state(folder)
    release = received.release(batch)
    assert release is not None
    return read_release(release).level


def test_what_was_paid_for_is_what_is_released(hop: LastHop, tmp_path: Path) -> None:
    assert level_after_a_kill(hop, tmp_path, "careful") == 0.95


def test_a_release_outside_the_transaction_of_its_charge_is_caught(
    hop: LastHop, tmp_path: Path
) -> None:
    """The planted fault: one charge, and a release that nobody has paid for in that form."""
    assert level_after_a_kill(hop, tmp_path, "careless") == 0.5


def test_without_a_ledger_the_first_release_stays(hop: LastHop, tmp_path: Path) -> None:
    batches = two_batches(hop, tmp_path)
    main(tmp_path, 0.95)
    found = check_all(hop, tmp_path, batches)
    main(tmp_path, 0.5)
    assert check_all(hop, tmp_path, batches) == found


def test_the_same_tally_makes_the_same_bytes(hop: LastHop, tmp_path: Path) -> None:
    batches = two_batches(hop, tmp_path)
    main(tmp_path, 0.95)
    shutil.move(tmp_path / "data", tmp_path / "before")
    shutil.rmtree(tmp_path / "receipts")
    (tmp_path / "receipts").mkdir()
    first = KnownBatches(tmp_path / "before" / "state.sqlite")
    main(tmp_path, 0.95)
    second = KnownBatches(tmp_path / "data" / "state.sqlite")
    # Which of two batches a copy counts in is decided by which is opened first, so by their ids.
    assert [first.release(one) for one in batches] == [second.release(one) for one in batches]


def test_messages_that_were_left_out_are_noted(hop: LastHop, tmp_path: Path) -> None:
    two_batches(hop, tmp_path)
    main(tmp_path, 0.95)
    received = state(tmp_path)
    notes = [
        note
        for batch in received.all()
        for answer in read_release(received.release(batch.id) or b"").answers
        for note in answer.notes
    ]
    assert sum("30 that were copies" in note for note in notes) == 1
    assert sum("left out" in note for note in notes) == 1, "what is whole has no such note"


def test_junk_is_noted_beside_copies(hop: LastHop, tmp_path: Path) -> None:
    crowd = hop.crowd()
    junk = [bytes(len(crowd[0]))] * 2
    (batch,) = sent(hop, tmp_path, hop.batch([*crowd, crowd[0], *junk], reports=2 * PEOPLE))
    main(tmp_path, 0.95)
    (answer,) = read_release(state(tmp_path).release(batch) or b"").answers
    (note,) = (one for one in answer.notes if "left out" in one)
    assert f"Of {PEOPLE**2 + 3} messages" in note
    assert "1 that were copies" in note
    assert "2 that did not open" in note


def test_a_batch_under_another_name_is_not_opened(hop: LastHop, tmp_path: Path) -> None:
    """Its receipt is for the name under which it was taken."""
    batch = hop.batch(hop.crowd())
    with closing(open_analyzer(tmp_path)) as analyzer:
        hop.put(tmp_path / "data" / "received", Batch("ab" * 32, batch.content))
        stranger = LastHop.of(flips(), tmp_path / "stranger").batch([])
        hop.put(tmp_path / "data" / "received", stranger)
        assert analyzer.step() == 0
        assert analyzer.unreadable.keys() == {"ab" * 32, stranger.id}
        assert analyzer.batches() == []
        assert {name: one.waiting for name, one in analyzer.counts().items()} == {
            hop.plan.id: 1,
            BatchHead.unpack(stranger.content[:HEAD_LENGTH]).plan_id: 1,
        }


def test_copies_do_not_stand_for_reports(hop: LastHop, tmp_path: Path) -> None:
    """A hop that fills a batch with old messages must not have one new report by itself."""
    old = hop.crowd()
    sent(hop, tmp_path, hop.batch(old))
    main(tmp_path, 0.95)
    alone = hop.reports([[5]])
    (lonely,) = sent(hop, tmp_path, hop.batch([*alone, *old[len(alone) :]]))
    main(tmp_path, 0.95)
    received = state(tmp_path)
    known = received.find(lonely)
    assert known is not None
    assert (known.state, known.fresh) == ("short", len(alone))
    assert f"It has {len(alone)} messages that are new here" in known.why
    assert known.why.endswith("stand for reports. It waits for others.")
    assert received.release(lonely) is None
    assert counts_of(hop, tmp_path).adds_up


def with_junk(hop: LastHop, people: Iterable[int], *, number: int = 1) -> Batch:
    """Return a batch in which reports that open nowhere stand for all but some people."""
    real = hop.reports([[code] for code in people], number)
    junk = [secrets.token_bytes(len(real[0])) for _ in range(PEOPLE * hop.plan.slots - len(real))]
    return hop.batch([*real, *junk], round=number)


def test_junk_costs_nobody_a_place_in_a_release(hop: LastHop, tmp_path: Path) -> None:
    """It keeps a batch from being released by itself; with others of its round it is a crowd."""
    ledger = with_ledger(tmp_path)
    first = with_junk(hop, range(5))
    sent(hop, tmp_path, first, with_junk(hop, range(5, 12), number=2))
    main(tmp_path, 0.95)
    assert {one.state for one in state(tmp_path).all()} == {"short"}, "two rounds are no crowd"
    assert not ledger.entries()
    second = with_junk(hop, range(5, 11))
    sent(hop, tmp_path, second)
    main(tmp_path, 0.95)
    assert [one.state for one in state(tmp_path).all()] == ["short"] * 3, "one person is missing"
    third = with_junk(hop, [11])
    sent(hop, tmp_path, third)
    main(tmp_path, 0.95)
    received, counts = state(tmp_path), counts_of(hop, tmp_path)
    assert (counts.joined, counts.short, counts.released, counts.adds_up) == (3, 1, 1, True)
    assert counts.items == 4 * PEOPLE * hop.plan.slots, "each item is counted once"
    (made,) = (one for one in received.all() if one.state == "released")
    assert received.tally(made.id).counts.tolist() == [1] * PEOPLE
    (entry,) = ledger.entries()
    release = read_release(received.release(made.id) or b"")
    assert ledger.content_of(entry) == received.release(made.id)
    assert release.reports == PEOPLE, "nobody has sent the junk"
    assert f"{2 * PEOPLE * hop.plan.slots:,} that did not open" in str(release.answers[0].notes)
    for one in (first, second, third):
        known = received.find(one.id)
        assert known is not None, "whoever sends it again gets a receipt"
        assert (known.state, made.id in known.why) == ("joined", True)
        assert not has_arrived(tmp_path / "data" / "received", one.id)
    main(tmp_path, 0.9)
    assert state(tmp_path).release(made.id) == received.release(made.id)


def test_a_batch_that_claims_many_reports_spoils_no_other(hop: LastHop, tmp_path: Path) -> None:
    """Its maker may say any number; what is there is counted."""
    first = with_junk(hop, range(5))
    head = BatchHead.unpack(first.content[:HEAD_LENGTH])
    items = [
        first.content[at : at + head.item_length]
        for at in range(START_LENGTH, len(first.content), head.item_length)
    ]
    said = 10**12
    sent(hop, tmp_path, hop.batch(items, reports=said), with_junk(hop, range(5, 12)))
    main(tmp_path, 0.95)
    received = state(tmp_path)
    (made,) = (one for one in received.all() if one.state == "released")
    release = read_release(received.release(made.id) or b"")
    assert (made.reports, release.reports) == (PEOPLE, PEOPLE)
    sent(hop, tmp_path, with_junk(hop, range(11)), with_junk(hop, range(1, 12)))
    main(tmp_path, 0.95)
    received = state(tmp_path)
    (other,) = {one.id for one in received.all() if one.state == "released"} - {made.id}
    release = read_release(received.release(other) or b"")
    assert (received.known(other).reports, release.reports) == (22, 22)


def test_parts_of_reports_are_joined_too(hop: LastHop, tmp_path: Path) -> None:
    """The last of them is cut off, and there is no slot to spare."""
    junk = bytes(len(hop.item(0)))
    for spoilt in (1, 2):
        full = hop.reports([list(range(PEOPLE))] * PEOPLE)
        sent(hop, tmp_path, hop.batch([*full[spoilt:], *[junk] * spoilt]))
    main(tmp_path, 0.95)
    (made,) = (one for one in state(tmp_path).all() if one.state == "released")
    assert (made.fresh, made.reports) == (285, 24)


@pytest.mark.parametrize("honest", [PEOPLE - 2, PEOPLE])
def test_whoever_sent_nothing_has_no_part_in_the_estimates(honest: int, tmp_path: Path) -> None:
    """Also where fewer honest users are counted on than reports are waited for."""
    hop = LastHop.of(replace(flips(), users=honest, crowd=honest), tmp_path)
    hop.plan.save(tmp_path / "plan.json")
    for name in ("sent", "receipts"):
        (tmp_path / name).mkdir()
    (batch,) = sent(hop, tmp_path, with_junk(hop, range(honest)))
    main(tmp_path, 0.95)
    received = state(tmp_path)
    release = read_release(received.release(batch) or b"")
    tally = replace(received.tally(batch), absent=PEOPLE - honest)
    assert (release.reports, tally.present, tally.reports) == (honest, honest, PEOPLE)
    whole = Tally(hop.plan.id, honest, tally.counts, tally.name, 1)
    noise: Any = hop.plan.parts[0].protocol.noise(hop.plan.parts[0].question)
    expected = noise.estimate(np.asarray(whole.counts), honest)
    assert [row.estimate for row in release.table()] == pytest.approx(expected.tolist())
    assert tally.digest == received.tally(batch).digest, "what came is what is charged"


def test_the_noise_of_a_batch_that_was_robbed_is_not_made_up_for(tmp_path: Path) -> None:
    """Where the number of messages follows the noise, many answers would pass for noise."""
    hop = LastHop.of(decoys(), tmp_path)
    hop.plan.save(tmp_path / "plan.json")
    for name in ("sent", "receipts"):
        (tmp_path / name).mkdir()
    least = hop.plan.least_items
    assert PEOPLE <= least <= 2 * PEOPLE
    junk = bytes(len(hop.item(0)))
    robbed = [hop.batch([*hop.items([0] * (least - 1)), junk]) for _ in range(3)]
    sent(hop, tmp_path, *robbed)
    main(tmp_path, 0.95)
    assert [one.state for one in state(tmp_path).all()] == ["refused"] * 3
    assert all(one.why.endswith("stand for reports.") for one in state(tmp_path).all())


def test_killed_after_batches_were_joined_they_are_released_once(
    hop: LastHop, tmp_path: Path
) -> None:
    ledger = with_ledger(tmp_path)
    sent(hop, tmp_path, with_junk(hop, range(5)), with_junk(hop, range(5, 12)))
    places = ("analyzer.joined", "ledger.charged", "analyzer.paid", "analyzer.released", "")
    codes = lives(*((tmp_path, place) for place in places))
    assert codes == [-signal.SIGKILL] * 4 + [0]
    counts = counts_of(hop, tmp_path)
    assert (counts.joined, counts.released, counts.adds_up) == (2, 1, True)
    assert len(ledger.entries()) == 1


def test_a_state_of_before_is_brought_up_to_date(hop: LastHop, tmp_path: Path) -> None:
    """Version 1 knew no batches that wait for others; what it has refused stays refused."""
    kind = received_module._STATE  # noqa: SLF001
    before = replace(kind, steps=kind.steps[:1])
    (tmp_path / "data").mkdir()
    with closing(before.open(tmp_path / "data" / "state.sqlite")) as store:
        facts = (hop.plan.id, 1, 12, 5, 1, 1, 1, 2)
        for name, verdict, release in (
            ("aa", "refused", None),
            ("bb", "released", b"bytes"),
            ("cc", "opened", None),
        ):
            with store.changing() as connection:
                connection.execute(
                    "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'why', 12, x'', ?)",
                    (name * 32, *facts, verdict, release),
                )
                connection.execute("INSERT INTO tags VALUES (3, ?)", (name.encode() * 8,))
    shown = state(tmp_path)
    with pytest.raises(StorageFault, match="older format"):
        shown.all()
    with closing(Received(tmp_path / "data" / "state.sqlite")) as received:
        assert {one.id[:2]: one.state for one in received.all()} == {
            "aa": "refused",
            "bb": "released",
            "cc": "opened",
        }
        assert received.release("bb" * 32) == b"bytes"
        for name in ("aa", "bb"):
            with pytest.raises(StorageFault):
                received.decide(name * 32, "short")
        received.decide("cc" * 32, "short")
        assert fates_of(shown, "cc" * 32) == (1, 1, 1, 2)
        (tags,) = received._rows("SELECT count(*) FROM tags")  # noqa: SLF001
        assert tags == (3,)


def fates_of(received: KnownBatches, batch_id: str) -> tuple[int, int, int, int]:
    known = received.known(batch_id)
    return known.counted, known.dummies, known.replayed, known.rejected


def test_a_spent_budget_releases_nothing_and_keeps_the_batch(hop: LastHop, tmp_path: Path) -> None:
    (batch,) = sent(hop, tmp_path, hop.batch(hop.crowd()))
    with_ledger(tmp_path, Target(0.1, 1e-9))
    main(tmp_path, 0.95)
    received = state(tmp_path)
    known = received.find(batch)
    assert known is not None
    assert known.state == "unpaid"
    assert "epsilon" in known.why
    assert received.release(batch) is None
    assert [path.stem for path in (tmp_path / "data" / "received").iterdir()] == [batch]
    assert counts_of(hop, tmp_path).unpaid == 1
    # Another ledger has room: nothing has to be sent again.
    for name in ("ledger", "mark"):
        (tmp_path / name).unlink()
    ledger = with_ledger(tmp_path)
    main(tmp_path, 0.95)
    (entry,) = ledger.entries()
    assert ledger.content_of(entry) == received.release(batch) is not None


def test_who_reads_the_ledger_for_long_ends_no_analyzer(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it charges is asked for again, and is charged once."""
    monkeypatch.setattr(databases, "_PATIENCE", 0.1)
    ledger = with_ledger(tmp_path)
    with closing(open_analyzer(tmp_path)) as analyzer:
        hop.put(tmp_path / "data" / "received", hop.batch(hop.crowd()))
        with closing(sqlite3.connect(tmp_path / "ledger", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM charges").fetchall()
            for _ in range(2):
                with pytest.raises(StorageFault) as caught:
                    analyzer.step()
                assert caught.value.reason in RETRYABLE
        analyzer.step()
        assert [one.state for one in analyzer.batches()] == ["released"]
        assert len(ledger.entries()) == 1


def test_a_ledger_of_another_kind_releases_nothing_and_stops_nobody(
    hop: LastHop, tmp_path: Path
) -> None:
    """Losses per column do not compose with losses per person: such a ledger never pays here."""
    (batch,) = sent(hop, tmp_path, hop.batch(hop.crowd()))
    columns = FlippedFilters(filters=2, bits=10_000, flip_probability="0.3")
    with_ledger(tmp_path).charge(Charge("reach", columns), "reach", subject="s")
    main(tmp_path, 0.95)
    known = state(tmp_path).find(batch)
    assert known is not None
    assert known.state == "unpaid"
    assert "of one kind" in known.why


def test_a_plan_of_another_analyzer_is_refused(hop: LastHop, tmp_path: Path) -> None:
    stranger = LastHop.of(flips(), tmp_path / "stranger")
    with pytest.raises(InvalidInput, match="analyzer"):
        Analyzer(tmp_path / "data", hop.keys, [SurveyAnalysis(stranger.plan)])
    with pytest.raises(InvalidInput, match="parties"):
        Analyzer(tmp_path / "data", hop.keys, [SurveyAnalysis(flips())])


def test_a_damaged_file_waits_and_is_told(hop: LastHop, tmp_path: Path) -> None:
    batch = hop.batch(hop.crowd())
    analyzer = open_analyzer(tmp_path)
    content = bytearray(batch.content)
    content[500] ^= 1
    path = hop.put(tmp_path / "data" / "received", Batch(batch.id, bytes(content)))
    assert analyzer.step() == 0
    assert analyzer.unreadable.keys() == {batch.id}
    assert analyzer.counts()[hop.plan.id].waiting == 1
    assert analyzer.needs_key(hop.key_id)
    assert not analyzer.needs_key(hop.key_id + 1)
    path.write_bytes(b"\0" + batch.content[1:])
    assert analyzer.step() == 0
    assert analyzer.needs_key(hop.key_id + 1), "nobody knows which key it was sealed for"
    path.write_bytes(batch.content)
    assert analyzer.step() == 2
    assert not analyzer.unreadable
    assert not analyzer.needs_key(hop.key_id)
    analyzer.close()


@pytest.mark.parametrize("place", [0, 700])
def test_a_file_that_the_disk_does_not_give_stops_nothing(
    hop: LastHop, tmp_path: Path, place: int
) -> None:
    analyzer, folder = open_analyzer(tmp_path), tmp_path / "data" / "received"
    path, _ = (hop.put(folder, hop.batch(hop.crowd())) for _ in range(2))
    with bad_sector(path, place):
        assert analyzer.step() == 2, "the other is opened and released"
        assert analyzer.unreadable.keys() == {path.stem}
    analyzer.close()


def test_others_read_while_a_batch_is_counted(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at releases, or asks for a receipt, waits for no batch."""
    found: list[list[KnownBatch]] = []

    def ask(name: str) -> None:
        if name == "analyzer.counted":
            found.append(KnownBatches(tmp_path / "data" / "state.sqlite").all())

    monkeypatch.setattr(databases, "_PATIENCE", 0.1)
    # The tags of these few items are then as large for it as those of a real batch are.
    monkeypatch.setattr(stores, "_PRAGMAS", ("PRAGMA cache_size = 10",))
    monkeypatch.setattr(received_module, "kill_point", ask)
    items = [item for _ in range(20) for item in hop.crowd()]
    hop.put(tmp_path / "data" / "received", hop.batch(items, reports=20 * PEOPLE))
    with closing(open_analyzer(tmp_path)) as analyzer:
        assert analyzer.step()
    assert found == [[]]


def test_a_damaged_file_is_read_again_when_it_has_changed_or_the_keys_have(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at all of a large batch, many times a minute, would leave no time for others."""
    read: list[Path] = []

    def counting(path: Path, *given: Any) -> OpenedBatch:
        read.append(path)
        return open_batch(path, *given)

    monkeypatch.setattr(survey_analysis, "open_batch", counting)
    monkeypatch.setattr(analyzer_module, "_SETTLED", 10**8)
    batch = hop.batch(hop.crowd())
    analyzer = open_analyzer(tmp_path)
    damaged = batch.content[:-1] + bytes([batch.content[-1] ^ 1])
    path = hop.put(tmp_path / "data" / "received", Batch(batch.id, damaged))
    before = path.stat()
    time.sleep(0.2)
    for _ in range(3):
        assert analyzer.step() == 0
        assert analyzer.unreadable.keys() == {batch.id}
    assert len(read) == 1
    KeyFolder.open(hop.keys.path).rotate(at_once=True)
    assert analyzer.step() == 0
    assert len(read) == 2
    path.write_bytes(batch.content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert analyzer.step() == 2, "the same length and time, as a copy that was restored has them"
    analyzer.close()


def test_a_closed_key_goes_with_its_tags_when_nothing_needs_it(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = partialmethod(KeyFolder.destroy_closed, grace_seconds=0.0)
    monkeypatch.setattr(KeyFolder, "destroy_closed", at_once)
    old, waiting = hop.key_id, hop.batch(hop.crowd())
    sent(hop, tmp_path, hop.batch(hop.crowd()))
    main(tmp_path, 0.95)
    path = hop.put(tmp_path / "data" / "received", Batch(waiting.id, waiting.content[:-1]))
    hop.keys.rotate(at_once=True)
    hop.keys.close(old)

    def key_and_tags() -> tuple[str, int]:
        main(tmp_path, 0.95)
        (state,) = (
            str(one.state) for one in KeyFolder.open(hop.keys.path).entries if one.id == old
        )
        with closing(sqlite3.connect(tmp_path / "data" / "state.sqlite")) as connection:
            return state, connection.execute("SELECT COUNT(*) FROM tags").fetchone()[0]

    assert key_and_tags() == ("closed", PEOPLE**2)
    path.write_bytes(waiting.content)
    assert key_and_tags() == ("destroyed", 0)
    assert counts_of(hop, tmp_path).released == 2


def test_a_key_stays_for_a_batch_that_has_no_name_yet(hop: LastHop, tmp_path: Path) -> None:
    """Its key was good when it was checked, and the disk takes as long as it likes."""
    batch, expected = hop.batch(hop.crowd()), Expected.of(hop.plan, 1)
    with closing(open_analyzer(tmp_path)) as analyzer:
        inbox = tmp_path / "data" / "received"
        with Arrival(inbox, batch.id, expected, lambda: {hop.key_name}) as arrival:
            arrival.write(batch.content[:HEAD_LENGTH])
            assert not analyzer.needs_key(hop.key_id), "nothing was checked yet"
            arrival.write(batch.content[HEAD_LENGTH:])
            assert analyzer.needs_key(hop.key_id)
            assert not analyzer.needs_key(hop.key_id + 1)
        assert not analyzer.needs_key(hop.key_id), "it did not come"


@pytest.mark.parametrize("place", [46, 60])
def test_a_key_stays_for_a_batch_whose_key_is_damaged(
    hop: LastHop, tmp_path: Path, place: int
) -> None:
    """A copy of the file may be put back, and is for the key that it always was for."""
    batch = hop.batch(hop.crowd())
    changed = bytearray(batch.content)
    changed[place] ^= 1
    with closing(open_analyzer(tmp_path)) as analyzer:
        path = hop.put(tmp_path / "data" / "received", Batch(batch.id, bytes(changed)))
        assert BatchHead.unpack(bytes(changed[:HEAD_LENGTH])).key_name != hop.key_name
        assert analyzer.step() == 0
        assert analyzer.needs_key(hop.key_id)
        path.write_bytes(batch.content)
        assert analyzer.step() == 2


@pytest.mark.parametrize("fault", [ValueError("private"), InvalidInput("it", "so", "not")])
def test_a_batch_that_nobody_can_release_stops_no_other(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Anybody has a part in what is in a batch. It is tried again at the next start."""
    first, second = sorted([hop.batch(hop.crowd()), hop.batch(hop.crowd())], key=lambda one: one.id)

    def failing(tally: Any, *given: Any, **more: Any) -> Any:
        if tally.name == first.id[:32]:
            raise fault
        return analyze(tally, *given, **more)

    with closing(open_analyzer(tmp_path)) as analyzer:
        for one in (first, second):
            hop.put(tmp_path / "data" / "received", one)
        with monkeypatch.context() as patched:
            patched.setattr(paid_releases, "analyze", failing)
            analyzer.step()
            analyzer.step()
        assert [one.state for one in analyzer.batches()] == ["opened", "released"]
        assert analyzer.unreadable.keys() == {first.id}
        said = analyzer.unreadable[first.id]
        assert "tried again at the next start" in said
        assert "private" not in said
    with closing(open_analyzer(tmp_path)) as analyzer:
        analyzer.step()
        assert [one.state for one in analyzer.batches()] == ["released"] * 2


def test_a_batch_that_nobody_can_open_stops_no_other(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted([hop.batch(hop.crowd()), hop.batch(hop.crowd())], key=lambda one: one.id)

    def failing(path: Path, *given: Any) -> OpenedBatch:
        if path.stem == first.id:
            raise ZeroDivisionError
        return open_batch(path, *given)

    monkeypatch.setattr(survey_analysis, "open_batch", failing)
    with closing(open_analyzer(tmp_path)) as analyzer:
        for one in (first, second):
            hop.put(tmp_path / "data" / "received", one)
        analyzer.step()
        assert [one.id for one in analyzer.batches()] == [second.id]
        assert "ZeroDivisionError" in analyzer.unreadable[first.id]
        assert analyzer.needs_key(hop.key_id)


def test_a_pool_that_is_broken_is_no_fault_of_a_batch(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays broken: only another process has another one."""

    def broken(*_: object) -> OpenedBatch:
        raise BrokenProcessPool

    monkeypatch.setattr(survey_analysis, "open_batch", broken)
    with closing(open_analyzer(tmp_path)) as analyzer:
        hop.put(tmp_path / "data" / "received", hop.batch(hop.crowd()))
        with pytest.raises(BrokenProcessPool):
            analyzer.step()


@pytest.mark.parametrize("syncing", [False, True])
def test_a_batch_whose_key_is_closed_on_its_way_is_refused(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, syncing: bool
) -> None:
    """Also while it is synced, which can take longer than a closed key stays."""
    batch = hop.batch(hop.crowd())
    accepted = {hop.key_name}
    inbox = tmp_path / "received"
    inbox.mkdir()
    expected = Expected.of(hop.plan, hop.plan.layout.hops)
    with Arrival(inbox, batch.id, expected, lambda: accepted) as arrival:
        arrival.write(batch.content)
        if syncing:
            monkeypatch.setattr(os, "fsync", lambda _: accepted.clear())
        else:
            accepted.clear()
        with pytest.raises(Problem) as caught:
            arrival.finish()
    assert caught.value.kind is Kind.OUTDATED_KEYS
    assert not list(inbox.iterdir())


def take(hop: LastHop, folder: Path, batch: Batch) -> None:
    expected = Expected.of(hop.plan, hop.plan.layout.hops)
    inbox = folder / "data" / "received"
    inbox.mkdir(parents=True, exist_ok=True)
    with Arrival(inbox, batch.id, expected, partial(accepted_names, hop.keys)) as arrival:
        arrival.write(batch.content)
        arrival.finish()


BAD: dict[str, tuple[dict[str, object], Kind]] = {
    "another plan": ({"plan_id": "00" * 32}, Kind.INVALID_MESSAGE),
    "another round": ({"round": 3}, Kind.INVALID_MESSAGE),
    "another hop": ({"hop": 2}, Kind.INVALID_MESSAGE),
    "too small": ({"reports": PEOPLE - 1}, Kind.BATCH_TOO_SMALL),
    "another key": ({"route": b"\x63" + bytes(31)}, Kind.OUTDATED_KEYS),
}


def test_a_batch_is_synced_before_it_has_its_name_and_its_name_before_anybody_is_told(
    hop: LastHop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill cannot show this order, only a power cut could."""
    done: list[str] = []
    inbox, fsync, link = tmp_path / "data" / "received", os.fsync, os.link

    def synced(number: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(number).st_mode)
        done.append("folder" if is_folder else "file")
        fsync(number)

    def named(*paths: str) -> None:
        done.append("name")
        link(*paths)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "link", named)
    batch = hop.batch(hop.crowd())
    take(hop, tmp_path, batch)
    assert done == ["file", "name", "folder"]
    # Whoever finds the file of a process that died in between syncs the folder first.
    assert has_arrived(inbox, batch.id)
    assert done[3:] == ["folder"]


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_due_is_refused_before_it_is_stored(
    hop: LastHop, tmp_path: Path, name: str
) -> None:
    said, kind = BAD[name]
    with pytest.raises(Problem) as caught:
        take(hop, tmp_path, hop.batch(hop.crowd(), **said))
    assert caught.value.kind is kind
    assert not list((tmp_path / "data" / "received").iterdir())


def test_what_is_not_as_it_was_signed_is_refused(hop: LastHop, tmp_path: Path) -> None:
    batch = hop.batch(hop.crowd())
    stranger = replace(hop, identity=LastHop.of(flips(), tmp_path / "stranger").identity)
    forged = stranger.batch(hop.crowd())
    bad = [batch.content[:place] for place in range(0, len(batch.content), 801)]
    bad += [batch.content + b"\0", batch.content[:-1] + bytes([batch.content[-1] ^ 1])]
    for content in bad:
        with pytest.raises(Problem) as caught:
            take(hop, tmp_path, Batch(batch.id, content))
        assert caught.value.kind in (Kind.DAMAGED_BATCH, Kind.INVALID_MESSAGE)
    for one in (forged, Batch("ab" * 32, batch.content)):
        with pytest.raises(Problem) as caught:
            take(hop, tmp_path, one)
        assert caught.value.kind is Kind.DAMAGED_BATCH
    assert not list((tmp_path / "data" / "received").iterdir())


def test_a_batch_is_taken_again_and_again(hop: LastHop, tmp_path: Path) -> None:
    analyzer = open_analyzer(tmp_path)
    batch = hop.batch(hop.crowd())
    for _ in range(3):
        take(hop, tmp_path, batch)
    analyzer.step()
    take(hop, tmp_path, batch)
    analyzer.step()
    assert analyzer.counts() == {
        hop.plan.id: AnalyzerCounts(
            released=1, items=PEOPLE**2, counted=PEOPLE, dummies=PEOPLE * (PEOPLE - 1)
        )
    }
    analyzer.close()
    assert not list((tmp_path / "data" / "received").iterdir())


def test_with_nothing_to_do_it_does_not_read_all_batches_again(
    hop: LastHop, tmp_path: Path
) -> None:
    """It looks twice a second, for years: an empty look must not cost more with every batch."""
    folder = tmp_path / "data"
    hop.put(folder / "received", hop.batch(hop.crowd()))
    with closing(open_analyzer(tmp_path)) as analyzer:
        assert analyzer.step() == 2
        asked: list[str] = []
        analyzer._received._store._connection.set_trace_callback(asked.append)  # noqa: SLF001
        assert analyzer.step() == 0
        assert analyzer.counts()[hop.plan.id].released == 1
    assert len([one for one in asked if "FROM batches" in one]) <= 1
