"""Measured units: the processor time and the memory of one thing done once.

``python -m benchmarks.costs`` measures them again and prints them beside these. What a protocol
takes to encode stands in its own file (``Protocol.seconds``).
"""

from __future__ import annotations

from enum import StrEnum

EXCHANGES = 29_400.0
"""X25519 key exchanges a second by `openssl speed ecdhx25519`, on one core of the machine that all
units were measured on (AMD EPYC): a core that makes twice as many takes about half the time. Units
are rounded means of two or three runs on a busy machine, which differed by up to a half; those that
matter most, sealing and opening, by a tenth."""


class Unit(StrEnum):
    """What is done once."""

    SEAL = "seal an envelope"
    SEAL_HYBRID = "seal an envelope, hybrid"
    OPEN = "open an envelope"
    OPEN_HYBRID = "open an envelope, hybrid"
    CIPHER_BYTE = "seal or open a byte"
    SEND_REPORT = "device: keep and send a report"
    COLLECT_REPORT = "collector: acknowledge a report"
    COLLECT_BYTE = "collector: a byte of it"
    POOL_REPORT = "first hop: pool an opened report"
    POOL_ITEM = "first hop: pool and order a message"
    RELAY_ITEM = "later hop: keep and order an opened message"
    COUNT_ITEM = "analyzer: keep and count an opened message"
    SHUFFLE_MESSAGE = "shuffle a message of a file"
    TALLY_MESSAGE = "count a message of a file"
    HASH_ID = "publisher: read and hash an id"
    HASH_AGAIN = "publisher: a further hash of an id"
    REPEAT_ID = "publisher: count how often an id came"
    FLIP_BIT = "publisher: flip and write a bit"
    SHUFFLE_BIT = "shuffler of filters: flip and count a bit"
    COUNT_BIT = "analyzer of filters: read and count a bit"


SECONDS: dict[Unit, float] = {
    Unit.SEAL: 87e-6,
    Unit.SEAL_HYBRID: 105e-6,
    Unit.OPEN: 49e-6,
    Unit.OPEN_HYBRID: 80e-6,
    Unit.CIPHER_BYTE: 0.3e-9,
    Unit.SEND_REPORT: 14e-3,
    Unit.COLLECT_REPORT: 66e-6,
    Unit.COLLECT_BYTE: 1.6e-9,
    Unit.POOL_REPORT: 11e-6,
    Unit.POOL_ITEM: 1.2e-6,
    Unit.RELAY_ITEM: 12e-6,
    Unit.COUNT_ITEM: 11e-6,
    Unit.SHUFFLE_MESSAGE: 78e-9,
    Unit.TALLY_MESSAGE: 4.9e-9,
    Unit.HASH_ID: 63e-9,
    Unit.HASH_AGAIN: 16e-9,
    Unit.REPEAT_ID: 48e-9,
    Unit.FLIP_BIT: 1.9e-9,
    Unit.SHUFFLE_BIT: 0.21e-9,
    Unit.COUNT_BIT: 0.23e-9,
}
"""Processor seconds of each."""


class Room(StrEnum):
    """What is held once."""

    PROCESS = "memory of a process of a service"
    POOLED_REPORT = "memory for a report of a batch at the first hop"
    OPENED_ITEM = "memory for a message of a batch at the analyzer"
    REPLAY_TAG = "replay tag on the disk"
    FILES = "memory to encode, shuffle or count files"


BYTES: dict[Room, float] = {
    Room.PROCESS: 92e6,
    Room.POOLED_REPORT: 30.0,
    Room.OPENED_ITEM: 80.0,
    Room.REPLAY_TAG: 25.5,
    Room.FILES: 555e6,
}
"""Bytes of each."""
