"""What is filled in becomes a survey file, whatever it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InvalidFile
from chaffinch.planning.survey_file import EXAMPLE, survey_from
from chaffinch.questions import Bit, Choice, Flags, Number
from chaffinch.web.survey_form import DEFAULTS, survey_text


def test_every_kind_of_sentence() -> None:
    asked = survey_from(survey_text(DEFAULTS))
    assert asked.users == 10_000
    assert asked.survey.questions == {"answer": Choice(["chrome", "firefox", "safari", "other"])}
    for kind, question in (
        ("bit", Bit()),
        ("number", Number(0, 60, unit="minutes")),
        ("flags", Flags(["chrome", "firefox", "safari", "other"])),
    ):
        asked = survey_from(survey_text({**DEFAULTS, "kind": kind}))
        assert asked.survey.questions == {"answer": question}
    asked = survey_from(survey_text({**DEFAULTS, "kind": "number", "quantiles": "1", "unit": ""}))
    assert asked.survey.questions == {"answer": Number(0, 60, quantiles=True)}
    asked = survey_from(survey_text({**DEFAULTS, "kind": "number", "spread": "1", "unit": ""}))
    assert asked.survey.questions == {"answer": Number(0, 60, spread=True)}


@pytest.mark.parametrize(
    "users", ["10000", "10,000", "10 000", "10_000", "10\u202f000", " +10,000 ", "1e4"]
)
def test_numbers_as_people_write_them(users: str) -> None:
    assert survey_from(survey_text({**DEFAULTS, "users": users})).users == 10_000


@pytest.mark.parametrize("users", ["10,0000", "007", "1,00", "\u0661\u0660"])
def test_no_number_is_guessed(users: str) -> None:
    with pytest.raises(InvalidFile, match="users: must be a whole number"):
        survey_from(survey_text({**DEFAULTS, "users": users}))


@pytest.mark.parametrize("error", ["0.5", "0.5%", " 0.5 % "])
def test_the_error_may_lead(error: str) -> None:
    asked = survey_from(survey_text({**DEFAULTS, "lead": "error", "error": error, "delta": "1e-6"}))
    assert asked.target is None
    assert asked.error is not None
    assert asked.error.share == pytest.approx(0.005)
    assert asked.delta == 1e-6


def test_a_survey_that_is_written_out_counts_as_it_stands() -> None:
    form = {**DEFAULTS, "kind": "survey", "own": "1", "epsilon": "7", "title": "other"}
    assert survey_text({**form, "survey": EXAMPLE.replace("\n", "\r\n")}) == EXAMPLE
    # Of another kind of question, what is written in the field that is hidden then does not.
    assert "7" in survey_text({**form, "survey": EXAMPLE, "kind": "bit"})


def test_of_a_whole_survey_the_wishes_count() -> None:
    form = {**DEFAULTS, "kind": "survey", "survey": EXAMPLE, "epsilon": "0.7", "rounds": "3",
            "protocol": "flips", "title": "Mine"}  # fmt: skip
    asked, before = survey_from(survey_text(form)), survey_from(EXAMPLE)
    # The file stands in the box of the page again, where the next wish finds it.
    assert survey_text({**form, "survey": survey_text(form)}) == survey_text(form)
    assert asked.target is not None
    assert (asked.target.epsilon, asked.rounds, asked.protocol) == (0.7, 3, "flips")
    assert (asked.survey.questions, asked.users) == (before.survey.questions, before.users)
    assert asked.survey.title == "Mine"
    windows = {**form, "survey": EXAMPLE.replace("\n", "\r\n")}
    assert survey_text(windows) == survey_text(form)
    # It is kept when another kind is chosen, and does not count then.
    assert survey_text({**form, "kind": "bit"}) == survey_text(
        {**form, "kind": "bit", "survey": ""}
    )
    asked = survey_from(survey_text({**form, "lead": "error", "error": "2"}))
    assert (asked.target, asked.error and asked.error.share) == (None, 0.02)


LISTED = """users = 60
'epsilon' = 3
title = "a"
cross = [
  ["a", "b"],
  ["c", "d"],
]
rounds = 2
[questions]
""" + "".join(f'{name} = {{kind = "bit"}}\n' for name in "abcd")


def test_lists_over_several_lines_stay_whole() -> None:
    asked = survey_from(survey_text({"kind": "survey", "survey": LISTED, "epsilon": "1"}))
    assert asked.target is not None
    assert (asked.target.epsilon, asked.rounds, asked.survey.title) == (1, 2, "a")
    assert len(asked.survey.cross) == 2


def test_a_fault_of_a_survey_is_told_by_its_own_line() -> None:
    form = {"kind": "survey", "survey": "# mine\n\nusers = = 3\n", "rounds": "2"}
    with pytest.raises(InvalidFile, match="line 3"):
        survey_from(survey_text(form))


def test_all_faults_are_told_by_their_place() -> None:
    form = {**DEFAULTS, "users": "ten", "kind": "number", "low": "a", "high": "9", "epsilon": "-1"}
    with pytest.raises(InvalidFile) as caught:
        survey_from(survey_text(form))
    said = str(caught.value)
    assert all(place in said for place in ("users", "questions.answer.low", "epsilon"))


_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_FIELDS = (
    *("users", "values", "low", "high", "unit", "name", "title", "epsilon", "error"),
    *("delta", "rounds", "honest", "local_epsilon", "protocol"),
)
_KINDS = {"kind": st.sampled_from(["bit", "choice", "number", "flags"])}


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(_FIELDS, _TEXT) | _KINDS))
def test_nothing_that_is_filled_in_breaks_out(form: dict[str, str]) -> None:
    """Whatever it is, it is one survey with one question, or it is refused as a file is."""
    try:
        asked = survey_from(survey_text(DEFAULTS | form))
    except InvalidFile:
        return
    assert list(asked.survey.questions) == [form.get("name", "").strip() or "answer"]
    assert asked.person is None
    assert not asked.anyway
