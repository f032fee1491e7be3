"""Plan files: what comes back is what was written, or one clear error."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch import plan as survey_plan
from chaffinch import questions
from chaffinch.errors import ChaffinchError, GuaranteeNotProven, InvalidFile
from chaffinch.plans.kinds import load_any_plan
from chaffinch.privacy import Target
from chaffinch.reach import load_plan, plan
from chaffinch.reach.planning.audience import Audience
from chaffinch.reach.planning.reach_plan import _FORMAT, _LARGEST_FILE, ReachPlan, plan_from
from chaffinch.wire.documents import digest
from tests.cases import each_case

PLAN = plan(
    Audience(["daily", "Rádio"], frequencies=2),
    sizes=[30_000, 20_000],
    target=Target(epsilon=1.5, delta=1e-8),
    bits=2**20,
    hashes=2,
    title="Spring",
)


def text(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode()


def changed(edit: Callable[[dict[str, Any]], object], *, forged: bool = True) -> bytes:
    """Return the plan's file after an edit; a forger makes the id match again."""
    document = json.loads(json.dumps(PLAN.document()))
    edit(document)
    if forged:
        body = {key: value for key, value in document.items() if key not in ("format", "id")}
        document["id"] = digest(_FORMAT, body)
    return text(document)


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    PLAN.save(path)
    back = load_plan(path)
    assert back == PLAN
    assert back.id == PLAN.id
    assert back.flip_probability == PLAN.flip_probability
    assert back.guarantee == PLAN.guarantee
    back.verify()
    assert back.document() == PLAN.document()


@given(
    numerator=st.integers(2**54, 2**63 - 1),
    bits=st.integers(6, 29).map(lambda power: 2**power),
    hashes=st.integers(1, 64),
    names=st.lists(st.text("abcäö 1-", min_size=1, max_size=8), min_size=1, unique=True).map(
        lambda some: [one.strip() or "x" for one in some][:5]
    ),
    size=st.integers(1, 10**12),
    epsilon=st.floats(1e-6, 100),
)
def test_any_plan_comes_back(
    *, numerator: int, bits: int, hashes: int, names: list[str], size: int, epsilon: float
) -> None:
    audience = Audience(dict.fromkeys(names))
    flip = Fraction(numerator, 2**64)
    sizes = (size,) * len(audience.publishers)
    made = ReachPlan("", audience, sizes, bits, hashes, flip, epsilon, 1e-9)
    assert plan_from(text(made.document())) == made


def test_every_changed_byte_is_refused() -> None:
    whole = bytearray(text(PLAN.document()))
    for place in range(len(whole)):
        for flip in (1, 0x20):
            wrong = bytearray(whole)
            wrong[place] ^= flip
            with pytest.raises(InvalidFile):
                plan_from(bytes(wrong))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_half_a_file_is_refused(share: float) -> None:
    whole = text(PLAN.document())
    with pytest.raises(InvalidFile):
        plan_from(whole[: int(share * len(whole))])


@each_case(
    "other", ["chaffinch/reach-plan@2", "chaffinch/plan@1", "", None, 1, ["chaffinch/reach-plan@1"]]
)
def test_other_formats_are_refused(other: object) -> None:
    with pytest.raises(InvalidFile) as caught:
        plan_from(changed(lambda document: document.update(format=other)))
    hints = {"chaffinch/reach-plan@2": "another version", "chaffinch/plan@1": "plan of a survey"}
    assert hints.get(str(other), "") in caught.value.hint


def test_a_damaged_plan_of_a_reach_is_not_read_as_one_of_a_survey(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(changed(lambda document: document.update(title="Summer"), forged=False))
    with pytest.raises(InvalidFile, match="unchanged since it was written"):
        load_any_plan(path)
    path.write_bytes(text(PLAN.document()))
    assert load_any_plan(path) == PLAN


def test_a_survey_that_names_the_format_of_a_reach_is_still_a_survey(tmp_path: Path) -> None:
    survey = survey_plan(
        questions.Bit(), users=1000, target=Target(epsilon=1.0, delta=1e-6), title=_FORMAT
    )
    survey.save(tmp_path / "plan.json")
    assert load_any_plan(tmp_path / "plan.json") == survey


@each_case(
    "edit",
    [
        lambda d: d["guarantee"].update(local_epsilon="3"),
        lambda d: d["guarantee"].update(crowd="everybody"),
        lambda d: d["guarantee"].update(method="exact"),
        lambda d: d["guarantee"].update(neighbours="replace-one"),
        lambda d: d["guarantee"].update(view="totals"),
        lambda d: d["guarantee"].update(epsilon="1.50"),
        lambda d: d["guarantee"].update(epsilon="infinite"),
        lambda d: d["guarantee"].update(delta="2"),
        lambda d: d["guarantee"].pop("view"),
        lambda d: d["filters"].update(flip_probability="0.3"),
        lambda d: d["filters"].update(flip_probability="0.50"),
        lambda d: d["filters"].update(flip_probability="0"),
        lambda d: d["filters"].update(flip_probability=0.25),
        lambda d: d["filters"].update(flip_probability="1e-3"),
        lambda d: d["filters"].update(hash="md5"),
        lambda d: d["filters"].update(bits=63),
        lambda d: d["filters"].update(bits=10**30),
        lambda d: d["filters"].update(bits=-1),
        lambda d: d["filters"].update(bits=1e6),
        lambda d: d["filters"].update(bits=True),
        lambda d: d["filters"].update(bits="1048576"),
        lambda d: d["filters"].update(hashes=0),
        lambda d: d["filters"].update(hashes=10**9),
        lambda d: d["filters"].update(frequencies=0),
        lambda d: d["filters"].update(frequencies=10**9),
        lambda d: d["filters"].update(salt="x"),
        lambda d: d["publishers"].clear(),
        lambda d: d["publishers"][0].update(size=0),
        lambda d: d["publishers"][0].update(size=10**13),
        lambda d: d["publishers"][0].update(size=1.5),
        lambda d: d["publishers"][0].update(name=""),
        lambda d: d["publishers"][0].update(name="Rádio"),
        lambda d: d["publishers"].extend({"name": f"p{n}", "size": 1} for n in range(40)),
        lambda d: d.update(title="two\nlines"),
        lambda d: d.update(title="x" * 10_000),
        lambda d: d.update(note="hello"),
        lambda d: d.pop("filters"),
    ],
)
def test_forged_files_that_contradict_themselves_are_refused(
    edit: Callable[[dict[str, Any]], object],
) -> None:
    with pytest.raises(InvalidFile) as caught:
        plan_from(changed(edit))
    assert caught.value.faults


def test_a_forged_promise_loads_and_does_not_hold() -> None:
    # It says nothing that contradicts itself; only the accounting can tell.
    found = plan_from(changed(lambda document: document["guarantee"].update(epsilon="1.4")))
    with pytest.raises(GuaranteeNotProven):
        found.verify()


@each_case(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"3",
        b"{}",
        b'"' + b"x" * 1000 + b'"',
        b"[" * 100_000,
        b'{"format": NaN}',
        b"\xff\xfe\x00",
        b'{"format": "chaffinch/reach-plan@1", "format": "chaffinch/reach-plan@1"}',
        b'{"format": "chaffinch/reach-plan@1", "title": "\\ud800"}',
    ],
)
def test_hostile_texts_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(content)
    with pytest.raises(InvalidFile):
        load_plan(path)


def test_half_a_character_in_a_whole_plan_is_refused() -> None:
    document = PLAN.document()
    wrong = json.dumps(document).replace('"Spring"', '"\\ud800"').encode()
    with pytest.raises(InvalidFile):
        plan_from(wrong)


def test_files_of_hostile_sizes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with path.open("wb") as file:
        file.truncate(_LARGEST_FILE + 1)
    with pytest.raises(InvalidFile):
        load_plan(path)
    for missing in (tmp_path / "none.json", tmp_path):
        with pytest.raises(ChaffinchError):
            load_plan(missing)


def test_ids_differ_where_plans_do() -> None:
    edits: list[Callable[[dict[str, Any]], object]] = [
        lambda d: d.update(title="Summer"),
        lambda d: d["publishers"][0].update(size=30_001),
        lambda d: d["publishers"].reverse(),
        lambda d: d["guarantee"].update(delta="1e-07"),
    ]
    ids = {plan_from(changed(edit)).id for edit in edits}
    assert len(ids | {PLAN.id}) == len(edits) + 1
