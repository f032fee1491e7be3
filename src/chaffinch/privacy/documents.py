"""Mechanisms as small documents: exact parameters in, the same mechanism out.

A document is what a file can hold (JSON types only) and a person can read. It says what was
asked, never an epsilon: the numbers are proven anew from the parameters whenever they are
needed. Every mechanism has exactly one document, so equal documents mean equal mechanisms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from chaffinch.errors import InvalidInput, checks
from chaffinch.privacy.composition import Composition
from chaffinch.privacy.groups import Grouped
from chaffinch.privacy.mechanism import Mechanism
from chaffinch.privacy.mechanisms.bits import FlippedBits
from chaffinch.privacy.mechanisms.decoys import DecoyedValues
from chaffinch.privacy.mechanisms.filters import FlippedAudiences, FlippedFilters
from chaffinch.privacy.mechanisms.numbers import EncodedNumbers
from chaffinch.privacy.mechanisms.records import FlippedVectors
from chaffinch.privacy.mechanisms.responders import RandomResponders
from chaffinch.privacy.mechanisms.sampled_counts import SampleAndThreshold
from chaffinch.privacy.mechanisms.signed import SignedDecoys
from chaffinch.privacy.mechanisms.values import FlippedValues
from chaffinch.privacy.numerics.precision import GRAIN
from chaffinch.privacy.shortened_reports import Shortened

_MOST_ROUNDS = 10**12
"""More rounds of one part than this are refused: ``compose`` of ``compose`` makes no more."""

_LONGEST = 400
"""Digits. Enough for every float with three of them, so for every chance that a plan charges."""
_FRACTION = re.compile(r"(0|[1-9][0-9]*)/(2\^64|[1-9][0-9]*)", re.ASCII)


def mechanism_document(mechanism: Mechanism) -> dict[str, Any]:
    """Return the one document of a mechanism.

    >>> mechanism_document(FlippedBits(users=1000, flip_probability="1/4", copies=3))["users"]
    1000
    >>> mechanism_document(DecoyedValues(decoys=50, values=5))
    {'mechanism': 'decoyed-values', 'values': 5, 'decoys': 50}
    """
    name = _NAMES.get(type(mechanism))
    if name is None:
        known = ", ".join(kind.__name__ for kind in _NAMES)
        raise InvalidInput("mechanism", f"one of {known}", type(mechanism).__name__)
    return {"mechanism": name, **_FORMS[name].write(mechanism)}


def mechanism_from(document: object) -> Mechanism:
    """Return the mechanism of a document; refuse unknown names, fields and spellings.

    >>> bits = FlippedBits(users=1000, flip_probability="1/3")
    >>> mechanism_from(mechanism_document(bits)) == bits
    True
    """
    fields = _fields("mechanism document", document)
    name = checks.choice("mechanism", fields.pop("mechanism", None), tuple(_FORMS))
    mechanism = _FORMS[name].read(fields)
    # A second spelling of the same mechanism would have a second digest.
    if mechanism_document(mechanism) != document:
        raise InvalidInput("mechanism document", "written in its one canonical way", document)
    return mechanism


def fraction_text(parameter: str, value: Fraction) -> str:
    """Return an exact probability as text: ``k/2^64`` where it is one, else ``a/b``.

    >>> fraction_text("flip", Fraction(1, 4)), fraction_text("flip", Fraction(1, 3))
    ('4611686018427387904/2^64', '1/3')
    """
    if GRAIN % value.denominator == 0:
        return f"{value * GRAIN}/2^64"
    if value.denominator.bit_length() > 3 * _LONGEST:
        raise InvalidInput(parameter, f"a fraction of fewer than {_LONGEST} digits", "a longer one")
    return f"{value.numerator}/{value.denominator}"


def _fraction_from(parameter: str, text: object) -> Fraction:
    """Return the exact probability that ``fraction_text`` wrote.

    >>> _fraction_from("flip", "4611686018427387904/2^64")
    Fraction(1, 4)
    """
    rule = "a fraction written as k/2^64 or a/b"
    found = None
    if isinstance(text, str) and len(text) <= 3 * _LONGEST:
        found = _FRACTION.fullmatch(text)
    if found is None:
        raise InvalidInput(parameter, rule, text)
    below = GRAIN if found[2] == "2^64" else int(found[2])
    value = Fraction(int(found[1]), below)
    if fraction_text(parameter, value) != text:
        raise InvalidInput(parameter, rule + " in lowest terms", text)
    return value


def _fields(thing: str, document: object) -> dict[str, Any]:
    if not isinstance(document, Mapping) or not all(isinstance(key, str) for key in document):
        raise InvalidInput(thing, "a table of named fields", document)
    return dict(document)


def _check_names(form: str, fields: Mapping[str, Any], names: tuple[str, ...]) -> None:
    if set(fields) != set(names):
        raise InvalidInput(f"fields of {form}", "exactly " + ", ".join(names), sorted(fields))


@dataclass(frozen=True)
class _Form:
    """How one class of mechanisms becomes fields and comes back."""

    kind: type[Mechanism]
    write: Callable[[Any], dict[str, Any]]
    read: Callable[[dict[str, Any]], Mechanism]


def _plain_form(kind: type[Mechanism], *names: str) -> _Form:
    """Return the form of a class whose attributes are its parameters (whole numbers, words)."""
    return _Form(kind, partial(_write_plain, names), partial(_read_plain, kind, names))


def _write_plain(names: tuple[str, ...], mechanism: Mechanism) -> dict[str, Any]:
    return {name: _write_field(name, getattr(mechanism, name)) for name in names}


def _read_plain(kind: type[Mechanism], names: tuple[str, ...], fields: dict[str, Any]) -> Mechanism:
    _check_names(kind.__name__, fields, names)
    return kind(**{name: _read_field(name, value) for name, value in fields.items()})


def _write_field(name: str, value: Any) -> Any:
    return fraction_text(name, value) if name in _PROBABILITIES else value


def _read_field(name: str, value: Any) -> Any:
    if isinstance(value, float):
        # 9.0 equals 9 and has another digest.
        raise InvalidInput(name, "a whole number or a text", value)
    return _fraction_from(name, value) if name in _PROBABILITIES else value


_PROBABILITIES = ("flip_probability", "decoy_rate", "sampling_rate")


def _write_decoyed(mechanism: DecoyedValues) -> dict[str, Any]:
    # Users who all send a decoy and a guaranteed number of decoys are the same mechanism.
    if mechanism.rate == 1:
        return {"values": mechanism.values, "decoys": mechanism.senders}
    rate = fraction_text("decoy_rate", mechanism.rate)
    return {"values": mechanism.values, "users": mechanism.senders, "decoy_rate": rate}


def _read_decoyed(fields: dict[str, Any]) -> DecoyedValues:
    names = ("values", "decoys") if "decoys" in fields else ("values", "users", "decoy_rate")
    _check_names("DecoyedValues", fields, names)
    return DecoyedValues(**{name: _read_field(name, value) for name, value in fields.items()})


def _write_signed(mechanism: SignedDecoys) -> dict[str, Any]:
    fields: dict[str, Any] = {"question": mechanism.question}
    for name in ("plus_ratio", "minus_ratio"):
        fields[name] = fraction_text(name, getattr(mechanism, name))
    fields["flood"] = [fraction_text("flood", rate) for rate in mechanism.flood]
    fields["steps"] = mechanism.steps
    fields["share"] = fraction_text("share", mechanism.share)
    return fields


def _read_signed(fields: dict[str, Any]) -> SignedDecoys:
    names = ("question", "plus_ratio", "minus_ratio", "flood", "steps", "share")
    _check_names("SignedDecoys", fields, names)
    if not isinstance(fields["flood"], (list, tuple)):
        raise InvalidInput("flood", "a list of rates", fields["flood"])
    ratios = ("plus_ratio", "minus_ratio", "share")
    exact = {name: _fraction_from(name, fields[name]) for name in ratios}
    flood = [_fraction_from("flood", rate) for rate in fields["flood"]]
    return SignedDecoys(**{**fields, **exact, "flood": flood})


def _write_shortened(mechanism: Shortened) -> dict[str, Any]:
    distance = fraction_text("distance", mechanism.distance)
    short = mechanism.shortfall
    # Mechanisms without one are written as they were before there was any.
    some = {"shortfall": fraction_text("shortfall", short)} if short else {}
    return {"distance": distance, "inner": mechanism_document(mechanism.inner)} | some


def _read_shortened(fields: dict[str, Any]) -> Shortened:
    short = _fraction_from("shortfall", fields.pop("shortfall", "0/2^64"))
    _check_names("Shortened", fields, ("distance", "inner"))
    distance = _fraction_from("distance", fields["distance"])
    return Shortened(mechanism_from(fields["inner"]), distance, short)


def _write_grouped(mechanism: Grouped) -> dict[str, Any]:
    return {"records": mechanism.records, "inner": mechanism_document(mechanism.inner)}


def _read_grouped(fields: dict[str, Any]) -> Grouped:
    _check_names("Grouped", fields, ("records", "inner"))
    return Grouped(mechanism_from(fields["inner"]), fields["records"])


def _write_composition(mechanism: Composition) -> dict[str, Any]:
    parts = [
        {"times": _rounds(count), "part": mechanism_document(_single(part))}
        for part, count in mechanism.parts
    ]
    if mechanism.resolution is None:
        return {"parts": parts}
    return {"parts": parts, "resolution": mechanism.resolution.hex()}


def _read_composition(fields: dict[str, Any]) -> Composition:
    resolution = _read_resolution(fields.pop("resolution")) if "resolution" in fields else None
    _check_names("Composition", fields, ("parts",))
    if not isinstance(fields["parts"], (list, tuple)):
        raise InvalidInput("parts of a composition", "a list", fields["parts"])
    parts = []
    for entry in fields["parts"]:
        part = _fields("part of a composition", entry)
        _check_names("a part of a composition", part, ("times", "part"))
        parts.append((_single(mechanism_from(part["part"])), _rounds(part["times"])))
    return Composition(tuple(parts), resolution)


def _single(part: Mechanism) -> Mechanism:
    if isinstance(part, Composition):
        raise InvalidInput("part of a composition", "a single mechanism", "a composition")
    return part


def _rounds(count: object) -> int:
    return checks.whole("number of times", count, least=1, most=_MOST_ROUNDS)


def _read_resolution(text: object) -> float:
    try:
        value = float.fromhex(text) if isinstance(text, str) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    return checks.real("resolution", value, least=1e-9, most=1.0)


_FORMS = {
    "flipped-bits": _plain_form(FlippedBits, "users", "flip_probability", "copies", "decoys"),
    "decoyed-values": _Form(DecoyedValues, _write_decoyed, _read_decoyed),
    "flipped-values": _plain_form(FlippedValues, "users", "values", "flip_probability", "decoys"),
    "flipped-vectors": _plain_form(FlippedVectors, "users", "bits", "flip_probability"),
    "encoded-numbers": _plain_form(
        EncodedNumbers, "users", "resolution", "flip_probability", "slots"
    ),
    "flipped-filters": _plain_form(FlippedFilters, "filters", "bits", "flip_probability"),
    "flipped-audiences": _plain_form(
        FlippedAudiences, "filters", "bits", "hashes", "flip_probability"
    ),
    "random-responders": _plain_form(RandomResponders, "responders"),
    "sample-and-threshold": _plain_form(
        SampleAndThreshold, "sampling_rate", "threshold", "neighbours"
    ),
    "signed-decoys": _Form(SignedDecoys, _write_signed, _read_signed),
    "shortened": _Form(Shortened, _write_shortened, _read_shortened),
    "grouped": _Form(Grouped, _write_grouped, _read_grouped),
    "composition": _Form(Composition, _write_composition, _read_composition),
}

_NAMES = {form.kind: name for name, form in _FORMS.items()}
