"""What a service answers when it refuses: a problem document (RFC 9457), one kind for each case.

A client tells cases apart by the type. ``may_retry`` is for timeouts and refusals that pass:
then the same bytes are sent again. No document repeats what was sent, or says who sent it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any

TYPE = "application/problem+json"
_PREFIX = "urn:chaffinch:error:"


class Kind(Enum):
    """Every case: its word on the wire, the status of HTTP, and its title."""

    INVALID_MESSAGE = ("invalidMessage", 400, "The body is not one of this plan.")
    UNKNOWN_PATH = ("unknownPath", 404, "There is nothing under this address.")
    UNKNOWN_PLAN = ("unrecognizedPlan", 404, "This service does not run that plan or round.")
    UNKNOWN_METHOD = ("unknownMethod", 405, "This address does not take that method.")
    SLOW_BODY = ("slowBody", 408, "The body did not arrive in time.")
    ANOTHER_FILTER = ("anotherFilter", 409, "This publisher has sent another filter before.")
    TOO_LARGE = ("tooLarge", 413, "The body is longer than this service takes.")
    WRONG_TYPE = ("wrongType", 415, "The body is of another content type.")
    OUTDATED_KEYS = ("outdatedKeys", 422, "A report is sealed for a key that is not in use.")
    BATCH_TOO_SMALL = (
        "batchTooSmall",
        422,
        "The batch has fewer reports or messages than the plan waits for.",
    )
    DAMAGED_BATCH = (
        "damagedBatch",
        422,
        "The batch is not as its maker signed it.",
    )
    DAMAGED_FILTER = ("damagedFilter", 422, "The filter is not as its publisher signed it.")
    LONG_HEAD = ("longHead", 431, "The head of the request is longer than this service takes.")
    FAILED = ("failed", 500, "This service has failed; nothing was acknowledged.")
    UNSEEN_KEYS = ("unseenKeys", 503, "Not all parties have shown their keys here yet.")
    OVERLOADED = ("overloaded", 503, "This service takes nothing just now.")

    def __init__(self, word: str, status: int, title: str) -> None:
        self.word = word
        self.status = status
        self.title = title


@dataclass(eq=False)
class Problem(Exception):
    """A refusal, as it travels."""

    kind: Kind
    detail: str = ""
    places: tuple[int, ...] = ()
    """Which of several reports are meant, counted from 0; at most a hundred."""
    retry_after: int | None = None
    parties: tuple[str, ...] = ()
    """The names of parties of the plan without which nothing can be done."""

    def body(self) -> bytes:
        """Return the document."""
        document: dict[str, Any] = {
            "type": _PREFIX + self.kind.word,
            "title": self.kind.title,
            "status": self.kind.status,
        }
        if self.detail:
            document["detail"] = self.detail
        if self.places:
            document["reports"] = list(self.places[:100])
        if self.parties:
            document["parties"] = list(self.parties)
        return json.dumps(document).encode()


def problem_word(body: bytes) -> str | None:
    """Return the word of a problem document that a service sent; None if it is none."""
    try:
        found = json.loads(body)["type"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    known = isinstance(found, str) and found.startswith(_PREFIX)
    return found.removeprefix(_PREFIX) if known else None


def problem_parties(body: bytes) -> frozenset[str]:
    """Return the parties that a problem document names; they may be anything."""
    try:
        found = json.loads(body)["parties"]
        return frozenset(one for one in found if isinstance(one, str))
    except (ValueError, KeyError, TypeError, RecursionError):
        return frozenset()
