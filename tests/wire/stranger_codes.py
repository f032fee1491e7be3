"""From answers to codes by the words of docs/reference/wire.md alone: a second implementation.

It imports nothing of chaffinch. A source of words is anything that gives 64 bits at a time.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any

Words = Iterator[int]
Entry = dict[str, Any]


# ----------------------------------------------------------------------------
# Draws.


def coin(words: Words, chance: Fraction) -> bool:
    return next(words) < chance * 2**64


def below(words: Words, bound: int) -> int:
    while (word := next(words)) >= 2**64 // bound * bound:
        pass
    return word % bound


def rounded(words: Words, height: float) -> int:
    return int(height) + coin(words, Fraction(height) - int(height))


def from_table(words: Words, chances: list[Decimal], count: int) -> list[int]:
    """Return places in a table; its length stands for what is left."""
    with localcontext(prec=60):
        edges = list(itertools.accumulate(int(chance * 2**128) for chance in chances))
    upper = [next(words) for _ in range(count)]
    lower = [next(words) for _ in range(count)]
    drawn = (high << 64 | low for high, low in zip(upper, lower, strict=True))
    return [bisect.bisect_right(edges, number) for number in drawn]


# ----------------------------------------------------------------------------
# Answers as numbers.


def labels(question: Entry) -> int:
    """Return how many labels a question has."""
    if question["kind"] == "cross":
        return math.prod(sizes(question))
    named = {"bit": ("no", "yes"), "choice": question.get("values"), "flags": question.get("names")}
    return len(named[question["kind"]] or ()) + int(question["missing"] == "count")


def sizes(cross: Entry) -> list[int]:
    """Return how many answers each question of a cross has."""
    asked = [one["question"] for one in cross["questions"]]
    return [
        cross["levels"] + int(one["missing"] == "count") if one["kind"] == "number" else labels(one)
        for one in asked
    ]


def shape(question: Entry) -> str:
    kind = question["kind"]
    third = kind == "bit" and question["missing"] == "count"
    return "choice" if third or kind == "cross" else str(kind)


def share(question: Entry, answer: float | None) -> float:
    if answer is None:
        return 0.5
    low, high = float(question["low"]), float(question["high"])
    return (answer - low) / (high - low)


def place(question: Entry, answer: Any) -> int:
    if answer is None:
        return labels(question) - 1
    named = ["no", "yes"] if question["kind"] == "bit" else question["values"]
    found: int = named.index(answer)
    return found


def number_of(question: Entry, answer: Any, words: Words) -> Any:
    """Return a place, the places of flags, or a share."""
    if question["kind"] == "cross":
        return cell(question, answer, words)
    if question["kind"] == "flags":
        names = question["names"]
        return [len(names)] if answer is None else [names.index(name) for name in answer]
    if question["kind"] == "number":
        return share(question, answer)
    return place(question, answer)


def cell(question: Entry, answers: dict[str, Any], words: Words) -> int:
    found = 0
    for one, size in zip(question["questions"], sizes(question), strict=True):
        asked, answer = one["question"], answers[one["name"]]
        if asked["kind"] != "number":
            own = place(asked, answer)
        else:
            most = question["levels"] - 1
            own = rounded(words, most + 1.0 if answer is None else share(asked, answer) * most)
        found = found * size + own
    return found


# ----------------------------------------------------------------------------
# Protocols.


def flips(question: Entry, given: Entry, answer: Any, words: Words) -> list[int]:
    chance, bit = Fraction(given["flip_probability"]), shape(question) == "bit"
    held = {0} if bit and answer else set()
    if not bit:
        held = set(answer) if isinstance(answer, list) else {answer}
    bits, found = codes_of({"question": question, "protocol": given}), []
    for _ in range(given["copies"]):
        found += [code for code in range(bits) if coin(words, chance) != (code in held)]
    return found[: given["slots"]] if "slots" in given else found


def decoys(question: Entry, given: Entry, answer: int, words: Words) -> list[int]:
    sent = [coin(words, Fraction(given["decoy_rate"])) for _ in range(given["decoy_slots"])]
    values = [below(words, labels(question)) for _ in sent]
    return [answer, *itertools.compress(values, sent)]


def flipped_decoys(question: Entry, given: Entry, answer: int, words: Words) -> list[int]:
    bits, chance = labels(question), Fraction(given["flip_probability"])
    records = [answer, *(below(words, bits) for _ in range(given["decoys"]))]
    found = []
    for one in records:
        held = [code for code in range(bits) if coin(words, chance) != (code == one)]
        found += held[: given["slots"]]
    return found


def encoded(_: Entry, given: Entry, answer: float, words: Words) -> list[int]:
    bits, chance = given["resolution"], Fraction(given["flip_probability"])
    full = rounded(words, answer * bits)
    held = [step for step in range(bits) if coin(words, chance) != (step < full)]
    return [0] * len(held) if given["together"] else held


def signed(question: Entry, given: Entry, answer: Any, words: Words) -> list[int]:
    digits, kind = [given, *given.get("finer", ())], shape(question)
    if kind == "number":
        ways, held = [digit["steps"] + 1 for digit in digits], []
        left = rounded(words, answer * (math.prod(ways) - 1))
        for place_, size in enumerate(ways):
            pluses = left // math.prod(ways[place_ + 1 :]) % size
            held += [2 * place_] * pluses + [2 * place_ + 1] * (size - 1 - pluses)
    elif kind == "choice":
        held = [2 * answer]
    elif kind == "bit":
        held = [0 if answer else 1]
    else:
        held = [2 * flag + (flag not in answer) for flag in range(labels(question))]
    values = 1 if kind in ("bit", "number") else labels(question)
    return held + noise(digits, given, values, words)


def noise(digits: list[Entry], given: Entry, values: int, words: Words) -> list[int]:
    cut_for, room, twice = given["cut_for"], given["room"], 2 if given.get("doubled") else 1
    with localcontext(prec=60):
        kinds, total = [], Decimal(0)
        for place_, digit in enumerate(digits):
            ratio, flood = Decimal(digit["ratio"]), list(map(Decimal, digit["flood"]))
            total += -2 * (1 - ratio).ln() + sum(flood)
            most = room // twice
            kinds += [(ratio**k / k, place_, twice * k, 0) for k in range(1, most + 1)]
            kinds += [(ratio**k / k, place_, 0, twice * k) for k in range(1, most + 1)]
            kinds += [(rate, place_, k, k) for k, rate in enumerate(flood[: room // 2], 1)]
        drawn = bursts(words, total * values / cut_for, [chance / total for chance, *_ in kinds])
    at = [below(words, values) for _ in drawn]
    found = []
    for kind, value in zip(drawn, at, strict=True):
        if kind < len(kinds):
            _, place_, pluses, minuses = kinds[kind]
            found += [2 * (value + place_)] * pluses + [2 * (value + place_) + 1] * minuses
    return found if len(found) <= room else []


def weighted(question: Entry, given: Entry, answer: Any, words: Words) -> list[int]:
    del question
    codes, atoms = weighted_codes(given)
    steps = given["tops"] * 2 ** sum(map(len, given["levels"]))
    weight = rounded(words, answer * steps) - steps // 2
    parts = codes[:1] if "whole_flood" in given else codes[:-2]
    (held,) = (some for some in product(*parts) if sum(one for _, one in some) == weight)
    found = [code for code, _ in held]
    return found + weighted_noise(given, atoms, words)


def weighted_codes(given: Entry) -> tuple[list[list[tuple[int, int]]], dict[str, list[list[int]]]]:
    """Return codes with their weights, in parts, and all atoms."""
    sizes = list(map(len, given["levels"]))
    levels, weights = sum(sizes), list[list[int]]()
    steps = given["tops"] * 2**levels
    low = 0
    for size in sizes[:-1]:
        bits = product((0, 1), repeat=size)
        weights.append(
            sorted(-sum(b * (-2) ** (low + k) for k, b in enumerate(one)) for one in bits)
        )
        low += size
    rest = {
        number - steps // 2 - sum(some)
        for number in range(steps + 1)
        for some in product(*weights)
        if (number - steps // 2 - sum(some)) % 2**low == 0
    }
    weights.append(sorted(rest))
    groups = len(weights)
    weights += [[(-2) ** k for k in range(levels)], [(-2) ** levels, -((-2) ** levels)]]
    if "whole_flood" in given:
        weights.insert(0, [number - steps // 2 for number in range(steps + 1)])
    numbered = iter(range(10**6))
    codes = [[(next(numbered), weight) for weight in part] for part in weights]
    parts, units, tops = codes[-2 - groups : -2], [code for code, _ in codes[-2]], codes[-1]

    def against(weight: int) -> list[int]:
        for bits in product((0, 1), repeat=levels):
            left = -weight - sum(b * (-2) ** k for k, b in enumerate(bits))
            if left % 2**levels == 0:
                top = tops[0] if left * tops[0][1] > 0 else tops[1]
                held = [unit for unit, bit in zip(units, bits, strict=True) if bit]
                return held + [top[0]] * abs(left // 2**levels)
        raise AssertionError

    first, second = tops[0][0], tops[1][0]
    atoms = {
        "levels": [[unit] for unit in units],
        "code_flood": [[code, *against(weight)] for part in parts for code, weight in part],
        "link_flood": [[u, u, v] for u, v in zip(units, [*units[1:], first], strict=True)],
        "top_flood": [[first, second]],
        "tops": [[first], [second]],
    }
    if "whole_flood" in given:
        sums = {sum(w for _, w in some): [code for code, _ in some] for some in product(*parts)}
        atoms["whole_flood"] = [[code, *sums[-weight]] for code, weight in codes[0]]
    return codes, atoms


def weighted_noise(given: Entry, atoms: dict[str, list[list[int]]], words: Words) -> list[int]:
    with localcontext(prec=60):
        ratio, room = Decimal(given["ratio"]), given["room"]
        rates = [Decimal(rate) for group in given["levels"] for rate in group]
        kinds = [(rate, [atom], 1) for rate, atom in zip(rates, atoms["levels"], strict=True)]
        for name in ("code_flood", "link_flood", "top_flood", "whole_flood"):
            some = atoms.get(name, [])
            flood = enumerate(map(Decimal, given.get(name, ())), 1)
            kinds += [(rate * len(some), some, k) for k, rate in flood]
        total = sum((rate for rate, *_ in kinds), Decimal(0)) - 2 * (1 - ratio).ln()
        for top in atoms["tops"]:
            kinds += [(ratio**k / k, [top], k) for k in range(1, room + 1)]
        drawn = bursts(words, total / given["cut_for"], [rate / total for rate, *_ in kinds])
    found = [kinds[kind] for kind in drawn if kind < len(kinds)]
    picked = [atoms_[0] for _, atoms_, _ in found]
    for size in sorted({len(atoms_) for _, atoms_, _ in found} - {1}):
        for place_, (_, atoms_, _) in enumerate(found):
            if len(atoms_) == size:
                picked[place_] = atoms_[below(words, size)]
    sent = [code for atom, (_, _, k) in zip(picked, found, strict=True) for code in atom * k]
    return sent if len(sent) <= room else []


def bursts(words: Words, mean: Decimal, chances: list[Decimal]) -> list[int]:
    """Return the kinds of a Poisson number of bursts."""
    some = Fraction(int((1 - (-mean).exp()) * 2**64) + 1, 2**64)
    scale = (-mean).exp() * some.denominator / some.numerator
    many = [scale * mean**n / math.factorial(n) for n in range(1, 60)]
    if not coin(words, some):
        return []
    (number,) = from_table(words, many, 1)
    return from_table(words, chances, 0 if number == len(many) else number + 1)


PROTOCOLS: dict[str, Callable[[Entry, Entry, Any, Words], list[int]]] = {
    "flips": flips,
    "decoys": decoys,
    "flipped-decoys": flipped_decoys,
    "encoded": encoded,
    "signed-decoys": signed,
    "weighted": weighted,
}


# ----------------------------------------------------------------------------
# Whole reports.


def codes_of(entry: Entry) -> int:
    """Return how many codes an entry of a plan's questions has."""
    question, protocol = entry["question"], entry["protocol"]
    kind, bit = protocol["kind"], shape(question) == "bit"
    if kind == "encoded":
        return 1 if protocol["together"] else int(protocol["resolution"])
    if kind == "weighted":
        return sum(map(len, weighted_codes(protocol)[0]))
    if kind == "signed-decoys":
        if shape(question) == "number":
            return 2 * (1 + len(protocol.get("finer", ())))
        return 2 * (1 if bit else labels(question))
    return 1 if kind == "flips" and bit else labels(question)


def encode(questions: list[Entry], answers: Any, words: Words) -> list[int]:
    """Return the codes of a report, in their order."""
    found, first = [], 0
    asked = [entry for entry in questions if "answers_to" not in entry]
    given = {asked[0]["name"]: answers} if len(asked) == 1 else answers
    for entry in questions:
        question, protocol = entry["question"], entry["protocol"]
        if "answers_to" in entry:
            number: Any = int(given[entry["answers_to"]] is not None)
        else:
            number = number_of(question, given[entry["name"]], words)
        sent = PROTOCOLS[protocol["kind"]](question, protocol, number, words)
        found += [first + code for code in sent]
        first += codes_of(entry)
    return sorted(found)
