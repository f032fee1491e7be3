"""What an engine does: the three bulk steps on files, with the same result whoever does them.

Same input, same plan: the same law of messages, the same tally, the same release. A plan is
verified by the engine before the first message is encoded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from chaffinch.planning.plan import Plan
    from chaffinch.wire.batches import BatchFacts
    from chaffinch.wire.messages import Tally

PathLike = str | os.PathLike[str]
Progress = Callable[[int, int | None], None]
"""Told how many rows or messages are done, and of how many where that is known.

A shuffle counts twice: what it has read, of an unknown number, then what it has written.
"""


class Engine(Protocol):
    """Encode, shuffle and tally collections of any size in bounded memory."""

    @property
    def name(self) -> str:
        """Return the name it is asked for by."""
        ...

    def encode(
        self,
        source: Any,
        plan: Plan,
        target: Any,
        *,
        round: int | None = None,  # noqa: A002
        columns: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> BatchFacts:
        """Read a table and write the messages of its reports; nothing is left of a failure."""
        ...

    def shuffle(
        self,
        sources: Sequence[Any],
        plan: Plan,
        target: Any,
        *,
        record: PathLike | None = None,
        progress: Progress | None = None,
    ) -> BatchFacts:
        """Write the messages of encoded files in a uniform order; refuse too small a crowd.

        What went into a batch is kept in a ``record``, and refused a second time.
        """
        ...

    def tally(
        self, sources: Sequence[Any], plan: Plan, *, progress: Progress | None = None
    ) -> Tally:
        """Return the tally of shuffled files."""
        ...
