"""Privacy budgets in files: create, show, charge and check a ledger."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App, Parameter

import chaffinch as cf
from chaffinch.charts.rounding import count_of, promise_text
from chaffinch.cli import exits, paths
from chaffinch.cli.output import Output

if TYPE_CHECKING:
    from chaffinch.ledger import Entry, Ledger

_LONGEST_KEY = 32
_OTHER_COLUMNS = 40
"""How wide the columns beside the key are, with the gaps between them."""

app = App(name="ledger", help="Make, show and charge a privacy budget.", sort_key=100)


@Parameter(name="*")
@dataclass(frozen=True)
class _LedgerFiles:
    path: Path
    """The ledger."""
    _: KW_ONLY
    mark: Path
    """Its high-water mark; best on another disk, so that an old copy of the ledger is noticed."""

    @property
    def named(self) -> tuple[Path, Path]:
        return paths.require_name(self.path), paths.require_name(self.mark)

    def open_ledger(self) -> Ledger:
        return paths.open_ledger(self.path, self.mark)


@app.command(sort_key=0)
def create(
    files: _LedgerFiles,
    *,
    epsilon: float,
    delta: float,
    role: Literal["analyzer", "client"] = "analyzer",
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Make a new, empty ledger and its high-water mark: two files that do not exist yet.

    Parameters
    ----------
    epsilon
        The largest epsilon that all charges together may have.
    delta
        The delta of the budget.
    role
        Whose budget it is.
    """
    path, mark = files.named
    made = cf.Ledger.create(path, role=role, cap=cf.Target(epsilon, delta), mark=mark)
    output.say(f"made {path}")
    _show(made, output)


@app.command(sort_key=1)
def show(files: _LedgerFiles, *, output: Output = Output()) -> None:  # noqa: B008 - frozen
    """Show what was charged and what is left."""
    _show(files.open_ledger(), output)


@app.command(sort_key=2)
def charge(
    files: _LedgerFiles,
    *,
    plan: Path,
    key: str,
    subject: str = "",
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Charge one round of a plan; if it does not fit, it is refused and nothing is charged.

    Parameters
    ----------
    plan
        The plan file.
    key
        The name of this charge; the same key is charged once. An analyzer names the release, a
        client what it is asked (such as survey and round).
    subject
        A digest of what the charge pays for: an analyzer's batch, a client's messages. An analyzer
        can repeat a key only with the same subject; a client that repeats a key without a subject
        sends the messages made then, and no new ones.
    """
    from chaffinch.ledger import Charge

    opened = files.open_ledger()
    found = paths.open_any_plan(plan)
    with output.thinking("composing all charges"):
        found.verify()
        entry = opened.charge(Charge.of(found), key, subject=subject)
    output.say("charged before; nothing was charged now" if entry.replayed else "charged")
    _show(opened, output)


@app.command(sort_key=3)
def check(
    files: _LedgerFiles,
    *,
    plan: Path | None = None,
    output: Output = Output(),  # noqa: B008 - frozen
) -> int:
    """Verify every page and row of a ledger, and show what a plan would add.

    Ends with code 4 if the plan does not fit.

    Parameters
    ----------
    plan
        A plan file, to see the total after one round of it.
    """
    opened = files.open_ledger()
    output.say(f"{files.path.name}: intact, and as recent as its high-water mark")
    extra: dict[str, Any] = {}
    if plan is not None:
        from chaffinch.ledger import Charge

        with output.thinking("composing all charges"):
            after = opened.would_spend(Charge.of(paths.open_any_plan(plan))).epsilon
        extra = {"with_plan": after, "fits": after <= opened.cap.epsilon}
    _show(opened, output, extra)
    return exits.OK if extra.get("fits", True) else exits.REFUSED


def _show(opened: Ledger, output: Output, extra: dict[str, Any] | None = None) -> None:
    with output.thinking("composing all charges"):
        spent, entries = opened.spent().epsilon, opened.entries()
        left = opened.remaining()
    cap = opened.cap
    if output.json:
        document = {
            "role": opened.role,
            "cap": {"epsilon": cap.epsilon, "delta": cap.delta},
            "spent": spent,
            "remaining": left,
            "charges": [_entry(entry) for entry in entries],
        }
        output.document(document | (extra or {}))
        return
    output.words(
        f"Budget of the {opened.role}: epsilon {cap.epsilon:g} with delta {cap.delta:g}. "
        f"Spent: at most {promise_text(spent, 4)}, proven for "
        f"{count_of(len(entries), 'charge')} together. Left: {_at_least(left)}; epsilons do not "
        "just add up, so only `ledger check --plan` tells whether a plan fits."
    )
    if extra:
        fits = "fits" if extra["fits"] else "does not fit"
        output.words(
            f"With one round of the plan: {promise_text(extra['with_plan'], 4)}; it {fits}."
        )
    if entries:
        output.words("")
        room = min(_LONGEST_KEY, output.width - _OTHER_COLUMNS)
        rows = [
            [
                str(one.sequence),
                _shortened(one.key, room),
                one.charge.plan_id[:16],
                str(one.charge.times),
            ]
            for one in entries
        ]
        output.table(["number", "key", "plan", "times"], rows, texts=3)


def _at_least(value: float) -> str:
    """Return what is left in four digits, and never more than it is."""
    shown = Context(prec=4, rounding=ROUND_FLOOR).create_decimal(repr(value))
    return f"{float(shown):.4g}"


def _shortened(key: str, room: int) -> str:
    return key if len(key) <= room else key[: max(room - 1, 1)] + "…"


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "sequence": entry.sequence,
        "key": entry.key,
        "plan": entry.charge.plan_id,
        "times": entry.charge.times,
        "subject": entry.subject,
    }
