"""A mechanism and its document say the same thing, and nothing else is a document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.ledger import Charge, Ledger
from chaffinch.privacy import mechanism_documents
from chaffinch.privacy.forms import fraction_from, fraction_text
from chaffinch.privacy.guarantee import Method
from chaffinch.privacy.mechanism import BETWEEN_MODULES
from chaffinch.privacy.mechanism_documents import (
    UnknownMechanism,
    add_mechanisms,
    mechanism_document,
    mechanism_from,
    mechanism_text,
)
from tests.cases import each_case

crowds = st.integers(1, 10**9)
flips = st.one_of(
    st.integers(1, 2**63 - 1).map(lambda k: Fraction(k, 2**64)),
    st.fractions(Fraction(1, 1000), Fraction(499, 1000)),
    st.floats(1e-6, 0.4999).map(Fraction),
)
mid_flips = st.fractions(Fraction(1, 10), Fraction(499, 1000))
singles: st.SearchStrategy[privacy.Mechanism] = st.one_of(
    st.builds(
        privacy.FlippedBits,
        users=crowds,
        flip_probability=flips,
        copies=st.integers(1, 10_000),
        decoys=st.integers(0, 10**9),
    ),
    st.builds(privacy.DecoyedValues, values=st.integers(2, 10**6), decoys=st.integers(0, 10**9)),
    st.builds(
        privacy.DecoyedValues,
        values=st.integers(2, 10**6),
        users=crowds,
        decoy_rate=st.one_of(flips, st.just(Fraction(1))),
    ),
    st.builds(
        privacy.FlippedValues,
        users=crowds,
        values=st.integers(2, 10**6),
        flip_probability=flips,
        decoys=st.integers(0, 10**9),
    ),
    st.builds(
        privacy.FlippedVectors, users=crowds, bits=st.integers(1, 20), flip_probability=mid_flips
    ),
    st.builds(
        privacy.EncodedNumbers,
        users=crowds,
        resolution=st.integers(1, 1000),
        flip_probability=flips,
        slots=st.sampled_from(["separate", "together"]),
    ),
    st.builds(
        privacy.FlippedFilters, filters=st.integers(1, 20), bits=crowds, flip_probability=mid_flips
    ),
    st.builds(privacy.RandomResponders, responders=st.integers(0, 10**9)),
    st.builds(
        privacy.SampleAndThreshold,
        sampling_rate=mid_flips,
        threshold=st.integers(1, 1000),
        neighbours=st.sampled_from(["add-remove", "replace-one"]),
    ),
)
compositions = st.builds(
    lambda parts, times, resolution: privacy.compose(parts, times=times, resolution=resolution),
    # Different neighbours do not compose.
    st.lists(singles, max_size=4).map(
        lambda parts: [part for part in parts if part.neighbours == parts[0].neighbours]
    ),
    st.integers(1, 10**6),
    st.one_of(st.none(), st.floats(1e-9, 1.0)),
)


@given(st.one_of(singles, compositions))
def test_a_mechanism_survives_the_way_through_a_file(mechanism: privacy.Mechanism) -> None:
    text = json.dumps(mechanism_document(mechanism), allow_nan=False)
    assert mechanism_from(json.loads(text)) == mechanism


@given(singles, singles)
def test_different_mechanisms_have_different_documents(
    one: privacy.Mechanism, other: privacy.Mechanism
) -> None:
    assert (mechanism_document(one) == mechanism_document(other)) == (one == other)


def test_the_documents_are_what_they_always_were() -> None:
    # Files hold these: a change here is a new format.
    flip = Fraction(3, 2**64)
    assert mechanism_document(privacy.FlippedBits(users=9, flip_probability=flip)) == {
        "mechanism": "flipped-bits",
        "users": 9,
        "flip_probability": "3/2^64",
        "copies": 1,
        "decoys": 0,
    }
    signed = privacy.SignedDecoys(
        question="number",
        plus_ratio="1/3",
        minus_ratio="1/7",
        flood=["1/5", "1/6"],
        steps=3,
        share=Fraction(2, 3),
    )
    assert mechanism_document(signed) == {
        "mechanism": "signed-decoys",
        "question": "number",
        "plus_ratio": "1/3",
        "minus_ratio": "1/7",
        "flood": ["1/5", "1/6"],
        "steps": 3,
        "share": "2/3",
    }
    assert mechanism_from(mechanism_document(signed)) == signed
    # Users who all send a decoy are so many decoys.
    for all_send in ({"decoys": 50}, {"users": 50, "decoy_rate": 1}):
        assert mechanism_document(privacy.DecoyedValues(values=5, **all_send)) == {
            "mechanism": "decoyed-values",
            "values": 5,
            "decoys": 50,
        }
    ten = privacy.compose(privacy.DecoyedValues(users=7, decoy_rate="1/3", values=4), times=10)
    part = {"mechanism": "decoyed-values", "values": 4, "users": 7, "decoy_rate": "1/3"}
    assert mechanism_document(ten) == {
        "mechanism": "composition",
        "parts": [{"times": 10, "part": part}],
    }


BITS: dict[str, Any] = mechanism_document(privacy.FlippedBits(users=9, flip_probability="1/3"))
CUT = privacy.Shortened(privacy.FlippedBits(users=9, flip_probability="1/4"), Fraction(1, 1000))
CUT_BITS = mechanism_document(CUT)
TWICE = mechanism_document(privacy.compose(privacy.DecoyedValues(decoys=3, values=4), times=2))


@each_case(
    "document",
    [
        None,
        [],
        "flipped-bits",
        {},
        {"mechanism": "flipped-bits"},
        {"mechanism": ["flipped-bits"]},
        {**BITS, "mechanism": "unheard-of"},
        {**BITS, "epsilon": 0},
        {3: 4},
        {key: value for key, value in BITS.items() if key != "decoys"},
        {**BITS, "users": True},
        {**BITS, "users": 9.0},
        {**BITS, "users": "9"},
        {**BITS, "users": -9},
        {**BITS, "flip_probability": 0.25},
        {**BITS, "flip_probability": "0.25"},
        {**BITS, "flip_probability": "2/6"},
        {**BITS, "flip_probability": "1/4"},
        {**BITS, "flip_probability": "-1/3"},
        {**BITS, "flip_probability": " 1/3"},
        {**BITS, "flip_probability": "1/3\n"},
        {**BITS, "flip_probability": "1/0"},
        {**BITS, "flip_probability": "١/٣"},
        {**BITS, "flip_probability": "1/" + "3" * 5000},
        {**BITS, "flip_probability": "2/3"},
        {"mechanism": "decoyed-values", "values": 4, "users": 7, "decoy_rate": "1/1"},
        {"mechanism": "decoyed-values", "values": 4, "users": 7},
        {"mechanism": "decoyed-values", "values": 4, "users": 7, "decoys": 7},
        {**TWICE, "parts": {}},
        {**TWICE, "parts": [{"times": 0, "part": BITS}]},
        {**TWICE, "parts": [{"times": True, "part": BITS}]},
        {**TWICE, "parts": [{"times": 2}]},
        {**TWICE, "parts": [{"times": 2, "part": TWICE}]},
        {**TWICE, "parts": [{"times": 2, "part": None}]},
        {**TWICE, "resolution": None},
        {**TWICE, "resolution": "nan"},
        {**TWICE, "resolution": "much"},
        {**TWICE, "resolution": "0.5"},
        {**TWICE, "resolution": "0x1p+9999"},
    ],
)
def test_anything_else_is_refused(document: object) -> None:
    with pytest.raises(InvalidInput):
        mechanism_from(document)


def test_a_name_from_elsewhere_is_told_with_what_to_do() -> None:
    with pytest.raises(UnknownMechanism) as refused:
        mechanism_from({**BITS, "mechanism": "unheard-of"})
    assert refused.value.name == "unheard-of"
    names = "The mechanism must be one of 'flipped-bits', 'decoyed-values', "
    assert refused.value.message.startswith(names)
    assert refused.value.hint == (
        "if a protocol from elsewhere brings it along, register that protocol first "
        "(chaffinch.protocols.register)"
    )


@each_case(
    "document, said",
    [
        (None, "mechanism document must be"),
        ({**TWICE, "parts": [1]}, "The part of a composition must be"),
        ({**TWICE, "parts": [{"times": 1}]}, "fields of a part of a composition"),
        ({**CUT_BITS, "distance": 1}, "The distance must be"),
        ({**CUT_BITS, "shortfall": 1}, "The shortfall must be"),
    ],
)
def test_what_is_wrong_in_a_document_is_called_by_its_name(document: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        mechanism_from(document)


def test_the_text_that_a_ledger_keeps_is_what_it_always_was() -> None:
    """Without blanks, names in the order of the alphabet: charges are compared by it."""
    assert mechanism_text(privacy.FlippedBits(users=9, flip_probability="1/3")) == (
        '{"copies":1,"decoys":0,"flip_probability":"1/3","mechanism":"flipped-bits","users":9}'
    )


def test_mechanisms_outside_the_table_have_no_document() -> None:
    numbers = privacy.EncodedNumbers(
        users=99, resolution=2, flip_probability="0.3", slots="together"
    )
    with pytest.raises(InvalidInput, match="FlippedBits") as refused:
        mechanism_document(numbers.inner)
    assert refused.value.hint == (
        "a protocol from elsewhere names the mechanisms that it brings, in `mechanisms`"
    )
    nested = privacy.Composition(((privacy.compose([]), 1),))
    with pytest.raises(InvalidInput, match="single mechanism"):
        mechanism_document(nested)


def test_a_fraction_too_long_to_read_is_refused() -> None:
    with pytest.raises(InvalidInput, match="digits"):
        fraction_text("rate", Fraction(1, 3**1000))


@given(st.fractions(0, 1))
def test_fractions_are_exact(value: Fraction) -> None:
    assert fraction_from("rate", fraction_text("rate", value)) == value


def test_a_cut_mechanism_and_its_document_say_the_same() -> None:
    document = mechanism_document(CUT)
    assert document == {
        "mechanism": "shortened",
        "distance": "1/1000",
        "inner": mechanism_document(CUT.inner),
    }
    assert mechanism_from(document) == CUT


def test_a_shortfall_is_written_where_there_is_one() -> None:
    short = privacy.Shortened(CUT.inner, CUT.distance, Fraction(1, 10**9))
    document = mechanism_document(short)
    assert document == mechanism_document(CUT) | {"shortfall": "1/1000000000"}
    assert mechanism_from(document) == short
    for text in ("0/2^64", "2/1", 0, None):
        with pytest.raises(InvalidInput):
            mechanism_from(document | {"shortfall": text})
    # The smallest that a plan can have, in chances that were rounded up to three digits.
    least = privacy.Shortened(CUT.inner, Fraction("4.95e-324"), Fraction("1.01e-300") * 999_999)
    assert mechanism_from(mechanism_document(least)) == least


@each_case(
    "mechanism",
    [
        CUT,
        CUT.inner,
        privacy.DecoyedValues(decoys=50, values=5),
        privacy.DecoyedValues(users=50, decoy_rate="1/3", values=5),
        privacy.compose(CUT.inner, times=3),
        privacy.compose(CUT.inner, times=3, resolution=0.5),
        privacy.Grouped(CUT.inner, records=4),
        privacy.SignedDecoys(
            question="bit", plus_ratio="1/3", minus_ratio="1/7", flood=["1/5"], share=1
        ),
    ],
    ids=["cut", "bits", "decoys", "rate", "rounds", "fine rounds", "grouped", "signed"],
)
def test_a_field_too_many_or_too_few_is_named(mechanism: privacy.Mechanism) -> None:
    document = mechanism_document(mechanism)
    assert mechanism_from(document) == mechanism
    with pytest.raises(InvalidInput, match="fields of"):
        mechanism_from(document | {"more": 1})
    for name in set(document) - {"mechanism", "resolution"}:
        with pytest.raises(InvalidInput, match="fields of"):
            mechanism_from({key: value for key, value in document.items() if key != name})


@each_case(
    "document",
    [
        None,
        [],
        {1: 2},
        {"mechanism": "flipped-bits", 1: 2},
        dict[Any, Any](BITS) | {1: 2},
        {"mechanism": "composition", "parts": "none"},
        {"mechanism": "composition", "parts": {}},
        {"mechanism": "composition", "parts": [1]},
        {"mechanism": "composition", "parts": [{"times": 1}]},
        {"mechanism": "composition", "parts": [{"times": 1, "part": 1}]},
    ],
)
def test_what_is_no_document_is_refused(document: object) -> None:
    with pytest.raises(InvalidInput):
        mechanism_from(document)


def rounds(times: object, **more: object) -> dict[str, object]:
    part = {"times": times, "part": mechanism_document(CUT.inner)}
    return {"mechanism": "composition", "parts": [part], **more}


def test_rounds_and_resolutions_have_limits() -> None:
    assert mechanism_from(rounds(10**12)).parts == ((CUT.inner, 10**12),)  # type: ignore[attr-defined]
    assert mechanism_from(rounds(2, resolution=(1.0).hex())).resolution == 1.0  # type: ignore[attr-defined]
    for wrong in (rounds(0), rounds(10**12 + 1), rounds(2, resolution=(1.5).hex())):
        with pytest.raises(InvalidInput):
            mechanism_from(wrong)
    for text in ((1e-10).hex(), "nan", "fine", None, 0.5):
        with pytest.raises(InvalidInput, match="resolution"):
            mechanism_from(rounds(2, resolution=text))


@pytest.mark.parametrize("parts", ["none", {}, None])
def test_the_parts_of_a_composition_are_a_list(parts: object) -> None:
    with pytest.raises(InvalidInput, match="parts of a composition must be a list"):
        mechanism_from({"mechanism": "composition", "parts": parts})


@pytest.mark.parametrize("flood", ["1/5", {"1/5": 1}, 5, None])
def test_the_flood_of_signed_decoys_is_a_list(flood: object) -> None:
    signed = privacy.SignedDecoys(
        question="bit", plus_ratio="1/3", minus_ratio="1/7", flood=["1/5"], share=1
    )
    with pytest.raises(InvalidInput, match="flood must be a list of rates"):
        mechanism_from(mechanism_document(signed) | {"flood": flood})


def test_a_composition_inside_a_composition_is_refused() -> None:
    inner = {"mechanism": "composition", "parts": []}
    nested = {"mechanism": "composition", "parts": [{"times": 1, "part": inner}]}
    with pytest.raises(InvalidInput, match="a single mechanism"):
        mechanism_from(nested)


def test_fractions_have_a_longest_text() -> None:
    long = Fraction(1, 10**360 + 1)
    assert fraction_from("flip", fraction_text("flip", long)) == long
    with pytest.raises(InvalidInput, match="fewer than 400 digits"):
        fraction_text("flip", Fraction(1, 10**362 + 1))
    # 1200 bits below the line, and 1200 characters in all.
    assert fraction_text("flip", Fraction(1, 2**1199 + 1)).startswith("1/")
    with pytest.raises(InvalidInput, match="fewer than 400 digits"):
        fraction_text("flip", Fraction(1, 2**1200 + 1))
    assert fraction_from("flip", "1" + "0" * 1197 + "/7") == Fraction(10**1197, 7)
    with pytest.raises(InvalidInput, match="a fraction written as"):
        fraction_from("flip", "1" + "0" * 1198 + "/7")
    for text in ("2/4", "1/0", "01/3", "1/3 ", "-1/3", "9" * 1300 + "/7", 0.5, None):
        with pytest.raises(InvalidInput, match="a fraction written as"):
            fraction_from("flip", text)


# -------------------------------------------------------------------- mechanisms from elsewhere


@dataclass(frozen=True)
class Theirs(privacy.Mechanism):
    """What flipped bits show, with a parameter of any kind beside them."""

    inner: privacy.Mechanism
    more: Any = 0

    view = "messages"
    method = "upper-bound"
    crowd_words = "somebody"
    local_epsilon = 5.0
    document_name = "theirs"

    def written(self, document_of: Any) -> dict[str, Any]:
        return {"inner": document_of(self.inner), "more": self.more}

    @classmethod
    def from_written(cls, fields: dict[str, Any], mechanism_of: Any) -> privacy.Mechanism:
        return cls(mechanism_of(fields["inner"]), fields["more"])

    def delta(self, epsilon: float) -> privacy.Bracket:
        return self.inner.delta(epsilon)

    def profile(self, epsilons: Any) -> Any:
        return self.inner.profile(epsilons)


class Unequal(Theirs):
    """Equal to nothing but itself."""

    document_name = "unequal"
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Flattened(Theirs):
    """Writes the name of another mechanism in the place of its own."""

    document_name = "flattened"

    def written(self, document_of: Any) -> dict[str, Any]:
        return dict(document_of(self.inner))


class Listed(Theirs):
    """Writes no table."""

    document_name = "listed"

    def written(self, document_of: Any) -> Any:
        return [document_of(self.inner)]


class Named(Theirs):
    """Names what it has, and lets the base class write it."""

    document_name = "named"
    document_fields = ("more",)
    written = privacy.Mechanism.written


class Guessed(Theirs):
    """Proves nothing."""

    document_name = "guessed"

    @property
    def method(self) -> Method:  # type: ignore[override]
        return "monte-carlo"


@pytest.fixture
def theirs() -> Iterator[None]:
    """Let documents name them; forget them afterwards."""
    add_mechanisms([Theirs, Unequal, Flattened, Listed, Named, Guessed])
    yield
    mechanism_documents._ADDED.clear()  # noqa: SLF001 - nobody unregisters but tests


@pytest.mark.usefixtures("theirs")
def test_what_cannot_be_read_again_is_never_charged(tmp_path: Path) -> None:
    ledger = Ledger.create(
        tmp_path / "ledger", role="analyzer", cap=privacy.Target(9, 1e-4), mark=tmp_path / "mark"
    )
    for place, more in enumerate((0, 1, 0.1 + 0.2, "word", None)):
        ledger.charge(Charge("plan", Theirs(CUT.inner, more)), f"key {place}")
    granted = ledger.entries()
    for wrong in (
        Theirs(CUT.inner, (1, 2)),
        Theirs(CUT.inner, [1, 2]),
        Theirs(CUT.inner, np.int64(3)),
        Theirs(CUT.inner, Fraction(1, 3)),
        Theirs(CUT.inner, {1: 2}),
        Theirs(CUT.inner, float("nan")),
        Theirs(CUT.inner, float("inf")),
        Theirs(CUT.inner, CUT.inner),
        Theirs(None),  # type: ignore[arg-type]
        Unequal(CUT.inner),
        Flattened(CUT.inner),
        Listed(CUT.inner),
        Named(CUT.inner, 3),
        Named(CUT.inner, Fraction(1, 3)),
        privacy.compose(Theirs(CUT.inner, (1, 2)), times=3),
        privacy.Shortened(Flattened(CUT.inner), Fraction(1, 1000)),
    ):
        with pytest.raises(InvalidInput) as refused:
            ledger.charge(Charge("plan", wrong), "another")
        assert refused.value.hint or "`mechanism`" in refused.value.message
    assert ledger.entries() == granted
    # Whoever opens it later reads all that was charged.
    assert Ledger.open(tmp_path / "ledger", mark=tmp_path / "mark").spent() == ledger.spent()


@pytest.mark.usefixtures("theirs")
def test_no_parameter_stands_in_the_place_of_the_name() -> None:
    with pytest.raises(InvalidInput, match="be others than `mechanism`, under which its name sta"):
        mechanism_document(Flattened(CUT.inner))

    class Wrong(Theirs):
        document_name = "wrong"
        document_fields = ("mechanism",)

    with pytest.raises(InvalidInput, match="others than `mechanism`"):
        add_mechanisms([Wrong])


@given(st.one_of(singles, compositions))
def test_the_text_of_a_mechanism_is_its_document(mechanism: privacy.Mechanism) -> None:
    assert json.loads(mechanism_text(mechanism)) == mechanism_document(mechanism)


@pytest.mark.usefixtures("theirs")
def test_what_nobody_has_proven_is_never_charged() -> None:
    guessed = Guessed(CUT.inner)
    for one in (
        guessed,
        privacy.compose(guessed, times=3),
        privacy.compose([CUT, guessed]),
        privacy.Grouped(guessed, records=2),
        privacy.Shortened(privacy.compose(guessed, times=3), Fraction(1, 1000)),
    ):
        assert one.method == "monte-carlo"
        with pytest.raises(InvalidInput, match="must be a proof"):
            Charge("plan", one)
    assert privacy.compose([CUT, CUT.inner]).method == "upper-bound"


def test_a_class_is_refused_for_what_can_be_seen_of_it() -> None:
    def named(**facts: Any) -> type[privacy.Mechanism]:
        return type("Mine", (Theirs,), {"document_name": "mine"} | facts)

    class Abstract(privacy.Mechanism):
        document_name = "abstract"

    class Silent(privacy.Mechanism):
        document_name = "silent"
        crowd_words = "somebody"
        local_epsilon = 5.0
        delta = Theirs.delta
        profile = Theirs.profile

    base = {"from_written": privacy.Mechanism.__dict__["from_written"]}
    for wrong, words in (
        (Abstract, "says its crowd_words, delta, local_epsilon, profile, view, method"),
        (Silent, "says its view, method"),
        (named(document_name="Mine!"), "document name of Mine must be lower-case words"),
        (named(document_name="flipped-bits"), "document name of Mine must be one that is not"),
        (named(method="lower-bound"), "method of Mine must be one of 'exact', 'upper-bound'"),
        (named(neighbours="add-remove"), "neighbours of Mine must be"),
        (named(document_fields="more"), "document_fields of Mine must be a tuple of names"),
        (named(document_fields=(1,)), "document_fields of Mine must be a tuple of names"),
        (named(document_fields=("mechanism",)), "others than `mechanism`"),
        (
            named(document_fields=("inner", "more"), document_fractions=("zzz",), **base),
            "document_fractions of Mine must be among its document_fields: inner, more",
        ),
        (named(document_fields=("inner", "zzz"), **base), "its arguments: inner, more"),
        (named(document_fields=("more",), **base), "its arguments: inner, more"),
    ):
        with pytest.raises(InvalidInput, match=words):
            add_mechanisms([Theirs, wrong])
        assert not mechanism_documents._ADDED, "all or none"  # noqa: SLF001
    both = ("inner", "more")
    mechanism_documents._check_class(  # noqa: SLF001
        named(document_fields=both, document_fractions=both, **base)
    )
    ours = [mechanism_documents._class_of(name) for name in mechanism_documents._OURS]  # noqa: SLF001
    for kind in ours:
        if kind.neighbours == privacy.Mechanism.neighbours:
            mechanism_documents._check_class(kind)  # noqa: SLF001


@dataclass(frozen=True)
class Saying(privacy.Mechanism):
    """Says with each object what is seen, and how it is proven."""

    view: str
    method: Method
    crowd_words = "somebody"
    local_epsilon = 5.0
    document_name = "saying"
    document_fields = ("view", "method")
    delta = Theirs.delta
    profile = Theirs.profile


@pytest.mark.usefixtures("theirs")
def test_a_class_may_say_with_each_object_what_is_seen() -> None:
    add_mechanisms([Saying])
    assert mechanism_from(mechanism_document(Saying("messages", "exact"))).view == "messages"


@pytest.mark.usefixtures("theirs")
def test_a_class_that_is_defined_again_needs_a_new_start() -> None:
    here = {"__module__": __name__}
    again, other = (type(name, (Theirs,), here) for name in ("Theirs", "Others"))
    for kind, hint in (
        (again, "the class was registered before and has changed since: start Python again"),
        (other, ""),
    ):
        with pytest.raises(InvalidInput, match="one that is not taken") as refused:
            add_mechanisms([kind])
        assert refused.value.hint == hint
    # The other class of a name of ours is not known here.
    assert mechanism_documents.hint_for_another(again, None) == ""


def test_what_modules_ask_one_another_is_not_offered() -> None:
    shown = dir(privacy.FlippedBits(users=10, flip_probability=0.1))
    assert shown == sorted(shown)
    assert {"delta", "epsilon", "tradeoff", "guarantee", "users"} <= set(shown)
    assert not set(shown) & BETWEEN_MODULES
