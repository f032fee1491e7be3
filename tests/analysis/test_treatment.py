"""A release says how missing answers, and answers that do not fit, were treated."""

from __future__ import annotations

from fractions import Fraction

import chaffinch as cf
from chaffinch.analysis.analyze import _CONSERVATIVE_MEAN, _treatment_notes
from chaffinch.plans.parts import Part
from chaffinch.plans.plan import Plan
from chaffinch.protocols import Encoded, Flips
from chaffinch.questions import Question
from tests.cases import each_case

COUNTED = "Missing answers are counted, and mean and sum are those of the others"
MOVED = "were moved to the nearest bound"


@each_case(
    ("question", "said"),
    [
        (cf.Bit(missing="no"), ["Missing answers count as 'no'."]),
        (cf.Bit(missing="count"), []),
        # Where nothing was changed, nothing is said.
        (cf.Bit(missing="refuse"), []),
        (cf.Choice(["tea", "other"], missing="count"), []),
        (
            cf.Choice(["tea", "other"], missing="tea", unknown="other"),
            ["Missing answers count as 'tea'.", "Answers that are not listed count as 'other'."],
        ),
        (cf.Choice(range(3), missing="refuse"), []),
        (
            cf.Number(0, 90, unit="minutes", clip=True, missing=0),
            ["Missing answers count as 0 minutes.", f"Numbers beyond 0 to 90 {MOVED}."],
        ),
        (cf.Number(-1.5, 2, missing="refuse"), []),
        (cf.Number(0, 90, missing="count"), [f"{COUNTED}."]),
        (cf.Flags(["a", "b"], missing="none"), ["Missing answers count as none of them."]),
        (cf.Flags(["a", "b"], missing="count"), []),
        (cf.Flags(["a", "b"], missing="refuse"), []),
    ],
)
def test_what_is_said(question: Question, said: list[str]) -> None:
    assert _treatment_notes(question) == said


def test_it_stands_in_text_page_and_document() -> None:
    flip = Fraction(1, 4)
    parts = (
        Part("late", cf.Bit(), Flips(flip)),
        Part("wait", cf.Number(0, 90, unit="minutes", clip=True), Encoded(flip, 4, together=False)),
    )
    plan = Plan("trains", parts, 100, 100, 100, 1, 20.0, 1e-3)
    answers = {"late": [True, False] * 50, "wait": list(range(100))}
    release = cf.analyze(cf.shuffle(cf.encode_many(answers, plan)), plan)
    first, second = (answer["notes"] for answer in release.document()["questions"])
    assert first == _treatment_notes(parts[0].question)
    treated = _treatment_notes(parts[1].question)
    assert second[: len(treated) + 1] == [*treated, _CONSERVATIVE_MEAN]
    shown, written = " ".join(str(release).split()), release.page()
    for note in (*first, *second):
        assert note in shown
        assert note.replace("'", "&#x27;") in written.replace("&#39;", "&#x27;")
