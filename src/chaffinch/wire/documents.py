"""Documents that parties exchange, as files: in one canonical form, with an id, unchanged."""

from __future__ import annotations

import difflib
import hashlib
import json
import tomllib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import (
    Any,
    Literal,
    TypeVar,
    get_args,
)

from pydantic import (
    BaseModel,
    ValidationError,
    create_model,
)

from chaffinch.disk.file_kinds import Kind, document_kind
from chaffinch.disk.files import atomic, read_small
from chaffinch.errors import ChaffinchError, InvalidFile, InvalidInput
from chaffinch.wire.document_forms import Hex64, Written

_OTHER_FORMS = {
    ".html",
    ".htm",
    ".csv",
    ".parquet",
    ".arrow",
    ".svg",
    ".png",
    ".pdf",
    ".toml",
    ".md",
}
"""A file with such a name would be opened by something that cannot read a plan."""

_LARGEST_WRITTEN = 1 << 20
_KINDS = {
    "chaffinch/plan": "this is the plan of a survey, for chaffinch encode, shuffle and analyze",
    "chaffinch/reach-plan": "this is a plan for audiences, for chaffinch reach",
    "chaffinch/columns": "these are shuffled columns, for chaffinch reach analyze",
}
MESSAGES = {
    "missing": "must be there",
    "extra_forbidden": "is not known here",
    "string_type": "must be words in quotes",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "too_short": "has too few entries",
    "too_long": "has more than {max_length} entries",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "greater_than": "must be above {gt:.15g}",
    "greater_than_equal": "must be {ge:.15g} or more",
    "less_than": "must be below {lt:.15g}",
    "less_than_equal": "must be {le:.15g} or less",
    "finite_number": "must be a finite number",
    "string_too_short": "must not be empty",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags} (what other packages add must be "
    "registered first)",
}
"""Faults in the words of people, by what pydantic calls them, with what it knows of each."""
_Document = TypeVar("_Document", bound=BaseModel)
_Made = TypeVar("_Made")


@lru_cache(maxsize=16)
def file_model(model: type[_Document], form: str) -> type[_Document]:
    """Return the model of a file: a document with its format and its id."""
    labels: dict[str, Any] = {"format": (Literal[form], ...), "id": (Hex64, ...)}
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **labels)


def read_document(
    text: str | bytes, model: type[_Document], form: str, *, name: str, kind: Kind = Kind.PLAN
) -> tuple[_Document, dict[str, Any]]:
    """Return a document of that form and its body; refuse one that was changed or is another's."""
    rule = f"{kind.value} in the format {form}"
    try:
        document = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as fault:
        raise InvalidFile(f"file {name}", rule, [f"no JSON document ({fault})"]) from None
    found = document.get("format") if isinstance(document, dict) else None
    if found != form:
        other = str(found).partition("@")[0]
        version = f"{kind.value} of another version needs the chaffinch that wrote it"
        hint = version if form.startswith(f"{other}@") else _KINDS.get(other, "")
        raise InvalidFile(f"file {name}", rule, [named_format(found)], hint=hint)
    content = text.encode(errors="replace") if isinstance(text, str) else text
    if document_kind(content) is not kind:  # then nothing would keep it from being replaced
        raise InvalidFile(
            f"file {name}", rule, ["one that is written in another way"], hint="write it in UTF-8"
        )
    try:
        made = file_model(model, form).model_validate(document)
    except ValidationError as fault:
        raise InvalidFile(f"file {name}", rule, faults_of(fault)) from None
    except (ChaffinchError, OverflowError) as fault:
        raise InvalidFile(f"file {name}", rule, [str(fault).splitlines()[0]]) from None
    body = {key: value for key, value in document.items() if key not in ("format", "id")}
    try:
        unchanged = digest(form, body) == document["id"]
    except UnicodeEncodeError:
        raise InvalidFile(f"file {name}", rule, ["a text with half a character"]) from None
    if not unchanged:
        raise InvalidFile(
            f"file {name}",
            "unchanged since it was written",
            ["content that does not match its id"],
            hint="ask for the original file; do not mend the id by hand",
        )
    return made, body


def require_round_trip(
    build: Callable[[], _Made],
    describe: Callable[[_Made], dict[str, Any]],
    body: dict[str, Any],
    *,
    name: str,
    rule: str,
) -> _Made:
    """Return what a document describes, if describing it again says nothing else."""
    try:
        made = build()
        same = describe(made) == body
    except (ChaffinchError, ValueError, OverflowError) as fault:
        raise InvalidFile(f"file {name}", rule, [str(fault).splitlines()[0]]) from None
    if not same:
        raise InvalidFile(
            f"file {name}",
            "a plan whose guarantee, sizes and shares follow from its parameters",
            ["a document that contradicts itself"],
        )
    return made


def read_toml(
    path: str | Path,
    build: Callable[[dict[str, Any]], _Made],
    model: type[BaseModel],
    *,
    rule: str,
    hint: str,
) -> _Made:
    """Return what is built of a file that somebody wrote; refuse it with all its faults.

    ``model`` knows the keys that a misspelled one may have meant.
    """
    content = read_small(path, most=_LARGEST_WRITTEN, must_be=rule)
    try:
        return build(tomllib.loads(content.decode()))
    except ValidationError as fault:
        faults = [_told(place, one, model) for place, one in _faults(fault)]
    except InvalidInput as fault:
        faults = [fault.message]
    except (ValueError, RecursionError) as fault:
        faults = [f"no TOML document ({fault})"]
    raise InvalidFile(f"file {Path(path).name}", rule, faults, hint=hint)


def faults_of(fault: ValidationError) -> list[str]:
    """Return every fault as "place: what is wrong"."""
    return [f"{place}: {_words(one)}" for place, one in _faults(fault)]


def _faults(fault: ValidationError) -> list[tuple[str, Any]]:
    found = fault.errors(include_url=False, include_input=False)
    return [(".".join(map(_step, one["loc"])) or "document", one) for one in found]


def _told(place: str, fault: Any, model: type[BaseModel]) -> str:
    """Return a fault in words for whoever wrote the file."""
    if fault["type"] != "extra_forbidden":
        return f"{place}: {_words(fault)}"
    *above, word = fault["loc"]
    return f"{place}: {_words(fault)}{guess_of(str(word), _keys_at(model, above))}"


def _words(fault: Any) -> str:
    """Return what is wrong, without the place."""
    usual = str(fault["msg"]).removeprefix("Value error, ").replace("Input should ", "must ")
    return message_of(fault) or usual.partition("\n")[0]  # without the hint of an error of ours


def message_of(fault: Any) -> str:
    """Return what is wrong in the words of people, or nothing where there are none for it."""
    return MESSAGES.get(str(fault["type"]), "").format(**fault.get("ctx", {}))


def _keys_at(model: type[BaseModel], steps: Sequence[int | str]) -> list[str]:
    """Return the keys that are known at a place of a document; none if its model is not plain."""
    for step in steps:
        if isinstance(step, str):
            fields = {one.alias or name: one for name, one in model.model_fields.items()}
            found = _inner_model((fields[step].annotation, *fields[step].metadata))
            if found is None:
                return []
            model = found
    return [one.alias or name for name, one in model.model_fields.items()]


def _inner_model(kind: Any) -> type[BaseModel] | None:
    """Return the first model in a type or in what is said of it; None if there is none."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    inside = (kind.form,) if isinstance(kind, Written) else get_args(kind)
    parts = kind if isinstance(kind, tuple) else inside
    return next((found for one in parts if (found := _inner_model(one))), None)


def named_format(found: object) -> str:
    """Return what a document says of its format, in words."""
    return "no format" if found is None else f"format {found!r:.80}"


def guess_of(word: str, known: Sequence[str]) -> str:
    """Return which known word a misspelled one may have meant, or all that are known."""
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f" (known: {', '.join(known)})" if known else ""


def _step(step: int | str) -> str:
    # A key that nobody can print must not be what stops the message from being printed.
    return str(step) if str(step).isprintable() else ascii(step)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that is there twice: readers would not agree on what the document says."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def canonical(document: object) -> bytes:
    """Return the canonical form of RFC 8785; documents hold texts and whole numbers only.

    Keys are plain ASCII here, for which sorting by code point is the order the RFC asks for.
    """
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def digest(form: str, body: dict[str, Any]) -> str:
    """Return the SHA-256 of the canonical form of a document without its id."""
    return hashlib.sha256(canonical({"format": form, **body})).hexdigest()


def identified(form: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a document with its format and its id."""
    return {"format": form, "id": digest(form, body), **body}


def one_line(form: str, body: dict[str, Any]) -> bytes:
    """Return a document with its id as it is written, in one line: for programs alone."""
    text = json.dumps(identified(form, body), separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def save_document(path: str | Path, form: str, body: dict[str, Any]) -> None:
    """Write a plan's document with its id; only a plan is replaced by it."""
    if Path(path).suffix.lower() in _OTHER_FORMS:
        raise InvalidInput(
            "name of a plan file",
            "one that ends in .json or in nothing known",
            Path(path).name,
            hint="a plan is saved for programs; explain() says it in words",
        )
    # Who only reads documents need not know what else may stand in the place of one.
    from chaffinch.disk.protected import refuse_all_but

    refuse_all_but(Kind.PLAN, path)
    with atomic(path) as file:
        file.write(document_bytes(identified(form, body)))


def document_bytes(document: dict[str, Any]) -> bytes:
    """Return a document as it stands in its file."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
