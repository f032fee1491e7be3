"""Plan a reach, or check an existing plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.charts.rounding import bytes_for_people, error_text, promise_text
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.protected import refuse_all_but
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.reach.planning.reach_plan import Option, ReachPlan

_FLAG = Parameter(negative=(), show_default=False)
_OUT = Parameter(name=["--out", "-o"])
_NARROW = 80
_SPELLING_HINT = (
    " If they are e-mail addresses or phone numbers, plan with --ids e-mail or --ids phone: lists "
    "of several publishers are hardly ever spelled alike."
)


@Parameter(name="*")
@dataclass(frozen=True)
class _AudienceOptions:
    publisher: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = ()
    """NAME=SIZE: a publisher and how many ids it expects to have; given once for each publisher."""
    frequencies: int = 1
    """Up to how many views are counted: with 3, ids seen at least once, twice and three times."""
    epsilon: float | None = None
    """Promise at most this epsilon for one id, at all publishers together."""
    delta: float | None = None
    """The delta of the promise [default: min(1e-8, 1/(100 ids)), of the ids of all publishers]."""
    bits: int | None = None
    """The number of bits of a filter; chosen automatically if it is not given."""
    hashes: int | None = None
    """The number of bits that an id sets; chosen automatically if it is not given. Fewer hashes
    protect better if a publisher colludes."""
    max_bits: int | None = None
    """The largest number of bits to consider [default: 134217728, 16 MiB]."""
    ids: Literal["as-is", "lower-case", "e-mail", "phone"] = "as-is"
    """How every publisher spells its ids: as they are; trimmed and in lower-case letters; as
    e-mail addresses; or as phone numbers (E.164)."""
    country_code: str | None = None
    """The country code of phone numbers without a plus, such as 49."""
    trunk: str | None = None
    """The leading digits that are removed from such numbers, or none: 0 in most of Europe, 1 in
    North America, none in Italy."""
    shuffled: Annotated[bool, _FLAG] = False
    """Put a shuffler between publishers and analyzer: it flips bits again, and the promise holds
    even if publishers help the analyzer."""
    shuffler_epsilon: float | None = None
    """Promise this epsilon against the shuffler itself [default: --epsilon]."""
    shuffler_delta: float | None = None
    """The delta of that promise [default: --delta]."""
    local_epsilon: float | None = None
    """The largest epsilon that may remain for an id at the other publishers if one helps the
    shuffler."""
    title: Annotated[str, Parameter(show_default=False)] = ""
    """A title for readers."""


def plan(
    *,
    asked: _AudienceOptions = _AudienceOptions(),  # noqa: B008 - frozen
    out: Annotated[Path | None, _OUT] = None,
    explain: Annotated[bool, _FLAG] = False,
    check: Path | None = None,
    anyway: Annotated[bool, _FLAG] = False,
    parties: Path | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Find the filters that keep a promise with the smallest error, or check a plan.

    Parameters
    ----------
    out
        The file for the plan, such as campaign.plan.json; - writes the plan, and nothing else, to a
        pipe.
    explain
        Explain in sentences what is promised, what is done, and what else is known of the privacy.
    check
        Verify this plan file instead: recompute its guarantee from its parameters.
    anyway
        Also make a plan that is of no use, because it protects nobody.
    parties
        A file that names the shuffler, the analyzer and the identity of each publisher, for a plan
        with sealed filters. `chaffinch plan --example-parties` prints an example: keep one hop, and
        add a table [publishers] of NAME = "identity".
    """
    if (asked == _AudienceOptions()) == (check is None):
        got = Unquoted("neither" if check is None else "both")
        raise InvalidInput("plan", "asked for by --publisher, or a file by --check", got)
    if out is not None and not paths.is_pipe(out):
        paths.require_writable(out, [check or "-"], replaceable=Kind.PLAN)
        refuse_all_but(Kind.PLAN, out)
    if check is not None:
        found = paths.open_reach_plan(check)
        paths.check_again(found, check, output)
    else:
        found = _planned(asked, output, anyway=anyway)
    if parties is not None:
        from chaffinch.reach.planning.reach_parties import read_reach_parties

        found = found.run_by(read_reach_parties(parties))
    if out is not None:
        paths.write_plan(found, out, output)
        if paths.is_pipe(out):
            return
    _warn(found, output)
    _show(found, output, explain=explain, checked=check is not None)


def _warn(found: ReachPlan, output: Output) -> None:
    from chaffinch.reach.publisher.filter_making import WITHIN

    promises = [one for one in (found.guarantee, found.shuffler_guarantee) if one is not None]
    if any(one.epsilon > WITHIN.epsilon or one.delta > WITHIN.delta for one in promises):
        output.say(
            f"warning: a promise beyond epsilon {WITHIN.epsilon:g} or delta {WITHIN.delta:g} is "
            "refused by publishers who do not allow it (--max-epsilon, --max-delta)"
        )


def _planned(asked: _AudienceOptions, output: Output, *, anyway: bool) -> ReachPlan:
    from chaffinch.planning.wishes import default_delta
    from chaffinch.reach.planning.reach_planner import MAX_BITS, reach_target

    sizes = _sizes(asked.publisher)
    if asked.epsilon is None:
        raise InvalidInput("promise", "given by --epsilon", Unquoted("none"))
    delta = default_delta(sum(sizes.values())) if asked.delta is None else asked.delta
    target = reach_target(asked.epsilon, delta)
    trunk = "" if asked.trunk == "none" else asked.trunk
    rule = cf.reach.IdRule(asked.ids, country_code=asked.country_code, trunk=trunk)
    with output.thinking("planning") as tell:
        return cf.reach.plan(
            cf.Audience(list(sizes), frequencies=asked.frequencies),
            sizes=sizes,
            target=target,
            bits=asked.bits,
            hashes=asked.hashes,
            max_bits=MAX_BITS if asked.max_bits is None else asked.max_bits,
            ids=rule,
            shuffled=asked.shuffled,
            shuffler_target=_shuffler_target(asked, target),
            local_epsilon=asked.local_epsilon,
            anyway=anyway,
            title=asked.title,
            progress=tell,
        )


def _shuffler_target(asked: _AudienceOptions, target: cf.Target) -> cf.Target | None:
    epsilon, delta = asked.shuffler_epsilon, asked.shuffler_delta
    if epsilon is None and delta is None:
        return None
    return cf.Target(
        target.epsilon if epsilon is None else epsilon, target.delta if delta is None else delta
    )


def _sizes(words: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for word in words:
        name, _, size = word.rpartition("=")
        number = _whole(size)
        if not name or number is None:
            raise InvalidInput(
                "publisher",
                "NAME=SIZE, such as daily=1200000",
                word,
                hint=_written_out(name, size),
            )
        if name in found:
            raise InvalidInput("publisher", "named once", word)
        found[name] = number
    if not found:
        raise InvalidInput("publishers", "given", Unquoted("none"), hint="add --publisher")
    return found


def _written_out(name: str, size: str) -> str:
    """Return what was probably meant by a size such as 12k or 1,200,000."""
    letters = {"k": "e3", "m": "e6"}
    plain = size.replace(",", "").lower()
    number = _whole(plain[:-1] + letters.get(plain[-1:], plain[-1:]))
    return f"did you mean {name}={number}?" if name and number is not None else ""


def _whole(text: str) -> int | None:
    """Return a whole number as people write them: 1200000, 1_200_000 or 1.2e6."""
    from decimal import Decimal, InvalidOperation

    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not (number.is_finite() and number.adjusted() < 20 and number == int(number)):
        return None
    return int(number)


def _show(found: ReachPlan, output: Output, *, explain: bool, checked: bool) -> None:
    if output.json:
        output.document(_document(found, explain=explain, checked=checked))
        return
    if output.quiet and not explain:
        return
    output.words(found.title or f"Reach plan {found.id[:16]}")
    output.words("")
    # The first three paragraphs are the promise, the odds, and what both count on; the last
    # one is the error.
    paragraphs = found.explain().split("\n\n")
    first = 3 + sum(one.startswith("Warning") for one in paragraphs)
    hint = _SPELLING_HINT if found.ids == cf.reach.IdRule() else ""
    short = [*paragraphs[:first], f"{found.ids.sentence}.{hint}", paragraphs[-1]]
    output.words("\n\n".join(paragraphs if explain else short))
    output.words("")
    if found.options:
        _show_options(found, output)
    elif checked:
        output.words("A plan file holds no alternatives: plan again to compare them.")


def _document(found: ReachPlan, *, explain: bool, checked: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "plan": found.document(),
        "standard_error": found.standard_error,
        "limit": found.limit,
        "filter_bytes": found.filter_bytes,
        "colluding_epsilon": found.colluding_epsilon,
        "column_epsilon": found.column_guarantee.epsilon,
        "assumed_epsilon": found.assumed_epsilon,
        "options": [_option(found, one) for one in found.options],
    }
    if found.shuffler is not None:
        document["shuffler_epsilon"] = found.shuffler.epsilon
    if explain:
        document["explanation"] = found.explain()
    if checked:
        document["verified"] = True
    return document


def _option(found: ReachPlan, option: Option) -> dict[str, Any]:
    from chaffinch.reach.planning.reach_plan import filter_bytes

    chosen = found.is_chosen(option)
    return {
        "chosen": chosen,
        "guessed": not chosen,
        "hashes": option.hashes,
        "bits": option.bits,
        "filter_bytes": filter_bytes(found.audience, option.bits),
        "flip_probability": option.flip,
        "standard_error": option.standard_error,
        "limit": option.limit,
        "colluding_epsilon": found.left_to_colluder(option),
    }


def _show_options(found: ReachPlan, output: Output) -> None:
    from chaffinch.reach.planning.reach_planner import CHOICE

    helped = "the analyzer" if found.shuffler is None else "the shuffler"
    narrow = output.width < _NARROW
    heads = ["", "hashes", "bits", "size", "flips", "error", "unflipped", "colluder"]
    rows = []
    for one in (_option(found, option) for option in found.options):
        left = one["colluding_epsilon"]
        rows.append(
            [
                "→" if one["chosen"] else "about",
                str(one["hashes"]),
                f"{one['bits']:,}",
                bytes_for_people(one["filter_bytes"]),
                f"{one['flip_probability']:.3%}",
                error_text(one["standard_error"]),
                error_text(one["limit"]),
                promise_text(left, 3) if one["chosen"] else f"{left:.3g}",
            ]
        )
    if narrow:
        for row in (heads, *rows):
            del row[6], row[3]
    output.table(heads, rows)
    output.words("")
    output.words(
        "→ chosen, and calibrated with a proof. about: the flips are a guess for that "
        "number of hashes"
        + ("." if narrow else "; size: what each publisher sends.")
        + " error: standard error of the reach of all, if no two publishers share an id"
        + ("." if narrow else "; unflipped: what would be left of it without any flips.")
        + f" colluder: epsilon left to an id at the other publishers if one of them helps {helped}."
        f" {CHOICE}; --hashes 1 leaves most against a colluder."
    )
