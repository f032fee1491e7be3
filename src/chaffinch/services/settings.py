"""The settings of services: TOML files that their operators write, and examples of them.

This is what the file of a hop and that of an analyzer share. All faults of a file are reported at
once; unknown keys are refused. Paths are relative to the folder of the file.
"""

from __future__ import annotations

import json
import re
import shutil
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from itertools import zip_longest
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, Field, field_validator
from pydantic.fields import FieldInfo

from chaffinch.disk.files import read_small
from chaffinch.errors import InvalidFile, InvalidInput, StorageFault, Unquoted
from chaffinch.keys import KeyFolder
from chaffinch.plans.kinds import RunPlan, load_any_plan
from chaffinch.services.connections import Limits
from chaffinch.services.http import Application
from chaffinch.services.server import Listener
from chaffinch.wire.document_forms import Strict
from chaffinch.wire.documents import MESSAGES, guess_of, read_toml
from chaffinch.wire.exchange import Exchange, NoReply

ADMIN = "For operators: /healthz, /readyz, /metrics, /status. Keep it on a loopback address."
"""What an example says of the address for operators."""
_LARGEST = 1 << 20
_ANSWER_SECONDS = 2.0
_RULE = "the settings of a service"
_ADDRESS = "HOST:PORT, such as 127.0.0.1:8080"
_Model = TypeVar("_Model", bound=BaseModel)
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class Tls:
    """A certificate chain and its private key, both in PEM."""

    certificate: Path
    private_key: Path


@dataclass(frozen=True)
class Address:
    """Where a service listens; port 0 is any free one."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Address:
        """Return the address in words such as ``127.0.0.1:8080`` or ``[::1]:8080``.

        >>> Address.of("[::1]:8080")
        Address(host='::1', port=8080)
        """
        host, _, port = text.rpartition(":")
        if not (host and re.fullmatch("[0-9]{1,5}", port) and int(port) < 1 << 16):
            raise InvalidInput("address to listen on", _ADDRESS, text)
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        """Return the address as it is written."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def listener(self, application: Application, tls: Tls | None = None) -> Listener:
        """Return what listens here."""
        if tls is None:
            return Listener(application, self.host, self.port)
        return Listener(application, self.host, self.port, tls.certificate, tls.private_key)


def silent_of(admins: Mapping[str, Address]) -> dict[str, str]:
    """Return the services that do not answer their operators, with the address of each.

    Where the port is any free one, nobody knows whom to ask.
    """
    exchange = Exchange(connect_seconds=_ANSWER_SECONDS, reply_seconds=_ANSWER_SECONDS)
    silent = {}
    for service, address in admins.items():
        if address.port:
            try:
                exchange.ask("GET", f"http://{address}/healthz", most=_LARGEST)
            except NoReply:
                silent[service] = str(address)
    exchange.close()
    return silent


@dataclass(frozen=True)
class PartyFiles:
    """What every service works with: the plans it runs, its keys, its data."""

    plan_files: tuple[Path, ...]
    keys: Path
    data: Path

    def room(self, least: int) -> tuple[float, tuple[str, ...]]:
        """Return the free bytes of the disk, and what an operator is told if they are too few."""
        try:
            free = shutil.disk_usage(self.data if self.data.exists() else self.data.parent).free
        except OSError:
            return 0.0, ("the folder for data is not there",)
        return float(free), () if free >= least else ("too little room on the disk",)

    def open_keys(self) -> KeyFolder:
        """Return the keys."""
        return KeyFolder.open(self.keys)

    def load_plans(self) -> tuple[RunPlan, ...]:
        """Return the plans; refuse one that does not keep what it promises."""
        for path in self.plan_files:
            if not path.exists():
                raise StorageFault(
                    f"The plan {path.name!r} must be in the folder {path.parent}. Got none.",
                    hint="correct `plans` in the settings; paths are taken from where they are",
                )
        found = tuple(map(load_any_plan, self.plan_files))
        if len({plan.id for plan in found}) < len(found):
            raise InvalidInput(
                "list of plans", "one of different plans", Unquoted("one of them twice")
            )
        for plan in found:
            plan.verify()
        return found


@dataclass(frozen=True)
class FrontSettings:
    """Where a service listens: for those who send to it, and for its operators."""

    listen: Address
    admin: Address
    tls: Tls | None
    server: Limits

    def listeners(self, application: Application, board: Application) -> list[Listener]:
        """Return what listens to senders, and what to operators."""
        return [self.listen.listener(application, self.tls), self.admin.listener(board)]


class PartyFilesModel(Strict):
    """What every file says."""

    plans: Annotated[list[str], Field(min_length=1)] = Field(
        description="The plans that it runs: files of `chaffinch plan --parties`, which name its "
        "identity.",
        examples=[["survey.plan.json"]],
    )
    keys: str = Field(
        description="The key folder of `chaffinch keys create`, for this user alone.",
        examples=["keys"],
    )
    data: str

    def place(self, base: Path) -> PartyFiles:
        """Return the files and folders, from where the settings are."""
        return PartyFiles(
            tuple(base / one for one in self.plans), base / self.keys, base / self.data
        )


class ServiceModel(Strict):
    """What a file says of every service: where operators look at it, and its limits."""

    limited: ClassVar[tuple[type, ...]]
    """The dataclasses whose numbers are its limits."""

    limits: dict[str, Any] = Field(default_factory=dict)

    @field_validator("admin", "listen", check_fields=False)
    @classmethod
    def _is_address(cls, given: str) -> str:
        try:
            Address.of(given)
        except InvalidInput:
            raise ValueError(f"must be {_ADDRESS}") from None
        return given

    @field_validator("limits")
    @classmethod
    def _known(cls, given: dict[str, Any]) -> dict[str, int | float]:
        allowed = numbers_of(*cls.limited)
        faults = [_limit_fault(name, value, allowed) for name, value in given.items()]
        if any(faults):
            raise ValueError("; ".join(filter(None, faults)))
        return given


class _Tls(Strict):
    certificate: str = Field(examples=["certificate.pem"])
    private_key: str = Field(examples=["private-key.pem"])

    def build(self, base: Path) -> Tls:
        return Tls(base / self.certificate, base / self.private_key)


class FrontModel(ServiceModel):
    """What a file says of a service that others send to."""

    listen: str
    admin: str
    tls: _Tls | None = Field(None, description="Speak TLS without a proxy in front.")

    def front(self, base: Path) -> FrontSettings:
        """Return where it listens, with files from where the settings are."""
        return FrontSettings(
            Address.of(self.listen),
            Address.of(self.admin),
            None if self.tls is None else self.tls.build(base),
            limits_of(self.limits, Limits),
        )


class LimitNumber(NamedTuple):
    """A number that a file may give, declared as ``name: Annotated[kind, text] = default``.

    Where the default is no number, an example stands behind the text: ``[kind, text, example]``.
    """

    kind: Any
    text: str
    example: Any


def numbers_of(*kinds: type) -> dict[str, LimitNumber]:
    """Return the numbers of dataclasses, and of those inside of them, by name."""
    found: dict[str, LimitNumber] = {}
    for kind in kinds:
        for name, hint in get_type_hints(kind, include_extras=True).items():
            if get_origin(hint) is Annotated:
                plain, text, *shown = get_args(hint)
                example = shown[0] if shown else getattr(kind, name)
                found.setdefault(name, LimitNumber(plain, text, example))
            elif is_dataclass(hint):
                for inner, number in numbers_of(cast("type", hint)).items():
                    found.setdefault(inner, number)
    return found


def _limit_fault(name: str, value: object, allowed: Mapping[str, LimitNumber]) -> str:
    """Return what is wrong with a limit; nothing if nothing is."""
    if name not in allowed:
        return f"{name} {MESSAGES['extra_forbidden']}{guess_of(name, list(allowed))}"
    if not isinstance(value, int | float) or isinstance(value, bool):
        return f"{name} must be a number"
    if not 0 < value < 1 << 60:
        return f"{name} must be above 0"
    whole = allowed[name].kind is not float
    return f"{name} must be whole" if whole and value != int(value) else ""


def limits_of(given: Mapping[str, int | float], kind: type[_Made], **others: Any) -> _Made:
    """Return a dataclass with the limits that a file gives, also to those inside of it."""
    made = dict(others)
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            made[name] = limits_of(given, cast("type", hint))
        elif name in given:
            made[name] = given[name]
    return kind(**made)


def names_analyzer(path: str | Path) -> bool:
    """Return whether a file is that of an analyzer; any other is taken for that of a hop."""
    return "analyzer" in _top_level_keys(path)


def _top_level_keys(path: str | Path) -> set[str]:
    content = read_small(path, most=_LARGEST, must_be=_RULE)
    # What is no TOML has no keys here; whoever reads the file says what is wrong with it.
    with suppress(ValueError, RecursionError):
        return set(tomllib.loads(content.decode()))
    return set()


def _refuse_other_service(path: str | Path, model: type[BaseModel]) -> None:
    # One sentence, in place of a fault for every key that differs.
    tables = _top_level_keys(path)
    for table, ours, other, verb in (
        ("hops", "a service", "a list of parties", "plan --parties"),
        ("analyzer", "a hop", "those of an analyzer", "serve analyzer"),
        ("collector", "an analyzer", "those of a hop", "serve collector"),
        ("questions", "a service", "a survey", "plan"),
    ):
        if table in tables and table not in model.model_fields:
            hint = f"`chaffinch {verb}` takes these"
            rule = f"the settings of {ours}"
            raise InvalidFile(f"file {Path(path).name}", rule, [other], hint=hint)


def read_file(
    path: str | Path, model: type[_Model], build: Callable[[_Model, Path], _Made]
) -> _Made:
    """Return what a file of settings says; refuse one that breaks a rule, with all its faults."""
    base = Path(path).resolve().parent
    hint = "`chaffinch serve collector --example`, or `analyzer`, prints settings to start from"
    _refuse_other_service(path, model)
    return read_toml(
        path, lambda found: build(model.model_validate(found), base), model, rule=_RULE, hint=hint
    )


# ----------------------------------------------------------------------------
# The example of a file, generated from the models that read it. A description that is a sentence
# stands above the value, a phrase beside it. Optional values are commented out; the example of a
# limit is its default.

_HEADER = """\
Paths are taken from where this file is. What is commented out is the default, unless its line \
says what holds without it."""
_WIDTH = 97
_BESIDE = 32
"""The column in which the text beside a value begins."""


def write_example(title: str, model: type[BaseModel]) -> str:
    """Return an example of a model's file."""
    return "\n".join((f"# {title}", *_comment_lines(_HEADER), "", *_table_lines(model))) + "\n"


def _setting_lines(name: str, value: object, text: str, *, off: bool) -> Iterator[str]:
    line = f"{'# ' if off else ''}{name} = {json.dumps(value)}"
    if text.endswith("."):
        yield from _comment_lines(text)
        yield line
        return
    beside = textwrap.wrap(text, _WIDTH - _BESIDE - 2)
    for left, right in zip_longest([line], beside or [""], fillvalue=""):
        yield f"{left:<{_BESIDE - 2}}  # {right}" if right else left


def _table_lines(model: type[BaseModel], path: str = "", *, off: bool = False) -> Iterator[str]:
    """Yield the values of a table, then the tables inside of it, the limits last."""
    inside: list[tuple[str, FieldInfo, type[BaseModel]]] = []
    for name, one in model.model_fields.items():
        table = _table_model(one)
        if table is not None:
            inside.append((name, one, table))
        elif name != "limits":
            (shown,) = one.examples or [one.default]
            hidden = off or not one.is_required()
            yield from _setting_lines(name, shown, one.description or "", off=hidden)
    for name, one, table in inside:
        where = f"{path}.{name}".removeprefix(".")
        hidden = off or not one.is_required()
        yield ""
        yield from _comment_lines(one.description or "")
        yield f"{'# ' if hidden else ''}[{where}]"
        yield from _table_lines(table, where, off=hidden)
    if issubclass(model, ServiceModel):
        yield from ("", f"[{path}.limits]")
        for name, number in numbers_of(*model.limited).items():
            yield from _setting_lines(name, number.example, number.text, off=True)


def _comment_lines(text: str) -> Iterator[str]:
    return (f"# {line}" for line in textwrap.wrap(text, _WIDTH - 2))


def _table_model(one: FieldInfo) -> type[BaseModel] | None:
    # A table that may be left out is annotated ``Model | None``.
    kinds = (one.annotation, *get_args(one.annotation))
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)
