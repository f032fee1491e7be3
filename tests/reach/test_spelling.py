"""Ids spelled by a plan's rule: one person, one spelling, whatever a list looks like."""

from __future__ import annotations

import io
import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidFile, InvalidInput, InvalidTable
from chaffinch.privacy import Target
from chaffinch.reach import plan as make_plan
from chaffinch.reach.planning.id_rule import AS_IS, IdRule, Likeness, likeness, spell_ids
from chaffinch.reach.planning.reach_plan import _FORMAT, plan_from
from chaffinch.reach.publisher.filter_making import Loaded
from chaffinch.wire.documents import digest
from tests.cases import each_case
from tests.reach.publishing import KEY, encode, small_plan
from tests.reach.test_encoding import unflipped
from tests.tiers import nightly

LOWER, MAIL, PHONE = IdRule("lower-case"), IdRule("e-mail"), IdRule("phone")
GERMAN = IdRule("phone", country_code="49", trunk="0")
AMERICAN = IdRule("phone", country_code="1", trunk="1")
ITALIAN = IdRule("phone", country_code="39", trunk="")
CANARY = "canary@example"


def spelled(text: str | None, rule: IdRule) -> str | None:
    found: str | None = spell_ids(pa.array([text], pa.string()), rule)[0].as_py()
    return found


@each_case(
    ("text", "rule", "wanted"),
    [
        (" Ann ", AS_IS, " Ann "),
        (" \tAnn\n", LOWER, "ann"),
        ("\u00a0ZOË\u3000", LOWER, "zoë"),
        ("zoe\u0308", LOWER, "zoë"),
        ("ZOE\u0308", LOWER, "zoë"),
        ("ǰ".upper(), LOWER, "ǰ"),  # J and a caron: composed only when it is small
        ("İI\u0307", LOWER, "ii"),  # both are one letter in form C, with one small letter
        ("ΟΔΟΣ", LOWER, "οδοσ"),
        ("a b", LOWER, "a b"),
        ("  ", LOWER, ""),
        ("A.b+News@Example.ORG", MAIL, "a.b+news@example.org"),
        ("x@MÜNCHEN.de", MAIL, "x@xn--mnchen-3ya.de"),
        ("x@mu\u0308nchen.de", MAIL, "x@xn--mnchen-3ya.de"),
        ("x@XN--mnchen-3ya.de", MAIL, "x@xn--mnchen-3ya.de"),
        ("x@日本。jp", MAIL, "x@xn--wgv71a.jp"),
        ("Zoë@example.org", MAIL, "zoë@example.org"),
        ("", MAIL, ""),
        (" ", MAIL, ""),
        ("+49 (0)170 123-4567", PHONE, "+491701234567"),
        ("+49.170/123–4567", PHONE, "+491701234567"),
        ("0049 [170] 123 45 67", PHONE, "+491701234567"),
        ("\u202a+49\u00a0170\u00ad1234567\u202c", PHONE, "+491701234567"),
        ("+12345678", PHONE, "+12345678"),
        ("+123456789012345", PHONE, "+123456789012345"),
        ("0170 1234567", GERMAN, "+491701234567"),
        ("1701234567", GERMAN, "+491701234567"),
        ("0491 12345", GERMAN, "+4949112345"),  # an area code that looks like the country's
        ("+1 555 123 4567", GERMAN, "+15551234567"),
        ("(555) 123-4567", AMERICAN, "+15551234567"),
        ("1-555-123-4567", AMERICAN, "+15551234567"),
        ("06 123 45678", ITALIAN, "+390612345678"),
        ("--", GERMAN, ""),
    ],
)
def test_what_a_rule_makes_of_an_id(text: str, rule: IdRule, wanted: str) -> None:
    assert spelled(text, rule) == wanted


@each_case(
    ("text", "rule"),
    [
        *((text, MAIL) for text in ("ann", "@b.org", "a@", "a@b", "a@b@c.org", "a b@c.org")),
        *((text, MAIL) for text in ("<a@b.org>", "a@b.org.", "a@.org", "a@-b.org", "a@b..org")),
        *((text, MAIL) for text in ("x" * 65 + "@b.org", "x@" + "b" * 250 + ".org")),
        *((text, MAIL) for text in ("a\u200b@b.org", "a@ü..de", "a@ü\u202e.de", "a,b@c.org")),
        ("x@" + "ü" * 100 + ".de", MAIL),
        ("x@" + "ü" * 10_000 + ".de", MAIL),
        *((text, PHONE) for text in ("0170 1234567", "1701234567", "+1234567", "+0123456789")),
        *((text, PHONE) for text in ("+1234567890123456", "+49 170 CALL ME", "١٢٣٤٥٦٧٨٩", "+")),
        ("491701234567", GERMAN),  # of +49, or a number of +49 49…: nobody can tell
        ("392 1234567", ITALIAN),
        ("5551234567x12", AMERICAN),
    ],
)
def test_what_does_not_fit_a_rule_is_no_id(text: str, rule: IdRule) -> None:
    assert spelled(text, rule) is None


@pytest.mark.parametrize("rule", [LOWER, MAIL, PHONE, nightly(GERMAN), nightly(AMERICAN), ITALIAN])
@given(
    text=st.one_of(
        st.text(max_size=20),
        st.from_regex(r"\s?[A-Za-zäß.]{1,5}@([A-Za-zäÖß0-9-]{1,6}\.){1,2}[a-zA-Z]{2,3}"),
        st.from_regex(r"(\+|00|0|1)?[0-9 ()/.-]{5,20}"),
    )
)
def test_what_is_spelled_stays(text: str, rule: IdRule) -> None:
    first = spelled(text, rule)
    if first is not None:
        assert spelled(first, rule) == first
        assert unicodedata.is_normalized("NFC", first)
        assert first == first.strip()
    if rule.name == "phone" and first:
        assert first[0] == "+"
        assert first[1:].isdigit()
        assert 8 <= len(first[1:]) <= 15


@pytest.mark.parametrize("rule", [LOWER, MAIL, PHONE])
def test_a_batch_is_spelled_as_each_of_it(rule: IdRule) -> None:
    # All of them ASCII takes another way than one that is not.
    texts = [" A@b.org", "x@MÜNCHEN.de", None, "", "+49 170 1234567", "İ", "ann"]
    for kind in (pa.string(), pa.large_string()):
        found = spell_ids(pa.array(texts, kind), rule)
        assert found.type == kind
        assert found.to_pylist() == [spelled(one, rule) for one in texts]


# ------------------------------------------------------------------------------ rules and plans


def ruled(rule: IdRule, **more: Any) -> Any:
    return small_plan(ids=rule, bits=1 << 16, **more)


@each_case(
    "wrong",
    [
        {"name": "email"},
        {"name": "phone", "country_code": "49"},
        {"name": "phone", "trunk": "0"},
        {"name": "e-mail", "country_code": "49", "trunk": "0"},
        {"name": "phone", "country_code": "049", "trunk": "0"},
        {"name": "phone", "country_code": "+49", "trunk": "0"},
        {"name": "phone", "country_code": "٤٩", "trunk": "0"},
        {"name": "phone", "country_code": 49, "trunk": "0"},
        {"name": "phone", "country_code": "49", "trunk": "none"},
    ],
)
def test_rules_that_make_no_sense_are_never_born(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        IdRule(**wrong)


@pytest.mark.parametrize("rule", [MAIL, GERMAN, *map(nightly, (LOWER, PHONE, ITALIAN))])
def test_a_plan_binds_its_rule(rule: IdRule) -> None:
    plan = ruled(rule)
    assert plan.id != ruled(AS_IS).id
    back = plan_from(json.dumps(plan.document()))
    assert (back, back.id, back.ids) == (plan, plan.id, rule)
    back.verify()
    assert rule.sentence in plan.explain()


def test_a_plan_of_ids_as_they_are_says_nothing_of_them() -> None:
    # The id of this plan, written down before there were rules.
    plan = small_plan(frequencies=2, hashes=2, bits=1 << 16, title="Spring")
    assert "ids" not in plan.document()
    assert plan.id == "dca432e65f7f29206c2ee1c632ed621717746362ab24ee9e7d406e23e3ccb4ab"
    plan_from(json.dumps(plan.document())).verify()


@each_case(
    "ids",
    [
        None,
        {},
        {"rule": "as-is"},
        {"rule": "email"},
        {"rule": "phone", "country_code": "49"},
        {"rule": "phone", "country_code": None, "trunk": None},
        {"rule": "e-mail", "dots": True},
    ],
)
def test_forged_rules_are_refused(ids: object) -> None:
    document = ruled(MAIL).document() | {"ids": ids}
    body = {key: value for key, value in document.items() if key not in ("format", "id")}
    with pytest.raises(InvalidFile):
        plan_from(json.dumps(document | {"id": digest(_FORMAT, body)}))


def test_the_planner_takes_a_rule_or_its_name() -> None:
    two = ruled(AS_IS).audience
    wishes: dict[str, Any] = {"sizes": [5000, 5000], "target": Target(1, 1e-6)}
    assert make_plan(two, ids="e-mail", **wishes).ids == MAIL
    assert make_plan(two, ids=GERMAN, **wishes).ids == GERMAN
    others: list[Any] = ["mail", 3, None]
    for wrong in others:
        with pytest.raises(InvalidInput, match="rule for ids"):
            make_plan(two, ids=wrong, **wishes)


# ------------------------------------------------------------------------------ lists


LIST = [" Ann@Example.org", "ann@example.org", "BOB@MÜNCHEN.de", "eve@b.org"]
SPELLED = ["ann@example.org", "ann@example.org", "bob@xn--mnchen-3ya.de", "eve@b.org"]


def csv(texts: list[str]) -> Any:
    file = io.BytesIO("\n".join(["id", *texts, ""]).encode())
    file.name = "ids.csv"
    return file


def test_every_way_in_gives_the_same_columns(tmp_path: Path) -> None:
    plan = ruled(MAIL, frequencies=2)
    wanted = unflipped(SPELLED, plan)
    column = pa.array(LIST)
    pq.write_table(pa.table({"id": column}), tmp_path / "ids.parquet")
    sources: list[Any] = [
        LIST,
        csv(LIST),
        tmp_path / "ids.parquet",
        pa.table({"id": column.cast(pa.large_string())}),
        pa.table({"id": column.dictionary_encode()}),
        pa.chunked_array([column[:1], column[1:]]),
        np.array(LIST),
    ]
    for source in sources:
        for one, other in zip(unflipped(source, plan, rule=plan.ids), wanted, strict=True):
            assert (one == other).all()


def test_numbers_are_phones_too() -> None:
    plan = ruled(GERMAN)
    wanted = unflipped(["+491701234567"], plan)[0]
    assert (unflipped([1701234567], plan, rule=GERMAN)[0] == wanted).all()


def test_the_publisher_is_told_what_was_spelled_anew() -> None:
    told: list[Loaded] = []
    texts = [*LIST, "", " ", None, "nobody", "nobody else"]
    options: dict[str, Any] = {"missing": "skip", "unfit": "skip", "told": told.append}
    encode(texts, ruled(MAIL), publisher="daily", key=KEY, **options)
    assert told == [Loaded(rows=9, ids=3, expected=100, changed=2, missing=3, unfit=2)]


def test_all_faults_are_told_at_once_and_none_is_shown() -> None:
    texts = ["a@b.org"] * 70_000 + [CANARY, "", f"{CANARY}2", *[CANARY] * 5]
    with pytest.raises(InvalidTable) as caught:
        encode(texts, ruled(MAIL), publisher="daily", key=KEY)
    assert str(caught.value.message) == (
        "The table must be one with an id in every row, by the rule 'e-mail'. Got ids that do not "
        "fit the rule 'e-mail' in 7 rows: 70000, 70002, 70003, 70004, 70005, …, and none in row "
        "70001, counted from 0."
    )
    assert "unfit" in caught.value.hint
    assert "--missing skip" in caught.value.hint
    shown = f"{caught.value} {caught.value!r} {caught.value.details}"
    assert "canary" not in shown


def test_what_is_skipped_is_not_refused() -> None:
    texts = ["a@b.org", CANARY, ""]
    ways: list[tuple[dict[str, Any], str]] = [
        ({"missing": "skip"}, "do not fit the rule 'e-mail' in row 1, counted from 0."),
        ({"unfit": "skip"}, "Got none in row 2, counted from 0."),
    ]
    for options, words in ways:
        with pytest.raises(InvalidTable) as caught:
            encode(texts, ruled(MAIL), publisher="daily", key=KEY, **options)
        assert caught.value.message.endswith(words)


def test_phones_without_a_plus_hint_at_the_country_code() -> None:
    for rule, hinted in ((PHONE, True), (GERMAN, False)):
        with pytest.raises(InvalidTable) as caught:
            encode(["12"], ruled(rule), publisher="daily", key=KEY)
        assert ("country code" in caught.value.hint) is hinted


def test_binary_has_no_letters_to_spell() -> None:
    table = pa.table({"id": pa.array([CANARY.encode()], pa.binary())})
    with pytest.raises(InvalidTable, match="texts or whole numbers") as caught:
        encode(table, ruled(LOWER), publisher="daily", key=KEY)
    assert "canary" not in str(caught.value)


def test_half_a_character_is_refused_without_being_shown() -> None:
    offsets = pa.py_buffer(np.array([0, 8], np.int32))
    column = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"canary\xc3\x28")])
    with pytest.raises(InvalidTable) as caught:
        encode(pa.table({"id": column}), ruled(LOWER), publisher="daily", key=KEY)
    assert "canary" not in str(caught.value)


def test_counts_go_with_ids_that_are_left() -> None:
    plan = ruled(MAIL, frequencies=2)
    table = {"id": ["A@b.org", "nobody", "c@d.org"], "views": [2, None, 1]}
    found = unflipped(table, plan, rule=MAIL, unfit="skip", counts="views", column="id")
    wanted = unflipped(["a@b.org", "a@b.org", "c@d.org"], plan)
    for one, other in zip(found, wanted, strict=True):
        assert (one == other).all()


# ------------------------------------------------------------------------------ as they are


@each_case(
    ("texts", "wanted", "rule", "doubtful"),
    [
        ([" A@b.org", "a@b.org", "", None], Likeness(2, 2, 0, 1), "e-mail", True),
        (["a@b.org", "zoë@b.org"], Likeness(2, 2, 0, 0), "e-mail", False),
        (["+491701234567", "+49 170 1234567"], Likeness(2, 0, 2, 1), "phone", True),
        (["0170/1234567", "(030) 1234567"], Likeness(2, 0, 2, 2), "phone", True),
        (["0001234567", "1701234567"], Likeness(2, 0, 0, 0), "lower-case", False),
        (["2026-01-01", "dGVzdA", "x "], Likeness(3, 0, 0, 2), "lower-case", False),
    ],
)
def test_what_ids_look_like_that_are_taken_as_they_are(
    texts: list[str | None], wanted: Likeness, rule: str, *, doubtful: bool
) -> None:
    for kind in (pa.string(), pa.large_string()):
        found = likeness(pa.array(texts, kind))
        assert (found, found.rule, found.doubtful) == (wanted, rule, doubtful)
    assert likeness(pa.array([b"A@b.org"])) == Likeness()


def test_addresses_in_several_spellings_are_told_without_a_number() -> None:
    with pytest.warns(UserWarning, match="Was 'e-mail' meant") as caught:
        encode(LIST, ruled(AS_IS), publisher="daily", key=KEY)
    assert not any(digit in str(caught[0].message) for digit in "0123456789")
    told: list[Loaded] = []
    encode(LIST, ruled(AS_IS), publisher="daily", key=KEY, told=told.append)
    assert told[0].likeness == Likeness(4, 4, 0, 2)
    encode(SPELLED, ruled(AS_IS), publisher="daily", key=KEY)  # a warning would be an error
