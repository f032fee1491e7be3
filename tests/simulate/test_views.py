"""What each party sees of one collection: it adds up, and it is what sealed reports would show."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.analysis.analyze import analyze
from chaffinch.encoding.device import encode_with
from chaffinch.encoding.sealing import Sealer
from chaffinch.errors import InvalidInput
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys
from chaffinch.questions import Question
from chaffinch.sampling import secure_words
from chaffinch.simulate import Population, collect, uniform, views, zipf
from chaffinch.simulate.judging import same_law
from chaffinch.simulate.sealed_collection import SealedCollection
from chaffinch.wire.messages import Tally
from tests.planned_once import plans_are_made_once  # noqa: F401 - the same few surveys
from tests.simulate.settings import SMALL, chance, planned
from tests.tiers import some

PEOPLE = 200
DRINKS = cf.Choice(["tea", "coffee", "milk"], missing="refuse")
WAYS: dict[str, tuple[Question, str]] = {
    "fixed": (DRINKS, "flips"),
    "varying": (DRINKS, "signed decoys"),
    "uniform": (cf.Bit(), "decoys"),
    "flags": (cf.Flags(["a", "b"], missing="count"), "flips"),
    "number": (cf.Number(0, 10, unit="km", missing="count"), "encoded"),
}


def plan_of(name: str, users: int = PEOPLE, **more: Any) -> Plan:
    question, way = WAYS[name]
    wishes = {"target": cf.Target(2.0, 1e-4), "max_messages": 500, "anyway": True, **more}
    # A mapping: the count of who answered a number has a protocol of its own.
    return cf.plan(question, users=users, protocol={"answer": way}, **wishes)


@pytest.mark.parametrize("name", WAYS)
def test_everything_shown_is_of_one_collection(name: str) -> None:
    plan = plan_of(name)
    seen = collect(plan, zipf(plan, PEOPLE, seed=1), shown=1000, seed=2)
    assert not seen.drawn
    assert len(seen.devices) == PEOPLE
    # All people are shown, so their messages are all that there are.
    sent = Counter(one for device in seen.devices for one in device.messages)
    assert dict(seen.analyzer.rows()) == {name: sent[name] for name in plan.message_names}
    assert seen.analyzer.empty == sum(device.empty for device in seen.devices)
    assert seen.analyzer.messages == sent.total()
    assert seen.shuffler.envelopes == sum(one.envelopes for one in seen.shuffler.senders)
    assert seen.shuffler.envelopes == sent.total() + seen.analyzer.empty
    assert [one.person for one in seen.devices] == [one.person for one in seen.shuffler.senders]
    numbers = {one.envelopes for one in seen.shuffler.senders}
    assert min(numbers) >= seen.shuffler.least
    assert max(numbers) <= seen.shuffler.most
    assert seen.shuffler.varies == bool(plan.varying) == (len(numbers) > 1)
    # The release is made of these counts.
    made = analyze(Tally(plan.id, PEOPLE, seen.analyzer.counts, "0" * 32), plan)
    assert list(seen.release.answers[0].rows()) == list(made.answers[0].rows())
    assert seen.release.reports == PEOPLE == seen.analyzer.reports == seen.shuffler.reports


@pytest.mark.parametrize("name", ["fixed", "varying", "number"])
def test_the_shuffler_sees_what_sealing_makes(name: str, tmp_path: Path) -> None:
    asked = plan_of(name)
    parties = SealedCollection.make(asked, tmp_path)
    plan = parties.plan
    sealer = Sealer.of(plan, parties._key_lists())  # noqa: SLF001 - the keys of the same parties
    answers: list[Any] = ["tea"] * 8 if name != "number" else [1.0, None, *[10] * 6]
    for answer in answers:
        report = encode_with(answer, plan, secure_words())
        sent, empty = views._items(plan, report)  # noqa: SLF001 - what the view counts
        assert len(sealer.with_dummies(report)) == len(sent) + empty
        assert len(sealer.seal(report, secure_words())) == plan.layout.report_length
    seen = collect(plan, uniform(plan, PEOPLE), seed=1)
    unnamed = collect(asked, uniform(asked, PEOPLE), seed=1)
    for view in (seen.shuffler, unnamed.shuffler):
        assert view.report_bytes == plan.layout.report_length
        assert view.envelope_bytes == plan.layout.item_length(1)
    assert str(seen.shuffler.report_bytes) in seen.sees["shuffler"][1].replace(",", "")


def test_what_is_said_of_the_number_of_messages_follows_the_plan() -> None:
    number = {}
    for name in ("fixed", "varying", "uniform"):
        plan = plan_of(name)
        sees = collect(plan, uniform(plan, PEOPLE), seed=1).sees
        assert set(sees) == {"device", "shuffler", "analyzer", "everybody"}
        number[name] = sees["shuffler"][2]
    assert "in every report" in number["fixed"]
    assert "follows the noise" not in number["fixed"]
    assert "follows the noise" in number["uniform"]
    assert "tells much of the noise" not in number["uniform"]
    assert "tells much of the noise" in number["varying"]


def test_a_report_that_is_too_long_is_not_said_to_be_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views, "analyze", lambda *_, **__: None)
    plan = planned(20, (cf.Bit(), Decoys(20_000, chance(0.001))))
    seen = collect(plan, uniform(plan, 20))
    assert (seen.shuffler.report_bytes, seen.shuffler.envelope_bytes) == (None, None)
    assert "too long to be sealed" in seen.sees["shuffler"][1]


@pytest.mark.parametrize("name", some(SMALL, "choice signed", "choice decoys", "number together"))
def test_drawn_tallies_have_the_law_of_encoded_ones(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(20, SMALL[name])
    monkeypatch.setattr(views, "analyze", lambda *_, **__: None)

    def counts(first: int) -> Any:
        people = zipf(plan, 20, seed=3)
        return np.array(
            [collect(plan, people, shown=4, seed=first + i).analyzer.counts for i in range(400)]
        )

    real = counts(0)
    monkeypatch.setattr(views, "MOST_ENCODED", 0)
    assert collect(plan, zipf(plan, 20, seed=3), seed=1).drawn
    # With a chance of 1e-8 this fails where the laws are the same.
    assert same_law(real, counts(10_000)) > 1e-8


def test_a_million_people_are_drawn_and_it_is_said() -> None:
    plan = plan_of("varying")
    seen = collect(plan, zipf(plan, 1_000_000, seed=1), seed=2)
    assert seen.drawn
    assert seen.analyzer.first == ()
    assert len(seen.devices) == 9
    truth = seen.people.truths[0].counts
    for row, held in zip(seen.release.answer().rows(), truth.tolist(), strict=True):
        assert row.low - 200 <= held <= row.high + 200


def test_too_many_messages_are_drawn_too(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("fixed")
    monkeypatch.setattr(views, "_MOST_MESSAGES", 10)
    assert collect(plan, uniform(plan, PEOPLE)).drawn


def test_the_first_people_of_a_column_are_shown() -> None:
    plan = plan_of("varying")
    answers = ["milk", "tea", "coffee"] + ["tea"] * (PEOPLE - 3)
    seen = collect(plan, answers, shown=3, seed=4)
    assert [one.answers["answer"] for one in seen.devices] == ["milk", "tea", "coffee"]
    assert [one.person for one in seen.devices] == ["Ada", "Ben", "Cleo"]
    assert all(f"+{one.answers['answer']}" in one.messages for one in seen.devices)
    assert seen.people.truths[0].counts.tolist() == [PEOPLE - 2, 1, 1]
    assert len(seen.analyzer.first) == 24
    assert set(seen.analyzer.first) <= set(plan.message_names)


def test_answers_are_said_in_words() -> None:
    number, flags = plan_of("number"), plan_of("flags")
    seen = collect(number, [2.5, None] * PEOPLE, shown=2)
    assert [one.answers["answer"] for one in seen.devices] == ["2.5 km", "(missing)"]
    held = collect(flags, [["b"], [], None] * PEOPLE, shown=3)
    said = [one.answers["answer"] for one in held.devices]
    assert said == ["b", "none of them", "(missing)"]
    silent = collect(number, zipf(number, PEOPLE, seed=1), shown=PEOPLE)
    assert {one.answers["answer"] for one in silent.devices} > {"(missing)"}


def test_several_reports_of_a_person_are_seen_apart() -> None:
    plan = cf.plan(
        cf.Bit(missing="no"),
        users=PEOPLE,
        target=cf.Target(2.0, 1e-4),
        contributions=2,
        protocol="flips",
        anyway=True,
    )
    seen = collect(plan, uniform(plan, 2 * PEOPLE), shown=2)
    assert [one.person for one in seen.devices] == ["Ada", "Ada", "Ben", "Ben"]


def test_a_collection_is_repeated_by_its_seed() -> None:
    plan = plan_of("varying")
    people = uniform(plan, PEOPLE, seed=1)
    one, again, other = (collect(plan, people, seed=seed) for seed in (5, 5, 6))
    assert one.devices == again.devices
    assert one.analyzer.first == again.analyzer.first
    assert one.analyzer.counts.tolist() == again.analyzer.counts.tolist()
    assert one.analyzer.counts.tolist() != other.analyzer.counts.tolist()
    assert collect(plan, people).seed != collect(plan, people).seed


def test_too_few_people_are_refused() -> None:
    plan = plan_of("varying")
    with pytest.raises(InvalidInput, match="at least 200"):
        collect(plan, ["tea"] * 10)
    with pytest.raises(InvalidInput, match="at least 200"):
        collect(plan, uniform(plan, 10))
    with pytest.raises(InvalidInput, match="shown"):
        collect(plan, uniform(plan, PEOPLE), shown=2000)


def test_whoever_is_picked_is_one_of_the_people() -> None:
    plan = plan_of("varying")
    lone = Population(
        PEOPLE, (replace(uniform(plan, PEOPLE).truths[0], counts=np.array([0, 0, PEOPLE])),)
    )
    seen = collect(plan, lone, seed=1)
    assert {one.answers["answer"] for one in seen.devices} == {"milk"}
