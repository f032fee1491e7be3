"""What releases of all kinds share as documents: their fields, and how a file of them is read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NoReturn, TypeVar

from pydantic import AfterValidator, Field, FiniteFloat, ValidationError

from chaffinch.disk.files import read_small
from chaffinch.errors import ChaffinchError, InvalidFile
from chaffinch.privacy import Guarantee
from chaffinch.release.publication import Publication
from chaffinch.wire.document_forms import Form, Written
from chaffinch.wire.documents import faults_of, named_format, unique_keys

_LARGEST_FILE = 1 << 30
_LARGEST_NUMBER = 1e280
_OTHERS = {
    "chaffinch/release@1": "this is the release of a survey: use chaffinch.load_release",
    "chaffinch/reach-release@1": "this is the release of a reach: use chaffinch.reach.load_release",
    "chaffinch/trend@1": "this is a trend of several releases: `chaffinch web` shows it",
}
_VERSION = "a release of another version needs the chaffinch that wrote it"


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must hold no control characters and no halves of characters")
    return text


def countable(number: int) -> int:
    """Refuse a number that nobody has counted up to."""
    # Beyond this a number is no float any more, and nobody has so many of anything.
    if number >= 2**63:
        raise ValueError("must be below 2^63")
    return number


def _moderate(number: float) -> float:
    # Sums of such numbers, and their products with any count, are still finite.
    if abs(number) > _LARGEST_NUMBER:
        raise ValueError(f"must lie within ±{_LARGEST_NUMBER:g}")
    return number


Text = Annotated[str, AfterValidator(_printable)]
Real = Annotated[FiniteFloat, AfterValidator(_moderate)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(_moderate)]
Count = Annotated[int, Field(ge=1), AfterValidator(countable)]


def _read_infinite(value: float | Literal["infinite"]) -> float:
    return math.inf if value == "infinite" else float(value)


def _write_infinite(value: float) -> float | str:
    return "infinite" if value == math.inf else value


Epsilon = Annotated[float, Written(Amount | Literal["infinite"], _read_infinite, _write_infinite)]
"""JSON has no infinity, so that is the word "infinite"."""


class GuaranteeForm(Form):
    """The promise, with everything it depends on."""

    makes = Guarantee

    epsilon: Annotated[float, Written(Amount, write=_write_infinite)]
    delta: Annotated[float, Field(ge=0, le=1)]
    neighbours: Text
    view: Text
    crowd: Text
    local_epsilon: Epsilon
    method: Literal["exact", "upper-bound", "worst-pair-assumed", "monte-carlo", "published"]


# ---------------------------------------------------------------------- reading

_Made = TypeVar("_Made", bound=Publication)


@dataclass(frozen=True)
class ReleaseFormat(Generic[_Made]):
    """One kind of release files: its format, what is built of one, what none of them can say."""

    name: str
    build: Callable[[dict[str, Any]], _Made]
    contradictions: Callable[[_Made], Iterator[str]]

    @property
    def _rule(self) -> str:
        return f"a release in the format {self.name}"

    def load(self, path: str | Path) -> _Made:
        """Return the release in a file; refuse one of another format or with any fault."""
        text = read_small(path, most=_LARGEST_FILE, must_be=self._rule)
        return self.read(text, name=Path(path).name)

    def read(self, text: str | bytes, *, name: str = "release") -> _Made:
        """Return the release in a text, or raise one error with everything that is wrong."""
        document = self._document(text, name)
        try:
            release = self.build(document)
            # What was left out, or is there in part, would come back different.
            changed = release.document() != document
        except ValidationError as fault:
            raise InvalidFile(f"file {name}", self._rule, faults_of(fault)) from None
        except (ChaffinchError, ArithmeticError, ValueError) as fault:
            raise InvalidFile(f"file {name}", self._rule, [str(fault).splitlines()[0]]) from None
        found = self.contradictions(release)
        faults = [f"a document that contradicts itself: {one}" for one in found]
        if changed and not faults:
            faults = ["a document that contradicts itself"]
        if faults:
            raise InvalidFile(f"file {name}", self._rule, faults)
        return release

    def _document(self, text: str | bytes, name: str) -> dict[str, Any]:
        try:
            document = json.loads(text, parse_constant=_refuse_word, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError):
            raise InvalidFile(f"file {name}", self._rule, ["no JSON document"]) from None
        found = document.get("format") if isinstance(document, dict) else None
        if found != self.name:
            hint = _OTHERS.get(found, _VERSION) if isinstance(found, str) else ""
            raise InvalidFile(f"file {name}", self._rule, [named_format(found)], hint=hint)
        return dict(document)


def _refuse_word(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")
