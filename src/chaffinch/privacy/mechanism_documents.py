"""Mechanisms as small documents: exact parameters in, the same mechanism out.

A document has JSON types only, so a file can hold it, and a person can read it. It holds the
parameters and never an epsilon: the numbers are proven again from the parameters whenever they
are needed. Every mechanism has exactly one document, so equal documents mean equal mechanisms.

Each mechanism decides what is in its document. This module maps the names in documents to
classes, and refuses a document of any other name.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterable
from typing import Any

from chaffinch.errors import InvalidInput, Unquoted, checks
from chaffinch.privacy.forms import fraction_text, named_fields
from chaffinch.privacy.guarantee import PROVEN
from chaffinch.privacy.mechanism import Mechanism

__all__ = [
    "UnknownMechanism",
    "add_mechanisms",
    "fraction_text",
    "hint_for_another",
    "mechanism_document",
    "mechanism_from",
    "mechanism_text",
]

_OURS = {
    "flipped-bits": ("mechanisms.bits", "FlippedBits"),
    "decoyed-values": ("mechanisms.decoys", "DecoyedValues"),
    "flipped-values": ("mechanisms.values", "FlippedValues"),
    "flipped-vectors": ("mechanisms.records", "FlippedVectors"),
    "encoded-numbers": ("mechanisms.numbers", "EncodedNumbers"),
    "flipped-filters": ("mechanisms.filters", "FlippedFilters"),
    "flipped-audiences": ("mechanisms.filters", "FlippedAudiences"),
    "random-responders": ("mechanisms.responders", "RandomResponders"),
    "sample-and-threshold": ("mechanisms.sampled_counts", "SampleAndThreshold"),
    "signed-decoys": ("mechanisms.signed", "SignedDecoys"),
    "weighted-numbers": ("mechanisms.weighted", "WeightedNumbers"),
    "noisy-totals": ("mechanisms.totals", "NoisyTotals"),
    "shortened": ("shortened_reports", "Shortened"),
    "grouped": ("groups", "Grouped"),
    "composition": ("composition", "Composition"),
}
"""Our modules and classes, each loaded with the first document of its name."""
_ADDED: dict[str, type[Mechanism]] = {}
"""Those that protocols from elsewhere have brought along."""
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_IN_DOCUMENTS = (
    "a document holds whole numbers, texts, lists and other documents, and fractions where "
    "`document_fractions` names them; equal mechanisms compare equal, as frozen dataclasses do"
)


class UnknownMechanism(InvalidInput):
    """A document names a mechanism that is not known in this process."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "mechanism",
            "one of " + ", ".join(map(repr, (*_OURS, *_ADDED))),
            name,
            hint="if a protocol from elsewhere brings it along, register that protocol first "
            "(chaffinch.protocols.register)",
        )
        self.name = name


def add_mechanisms(kinds: Iterable[type[Mechanism]]) -> None:
    """Let documents name classes of mechanisms, all or none; ``protocols.register`` calls this.

    A name is given away once: what is in a ledger must mean the same for ever. A class is refused
    as far as it can be seen of it that none of its objects would be planned and charged.
    """
    found = dict(_ADDED)
    for kind in kinds:
        name, which = kind.document_name, f"document name of {kind.__name__}"
        said: object = name
        if not (isinstance(said, str) and _NAME.fullmatch(said)):
            raise InvalidInput(which, "lower-case words with hyphens, in document_name", name)
        if name in _OURS or found.setdefault(name, kind) is not kind:
            hint = hint_for_another(kind, found.get(name))
            raise InvalidInput(which, "one that is not taken", name, hint=hint)
        _check_class(kind)
    _ADDED.update(found)


def hint_for_another(kind: type, known: type | None) -> str:
    """Return what to do where a class is defined a second time, as by a cell of a notebook."""
    # It is not replaced: plans and charges of the class before are still here, in caches, too, and
    # what was proven of them would be said of the one after.
    names = {(one.__module__, one.__qualname__) for one in (kind, known) if one is not None}
    if known is None or len(names) > 1:
        return ""
    return "the class was registered before and has changed since: start Python again"


def mechanism_document(mechanism: Mechanism) -> dict[str, Any]:
    """Return the one document of a mechanism.

    >>> from chaffinch.privacy import DecoyedValues, FlippedBits
    >>> mechanism_document(FlippedBits(users=1000, flip_probability="1/4", copies=3))["users"]
    1000
    >>> mechanism_document(DecoyedValues(decoys=50, values=5))
    {'mechanism': 'decoyed-values', 'values': 5, 'decoys': 50}
    """
    name, kind = mechanism.document_name, type(mechanism)
    # A subclass that says nothing of its document has inherited the name of another class.
    if name not in {**_OURS, **_ADDED} or _class_of(name) is not kind:
        ours = [known for _, known in _OURS.values()]
        known = ", ".join([*ours, *(one.__name__ for one in _ADDED.values())])
        hint = "a protocol from elsewhere names the mechanisms that it brings, in `mechanisms`"
        raise InvalidInput("mechanism", f"one of {known}", kind.__name__, hint=hint)
    written = named_fields(f"what {kind.__name__} writes", mechanism.written(mechanism_document))
    _check_names(kind, written)
    return {"mechanism": name, **written}


def mechanism_from(document: object) -> Mechanism:
    """Return the mechanism of a document; refuse unknown names, fields and spellings.

    >>> from chaffinch.privacy import FlippedBits
    >>> bits = FlippedBits(users=1000, flip_probability="1/3")
    >>> mechanism_from(mechanism_document(bits)) == bits
    True
    """
    fields = named_fields("mechanism document", document)
    known = (*_OURS, *_ADDED)
    name = fields.pop("mechanism", None)
    if isinstance(name, str) and _NAME.fullmatch(name) and name not in known:
        raise UnknownMechanism(name)
    name = checks.choice("mechanism", name, known)
    mechanism = _class_of(name).from_written(fields, mechanism_from)
    # A second spelling of the same mechanism would have a second digest.
    if mechanism_document(mechanism) != document:
        raise InvalidInput("mechanism document", "written in its one canonical way", document)
    return mechanism


def mechanism_text(mechanism: Mechanism) -> str:
    """Return the document as canonical JSON, from which the same mechanism is read again.

    Whoever keeps a mechanism asks for it so: what cannot be read again is refused before it is
    written, and not by everybody who opens the file later.
    """
    which = f"document of {type(mechanism).__name__}"
    try:
        text = _canonical(mechanism_document(mechanism))
        again = mechanism_from(json.loads(text))
        # Ledgers count equal mechanisms, so that they must be hashable, too.
        same = {again} == {mechanism} and _canonical(mechanism_document(again)) == text
    except InvalidInput as fault:
        if not fault.hint:
            fault.add_to_hint(_IN_DOCUMENTS)
        raise
    # Mechanisms from elsewhere read and write what they like, and fail as they like.
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as fault:
        why = Unquoted(f"{type(fault).__name__}: {fault}")
        raise InvalidInput(which, "one that can be read again", why, hint=_IN_DOCUMENTS) from fault
    if not same:
        raise InvalidInput(which, "that of the same mechanism", text, hint=_IN_DOCUMENTS)
    return text


def _canonical(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_names(kind: type[Mechanism], names: Iterable[str]) -> None:
    """Refuse a parameter that would stand in the place of the mechanism's name."""
    if "mechanism" in names:
        rule = "others than `mechanism`, under which its name stands"
        raise InvalidInput(f"parameters of {kind.__name__} in documents", rule, sorted(names))


def _check_class(kind: type[Mechanism]) -> None:
    """Refuse a class that lacks something, or would not come back from a document."""
    said = getattr(kind, "__dataclass_fields__", {})
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    missing += [name for name in ("view", "method") if not (hasattr(kind, name) or name in said)]
    if missing:
        rule = "one that says its " + ", ".join(missing)
        raise InvalidInput(
            f"mechanism {kind.__name__}", rule, Unquoted("one that lacks some of it")
        )
    _check_fact(kind, "method", PROVEN)
    _check_fact(kind, "neighbours", (Mechanism.neighbours,))
    for name in ("document_fields", "document_fractions"):
        listed: object = getattr(kind, name)
        if not isinstance(listed, tuple) or not all(isinstance(one, str) for one in listed):
            raise InvalidInput(f"{name} of {kind.__name__}", "a tuple of names", listed)
    _check_names(kind, kind.document_fields)
    # Who reads documents in another way knows what is in them.
    if inspect.getattr_static(kind, "from_written") is Mechanism.__dict__["from_written"]:
        _check_fields(kind)


def _check_fact(kind: type[Mechanism], name: str, known: tuple[str, ...]) -> None:
    # A property tells nothing of the class: what it returns is checked with every plan.
    fact = getattr(kind, name, None)
    if isinstance(fact, str):
        checks.choice(f"{name} of {kind.__name__}", fact, known)


def _check_fields(kind: type[Mechanism]) -> None:
    """Refuse a class that cannot be made from the fields in its document."""
    listed, taken = kind.document_fields, inspect.signature(kind).parameters
    needed = {name for name, one in taken.items() if one.default is one.empty}
    if not needed <= set(listed) <= set(taken):
        rule = f"its arguments: {', '.join(taken)}"
        raise InvalidInput(f"document_fields of {kind.__name__}", rule, listed)
    if not set(kind.document_fractions) <= set(listed):
        rule = f"among its document_fields: {', '.join(listed)}"
        raise InvalidInput(f"document_fractions of {kind.__name__}", rule, kind.document_fractions)


def _class_of(name: str) -> type[Mechanism]:
    if name in _ADDED:
        return _ADDED[name]
    module, known = _OURS[name]
    found: type[Mechanism] = getattr(importlib.import_module(f"chaffinch.privacy.{module}"), known)
    return found
