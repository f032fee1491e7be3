"""What is known of a batch of messages without reading them, and how a file says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from chaffinch import checks
from chaffinch.errors import InvalidFile, InvalidInput

LARGEST_SPACE = 2**32
LARGEST_REPORTS = 10**12
STAGES = ("encoded", "shuffled")
_PREFIX = "chaffinch."
_VERSION = "1"


@dataclass(frozen=True)
class MessageFacts:
    """Which plan made the messages, how far they came, and how many reports they are.

    ``space`` is the number of different messages that the plan knows.
    """

    plan_id: str
    stage: str
    reports: int
    space: int
    batch: str = field(default="", compare=False)
    """A random name of this file's content: two batches never have the same one."""

    def __post_init__(self) -> None:
        plan: object = self.plan_id
        if not (isinstance(plan, str) and plan.isascii() and plan.isprintable() and plan):
            raise InvalidInput("plan id", "a text of printable ASCII characters", plan)
        checks.choice("stage of the messages", self.stage, STAGES)
        if not re.fullmatch(r"([0-9a-f]{32})?", self.batch):
            raise InvalidInput("batch", "32 hexadecimal digits", self.batch)
        checks.whole("number of reports", self.reports, most=LARGEST_REPORTS)
        checks.whole("number of possible messages", self.space, least=1, most=LARGEST_SPACE)

    def metadata(self) -> dict[str, str]:
        """Return the facts as texts, the way files keep them."""
        texts = {name: str(value) for name, value in asdict(self).items()}
        return {f"{_PREFIX}{name}": text for name, text in ({"messages": _VERSION} | texts).items()}


def facts_from(name: str, metadata: Mapping[bytes, bytes] | None) -> MessageFacts:
    """Return the facts that a file keeps; a file with any fact amiss is refused."""
    texts = {
        key.decode("utf-8", "replace").removeprefix(_PREFIX): value.decode("utf-8", "replace")
        for key, value in (metadata or {}).items()
    }
    version = texts.get("messages")
    if version != _VERSION:
        fault = "no mark of one" if version is None else "one of another version"
        raise InvalidFile(_title(name), "a file of chaffinch messages", [f"{fault}."])
    faults = [
        f"no {fact!r}"
        for fact in ("plan_id", "stage", "reports", "space", "batch")
        if fact not in texts
    ]
    faults += [
        f"a {fact!r} that is no number"
        for fact in ("reports", "space")
        if fact in texts and not (texts[fact].isdecimal() and len(texts[fact]) < 16)
    ]
    if not faults:
        try:
            return MessageFacts(
                texts["plan_id"],
                texts["stage"],
                int(texts["reports"]),
                int(texts["space"]),
                texts["batch"],
            )
        except InvalidInput as error:
            faults = [f"another {error.parameter}"]
    raise InvalidFile(_title(name), "one with all facts of its messages", faults)


def _title(name: str) -> str:
    return f"message file {name!r}"
