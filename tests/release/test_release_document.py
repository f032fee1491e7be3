"""A release that was damaged, or says what cannot be, is refused with one clear error."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from chaffinch.errors import InvalidFile, StorageFault
from chaffinch.reach.release import load_release as load_reach_release
from chaffinch.reach.release import read_release as read_reach_release
from chaffinch.reach.release import release_schema as reach_release_schema
from chaffinch.release.publication import Publication
from chaffinch.release.surveys import Together, load_release, read_release, release_schema
from tests.cases import each_case
from tests.release import reach_releases, survey_releases

Read = Callable[[str | bytes], Publication]
KINDS: dict[str, tuple[Read, Publication]] = {
    "survey": (read_release, survey_releases.release()),
    "reach": (read_reach_release, reach_releases.release()),
}
MUTATIONS = 400
STRANGE: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        "",
        "infinite",
        "x",
        "\ud800",
        "\x1b[2J",
        "\n",
        [],
        [1],
        [[]],
        {},
        {"a": 1},
    ),
    *(0, -0.0, -1, 1, 2, 0.5, 10**18, 2**63 - 1, 2**63, 10**400, -(10**400), 5e-324, 1e308, -1e308),
    *(math.nan, math.inf, -math.inf, 2**53 + 1, "chaffinch/release@1", "0" * 32),
)


def changed(document: dict[str, Any], path: list[str | int], to: Any) -> str:
    mutant = copy.deepcopy(document)
    inner: Any = mutant
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return json.dumps(mutant)


@each_case(
    ("path", "to", "fault"),
    [
        (["format"], "chaffinch/release@2", "format 'chaffinch/release@2'"),
        (["format"], None, "Got no format"),
        (["surprise"], 1, "surprise"),
        (["plan"], "short", "plan"),
        (["reports"], 0, "reports"),
        (["reports"], True, "reports"),
        (["reports"], 10**400, "reports"),
        (["rounds"], 2**63, "rounds"),
        (["level"], 1.0, "level"),
        (["guarantee", "epsilon"], -1.0, r"guarantee\.epsilon"),
        (["guarantee", "local_epsilon"], "endless", r"guarantee\.local_epsilon"),
        (["guarantee", "local_epsilon"], math.inf, "no JSON"),
        (["guarantee", "method"], "trust me", r"guarantee\.method"),
        (["questions"], [], "questions"),
        (["questions", 0, "values", 0, "estimate"], math.nan, "no JSON"),
        (["questions", 0, "values", 0, "estimate"], "1", "estimate"),
        (["questions", 0, "values", 0, "value"], "\ud800", "value"),
        (["title"], "a\nb", "title"),
        (["questions", 0, "values", 2, "low"], 1e9, "ends before it begins"),
        (["questions", 0, "unit"], "half a number", "contradicts itself"),
        (["questions", 1, "sum"], None, "contradicts itself"),
        (["questions", 1, "sum"], 1.0, "sum that is not the mean times the reports"),
        (["questions", 1, "quantiles", 0, "low"], 1e9, "ends before it begins"),
        (["questions", 1, "question"], "dr<i>nk", "two questions of one name"),
        (["questions", 0, "tallies", 0], 2**63, "tallies"),
        (["questions", 0, "tallies", 0], -(2**63), "tallies"),
        (["questions", 0, "tallies"], [1, 2], "2 tallies for 14 values"),
    ],
)
def test_a_changed_survey_is_refused(path: list[str | int], to: Any, fault: str) -> None:
    with pytest.raises(InvalidFile, match=fault) as caught:
        read_release(changed(survey_releases.release().document(), path, to))
    assert "chaffinch/release@1" in caught.value.message


@each_case(
    ("change", "fault"),
    [
        (lambda d: d.update(format="chaffinch/release@1"), "format 'chaffinch/release@1'"),
        (lambda d: d.pop("key"), "key"),
        (lambda d: d.update(more=1), "more"),
        (lambda d: d.update(level=2), "level"),
        (lambda d: d.update(colluding_epsilon="lots"), "colluding_epsilon"),
        (lambda d: d["groups"][0].update(low=-1.0), "low"),
        (lambda d: d["groups"][0].update(kind="new"), "kind"),
        (lambda d: d["groups"].clear(), "groups"),
        (lambda d: d["groups"][0].update(low=9e9), "ends before it begins"),
        (lambda d: d["groups"][1].update(kind="reach"), "do not begin with one reach"),
        (lambda d: d["groups"].reverse(), "do not begin with one reach"),
        (lambda d: d.update(publishers=["a", "a"]), "contradicts itself"),
        (lambda d: d["filters"].update(frequencies=99), "contradicts itself"),
    ],
)
def test_a_changed_reach_is_refused(change: Callable[[dict[str, Any]], object], fault: str) -> None:
    document = reach_releases.release().document()
    change(document)
    with pytest.raises(InvalidFile, match=fault) as caught:
        read_reach_release(json.dumps(document))
    assert "chaffinch/reach-release@1" in caught.value.message


@each_case("kind", KINDS)
@each_case(
    "text",
    ["", "[]", "7", "null", "{", '{"format": 1}', '{"format": NaN}', b"\xff\xfe", "[" * 10**5],
)
def test_what_is_no_release_is_refused(kind: str, text: str | bytes) -> None:
    read, _ = KINDS[kind]
    with pytest.raises(InvalidFile):
        read(text)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_there_twice_is_refused(kind: str) -> None:
    read, release = KINDS[kind]
    text = json.dumps(release.document())
    twice = text.replace('"level": 0.95', '"level": 0.99, "level": 0.95')
    assert twice != text
    with pytest.raises(InvalidFile):
        read(twice)


def test_a_release_of_the_other_kind_says_who_reads_it() -> None:
    with pytest.raises(InvalidFile) as caught:
        read_release(json.dumps(reach_releases.release().document()))
    assert "chaffinch.reach.load_release" in caught.value.hint
    with pytest.raises(InvalidFile) as caught:
        read_reach_release(json.dumps(survey_releases.release().document()))
    assert "use chaffinch.load_release" in caught.value.hint


@pytest.mark.parametrize("load", [load_release, load_reach_release])
def test_a_file_that_is_not_there(load: Callable[[Path], Publication], tmp_path: Path) -> None:
    with pytest.raises(StorageFault, match="no such file"):
        load(tmp_path / "none.json")


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path to everything in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for step, one in inner:
        yield (*path, step)
        if isinstance(one, (dict, list)):
            yield from places(one, (*path, step))


def mutant(document: dict[str, Any], draw: random.Random) -> str | bytes:
    """Return a document with one or a few things replaced, removed, doubled or cut off."""
    damaged = copy.deepcopy(document)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        outer: list[Any]
        last: Any
        *outer, last = draw.choice(list(places(damaged)))
        inner: Any = damaged
        for step in outer:
            inner = inner[step]
        way = draw.random()
        if way < 0.1:
            del inner[last]
        elif way < 0.2 and isinstance(inner, list):
            inner.append(copy.deepcopy(inner[last]))
        elif way < 0.25:
            inner[last] = [[[[[[inner[last]]]]]]]
        elif way < 0.4 and isinstance(inner[last], float):
            inner[last] *= draw.choice([-1, 1e-300, 1e300])
        else:
            inner[last] = copy.deepcopy(draw.choice(STRANGE))
    text = json.dumps(damaged).encode()
    if draw.random() < 0.05:
        spot = draw.randrange(len(text))
        text = text[:spot] + draw.choice([b"", b'"', b"[" * 5000, b"1e999", b"\xff"]) + text[spot:]
    return text


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_is_damaged_is_refused_or_can_be_shown(kind: str) -> None:
    read, release = KINDS[kind]
    draw = random.Random(2026)
    refused = 0
    for _ in range(MUTATIONS):
        try:
            found = read(mutant(release.document(), draw))
        except InvalidFile:
            refused += 1
            continue
        # What is accepted is a release like any other.
        for said in (found.text(), found.page(), found._repr_html_(), str(found.table())):
            assert said
    assert refused > MUTATIONS // 2


_RELEASED_AGAIN = replace(
    survey_releases.release(),
    together=Together(2, survey_releases.release().guarantee, earlier=("cd" * 32,)),
    digest="ab" * 32,
    one_party=True,
    rows_were_drawn=True,
    trust="It holds as long as A does not work together with B.",
    group=("airport", "EWR"),
    contributions=2,
    unit="row",
    round=2,
    published_by="Ministry",
    made_on=date(2026, 11, 18),
)


_SHUFFLED = replace(reach_releases.release(), shuffler_guarantee=reach_releases.GUARANTEE)


@pytest.mark.parametrize(
    ("schema", "release"),
    [
        (release_schema(), _RELEASED_AGAIN),
        (reach_release_schema(), _SHUFFLED),
    ],
)
def test_the_schema_names_every_field(schema: dict[str, Any], release: Publication) -> None:
    assert set(schema["properties"]) == set(release.document())
    assert schema["additionalProperties"] is False


def test_a_day_a_publisher_and_a_range_are_read_again_and_may_be_missing() -> None:
    release = survey_releases.release()
    number = release.answers[1]
    assert number.summary is not None
    ranged = replace(number, summary=replace(number.summary, within=(0.0, 60.0)))
    told = replace(
        release,
        made_on=date(2026, 11, 18),
        published_by="Ministry",
        answers=(release.answers[0], ranged),
    )
    document = json.loads(json.dumps(told.document()))
    assert (document["made_on"], document["published_by"]) == ("2026-11-18", "Ministry")
    assert document["questions"][1]["range"] == [0.0, 60.0]
    assert read_release(json.dumps(document)) == told
    assert "18 November 2026 · published by Ministry" in told.page()
    assert not {"made_on", "published_by"} & set(release.document())
    for changed in ({"made_on": "18.11.2026"}, {"made_on": 20261118}, {"published_by": "a\nb"}):
        with pytest.raises(InvalidFile, match=next(iter(changed))):
            read_release(json.dumps(document | changed))
    document["questions"][1]["range"] = [60.0, 0.0]
    with pytest.raises(InvalidFile, match="range"):
        read_release(json.dumps(document))


def test_what_releases_of_the_same_data_promise_together_is_read_again() -> None:
    release = survey_releases.release()
    promise = replace(release.guarantee, epsilon=2 * release.guarantee.epsilon)
    added = replace(release, together=Together(3, promise))
    document = json.loads(json.dumps(added.document()))
    again = read_release(json.dumps(document))
    assert again.together == added.together
    assert again.document() == document
    assert "together" not in release.document()
    with pytest.raises(InvalidFile, match="together"):
        read_release(json.dumps(document | {"together": {"releases": 1}}))


def test_which_round_a_release_is_of_is_read_again() -> None:
    release = survey_releases.release()
    assert (release.rounds, "round" in release.document()) == (3, False), "as in files of before"
    assert read_release(json.dumps(release.document())).round is None
    document = replace(release, round=3).document()
    assert read_release(json.dumps(document)).round == 3
    for number in (0, 4, 1.5, True, "1"):
        with pytest.raises(InvalidFile, match="round"):
            read_release(json.dumps(document | {"round": number}))


def test_that_one_party_held_all_answers_is_read_again() -> None:
    held = replace(survey_releases.release(), one_party=True)
    assert read_release(json.dumps(held.document())).one_party
    assert "one_party" not in survey_releases.release().document()
    for wrong in (False, None, 1, "true"):
        with pytest.raises(InvalidFile):
            read_release(changed(held.document(), ["one_party"], wrong))


def test_a_tally_below_zero_is_read_again() -> None:
    """Of signed decoys a tally is plus minus minus: below zero where most say no."""
    read, release = KINDS["survey"]
    document = json.loads(json.dumps(release.document()))
    again = read(changed(document, ["questions", 0, "tallies", 0], -898))
    assert again.document()["questions"][0]["tallies"][0] == -898
