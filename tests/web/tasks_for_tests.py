"""Tasks of a worker that take as long as a test wants, run in the worker's process."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from chaffinch.errors import InvalidInput
from chaffinch.privacy.progress import count_step


def search(tell: Any, *, name: str, steps: int) -> None:
    """Do steps of a search of a hundredth of a second each."""
    tell({"step": f"looking for {name}"})
    for _ in range(steps):
        time.sleep(0.01)
        count_step("steps")
    tell({"found": name})


def stubborn(tell: Any, *, path: str) -> None:
    """Search with a net below that catches whatever goes wrong."""
    try:
        search(tell, name="stubborn", steps=1000)
    except Exception:  # noqa: BLE001 - as a search might
        Path(path).touch()


def refuse(_tell: Any) -> None:
    """Refuse as chaffinch does."""
    raise InvalidInput("crowd", "there", "nobody", hint="ask somebody")


def fail(_tell: Any) -> None:
    """Fail with words that nobody may see."""
    raise RuntimeError("secret")


def die(_tell: Any) -> None:
    """End as a process does that finds no memory."""
    os.kill(os.getpid(), 9)


TASKS = {"search": search, "stubborn": stubborn, "refuse": refuse, "fail": fail, "die": die}
