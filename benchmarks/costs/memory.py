"""What is held in memory and on the disk: each figure from processes of their own.

``python -m benchmarks.costs.memory JOB SIZE FOLDER`` does one job, and prints the most bytes of
memory that it has held.
"""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.costs.fitting import share_out
from benchmarks.harness import tell
from chaffinch.planning.costs.units import Room

ITEMS = (1_000, 100_000)
REPORTS = (100_000, 3_000_000)
MESSAGES = 80_000_000
"""More than a shuffle holds in memory."""


def measure() -> dict[Room, float]:
    """Return the bytes of everything that is held."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        opened = []
        for size in ITEMS:
            _apart("seal", size, folder / str(size))
            opened.append((size, _apart("analyzer", size, folder / str(size))))
        state = folder / str(ITEMS[-1]) / "state.sqlite"
        pooled = [(size, _apart("hop", size, folder / "hop")) for size in REPORTS]
        return {
            Room.PROCESS: _apart("service", 0, folder),
            Room.OPENED_ITEM: share_out(*opened).each,
            Room.POOLED_REPORT: share_out(*pooled).each,
            Room.REPLAY_TAG: state.stat().st_size / ITEMS[-1],
            Room.FILES: _apart("files", MESSAGES, folder / "files"),
        }


def _apart(job: str, size: int, folder: Path) -> float:
    tell(f"memory of {job}, {size:,}")
    command = [sys.executable, "-m", "benchmarks.costs.memory", job, str(size), str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - ours
    tell("")
    return float(done.stdout)


def service(_size: int, _folder: Path) -> None:
    """Load what a hop and an analyzer load."""
    importlib.import_module("chaffinch.services.analyzer_process")
    importlib.import_module("chaffinch.services.hop")


def seal(size: int, folder: Path) -> None:
    """Make a batch of so many messages, with all that is needed to open it."""
    from tests.analysis.sealed import PEOPLE, LastHop, flips

    folder.mkdir()
    hop = LastHop.of(flips(), folder)
    hop.plan.save(folder / "plan.json")
    items = hop.items(number % PEOPLE for number in range(size))
    hop.put(folder, hop.batch(items, reports=size))


def analyzer(size: int, folder: Path) -> None:
    """Open and count a batch of so many messages."""
    from chaffinch import load_plan
    from chaffinch.analysis.open_batches import open_batch
    from chaffinch.analysis.received import Received
    from chaffinch.keys import KeyFolder

    (path,) = folder.glob("*.batch")
    (keys,) = (one for one in folder.iterdir() if one.is_dir())
    opening = KeyFolder.open(keys).opening_keys()
    with closing(Received(folder / "state.sqlite")) as received:
        found = received.add(open_batch(path, load_plan(folder / "plan.json"), opening))
        assert found.counted == size


def hop(size: int, folder: Path) -> None:
    """Release a pool of so many reports of two messages each; the order is made on the disk."""
    import numpy as np
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from chaffinch.sampling import secure_words
    from chaffinch.shuffling.batch_outbox import Outbox
    from chaffinch.shuffling.release_rule import Releaser, ReleaseRule
    from chaffinch.shuffling.state import Partition, State
    from tests.services.servers import make_site

    words, step = secure_words(), 10_000
    shutil.rmtree(folder, ignore_errors=True)
    plan = make_site(folder, users=1, slots=2).plan
    length = plan.layout.item_length(1)
    partition = Partition(plan.id, 1, bytes(plan.layout.route_length))
    outbox = Outbox(folder, Ed25519PrivateKey.generate(), words, memory=1 << 24)
    with closing(State.open(folder / "state.sqlite")) as state:
        for _ in range(0, size, step):
            with state.changing() as change:
                sizes = np.full(step, 2, "<u4").tobytes()
                change.add_to_pool(partition, step, sizes, bytes(2 * step * length))
                change.count(plan.id, {"durable": step, "opened": step})
        rule = ReleaseRule(largest_batch=size)
        assert len(Releaser(state, {plan.id: plan}, outbox, words, rule).tick()) == 1


def files(size: int, folder: Path) -> None:
    """Shuffle and count so many messages in files."""
    import numpy as np

    from chaffinch.engines.local import Local
    from tests.engines.plans import clear, written

    folder.mkdir()
    plan, step = clear(10, 100_000), size // 8
    sources = [
        written(folder / f"{place}.parquet", plan, np.arange(step) % plan.codes)
        for place in range(8)
    ]
    Local().shuffle(sources, plan, folder / "shuffled.parquet", record=folder / "record")
    Local().tally([folder / "shuffled.parquet"], plan)


JOBS: dict[str, Callable[[int, Path], object]] = {
    "service": service,
    "seal": seal,
    "analyzer": analyzer,
    "hop": hop,
    "files": files,
}


def most_memory() -> int:
    """Return the most bytes that this process has held; Linux alone tells it apart from others.

    ``ru_maxrss`` would start with what the process held that this one was forked from.
    """
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert found
    return int(found[1]) << 10


if __name__ == "__main__":
    JOBS[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
    print(most_memory())
