"""What sealed reports take on their way: device, collector, hops, analyzer."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.costs.fitting import share_out, spent
from benchmarks.harness import tell
from benchmarks.services.collecting import Load, processor, send
from chaffinch.analysis.open_batches import open_batch
from chaffinch.analysis.received import Received
from chaffinch.encoding.client import Client
from chaffinch.keys import KeyFolder
from chaffinch.planning.costs.units import Unit
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.wire.envelopes import HYBRID, X25519, Binding, OpeningKey
from tests.analysis.sealed import PEOPLE, LastHop, flips
from tests.services.oracle import Collection
from tests.services.servers import collecting, make_site
from tests.services.test_sending import party

SHORT, LONG = 59, 1 << 16
"""Bytes of a message's envelope, and of something long."""
ENVELOPES = 500
REPORTS = 2_000
FEW, MANY = 2, 24
"""Slots of a report."""
REQUESTS = 5_000
ITEMS = 20_000
DEVICES = 60


def envelopes() -> dict[Unit, float]:
    """Return what sealing and opening take."""
    tell("envelopes")
    found = {
        (kem, size): _seal_and_open(OpeningKey.new(1, kem), size)
        for kem, size in ((X25519, SHORT), (X25519, LONG), (HYBRID, SHORT))
    }
    short, long, hybrid = found.values()
    return {
        Unit.SEAL: short[0],
        Unit.SEAL_HYBRID: hybrid[0],
        Unit.OPEN: short[1],
        Unit.OPEN_HYBRID: hybrid[1],
        Unit.CIPHER_BYTE: (long[0] - short[0]) / (LONG - SHORT),
    }


def _seal_and_open(key: OpeningKey, size: int) -> tuple[float, float]:
    binding, content = Binding("0" * 64, 1, "hop1"), bytes(size)
    seal: Callable[[], bytes] = partial(key.sealing.seal, content, binding)
    sealed = seal()
    assert key.open(sealed, binding) == content
    return (
        spent(lambda: [seal() for _ in range(ENVELOPES)]) / ENVELOPES,
        spent(lambda: [key.open(sealed, binding) for _ in range(ENVELOPES)]) / ENVELOPES,
    )


def device(known: dict[Unit, float]) -> dict[Unit, float]:
    """Return what a device takes besides encoding and sealing: outbox, key lists, a request.

    A device sends one report: everything is new to it but the plan, which it has verified.
    """
    tell("devices")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = Collection.make(folder, crowd=4)
        made.plan.save(folder / "plan.json")
        made.plan.verify()
        (folder / "hop1").mkdir()
        made.show_keys_to(folder / "hop1")
        with party(made, folder, "hop1"):
            start = time.process_time()
            for number in range(DEVICES):
                client = Client(made.plan, outbox=folder / f"device{number}")
                assert client.send(f"v{number}").arrived == 1
            each = (time.process_time() - start) / DEVICES
    return {Unit.SEND_REPORT: each - (made.plan.slots + 1) * known[Unit.SEAL]}


def collector() -> dict[Unit, float]:
    """Return what a request of one report takes, and each byte of it."""
    points = []
    for slots in (FEW, 40 * MANY):
        tell(f"collector, {slots} slots")
        with tempfile.TemporaryDirectory() as name:
            site = make_site(Path(name), slots=slots)
            inbox = site.folder / "hop1" / "data" / "inbox"
            with collecting(site, fresh=True) as service:
                load = Load(1, REQUESTS, 0.0)
                send(service.port, site, load, inbox)  # warms up
                before = processor(service.process.pid)
                send(service.port, site, load, inbox)
                each = (processor(service.process.pid) - before) / REQUESTS
                service.stop()
            points.append((site.plan.layout.report_length, each))
    shares = share_out(*points)
    return {Unit.COLLECT_REPORT: shares.once, Unit.COLLECT_BYTE: shares.each}


def hops(opened: float) -> dict[Unit, float]:
    """Return what hops take besides opening envelopes, each of which takes ``opened`` seconds."""
    first, later = [], []
    for slots in (FEW, MANY):
        tell(f"hops, {slots} slots")
        with tempfile.TemporaryDirectory() as name:
            one, two = _through_hops(Path(name), slots)
        first.append((float(slots), one / REPORTS - opened))
        later.append(two / REPORTS / slots - opened)
    shares = share_out(*first)
    return {
        Unit.POOL_REPORT: shares.once,
        Unit.POOL_ITEM: shares.each,
        Unit.RELAY_ITEM: later[-1],
    }


def _through_hops(folder: Path, slots: int) -> tuple[float, float]:
    """Return the processor time of the first hop, and of the second."""
    made = Collection.make(folder, crowd=100, numbers=REPORTS, hops=2, slots=slots)
    reports = made.seal(range(REPORTS))
    data = folder / "first"
    with _hop(data, made, 0) as hop:
        made.show_keys(hop)
        made.write_segment(data, reports)
        start = time.process_time()
        hop.take()
        hop.tick()
        first = time.process_time() - start
    (batch,) = (data / "outbox").glob("*.batch")
    received = folder / "second" / "received"
    received.mkdir(parents=True)
    shutil.copy(batch, received)
    with _hop(folder / "second", made, 1) as hop:
        start = time.process_time()
        hop.take()
        later = time.process_time() - start
    (passed,) = (folder / "second" / "outbox").glob("*.batch")
    assert passed.stat().st_size > REPORTS * slots
    return first, later


def _hop(data: Path, made: Collection, place: int) -> Shuffler:
    keys = KeyFolder.open(made.hops[place].path)
    return Shuffler(data, keys, [made.plan], ShufflerSettings(openers=1))


def analyzer(opened: float) -> dict[Unit, float]:
    """Return what the analyzer takes for a message besides opening it."""
    tell("analyzer")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hop = LastHop.of(flips(), folder)
        path = hop.put(
            folder, hop.batch(hop.items(i % PEOPLE for i in range(ITEMS)), reports=ITEMS)
        )
        keys = hop.keys.opening_keys()

        def count() -> None:
            shutil.rmtree(folder / "data", ignore_errors=True)
            with closing(Received(folder / "data" / "state.sqlite")) as received:
                assert received.add(open_batch(path, hop.plan, keys)).counted == ITEMS

        return {Unit.COUNT_ITEM: spent(count) / ITEMS - opened}
