"""An example of settings says everything that its models declare, and in one form."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from pydantic import Field

from chaffinch.services import analyzer_process, hop
from chaffinch.services.examples import write_example
from chaffinch.services.settings import ServiceModel, limits_of, numbers_of
from chaffinch.wire.document_forms import (
    Strict,
)


@dataclass(frozen=True)
class Inner:
    rooms: Annotated[int, "of a house"] = 3
    longest: Annotated[int | None, "after which a text that is long goes on in " * 2, 7] = None


@dataclass(frozen=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    seconds: Annotated[float, ""] = 2.5
    silent: float = 1.0


class Part(Strict):
    name: str = Field(examples=["x"])


class House(ServiceModel):
    limited: ClassVar = (Outer, Inner)

    door: str = Field(description="Where people come in.", examples=["front"])
    bell: int = Field(4, description="how often it rings")
    part: Part | None = Field(None, description="What may be left out.")


class Street(Strict):
    houses: list[str] = Field(examples=[["a", "b"]])
    house: House


EXAMPLE = """\
# A street.
# Paths are taken from where this file is. What is commented out is the default, unless its line
# says what holds without it.

houses = ["a", "b"]

[house]
# Where people come in.
door = "front"
# bell = 4                      # how often it rings

# What may be left out.
# [house.part]
# name = "x"

[house.limits]
# rooms = 3                     # of a house
# longest = 7                   # after which a text that is long goes on in after which a text
                                # that is long goes on in
# seconds = 2.5
"""


def test_an_example_is_written_from_its_models() -> None:
    assert write_example("A street.", Street) == EXAMPLE


def test_limits_reach_the_dataclasses_inside() -> None:
    assert list(numbers_of(Outer)) == ["rooms", "longest", "seconds"]
    made = limits_of({"rooms": 5, "seconds": 9.0}, Outer, silent=0.5)
    assert made == Outer(Inner(5), 9.0, 0.5)


def test_every_line_of_the_examples_is_toml_and_fits_on_a_screen() -> None:
    for example in (hop.EXAMPLE, analyzer_process.EXAMPLE):
        everything = re.sub(r"^# (?=\[|[a-z_]+ = )", "", example, flags=re.MULTILINE)
        assert tomllib.loads(example).keys() == tomllib.loads(everything).keys()
        assert max(map(len, example.splitlines())) < 100
        assert not [line for line in example.splitlines() if line != line.rstrip()]
