"""A document is declared once: reading, writing, its schema and its checks follow from a form.

A number that must be exact is a text: JSON readers disagree about digits. Unknown fields are
refused everywhere, and what a version means never changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial
from inspect import get_annotations
from operator import attrgetter
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic.fields import FieldInfo
from pydantic_core import core_schema

_Item = TypeVar("_Item")


class Strict(BaseModel):
    """A model that knows its fields and takes no others."""

    # A NaN stays one, so that it is refused and not written as null.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, ser_json_inf_nan="constants"
    )


def _unchanged(value: Any) -> Any:
    """Return a value that stands in a document as it is."""
    return value


@dataclass(frozen=True)
class Written:
    """How a value of a field stands in a document: the type there, how to read and to write it."""

    form: Any
    read: Callable[[Any], Any] = _unchanged
    write: Callable[[Any], Any] = _unchanged

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(
            self.read,
            handler.generate_schema(self.form),
            serialization=core_schema.plain_serializer_function_ser_schema(self.write),
        )


@dataclass(frozen=True)
class Listed:
    """How a tuple stands in a document: as a list, of so many entries.

    The entries are those of a list for the validator too: their number is checked before any of
    them, so that a long list of wrong entries is one fault.
    """

    at_least: int = 0
    at_most: int | None = None

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        listed = core_schema.list_schema(
            handler.generate_schema(get_args(source)[0]),
            min_length=self.at_least or None,
            max_length=self.at_most,
        )
        return core_schema.no_info_after_validator_function(
            tuple,
            listed,
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda values, write: write([*values]), schema=listed
            ),
        )


Many = Annotated[tuple[_Item, ...], Listed()]
"""A list in a document, a tuple in what it describes."""


def _without_defaults(schema: dict[str, Any]) -> None:
    """Leave the defaults of fields out of a schema: most of them must not stand in a document."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)


class Form(Strict):
    """The declaration of a document: its schema, its checks, and how it is read and written.

    A field is an attribute of the object that is described, under the same name; its key in the
    document is another one where the field has an alias. A field that is a form itself is a
    *section*: it holds attributes of the same object. A field with one possible value, as ``kind``
    or ``format``, is a *label*: it is written and checked, and not part of the object.
    """

    model_config = ConfigDict(json_schema_extra=_without_defaults)

    makes: ClassVar[Callable[..., Any]]
    """What is called with the attributes to build the object."""
    leaves_out_defaults: ClassVar[bool] = True
    """Whether a field with its default is left out; otherwise all fields are written.

    The form of a document decides for its sections, too.
    """

    def build(self) -> Any:
        """Return the object that a document describes."""
        return type(self).makes(**self.attributes())

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the object, sections unfolded.

        Fields of a subclass that does not say what it ``makes`` are not among them.
        """
        forms = [one for one in type(self).__mro__ if issubclass(one, Form)]
        form = next((one for one in forms if "makes" in one.__dict__), forms[0])
        found: dict[str, Any] = {}
        for name, field in form.model_fields.items():
            value = getattr(self, name)
            if isinstance(value, Form):
                found |= value.attributes()
            elif not _is_label(field):
                found[name] = value
        return found

    @classmethod
    def describe(cls, described: Any) -> Self:
        """Return the form of an object."""
        return cls.model_construct(**{name: get(described) for name, get in _getters(cls)})

    @classmethod
    def document(cls, described: object) -> dict[str, Any]:
        """Return what a document says of an object, in the order of the fields."""
        return cls.describe(described).model_dump(
            mode="json",
            by_alias=True,
            exclude_defaults=cls.leaves_out_defaults,
            warnings="error",  # pydantic would write a value of another type in a way of its own
        )

    @classmethod
    def written(cls) -> Written:
        """Return how an object stands in a field of another document."""
        return Written(cls, cls.build, cls.document)

    @classmethod
    def as_tuple(cls) -> Written:
        """Return how a tuple, in the order of the fields, stands in a field of a document."""

        def write(values: Sequence[object]) -> dict[str, Any]:
            return cls.document(SimpleNamespace(**dict(zip(cls.model_fields, values, strict=True))))

        return Written(cls, lambda form: tuple(dict(form).values()), write)


def _is_label(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1


@lru_cache(maxsize=256)
def _getters(form: type[Form]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Return how each field is taken from an object."""
    return tuple((name, _getter(name, field)) for name, field in form.model_fields.items())


def _getter(name: str, field: FieldInfo) -> Callable[[Any], Any]:
    kind = field.annotation
    if isinstance(kind, type) and issubclass(kind, Form):
        return kind.describe
    return partial(_label, name, get_args(kind)[0]) if _is_label(field) else attrgetter(name)


def _label(name: str, label: object, described: object) -> object:
    """Return a label; refuse an object that says something else there."""
    if getattr(described, name, label) != label:
        raise ValueError(f"{name} is not {label!r}")
    return label


@lru_cache(maxsize=64)
def form_of(made: type[Any], **labels: str) -> type[Form]:
    """Return the form of a dataclass that holds whole numbers, texts, exact fractions, and tuples.

    Each field is in the document under its name; one that may be None is left out then.
    """
    declared: dict[str, Any] = {name: (Literal[text], ...) for name, text in labels.items()}
    types = _field_types(made)
    for one in fields(made):
        if hasattr(Form, one.name):
            raise TypeError(f"a field called {one.name!r}")
        declared[one.name] = (_declared(types[one.name]), None if one.default is None else ...)
    form = create_model(made.__name__, __base__=Form, __doc__=made.__doc__, **declared)
    form.makes = made
    return form


def _field_types(made: type[Any]) -> dict[str, Any]:
    """Return the types of the fields alone: those of class variables may not be there to import."""
    names, found = {one.name for one in fields(made)}, dict[str, Any]()
    for base in reversed(made.__mro__):
        own = get_annotations(base)
        said = SimpleNamespace(__annotations__={name: own[name] for name in names & own.keys()})
        found |= get_type_hints(said, vars(sys.modules[base.__module__]), dict(vars(base)))
    return found


def _declared(kind: Any) -> Any:
    """Return the type of a field of a form for one of a dataclass."""
    if kind in (int, str, bool, NoneType):
        return kind
    if kind is Fraction:
        return Exact
    if isinstance(kind, type) and is_dataclass(kind):
        return Annotated[kind, form_of(kind).written()]
    inner = get_args(kind)
    if get_origin(kind) is tuple and inner[1:] == (...,):
        return Many[_declared(inner[0])]  # type: ignore[misc]
    if get_origin(kind) in (Union, UnionType) and not {str, Fraction} <= {*inner}:
        return Union[tuple(map(_declared, inner))]  # noqa: UP007 - made at run time
    raise TypeError(str(kind))


# ---------------------------------------------------------------------- texts and numbers

_EXACT = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$"
_REAL = r"^([0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|infinite)$"
RealNumber = Annotated[str, Field(pattern=r"^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$", max_length=40)]
Hex32 = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
"""A random name or a fingerprint: 128 bits in hexadecimal."""
Hex64 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in hexadecimal."""


def exact_text(value: Fraction) -> str:
    """Return a dyadic or decimal fraction as a decimal text, with no digit lost.

    >>> exact_text(Fraction(3, 8))
    '0.375'
    """
    with localcontext() as context:
        context.prec = 200
        text = format(Decimal(value.numerator) / Decimal(value.denominator), "f")
    if Fraction(text) != value:
        raise ValueError(f"{value} has no finite decimal form")
    return text


def real_text(value: float) -> str:
    """Return a float as the shortest text that reads back the same."""
    return "infinite" if value == float("inf") else repr(float(value)).removesuffix(".0")


def _real(text: str) -> float:
    return float("inf") if text == "infinite" else float(text)


Exact = Annotated[
    Fraction,
    Written(Annotated[str, Field(pattern=_EXACT, max_length=80)], Fraction, exact_text),
]
"""A fraction as a decimal text, exact to the last digit."""
RealText = Annotated[
    float, Written(Annotated[str, Field(pattern=_REAL, max_length=40)], _real, real_text)
]
"""A float as a text, which may be infinite."""
