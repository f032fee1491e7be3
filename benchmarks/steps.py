"""Steps that are measured one by one, each in a process of its own: its memory is its own too."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import tell

Found = dict[str, Any]
Step = Callable[[Path, int], Found]


def main(
    module: str,
    steps: Mapping[str, Step],
    *,
    size: int,
    limit: float,
    shown: Callable[[dict[str, Found], int], str],
) -> int:
    """Measure all steps on so many rows, and print a table or JSON; ``limit`` is in mebibytes."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--rows", type=int, default=size)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--step", choices=steps, help="run one step only, in --folder")
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    if chosen.step:
        print(json.dumps(_measured(steps[chosen.step], chosen.folder, chosen.rows)))
        return 0
    surroundings = {
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
        "load average": ", ".join(f"{part:.1f}" for part in os.getloadavg()),
    }
    with tempfile.TemporaryDirectory() as name:
        found = {step: _apart(module, step, Path(name), chosen.rows) for step in steps}
    if chosen.json:
        whole = {"surroundings": surroundings, "rows": chosen.rows, "limit MiB": limit}
        print(json.dumps(whole | {"steps": found}, indent=2))
    else:
        print("; ".join(f"{name} {value}" for name, value in surroundings.items()))
        print(shown(found, chosen.rows))
    return 0


def _measured(step: Step, folder: Path, rows: int) -> Found:
    """Run a step in this process, and return its time and its peak memory with its findings."""
    start = time.perf_counter()
    found = step(folder, rows)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    return found | {
        "seconds": seconds,
        "processor seconds": used.ru_utime + used.ru_stime,
        "peak MiB": used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10),
    }


def _apart(module: str, step: str, folder: Path, rows: int) -> Found:
    """Run a step in a fresh process."""
    tell(step)
    command = [sys.executable, "-m", module]
    options = ["--rows", str(rows), "--step", step, "--folder", str(folder)]
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True)  # noqa: S603
    tell("")
    found: Found = json.loads(done.stdout)
    return found
