"""Protocols from outside of this package: what they must be, and how they become known.

Whoever has written a protocol registers it, with one line, in every process that plans with it or
reads its plans. Nothing is found by itself: a package that is merely installed never changes which
protocol a planner takes, nor which plans a device trusts. A plan file of a protocol that was not
registered is refused like one of a protocol that does not exist.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import TypeVar

from chaffinch.errors import InvalidInput, Unquoted
from chaffinch.privacy import Mechanism
from chaffinch.privacy.mechanism_documents import add_mechanisms, hint_for_another
from chaffinch.protocols.base import EncodingSeconds, Protocol
from chaffinch.protocols.registry import ADDED, LOCAL, PROTOCOLS

_Registered = TypeVar("_Registered", bound=type[Protocol])
NEEDED = ("kind", "shapes", "seconds")
_SHAPES = ("bit", "choice", "number", "flags")
_KIND = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


def register(protocol: _Registered) -> _Registered:
    """Let planner, plan files and everybody else know a protocol; return it.

    Its mechanisms become known with it, so that ledgers can charge them. What stands in plans and
    ledgers must mean the same for ever: a kind and the name of a mechanism are given away once.
    """
    _check_class(protocol)
    kind = protocol.kind
    if kind in {*PROTOCOLS, LOCAL} or ADDED.get(kind, protocol) is not protocol:
        hint = hint_for_another(protocol, ADDED.get(kind))
        raise InvalidInput(f"kind of {protocol.__name__}", "one that is not taken", kind, hint=hint)
    add_mechanisms(protocol.mechanisms)
    ADDED.setdefault(kind, protocol)
    return protocol


def _check_class(protocol: object) -> None:
    """Refuse what is no protocol, or cannot be read back from its plan files."""
    if not (isinstance(protocol, type) and issubclass(protocol, Protocol)):
        raise InvalidInput("protocol", "a subclass of chaffinch.protocols.Protocol", protocol)
    missing = [name for name in NEEDED if not hasattr(protocol, name)]
    missing += sorted(getattr(protocol, "__abstractmethods__", ()))
    if missing:
        rule = "one that says its " + ", ".join(missing)
        raise InvalidInput(
            f"protocol {protocol.__name__}", rule, Unquoted("one that lacks some of it")
        )
    _check_kind(protocol.__name__, protocol.kind, protocol.shapes)
    _check_parameters(protocol)
    if "number" in protocol.shapes and protocol.thermometer is Protocol.thermometer:
        rule = "one that says its thermometer, as it carries numbers"
        raise InvalidInput(
            f"protocol {protocol.__name__}", rule, Unquoted("one that lacks some of it")
        )
    seconds: object = protocol.seconds
    if not isinstance(seconds, EncodingSeconds):
        raise InvalidInput(f"seconds of {protocol.__name__}", "EncodingSeconds", seconds)
    brought: object = protocol.mechanisms
    if not isinstance(brought, tuple) or not all(map(_is_mechanism, brought)):
        rule = "a tuple of classes of mechanisms"
        raise InvalidInput(f"mechanisms of {protocol.__name__}", rule, brought)


def _is_mechanism(one: object) -> bool:
    return isinstance(one, type) and issubclass(one, Mechanism)


def _check_kind(name: str, kind: object, shapes: tuple[str, ...]) -> None:
    if not (isinstance(kind, str) and _KIND.fullmatch(kind)):
        raise InvalidInput(f"kind of {name}", "lower-case words with hyphens", kind)
    if not shapes or not set(shapes) <= set(_SHAPES):
        raise InvalidInput(f"shapes of {name}", f"some of {', '.join(_SHAPES)}", shapes)


def _check_parameters(protocol: type[Protocol]) -> None:
    """Refuse a protocol that would not come back from a plan file as it was."""
    if "__dataclass_fields__" not in protocol.__dict__:
        raise InvalidInput(
            f"protocol {protocol.__name__}", "a dataclass", Unquoted("another class")
        )
    try:
        protocol.form()
    except (NameError, TypeError) as fault:
        rule = "whole numbers, texts, fractions, or tuples and dataclasses of these"
        raise InvalidInput(
            f"parameters of {protocol.__name__}", rule, Unquoted(str(fault))
        ) from None
    stored = [field.name for field in fields(protocol)]
    taken = list(inspect.signature(protocol).parameters)
    if stored != taken:
        rule = "its fields: " + ", ".join(stored)
        raise InvalidInput(f"arguments of {protocol.__name__}", rule, Unquoted(", ".join(taken)))
