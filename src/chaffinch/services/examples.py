"""The example of a settings file, generated from the models that read it.

A field has a description and an example. A description that is a sentence stands above the value,
a phrase beside it. Optional values are commented out; the example of a limit is its default.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from chaffinch.services.settings import ServiceModel, numbers_of

_HEADER = """\
Paths are taken from where this file is. What is commented out is the default, unless its line \
says what holds without it."""
_WIDTH = 97
_BESIDE = 32
"""The column in which the text beside a value begins."""


def write_example(title: str, model: type[BaseModel]) -> str:
    """Return an example of a model's file."""
    return "\n".join((f"# {title}", *_above(_HEADER), "", *_table(model))) + "\n"


def _value(name: str, value: object, text: str, *, off: bool) -> Iterator[str]:
    """Yield a value and what is said of it, commented out if it is ``off``."""
    line = f"{'# ' if off else ''}{name} = {json.dumps(value)}"
    if text.endswith("."):
        yield from _above(text)
        yield line
        return
    beside = textwrap.wrap(text, _WIDTH - _BESIDE - 2)
    for left, right in zip_longest([line], beside or [""], fillvalue=""):
        yield f"{left:<{_BESIDE - 2}}  # {right}" if right else left


def _table(model: type[BaseModel], path: str = "", *, off: bool = False) -> Iterator[str]:
    """Yield the values of a table, then the tables inside of it, the limits last."""
    inside: list[tuple[str, FieldInfo, type[BaseModel]]] = []
    for name, one in model.model_fields.items():
        table = _model_of(one)
        if table is not None:
            inside.append((name, one, table))
        elif name != "limits":
            (shown,) = one.examples or [one.default]
            hidden = off or not one.is_required()
            yield from _value(name, shown, one.description or "", off=hidden)
    for name, one, table in inside:
        where = f"{path}.{name}".removeprefix(".")
        hidden = off or not one.is_required()
        yield ""
        yield from _above(one.description or "")
        yield f"{'# ' if hidden else ''}[{where}]"
        yield from _table(table, where, off=hidden)
    if issubclass(model, ServiceModel):
        yield from ("", f"[{path}.limits]")
        for name, number in numbers_of(*model.limited).items():
            yield from _value(name, number.example, number.text, off=True)


def _above(text: str) -> Iterator[str]:
    return (f"# {line}" for line in textwrap.wrap(text, _WIDTH - 2))


def _model_of(one: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a field that is a table, also if it may be left out."""
    kinds = (one.annotation, *get_args(one.annotation))
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)
