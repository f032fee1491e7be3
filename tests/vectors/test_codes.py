"""Vectors from answers to codes: what devices send, and a stranger who has only read the page."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.encoding.device import encode_with
from chaffinch.protocols import Flips, every_protocol
from chaffinch.questions import Choice
from chaffinch.wire.messages import EMPTY
from tests.cases import each_case
from tests.engines.plans import plan_of
from tests.meta import repository
from tests.vectors import make_codes
from tests.wire import stranger_codes

STORED: dict[str, Any] = json.loads(make_codes.FILE.read_text("utf-8"))
NAMES = [case["name"] for case in STORED["cases"]]


def test_the_vectors_are_what_a_device_sends() -> None:
    assert make_codes.made() == STORED


@each_case("case", STORED["cases"], ids=NAMES)
def test_a_stranger_sends_the_same(case: dict[str, Any]) -> None:
    for report in case["reports"]:
        words = iter([int(word, 16) for word in report["words"]])
        found = stranger_codes.encode(case["questions"], report["answer"], words)
        assert found == report["codes"]
        assert next(words, None) is None, "a device takes as many words"
    assert sum(map(stranger_codes.codes_of, case["questions"])) == case["messages"]["codes"]
    assert max(len(one["codes"]) for one in case["reports"]) <= case["messages"]["slots"]


def test_every_protocol_has_vectors_and_is_on_the_page() -> None:
    kinds = {entry["protocol"]["kind"] for case in STORED["cases"] for entry in case["questions"]}
    assert kinds == {one.kind for one in every_protocol() if one.view == "messages"}
    page = (repository.ROOT / "docs" / "reference" / "wire.md").read_text("utf-8")
    assert all(f"| `{kind}` |" in page for kind in kinds)


def test_the_example_of_slots_is_what_a_device_sends() -> None:
    page = (repository.ROOT / "docs" / "reference" / "wire.md").read_text("utf-8")
    plan = plan_of(("a", Choice(["tea", "coffee", "water"]), Flips(Fraction(1, 4), 1, 2)), users=10)
    named = {"none": (), "0": (0,), "0 and 1": (0, 1), "2": (2,)}
    for flipped, bits in named.items():
        words = Given([0 if bit in bits else 2**64 - 1 for bit in range(3)])
        codes = encode_with("water", plan, words).codes
        items = ", ".join("dummy" if code == EMPTY else f"code {code}" for code in codes)
        afterwards = " ".join(str(int((bit == 2) != (bit in bits))) for bit in range(3))
        assert f"| {flipped} | {afterwards} | {items}" in page


class Given:
    """Words that are given."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def take(self, count: int) -> NDArray[np.uint64]:
        found, self._words = self._words[:count], self._words[count:]
        return np.array(found, np.uint64)


def test_noise_is_among_the_vectors_sent_and_dropped() -> None:
    """Of signed decoys there must be reports with bursts, without, and with too many."""
    for case in STORED["cases"]:
        if case["name"] == "signed decoys of a choice":
            lengths = {(len(one["codes"]) > 1, len(one["words"]) > 1) for one in case["reports"]}
    assert {(True, True), (False, True)} <= lengths
