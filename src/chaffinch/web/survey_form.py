"""The sentence with blanks, and what it asks for, as the text of a survey file.

Whatever is filled in becomes a survey file, and only that is read: so the file that can be taken
home is what was planned, and every fault is told in the words that files have. Several questions
are a file that is written out: it counts as it stands (``own``) until somebody wishes for something
else on the page.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal

from chaffinch.planning.survey_file import ABOUT_DEVICES, SurveyFile, quoted
from chaffinch.protocols.base import TOTALS

_PROMISE = ("epsilon", "delta", "error", "confidence", "together")
_WISHES = ("rounds", "contributions", "honest", "max_messages", "local_epsilon", "influence")
_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WITH_EXPONENT = re.compile(r"[1-9][0-9]{0,11}(\.[0-9]{1,12})?[eE]\+?[0-9]{1,2}")
_BETWEEN_THOUSANDS = re.compile(r"(?<=[0-9])[ ,_\u2009\u202f](?=[0-9]{3}(?![0-9]))")

Form = Mapping[str, str]

DEFAULTS = {
    "users": "10,000",
    "kind": "choice",
    "values": "chrome, firefox, safari, other",
    "low": "0",
    "high": "60",
    "unit": "minutes",
    "name": "answer",
    "lead": "epsilon",
    "epsilon": "1",
    "error": "0.5",
}
"""What stands there when the page is opened."""


def survey_text(form: Form) -> str:
    """Return the survey file of what was filled in.

    >>> print(survey_text({"users": "5,000", "kind": "bit", "lead": "epsilon", "epsilon": "1"}))
    users = 5000
    epsilon = 1
    <BLANKLINE>
    [questions.answer]
    kind = "bit"
    <BLANKLINE>
    """
    if form.get("kind") == "survey" and form.get("own"):
        return form.get("survey", "").replace("\r\n", "\n")
    head = [f"{name} = {_number(said)}" for name, said in _promise(form).items()]
    # What a field holds that is not shown does not count.
    left_out = dict(ABOUT_DEVICES) if form.get("view") == TOTALS else {}
    wishes = {name: form.get(name, "") for name in _WISHES if name not in left_out}
    head += [f"{name} = {_number(said)}" for name, said in wishes.items() if said.strip()]
    if form.get("protocol", "") and "protocol" not in left_out:
        head += [f"protocol = {quoted(form['protocol'])}"]
    if form.get("title", "").strip():
        head.insert(0, f"title = {quoted(form['title'])}")
    if form.get("kind") == "survey":
        return _with_head(form.get("survey", ""), head)
    head.insert(0, f"users = {_number(form.get('users', ''))}")
    name = form.get("name", "").strip() or "answer"
    return "\n".join([*head, "", f"[questions.{_quoted_key(name)}]", *_question(form), ""])


def wishes_of(asked: SurveyFile) -> dict[str, str]:
    """Return what stands in the fields of a survey file's wishes; nothing in those it has not.

    >>> from dataclasses import replace
    >>> from chaffinch.planning.survey_file import EXAMPLE, survey_from
    >>> wishes_of(replace(survey_from(EXAMPLE), rounds=3))["rounds"]
    '3'
    """
    unasked = {one.name: one.default for one in fields(SurveyFile)} | dict(ABOUT_DEVICES)
    return {
        name: "" if (wish := getattr(asked, name)) == unasked[name] else _written(wish)
        for name in _WISHES
    }


def _written(wish: float) -> str:
    return "none" if math.isinf(wish) else f"{wish:.12g}"


def _promise(form: Form) -> dict[str, str]:
    if form.get("lead") == "error":
        promise = {"error": f"{form.get('error', '').strip().removesuffix('%').strip()}%"}
    else:
        promise = {"epsilon": form.get("epsilon", "")}
    return promise | ({"delta": form["delta"]} if form.get("delta", "").strip() else {})


def _question(form: Form) -> list[str]:
    kind = form.get("kind", "")
    lines = [f"kind = {quoted(kind)}"]
    if kind == "number":
        lines += [
            f"low = {_number(form.get('low', ''))}",
            f"high = {_number(form.get('high', ''))}",
        ]
        if form.get("unit", "").strip():
            lines.append(f"unit = {quoted(form['unit'].strip())}")
        lines += [f"{name} = true" for name in ("spread", "quantiles") if form.get(name)]
    elif kind in ("choice", "flags"):
        listed = [one.strip() for one in re.split(r"[,\n]", form.get("values", "")) if one.strip()]
        name = "values" if kind == "choice" else "names"
        lines.append(f"{name} = [{', '.join(map(quoted, listed))}]")
    return lines


def _with_head(text: str, head: list[str]) -> str:
    """Return a survey file with other wishes: what stands above its first table is replaced.

    One that is no TOML stays as it is, so that its faults are told by the lines it has.
    """
    # Browsers may end lines as Windows does; other ends of lines are part of a text.
    lines = re.split(r"\r?\n", text)
    if not _is_whole(lines):
        return text
    # A list over several lines begins some of them as a table does: what is above it is not whole.
    begins = (at for at, line in enumerate(lines) if line.lstrip().startswith("["))
    first = next((at for at in begins if _is_whole(lines[:at])), len(lines))
    replaced = {*(line.partition(" =")[0] for line in head), *_PROMISE}
    kept = [one for one in lines[:first] if one.partition("=")[0].strip(" \t\"'") not in replaced]
    above = "\n".join(["\n".join(kept).rstrip("\n"), *head]).lstrip("\n")
    below = "\n".join(lines[first:]).rstrip("\n")
    return "\n\n".join(filter(None, [above, below])) + "\n"


def _is_whole(lines: list[str]) -> bool:
    try:
        tomllib.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return False
    return True


def bare_number(said: str) -> str:
    """Return a number without what people write between thousands; 1e6 is a whole one.

    >>> bare_number(" 1,200,000"), bare_number("10,0000"), bare_number("1.5e6"), bare_number("1e-8")
    ('1200000', '10,0000', '1500000', '1e-8')
    """
    bare = _BETWEEN_THOUSANDS.sub("", said.strip())
    if not _WITH_EXPONENT.fullmatch(bare):
        return bare
    number = Decimal(bare)
    return str(int(number)) if number == int(number) else bare


def _number(said: str) -> str:
    """Return a number as TOML has it; what is none goes on as a text."""
    bare = bare_number(said)
    if said.strip() == "none" or not _NUMBER.fullmatch(bare):
        return quoted(said.strip())
    return bare.removeprefix("+")


def _quoted_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)
