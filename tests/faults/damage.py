"""Damage to a file's bytes, or to the JSON in it: what disks, transfers, editors and people do."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

Change = Callable[[bytes, random.Random], bytes]


def flip_bit(content: bytes, drawn: random.Random) -> bytes:
    """Turn one bit."""
    place = drawn.randrange(len(content))
    return _put(content, place, bytes([content[place] ^ 1 << drawn.randrange(8)]))


def flip_in_footer(content: bytes, drawn: random.Random) -> bytes:
    """Turn one bit near the end, where containers keep what they say of themselves."""
    place = len(content) - 1 - drawn.randrange(min(256, len(content)))
    return _put(content, place, bytes([content[place] ^ 1 << drawn.randrange(8)]))


def set_byte(content: bytes, drawn: random.Random) -> bytes:
    """Write another byte."""
    return _put(content, drawn.randrange(len(content)), bytes([drawn.randrange(256)]))


def cut_off(content: bytes, drawn: random.Random) -> bytes:
    """Lose the end."""
    return content[: drawn.randrange(len(content))]


def lose_block(content: bytes, drawn: random.Random) -> bytes:
    """Lose a part."""
    first, last = _block(content, drawn)
    return content[:first] + content[last:]


def repeat_block(content: bytes, drawn: random.Random) -> bytes:
    """Have a part twice."""
    first, last = _block(content, drawn)
    return content[:last] + content[first:]


def swap_blocks(content: bytes, drawn: random.Random) -> bytes:
    """Exchange two neighbouring parts."""
    first, last = _block(content, drawn)
    middle = drawn.randint(first, last)
    return content[:first] + content[middle:last] + content[first:middle] + content[last:]


def empty_block(content: bytes, drawn: random.Random) -> bytes:
    """Have zeros where a disk lost a block."""
    first, last = _block(content, drawn)
    return _put(content, first, bytes(last - first))


def change_length(content: bytes, drawn: random.Random) -> bytes:
    """Write a number of four bytes, small, huge or negative, over whatever is there."""
    number = drawn.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, drawn.randrange(2**32)))
    return _put(content, drawn.randrange(max(1, len(content) - 4)), number.to_bytes(4, "little"))


def insert_bytes(content: bytes, drawn: random.Random) -> bytes:
    """Have something between: zeros, bytes that are no UTF-8, quotes, brackets."""
    words = (
        b"\0",
        b"\0\0\0\0",
        b"\xff\xfe",
        b"\xc3\x28",
        b'"',
        b"'",
        b"{",
        b"]",
        b",",
        b"\r",
        b"\n",
    )
    place = drawn.randrange(len(content) + 1)
    return content[:place] + drawn.choice(words) + content[place:]


def add_behind(content: bytes, drawn: random.Random) -> bytes:
    """Have something behind the end."""
    return content + drawn.choice((b"\0", b"x", content[: drawn.randrange(len(content)) + 1]))


BYTES: tuple[Change, ...] = (
    flip_bit,
    flip_bit,
    flip_in_footer,
    set_byte,
    cut_off,
    lose_block,
    repeat_block,
    swap_blocks,
    empty_block,
    change_length,
    insert_bytes,
    add_behind,
)
_OTHERS: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**400,
    1e308,
    float("nan"),
    "",
    "\0",
    "\ud800",
    "x" * 10_000,
    [],
    {},
    [[]],
    {"": 0},
)


def change_value(content: bytes, drawn: random.Random) -> bytes:
    """Put something of another type, or another size, in the place of one value of JSON."""
    document = json.loads(content)
    holder, key = drawn.choice(list(_places(document)))
    other = drawn.choice(_OTHERS)
    if isinstance(holder[key], int) and drawn.random() < 0.5:
        other = holder[key] + drawn.choice((-1, 1, 2**31, 2**63))
    holder[key] = other
    return json.dumps(document).encode("utf-8", "surrogatepass")


def change_key(content: bytes, drawn: random.Random) -> bytes:
    """Lose a field of JSON, have one more, or one twice."""
    document = json.loads(content)
    named = [holder for holder, key in _places(document) if isinstance(key, str)]
    holder = drawn.choice(named)
    key = drawn.choice(list(holder))
    kind = drawn.randrange(3)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key + "s"] = holder[key]
    else:
        twice = f"{json.dumps(key)}: {json.dumps(drawn.choice(_OTHERS[:6]))}, {json.dumps(key)}:"
        return content.replace(f"{json.dumps(key)}:".encode(), twice.encode(), 1)
    return json.dumps(document).encode()


JSON: tuple[Change, ...] = (*BYTES, *[change_value] * 6, *[change_key] * 4)


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Return every value inside a document, as what holds it and where."""
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    found = []
    for key, value in inner:
        found.append((document, key))
        if isinstance(value, (dict, list)):
            found.extend(_places(value))
    return found


def _block(content: bytes, drawn: random.Random) -> tuple[int, int]:
    first = drawn.randrange(len(content))
    return first, min(len(content), first + drawn.choice((1, 2, 4, 8, 16, 64, 512)))


def _put(content: bytes, place: int, other: bytes) -> bytes:
    return content[:place] + other + content[place + len(other) :]
