"""A form reads and writes the same documents, and lets nothing through that it would not write."""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from chaffinch.errors import InvalidInput
from chaffinch.protocols import every_protocol
from chaffinch.wire.document_forms import (
    Exact,
    Form,
    Listed,
    Many,
    RealText,
    Written,
    exact_text,
    form_of,
)
from chaffinch.wire.documents import faults_of, file_model


@dataclass(frozen=True)
class Part:
    share: Fraction
    steps: int


@dataclass(frozen=True)
class Whole:
    name: str
    low: int
    high: int
    parts: tuple[Part, ...] = ()
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInput("low", "at most high", self.low, hint="turn them round")


class PartForm(Form):
    makes = Part

    share: Exact
    steps: int


class EndsForm(Form):
    low: int
    high: Annotated[int, Field(alias="top")]


class WholeForm(Form):
    makes = Whole

    kind: Literal["whole"]
    name: str
    ends: EndsForm
    parts: Many[Annotated[Part, PartForm.written()]] = ()
    weight: RealText = 1.0


wholes = st.builds(
    Whole,
    name=st.text(),
    low=st.integers(-(2**40), 0),
    high=st.integers(0, 2**40),
    parts=st.lists(
        st.builds(Part, st.integers(0, 2**64).map(lambda k: Fraction(k, 2**64)), st.integers())
    ).map(tuple),
    weight=st.floats(min_value=0, allow_nan=False),
)


@given(wholes)
def test_what_is_written_is_read_back(whole: Whole) -> None:
    document = WholeForm.document(whole)
    assert WholeForm.model_validate(document).build() == whole
    assert list(document) == [
        name for name in ("kind", "name", "ends", "parts", "weight") if name in document
    ]


def test_labels_are_written_sections_unfolded_and_defaults_left_out() -> None:
    assert WholeForm.document(Whole("w", 1, 2)) == {
        "kind": "whole",
        "name": "w",
        "ends": {"low": 1, "top": 2},
    }
    whole = Whole("w", 1, 2, (Part(Fraction(3, 8), 4),), float("inf"))
    document = {
        "kind": "whole",
        "name": "w",
        "ends": {"low": 1, "top": 2},
        "parts": [{"share": "0.375", "steps": 4}],
        "weight": "infinite",
    }
    assert WholeForm.document(whole) == document
    assert WholeForm.model_validate(document).build() == whole


def test_a_choice_of_words_and_a_list_are_no_labels() -> None:
    class Chosen(Form):
        makes = dict

        unit: Literal["row", "person"]
        ends: list[int]

    document = {"unit": "person", "ends": [7]}
    chosen = Chosen.model_validate(document)
    assert chosen.build() == document
    assert Chosen.document(chosen) == document


def test_a_form_may_write_its_defaults() -> None:
    class Told(WholeForm):
        makes = Whole
        leaves_out_defaults = False

    assert Told.document(Whole("w", 1, 2))["weight"] == "1"


def test_what_a_subclass_adds_is_read_and_not_part_of_the_object() -> None:
    class Entry(WholeForm):
        column: str | None = None

    said = {"kind": "whole", "name": "w", "ends": {"low": 1, "top": 2}, "column": "c"}
    entry = Entry.model_validate(said)
    assert (entry.column, entry.build()) == ("c", Whole("w", 1, 2))
    file = file_model(WholeForm, "some/form@1")
    read = file.model_validate(
        {key: value for key, value in said.items() if key != "column"}
        | {"format": "some/form@1", "id": "0" * 64}
    )
    assert read.build() == Whole("w", 1, 2)


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"kind": "half"}, "kind: must be 'whole'"),
        ({"name": 3}, "name: must be words in quotes"),
        ({"ends": {"low": 1, "high": 2}}, "ends.top: must be there"),
        ({"ends": {"low": True, "top": 2}}, "ends.low: must be a whole number"),
        ({"parts": {}}, "parts: must be a list"),
        ({"parts": [{"share": 0.375, "steps": 1}]}, "parts.0.share: must be words in quotes"),
        ({"parts": [{"share": "3/8", "steps": 1}]}, "parts.0.share: String should match"),
        ({"weight": "nan"}, "weight: String should match"),
        ({"more": 1}, "more: is not known here"),
    ],
)
def test_every_fault_has_its_place(wrong: dict[str, Any], fault: str) -> None:
    document = WholeForm.document(Whole("w", 1, 2)) | wrong
    with pytest.raises(ValidationError) as found:
        WholeForm.model_validate(document)
    assert any(told.startswith(fault) for told in faults_of(found.value)), faults_of(found.value)


def test_a_wrong_entry_is_the_only_fault_of_its_list() -> None:
    class Holder(Form):
        parts: Annotated[tuple[Annotated[Part, PartForm.written()], ...], Listed(1, 2)]

    with pytest.raises(ValidationError) as found:
        Holder.model_validate({"parts": [{"share": "0.5"}]})
    assert faults_of(found.value) == ["parts.0.steps: must be there"]
    with pytest.raises(ValidationError) as found:
        Holder.model_validate({"parts": []})
    assert faults_of(found.value) == ["parts: has too few entries"]
    # Its length is the first thing that is looked at: not one fault for each of a million entries.
    with pytest.raises(ValidationError) as found:
        Holder.model_validate({"parts": [1] * 1_000_000})
    assert faults_of(found.value) == ["parts: has more than 2 entries"]


def test_a_part_that_breaks_its_own_rule_says_so_at_its_place_without_its_hint() -> None:
    class Holder(Form):
        whole: Annotated[Whole, WholeForm.written()]

    document = {"whole": {"kind": "whole", "name": "w", "ends": {"low": 3, "top": 2}}}
    with pytest.raises(ValidationError) as found:
        Holder.model_validate(document)
    assert faults_of(found.value) == ["whole: The low must be at most high. Got 3."]


def test_a_number_that_is_none_is_not_written_as_null() -> None:
    class Real(Form):
        value: float

    document = Real.document(type("Thing", (), {"value": float("nan")}))
    assert document["value"] != document["value"]


def test_a_list_in_place_of_a_tuple_is_written_in_the_same_way() -> None:
    part = Part(Fraction(3, 8), 4)
    loose = Whole("w", 1, 2, [part])  # type: ignore[arg-type]
    assert WholeForm.document(loose) == WholeForm.document(Whole("w", 1, 2, (part,)))


def test_what_pydantic_would_write_by_a_guess_is_refused() -> None:
    with pytest.raises(ValueError, match="name"):
        WholeForm.document(Whole(Fraction(1, 2), 1, 2))  # type: ignore[arg-type]


def test_an_object_that_says_another_label_is_refused() -> None:
    @dataclass(frozen=True)
    class Other(Whole):
        kind: str = "half"

    with pytest.raises(ValueError, match="kind is not 'whole'"):
        WholeForm.document(Other("w", 1, 2))


def test_no_schema_offers_a_default_that_a_document_must_leave_out() -> None:
    assert "default" not in json.dumps(WholeForm.model_json_schema())
    assert WholeForm.model_json_schema()["required"] == ["kind", "name", "ends"]


def test_no_two_sections_of_a_form_hold_one_attribute() -> None:
    for name in ("keys.keyset", "plans.plan", "reach.planning.reach_plan", "reach.release"):
        importlib.import_module(f"chaffinch.{name}")
    assert every_protocol()[0].form()
    known = list(Form.__subclasses__())
    for one in known:
        known.extend(one.__subclasses__())
    ours = [one for one in known if one.__module__.startswith("chaffinch.")]
    assert len(ours) > 30
    for form in ours:
        sections = [
            one.annotation
            for one in form.model_fields.values()
            if isinstance(one.annotation, type) and issubclass(one.annotation, Form)
        ]
        names = [*form.model_fields, *(name for one in sections for name in one.model_fields)]
        assert len(set(names)) == len(names), form
        assert all(one.leaves_out_defaults for one in sections), form


def test_tuples_stand_under_the_names_of_the_fields() -> None:
    class Pair(Form):
        share: Exact
        steps: int

    written = Pair.as_tuple()
    assert written.write((Fraction(1, 4), 2)) == {"share": "0.25", "steps": 2}
    assert written.read(Pair.model_validate({"share": "0.25", "steps": 2})) == (Fraction(1, 4), 2)
    with pytest.raises(ValueError, match="shorter"):
        written.write((Fraction(1, 4),))


def test_a_dataclass_of_plain_facts_is_its_own_form() -> None:
    @dataclass(frozen=True)
    class Settings:
        """How something is set."""

        share: Fraction
        copies: int = 1
        slots: int | None = None
        flood: tuple[Fraction, ...] = ()

    form = form_of(Settings, kind="settings")
    settings = Settings(Fraction(1, 2), flood=(Fraction(1, 8),))
    document = {"kind": "settings", "share": "0.5", "copies": 1, "flood": ["0.125"]}
    assert form.document(settings) == document, "a default is written, None is not"
    assert form.model_validate(document).build() == settings
    assert form.model_json_schema()["description"] == "How something is set."
    with pytest.raises(ValidationError):
        form.model_validate({"kind": "settings", "share": "0.5", "flood": []})


@dataclass(frozen=True)
class Loose:
    share: float


@dataclass(frozen=True)
class Pairs:
    pair: tuple[int, int]


@dataclass(frozen=True)
class Either:
    share: str | Fraction


@dataclass(frozen=True)
class Hidden:
    build: int


@pytest.mark.parametrize(
    ("made", "fact"),
    [
        (Loose, "float"),
        (Pairs, r"tuple\[int, int\]"),
        (Either, r"str \| fractions\.Fraction"),
        (Hidden, "a field called 'build'"),
    ],
)
def test_a_dataclass_of_other_facts_has_no_form(made: object, fact: str) -> None:
    with pytest.raises(TypeError, match=fact):
        form_of(made)


def test_a_written_type_says_what_is_allowed() -> None:
    class Ends(Form):
        top: Annotated[
            int, Written(Literal["one", "two"], ["one", "two"].index, ["one", "two"].__getitem__)
        ]

    assert Ends.model_validate({"top": "two"}).top == 1
    assert Ends.document(Ends.model_construct(top=0)) == {"top": "one"}
    assert Ends.model_json_schema()["properties"]["top"]["enum"] == ["one", "two"]


@given(st.integers(0, 2**64))
def test_exact_texts_lose_no_digit(numerator: int) -> None:
    assert Fraction(exact_text(Fraction(numerator, 2**64))) == Fraction(numerator, 2**64)


def test_what_no_decimal_text_says_exactly_is_not_written() -> None:
    with pytest.raises(ValueError, match="1/3 has no finite decimal form"):
        exact_text(Fraction(1, 3))
