"""Codes are numbered as docs/reference/wire.md tells strangers who write a client."""

from __future__ import annotations

from collections.abc import Mapping

from chaffinch.encoding.device import encode_with
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Decoys, Flips
from chaffinch.questions import Bit, Choice, Flags
from chaffinch.sampling import secure_words
from chaffinch.wire.messages import EMPTY
from tests.engines.plans import LEAST, plan_of


def test_codes_are_numbered_as_on_the_page() -> None:
    tea = Bit(missing="refuse")
    mode = Choice(["bike", "car"], missing="count")
    reads = Flags(["x", "y", "z"])
    plan = plan_of(
        ("tea", tea, Flips(LEAST, 2)),
        ("mode", mode, Flips(LEAST, 1, 2)),
        ("reads", reads, Flips(LEAST, 1)),
        ("coffee", tea, Decoys(2, LEAST)),
        users=3,
    )
    slots = 2 + 2 + 3 + (1 + 2)
    assert (plan.slots, plan.codes) == (slots, 1 + 3 + 3 + 2)
    answer = {"tea": "yes", "mode": None, "reads": ["x", "z"], "coffee": "yes"}
    # yes twice; the label behind both values; the first and the last flag; yes behind no
    assert sent(answer, plan) == [0, 0, 1 + 2, 4, 4 + 2, 7 + 1]
    answer = {"tea": "no", "mode": "car", "reads": [], "coffee": "no"}
    assert sent(answer, plan) == [1 + 1, 7]


def sent(answer: Mapping[str, object], plan: Plan) -> list[int]:
    """The codes of a report whose noise is never seen."""
    codes = encode_with(answer, plan, secure_words()).codes
    return [code for code in codes if code != EMPTY]
