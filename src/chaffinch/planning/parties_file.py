"""Who runs a plan, as a file for people to write. In TOML; all faults are told at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from chaffinch.errors import InvalidFile, InvalidInput
from chaffinch.planning.audiences.parties import ReachParties, ReachPartiesModel
from chaffinch.planning.parties import Parties, PartiesModel
from chaffinch.storage.files import read_small
from chaffinch.wire.documents import faults_of

_LARGEST = 1 << 20
_RULE = "a list of the parties who run a plan"
_HINT = "`chaffinch plan --example-parties` prints one to start from"

_Model = TypeVar("_Model", bound=PartiesModel)

EXAMPLE = """\
# Who runs a plan. Everybody who is named here must agree to it, and nobody may be two parties:
# what is promised holds as long as those who shuffle do not work together with who analyzes.

# What reports are sealed with on the outside. "x25519-ml-kem-768" also withstands quantum
# computers; the first hop then makes its keys with `chaffinch keys create --kem`.
outer_kem = "x25519"

# The hops of the shuffler, the first one first: people send their reports there.
# `chaffinch keys create` prints the identity of a party.
[[hops]]
name = "University"
identity = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
address = "https://shuffler.example.org"

# [[hops]]              # one more: any one of them that is honest is enough where slots are fixed
# name = "Newspaper"
# identity = "..."
# address = "https://shuffler.example.net"

[analyzer]
name = "Ministry"
identity = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
address = "https://analyzer.example.com"
"""


def read_parties(path: str | Path) -> Parties:
    """Return the parties that a file names; refuse one that breaks a rule, with all its faults."""
    return _read(path, PartiesModel).build()


def read_reach_parties(path: str | Path) -> ReachParties:
    """Return the parties of a reach, in the same way."""
    return _read(path, ReachPartiesModel).build()


def _read(path: str | Path, kind: type[_Model]) -> _Model:
    name = Path(path).name
    content = read_small(path, most=_LARGEST, must_be=_RULE)
    try:
        found = tomllib.loads(content.decode())
        model = kind.model_validate({"outer_kem": "x25519", **found})
        model.build()  # what a party may be is for it to say
    except ValidationError as fault:
        faults = faults_of(fault)
    except InvalidInput as fault:
        faults = [fault.message]
    except (ValueError, RecursionError) as fault:
        faults = [f"no TOML document ({fault})"]
    else:
        return model
    raise InvalidFile(f"file {name}", _RULE, faults, hint=_HINT)
