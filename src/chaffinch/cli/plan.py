"""Find a plan and show the protocols that were compared, or check an existing plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.charts.rounding import promise_text
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.disk.file_kinds import Kind
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.planning.candidates import Candidate
    from chaffinch.planning.survey_file import SurveyFile
    from chaffinch.plans.parties import Parties
    from chaffinch.plans.plan import Plan
    from chaffinch.questions import Question

_FLAG = Parameter(negative=(), show_default=False)


@Parameter(name="*")
@dataclass(frozen=True)
class _QuestionOptions:
    choice: str | None = None
    """Ask for one of these values: a,b,c (a missing answer is refused)."""
    bit: Annotated[bool, _FLAG] = False
    """Ask a yes/no question."""
    number: str | None = None
    """Ask for a number between two bounds: 0:60."""
    unit: Annotated[str, Parameter(show_default=False)] = ""
    """The unit of the number, such as minutes."""
    clip: Annotated[bool, _FLAG] = False
    """Move numbers beyond the bounds to the nearest bound; otherwise they are refused."""
    quantiles: Annotated[bool, _FLAG] = False
    """Also estimate the quantiles of the numbers; the mean becomes less exact."""
    spread: Annotated[bool, _FLAG] = False
    """Also estimate the standard deviation of the numbers; the mean becomes less exact."""
    flags: str | None = None
    """Ask several yes/no questions at once: a,b,c."""
    name: str = "answer"
    """The name of the question."""
    users: int | None = None
    """How many honest people are certain to answer."""
    epsilon: float | None = None
    """Promise at most this epsilon."""
    delta: float | None = None
    """The delta of the promise [default: min(1e-8, 1/(100 users))]."""
    error: str | None = None
    """Or allow this error, such as 0.5% of the crowd, and get about the smallest epsilon that it
    allows, but none far below 0.1: a looser error than that needs gets a more exact plan."""
    confidence: str | None = None
    """The confidence level of the intervals that must stay within the error [default: 95%]."""
    together: Annotated[bool, _FLAG] = False
    """Apply the error to intervals that hold for all values at once, not for each by itself."""
    rounds: int = 1
    """How many times the same people are asked."""
    contributions: int = 1
    """How many reports each person sends into one batch."""
    max_messages: int = 64
    """How many messages of one report may be sealed, on average; padding is not counted."""
    local_epsilon: str | None = None
    """The largest epsilon that may remain if shuffler and analyzer collude, or none for no
    limit."""
    influence: float | None = None
    """The most by which one dishonest report may move a count, in people, or a sum, in ranges
    [default: half of the reports, and at least 10]."""
    honest: str = "100%"
    """The chance that a person is honest, for everybody except the one protected. Below 100% the
    plan waits for more reports, so that nearly always at least --users of them are honest."""
    title: Annotated[str, Parameter(show_default=False)] = ""
    """A title for readers."""


def plan(  # noqa: PLR0913 - one for each option
    survey: Path | None = None,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    asked: _QuestionOptions = _QuestionOptions(),  # noqa: B008 - frozen
    protocol: str | None = None,
    view: str = "messages",
    explain: Annotated[bool, _FLAG] = False,
    check: Path | None = None,
    certificate: Path | None = None,
    parties: Path | None = None,
    example: Annotated[bool, _FLAG] = False,
    example_parties: Annotated[bool, _FLAG] = False,
    anyway: Annotated[bool, _FLAG] = False,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Find the protocol that keeps a promise, or check a plan.

    Give a survey file, or one question by options, with a promise (--epsilon) or an error
    (--error). The protocol with the smallest error is chosen (with --error: the smallest epsilon,
    down to about 0.1). Up to twice as much is accepted for a protocol whose local epsilon is at
    most 4: that epsilon remains if shuffler and analyzer collude.

    Parameters
    ----------
    survey
        A survey file; `--example` prints one.
    out
        The file for the plan, such as browsers.plan.json; - writes the plan, and nothing else, to a
        pipe.
    protocol
        Take the protocol with this name in the table; for a survey, for all questions.
    view
        What is seen: `messages` of devices, or `totals` that one party adds up who may see the
        answers, which is how `chaffinch run` plans.
    explain
        Explain in sentences what is promised, what is sent and why this protocol was chosen.
    check
        Verify this plan file instead: recompute its guarantee from its parameters.
    certificate
        The file for a proof of the promise, which anybody can check with
        tools/check_certificate.py.
    parties
        A file that names the shufflers and the analyzer. The plan is then for sealed reports and
        `chaffinch serve`; its id is another one than that of the same plan without parties.
    example
        Print an example of a survey file, with comments.
    example_parties
        Print an example of a file of parties, with comments.
    anyway
        Also make a plan that is of no use (it protects nobody, or its error is the whole crowd), or
        take a protocol that does not meet a wish.
    """
    given = [
        survey is not None,
        asked != _QuestionOptions(),
        check is not None,
        example,
        example_parties,
    ]
    if sum(given) != 1:
        raise InvalidInput(
            "plan",
            "asked for in one way: a survey file, a question by options, --check or an --example",
            Unquoted("several of them" if any(given) else "none of them"),
            hint="the promise and the wishes of a survey are in its file" if survey else "",
        )
    if example or example_parties:
        _show_example(output, parties=example_parties)
        return
    if protocol is not None and check is not None:
        raise InvalidInput("option --protocol", "given only when a plan is made", protocol)
    inputs = [survey or "-", check or "-", parties or "-"]
    if out is not None and not paths.is_pipe(out):
        paths.require_writable(out, inputs, replaceable=Kind.PLAN)
    if certificate is not None:
        paths.require_writable(certificate, [*inputs, out or "-"])
    named = _read_parties(parties)
    found = _found(survey, asked, check, out, output, protocol=protocol, view=view, anyway=anyway)
    found = found if named is None else found.run_by(named)
    if out is not None:
        paths.write_plan(found, out, output)
    if certificate is not None:
        with output.thinking("looking for a proof that anybody can check"):
            proof = found.certificate()
        proof.save(certificate)
        output.say(f"wrote {certificate}")
    if out is not None and paths.is_pipe(out):
        return
    _show(found, output, explain=explain, checked=check is not None)


def _found(
    survey: Path | None,
    asked: _QuestionOptions,
    check: Path | None,
    out: Path | None,
    output: Output,
    *,
    protocol: str | None,
    view: str,
    anyway: bool,
) -> Plan:
    if check is not None:
        found = paths.open_plan(check, output)
        paths.check_again(found, check, output)
        return found
    if survey is None:
        wanted = replace(_single(asked), view=view)
    else:
        given = paths.open_survey(survey)
        wanted = given.in_view(view)
        for words in given.wishes_about_devices if wanted is not given else ():
            output.say(f"note: {words} is about devices, and says nothing of a table's totals")
    if out is not None and not paths.is_pipe(out):
        from chaffinch.runs.asked import fits_survey

        paths.refuse_other_plan(out, partial(fits_survey, survey=wanted))
    with output.thinking("planning") as tell:
        return wanted.plan(tell, protocol=protocol, anyway=anyway)


def _read_parties(path: Path | None) -> Parties | None:
    from chaffinch.plans.parties import read_parties

    return None if path is None else read_parties(path)


def _show_example(output: Output, *, parties: bool) -> None:
    from chaffinch.planning.survey_file import EXAMPLE as SURVEY
    from chaffinch.plans.parties import EXAMPLE as PARTIES

    text = PARTIES if parties else SURVEY
    if output.json:
        output.document({"example": text})
    else:
        output.drawing(text.rstrip("\n"))


def _single(asked: _QuestionOptions) -> SurveyFile:
    from chaffinch.planning.survey_file import SurveyFile, share_of
    from chaffinch.planning.wishes import default_delta

    if asked.users is None:
        raise InvalidInput("number of users", "given", Unquoted("none"), hint="add --users")
    if (asked.epsilon is None) == (asked.error is None):
        got = Unquoted("neither" if asked.epsilon is None else "both")
        raise InvalidInput("promise", "given by --epsilon or by --error, one of the two", got)
    if asked.confidence is not None and asked.error is None:
        raise InvalidInput("confidence", "given with an --error", asked.confidence)
    if asked.together and asked.error is None:
        raise InvalidInput("together", "given with an --error", Unquoted("no error"))
    target = error = None
    if asked.epsilon is not None:
        delta = default_delta(asked.users) if asked.delta is None else asked.delta
        target = cf.Target(asked.epsilon, delta)
    else:
        confidence = share_of(asked.confidence or "95%")
        error = cf.Error(share_of(asked.error or ""), confidence, asked.together)
    return SurveyFile(
        survey=cf.Survey({asked.name: _question(asked)}, asked.title),
        users=asked.users,
        target=target,
        error=error,
        delta=asked.delta if error is not None else None,
        rounds=asked.rounds,
        contributions=asked.contributions,
        honest=share_of(asked.honest),
        max_messages=asked.max_messages,
        local_epsilon=_local_wish(asked.local_epsilon),
        influence=asked.influence,
    )


def _local_wish(text: str | None) -> float | None:
    if text is None or text == "none":
        return None if text is None else math.inf
    try:
        return float(text)
    except ValueError:
        raise InvalidInput("local epsilon", "a number above 0, or none", text) from None


def _question(asked: _QuestionOptions) -> Question:

    given = [asked.choice is not None, asked.bit, asked.number is not None, asked.flags is not None]
    if sum(given) != 1:
        raise InvalidInput(
            "question", "given by one of --choice, --bit, --number and --flags", sum(given)
        )
    if asked.number is None and (asked.unit or asked.clip or asked.quantiles or asked.spread):
        raise InvalidInput(
            "unit, clip, quantiles or spread", "given with a --number", Unquoted("another question")
        )
    if asked.choice is not None:
        return cf.Choice(_listed(asked.choice), missing="refuse")
    if asked.flags is not None:
        return cf.Flags(_listed(asked.flags))
    if asked.number is None:
        return cf.Bit()
    low, _, high = asked.number.partition(":")
    try:
        return cf.Number(
            float(low),
            float(high),
            unit=asked.unit,
            clip=asked.clip,
            quantiles=asked.quantiles,
            spread=asked.spread,
        )
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("number", "LOW:HIGH, such as 0:60", asked.number) from None


def _listed(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")]


def _show(found: Plan, output: Output, *, explain: bool, checked: bool) -> None:
    if output.json:
        document: dict[str, Any] = {
            "warnings": found.warnings,
            "plan": found.document(),
            "protocols": _alternatives(found),
        }
        if explain:
            document["explanation"] = found.explain()
        if checked:
            document["verified"] = True
        output.document(document)
        return
    if output.quiet and not explain:
        return
    output.words(found.title or f"Plan {found.id[:16]}")
    output.words("")
    # Behind any warnings: the promise, the odds, and what both count on.
    paragraphs = found.explain().split("\n\n")
    output.words("\n\n".join(paragraphs if explain else paragraphs[: 3 + len(found.warnings)]))
    output.words("")
    if found.parties is not None:
        _show_parties(found, output)
    if found.alternatives:
        _show_alternatives(found, output)
    elif checked:
        output.words("A plan file holds no alternatives: plan again to compare protocols.")


def _show_parties(found: Plan, output: Output) -> None:
    parties = found.parties
    if parties is None:
        return
    roles = [f"hop {place}" for place in range(1, len(parties.hops) + 1)] + ["analyzer"]
    rows = [
        [role, one.name, one.address, f"{one.identity[:16]}…"]
        for role, one in zip(roles, (*parties.hops, parties.analyzer), strict=True)
    ]
    output.table(["run by", "name", "address", "identity"], rows, texts=4)
    output.words("")
    output.words(f"Every report is {found.layout.report_length:,} bytes.")
    output.words("")


# ----------------------------------------------------------------------------
# The protocols that a planner weighed, side by side.


def _chosen_candidate(plan: Plan) -> Candidate:
    if plan.own is not None:
        return plan.own
    from chaffinch.planning.candidates import Task, candidate
    from chaffinch.plans.expansion import expanded

    name = "; ".join(part.protocol.name for part in plan.parts)
    task = Task(
        questions=expanded(plan.questions.items()),
        users=plan.users,
        reports=plan.reports,
        rounds=plan.rounds,
        max_messages=max(plan.slots, 1),
        contributions=plan.contributions,
        honest=plan.honest,
    )
    promise = (plan.epsilon, plan.delta)
    return candidate("local" if plan.crowd == 1 else name, plan.parts, plan.crowd, promise, task)


def _promise(value: float) -> str:
    return "infinite" if math.isinf(value) else promise_text(value, 4)


_COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("epsilon", lambda row: _promise(row["epsilon"])),
    ("error", lambda row: f"{row['standard_error']:,.4g}"),
    ("slots", lambda row: f"{row['slots']:,}{'' if row['within_limits'] else ' !'}"),
    ("messages", lambda row: f"{row['messages']:,.3g}"),
    ("bytes", lambda row: f"{row['report_bytes']:,}"),
    ("ops", lambda row: f"{row['shuffler_operations']}+{row['analyzer_operations']:,}"),
    ("local ε", lambda row: _promise(row["local_epsilon"])),
)
_COSTS = {
    "slots": "message slots",
    "messages": "messages sent on average, by the answers that have most",
    "bytes": "bytes of a sealed report",
    "ops": "public-key operations at shuffler + analyzer",
}
"""What is told of one report, for the columns that have no longer name."""
_LEFT_OUT_WHEN_NARROW = ("messages", "bytes", "ops")


def _alternatives(plan: Plan) -> list[dict[str, Any]]:
    own = _chosen_candidate(plan)
    return [
        {
            "protocol": one.name,
            "chosen": one is own,
            "within_limits": not one.ruled_out,
            "epsilon": one.epsilon,
            "delta": one.delta,
            "standard_error": one.error,
            "slots": one.slots,
            "influence": one.influence,
            "messages": one.messages,
            "report_bytes": one.report_bytes,
            "shuffler_operations": one.shuffler_operations,
            "analyzer_operations": one.analyzer_operations,
            "local_epsilon": one.local_epsilon,
            "beside": one.beside,
        }
        for one in (own, *sorted(plan.alternatives, key=lambda one: one.error))
    ]


def _show_alternatives(plan: Plan, output: Output) -> None:
    from chaffinch.protocols import row_name

    rows = _alternatives(plan)
    mixed = len({row["epsilon"] for row in rows}) > 1
    kept = [place for place, one in enumerate(_COLUMNS) if mixed or one[0] != "epsilon"]
    totals = plan.view == "totals"
    if totals:  # nothing is sent
        kept = [place for place in kept if _COLUMNS[place][0] in {"epsilon", "error"}]
    if output.width < 80:
        kept = [place for place in kept if _COLUMNS[place][0] not in _LEFT_OUT_WHEN_NARROW]
    shown = [
        [
            "→" if row["chosen"] else "",
            row_name(row["protocol"]),
            *(_COLUMNS[place][1](row) for place in kept),
        ]
        for row in rows
    ]
    output.table(["", "protocol", *(_COLUMNS[place][0] for place in kept)], shown, texts=2)
    output.words("")
    ruled_out = any(not row["within_limits"] for row in rows)
    unprotected = any(math.isinf(row["local_epsilon"]) for row in rows)
    costs = [_COSTS[name] for place in kept if (name := _COLUMNS[place][0]) in _COSTS]
    output.words(
        "→ chosen. error: standard error of a count, in people (of a sum, in ranges)."
        + f" Per report: {', '.join(costs)}." * bool(costs)
        + " local ε: what is left if shuffler and analyzer collude" * (not totals)
        + " (infinite: no protection)" * (not totals and unprotected)
        + "." * (not totals)
        + (" ! ruled out by a wish, such as the number of messages." if ruled_out else "")
        + " `--protocol` with its name takes another one"
        + (", `--anyway` one that is ruled out, too." if ruled_out else ".")
    )
    for row in rows:
        if row["beside"]:
            output.words(f"Without any crowd, {row['beside']}.")
