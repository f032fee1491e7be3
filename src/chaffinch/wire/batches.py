"""The name of a batch, what is known of it, and the digest that binds both to its messages.

A batch is what one call of encoding or one shuffle makes; one device's report is one as well.
It gets a random name when it is made. The digest is SHA-256 over the name, the facts, and how
often each code was sent, so it is the same in every container and every order of messages, and
another one as soon as a single message, report or fact differs. It has no key: it shows
damage and tells batches apart, but anybody can make a new batch with a true digest.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch import sampling
from chaffinch.errors import InvalidFile, InvalidInput, Unquoted, checks

_LARGEST_SPACE = 10_000_000
"""As many different messages as a plan may have; counts of all of them fit into memory."""
LARGEST_REPORTS = 10**12
_LARGEST_ROUND = 10**6
_STAGES = ("encoded", "shuffled")
_VERSION = "2"
_PREFIX = "chaffinch."
_WHOLE_FACTS = ("reports", "space", "round")
_DOMAIN = b"chaffinch/batch@2\n"
_PAIRS_AT_ONCE = 1 << 16
_SMALL_SPACE = 1 << 12

Codes = NDArray[np.uint32]
Counts = NDArray[np.int64]


def new_name() -> str:
    """Return a random name of 128 bits: no two batches ever have the same one by chance."""
    return secrets.token_hex(16)


def join_names(names: Sequence[str]) -> str:
    """Return one name for several batches that are used as one, whatever their order."""
    if len(names) == 1:
        return names[0]
    return hashlib.sha256(" ".join(sorted(names)).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class BatchFacts:
    """Which plan and round made a batch, how far it came, and how many reports it holds.

    ``space`` is the number of different messages that the plan knows.
    """

    plan_id: str
    stage: str
    reports: int
    space: int
    round: int
    name: str

    def __post_init__(self) -> None:
        plan: object = self.plan_id
        if not (isinstance(plan, str) and plan.isascii() and plan.isprintable() and plan):
            raise InvalidInput("plan id", "a text of printable ASCII characters", plan)
        checks.choice("stage of the messages", self.stage, _STAGES)
        if not re.fullmatch(r"[0-9a-f]{32}", self.name):
            raise InvalidInput(
                "name of a batch", "32 hexadecimal digits", Unquoted("something else")
            )
        checks.whole("number of reports", self.reports, most=LARGEST_REPORTS)
        checks.whole("number of possible messages", self.space, least=1, most=_LARGEST_SPACE)
        checks.whole("round", self.round, least=1, most=_LARGEST_ROUND)


class CodeCounts:
    """How often each code below ``space`` was sent.

    A few codes are kept as they are, so that a small batch of a plan with millions of codes
    takes little memory; from there on there is one count for each code.
    """

    def __init__(self, space: int) -> None:
        self.space = space
        self.total = 0
        self._few: list[Codes] | None = [] if space > _SMALL_SPACE else None
        self._dense: Counts = np.zeros(0 if self._few is not None else space, np.int64)

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels to another process: counts in as few bytes as the largest takes."""
        kind = np.min_scalar_type(int(self._dense.max(initial=0)))
        return self.__dict__ | {"_dense": self._dense.astype(kind)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what came from another process."""
        self.__dict__.update(state | {"_dense": state["_dense"].astype(np.int64)})

    def add(self, codes: Codes) -> None:
        """Count some messages; InvalidInput, and nothing counted, if one is too large."""
        if self._few is not None:
            if len(codes) and int(codes.max()) >= self.space:
                raise InvalidInput("codes", f"below {self.space}", Unquoted("a larger one"))
            self._few.append(np.array(codes, np.uint32))
            self.total += len(codes)
            if self.total > self.space // 16 or len(self._few) > 1000:
                self._spread()
            return
        sampling.histogram(codes, self.space, out=self._dense)
        self.total += len(codes)

    def add_counts(self, counts: Counts, first: int = 0) -> None:
        """Add a count for each code from ``first`` on."""
        self._spread()
        self._dense[first : first + len(counts)] += counts
        self.total += int(counts.sum())

    def merge(self, other: CodeCounts) -> None:
        """Add what another one has counted."""
        if other._few is None:
            self.add_counts(other._dense)
        for codes in other._few or ():
            self.add(codes)

    def dense(self) -> Counts:
        """Return the count of every code; do not write to it."""
        self._spread()
        return self._dense

    def pairs(self) -> tuple[NDArray[np.int64], Counts]:
        """Return the codes that were sent, rising, and how often each was."""
        if self._few is None:
            codes = np.flatnonzero(self._dense)
            return codes, self._dense[codes]
        found, counts = np.unique(
            np.concatenate([np.empty(0, np.uint32), *self._few]), return_counts=True
        )
        return found.astype(np.int64), counts.astype(np.int64)

    def _spread(self) -> None:
        if self._few is not None:
            held, self._few = self._few, None
            self._dense = np.zeros(self.space, np.int64)
            for codes in held:
                sampling.histogram(codes, self.space, out=self._dense)


def digest_of(facts: BatchFacts, counts: CodeCounts) -> str:
    """Return the digest of a batch: SHA-256, in hexadecimal.

    What is hashed has one reading only: the name of the format, the length of the facts, the
    facts as JSON, then a pair of 64-bit numbers for each code that was sent, rising by code.
    """
    known = [facts.name, facts.stage, facts.plan_id, facts.round, facts.reports, facts.space]
    head = json.dumps(known, separators=(",", ":")).encode()
    found = hashlib.sha256(_DOMAIN + len(head).to_bytes(8, "little") + head)
    # Pairs of code and count, and not messages in their order: a batch has one digest in whatever
    # container and order. A sum over codes would stay the same where two of them are exchanged.
    for block in _pair_blocks(counts):
        found.update(block.data)
    return found.hexdigest()


def _pair_blocks(counts: CodeCounts) -> Iterator[NDArray[np.int64]]:
    codes, often = counts.pairs()
    for start in range(0, len(codes), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        yield np.ascontiguousarray(np.stack([codes[part], often[part]], axis=1), "<i8")


# ----------------------------------------------------------------------------
# Facts and digest as texts, the way every container keeps them.


def facts_to_texts(facts: BatchFacts, digest: str) -> dict[str, str]:
    """Return facts and digest as texts, the way files keep them."""
    texts = {"messages": _VERSION} | {name: str(one) for name, one in asdict(facts).items()}
    return {f"{_PREFIX}{name}": text for name, text in (texts | {"digest": digest}).items()}


def facts_from_texts(label: str, metadata: Mapping[bytes, bytes] | None) -> tuple[BatchFacts, str]:
    """Return the facts that a file keeps and its digest; a file with any fact amiss is refused."""
    texts = {
        key.decode().removeprefix(_PREFIX): value.decode()
        for key, value in (metadata or {}).items()
        if key.startswith(_PREFIX.encode())
    }
    version = texts.pop("messages", None)
    if version != _VERSION:
        raise _other_version(label, version)
    known = [*BatchFacts.__dataclass_fields__, "digest"]
    faults = [f"no {fact!r}" for fact in known if fact not in texts]
    faults += [f"an unknown fact {fact!r}" for fact in texts if fact not in known]
    digest = texts.pop("digest", "")
    if not faults:
        facts: dict[str, Any] = {
            fact: _whole(text) if fact in _WHOLE_FACTS else text for fact, text in texts.items()
        }
        try:
            return BatchFacts(**facts), digest
        except InvalidInput as error:
            faults = [f"another {error.parameter}"]
    raise InvalidFile(f"message file {label!r}", "one with all facts of its messages", faults)


def _whole(text: str) -> int:
    """Return a number that is written in its one way; -1, which no fact is, for any other."""
    return int(text) if re.fullmatch(r"0|[1-9][0-9]{0,14}", text) else -1


def _other_version(label: str, version: str | None) -> InvalidFile:
    if version == "1":
        return InvalidFile(
            f"message file {label!r}",
            f"of version {_VERSION}",
            ["one of version 1, which has no digest: nobody can tell whether it is whole."],
            hint="encode the answers again with this version of chaffinch",
        )
    fault = "no mark of one" if version is None else "one of another version"
    return InvalidFile(f"message file {label!r}", "a file of chaffinch messages", [f"{fault}."])
