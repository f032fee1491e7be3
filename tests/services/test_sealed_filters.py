"""Filters of publishers travel sealed: each once, all together or none, to one release."""

from __future__ import annotations

import errno
import http.client
import json
from pathlib import Path

import pytest
import urllib3

from chaffinch.analysis.received import KnownBatches
from chaffinch.cli import main
from chaffinch.errors import ClusterFault, InvalidInput, NotDelivered, PlanMismatch
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Ledger
from chaffinch.privacy import Target
from chaffinch.reach import analyze, load_columns
from chaffinch.reach.publisher import sending
from chaffinch.reach.publisher.sending import send_filter
from chaffinch.reach.release import read_release as read_reach_release
from chaffinch.reach.shuffler.filter_work import FilterRelay
from chaffinch.shuffling.open_envelopes import SegmentOpener
from chaffinch.wire import media_types
from chaffinch.wire.exchange import Pauses
from chaffinch.wire.filter_files import columns_from
from chaffinch.wire.problems import problem_word
from chaffinch.wire.sealed_filters import START_LENGTH, seal_filter
from chaffinch.wire.signatures import sign
from tests.reach import publishing
from tests.services.campaign import NAMES, Campaign
from tests.services.commands import waited
from tests.services.oracle import dies_at

SHUFFLING = [
    "filters.shuffled",
    "outbox.written",
    "outbox.named",
    "filters.written",
    "filters.committed",
    "filters.purged",
    "forwarding.replied",
    "forwarding.removed",
]
ARRIVING = ["arrival.written", "arrival.synced", "arrival.named", "arrival.stored"]
RELEASING = ["analyzer.counted", "analyzer.opened", "ledger.charged", "analyzer.paid"]

HOP = """
plans = ["plan.json"]
keys = "hop-keys"
data = "hop"
[collector]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
[shuffler]
admin = "127.0.0.1:0"
"""


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_PAUSE", 0.001)


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return Campaign.make(tmp_path / "campaign")


def send(campaign: Campaign, *names: str) -> list[bool]:
    """Send filters; return for each whether it was new."""
    return [
        send_filter(campaign.filter(name), campaign.plan, campaign.keys[name], patience=5).new
        for name in names
    ]


def put(campaign: Campaign, name: str, content: bytes) -> tuple[int, str | None]:
    """Send any bytes under the name of a publisher; return status and problem."""
    url = campaign.plan.named_parties.hops[0].url(
        "v1", "plans", campaign.plan.id, "filters", campaign.keys[name].identity_hex
    )
    headers = {"content-type": media_types.FILTER}
    reply = urllib3.request("PUT", url, body=content, headers=headers, retries=False, timeout=10)
    return reply.status, problem_word(reply.data)


def sealed(campaign: Campaign, name: str, *, signed_by: str | None = None) -> bytes:
    """Return the sealed filter of a publisher, with fresh noise."""
    (stored,) = campaign.keys["hop"].opening_keys().values()
    identity = campaign.keys[signed_by or name].identity
    content = campaign.encode(name).content()
    return seal_filter(content, campaign.plan.layout, stored.key.sealing, identity)


def handed_over(campaign: Campaign) -> dict[str, object]:
    """Return what the shuffler has kept of its hand-over."""
    (path,) = (campaign.folder / "hop" / "handed-over").glob("*.record")
    found: dict[str, object] = json.loads(path.read_bytes())["columns"]
    return found


def left_in(folder: Path, name: str) -> list[int]:
    """Return the sizes of the files in a folder of the shuffler."""
    return sorted(path.stat().st_size for path in (folder / "hop" / name).glob("*.[bf]*"))


def test_three_publishers_and_one_release(campaign: Campaign, tmp_path: Path) -> None:
    mark = tmp_path / "ledger.mark"
    ledger = Ledger.create(
        tmp_path / "ledger.db", mark=mark, role="analyzer", cap=Target(epsilon=40, delta=0.01)
    )
    with campaign.fronts():
        assert send(campaign, "daily", "radio") == [True, True]
        with campaign.shuffler() as hop:
            for _ in range(20):
                hop.take()
                hop.forward()
            hop.tick()
            assert hop.status.batches["sealed"] == 0, "one is missing, so nothing leaves"
        assert not (campaign.folder / "hop" / "handed-over").exists()
        assert send(campaign, "shop", "daily") == [True, False]
        campaign.shuffle()
        (batch,) = campaign.analyze(ledger)
        assert (batch.state, batch.reports, batch.items) == ("released", 3, 1)
        analyzer = campaign.plan.named_parties.analyzer
        url = analyzer.url("v1", "plans", campaign.plan.id, "releases", batch.id)
        content = urllib3.request("GET", url, timeout=10).data
        page = urllib3.request("GET", f"{url}.html", timeout=10)
        assert (page.status, b"campaign" in page.data) == (200, True)
        # Publishers who lost the answer hear it again; nobody can send anything else.
        assert send(campaign, *NAMES) == [False] * 3
        assert put(campaign, "radio", sealed(campaign, "radio")) == (409, "anotherFilter")
    # The same numbers as by files: the release of the very columns that the shuffler has kept.
    release = read_reach_release(content)
    columns = columns_from(
        KnownBatches(campaign.folder / "analyzer" / "state.sqlite").content(batch.id)
    )
    assert {key: columns.body()[key] for key in handed_over(campaign)} == handed_over(campaign)
    columns.save(tmp_path / "by-file.columns")
    assert analyze(load_columns(tmp_path / "by-file.columns"), campaign.plan) == release
    assert abs(release.reach.estimate - 1000) < 6 * release.reach.standard_error
    (entry,) = ledger.entries()
    assert (entry.key, entry.subject) == (release.key, release.batch)
    assert left_in(campaign.folder, "filters") == [32] * 3
    assert left_in(campaign.folder, "outbox") == []


def test_a_second_filter_of_a_publisher_is_refused(campaign: Campaign) -> None:
    with campaign.fronts():
        send(campaign, "daily")
        campaign.encode("daily").save(campaign.filter("daily"))
        with pytest.raises(InvalidInput, match="another one"):
            send(campaign, "daily")
        assert put(campaign, "daily", sealed(campaign, "daily")) == (409, "anotherFilter")


def test_what_nobody_of_the_plan_has_signed_is_refused(campaign: Campaign) -> None:
    content = sealed(campaign, "daily")
    with campaign.fronts():
        for place in (0, 31, 32, 95, 96, 100, len(content) // 2, -1):
            changed = bytearray(content)
            changed[place] ^= 1
            assert put(campaign, "daily", bytes(changed)) == (422, "damagedFilter"), place
        assert put(campaign, "radio", content) == (422, "damagedFilter")
        for wrong in (content[:-1], content + b"\0", b"", content[:100]):
            status, word = put(campaign, "daily", wrong)
            assert (status, word) in {(400, "invalidMessage"), (413, "tooLarge")}
        forged = sealed(campaign, "daily", signed_by="hop")
        assert put(campaign, "daily", forged) == (422, "damagedFilter")
        digest, envelope = content[:32], content[START_LENGTH:]
        signed = bytes.fromhex(campaign.plan.id) + digest
        other = sign(campaign.keys["daily"].identity, b"chaffinch batch", signed)
        other = digest + other + envelope
        assert put(campaign, "daily", other) == (422, "damagedFilter")
        assert put(campaign, "hop", content)[0] == 404, "the shuffler is no publisher"
        assert left_in(campaign.folder, "filters") == []
        assert put(campaign, "daily", content)[0] == 201


def test_a_stranger_holds_no_place_for_filters(campaign: Campaign) -> None:
    """It knows who publishes, and sends a byte now and then; there are four places."""
    content, party = sealed(campaign, "daily"), campaign.plan.named_parties.hops[0]
    filters = campaign.folder / "hop" / "filters"
    publisher = campaign.keys["daily"].identity_hex
    connections = []
    with campaign.fronts():
        for start in (content[:95], b"", *[bytes(96)] * 5):
            connection = http.client.HTTPConnection(party.address.removeprefix("http://"))
            connection.putrequest("PUT", f"/v1/plans/{campaign.plan.id}/filters/{publisher}")
            connection.putheader("content-type", media_types.FILTER)
            connection.putheader("content-length", str(len(content)))
            connection.endheaders(start)
            connections.append(connection)
        refused = [one.getresponse() for one in connections[2:]]
        assert {problem_word(one.read()) for one in refused} == {"damagedFilter"}
        assert not list(filters.iterdir()), "nothing of what has not proven itself is kept"
        assert put(campaign, "daily", content)[0] == 201
        for connection in connections:
            connection.close()


def test_a_publisher_holds_no_place_of_another(campaign: Campaign) -> None:
    """It has signed what it sends, and sends it slowly, on as many connections as it likes."""
    content, other = sealed(campaign, "daily"), sealed(campaign, "radio")
    party = campaign.plan.named_parties.hops[0]
    publisher = campaign.keys["daily"].identity_hex
    connections = []
    with campaign.fronts():
        for _ in range(8):
            connection = http.client.HTTPConnection(party.address.removeprefix("http://"))
            connection.putrequest("PUT", f"/v1/plans/{campaign.plan.id}/filters/{publisher}")
            connection.putheader("content-type", media_types.FILTER)
            connection.putheader("content-length", str(len(content)))
            connection.endheaders(content[: START_LENGTH + 50])
            connections.append(connection)
        waited(lambda: any((campaign.folder / "hop" / "filters").glob(".*")))
        daily, radio = put(campaign, "daily", content), put(campaign, "radio", other)
        for connection in connections:
            connection.close()
        assert (daily, radio[0]) == ((503, "overloaded"), 201)
        waited(lambda: put(campaign, "daily", content)[0] == 201)


def test_who_signs_for_the_filter_of_another_stops_the_reach(campaign: Campaign) -> None:
    """Nobody else can use the envelope of a publisher; what it holds is never looked at twice."""
    with campaign.fronts():
        send(campaign, "daily", "radio")
        assert put(campaign, "shop", sealed(campaign, "daily", signed_by="shop"))[0] == 201
        with campaign.shuffler() as hop:
            while not hop.held:
                hop.take()
                hop.forward()
            hop.tick()
            assert "another publisher" in hop.held[campaign.plan.id]
            assert hop.status.batches["sealed"] == 0
    assert not (campaign.folder / "hop" / "handed-over").exists()


@pytest.mark.parametrize("damage", ["unreadable", "record"])
def test_a_filter_that_cannot_be_used_stops_its_reach_alone(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """Other plans of the same hop go on, and no key is destroyed that it may need."""
    with campaign.fronts():
        send(campaign, *NAMES)
    read = Path.read_bytes

    def failing(path: Path) -> bytes:
        if path.suffix == ".filter":
            raise OSError(errno.EIO, "")
        return read(path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with campaign.shuffler() as hop:
        keys = campaign.keys["analyzer"].key_list(campaign.plan.id)
        hop.later_keys.take(campaign.plan.id, campaign.plan.named_parties.analyzer, keys)
        if damage == "unreadable":
            monkeypatch.setattr(Path, "read_bytes", failing)
        else:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(FilterRelay, "_hand_over", killed)
                with pytest.raises(KeyboardInterrupt):
                    hop.take()
            (record,) = (campaign.folder / "hop" / "handed-over").glob("*.record")
            record.write_bytes(record.read_bytes()[:-5])
        hop.take()
        hop.tick()
        assert campaign.plan.id in hop.held
        assert hop.status.batches["sealed"] == 0


def test_status_says_whose_filters_are_missing_and_what_stops_the_reach(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    config = campaign.folder / "hop.toml"
    config.write_text(HOP)

    def status() -> str:
        assert main(["status", "--config", str(config)]) == 1, "the analyzer has shown no keys"
        return " ".join(capsys.readouterr().out.split())

    with campaign.fronts():
        assert "Filters: daily, radio, shop are missing." in status()
        send(campaign, "daily", "radio")
        said = status()
        assert "Filters: daily, radio have come; shop is missing." in said
        assert "durable adds up 2" in said
        assert "pool." not in said
        assert put(campaign, "shop", sealed(campaign, "daily", signed_by="shop"))[0] == 201
        with campaign.shuffler() as hop:
            while not hop.held:
                hop.take()
                hop.forward()
    said = status()
    assert "Filters: daily, radio, shop have come." in said
    assert (
        f"Problem: plan {campaign.plan.id[:16]} stops: The filter of shop must be its own" in said
    )


def test_a_publisher_sends_nothing_that_could_not_be_used(campaign: Campaign) -> None:
    with pytest.raises(InvalidInput, match="that of radio"):
        send_filter(campaign.filter("daily"), campaign.plan, campaign.keys["radio"])
    with pytest.raises(InvalidInput, match="publisher of the plan"):
        send_filter(campaign.filter("daily"), campaign.plan, campaign.keys["hop"])
    other = publishing.small_plan(NAMES, shuffled=campaign.plan.flip_probability)
    with pytest.raises(InvalidInput, match="names the parties"):
        send_filter(campaign.filter("daily"), other, campaign.keys["daily"])
    other = publishing.small_plan(NAMES, shuffled=campaign.plan.flip_probability, title="b")
    other = other.run_by(campaign.plan.named_parties)
    with pytest.raises(PlanMismatch):
        send_filter(campaign.filter("daily"), other, campaign.keys["daily"])
    with pytest.raises(NotDelivered, match="hop") as told:
        send_filter(campaign.filter("daily"), campaign.plan, campaign.keys["daily"], patience=0)
    assert "`chaffinch reach send` with the same filter" in str(told.value.hint)
    assert "the filter of daily is still to be sent" in str(told.value.hint)
    assert "outbox" not in str(told.value.hint)


def test_a_key_stays_as_long_as_a_filter_needs_it(campaign: Campaign) -> None:
    keys = campaign.keys["hop"]
    (old,) = keys.opening_keys()
    with campaign.fronts():
        send(campaign, "daily")
        late = sealed(campaign, "radio")
        keys.rotate(at_once=True)
        keys.close(old)
    with campaign.fronts():
        assert put(campaign, "radio", late) == (422, "outdatedKeys")
        # The same filter, sealed for the key of before: it is sealed again for the new one.
        kept = campaign.filter("radio")
        name = f"{kept.name}.{publishing_digest(kept)}.sealed"
        kept.with_name(name).write_bytes(late)
        assert send(campaign, "radio", "shop", "daily") == [True, True, False]
        with campaign.shuffler() as hop:
            hop.tick()
            assert old in keys.opening_keys()
        campaign.shuffle()
        with campaign.shuffler() as hop:
            hop.tick()
            assert old not in KeyFolder.open(campaign.folder / "hop-keys").opening_keys()
        (batch,) = campaign.analyze()
        assert batch.state == "released"


def publishing_digest(path: Path) -> str:
    """Return the start of the digest of a filter, by which what was sealed of it is known."""
    from chaffinch.reach import load_filter

    return load_filter(path).digest[:16]


@pytest.mark.parametrize("place", ARRIVING)
def test_a_collector_that_is_killed_has_the_filter_or_not(campaign: Campaign, place: str) -> None:
    with campaign.fronts(place) as process:
        with pytest.raises(NotDelivered):
            send_filter(campaign.filter("daily"), campaign.plan, campaign.keys["daily"], patience=0)
        assert process.wait() == -9
    with campaign.fronts():
        assert send(campaign, "daily", "daily") == [place in ARRIVING[:2], False]
        assert put(campaign, "daily", sealed(campaign, "daily")) == (409, "anotherFilter")
    length = campaign.plan.layout.sealed_length
    assert left_in(campaign.folder, "filters") == [length]


@pytest.mark.parametrize("place", SHUFFLING)
def test_a_shuffler_that_is_killed_hands_over_once(campaign: Campaign, place: str) -> None:
    with campaign.fronts():
        send(campaign, *NAMES)
        assert dies_at(place, campaign.shuffle)
        before = handed_over(campaign)
        campaign.shuffle()
        (batch,) = campaign.analyze()
        assert batch.state == "released"
    known = KnownBatches(campaign.folder / "analyzer" / "state.sqlite")
    assert handed_over(campaign) == before
    assert columns_from(known.content(batch.id)).batch == before["batch"]
    assert left_in(campaign.folder, "filters") == [32] * 3


@pytest.mark.parametrize("place", RELEASING)
def test_an_analyzer_that_is_killed_releases_and_pays_once(
    campaign: Campaign, tmp_path: Path, place: str
) -> None:
    path, mark = tmp_path / "ledger.db", tmp_path / "ledger.mark"
    Ledger.create(path, mark=mark, role="analyzer", cap=Target(epsilon=40, delta=0.01))

    def work() -> None:
        campaign.analyze(Ledger.open(path, mark=mark))

    with campaign.fronts():
        send(campaign, *NAMES)
        campaign.shuffle()
    assert dies_at(place, work)
    (batch,) = campaign.analyze(Ledger.open(path, mark=mark))
    assert batch.state == "released"
    assert len(Ledger.open(path, mark=mark).entries()) == 1


def test_a_cluster_that_is_gone_holds_up_no_filters(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opens the reports of a survey that the same hop runs; filters are opened here."""

    def gone(*_: object) -> None:
        raise ClusterFault("The Spark cluster must finish its tasks. Got no answer.")

    monkeypatch.setattr(SegmentOpener, "open_segments", gone)
    with campaign.fronts(), campaign.shuffler() as hop:
        send(campaign, *NAMES)

        def is_handed_over() -> bool:
            with pytest.raises(ClusterFault):
                hop.take()
            hop.forward()
            hop.tick()
            return hop.status.batches["purged"] == 1

        waited(is_handed_over)


def test_ctrl_c_says_that_the_same_command_sends_the_same_bytes(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Pauses, "wait", stop)
    words = ["reach", "send", str(campaign.filter("daily"))]
    words += ["--plan", str(campaign.folder / "plan.json")]
    words += ["--keys", str(campaign.folder / "daily-keys")]
    assert main(words) == 130
    assert capsys.readouterr().err == (
        "the filter may or may not have arrived: the same command sends the same bytes again, "
        "which count once\n"
        "stopped\n"
    )


def test_a_second_hand_over_of_a_plan_is_refused(campaign: Campaign) -> None:
    """A shuffler that has forgotten what it did, and flips the same rows again, is not followed."""
    with campaign.fronts():
        send(campaign, *NAMES)
        campaign.shuffle()
        (first,) = campaign.analyze()
        assert first.state == "released"
        (campaign.folder / "hop").rename(campaign.folder / "lost")
    with campaign.fronts():
        send(campaign, *NAMES)
        campaign.shuffle()
    states = {one.id == first.id: one.state for one in campaign.analyze()}
    assert states == {True: "released", False: "refused"}
