"""The pictures of the guides and concepts: run ``python -m tests.docs.figures`` to write them.

Every line and number in them is computed here by chaffinch. Randomness has a seed, so a picture
changes only when what it shows does.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import chaffinch as cf
from chaffinch import charts, privacy
from chaffinch.cards import escape
from chaffinch.charts.axis import Axis
from chaffinch.charts.figure import Figure, Series, Style
from chaffinch.charts.heat import HeatFigure
from chaffinch.charts.linear_diagram import parts_chart
from chaffinch.charts.svg import STYLE, Picture, element
from chaffinch.encoding.bulk import encode_numbers
from chaffinch.plans.plan import Plan
from chaffinch.privacy.amplification import ShuffledResponse
from chaffinch.release.surveys import Release
from chaffinch.shuffling.in_memory import shuffle_with
from chaffinch.simulate import SeededWords
from tests.meta import repository

FOLDER = repository.ROOT / "docs" / "figures"

_WIDTH, _EDGE, _HEAD = 720, 20, 26
_PAPER = """
:root{color-scheme:light dark}
.site-paper{fill:var(--cf-paper);stroke:var(--cf-grid)}
.site-box{fill:var(--cf-box);stroke:var(--cf-main)}
.site-other{fill:var(--cf-alarm);stroke:var(--cf-leak)}
.site-arrow{stroke:var(--cf-soft);stroke-width:1.5}.site-tip{fill:var(--cf-soft)}
"""
"""A picture in a file has its own ground: it can be read wherever it is put."""

TARGET = cf.Target(epsilon=1, delta=1e-6)
DRINKS = cf.Choice(["tea", "coffee", "water", "juice"], missing="refuse")
_CROWD = 500
_PEOPLE = (0.42, 0.31, 0.18, 0.09)
_COMPARED: dict[str, Style] = {
    "signed decoys": "proven",
    "clear with decoys": "measured",
    "flips": "measured",
}

_Line = tuple[str, Sequence[float], Sequence[float], Style]
"""A name, places to the right, places up, and what the line stands for."""


# ------------------------------------------------------------------------------- paper


def alone(title: str, words: str, body: str, height: float) -> str:
    """Return a whole SVG file: a title, and below it what is drawn in ``height`` pixels."""
    tall = height + _HEAD + 2 * _EDGE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="cf-chart" role="img" width="{_WIDTH}" '
        f'height="{tall:g}" viewBox="0 0 {_WIDTH} {tall:g}">'
        f"<title>{escape(title)}</title><desc>{escape(words)}</desc><style>{STYLE}{_PAPER}</style>"
        f'<rect class="site-paper" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{tall - 1:g}" '
        'rx="6"/>'
        f"{element('text', title, x=_EDGE, y=_EDGE + 12, class_='cf-title')}"
        f'<svg x="{_EDGE}" y="{_EDGE + _HEAD}" width="{_WIDTH - 2 * _EDGE}" height="{height:g}">'
        f"{body}</svg></svg>\n"
    )


def plate(picture: Picture, title: str = "") -> str:
    """Return one of chaffinch's charts as a file of its own."""
    drawn = picture.svg(styled=False)
    width = _WIDTH - 2 * _EDGE
    if box := re.match(r'<svg [^>]*viewBox="\S+ \S+ (\S+) (\S+)"', drawn):
        height = width * float(box[2]) / float(box[1])
    else:
        height = float(re.findall(r'height="([\d.]+)"', drawn)[0])
    return alone(title or picture.title, picture.alternative, drawn, height)


def lines(
    title: str,
    x: Axis,
    y: Axis,
    series: Sequence[_Line],
    words: str,
) -> str:
    """Return a file with a figure of lines."""
    drawn = tuple(
        Series(name, tuple(map(float, left)), tuple(map(float, up)), style)
        for name, left, up, style in series
    )
    return plate(Figure(title, x, y, drawn, words, ""))


def bars(title: str, rows: Sequence[tuple[str, float, str]], words: str) -> str:
    """Return a file with a bar for each row: its name, its length and what is written there."""
    longest = max(length for _, length, _ in rows)
    body = ""
    for number, (name, length, said) in enumerate(rows):
        y = 34 * number
        body += element("text", name, x=0, y=y + 17)
        body += element(
            "rect", x=230, y=y, width=300 * length / longest, height=24, class_="cf-bar"
        )
        body += element("text", said, x=238 + 300 * length / longest, y=y + 17)
    return alone(title, words, body, 34 * len(rows))


def flow(title: str, boxes: Sequence[tuple[str, str]], words: str, *, apart: int = 0) -> str:
    """Return a file with boxes from left to right; those from ``apart`` on are another party's."""
    gap = 26
    width = (_WIDTH - 2 * _EDGE - gap * (len(boxes) - 1)) / len(boxes)
    told = [textwrap.wrap(text, int(width / 7.4)) for _, text in boxes]
    height = 40 + 17 * max(map(len, told))
    body = ""
    for number, ((head, _), rows) in enumerate(zip(boxes, told, strict=True)):
        x = (width + gap) * number
        kind = "site-other" if apart and number >= apart else "site-box"
        body += element("rect", x=x + 1, y=1, width=width - 2, height=height - 2, rx=6, class_=kind)
        body += element("text", head, x=x + 10, y=24, class_="cf-title")
        for line, text in enumerate(rows):
            body += element("text", text, x=x + 10, y=46 + 17 * line, class_="cf-soft")
        if number:
            y = height / 2
            body += element("line", x1=x - gap + 4, x2=x - 8, y1=y, y2=y, class_="site-arrow")
            body += f'<path class="site-tip" d="M{x - 10:g} {y - 5:g}l8 5l-8 5z"/>'
    return alone(title, words, body, height)


# ------------------------------------------------------------------------------- pictures


def drinks_plan() -> Plan:
    """Return the plan of the front page."""
    return cf.plan(DRINKS, users=_CROWD, target=TARGET)


def drinks_release() -> Release:
    """Return its release, of people whose answers and noise have a seed."""
    plan, words = drinks_plan(), SeededWords(7)
    answers = np.random.default_rng(7).choice(4, size=_CROWD, p=_PEOPLE)
    reports = encode_numbers(plan, [answers], len(answers), words)
    return cf.analyze(shuffle_with(reports, words), plan)


def release() -> str:
    return plate(drinks_release().chart(), "A release: what 500 people drink, at epsilon 1")


def plan() -> str:
    found = drinks_plan()
    rows = [("the plan: signed decoys", found.parts[0].standard_error(_CROWD))]
    rows += [(one.name, one.standard_errors[0]) for one in found.alternatives]
    shown = sorted((row for row in rows if row[1] < 100 and "%" not in row[0]), key=lambda r: r[1])
    return bars(
        "A plan: the standard error of each way to give 500 people epsilon 1",
        [(name, error, f"± {error:.1f} people") for name, error in shown],
        "Standard errors of the protocols that were compared for one question.",
    )


def curve() -> str:
    return plate(
        charts.privacy_curve(privacy.FlippedBits(users=10_000, flip_probability=0.01)),
        "A curve: how private, proven for every crowd, beside what was published",
    )


def pipeline() -> str:
    return flow(
        "From answer to release",
        [
            ("plan", "one document for all: question, noise, guarantee"),
            ("encode", "each device checks the plan, adds noise and seals its report"),
            ("shuffle", "operator A breaks the link between report and sender"),
            ("analyze", "operator B counts, and sees no single person"),
            ("release", "estimates with intervals, and the guarantee"),
        ],
        "A plan is known to all; devices encode, a shuffler mixes, an analyzer counts, and a "
        "release is published.",
    )


def run() -> str:
    return flow(
        "From a table to a release",
        [
            ("survey", "drafted from the table, completed by you"),
            ("check", "every cell, all faults at once"),
            ("plan", "the error, before any answer is used"),
            ("run", "noise on your machine; each release is recorded"),
            ("release", "a page, JSON and CSV, with the guarantee"),
        ],
        "A survey is drafted and checked, planned and run; a release is published.",
    )


def views() -> str:
    return flow(
        "What each party sees",
        [
            ("the device", "its own answer, and the plan"),
            ("the shuffler", "who sent a sealed report, and nothing of what is in it"),
            ("the analyzer", "all messages in random order, and nobody's name"),
            ("a reader", "the release"),
        ],
        "The device sees its answer, the shuffler senders, the analyzer messages, a reader the "
        "release.",
    )


def services() -> str:
    return flow(
        "Three operators, four kinds of process",
        [
            ("devices", "send sealed reports; chaffinch send"),
            ("collector", "operator A: keeps reports, acknowledges them"),
            ("shuffler", "operator A: opens, mixes, passes batches on"),
            ("analyzer", "operator B: opens, counts, charges, publishes"),
        ],
        "Devices send to a collector; its shuffler passes batches on to another operator's "
        "analyzer.",
        apart=3,
    )


def cluster() -> str:
    return flow(
        "The same steps on a cluster",
        [
            ("table", "Parquet files, or a data frame of Spark"),
            ("encode", "every executor, from one secret of the job"),
            ("shuffle", "a random place for every message; a folder as batch"),
            ("analyze", "executors count, the driver adds up"),
            ("release", "the same as on one machine"),
        ],
        "Tables are encoded, shuffled and counted by the executors of a cluster.",
    )


def worst_crowd() -> str:
    mechanism = privacy.FlippedBits(users=20, flip_probability="0.05")
    ones = range(20)
    found = [mechanism.crowd(ones=count).delta(0.2).upper for count in ones]
    worst = max(found)
    return lines(
        "Which crowd protects least: 20 users, 5 % flipped, epsilon 0.2",
        Axis("others who hold a one", 0, 19, whole=True),
        Axis("delta", min(found) * 0.98, worst * 1.02),
        [
            ("delta of each crowd", list(ones), found, "proven"),
            ("the guarantee: the worst of all crowds", [0, 19], [worst, worst], "reference"),
        ],
        f"Delta is {found[0]:.3f} if nobody else holds a one, and largest, {worst:.3f}, at "
        f"{found.index(worst)} of 19.",
    )


def rounds() -> str:
    once = privacy.FlippedBits(users=1_000, flip_probability="0.1")
    times = [1, 2, 4, 8, 16, 32, 52]
    composed = [privacy.compose(once, times=t).epsilon(1e-6).upper for t in times]
    added = [t * once.epsilon(1e-6 / t).upper for t in times]
    return lines(
        "The same question every week: epsilon at delta 10⁻⁶",
        Axis("rounds", 0, 52, whole=True),
        Axis("epsilon", 0, 12),
        [
            ("composed losses", times, composed, "proven"),
            ("epsilons added up", times, added, "reference"),
        ],
        f"After 52 rounds {composed[-1]:.2f} where losses are composed, {added[-1]:.1f} where "
        "epsilons are added.",
    )


def amplification() -> str:
    crowds = [round(10 ** (1 + step / 4)) for step in range(17)]
    found = [
        privacy.FlippedBits(users=n, flip_probability="0.1").epsilon(1e-6).upper for n in crowds
    ]
    local = privacy.FlippedBits(users=10, flip_probability="0.1").local_epsilon
    return lines(
        "A crowd protects: bits flipped with 10 %, delta 10⁻⁶",
        Axis("honest users", 10, 100_000, scale="log"),
        Axis("epsilon", 0, 2.4),
        [
            ("after the shuffle, worst crowd", crowds, found, "proven"),
            ("without a shuffle (local epsilon)", [10, 100_000], [local, local], "reference"),
        ],
        f"Epsilon falls from {found[0]:.2f} among 10 to {found[-1]:.3f} among 100,000 people.",
    )


def flips() -> str:
    chances = [round(10 ** (-3 + step / 8), 5) for step in range(22)]
    series: list[_Line] = [
        (
            f"{users:,} users",
            chances,
            [
                privacy.FlippedBits(users=users, flip_probability=str(q)).epsilon(1e-6).upper
                for q in chances
            ],
            "measured",
        )
        for users in (1_000, 10_000, 100_000)
    ]
    return lines(
        "Epsilon at delta 10⁻⁶ against the flip probability",
        Axis("flip probability", 0.001, 0.4, scale="log"),
        Axis("epsilon", 0, 6),
        series,
        "The more bits are flipped and the more users there are, the smaller epsilon is.",
    )


def honest() -> str:
    found = drinks_plan()
    shares = [1.0, *(float(share) for share, _ in found.shares)]
    epsilons = [1.0, *(epsilon for _, epsilon in found.shares)]
    return lines(
        "If fewer of 500 people are honest",
        Axis("honest share", 0.5, 1.0),
        Axis("epsilon", 0, 3),
        [("guarantee at delta 10⁻⁶", shares[::-1], epsilons[::-1], "proven")],
        ", ".join(f"{s:.0%}: epsilon {e:.2f}" for s, e in zip(shares, epsilons, strict=True)),
    )


def blanket() -> str:
    return plate(
        charts.privacy_curve(ShuffledResponse(local_epsilon=1, values=4, users=1_000)),
        "k-ary response of 1,000 users, shuffled: bounds beside one another",
    )


def errors_of_protocols() -> str:
    epsilons = (0.25, 0.5, 1.0, 1.5, 2.0)
    series: list[_Line] = []
    for kind, style in _COMPARED.items():
        plans = [
            cf.plan(DRINKS, users=10_000, target=cf.Target(one, 1e-6), protocol=kind)
            for one in epsilons
        ]
        errors = [one.parts[0].standard_error(10_000) for one in plans]
        series.append((kind, epsilons, errors, style))
    return lines(
        "Standard error of a count among 10,000 people, delta 10⁻⁶",
        Axis("epsilon", 0.25, 2.0),
        Axis("people", 0, 25),
        series,
        "Signed decoys have about half the error of flips.",
    )


def tradeoff() -> str:
    return plate(
        charts.tradeoff(privacy.FlippedBits(users=100, flip_probability=0.01)),
        "What an adversary can achieve: 100 honest users, 1 % flipped",
    )


def sampled() -> str:
    return plate(
        charts.privacy_curve(
            privacy.SampleAndThreshold(
                sampling_rate="0.105", threshold=20, neighbours="add-remove"
            ),
        ),
        "A sample of 10.5 %, counts of 20 or more",
    )


def cross() -> str:
    rows, columns = ("late", "on time"), ("AA", "DL", "UA")
    counts = ((412.0, 268.0, 371.0), (1_204.0, 1_418.0, 1_093.0))
    return plate(
        HeatFigure(
            "Carrier and delay of made-up flights",
            "carrier",
            "delay",
            columns,
            rows,
            counts,
            scale=Axis("estimate, in flights", 0.0, 1_500.0),
            alternative="A table of estimates; the largest is on time, DL.",
        )
    )


def shared() -> str:
    sets = {
        frozenset({"daily"}): 6_000.0,
        frozenset({"radio"}): 4_000.0,
        frozenset({"shop"}): 3_000.0,
        frozenset({"daily", "radio"}): 2_000.0,
        frozenset({"radio", "shop"}): 1_000.0,
        frozenset({"daily", "shop"}): 0.0,
        frozenset({"daily", "radio", "shop"}): 0.0,
    }
    return plate(
        parts_chart("Whom three publishers reach", ["daily", "radio", "shop"], sets, unit="ids")
    )


def certificate() -> str:
    return flow(
        "Who has to be trusted",
        [
            ("chaffinch", "searches for the worst crowd, and writes what it found"),
            ("certificate", "exact parameters, and runs of crowds that cover all of them"),
            ("check_certificate.py", "one file, integers only: proves the guarantee or refuses"),
        ],
        "The library writes a certificate; an independent program proves the guarantee from it.",
    )


def crash() -> str:
    return flow(
        "Durable before it is told",
        [
            ("report", "on the disk, then acknowledged (201)"),
            ("batch", "on the disk, then a receipt"),
            ("release", "charged and stored in one transaction, then published"),
        ],
        "A report is durable before its acknowledgement, a batch before its receipt, a release "
        "before it is published.",
    )


def audit() -> str:
    return flow(
        "An audit attacks the real code",
        [
            ("two crowds", "that differ in one person's answer"),
            ("the real path", "encode, shuffle and tally, many times"),
            ("the best test", "which of both crowds was it?"),
            ("a lower bound", "on epsilon: above the claim, something is broken"),
        ],
        "Two neighbouring crowds are run, told apart by the best test, and bound epsilon from "
        "below.",
    )


def mutants() -> str:
    return flow(
        "A fault that no test notices is a hole",
        [
            ("a mutant", "one small fault in the sources"),
            ("its tests", "those that run the changed function"),
            ("killed", "a test fails: good"),
            ("survivor", "needs a new test, or a reason in a list"),
        ],
        "Each mutant is run against its tests; one that survives needs a test or a reason.",
        apart=3,
    )


def budget() -> str:
    weekly = privacy.FlippedBits(users=10_000, flip_probability="0.05")
    weeks = [1, 2, 4, 8, 16, 26, 39, 52]
    spent = [privacy.compose(weekly, times=w).epsilon(1e-6).upper for w in weeks]
    return lines(
        "A ledger: what a weekly question has spent, against a cap of 1",
        Axis("weeks", 0, 52, whole=True),
        Axis("epsilon", 0, 1.4),
        [
            ("spent, at delta 10⁻⁶", weeks, spent, "proven"),
            ("the cap", [0, 52], [1.0, 1.0], "reference"),
        ],
        f"After a year {spent[-1]:.2f} is spent.",
    )


FIGURES: dict[str, Callable[[], str]] = {
    "release": release,
    "plan": plan,
    "curve": curve,
    "tradeoff": tradeoff,
    "pipeline": pipeline,
    "run": run,
    "views": views,
    "services": services,
    "cluster": cluster,
    "worst-crowd": worst_crowd,
    "rounds": rounds,
    "amplification": amplification,
    "flips": flips,
    "honest": honest,
    "blanket": blanket,
    "errors-of-protocols": errors_of_protocols,
    "sampled": sampled,
    "cross": cross,
    "shared": shared,
    "certificate": certificate,
    "crash": crash,
    "audit": audit,
    "mutants": mutants,
    "budget": budget,
}
"""What is drawn for each file, by its name."""


def written() -> Iterator[tuple[Path, str]]:
    """Yield every picture with the text it should have."""
    for name, draw in FIGURES.items():
        yield FOLDER / f"{name}.svg", draw()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in written():
        path.write_text(text, encoding="utf-8")
