"""Which loops run, and what the C extension refuses to touch."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch.errors import InvalidInput
from chaffinch.sampling import backend, backends, plain
from tests.cases import each_case
from tests.meta import repository
from tests.sampling.sources import available

built = pytest.mark.skipif("native" not in available(), reason="the C extension is not built here")


def start(variable: str) -> subprocess.CompletedProcess[str]:
    code = "from chaffinch.sampling import backend; print(backend())"
    environment = {**os.environ, backends.VARIABLE: variable}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_the_environment_can_ask_for_numpy() -> None:
    assert start("numpy").stdout.split() == ["numpy"]


def test_without_a_wish_the_fastest_is_taken() -> None:
    assert start("").stdout.split() == [available()[0]]


def test_a_wish_that_cannot_be_met_is_refused() -> None:
    done = start("fortran")
    assert done.returncode != 0
    assert "CHAFFINCH_KERNELS must be one of" in done.stderr


def test_asking_for_the_extension_where_it_is_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chaffinch.sampling._native", None)
    assert backends.choose("") == ("numpy", plain)
    with pytest.raises(InvalidInput, match="not built"):
        backends.choose("native")


def test_the_name_is_one_of_two() -> None:
    assert backend() in ("native", "numpy")


@pytest.mark.parametrize("name", available())
def test_each_table_is_complete(name: str) -> None:
    loops = backends.choose(name)[1]
    members = {label for label in vars(backends.Loops) if not label.startswith("_")}
    assert members
    assert all(callable(getattr(loops, label)) for label in members)


def words(size: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.zeros(size, dtype=np.uint64)


def signed(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


GUIDE = np.zeros(4096, dtype=np.uint16)
ODD = np.zeros(9, dtype=np.uint8)[1:]  # Eight bytes that start at an odd address.

WRONG: list[tuple[str, Callable[[Any], object]]] = [
    ("planes", lambda c: c.compare_planes(words(5), bytes(2), words(2), words(2))),
    ("undecided", lambda c: c.compare_planes(words(4), bytes(2), words(2), words(3))),
    ("digits", lambda c: c.compare_planes(words(130), bytes(65), words(2), words(2))),
    ("lanes", lambda c: c.collect_open(words(3), signed(0, 0))),
    ("lane below", lambda c: c.refine(words(1), 1, words(2), words(2), signed(-1))),
    ("lane above", lambda c: c.refine(words(1), 1, words(2), words(2), signed(2))),
    ("few lanes", lambda c: c.refine(words(2), 1, words(2), words(2), signed(0))),
    ("no sentinel", lambda c: c.lookup(words(1), words(1) + 5, GUIDE, signed(0))),
    ("no threshold", lambda c: c.lookup(words(1), words(0), GUIDE, signed(0))),
    ("guide", lambda c: c.lookup(words(1), words(2), GUIDE + np.uint16(2), signed(0))),
    ("short guide", lambda c: c.lookup(words(1), words(2), GUIDE[:9], signed(0))),
    ("counts", lambda c: c.lookup(words(2), words(2), GUIDE, signed(0))),
    ("tie left", lambda c: c.walk(signed(-1), signed(1), 5, (0, 9), signed(0))),
    ("top", lambda c: c.walk(signed(6), signed(1), 5, (0, 9), signed(0))),
    ("top far off", lambda c: c.walk(signed(6), signed(1), 5, (0, 2**50), signed(0))),
    ("lower digit", lambda c: c.walk(signed(4097, 1), signed(1, 9), 5, (0, 2**50), signed(0))),
    ("found", lambda c: c.walk(signed(1, 1), signed(1), 5, (0, 9), signed(0))),
    ("weight", lambda c: c.walk(signed(1), signed(2**51), 5, (0, 9), signed(0))),
    ("escape", lambda c: c.walk(signed(1), signed(1), 2**13, (0, 9), signed(0))),
    ("end", lambda c: c.walk(signed(1), signed(1), 5, (0, 2**51), signed(0))),
    ("backwards", lambda c: c.walk(signed(1), signed(1), 5, (9, 0), signed(0))),
    ("no level", lambda c: c.walk(signed(), signed(), 5, (0, 9), signed(0))),
    ("position", lambda c: c.xor_positions(words(1), signed(64))),
    ("negative position", lambda c: c.xor_positions(words(1), signed(-1))),
    ("no bins", lambda c: c.histogram(np.zeros(1, dtype=np.uint32), signed())),
    ("part of a code", lambda c: c.histogram(bytes(3), signed(0))),
    ("part of a row", lambda c: c.popcount(bytes(129), 128, np.zeros(1024, dtype=np.int64))),
    ("narrow rows", lambda c: c.popcount(bytes(64), 64, np.zeros(1024, dtype=np.int64))),
    ("odd counts", lambda c: c.popcount(bytes(128), 128, np.zeros(1000, dtype=np.int64))),
    ("no stride", lambda c: c.popcount(bytes(128), 0, np.zeros(1024, dtype=np.int64))),
    ("alignment", lambda c: c.collect_open(ODD, signed(0, 0))),
]


@built
@each_case("call", [pytest.param(call, id=label) for label, call in WRONG])
def test_buffers_that_do_not_fit_are_refused(call: Callable[[Any], object]) -> None:
    with pytest.raises(ValueError, match="must fit"):
        call(backends.choose("native")[1])


@built
def test_buffers_that_are_no_buffers_are_refused() -> None:
    loops: Any = backends.choose("native")[1]
    with pytest.raises(TypeError):
        loops.histogram(3, signed(0))
    with pytest.raises((TypeError, BufferError)):
        loops.histogram(np.zeros(1, dtype=np.uint32), bytes(8))  # Cannot be written to.
    with pytest.raises((TypeError, BufferError, ValueError)):
        loops.collect_open(words(4)[::2], signed(0, 0))


@built
def test_loops_run_side_by_side() -> None:
    # Same result from four threads at once; the loops hold no state.
    rows = np.full((5000, 128), 255, dtype=np.uint8)
    loops = backends.choose("native")[1]
    results = [np.zeros(1024, dtype=np.int64) for _ in range(4)]
    threads = [
        threading.Thread(target=loops.popcount, args=(rows, 128, counts)) for counts in results
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.all(counts == 5000) for counts in results)


@built
def test_a_guide_that_another_thread_changes_leads_nowhere_else() -> None:
    # What was checked is what is used: here 60,000 is within the memory, behind the thresholds.
    memory = np.zeros(70_000, dtype=np.uint64)
    memory[0] = 1 << 63
    loops: Any = backends.choose("native")[1]
    drawn = np.arange(4_000_000, dtype=np.uint64) << np.uint64(42)
    guide, counts = GUIDE.copy(), np.zeros(len(drawn), dtype=np.int64)
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            guide[:] = 60_000
            guide[:] = 0

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(20):
            try:
                loops.lookup(drawn, memory[:2], guide, counts)
            except ValueError:
                continue  # Refused, because the guide was already wrong when it was read.
            assert counts.max() <= 1
    finally:
        done.set()
        other.join()


def test_the_extension_is_optional_and_on_the_stable_abi() -> None:
    tree = ast.parse((repository.ROOT / "setup.py").read_text(encoding="utf-8"))
    (call,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Extension"
    )
    given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    assert given["optional"] == "True"
    assert given["py_limited_api"] == "True"
    source = (repository.SOURCE / "sampling" / "native" / "_native.c").read_text(encoding="utf-8")
    assert "#define Py_LIMITED_API 0x030B0000" in source


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["/bin/false", ""])
def test_the_wheel_builds_and_works_with_and_without_a_compiler(
    compiler: str, tmp_path: Path
) -> None:
    pytest.importorskip("setuptools", minversion="77")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(repository.ROOT / name, tmp_path)
    without = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(repository.SOURCE, tmp_path / "src" / "chaffinch", ignore=without)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    environment = {**os.environ, **({"CC": compiler} if compiler else {})}
    done = subprocess.run(
        [sys.executable, "-c", build, "."],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        has_native = any("_native.abi3" in name for name in archive.namelist())
        archive.extractall(tmp_path / "installed")
    assert not (compiler and has_native)
    assert ("abi3" in wheel.name) or not has_native
    code = "from chaffinch import sampling as k; k.positions(k.secure_words(), 2**60, 999); "
    code += "print(k.backend())"
    works = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed"), backends.VARIABLE: ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert works.stdout.split() == ["native" if has_native else "numpy"], works.stderr


def test_an_extension_of_older_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "EDITION", plain.EDITION + 1)
    assert backends.choose("") == ("numpy", plain)
    with pytest.raises(InvalidInput, match="older sources"):
        backends.choose("native")


@pytest.mark.parametrize("name", available())
def test_texts_are_numbered_in_the_order_of_their_first_places(name: str) -> None:
    loops = backends.choose(name)[1]
    # Equal texts at other addresses, more of them than addresses are remembered.
    texts: list[object] = [f"text {number % 700}" for number in range(5000)]
    places: dict[str, int] = {}
    found = np.full(5000, -1, np.int32)
    assert loops.index_texts(texts, places, 1000, found) == 5000
    assert found.tolist() == [number % 700 for number in range(5000)]
    assert list(places) == texts[:700]


@each_case("name", available())
@each_case("odd", [None, 1, b"a", np.str_("a")])
def test_numbering_stops_before_what_is_no_text_and_before_too_many(name: str, odd: object) -> None:
    loops = backends.choose(name)[1]
    found = np.full(4, -1, np.int32)
    assert loops.index_texts(["a", "b", odd, "a"], {}, 9, found) == 2
    assert found.tolist() == [0, 1, -1, -1]
    assert loops.index_texts(["a", "b", "a", "c"], {}, 1, found) == 1


@built
def test_numbering_refuses_what_does_not_fit() -> None:
    loops: Any = backends.choose("native")[1]
    found = np.zeros(2, np.int32)
    calls: list[tuple[Any, ...]] = [
        (("a", "b"), {}, 9, found),
        (["a"], {}, 9, found),
        (["a", "b"], [], 9, found),
        (["a", "b"], {}, -1, found),
        (["a", "b"], {}, 1 << 40, found),
        (["a", "b"], {"a": "no number"}, 9, found),
    ]
    for wrong in calls:
        with pytest.raises((TypeError, ValueError)):
            loops.index_texts(*wrong)
