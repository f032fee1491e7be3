"""The step of a device with services: seal an answer, and send it until it has arrived."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chaffinch.charts.rounding import count_of
from chaffinch.cli import paths
from chaffinch.cli.output import Output
from chaffinch.cli.table_options import TableOptions
from chaffinch.disk.files import state_folder
from chaffinch.disk.inputs import require_file
from chaffinch.errors import InvalidInput, Unquoted

if TYPE_CHECKING:
    from chaffinch.encoding.client import Client, Delivery
    from chaffinch.plans.plan import Plan
    from chaffinch.wire.messages import Report


@Parameter(name="*")
@dataclass(frozen=True)
class _DeviceOptions:
    epsilon: float | None = None
    """The largest epsilon that this device accepts, whatever the plan promises."""
    delta: float | None = None
    """The largest delta that this device accepts."""
    ledger: Path | None = None
    """The budget of this device, which is charged before anything is sent."""
    mark: Path | None = None
    """The ledger's high-water mark."""
    outbox: Path | None = None
    """The folder in which reports are stored until they have arrived; by default in the user's
    state folder."""
    patience: float = 60.0
    """For how many seconds to retry when a service does not answer."""

    def client(self, plan: Plan, file: Path, output: Output, *, resumes: bool) -> Client:
        from chaffinch import Target
        from chaffinch.encoding.client import Client

        within = None
        if self.epsilon is not None and self.delta is not None:
            within = Target(self.epsilon, self.delta)
        elif (self.epsilon is None) != (self.delta is None):
            raise InvalidInput("limits", "an epsilon and a delta", Unquoted("one of them"))
        if (self.ledger is None) != (self.mark is None):
            raise InvalidInput("ledger", "named together with its mark", Unquoted("alone"))
        outbox = self.outbox or state_folder() / "outbox"
        if resumes and self.outbox is not None and not outbox.is_dir():
            raise InvalidInput(
                "outbox", "a folder that is there", str(outbox), hint="check the path"
            )
        pays = self.ledger is not None and self.mark is not None
        return Client(
            plan,
            outbox=outbox,
            within=within,
            ledger=paths.open_ledger(self.ledger, self.mark) if pays else None,  # type: ignore[arg-type]
            patience=self.patience,
            tell=output.say,
            resume_command=self.resume_command(file),
        )

    def resume_command(self, plan: Path) -> str:
        given = {
            "--plan": plan,
            "--outbox": self.outbox,
            "--ledger": self.ledger,
            "--mark": self.mark,
            "--epsilon": self.epsilon,
            "--delta": self.delta,
        }
        words = [str(word) for pair in given.items() if pair[1] is not None for word in pair]
        return shlex.join(["chaffinch", "send", "--resume", *words])


def send(
    *,
    plan: Path,
    answer: Annotated[list[str] | None, Parameter(negative=())] = None,
    data: str | None = None,
    resume: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    round: int | None = None,  # noqa: A002
    limits: _DeviceOptions = _DeviceOptions(),  # noqa: B008 - frozen
    where: TableOptions = TableOptions(),  # noqa: B008 - frozen
    output: Output = Output(),  # noqa: B008 - frozen
) -> None:
    """Seal an answer and send it to the shuffler, once, even if something fails on the way.

    The plan must name its parties. It is verified first. A report is made once and stored in the
    outbox until it has arrived: a retry with --resume or with the same --answer sends the same
    bytes. For each plan and round an outbox makes one report of an --answer, and sends no other
    one. A table that was sent before is refused.

    Parameters
    ----------
    plan
        The plan file.
    answer
        The answer of one person; QUESTION=ANSWER for each of several questions.
    data
        A table with the answers of people for whom this device reports, one report for each row.
    resume
        Send the reports in the outbox, and make no new ones.
    round
        The number of this round, for a plan of several rounds.
    """
    sources = sum((answer is not None, data is not None, resume))
    if sources != 1:
        got = Unquoted("several" if sources else "none")
        raise InvalidInput("source of reports", "one of --answer, --data and --resume", got)
    found = paths.open_plan(plan, output)
    client = limits.client(found, plan, output, resumes=resume)
    if not (resume or client.has_taken):
        output.say(f"the plan promises: {found.promise}")
        if found.trust:
            output.say(found.trust)
    with _telling_what_waits(client, limits.resume_command(plan), output):
        if answer is not None:
            with output.thinking("sending"):
                done = client.send(_answer_of(found, answer), round=round)
        elif data is not None:
            reports = _reports(found, data, round, where, output)
            with output.counting("sending", "reports") as tell:
                done = client.send_many(
                    reports, data=_digest_of_file(data), round=round, progress=tell
                )
        else:
            with output.counting("sending", "reports") as tell:
                done = client.resume(progress=tell)
    _show(done, client, output)


@contextmanager
def _telling_what_waits(client: Client, command: str, output: Output) -> Iterator[None]:
    """Say what was given up; of a command that is stopped, whether a report waits, and what next.

    What was given up is in no outbox any more: an error that comes then must not hide it.
    """
    try:
        yield
    except KeyboardInterrupt:
        if waiting := client.waiting:
            output.say(
                f"in the outbox: {count_of(waiting, 'report')}, to be sent with: `{command}`"
            )
        else:
            output.say(
                "in the outbox: no report that is ready to be sent; the same command may be run "
                "again, and sends nothing twice"
            )
        raise
    finally:
        if client.given_up:
            output.say(
                f"warning: {count_of(client.given_up, 'report')} may or may not have arrived, "
                "and cannot be sent again: sealed for newer keys, a report could count twice"
            )


def _reports(
    plan: Plan, data: str, number: int | None, where: TableOptions, output: Output
) -> Iterator[Report]:
    from chaffinch.encoding.bulk import encode_each
    from chaffinch.runs.answer_table import open_answers
    from chaffinch.runs.asked import planned_collection

    asked = planned_collection(plan)
    answers = open_answers(asked, where.input(data, asked), output)
    table = answers.table if answers.privacy_unit.person is None else answers.draw(output).table
    yield from encode_each(table, plan, round=number, columns=answers.columns or None)


def _digest_of_file(data: str) -> bytes:
    if paths.is_piped(data):
        raise InvalidInput(
            "data", "a file, so that it is recognized if it is sent again", Unquoted("a pipe")
        )
    with require_file(Path(data)).open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _answer_of(plan: Plan, given: Sequence[str]) -> object:
    names = list(plan.asked)
    if len(names) == 1:
        if plan.contributions == 1 and len(given) > 1:
            raise InvalidInput("answer", "given once", Unquoted("several times"))
        return list(given) if plan.contributions > 1 else given[0]
    if plan.contributions > 1:
        raise InvalidInput(
            "answers", "in a table (--data), as everybody sends several reports", Unquoted("typed")
        )
    return _pairs(names, given)


def _pairs(names: Sequence[str], given: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or name not in names or name in found:
            listed = ", ".join(f"{name}=…" for name in names)
            # What was typed may be an answer: it is not shown.
            raise InvalidInput("answer", f"{listed}, each once", Unquoted("something else"))
        found[name] = text
    return found


def _show(done: Delivery, client: Client, output: Output) -> None:
    if done.earlier:
        output.say(
            "note: an answer was given before for this plan and round; that answer counts, and the "
            "new one is not sent"
        )
    if output.json:
        output.document(
            {
                "arrived": done.arrived,
                "given_up": done.given_up,
                "waiting": client.waiting,
                "earlier": done.earlier,
            }
        )
    elif done.arrived or done.given_up:
        output.say(f"{count_of(done.arrived, 'report')} arrived at the shuffler")
    elif client.has_taken:
        output.say(
            "nothing to send: all reports of this outbox for this plan have arrived, or were given "
            "up"
        )
    else:
        output.say("nothing to send: this outbox has never had a report for this plan")
