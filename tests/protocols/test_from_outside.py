"""A protocol and a mechanism from outside go the whole way, by one file and one line.

``tests/protocols/kary.py`` is that file: k-ary randomized response, with a mechanism that nothing
in chaffinch knows.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import pytest

import chaffinch as cf
from chaffinch import privacy, protocols
from chaffinch.cli import main
from chaffinch.encoding.device import encode_with
from chaffinch.encoding.sealing import Sealer
from chaffinch.errors import InvalidFile, InvalidInput, StorageFault
from chaffinch.keys import KeyFolder
from chaffinch.ledger import Charge, Ledger
from chaffinch.plans.kinds import load_any_plan
from chaffinch.plans.parties import Parties, Party
from chaffinch.plans.plan import Plan
from chaffinch.privacy import mechanism_documents
from chaffinch.privacy.mechanism_documents import mechanism_document, mechanism_from
from chaffinch.protocols import Protocol, Variant, registration, registry
from chaffinch.release.surveys import read_release
from chaffinch.sampling import secure_words
from chaffinch.services.analyzer import AnalyzerSettings, AnalyzerWorker
from chaffinch.services.shuffler import Shuffler, ShufflerSettings
from chaffinch.shuffling.inbox import Upload
from chaffinch.simulate import SeededWords, audit, collect, guessing_game, simulate, uniform
from chaffinch.wire.key_lists import KeyList
from tests.meta import repository
from tests.services.oracle import write_segment
from tests.tiers import nightly

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = repository.ROOT / "docs" / "guides" / "adding-a-protocol.md"
USERS = 400
QUESTION = cf.Choice(["tea", "coffee", "milk", "none"])
TARGET = cf.Target(2.0, 1e-6)
ANSWERS = ["tea"] * 200 + ["coffee"] * 120 + ["milk"] * 80
SURVEY = f"""\
title = "Drinks"
users = {USERS}
epsilon = 2
delta = 1e-6
rows_are_people = true
protocol = "k-ary"

[questions.drink]
kind = "choice"
values = ["tea", "coffee", "milk", "none"]
missing = "refuse"
"""


@pytest.fixture
def kary() -> Iterator[Any]:
    """Return the module of somebody else, registered; forget it afterwards."""
    from tests.protocols import kary as module

    protocols.register(module.KaryResponse)
    yield module
    forget()


def forget() -> None:
    registry.ADDED.clear()
    mechanism_documents._ADDED.clear()  # noqa: SLF001 - nobody unregisters but tests
    from chaffinch.ledger.charge import charge_from

    charge_from.cache_clear()


@pytest.fixture
def plan(kary: ModuleType) -> Plan:
    found = cf.plan(QUESTION, users=USERS, target=TARGET, protocol=kary.KaryResponse.kind)
    assert isinstance(found.part().protocol, kary.KaryResponse)
    return found


# -------------------------------------------------------------------- what is proven


def histogram_law(
    values: int, redraw: Fraction, answers: tuple[int, ...]
) -> dict[tuple[int, ...], Fraction]:
    """Return the exact law of how often each value is sent, one user after the other."""
    law = {(0,) * values: Fraction(1)}
    for answer in answers:
        after: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for seen, mass in law.items():
            for sent in range(values):
                chance = redraw / values + (1 - redraw) * (sent == answer)
                counts = tuple(count + (place == sent) for place, count in enumerate(seen))
                after[counts] += mass * chance
        law = after
    return law


def worst_delta(users: int, values: int, redraw: Fraction, ratio: Fraction) -> Fraction:
    """Return the exact hockey-stick at e^epsilon = ratio over all crowds and changes of one."""
    worst = Fraction(0)
    for others in product(range(values), repeat=users - 1):
        laws = [histogram_law(values, redraw, (one, *others)) for one in range(values)]
        for one, other in product(laws, repeat=2):
            parts = (mass - ratio * other[seen] for seen, mass in one.items())
            worst = max(worst, sum((max(part, Fraction(0)) for part in parts), Fraction(0)))
    return worst


def test_the_mechanism_brackets_every_small_crowd(kary: Any) -> None:
    redraws = Fraction(1, 4), Fraction(1, 2), Fraction(7, 8)
    ratios = Fraction(1), Fraction(3, 2), Fraction(3)
    noticed = 0
    for users, values, redraw, ratio in product((1, 2, 3), (2, 3), redraws, ratios):
        truth = float(worst_delta(users, values, redraw, ratio))
        ends = kary.KaryResponders(users, values, redraw).delta(math.log(ratio))
        assert ends.lower <= truth * (1 + 1e-12)
        assert truth <= ends.upper
        # A law that is too good, of an answer that is redrawn twice, is noticed.
        noticed += ends.upper * (1 - float(redraw)) < truth
    assert noticed > 10
    half = kary.KaryResponders(9, 3, Fraction(1, 2))
    assert math.log(4) <= half.local_epsilon < math.log(4) + 1e-12
    assert half.delta(half.local_epsilon).upper == 0.0


def test_its_document_says_everything(kary: Any) -> None:
    mechanism = kary.KaryResponders(400, 4, Fraction(1, 3))
    document = mechanism_document(mechanism)
    assert document == {
        "mechanism": "kary-responders",
        "users": 400,
        "values": 4,
        "redraw_probability": "1/3",
    }
    cut = privacy.Shortened(mechanism, Fraction(1, 10**9))
    for one in (mechanism, cut, privacy.Grouped(mechanism, 2), privacy.compose(mechanism, times=9)):
        text = json.dumps(mechanism_document(one), allow_nan=False)
        assert mechanism_from(json.loads(text)) == one
    for wrong in ({"users": 400.0}, {"values": 4, "more": 1}, {"redraw_probability": "2/6"}):
        with pytest.raises(InvalidInput):
            mechanism_from(document | wrong)
    forget()
    with pytest.raises(InvalidInput, match="mechanism must be one of"):
        mechanism_document(cut)
    with pytest.raises(InvalidInput, match="kary-responders") as refused:
        mechanism_from(document)
    assert "register" in refused.value.hint


# -------------------------------------------------------------------- the way of a plan


def test_it_is_planned_explained_and_kept(plan: Plan, tmp_path: Path) -> None:
    assert plan.own is not None
    assert plan.own.name == "k-ary response"
    assert "a uniform value is sent in place of the answer" in plan.explain()
    plan.verify(shares=True)
    path = tmp_path / "plan.json"
    plan.save(path)
    again = cf.load_plan(path)
    again.verify(shares=True)
    assert (again.id, again) == (plan.id, plan)
    assert load_any_plan(path) == plan
    assert plan.cost().core_hours > 0
    # Weighed beside all others, where nobody asks for it.
    weighed = cf.plan(QUESTION, users=USERS, target=TARGET)
    assert weighed.own is not None
    assert "k-ary response" in {one.name for one in (weighed.own, *weighed.alternatives)}
    # It says nothing of all tallies together, so that no crossed questions are planned with it.
    cross = cf.Cross({"one": cf.Bit(), "other": cf.Bit()})
    crossed = cf.plan(cross, users=USERS, target=TARGET, anyway=True)
    assert crossed.own is not None
    names = {one.name for one in (crossed.own, *crossed.alternatives)}
    assert names
    assert "k-ary response" not in names
    with pytest.raises(InvalidInput, match="cross"):
        plan.part().protocol.check(cross)
    # Whoever has not registered it trusts no plan of it.
    forget()
    with pytest.raises(InvalidFile, match=r"must be one of .* registered first"):
        cf.load_plan(path)


def rejects(counts: Any, chances: Any) -> bool:
    """Return whether any count is off by six standard deviations: false alarms below 1e-8."""
    total = np.sum(counts)
    spread = np.sqrt(total * chances * (1 - chances))
    return bool((np.abs(counts - total * chances) > 6 * spread).any())


def test_devices_tables_and_samplers_have_its_law(kary: Any, plan: Plan) -> None:
    protocol, values = kary.KaryResponse(Fraction(1, 4)), len(QUESTION.values)
    chances = np.array([1 / 16, 13 / 16, 1 / 16, 1 / 16])
    wrong = np.array([0.055, 0.835, 0.055, 0.055])
    words = SeededWords(5)
    many = protocol.encode_many(QUESTION, np.ones(200_000, np.int64), words).codes
    single = [int(protocol.encode_one(QUESTION, 1, words)[0]) for _ in range(20_000)]
    truth = cf.simulate.Truth("choice", 200_000, np.array([0, 200_000, 0, 0]))
    (drawn,) = protocol.draw_tallies(
        QUESTION, truth, 1, np.random.default_rng(5), np.arange(values)
    )
    for counts in (np.bincount(many), np.bincount(single, minlength=values), drawn):
        assert len(counts) == values
        assert not rejects(counts, chances)
    assert rejects(np.bincount(many), wrong)
    assert rejects(drawn, wrong)
    assert simulate(plan, uniform(plan, USERS, seed=1), runs=300, seed=2).ok
    bit = cf.plan(cf.Bit(), users=USERS, target=TARGET, protocol="k-ary")
    assert simulate(bit, uniform(bit, USERS, seed=3), runs=300, seed=4).ok


def test_a_collection_is_encoded_shuffled_and_analyzed(plan: Plan) -> None:
    plan.verify()
    report = cf.encode("tea", plan)
    assert report.codes[0] < 4
    release = cf.analyze(cf.shuffle(cf.encode_many(ANSWERS, plan)), plan)
    answer = release.answers[0]
    truth = np.array([200, 120, 80, 0])
    # Six standard errors, for each of four values: a false alarm in 1e8 runs.
    assert (np.abs(answer.estimates - truth) < 6 * answer.standard_errors).all()
    assert release.guarantee.method == "upper-bound"


def test_attacks_prove_no_more_than_it_promises(kary: Any, plan: Plan) -> None:
    found = audit(plan, trials=2_000, crowd=1, seed=3)
    assert found.ok

    class Boasting(kary.KaryResponse):  # type: ignore[misc]
        """Claims what a device would have that redraws much more often."""

        def mechanism(self, question: Any, users: int) -> Any:  # noqa: ARG002
            return kary.KaryResponders(users, len(QUESTION.values), Fraction(9, 10))

    own: Any = plan.part().protocol
    part = replace(plan.part(), protocol=Boasting(own.redraw_probability))
    assert not audit(replace(plan, parts=(part,)), trials=2_000, crowd=1, seed=3).ok


# -------------------------------------------------------------------- runs and ledgers


def test_a_table_is_run_and_paid_for(plan: Plan, tmp_path: Path) -> None:
    survey, table = tmp_path / "survey.toml", tmp_path / "people.csv"
    survey.write_text(SURVEY)
    table.write_text("drink\n" + "\n".join(ANSWERS) + "\n")
    book, mark, out = tmp_path / "ledger.db", tmp_path / "ledger.mark", tmp_path / "out"
    cap = cf.Target(6.0, 1e-5)
    Ledger.create(book, role="analyzer", cap=cap, mark=mark)
    words = ["run", survey, "--data", table, "--out", out, "--ledger", book, "--mark", mark]
    words.append("--as-devices")
    assert main([str(word) for word in words]) == 0
    release = cf.load_release(out / "release.json")
    assert cf.load_plan(out / "survey.plan.json").part().protocol.kind == "k-ary"
    assert release.answers[0].labels == QUESTION.labels
    # What was paid is read back with the ledger, and adds up with what comes after it.
    opened = Ledger.open(book, mark=mark)
    (paid,) = opened.entries()
    assert paid.charge.mechanism == plan.round_mechanism()
    once = opened.spent()
    assert once.epsilon <= TARGET.epsilon
    opened.charge(Charge.of(plan), "later", subject="later")
    twice = Ledger.open(book, mark=mark).spent()
    assert once.epsilon < twice.epsilon <= 2 * TARGET.epsilon
    # Without the protocol it is not said that the file was damaged.
    forget()
    with pytest.raises(StorageFault, match="kary-responders") as refused:
        Ledger.open(book, mark=mark)
    assert "register" in refused.value.hint


# -------------------------------------------------------------------- services


def test_a_hop_and_an_analyzer_run_it(plan: Plan, tmp_path: Path) -> None:
    keys = {name: KeyFolder.create(tmp_path / f"{name}-keys") for name in ("hop", "analyzer")}
    hop, analyzer = (
        Party(name, one.identity_hex, f"https://{name}.example") for name, one in keys.items()
    )
    named = plan.run_by(Parties((hop,), analyzer))
    named.save(tmp_path / "plan.json")
    run = cast("Plan", load_any_plan(tmp_path / "plan.json"))
    lists = [
        KeyList.read(keys[name].key_list(run.id), plan_id=run.id, identity=party.key)
        for name, party in (("hop", hop), ("analyzer", analyzer))
    ]
    words, sealer = secure_words(), Sealer.of(run, lists)
    sealed = sealer.seal_all(encode_with(answer, run, words, 1) for answer in ANSWERS)
    data = tmp_path / "hop"
    with Shuffler(data, keys["hop"], [run], ShufflerSettings(openers=1)) as shuffler:
        shuffler.later_keys.take(run.id, analyzer, keys["analyzer"].key_list(run.id))
        write_segment(data, [Upload(run.id, 1, b"".join(sealed))])
        shuffler.take()
        shuffler.tick()
        assert shuffler.status.adds_up
    (batch,) = (data / "outbox").glob("*.batch")
    received = tmp_path / "analyzer" / "received"
    received.mkdir(parents=True)
    (received / batch.name).write_bytes(batch.read_bytes())
    book, mark = tmp_path / "ledger.db", tmp_path / "ledger.mark"
    ledger = Ledger.create(book, role="analyzer", cap=cf.Target(3.0, 1e-5), mark=mark)
    settings = AnalyzerSettings(openers=1)
    with AnalyzerWorker(
        tmp_path / "analyzer", [run], keys["analyzer"], ledger=ledger, settings=settings
    ) as worker:
        while worker.step():
            pass
        assert worker.status.adds_up
        content = worker.analyzer._received.release(batch.stem)  # noqa: SLF001
    assert content is not None
    release = read_release(content)
    answer = release.answers[0]
    assert (release.plan_id, int(answer.tallies.sum())) == (run.id, USERS)
    truth = np.array([200, 120, 80, 0])
    assert (np.abs(answer.estimates - truth) < 6 * answer.standard_errors).all()
    assert len(ledger.entries()) == 1


# -------------------------------------------------------------------- what is refused


def test_the_checker_says_why_there_is_no_certificate(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"check_certificate\.py") as refused:
        plan.certificate()
    assert "'k-ary' for a choice" in refused.value.message
    assert "plan --check" in refused.value.hint
    plan.save(tmp_path / "plan.json")
    words = ["plan", "--check", str(tmp_path / "plan.json"), "--certificate"]
    assert main([*words, str(tmp_path / "proof.json")]) == 2
    assert not (tmp_path / "proof.json").exists()


def test_a_protocol_is_registered_once_and_whole(kary: Any) -> None:
    known = protocols.every_protocol()
    assert protocols.register(kary.KaryResponse) is kary.KaryResponse
    assert protocols.every_protocol() == known
    assert protocols.protocol_named("k-ary") is kary.KaryResponse

    class Untold(kary.KaryResponders):  # type: ignore[misc]
        """Has inherited a name."""

    class Bad(kary.KaryResponders):  # type: ignore[misc]
        document_name = "Bad name"

    class Nameless(kary.KaryResponders):  # type: ignore[misc]
        document_name = None

    class Taken(kary.KaryResponders):  # type: ignore[misc]
        document_name = "flipped-bits"

    class Fresh(kary.KaryResponders):  # type: ignore[misc]
        document_name = "fresh"

    class Empty(privacy.Mechanism):
        document_name = "empty"

    def variant(**changed: Any) -> Any:
        facts = {"kind": "mine", "mechanisms": ()} | changed
        made = type("Mine", (kary.KaryResponse,), facts)
        return dataclass(frozen=True)(made)

    class Half(Protocol):
        kind: ClassVar[str] = "half"

    for wrong, words in (
        (kary, "a subclass of chaffinch.protocols.Protocol"),
        (Half, "one that says its shapes, seconds, draw_tallies, encode_many"),
        (variant(kind="flips"), "one that is not taken"),
        (variant(kind="k-ary"), "one that is not taken"),
        (variant(kind="local"), "one that is not taken"),
        (variant(kind="Mine!"), "lower-case words"),
        (variant(shapes=()), "some of bit, choice, number, flags"),
        (variant(shapes=("bit", "choice", "number", "flags")), "one that says its thermometer"),
        (variant(shapes=("word",)), "some of bit, choice, number, flags"),
        (variant(__annotations__={"share": "float"}), "whole numbers, texts, fractions"),
        (variant(__init__=lambda self, chance: None), "its fields: redraw_probability"),  # noqa: ARG005
        (
            variant(__annotations__={"share": "int"}, __init__=lambda self, chance: None),  # noqa: ARG005
            "its fields: redraw_probability, share. Got",
        ),
        (type("Loose", (kary.KaryResponse,), {"kind": "loose"}), "a dataclass"),
        (variant(mechanisms=(3,)), "a tuple of classes of mechanisms"),
        (variant(mechanisms=None), "a tuple of classes of mechanisms"),
        (variant(mechanisms=Fresh), "a tuple of classes of mechanisms"),
        (variant(seconds=None), "EncodingSeconds"),
        (variant(seconds=1e-6), "EncodingSeconds"),
        (variant(mechanisms=(Untold,)), "one that is not taken"),
        (variant(mechanisms=(Bad,)), "lower-case words"),
        (variant(mechanisms=(Nameless,)), "lower-case words"),
        (variant(mechanisms=(Fresh, Taken)), "one that is not taken"),
        (variant(mechanisms=(Fresh, Empty)), "one that says its"),
    ):
        with pytest.raises(InvalidInput, match=f"must be {words}"):
            protocols.register(wrong)
    with pytest.raises(InvalidInput, match="name 'Share' is not defined"):
        protocols.register(variant(__annotations__={"share": "Share"}))
    assert protocols.every_protocol() == known
    assert mechanism_documents._ADDED.keys() == {"kary-responders"}, "all of a protocol or nothing"  # noqa: SLF001
    with pytest.raises(InvalidInput, match="mechanism must be one of") as refused:
        mechanism_document(Untold(9, 3, Fraction(1, 2)))
    assert "`mechanisms`" in refused.value.hint


def other(kary: Any, mechanism: type[privacy.Mechanism], **facts: Any) -> Any:
    """Return a protocol with another mechanism, or with other facts."""
    changed = {"mechanisms": (mechanism,), "mechanism": _made(mechanism)} | facts
    made = type("Other", (kary.KaryResponse,), changed)
    return dataclass(frozen=True)(made)


def _made(mechanism: type[privacy.Mechanism]) -> Any:
    def make(self: Any, question: Any, users: int) -> privacy.Mechanism:
        base: Any = super(type(self), self).mechanism(question, users)
        return mechanism(**{name: getattr(base, name) for name in base.document_fields})

    return make


def ways(name: str) -> Any:
    """Return variants of k-ary response that have another name."""

    def variants(cls: Any, question: Any, most_messages: int) -> list[Variant]:
        (base,) = cls.__mro__[1].variants(question, most_messages)

        def make(setting: Any, mu: float) -> Any:
            return cls(base.make(setting, mu).redraw_probability)

        return [Variant(name, make)]

    return classmethod(variants)


def planned(kind: str, **wishes: Any) -> Plan:
    return cf.plan(QUESTION, users=USERS, target=TARGET, protocol=kind, **wishes)


@pytest.mark.long
def test_a_plan_holds_proofs_about_one_person(kary: Any, plan: Plan) -> None:
    for place, (words, facts) in enumerate(
        (
            ("method of a plan must be a proof", {"method": property(lambda _: "lower-bound")}),
            ("method of a plan must be a proof", {"method": property(lambda _: "certainly")}),
            ("neighbours of a plan must", {"neighbours": property(lambda _: "add-remove")}),
            ("neighbours of a plan must", {"neighbours": property(lambda _: "replace-one-column")}),
        )
    ):
        name = f"doubtful-{place}"
        doubtful = type("Doubtful", (kary.KaryResponders,), {"document_name": name} | facts)
        own = other(kary, dataclass(frozen=True)(doubtful), kind=name, variants=ways(name))
        protocols.register(own)
        for rounds in (1, 2):
            with pytest.raises(InvalidInput, match=words):
                planned(name, anyway=True, rounds=rounds)
        part = replace(plan.part(), protocol=own(Fraction(1, 2)))
        with pytest.raises(InvalidInput, match=words):
            replace(plan, parts=(part,))


def test_a_class_that_is_defined_again_is_not_taken_for_the_same(kary: Any) -> None:
    def again(base: type, **facts: Any) -> Any:
        named = {"__module__": base.__module__, "__qualname__": base.__qualname__}
        return type(base.__name__, (base,), named | facts)

    mechanism = again(kary.KaryResponders)
    protocol = dataclass(frozen=True)(again(kary.KaryResponse))
    renamed = {"kind": "another", "mechanisms": (mechanism,)}
    for wrong in (protocol, dataclass(frozen=True)(again(kary.KaryResponse, **renamed))):
        with pytest.raises(InvalidInput, match="one that is not taken") as refused:
            protocols.register(wrong)
        assert refused.value.hint.endswith("start Python again")
    assert protocols.protocol_named("k-ary") is kary.KaryResponse


@pytest.mark.parametrize(
    "name",
    [
        "signed decoys",
        "k-ary response",
        *map(nightly, ("flips with decoys", "decoys, 3 of them", "local")),
    ],
)
def test_it_is_not_asked_for_by_the_names_of_others(kary: Any, name: str) -> None:
    facts = {"kind": "mine", "mechanisms": (), "variants": ways(name)}
    protocols.register(other(kary, kary.KaryResponders, **facts))
    for asked in {name, "mine", None} - {"local"}:
        with pytest.raises(InvalidInput, match="variants of 'mine' must be other than those of"):
            cf.plan(QUESTION, users=USERS, target=TARGET, protocol=asked)
    # Of other questions nobody is in doubt.
    assert cf.plan(cf.Number(0, 1), users=USERS, target=TARGET, anyway=True).own is not None


def test_only_the_types_of_its_fields_must_be_known(kary: Any) -> None:
    @dataclass(frozen=True)
    class Typed(kary.KaryResponse):  # type: ignore[misc]
        places: int = 3
        kind: ClassVar[str] = "typed"
        mechanisms: ClassVar[Sequence[type[privacy.Mechanism]]] = ()

    assert "Sequence" not in globals(), "it is imported for type checkers alone, as is usual here"
    protocols.register(Typed)
    one = Typed(Fraction(1, 4), 5)
    assert one.document() == {"kind": "typed", "redraw_probability": "0.25", "places": 5}


def test_a_parameter_that_stands_in_no_file_is_refused(kary: Any, plan: Plan) -> None:
    facts = {"__annotations__": {"weight": Fraction}, "kind": "weighed", "mechanisms": ()}
    weighed: Any = dataclass(frozen=True)(type("Weighed", (kary.KaryResponse,), facts))
    protocols.register(weighed)
    for weight in (Fraction(1, 3), None):
        part = replace(plan.part(), protocol=weighed(Fraction(1, 4), weight))
        with pytest.raises(InvalidInput, match="parameters of 'weighed' must be whole numbers"):
            replace(plan, parts=(part,))
    part = replace(plan.part(), protocol=weighed(Fraction(1, 4), Fraction(1, 5)))
    assert replace(plan, parts=(part,)).id != plan.id


@dataclass(frozen=True)
class Chance:
    of: Fraction


@dataclass(frozen=True)
class OtherChance:
    of: Fraction


@dataclass(frozen=True)
class LongChance(Chance):
    more: int = 0


def test_a_parameter_that_is_read_back_as_another_is_refused(kary: Any, plan: Plan) -> None:
    """A document does not say which class of two it means, nor what a subclass adds."""

    @dataclass(frozen=True)
    class Parted(kary.KaryResponse):  # type: ignore[misc]
        chance: Chance | OtherChance = Chance(Fraction(1, 2))
        kind: ClassVar[str] = "parted"
        mechanisms: ClassVar[tuple[type[privacy.Mechanism], ...]] = ()

    protocols.register(Parted)
    half = Fraction(1, 2)
    for chance in (OtherChance(half), LongChance(half), LongChance(half, 3)):
        part = replace(plan.part(), protocol=Parted(half, chance))
        with pytest.raises(InvalidInput, match="parameters of 'parted' must be read back as"):
            replace(plan, parts=(part,))
    part = replace(plan.part(), protocol=Parted(half, Chance(half)))
    assert replace(plan, parts=(part,)).part() == part


def test_a_plan_is_not_saved_with_a_protocol_that_its_file_does_not_mean(
    kary: Any, plan: Plan, tmp_path: Path
) -> None:
    class Inherited(kary.KaryResponse):  # type: ignore[misc]
        """Has the kind of another class, which would be loaded in its place."""

    path = tmp_path / "plan.json"
    part = replace(plan.part(), protocol=Inherited(Fraction(1, 2)))
    with pytest.raises(InvalidInput, match=r"that is registered\. Got Inherited") as refused:
        replace(plan, parts=(part,)).save(path)
    assert "a kind of its own" in refused.value.hint
    forget()
    with pytest.raises(InvalidInput, match=r"that is registered\. Got Kary"):
        plan.save(path)
    assert not path.exists()


def test_what_no_ledger_could_charge_is_not_planned(kary: Any) -> None:
    class Forgotten(kary.KaryResponders):  # type: ignore[misc]
        document_name = "forgotten"

    class Unread(kary.KaryResponders):  # type: ignore[misc]
        document_name = "unread"
        document_fractions = ()

    for made, brought, words in (
        (Forgotten, (), "mechanism must be one of FlippedBits"),
        (Unread, (Unread,), "one that can be read again. Got TypeError: .*Fraction"),
    ):
        kind = made.document_name
        facts = {"mechanisms": brought, "kind": kind, "variants": ways(kind)}
        protocols.register(other(kary, made, **facts))
        with pytest.raises(InvalidInput, match=words):
            planned(kind)
        registry.ADDED.pop(kind)


@pytest.mark.usefixtures("kary")
def test_it_is_not_rehearsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    survey = tmp_path / "survey.toml"
    survey.write_text(SURVEY)
    assert main(["rehearse", str(survey), "--keep", str(tmp_path / "kept")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "protocols of a rehearsal must be those of chaffinch (flips, decoys" in told
    assert "Got 'k-ary'" in told
    assert "a program that registers the protocol" in told
    assert not (tmp_path / "kept").exists()


# -------------------------------------------------------------------- the page about it


def test_the_page_names_all_that_must_be_written(kary: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")
    needed = {
        *Protocol.__abstractmethods__,
        *privacy.Mechanism.__abstractmethods__,
        *registration.NEEDED,
        "mechanisms",
        "document_name",
        "document_fields",
        "document_fractions",
    }
    assert not {name for name in needed if f"`{name}`" not in page}
    lines = Path(kary.__file__).read_text(encoding="utf-8").splitlines()
    assert lines[-1] == "register(KaryResponse)"
    assert lines[-1] in page
    assert "tests/protocols/kary.py" in page


def test_its_messages_have_names_and_can_be_looked_at(plan: Plan) -> None:
    assert plan.message_names == ("tea", "coffee", "milk", "none")
    seen = collect(plan, ANSWERS, seed=1)
    assert [name for name, _ in seen.analyzer.rows()] == list(plan.message_names)
    assert seen.analyzer.messages == seen.shuffler.envelopes == USERS
    score = guessing_game(plan).score(20_000, seed=1)
    # More often than by a coin, and not more than is promised: 1e-9 of chance is 6 deviations.
    assert 52 < score.of_hundred < score.promise + 2
