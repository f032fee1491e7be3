"""Structures that no writer writes, and that another reader could take for something else."""

from __future__ import annotations

import pytest

from chaffinch.disk.containers.thrift import INT, LONG, Shape, Thrift
from tests.cases import each_case

SHAPE = Shape({2: INT, 3: LONG}, lists={4: INT})
SEVEN = b"\x0e"
"""The number 7, as it is written."""
BEYOND = b"\x01" + b"\xfe\xff\x03" + b"\x11"
"""Field 32767, and one more: a truth value each. A reader with 16 bits is at -32768 now."""

REFUSED = {
    "a field number beyond sixteen bits": BEYOND + b"\0",
    "a field that comes again, beyond sixteen bits": b"\x25" + SEVEN + BEYOND + b"\0",
    "a field that comes again": b"\x25" + SEVEN + b"\x05\x04" + SEVEN + b"\0",
    "a field of no interest that comes again": b"\x51\x01\x0a\0",
    "a field before the one before": b"\x36" + SEVEN + b"\x05\x04" + SEVEN + b"\0",
    "field 0": b"\x05\x00" + SEVEN + b"\0",
    "field -1": b"\x05\x01" + SEVEN + b"\0",
    "an end that is none": b"\x10\x15" + SEVEN + b"\0",
    "a type that nobody knows": b"\x1d\0",
    "a type that nobody knows, in a list": b"\x19\x1d\0\0",
    "a list of no type": b"\x19\x10\0\0",
    "a number that is longer than it needs to be": b"\x25\x8e\x00\0",
    "a number of no interest that is longer than its type": b"\x15\xff\xff\xff\xff\x1f\0",
    "a number longer than its type": b"\x25\xff\xff\xff\xff\x1f\0",
    "a number without end": b"\x36" + b"\xff" * 10 + b"\x01\0",
    "a long number longer than its type": b"\x36" + b"\xff" * 9 + b"\x03\0",
    "a length that is cut to a short one": b"\x18\x81\x80\x80\x80\x10a\0",
    "a list that is cut to a short one": b"\x19\xf5\x81\x80\x80\x80\x10" + SEVEN + b"\0",
    "a list of another type": b"\x49\x16" + SEVEN + b"\0",
}


@each_case("fault", REFUSED)
def test_what_has_two_readings_is_refused(fault: str) -> None:
    with pytest.raises(EOFError):
        Thrift(REFUSED[fault]).read(SHAPE)


def test_what_writers_write_is_read() -> None:
    largest = b"\x26" + b"\xfe" + b"\xff" * 8 + b"\x01"
    others = b"\x11\x19\x25" + SEVEN * 2 + b"\x1b\x01\x58" + SEVEN + b"\x01a\0"
    thrift = Thrift(b"\x25" + SEVEN + b"\0" + b"\x16" + SEVEN + largest + others)
    assert thrift.read(SHAPE) == {2: 7}
    assert thrift.read(SHAPE) == {3: (1 << 63) - 1}
