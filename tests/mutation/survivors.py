"""Mutants that no test notices, and why each of them may live."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True, order=True)
class Survivor:
    """A mutant by its place and its fault, so that it is known again when lines move."""

    file: str
    """Where, from the folder of chaffinch on."""
    function: str
    was: str
    became: str

    def __str__(self) -> str:
        return f"{self.file}: {self.function}\n    - {self.was}\n    + {self.became}"


@dataclass(frozen=True)
class Reason:
    """Why survivors may live: what kind they are, and what makes these be of it."""

    kind: str
    why: str


def survivor_of(file: str, function: str, diff: str) -> Survivor:
    """Return the survivor that a diff shows: the lines that it takes away and puts there."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    was, became = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    return Survivor(file, function, was, became)


def explanations() -> dict[Survivor, Reason]:
    """Return the survivors that are explained, each with the reason."""
    return {
        Survivor(group["file"], group["function"], was, became): Reason(group["kind"], group["why"])
        for group in tomllib.loads(FILE.read_text(encoding="utf-8")).get("group", [])
        for was, became in group["mutants"]
    }
