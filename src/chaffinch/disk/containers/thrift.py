"""Thrift's compact protocol, in which Parquet writes what it says of its parts.

A structure is described by the fields that are of interest and by what is made of them; all
others are passed over. It is read as pyarrow's reader does, or not at all. A field of another
type than it must have is passed over. What no writer writes and a reader could take for something
else is refused: fields out of order or there twice, which pyarrow would mix; field numbers beyond
16 bits, which it cuts; lists of another type, because it goes by what it expects; numbers longer
than their type or than they need to be. Whatever is not as it must be raises ``EOFError``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

INT, LONG, BINARY, STRUCT = 5, 6, 8, 12
_TRUE, _FALSE, _BYTE, _SHORT, _DOUBLE, _LIST, _SET, _MAP = 1, 2, 3, 4, 7, 9, 10, 11
_BITS = {_SHORT: 16, INT: 32, LONG: 64}
_WIDTHS = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}
_DEEPEST = 64
_LARGEST_FIELD = (1 << 15) - 1
LONGEST_LIST = 300_000
"""Of what is kept. More columns, or groups of rows, have no room in a footer that is read."""
MOST_VALUES = 1 << 22
"""Fields, and values in lists. A byte is enough for one, but pyarrow holds 32 and more for it."""

Fields = dict[int, Any]


@dataclass(frozen=True)
class Shape:
    """A structure: which fields of which type are kept, and what is made of them at once.

    A type is a number above, a shape, or a list of one of these.
    """

    fields: Fields
    make: Callable[[Fields], Any] = dict
    lists: Mapping[int, int] = field(default_factory=dict)
    """Lists that are passed over, each with the type that its values must have."""


_NOTHING = Shape({})


class TooMany(EOFError):
    """A structure with more values in it than anybody should read."""


class Thrift:
    """Reads structures from bytes, one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.place = 0
        """Where the next one starts."""
        self._left = MOST_VALUES

    def read(self, shape: Shape) -> Any:
        """Return what a shape makes of the structure that comes next."""
        return self._structure(shape, 0)

    def varint(self) -> int:
        """Return the whole number that comes next, seven bits in a byte, the lowest first."""
        value = shift = 0
        while shift < 70:
            byte = self._take()
            value |= (byte & 127) << shift
            if byte < 128:
                if shift and not byte:
                    raise EOFError  # longer than it needs to be
                return value
            shift += 7
        raise EOFError

    def _structure(self, shape: Shape, depth: int) -> Any:
        """Read a structure to its end.

        A field starts with a byte: by how much its number is larger than the one before (or 0,
        and the number follows), and its type. A zero byte ends the structure; others take any
        byte without a type for such an end.
        """
        found: Fields = {}
        last = 0
        while head := self._take():
            self._count(1)
            number = last + (head >> 4) if head >> 4 else self._number(_SHORT)
            kind = head & 15
            if not (kind and last < number <= _LARGEST_FIELD):
                raise EOFError
            last = number
            wanted = shape.fields.get(number)
            if wanted is not None and kind == _type_of(wanted):
                found[number] = self._value(wanted, depth + 1)
            elif kind > _FALSE:  # a truth value in a structure is its type
                self._pass_over(kind, depth + 1, shape.lists.get(number))
        return shape.make(found)

    def _value(self, wanted: Any, depth: int) -> Any:
        if isinstance(wanted, Shape):
            return self._structure(wanted, depth)
        if isinstance(wanted, list):
            size, (kind,) = self._list_head()
            if kind != _type_of(wanted[0]) or size > LONGEST_LIST:
                raise EOFError
            return [self._value(wanted[0], depth + 1) for _ in range(size)]
        return self._bytes(self.varint()) if wanted == BINARY else self._number(wanted)

    def _pass_over(self, kind: int, depth: int, listed: int | None = None) -> None:
        """Skip a value of some kind; every kind that nests may do so only so deep."""
        if depth > _DEEPEST:
            raise EOFError
        if kind in _BITS:
            self._number(kind)
        elif kind in _WIDTHS:
            self._bytes(_WIDTHS[kind])
        elif kind == BINARY:
            self._bytes(self.varint())
        elif kind == STRUCT:
            self._structure(_NOTHING, depth)
        elif kind in (_LIST, _SET, _MAP):
            # Every value takes a byte at least, so a made-up size ends with the bytes.
            size, kinds = self._map_head() if kind == _MAP else self._list_head()
            if kind == _LIST and listed not in (None, *kinds):
                raise EOFError
            for _ in range(size):
                for inner in kinds:
                    self._pass_over(inner, depth + 1)
        else:
            raise EOFError

    def _list_head(self) -> tuple[int, tuple[int, ...]]:
        head = self._take()
        size = head >> 4 if head >> 4 < 15 else self.varint()
        self._count(size)
        return size, (head & 15,)

    def _map_head(self) -> tuple[int, tuple[int, ...]]:
        size = self.varint()
        self._count(2 * size)
        return size, divmod(self._take(), 16) if size else ()

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise TooMany

    def _take(self) -> int:
        try:
            found = self._content[self.place]
        except IndexError:
            raise EOFError from None
        self.place += 1
        return found

    def _bytes(self, size: int) -> bytes:
        found = self._content[self.place : self.place + size]
        self.place += size
        if len(found) != size:
            raise EOFError
        return found

    def _number(self, kind: int) -> int:
        """Return a signed number; one that is too long for its type would be cut by others."""
        value = self.varint()
        if value >> _BITS[kind]:
            raise EOFError
        return (value >> 1) ^ -(value & 1)


def _type_of(wanted: Any) -> int:
    if isinstance(wanted, Shape):
        return STRUCT
    return _LIST if isinstance(wanted, list) else int(wanted)
