"""The steps of a publisher: make the campaign key, make a filter of its ids, send the filter."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import chaffinch as cf
from chaffinch.charts.rounding import bytes_for_people, count_of
from chaffinch.cli import paths
from chaffinch.cli.engines import EngineOptions
from chaffinch.cli.output import Output, spoken_command
from chaffinch.cli.release_options import Budget, show_charge
from chaffinch.disk.file_kinds import Kind
from chaffinch.disk.inputs import require_file
from chaffinch.errors import InvalidInput, InvalidTable, Unquoted
from chaffinch.runs.payment import Charged

if TYPE_CHECKING:
    from chaffinch.reach.planning.id_rule import Likeness
    from chaffinch.reach.planning.reach_plan import ReachPlan
    from chaffinch.reach.publisher.filter_making import Loaded
    from chaffinch.tables.pieces import Piece
    from chaffinch.tables.read import Table
    from chaffinch.wire.filter_files import Filter


_ABOUT_KEYS = (
    "Give it to the publishers of one collection and to nobody else: in mail sealed to each of "
    "them (HPKE), or through a secret manager; never beside a filter. The analyzer must not have "
    "it, nor a shuffler: with the key, an id's columns can be looked up. It is for one collection; "
    "the next one needs a new key."
)


def key(
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Make the secret key that the publishers of one collection share.

    It is for publishers only: the analyzer must never have it. An existing file is not overwritten.

    Parameters
    ----------
    out
        The new file, such as campaign.key; only you will be able to read it.
    """
    paths.require_new(out, "campaign key", hint="a key is never overwritten: name another file")
    cf.reach.new_key().save(out)
    if output.json:
        output.document({"file": str(out), "for": "publishers only, one collection"})
        return
    output.say(f"wrote {out}, readable by you only")
    if not output.quiet:
        output.words(_ABOUT_KEYS)


# ----------------------------------------------------------------------------
# A publisher's ids become a filter for the analyzer, or for the shuffler.


@Parameter(name="*")
@dataclass(frozen=True)
class _IdOptions:
    column: str | None = None
    """The column with the ids; not needed if there is only one."""
    counts: str | None = None
    """A column that says how often each id was seen; without it every row is one view."""
    missing: Literal["refuse", "skip"] = "refuse"
    """What to do with a row without an id, or with a blank one."""
    unfit: Literal["refuse", "skip"] = "refuse"
    """What to do with an id that does not fit the plan's rule."""
    format: str | None = None
    """csv, tsv, jsonl, parquet or arrow, if the file's name does not tell."""


@Parameter(name="*")
@dataclass(frozen=True)
class _PromiseOptions(Budget):
    max_epsilon: float = 10.0
    """Refuse a plan that promises a larger epsilon than this."""
    max_delta: float = 1e-3
    """Refuse a plan that promises a larger delta than this."""


def encode(  # noqa: PLR0913 - the options of a verb
    data: str | None = None,
    *,
    plan: Path,
    key: Path,
    publisher: str,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    columns: _IdOptions = _IdOptions(),  # noqa: B008 - frozen
    terms: _PromiseOptions = _PromiseOptions(),  # noqa: B008 - frozen
    work: EngineOptions = EngineOptions(),  # noqa: B008 - frozen
    anyway: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Turn one publisher's ids into a filter for the analyzer, or the shuffler of the plan.

    The plan is verified first, and ids are spelled by its rule. The filter holds no id and does not
    show how many there are.
    A key makes one filter for each publisher, for one plan: what it has made is recorded beside its
    file and in $XDG_STATE_HOME/chaffinch (~/.local/state/chaffinch), and a second filter is refused
    if either record knows of the first.
    With a ledger the filter is charged before it is written.

    Parameters
    ----------
    data
        The table of ids: CSV, TSV, JSONL, Parquet or Arrow; - or no argument reads a pipe. With
        --engine spark a file, a folder of files, a pattern such as 'part-*.parquet', or an address
        of any of them.
    plan
        The plan file.
    key
        The campaign key that all publishers of this collection share.
    publisher
        The name in the plan of the publisher whose ids these are.
    out
        The file for the filter, such as daily.filter.
    anyway
        Also accept less than half or more than twice as many different ids as the plan expects, or
        addresses in several spellings under a plan that takes ids as they are. Without this option
        such a list is refused before anything is recorded or charged: usually it is the wrong
        table, or the wrong column, or a plan without --ids.
    """
    from chaffinch.reach.publisher.charging import (
        finish_publishing,
        occasion_of,
        publish,
        refuse_second,
    )
    from chaffinch.reach.publisher.ids import IdColumns

    target = paths.require_writable(out, [plan, key, data or "-"], replaceable=Kind.FILTER)
    found = paths.open_reach_plan(plan)
    secret = cf.reach.load_key(key)
    found.audience.place(publisher)
    account = terms.open()
    ledger = None if account is None else account.ledger
    kept = finish_publishing(found, secret, publisher, target, ledger, tell=output.say)
    if kept is not None:
        output.say("finished an earlier command that was interrupted: this is its filter")
        before = None if account is None else Charged(account, occasion_of(kept), before=True)
        _show(kept, found, target, before, output)
        return
    refuse_second(found, secret, publisher, ledger)
    if target.exists():
        raise InvalidInput("filter file", "one that does not exist yet", target.name)
    source = _source(paths.input_source(data, "ids"), columns, work)
    with output.counting("encoding", "pieces" if work.on_cluster else "rows") as tell:
        made = work.open(tell.words).make_filter(
            source,
            found,
            publisher=publisher,
            key=secret,
            columns=IdColumns(columns.column, columns.counts, columns.missing, columns.unfit),
            within=cf.Target(terms.max_epsilon, terms.max_delta),
            progress=tell,
            told=lambda loaded: _say_loaded(loaded, found, output, anyway=anyway),
        )
    occasion = publish(made, found, secret, target, ledger, command=spoken_command())
    charge = None if account is None else Charged(account, occasion, before=False)
    _show(made, found, target, charge, output)


def _source(name: str, columns: _IdOptions, work: EngineOptions) -> Table | list[Piece]:
    from chaffinch.tables.pieces import pieces_of
    from chaffinch.tables.read import open_table

    if not work.on_cluster:
        return open_table(name, format=columns.format)
    if name == "-":
        raise InvalidInput("ids", "in files with --engine spark", Unquoted("a pipe"))
    return pieces_of([name], format=columns.format)


def _show(
    made: Filter, plan: ReachPlan, target: Path, charge: Charged | None, output: Output
) -> None:
    if output.json:
        paid = {} if charge is None else {"charge": charge.document()}
        output.document(_facts(made, target) | paid)
        return
    output.say(f"the plan promises {plan.guarantee}")
    reader = "analyzer" if plan.shuffler is None else "shuffler"
    size = bytes_for_people(plan.filter_bytes)
    output.say(f"wrote {target}, a filter of {size} for the {reader} alone")
    if charge is not None:
        show_charge(charge, output)


def _say_loaded(loaded: Loaded, plan: ReachPlan, output: Output, *, anyway: bool) -> None:
    """Tell a publisher what only it may know: what went into its filter.

    A list that is most likely the wrong one is refused: there is no filter yet, so its key is as
    good as new.
    """
    output.say(
        f"{count_of(loaded.rows, 'row')} read, about {count_of(loaded.ids, 'different id')}; "
        f"the plan expects {loaded.expected:,}"
    )
    if plan.ids.name != "as-is":
        output.say(f"{count_of(loaded.changed, 'id')} changed by the rule {plan.ids.words}")
    if loaded.missing or loaded.unfit:
        output.say(
            f"skipped: {count_of(loaded.missing, 'row')} without an id, "
            f"{count_of(loaded.unfit, 'row')} with an id that does not fit the rule"
        )
    _doubt_spelling(loaded.likeness, output, anyway=anyway)
    if not loaded.surprising:
        return
    if not anyway:
        few = loaded.ids < loaded.expected
        raise InvalidTable(
            "one with about as many different ids as the plan expects",
            "less than half of them" if few else "more than twice as many",
            hint="nothing was recorded or charged, and the key can still be used. Is this the "
            "right table, and the right --column? Otherwise plan again with true sizes, or add "
            "--anyway",
        )
    output.say("warning: is this the right table? Otherwise plan again with true sizes")


def _doubt_spelling(found: Likeness, output: Output, *, anyway: bool) -> None:
    """Say how many ids another rule would change, where the plan takes them as they are.

    Addresses and phone numbers are refused: other publishers will not spell them alike.
    """
    if not found.changed:
        return
    signs = "signs between digits" if found.rule == "phone" else "capital letters"
    output.say(
        f"{found.changed:,} of {count_of(found.ids, 'id')} have {signs} or blanks at an end. The "
        "plan takes ids as they are: at a publisher who spells them otherwise, they are other ids"
    )
    if not found.doubtful:
        return
    if not anyway:
        raise InvalidTable(
            f"one whose {found.kind} are all spelled alike, under a plan that takes ids as they "
            "are",
            "several spellings",
            hint="nothing was recorded or charged, and the key can still be used. Have all "
            f"publishers use a plan of `chaffinch reach plan --ids {found.rule}`, or add --anyway",
        )


def _facts(made: Filter, target: Path) -> dict[str, Any]:
    return {
        "plan": made.plan_id,
        "publisher": made.publisher,
        "key": made.key,
        "batch": made.batch,
        "bits": made.bits,
        "frequencies": made.frequencies,
        "file": str(target),
    }


# ----------------------------------------------------------------------------
# The last step under a plan that names its parties: the filter leaves, sealed.


def send(
    filter: Path,  # noqa: A002 - the name of the argument in the help
    /,
    *,
    plan: Path,
    keys: Path,
    patience: float = 60.0,
    trusted: Path | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Seal and sign a filter and send it to the shuffler, once, even if something fails on the way.

    The plan must name its parties. The shuffler accepts one filter of each publisher. The sealed
    filter is stored beside the filter: the same command again sends the same bytes.

    Parameters
    ----------
    filter
        The filter file of `chaffinch reach encode`.
    plan
        The plan file.
    keys
        The key folder of this publisher, of `chaffinch keys create`; the plan names its identity.
    patience
        For how many seconds to retry when the shuffler does not answer.
    trusted
        A file of TLS root certificates, instead of the system's.
    """
    from chaffinch.keys import KeyFolder
    from chaffinch.reach.publisher.sending import send_filter

    found = paths.open_reach_plan(plan)
    source = require_file(paths.require_name(filter))
    own = KeyFolder.open(keys)
    try:
        with output.thinking("sending"):
            sent = send_filter(
                source, found, own, patience=patience, trusted=trusted, tell=output.say
            )
    except KeyboardInterrupt:
        output.say(
            "the filter may or may not have arrived: the same command sends the same bytes again, "
            "which count once"
        )
        raise
    shuffler = found.named_parties.hops[0].name
    if output.json:
        output.document(
            {
                "plan": found.id,
                "publisher": sent.publisher,
                "new": sent.new,
                "sha256": sent.digest,
                "receipt": sent.receipt.hex(),
            }
        )
    elif sent.new:
        output.say(f"{shuffler} has the filter of {sent.publisher}, and has signed a receipt")
    else:
        output.say(
            f"{shuffler} had this filter of {sent.publisher} before, and has signed a receipt"
        )
