"""A client and the real services: what arrives is on their disk, and opens with their keys."""

from __future__ import annotations

import datetime as dt
import ipaddress
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from chaffinch import Client
from chaffinch.encoding import client as client_module
from chaffinch.encoding.device import encode
from chaffinch.errors import NotDelivered
from chaffinch.shuffling.inbox import read_segment, recover, sealed_segments
from tests.forks import Forked
from tests.services.commands import waited
from tests.services.oracle import Collection, free_port, port_of

PARTY = """
import sys
from pathlib import Path
from chaffinch.keys import KeyFolder
from chaffinch.plans.plan import load_plan
from chaffinch.services.analyzer import AnalyzerFront
from chaffinch.services.batch_intake import BatchLimits
from chaffinch.services.collector import Collector, CollectorLimits
from chaffinch.services.group_commit import InboxLimits
from chaffinch.services.server import Listener, run

root, name, port, tls = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
plans, keys = [load_plan(root / "plan.json")], KeyFolder.open(root / f"{name}-keys")
(root / name).mkdir(exist_ok=True)
if name == "analyzer":
    front = AnalyzerFront(root / name, plans, keys, limits=BatchLimits(free_bytes=0))
    application, background = front.application, [front.front.following_keys()]
else:
    limits = CollectorLimits(inbox=InboxLimits(free_bytes=0, segment_seconds=0.2))
    made = Collector(root / name, plans, keys, limits=limits)
    application, background = made.application, [made.running()]
run(
    [Listener(application, "127.0.0.1", port, *map(Path, tls))],
    background=background,
    announce=lambda addresses: print(*addresses, flush=True),
)
"""


SLOW_SYNC = """
import os, time
from chaffinch.services import collector
collector._LONGEST_WAY = 0.2
sync = os.fdatasync
def sync_slowly(number):
    os.fdatasync = sync
    time.sleep(1.5)
    sync(number)
os.fdatasync = sync_slowly
"""
"""As if a disk took so long, once, that a report's key could be destroyed meanwhile."""


@contextmanager
def party(
    collection: Collection, root: Path, name: str, tls: Sequence[Path] = (), before: str = ""
) -> Iterator[Forked]:
    """Yield the service of a party, at the address that the plan names."""
    words = [root, name, port_of(collection.plan, name), *tls]
    process = Forked(before + PARTY, *words)
    try:
        assert process.stdout.readline(), process.stderr.read()
        yield process
    finally:
        process.kill()
        process.communicate()


def kept(collection: Collection, root: Path) -> list[bytes]:
    """Return the sealed reports in the inbox of the first hop, when its collector is gone."""
    inbox, length = root / "hop1" / "inbox", collection.plan.layout.report_length
    recover(inbox)
    bodies = [one.reports for path in sealed_segments(inbox) for one in read_segment(path)]
    return [body[at : at + length] for body in bodies for at in range(0, len(body), length)]


def opened(collection: Collection, sealed: bytes) -> int:
    """Return how many items are in a report, as the first hop opens it."""
    layout = collection.plan.layout
    (key,) = [
        one.key for one in collection.hops[0].opening_keys().values() if one.key.id == sealed[0]
    ]
    payload = key.open(sealed, layout.binding(1, 1))
    assert payload is not None
    unpacked = layout.unpack(payload)
    assert unpacked is not None
    return len(unpacked[1]) // layout.item_length(1)


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    made = Collection.make(tmp_path)
    made.plan.save(tmp_path / "plan.json")
    made.show_keys_to(tmp_path / "hop1")
    return made


@pytest.fixture
def client(collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.01)
    return Client(collection.plan, outbox=tmp_path / "outbox", patience=20)


def test_reports_are_on_the_disk_of_the_first_hop(
    collection: Collection, client: Client, tmp_path: Path
) -> None:
    """Also when the collector is killed, restarted, and changes its key in between."""
    keys, (old,) = collection.hops[0], collection.hops[0].opening_keys()
    with party(collection, tmp_path, "analyzer"):
        with party(collection, tmp_path, "hop1") as process:
            assert client.send("v1").arrived == 1
            reports = [encode("v2", collection.plan) for _ in range(120)]
            assert client.send_many(reports, data=b"rows").arrived == 120
            process.send_signal(signal.SIGKILL)
            process.wait()
        hasty = Client(collection.plan, outbox=tmp_path / "outbox", patience=0)
        with pytest.raises(NotDelivered, match="hop1"):
            hasty.send_many([encode("v3", collection.plan)], data=b"another row")
        keys.rotate(at_once=True)
        keys.close(old)
        with party(collection, tmp_path, "hop1"):
            assert client.resume().arrived == 1
    found = kept(collection, tmp_path)
    assert len(set(found)) == len(found) == 122
    assert sum(one[0] == old for one in found) == 121
    assert {opened(collection, one) for one in found} == {collection.plan.slots}


def test_a_report_that_was_long_on_its_way_is_not_sealed_again(
    collection: Collection, client: Client, tmp_path: Path
) -> None:
    """It is in the inbox, and counts: sealed for another key it would count twice."""
    keys, (old,) = collection.hops[0], collection.hops[0].opening_keys()
    with (
        party(collection, tmp_path, "analyzer"),
        party(collection, tmp_path, "hop1", before=SLOW_SYNC),
        ThreadPoolExecutor() as pool,
    ):
        sending = pool.submit(client.send, "v1")
        inbox = tmp_path / "hop1" / "inbox"
        waited(lambda: any(path.stat().st_size > 100 for path in inbox.glob("*.open")))
        keys.rotate(at_once=True)
        keys.close(old)
        done = sending.result()
    assert (done.arrived, done.given_up) == (0, 1)
    assert len(kept(collection, tmp_path)) == 1


def test_a_service_with_tls_must_have_a_certificate_that_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [f"https://127.0.0.1:{free_port()}" for _ in range(2)]
    collection = Collection.make(tmp_path, addresses=addresses)
    collection.plan.save(tmp_path / "plan.json")
    collection.show_keys_to(tmp_path / "hop1")
    tls = certificate(tmp_path)
    with (
        party(collection, tmp_path, "hop1", tls),
        party(collection, tmp_path, "analyzer", tls),
    ):
        with pytest.raises(NotDelivered, match="certificate that is not trusted"):
            Client(collection.plan, outbox=tmp_path / "outbox", patience=0).send("v1")
        monkeypatch.setenv("SSL_CERT_FILE", str(tls[0]))
        assert Client(collection.plan, outbox=tmp_path / "outbox").send("v1").arrived == 1
    assert len(kept(collection, tmp_path)) == 1


def certificate(folder: Path) -> tuple[Path, Path]:
    """Return a certificate for this machine that vouches for itself, and its private key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a party")])
    now = dt.datetime.now(dt.UTC)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(here, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "chain.pem", folder / "private.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, private
