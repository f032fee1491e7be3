"""What Python hands over at once: a list of texts to encode, and a batch to shuffle.

Dense NumPy reads the same list, by a dictionary of the values, and makes a row of bits for every
report. The messages are in one array, in the order of the people; NumPy's own shuffle draws from
the fast generator it comes with.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.findings import Finding, Goal, Line, milliseconds, processor_seconds, ratio
from chaffinch.encoding.bulk import encode_many
from chaffinch.planning.planner import plan
from chaffinch.privacy import Target
from chaffinch.protocols import Flips
from chaffinch.questions import Choice
from chaffinch.sampling import secure_words, shuffled

PEOPLE = 200_000
VALUES = (4, 20, 100)
AIM = 2.0
ROWS_AT_ONCE = 1000
MESSAGES = 32_000_000
CODES = {"64 codes": 64, "one code": 1}


def findings() -> Iterator[Finding]:
    """Yield a table for lists and one for shuffles."""
    yield _lists()
    yield _shuffles()


def _lists() -> Finding:
    lines = []
    for values in VALUES:
        labels = [f"brand {number}" for number in range(values)]
        held = np.random.default_rng(1).integers(0, values, PEOPLE)
        texts = [labels[number] for number in held]
        target = Target(1.0, 1e-6)
        made = plan(Choice(labels), users=PEOPLE, target=target, local_epsilon=8, max_messages=1000)
        (part,) = made.parts
        assert isinstance(part.protocol, Flips)  # what a local epsilon leaves
        chance = float(part.protocol.flip_probability)
        made.verify()
        seconds = processor_seconds(
            {
                "chaffinch": partial(encode_many, texts, made),
                "dense": partial(_dense, texts, labels, chance),
            }
        )
        times = ratio(seconds["dense"], seconds["chaffinch"])
        cells = (milliseconds(seconds["chaffinch"]), milliseconds(seconds["dense"]), times)
        lines.append(Line(f"{values} values", cells, Goal(AIM, times)))
    columns = ("chaffinch, ms", "dense NumPy, ms", "ratio")
    return Finding(f"Encode a list of {PEOPLE:,} texts", columns, lines)


def _dense(texts: list[str], labels: list[str], chance: float) -> object:
    places = {label: number for number, label in enumerate(labels)}
    held = np.array([places[text] for text in texts])
    generator = np.random.default_rng()
    counts = np.zeros(len(labels), np.int64)
    for start in range(0, len(held), ROWS_AT_ONCE):
        part = held[start : start + ROWS_AT_ONCE]
        bits = generator.random((len(part), len(labels))) < chance
        bits[np.arange(len(part)), part] ^= True
        counts += bits.sum(axis=0)
    return counts


def _shuffles() -> Finding:
    lines = []
    for name, codes in CODES.items():
        messages = np.random.default_rng(1).integers(0, codes, MESSAGES, np.uint32)
        jobs = {
            "chaffinch": partial(shuffled, secure_words(), messages),
            "NumPy": partial(np.random.default_rng().permutation, messages),
        }
        seconds = processor_seconds(jobs, repeats=3, least_seconds=0.0)
        times = ratio(seconds["NumPy"], seconds["chaffinch"])
        cells = (milliseconds(seconds["chaffinch"]), milliseconds(seconds["NumPy"]), times)
        lines.append(Line(name, cells))
    columns = ("chaffinch, ms", "NumPy, ms", "ratio")
    notes = ["the messages of a million numbers in 64 bits have one code: there is one order"]
    return Finding(f"Shuffle {MESSAGES:,} messages in memory", columns, lines, notes)
