"""Long searches tell that they go on, whatever was asked, and stay on the core of who asked."""

from __future__ import annotations

import math
import os
import pty
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import chaffinch
from chaffinch import privacy
from chaffinch.errors import InvalidInput
from chaffinch.privacy.mechanisms.bits import SumMechanism
from tests.cases import each_case
from tests.meta import repository
from tests.terminal import read_to_end
from tests.tiers import all_but, nightly

LEVELS = np.linspace(0.0, 1.0, 11)
WORDS = privacy.FlippedVectors(users=100, bits=2, flip_probability="0.3")
BITS = privacy.FlippedBits(users=60, flip_probability="0.1")
VALUES = privacy.FlippedValues(users=100, values=10, flip_probability="0.05")
DECOYS = privacy.DecoyedValues(decoys=100, values=10)
TARGET = chaffinch.Target(1.0, 1e-6)
SURVEY = chaffinch.Survey({"first": chaffinch.Bit(), "second": chaffinch.Bit()})

# What is asked, and how often somebody must be told at least. The searches are short ones of
# their kinds: one that takes as long as it may tells as often for each of its points.
SEARCHES: dict[str, tuple[Callable[[], object], int]] = {
    "epsilon of words": (lambda: WORDS.epsilon(1e-6), 50),
    "trade-off of words": (lambda: WORDS.tradeoff(LEVELS), 200),
    "trade-off of bits": (lambda: BITS.tradeoff(LEVELS), 50),
    "mu of bits": (BITS.gaussian_mu, 10),
    "epsilon of values": (lambda: VALUES.epsilon(1e-6), 50),
    "mu of decoys": (DECOYS.gaussian_mu, 129),
    "rounds": (lambda: privacy.compose(BITS, times=10).epsilon(1e-6), 30),
    "honest shares": (lambda: chaffinch.plan(SURVEY, users=3000, target=TARGET), 100),
}


@each_case("name", all_but(SEARCHES, "honest shares", "trade-off of words"))
def test_every_long_search_tells_often(name: str) -> None:
    search, least = SEARCHES[name]
    told: list[str] = []
    with chaffinch.show_progress(told.append, pause_seconds=0):
        search()
    assert len(told) >= least
    assert all(words.rpartition(": ")[2].replace(",", "").isdecimal() for words in told)


def test_verification_and_certificates_tell() -> None:
    plan = chaffinch.plan(SURVEY, users=10_000, target=TARGET, local_epsilon=100.0)
    told: list[str] = []
    with chaffinch.show_progress(told.append, pause_seconds=0):
        plan.verify(shares=True)
    assert len(told) >= 3
    told.clear()
    with chaffinch.show_progress(told.append, pause_seconds=0):
        plan.certificate()
    assert any(words.startswith("runs of crowds") for words in told)


def test_near_one_half_the_ridge_answers_without_a_search_over_crowds() -> None:
    numbers = privacy.EncodedNumbers(
        users=1000, resolution=8, flip_probability="0.49999", slots="together"
    )
    told: list[str] = []
    with chaffinch.show_progress(told.append, pause_seconds=0):
        found = numbers.epsilon(1e-6)
    assert found.relative_width <= 1e-9
    assert not any(words.startswith("crowds: ") for words in told)


def told_steps(search: Callable[[], object]) -> dict[str, int]:
    """Return how many steps of each kind a search has told of."""
    steps: dict[str, int] = {}

    def tell(words: str) -> None:
        kind, _, count = words.rpartition(": ")
        steps[kind] = int(count.replace(",", ""))

    with chaffinch.show_progress(tell, pause_seconds=0):
        search()
    return steps


@pytest.mark.parametrize(("users", "width"), [(100, 4e-6), nightly(10, 1e-5)])
def test_many_bits_near_one_half_take_no_search_over_crowds(users: int, width: float) -> None:
    """The ridge has fewer digits there than are asked for, and a search would take minutes."""
    numbers = privacy.EncodedNumbers(
        users=users, resolution=1000, flip_probability="0.4999", slots="together"
    )
    found: list[privacy.Bracket] = []
    steps = told_steps(lambda: found.append(numbers.epsilon(1e-6)))
    assert "crowds" not in steps
    assert found[0].relative_width <= width
    inner = numbers.inner
    assert isinstance(inner, SumMechanism)
    seen = [inner.crowd(ones=1000 * (users - 1) // part).epsilon(1e-6) for part in (2, 10**6)]
    worst = max(one.lower for one in seen)
    assert worst <= found[0].upper
    assert worst >= (1 - 1e-3) * found[0].lower


def test_what_is_private_enough_at_once_is_not_searched_for() -> None:
    numbers = privacy.EncodedNumbers(
        users=100, resolution=100, flip_probability="0.4999999999", slots="together"
    )
    found: list[privacy.Bracket] = []
    steps = told_steps(lambda: found.append(numbers.epsilon(1e-6)))
    assert found == [privacy.Bracket(0.0, 0.0)]
    assert sum(steps.values()) < 10


def test_an_error_that_any_noise_keeps_is_not_searched_for() -> None:
    """Half of a thousandth of a million allows an epsilon below 0.1: the plan is made for that."""
    error = chaffinch.Error(0.0005)
    steps = told_steps(lambda: chaffinch.plan(chaffinch.Bit(), users=10**6, error=error))
    assert steps["points of a curve"] < 1000


@pytest.mark.long
def test_several_numbers_of_a_person_are_planned_without_every_run_of_crowds() -> None:
    number = chaffinch.Number(0, 100, quantiles=True, missing=0)
    steps = told_steps(lambda: chaffinch.plan(number, users=10**6, target=TARGET, contributions=3))
    assert "runs of crowds" not in steps


def test_nobody_is_told_outside_of_the_block_or_too_often() -> None:
    told: list[str] = []
    with chaffinch.show_progress(told.append, pause_seconds=3600):
        VALUES.delta(0.5)
    with chaffinch.show_progress(told.append, pause_seconds=0):
        pass
    VALUES.delta(0.6)
    assert told == []


def test_the_inner_block_is_told_and_then_the_outer_one_again() -> None:
    outer: list[str] = []
    inner: list[str] = []
    with chaffinch.show_progress(outer.append, pause_seconds=0):
        with chaffinch.show_progress(inner.append, pause_seconds=0):
            VALUES.delta(0.7)
        assert inner
        assert not outer
        VALUES.delta(0.8)
    assert outer


def test_an_error_of_who_is_told_ends_the_search() -> None:
    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), chaffinch.show_progress(stop, pause_seconds=0):
        VALUES.delta(0.9)
    told: list[str] = []
    VALUES.delta(0.95)
    assert told == []


@pytest.mark.parametrize("pause", [-1.0, math.nan, math.inf])
def test_a_pause_is_a_number_of_seconds(pause: float) -> None:
    with (
        pytest.raises(InvalidInput, match="pause in seconds"),
        chaffinch.show_progress(pause_seconds=pause),
    ):
        pass


LINE = """
import chaffinch
values = chaffinch.privacy.FlippedValues(users=100, values=10, flip_probability="0.05")
with chaffinch.show_progress(pause_seconds=0):
    values.delta(0.5)
"""


def test_without_a_callback_a_terminal_shows_a_line_and_a_pipe_nothing() -> None:
    command = [sys.executable, "-c", LINE]
    variables = os.environ | {"PYTHONPATH": str(repository.SOURCE.parent)}
    piped = subprocess.run(command, env=variables, capture_output=True, check=True)
    assert piped.stderr == piped.stdout == b""
    above, below = pty.openpty()
    with subprocess.Popen(command, env=variables, stderr=below) as process:
        os.close(below)
        said = read_to_end(above)
    assert process.returncode == 0
    assert b"crowds: " in said
    assert said.endswith(b"\r\x1b[K")


CORES = """
import time
from chaffinch import privacy
words = privacy.FlippedVectors(users=1000, bits=8, flip_probability="0.1")
copies = privacy.FlippedBits(users=10_000, flip_probability="0.45", copies=100)
all_threads, this = time.process_time(), time.thread_time()
words.epsilon(1e-6), copies.epsilon(1e-6)
this = time.thread_time() - this
print((time.process_time() - all_threads) / this)
"""


def test_a_search_stays_on_one_core() -> None:
    # The gate allows BLAS one thread; a user's machine does not.
    variables = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    variables |= {"PYTHONPATH": str(repository.SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", CORES], env=variables, capture_output=True, check=True
    )
    assert float(done.stdout) < 1.1
