"""The Python program that makes the same plan as a survey file: what a page shows to be copied."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from chaffinch.planning.survey_file import SurveyFile

_WIDTH = 88
_WISHES = (
    "target",
    "error",
    "delta",
    "rounds",
    "contributions",
    "max_messages",
    "honest",
    "local_epsilon",
    "influence",
    "protocol",
    "view",
    "anyway",
)
"""What a survey file may ask for beyond its questions and the crowd."""
_ANYWAY = ("[]", "{}")
"""Nothing of many: a default that no signature tells."""


class _Group(NamedTuple):
    """Something in brackets, which stands on one line or has a line for each part."""

    opening: str
    parts: tuple[tuple[str, _Group | str], ...]
    """Each with what stands before it: its name, or its key."""
    closing: str

    def __str__(self) -> str:
        inside = ", ".join(f"{before}{part}" for before, part in self.parts)
        return f"{self.opening}{inside}{self.closing}"


def as_program(asked: SurveyFile) -> str:
    r"""Return a program whose plan has the id of the survey's own.

    >>> from chaffinch.planning.survey_file import survey_from
    >>> text = 'users = 5000\nepsilon = 1.0\n[questions.member]\nkind = "bit"'
    >>> print(as_program(survey_from(text)))
    import chaffinch as cf
    <BLANKLINE>
    plan = cf.plan(
        cf.Survey({"member": cf.Bit()}),
        users=5_000,
        target=cf.Target(1.0, 1e-08),
    )
    """
    usual = {one.name: one.default for one in fields(SurveyFile)}
    wishes = {name: getattr(asked, name) for name in _WISHES}
    given: dict[str, _Group | str] = {
        f"{name}=": _expression(value)
        for name, value in wishes.items()
        if value is not None and value != usual[name]
    }
    parts: tuple[tuple[str, _Group | str], ...] = (
        ("", _call(asked.survey)),
        ("users=", f"{asked.users:_}"),
        *given.items(),
    )
    call = _Group("cf.plan(", parts, ")")
    imports = ["import math\n"] if "math.inf" in str(call) else []
    lines = [*imports, "import chaffinch as cf", "", f"plan = {_laid_out(call, 0, 0)}"]
    return "\n".join(lines)


def _expression(value: Any) -> _Group | str:
    if isinstance(value, Mapping):
        pairs = tuple((f"{_expression(name)}: ", _expression(one)) for name, one in value.items())
        return _Group("{", pairs, "}")
    if isinstance(value, (list, tuple, range)):
        return _Group("[", tuple(("", _expression(one)) for one in value), "]")
    if isinstance(value, str):
        # In double quotes, as formatters write it.
        return repr(value) if '"' in value else f'"{repr(chr(39) + value)[2:-1]}"'
    if isinstance(value, (bool, int, float)):
        return "math.inf" if value == math.inf else repr(value)
    return _call(value)


def _call(one: object) -> _Group:
    """Return the call that makes a question, a survey or a promise, without what is usual."""
    parts: list[tuple[str, _Group | str]] = []
    named = False
    for name, parameter in inspect.signature(type(one)).parameters.items():
        value = getattr(one, name)
        written = _expression("" if value is None else value)
        usual = value == parameter.default or str(written) in _ANYWAY
        # Behind one that is left out, or where no place is given, each needs its name.
        named |= usual or parameter.kind is parameter.KEYWORD_ONLY
        if not usual:
            parts.append((f"{name}=" if named else "", written))
    return _Group(f"cf.{type(one).__name__}(", tuple(parts), ")")


def _laid_out(one: _Group | str, indent: int, before: int) -> str:
    line = str(one)
    # A call of the whole plan always has a line for each wish.
    if isinstance(one, str) or (indent and indent + before + len(line) < _WIDTH):
        return line
    deeper = " " * (indent + 4)
    body = "".join(
        f"{deeper}{name}{_laid_out(part, indent + 4, len(name))},\n" for name, part in one.parts
    )
    return f"{one.opening}\n{body}{' ' * indent}{one.closing}"
