"""The oracle of all fault tests: every report has a number of its own, and nothing is randomized.

What comes out of a collection is then a histogram of zeros and ones. A two is a report that was
counted twice, a zero one that was lost, and a batch of too few reports betrays somebody.
"""

from __future__ import annotations

import errno
import faulthandler
import http.server
import io
import os
import signal
import socket
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from chaffinch.disk import kill_points
from chaffinch.encoding.sealing import Sealer
from chaffinch.errors import InvalidFile
from chaffinch.keys import KeyFolder
from chaffinch.plans.parties import KEMS, Parties, Party
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Flips
from chaffinch.questions import Choice
from chaffinch.reach.planning.reach_plan import AnyPlan
from chaffinch.sampling import secure_words
from chaffinch.services.shuffler import Shuffler
from chaffinch.shuffling.forwarding import Patience
from chaffinch.shuffling.inbox import SegmentWriter, Upload
from chaffinch.shuffling.later_keys import LaterKeys
from chaffinch.shuffling.state import State
from chaffinch.wire.envelopes import X25519
from chaffinch.wire.key_lists import KeyList
from chaffinch.wire.messages import EMPTY, Origin, Report
from chaffinch.wire.sealed_batches import BatchHead, blocks_of, check_batch, sign_receipt
from tests.engines.plans import plan_of

SLOTS = 2
"""Of every report, unless a test wants more: its number, and a dummy."""


def plan_of_numbers(crowd: int, numbers: int, slots: int = SLOTS) -> Plan:
    """Return a plan under which a report can hold any of so many numbers."""
    question = Choice([f"v{number}" for number in range(numbers - 1)], missing="count")
    return plan_of(("answer", question, Flips(Fraction(1, 4), 1, slots)), users=crowd)


@dataclass(frozen=True)
class Collection:
    """A plan with all its parties, whose keys are in folders of their own."""

    plan: Plan
    hops: tuple[KeyFolder, ...]
    analyzer: KeyFolder

    @classmethod
    def make(
        cls,
        root: Path,
        *,
        crowd: int = 4,
        numbers: int = 200,
        hops: int = 1,
        kem: str = "x25519",
        addresses: Sequence[str] = (),
        rounds: int = 1,
        slots: int = SLOTS,
    ) -> Collection:
        """Make the parties' keys below a folder, and a plan that names them."""
        root.mkdir(parents=True, exist_ok=True)
        names = [*(f"hop{number}" for number in range(1, hops + 1)), "analyzer"]
        kems = [KEMS[kem], *[X25519] * hops]
        folders = [
            KeyFolder.create(root / f"{name}-keys", kem=one)
            for name, one in zip(names, kems, strict=True)
        ]
        places = addresses or [f"http://127.0.0.1:{free_port()}" for _ in names]
        parties = [
            Party(name, folder.identity_hex, address)
            for name, folder, address in zip(names, folders, places, strict=True)
        ]
        plan = replace(plan_of_numbers(crowd, numbers, slots), rounds=rounds)
        run = plan.run_by(Parties(tuple(parties[:-1]), parties[-1], kem))
        return cls(run, tuple(folders[:-1]), folders[-1])

    @property
    def sealer(self) -> Sealer:
        """Return a device that seals for the keys that are in use now."""
        parties = self.plan.parties
        assert parties is not None
        lists = [
            KeyList.read(folder.key_list(self.plan.id), plan_id=self.plan.id, identity=party.key)
            for folder, party in zip(
                (*self.hops, self.analyzer), (*parties.hops, parties.analyzer), strict=True
            )
        ]
        return Sealer.of(self.plan, lists)

    def seal(self, numbers: Iterable[int], round: int = 1) -> list[bytes]:  # noqa: A002
        """Return a sealed report for each number."""
        origin = Origin.of(self.plan, round if self.plan.rounds > 1 else None)
        sealer = self.sealer
        rest = (EMPTY,) * (self.plan.slots - 1)
        return [sealer.seal(Report(origin, (number, *rest)), secure_words()) for number in numbers]

    def show_keys(self, hop: Shuffler) -> None:
        """Let the first hop see the keys of all parties behind it, as if it had asked."""
        self._show_keys(hop.later_keys)

    def show_keys_to(self, data: Path) -> None:
        """Let a first hop that does not run have seen these keys."""
        with closing(State.open(data / "state.sqlite")) as state:
            self._show_keys(LaterKeys(state, {self.plan.id: self.behind}, patience=Patience()))

    @property
    def behind(self) -> tuple[Party, ...]:
        """Return the parties behind the first hop."""
        assert self.plan.parties is not None
        return (*self.plan.parties.hops[1:], self.plan.parties.analyzer)

    def _show_keys(self, later: LaterKeys) -> None:
        for party, folder in zip(self.behind, (*self.hops[1:], self.analyzer), strict=True):
            later.take(self.plan.id, party, folder.key_list(self.plan.id))

    def write_segment(self, data: Path, reports: Iterable[bytes], round: int = 1) -> Path:  # noqa: A002
        """Put reports into a sealed segment of the inbox, as one upload."""
        return write_segment(data, [Upload(self.plan.id, round, b"".join(reports))])

    def numbers_in(self, content: bytes) -> Counter[int]:
        """Return which numbers are in a batch for the analyzer; it must be whole, and a crowd."""
        parties = self.plan.parties
        assert parties is not None
        file = io.BytesIO(content)
        head, _ = check_batch(file, parties.hops[-1].key)
        return self._opened(head, b"".join(blocks_of(file, head.items * head.item_length)))

    def _opened(self, head: BatchHead, items: bytes) -> Counter[int]:
        layout = self.plan.layout
        assert head.reports >= self.plan.reports, "a batch below its crowd"
        assert (head.plan_id, head.hop) == (self.plan.id, layout.hops)
        key = self.analyzer.opening_keys()[head.key_id].key
        assert head.route == key.sealing.name
        found: Counter[int] = Counter()
        for at in range(0, len(items), head.item_length):
            item = items[at : at + head.item_length]
            code = key.open(item, layout.binding(layout.hops + 1, head.round))
            assert code is not None
            found[int.from_bytes(code, "big")] += 1
        dummies = found.pop(EMPTY, 0)
        empty = (self.plan.slots - 1) * sum(found.values())
        assert dummies == empty, "every other slot of a number's report is a dummy"
        return found

    def histogram(self, batches: Iterable[bytes]) -> Counter[int]:
        """Return how often each number is in all batches together."""
        return sum(map(self.numbers_in, batches), Counter())


def write_segment(data: Path, uploads: Sequence[Upload]) -> Path:
    """Put uploads into a sealed segment of the inbox."""
    (data / "inbox").mkdir(parents=True, exist_ok=True)
    writer = SegmentWriter(data / "inbox")
    writer.append(uploads)
    path = writer.seal()
    assert path is not None
    return path


@contextmanager
def bad_sector(path: Path, place: int) -> Iterator[None]:
    """Let the disk give nothing of a file from a place on."""

    class Raw(io.FileIO):
        def readinto(self, room: Any) -> int:
            if self.tell() + len(room) > place:
                raise OSError(errno.EIO, "")
            return super().readinto(room) or 0

    real = Path.open

    def opened(self: Path, *given: Any, **more: Any) -> Any:
        if self == path and given == ("rb",):
            return io.BufferedReader(Raw(path), 64)
        return real(self, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "open", opened)
        yield


def free_port() -> int:
    """Return a port of this machine at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def port_of(plan: AnyPlan, name: str) -> int:
    """Return the port at which a party of a plan listens."""
    assert plan.parties is not None
    (address,) = [
        party.address for party in (*plan.parties.hops, plan.parties.analyzer) if party.name == name
    ]
    port = urlsplit(address).port
    assert port is not None
    return port


_SIGNING = threading.Lock()
"""Held by a thread of this process while it signs or verifies."""


_LONGEST_LIFE = 60.0
"""Seconds after which a copy of this process is taken to hang."""


def dies_at(place: str, work: Callable[[], object]) -> bool:
    """Do something in a copy of this process; return whether it was killed at a failpoint.

    A lock of OpenSSL that another thread holds at that moment stays locked in the copy, which then
    waits for ever. So no other thread may be inside of it. A copy that hangs all the same shows
    where, and fails the test, long before the test itself runs out of time.
    """
    for thread in threading.enumerate():
        if thread.name == "errand":  # Of a hop before; it talks to the receiver.
            thread.join(10)
    with _SIGNING:
        child = os.fork()
    if child == 0:
        try:
            faulthandler.dump_traceback_later(_LONGEST_LIFE, exit=True, file=2)
            kill_points.arm(place)
            work()
        except BaseException:  # noqa: BLE001 - nothing of the test goes on in the copy
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "it failed in another way"
    return False


# ----------------------------------------------------------------------------
# A party that takes batches, as faulty as a test wants it.


@dataclass
class Receiver:
    """Keeps the batches it gets, and signs for them; ``faults`` are used up one a request.

    A fault is one of ``drop-request`` (nothing is read), ``drop-reply`` (the batch is kept and
    nobody told), ``busy`` (503), ``forged`` (somebody else's receipt), ``long`` (an endless
    reply).
    """

    collection: Collection
    party: KeyFolder
    faults: list[str] = field(default_factory=list)
    batches: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def is_whole(self, batch_id: str, content: bytes) -> bool:
        """Return whether a batch came whole: a sender may be killed while it sends."""
        everyone = (*self.collection.hops, self.collection.analyzer)
        place = [one.path for one in everyone].index(self.party.path)
        maker = everyone[place - 1].identity.public_key().public_bytes_raw()
        try:
            _, found = check_batch(io.BytesIO(content), maker)
        except InvalidFile:
            return False
        return found == batch_id

    @cached_property
    def histogram(self) -> Counter[int]:
        """Return how often each number has come."""
        return self.collection.histogram(self.batches.values())


class _Server(http.server.ThreadingHTTPServer):
    def __init__(self, receiver: Receiver, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.receiver = receiver

    def handle_error(self, *_: object) -> None:
        """Say nothing of senders that were killed while they spoke."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/keys"):
            self._show_keys()
        else:
            self._answer(self._next_fault(), None)

    def _show_keys(self) -> None:
        receiver = self.server.receiver
        with _SIGNING:
            body = receiver.party.key_list(receiver.collection.plan.id)
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        fault = self._next_fault()
        if fault != "drop-request":
            content = self.rfile.read(int(self.headers["content-length"]))
        self._answer(fault, None if fault in ("busy", "drop-request") else content)

    def _next_fault(self) -> str:
        receiver = self.server.receiver
        receiver.requests.append(self.command)
        return receiver.faults.pop(0) if receiver.faults else ""

    def _answer(self, fault: str, content: bytes | None) -> None:
        receiver = self.server.receiver
        batch_id = self.path.rsplit("/", 1)[1]
        with _SIGNING:
            if content is not None and receiver.is_whole(batch_id, content):
                receiver.batches[batch_id] = content
            signer = receiver.collection.hops[0] if fault == "forged" else receiver.party
            receipt = sign_receipt(batch_id, signer.identity)
        if fault.startswith("drop"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        body = receipt * (10_000 if fault == "long" else 1)
        status = 201 if batch_id in receiver.batches else 404
        self.send_response(503 if fault == "busy" else status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def receiving(receiver: Receiver, port: int) -> Iterator[None]:
    """Let a receiver listen at a port of this machine."""
    server = _Server(receiver, port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
