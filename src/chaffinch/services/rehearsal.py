"""A rehearsal: all parties of a plan as real processes on this machine, and a crowd that sends.

Every party has a folder of its own with keys, settings and data, and is started by the command
that an operator uses. What runs for days in earnest runs here for seconds; nothing is different
but the addresses, and that one machine knows everybody's keys.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import chaffinch
from chaffinch.encoding.client import Client
from chaffinch.encoding.device import encode_with
from chaffinch.errors import InvalidInput, StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.plan import Plan
from chaffinch.protocols import PROTOCOLS
from chaffinch.questions import COUNT, Bit, Cross, Flags, Number, Question
from chaffinch.sampling import secure_words
from chaffinch.tables.parallel import Progress
from chaffinch.wire.exchange import Exchange, NoReply
from chaffinch.wire.messages import Report

_LOOPBACK = "127.0.0.1"
_INTERVAL = 0.5
"""Seconds between two ticks of a rehearsed shuffler."""
_PATIENCE = 120.0
"""Seconds in which services must start, and a release must appear."""
_LARGEST_REPLY = 64 << 20

_LIVE_WITH_PARENT = """\
import os, signal, sys, threading
from chaffinch.cli import main

def follow():
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=follow, daemon=True).start()
sys.exit(main(sys.argv[1:]))
"""
"""The command, which stops when whoever started it is gone: nobody writes to its input."""

_HOP = """\
plans = ["../plan.json"]
keys = "keys"
data = "data"
[collector]
listen = "{listen}"
admin = "{loopback}:0"
[collector.limits]
free_bytes = 1
segment_seconds = 0.2
[shuffler]
admin = "{loopback}:0"
[shuffler.limits]
interval_seconds = {interval}
first_pause = 0.2
openers = 1
"""
_ANALYZER = """\
plans = ["../plan.json"]
keys = "keys"
data = "data"
[analyzer]
listen = "{listen}"
admin = "{loopback}:0"
[analyzer.limits]
free_bytes = 1
openers = 1
"""


@dataclass(frozen=True)
class _Stage:
    folder: Path
    plan: Plan

    @property
    def parties(self) -> Parties:
        assert self.plan.parties is not None  # noqa: S101 - ``set_stage`` names them
        return self.plan.parties

    def services(self) -> Iterator[tuple[str, Path]]:
        for hop in self.parties.hops:
            for role in ("collector", "shuffler"):
                yield role, self.folder / hop.name / "hop.toml"
        yield "analyzer", self.folder / self.parties.analyzer.name / "analyzer.toml"


def require_services() -> None:
    """Refuse where they are not installed: each would end as soon as it is started."""
    for name in ("admin", "server"):
        import_module(f"chaffinch.services.{name}")


def require_crowd(plan: Plan, people: int) -> None:
    """Refuse fewer people than a plan waits for: there would be no release."""
    least = -(-plan.reports // plan.contributions)
    if people < least:
        rule = f"{least:,} or more: the plan waits for them"
        raise InvalidInput("number of people", rule, people)


def require_own_protocols(plan: Plan) -> None:
    """Refuse a protocol from elsewhere: the commands that are started here do not know it."""
    kinds = sorted({part.protocol.kind for part in plan.parts} - set(PROTOCOLS))
    if kinds:
        raise InvalidInput(
            "protocols of a rehearsal",
            f"those of chaffinch ({', '.join(PROTOCOLS)})",
            ", ".join(kinds),
            hint="start every party with a program that registers the protocol first and then "
            "calls chaffinch.cli.main, as in a real collection",
        )


def set_stage(folder: Path, plan: Plan, *, hops: int = 1) -> _Stage:
    """Make the folders of as many hops and an analyzer, and the plan that names them."""
    names = [f"hop{place}" for place in range(1, hops + 1)] + ["analyzer"]
    parties = []
    for name, port in zip(names, _free_ports(len(names)), strict=True):
        place = folder / name
        place.mkdir(mode=0o700, parents=True)
        identity = KeyFolder.create(place / "keys").identity_hex
        listen = f"{_LOOPBACK}:{port}"
        parties.append(Party(name, identity, f"http://{listen}"))
        form = _ANALYZER if name == "analyzer" else _HOP
        settings = form.format(listen=listen, loopback=_LOOPBACK, interval=_INTERVAL)
        file = "analyzer.toml" if name == "analyzer" else "hop.toml"
        (place / file).write_text(settings, encoding="utf-8")
    made = plan.run_by(Parties(tuple(parties[:-1]), parties[-1]))
    made.save(folder / "plan.json")
    return _Stage(folder, made)


def _free_ports(count: int) -> list[int]:
    # A plan names ports before anybody can listen on them, so another process may still be faster.
    # All sockets are open together: no port is found twice.
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server((_LOOPBACK, 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in found]


@contextmanager
def running(stage: _Stage) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Start every service and yield them by name when all listen; they end with the block."""
    started: dict[str, subprocess.Popen[str]] = {}
    try:
        for role, settings in stage.services():
            started[f"{settings.parent.name} {role}"] = _start_service(role, settings)
        for name, process in started.items():
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            if not process.stdout.readline():
                raise StorageFault(
                    f"The service {name!r} must start. Got an end of its process.",
                    hint=f"look at {stage.folder}: the files ending in .log",
                )
        yield started
    finally:
        for process in started.values():
            process.send_signal(signal.SIGTERM)
        for process in started.values():
            _stop_service(process)


def _start_service(role: str, settings: Path) -> subprocess.Popen[str]:
    words = ["serve", role, "--config", str(settings)]
    source = str(Path(chaffinch.__file__).parents[1])
    with (settings.parent / f"{role}.log").open("a", encoding="utf-8") as log:
        return subprocess.Popen(  # noqa: S603 - our own interpreter on our own words
            [sys.executable, "-c", _LIVE_WITH_PARENT, *words],
            env={**os.environ, "PYTHONPATH": source},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _stop_service(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


# ----------------------------------------------------------------------------
# The crowd.


def _simulated_reports(plan: Plan, people: int) -> Iterator[Report]:
    # The answers are simulated; the randomness that protects them is not.
    words = secure_words()
    for _ in range(people * plan.contributions):
        answers = {name: made_up_answer(question) for name, question in plan.asked.items()}
        answer = answers if len(answers) > 1 else next(iter(answers.values()))
        yield encode_with(answer, plan, words, 1)


def made_up_answer(question: Question) -> object:
    """Return an answer that somebody might give: a gap now and then, where gaps are counted."""
    assert not isinstance(question, Cross)  # noqa: S101 - its questions are asked apart
    if question.missing == COUNT and not secrets.randbelow(_GAPS):
        return None
    if isinstance(question, Number):
        share = Fraction(secrets.randbelow(1 << 20), 1 << 20)
        return question.low + float(share) * (question.high - question.low)
    if isinstance(question, Flags):
        return [name for name in question.names if secrets.randbelow(2)]
    if isinstance(question, Bit):
        return bool(secrets.randbelow(2))
    # Skewed, so that there is something to see: each value half as often as the one before.
    values = question.values
    return values[min(_heads_in_a_row(), len(values) - 1)]


_GAPS = 10
"""One of so many answers is a gap."""


def _heads_in_a_row() -> int:
    return next(place for place in itertools.count() if secrets.randbelow(2))


def send_crowd(stage: _Stage, people: int, progress: Progress) -> None:
    """Send the reports of as many made-up people to the first hop."""
    plan = stage.plan
    client = Client(plan, outbox=stage.folder / "outbox", patience=_PATIENCE)
    reports = _simulated_reports(plan, people)
    client.send_many(reports, data=b"made-up people", round=1, progress=progress)


def wait_for_release(stage: _Stage, *, patience: float = _PATIENCE) -> list[bytes]:
    """Return the releases as the analyzer hands them out, when there is one."""
    analyzer, plan_id = stage.parties.analyzer, stage.plan.id
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        listed = _fetch(analyzer.url("v1", "plans", plan_id, "releases"))
        found = json.loads(listed)["releases"] if listed else []
        if found:
            return [
                _fetch(analyzer.url("v1", "plans", plan_id, "releases", one["batch"]))
                for one in found
            ]
        time.sleep(0.1)
    raise StorageFault(
        f"The analyzer must hand out a release within {patience:g} seconds. Got none.",
        hint=f"look at {stage.folder}: `chaffinch status --config` shows where the reports are",
    )


def _fetch(url: str) -> bytes:
    try:
        reply = Exchange().ask("GET", url, None, headers={}, most=_LARGEST_REPLY)
    except NoReply:
        return b""
    return reply.body if reply.status == 200 else b""
