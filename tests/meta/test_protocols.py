"""Adding a protocol is one file and one line: nobody else knows a protocol by its name."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from chaffinch.plans.plan import plan_schema
from chaffinch.protocols import PROTOCOLS, Protocol, every_protocol, protocol_named
from tests.meta import repository

OWN = repository.SOURCE / "protocols"
STRANGER = repository.SOURCE / "plans" / "check_certificate.py"
"""It may ask nobody of the library what a protocol is, and has its own names for them."""
MECHANISMS = repository.SOURCE / "cli" / "privacy.py"
"""Its table has the names of mechanisms, which know no protocol; two are alike."""
OTHERS = [
    path
    for path in sorted(repository.SOURCE.rglob("*.py"))
    if OWN not in path.parents and path not in {STRANGER, MECHANISMS}
]
NAMES = {protocol.__name__ for protocol in every_protocol()}
KINDS = {protocol.kind for protocol in every_protocol()}


def protocol_names(path: Path) -> set[str]:
    """Return what a file knows of single protocols: classes, and tables keyed by their kinds."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            found |= {node.id} & NAMES
        elif isinstance(node, ast.Attribute):
            found |= {node.attr} & NAMES
        elif isinstance(node, ast.alias):
            found |= {node.name} & NAMES
        elif isinstance(node, ast.Dict):
            kinds = {str(key.value) for key in node.keys if isinstance(key, ast.Constant)} & KINDS
            # One key alone is a word of its own: messages have a stage "encoded".
            found |= kinds if len(kinds) > 1 else set()
    return found


def test_only_the_protocols_know_their_names() -> None:
    named = {str(path.relative_to(repository.SOURCE)): protocol_names(path) for path in OTHERS}
    assert len(named) > 100
    assert not {name: found for name, found in named.items() if found}


def test_the_rule_finds_names(tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text("from chaffinch.protocols import Flips\nCODERS = {'flips': 1, 'encoded': 2}\n")
    assert protocol_names(path) == {"Flips", "flips", "encoded"}


def test_the_registry_calls_each_protocol_what_it_calls_itself() -> None:
    assert [protocol.kind for protocol in every_protocol()] == list(PROTOCOLS)
    assert [protocol_named(kind) for kind in PROTOCOLS] == list(every_protocol())


def test_every_protocol_is_in_the_registry() -> None:
    known: list[type] = list(Protocol.__subclasses__())
    for one in known:
        known.extend(one.__subclasses__())
    own = {one for one in known if one.__module__.startswith("chaffinch.")}
    assert {one for one in own if not inspect.isabstract(one)} == set(every_protocol())


@pytest.mark.parametrize("protocol", every_protocol(), ids=lambda one: one.kind)
def test_plan_files_know_every_protocol(protocol: type[Protocol]) -> None:
    definitions = plan_schema()["$defs"]
    kinds = definitions["PartForm"]["properties"]["protocol"]["discriminator"]["mapping"]
    assert kinds[protocol.kind].endswith(protocol.__name__)
    parameters = list(inspect.signature(protocol).parameters)
    assert list(definitions[protocol.__name__]["properties"]) == ["kind", *parameters]
