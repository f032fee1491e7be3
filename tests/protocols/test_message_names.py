"""What messages say in words: exactly what an answer sends, and what the estimator makes of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import chaffinch as cf
from chaffinch.encoding.device import encode_with
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import PROTOCOLS, Decoys, Encoded, Flips, Protocol, Signed
from chaffinch.protocols.signed import Digit
from chaffinch.protocols.weighted import Weighted
from chaffinch.questions import Number, Question
from chaffinch.simulate import SeededWords
from chaffinch.wire.messages import EMPTY
from tests.simulate.settings import SMALL, chance, planned

NEVER = Fraction(1, 1 << 64)
DRINKS = cf.Choice(["tea", "coffee", "milk"], missing="refuse")
MODES = cf.Flags(["dark", "large"])
DELAY = cf.Number(-10, 50, unit="minutes")
SPREAD = replace(DELAY, quantiles=True)


def quiet(steps: int | None = None, *finer: int) -> Signed:
    digits = tuple(Digit(NEVER, (), size) for size in finer) or None
    return Signed(NEVER, (), 1, 8, steps, digits)


def still(*groups: int) -> Weighted:
    levels = tuple((Fraction(1, 1 << 16),) * size for size in groups)
    rare = (Fraction(1, 1 << 40),)
    return Weighted(1, levels, NEVER, rare, rare, rare, 1 << 20, 8)


def said(*names: str, **times: int) -> Counter[str]:
    return Counter(names) + Counter(times)


Case = tuple[Question, Protocol, object, Counter[str]]
QUIET: dict[str, Case] = {
    "bit flips yes": (cf.Bit(), Flips(NEVER, 3), "yes", said(yes=3)),
    "bit flips no": (cf.Bit(), Flips(NEVER, 3), "no", said()),
    "bit decoys": (cf.Bit(), Decoys(2, NEVER), "no", said("no")),
    "bit signed yes": (cf.Bit(), quiet(), "yes", said("yes")),
    "bit signed no": (cf.Bit(), quiet(), "no", said("no")),
    "silent bit": (cf.Bit(missing="count"), Flips(NEVER, 1, 3), None, said("(missing)")),
    "choice flips": (DRINKS, Flips(NEVER, 1, 3), "milk", said("milk")),
    "choice decoys": (DRINKS, Decoys(2, NEVER), "coffee", said("coffee")),
    "choice signed": (DRINKS, quiet(), "coffee", said("+coffee")),
    "flags flips": (MODES, Flips(NEVER, 2), ["large"], Counter({"large: yes": 2})),
    "flags signed": (MODES, quiet(), ["large"], said("dark: no", "large: yes")),
    "total": (DELAY, Encoded(NEVER, 4, together=True), 20, Counter({"+15 minutes": 2})),
    "steps": (
        SPREAD,
        Encoded(NEVER, 4, together=False),
        20,
        said("above -10 minutes", "above 5 minutes"),
    ),
    "signed steps": (DELAY, quiet(2), 50, Counter({"+15 minutes": 2})),
    "signed middle": (DELAY, quiet(2), 20, said("+15 minutes", "−15 minutes")),
    # 3·4 − 1 = 11 steps of 60/11; the first digit is worth four of them, and half of each counts.
    "digits": (
        DELAY,
        quiet(2, 3),
        50,
        Counter({"+10.909 minutes": 2, "+2.7273 minutes": 3}),
    ),
    # Two steps of 30 minutes: all are codes of one group, around the middle of the range.
    "weighted": (DELAY, still(1), 50, said("number: +30 minutes")),
    "weighted middle": (DELAY, still(1), 20, said("number: 0 minutes")),
    # Four steps of 15 minutes, in two codes: −(−2)^k or nothing, and what is left.
    "weighted parts": (DELAY, still(1, 1), 35, said("part 1: −15 minutes", "part 2: +30 minutes")),
    "cross": (
        cf.Cross({"drink": DRINKS, "late": cf.Bit()}),
        Flips(NEVER, 1, 6),
        {"drink": "milk", "late": True},
        said("milk × yes"),
    ),
}


def of_one(question: Question, protocol: Protocol) -> Plan:
    return Plan("", (Part("q", question, protocol),), 1, 1, 1, 1, 1.0, 1.0)


@pytest.mark.parametrize("name", QUIET)
def test_an_answer_without_noise_is_what_is_said(name: str) -> None:
    question, protocol, answer, expected = QUIET[name]
    plan = of_one(question, protocol)
    sent = encode_with(answer, plan, SeededWords(1)).codes
    found = Counter(plan.message_name(code) for code in sent)
    assert found.pop("nothing", 0) == sent.count(EMPTY)
    assert found == expected


def test_every_protocol_is_looked_at() -> None:
    kinds = {protocol.kind for _, protocol, _, _ in QUIET.values()}
    assert kinds | {"flipped-decoys", "totals"} == set(PROTOCOLS)


def meaning(name: str) -> tuple[str, int]:
    """Return what a name speaks of, and on which side: of a bit "no" speaks against "yes"."""
    for sign, number in (("+", 1), ("−", -1)):
        if name.startswith(sign):
            return name[1:], number
    label, _, word = name.rpartition(": ")
    return (label, 1 if word == "yes" else -1) if label else (name, 1)


COUNTED = [name for name, (question, _) in SMALL.items() if question.shape != "number"]


@pytest.mark.parametrize("name", COUNTED)
def test_one_message_more_moves_the_estimate_that_it_names(name: str) -> None:
    part = planned(20, SMALL[name]).parts[0]
    assert len(set(part.message_names)) == part.codes == len(part.message_names)

    def estimates(counts: Any) -> Any:
        reading = part.protocol.read(part.question, counts, 20)
        return reading.noise.estimate(reading.tallies, 20)

    base = np.full(part.codes, 6)
    for code, said in enumerate(part.message_names):
        moved = estimates(base + np.eye(part.codes, dtype=np.int64)[code]) - estimates(base)
        label, side = meaning(said)
        if label not in part.labels:
            assert (label, part.labels) == ("no", ("yes",))
            label, side = "yes", -1
        assert int(np.argmax(np.abs(moved))) == part.labels.index(label)
        assert moved[part.labels.index(label)] * side > 0


@pytest.mark.parametrize("name", sorted(SMALL.keys() - set(COUNTED)))
def test_the_amounts_in_messages_are_those_of_the_estimate(name: str) -> None:
    question, protocol = SMALL[name]
    assert isinstance(question, Number)
    names, steps = protocol.message_names(question), protocol.thermometer
    assert len(set(names)) == protocol.codes(question) == len(names)
    if not steps.together:
        # A place of its own for each step: the labels say where it begins.
        assert names == tuple(f"above {label}" for label in protocol.labels(question))
        return
    base = np.full(len(names), 6)
    for code, said in enumerate(names):
        more = base + np.eye(len(names), dtype=np.int64)[code]
        moved = [int(protocol.read(question, one, 20).tallies.sum()) for one in (more, base)]
        amount = 10.0 * (moved[0] - moved[1]) / steps.resolution
        amount /= 2 if isinstance(protocol, Signed) else 1
        assert float(said.rpartition(": ")[2].replace("−", "-")) == pytest.approx(amount, rel=1e-4)


def test_a_plan_of_several_questions_names_them() -> None:
    plan = planned(20, SMALL["bit flips"], SMALL["choice signed"])
    assert plan.message_names[:3] == ("q0: yes", "q1: +v0", "q1: −v0")
    assert plan.message_name(EMPTY) == "nothing"
    assert len(plan.message_names) == plan.codes


class Tripled(Decoys):
    """A protocol from outside: it has three messages for each value, and says nothing of them."""

    more = 0

    def codes(self, question: Question) -> int:
        return 3 * len(self.labels(question)) + self.more


class Odd(Tripled):
    """One message more, which belongs to no value."""

    more = 1


def test_protocols_that_say_nothing_of_their_codes_have_numbered_ones() -> None:
    named = Tripled(1, chance(0.2)).message_names(cf.Bit())
    assert named == tuple(f"{label}, message {one}" for label in ("no", "yes") for one in (1, 2, 3))
    odd = Odd(1, chance(0.2)).message_names(cf.Bit())
    assert odd == tuple(f"message {one}" for one in range(1, 8))


def test_steps_far_from_zero_are_told_apart() -> None:
    narrow = cf.Number(1e12, 1e12 + 1, quantiles=True)
    names = Encoded(chance(0.2), 8, together=False).message_names(narrow)
    assert len(set(names)) == 8
    assert names[1] == "above 1000000000000.125"
