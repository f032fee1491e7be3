"""Change the sources of a room one small fault at a time, and see which faults no test notices.

``python -m tests.mutation`` runs every room of rooms.toml, or those that are named. It prints
the score of each room and every survivor, and fails if one is not explained in
survivors.toml. With ``--survivors`` only those of the last run are judged again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutmut.configuration import reset_config
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import orig_function_and_class_names_from_key
from scipy import stats

from tests.mutation import operators
from tests.mutation.survivors import Survivor, explanations, survivor_of

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".mutants"
PACKAGE = Path("src", "chaffinch")
ROOMS = tomllib.loads(Path(__file__).with_name("rooms.toml").read_text(encoding="utf-8"))
MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of its own inside
"""A disk in memory, where there is one: databases of the tests wait for the disk at each commit."""
_NOTICED = ("killed", "timeout", "segfault")

SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = {files}
do_not_mutate = {but}
# The checker of certificates, to which tests of covers turn.
also_copy = ["tools"]
pytest_add_cli_args_test_selection = {judges}
# No clock on the wall judges: on a busy machine it would.
pytest_add_cli_args = [
    "--timeout=0", "-p", "no:randomly", "-p", "no:xdist", "-p", "tests.mutation.fresh"
]
# A worker starts from imported modules and nothing else: what earlier tests left in caches
# would hide a mutant.
process_isolation = "forkserver"
# A mutant that hangs is noticed; a slow machine must not pass for one.
timeout_constant = 5.0
timeout_multiplier = 3.0
use_git_change_detection = false
on_dependency_change = "ignore"
"""


@dataclass(frozen=True)
class Score:
    """How the mutants of a room fared."""

    room: str
    files: frozenset[str]
    fates: Counter[str]
    """Of those that are judged; of a large room they are a sample."""
    survivors: tuple[Survivor, ...]
    others: tuple[Survivor, ...]
    """Mutants that are not in the sample."""

    @property
    def noticed(self) -> int:
        """Return how many mutants a test noticed."""
        return sum(self.fates[fate] for fate in _NOTICED)

    @property
    def row(self) -> str:
        """Return the score as a row of a table."""
        total = self.fates.total()
        score = f"{self.noticed / total:.1%}" if total else ""
        judged = str(total)
        if self.others:
            judged = f"{total} of {total + len(self.others)}"
            ends = stats.binomtest(self.noticed, total).proportion_ci(0.95)
            score += f" ({ends.low:.1%} to {ends.high:.1%})"
        return f"| {self.room} | {judged} | {self.noticed} | {total - self.noticed} | {score} |"


def main() -> int:
    """Judge the rooms that are asked for; return 1 if a survivor is not explained."""
    parser = ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("rooms", nargs="*", help=f"of {', '.join(ROOMS)}; all by default")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--survivors", action="store_true", help="judge only them again")
    options = parser.parse_args()
    if not set(options.rooms) <= set(ROOMS):
        parser.error(f"rooms are {', '.join(ROOMS)}")
    scores = []
    for room in options.rooms or ROOMS:
        run_mutmut(room, options.workers, again=options.survivors)
        scores.append(read_score(room))
    return report(scores)


def run_mutmut(room: str, workers: int, *, again: bool) -> None:
    """Make the mutants of a room and judge them, or only what is new or survived the last run."""
    folder = FOLDER / room
    if again:
        forget_survivors(folder)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    prepare_folder(room)
    paths = [folder / "mutants" / "src", folder / "mutants"]
    command = [sys.executable, "-P", operators.__file__, "run", "--max-children", str(workers)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        operators.SHARE: str(share_of(room)),
    }
    if MEMORY.is_dir():
        environment |= {"PYTEST_DEBUG_TEMPROOT": str(MEMORY)}
    subprocess.run(command, cwd=folder, env=environment, check=True)


def share_of(room: str) -> float:
    """Return the share of a room's mutants that is judged."""
    return float(ROOMS[room].get("share", 1.0))


def forget_survivors(folder: Path) -> None:
    """Make mutmut judge again what no test noticed: it keeps what it has an answer for.

    Which tests call what is found anew, because tests may have changed.
    """
    (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    for meta in (folder / "mutants" / PACKAGE).rglob("*.py.meta"):
        content = json.loads(meta.read_text(encoding="utf-8"))
        codes = content["exit_code_by_key"]
        content["exit_code_by_key"] = {
            name: code if status_by_exit_code[code] in _NOTICED else None
            for name, code in codes.items()
        }
        meta.write_text(json.dumps(content), encoding="utf-8")


def prepare_folder(room: str) -> None:
    """Lay out the project as mutmut wants it, with settings for one room."""
    folder = FOLDER / room
    # Python forgets a folder on its path that is not there when it starts.
    (folder / "mutants" / "src").mkdir(parents=True, exist_ok=True)
    for name in ("src", "tests", "tools"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(ROOT / name)
    settings = SETTINGS.format(
        files=[str(PACKAGE / pattern) for pattern in ROOMS[room]["files"]],
        but=[str(PACKAGE / pattern) for pattern in ROOMS[room].get("but", [])],
        judges=ROOMS[room]["judges"],
    )
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(project + settings, encoding="utf-8")


def fates(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Yield the file, the name and the fate of every mutant that mutmut made."""
    inside = folder / "mutants"
    for meta in sorted((inside / PACKAGE).rglob("*.py.meta")):
        codes = json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
        for name, code in codes.items():
            yield meta.with_suffix("").relative_to(inside), name, status_by_exit_code[code]


def read_score(room: str) -> Score:
    """Return how the mutants of a room fared."""
    folder = FOLDER / room
    counted: Counter[str] = Counter()
    files: set[str] = set()
    survivors: list[Survivor] = []
    others: list[Survivor] = []
    reset_config()
    with contextlib.chdir(folder):
        for path, name, fate in fates(folder):
            file = path.relative_to(PACKAGE).as_posix()
            files.add(file)
            judged = operators.in_sample(name, share_of(room))
            counted[fate] += judged
            if fate not in _NOTICED or not judged:
                function, cls = orig_function_and_class_names_from_key(name)
                place = f"{cls}.{function}" if cls else function
                found = survivor_of(file, place, get_diff_for_mutant(name, path=path))
                (survivors if judged else others).append(found)
    return Score(room, frozenset(files), counted, tuple(sorted(survivors)), tuple(others))


def report(scores: Sequence[Score]) -> int:
    """Print scores and survivors; return 1 if a survivor and its explanation do not match."""
    known = explanations()
    survivors = {each for score in scores for each in score.survivors}
    strange = sorted(survivors - known.keys())
    # An explanation of what a test notices is wrong, and would excuse a survivor later on.
    files = {file for score in scores for file in score.files}
    living = survivors.union(*(score.others for score in scores))
    stale = sorted(each for each in known if each.file in files and each not in living)
    print("\n| room | mutants | killed | survived | score |\n|---|---|---|---|---|")
    for score in scores:
        print(score.row)
    for score in scores:
        print(f"{score.room}: {dict(score.fates)}")
    for title, found in (
        ("survivors without an explanation", strange),
        ("explanations of mutants that a test notices, or that are gone", stale),
    ):
        print(f"\n{len(found)} {title}")
        print(*found, sep="\n")
    return 1 if strange or stale else 0


if __name__ == "__main__":
    sys.exit(main())
