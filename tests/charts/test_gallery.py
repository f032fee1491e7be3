"""Published figures drawn anew: the numbers are a referee's, the words plain, the files whole."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import typing
import xml.etree.ElementTree as ET
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from chaffinch.charts import Figure, HeatFigure, Series
from chaffinch.charts.gallery import amplification, exhibits
from chaffinch.charts.gallery.section import Section, TableFigure
from chaffinch.charts.gallery.shuffled_bits import ShiftedTensor
from chaffinch.cli import figures as verb
from chaffinch.cli.output import Output
from chaffinch.errors import ChaffinchError, InvalidInput
from chaffinch.privacy import published
from chaffinch.privacy.amplification import ShuffledResponse, clone_epsilon_closed_form

QUICK = (
    "one-bit-errors",
    "one-bit-delta",
    "ten-bits-errors",
    "ten-bits-delta",
    "random-responders-errors",
    "random-responders-delta",
    "three-sigma-numbers",
    "copies-numbers",
    "decoy-formulas",
)

FEW = ("random-responders-delta", "random-responders-errors", "decoy-formulas")


@cache
def section(name: str) -> Section:
    (found,) = exhibits.chosen_exhibits(name)
    return found.make()


def lines(name: str) -> list[Series]:
    (figure,) = section(name).charts
    assert isinstance(figure, Figure)
    return list(figure.series)


def table(name: str) -> list[list[str]]:
    (found,) = section(name).charts
    assert isinstance(found, TableFigure)
    return list(csv.reader(io.StringIO(found.csv())))[1:]


# ---------------------------------------------------------------- the referee: many digits


def bit_delta(users: int, flip: float, growth: float) -> float:
    """Return delta of a flipped bit over all crowds and both directions, by adding everything."""
    worst = 0.0
    sent = (np.array([1 - flip, flip]), np.array([flip, 1 - flip]))
    for ones in range(users):
        law = np.ones(1)
        for index in range(users - 1):
            law = np.convolve(law, sent[index < ones])
        zero, one = (np.convolve(law, own) for own in sent)
        for a, b in ((zero, one), (one, zero)):
            worst = max(worst, float(np.maximum(a - growth * b, 0).sum()))
    return worst


def test_the_exact_line_of_one_bit_is_the_worst_crowd() -> None:
    exact = lines("one-bit-delta")[0]
    assert exact.name == "exact, worst crowd"
    # The worst of 100 crowds, far down the line too, at two of its points.
    for place in (40, 200):
        truth = bit_delta(100, 0.29, math.exp(exact.x[place]))
        assert exact.other_end[place] <= truth * (1 + 1e-9)
        assert truth <= exact.y[place] * (1 + 1e-9)
        assert exact.y[place] == pytest.approx(truth, rel=1e-2)
    assert exact.y[200] < 1e-8


def test_curves_have_enough_points_far_down() -> None:
    for name in ("one-bit-delta", "ten-bits-delta", "random-responders-delta"):
        for line in lines(name):
            below = [y for y in line.y if 1e-12 <= y <= 1e-8]
            if line.y[-1] <= 1e-8 and line.style != "published":
                assert len(below) >= 15, (name, line.name)
            steps = np.diff(np.log10([y for y in line.y if y >= 1e-12]))
            assert np.all(np.abs(steps) < 0.6), (name, line.name)
            assert np.all(steps <= 1e-9), (name, line.name)


def test_gaussian_lines_are_those_of_many_digits() -> None:
    exact, gaussian, claimed, _ = lines("one-bit-delta")
    assert "0.1114" in gaussian.name
    levels = [level / 100 for level in range(1, 100)]
    claimed_mu = published.shifted_binomial_mu(users=100, flip_probability=0.29, alphas=levels)
    for line, mu in ((gaussian, 0.1113884835599643), (claimed, None)):
        value = mp.mpf(mu) if mu else mp.mpf(claimed_mu)
        for place in (10, len(line.x) // 2, len(line.x) - 2):
            with mp.workdps(40):
                e = mp.mpf(line.x[place])
                truth = mp.ncdf(-e / value + value / 2) - mp.exp(e) * mp.ncdf(
                    -e / value - value / 2
                )
            assert line.y[place] == pytest.approx(float(truth), rel=1e-6)
    # A proven Gaussian line is never below the exact one.
    assert np.all(np.interp(exact.x[:-1], gaussian.x, gaussian.y)[5:] >= exact.y[5:-1])


def test_theorem_two_is_below_the_exact_curve_here_and_false_elsewhere() -> None:
    exact, gaussian, theorem, cheu, perfect = lines("one-bit-errors")
    levels = np.array(exact.x)
    assert np.all(np.array(gaussian.y) <= np.array(exact.other_end) + 1e-12)
    gap = np.array(exact.y) - np.interp(levels, theorem.x, theorem.y)
    assert gap.min() > -1e-6
    assert gap.max() == pytest.approx(0.14, abs=0.01)
    # The steps are upright: level for as long as the sum is the same.
    falls = np.array(theorem.y)[:-1] - np.array(theorem.y)[1:] > 1e-6
    assert np.diff(theorem.x)[falls].max() < 1e-8
    assert np.all(np.interp(levels, cheu.x, cheu.y) <= np.array(exact.y) + 1e-12)
    assert perfect.style == "reference"


def test_ten_bits_are_ordered_as_the_words_say() -> None:
    found = {line.name: line for line in lines("ten-bits-delta")}
    words = section("ten-bits-delta").true
    printed = [float(number) for number in re.findall(r"\d\.\d+", words.split("1e-6")[1])]
    measured = []
    for line in found.values():
        if min(line.y) < 1e-6:
            logs = np.log(np.array(line.y))[::-1]
            measured.append(float(np.interp(math.log(1e-6), logs, np.array(line.x)[::-1])))
    expected = sorted(measured)
    assert sorted(printed) == pytest.approx(expected, abs=0.06)
    assert "√10 × least μ = 0.3522 " in " ".join(found) + " "


def test_the_tensor_of_the_theorem_is_what_many_digits_give() -> None:
    # Two rounds of a small crowd, every pair of sums one by one.
    users, times = 12, 2
    tensor = ShiftedTensor.of(users=users, flip_probability=Fraction(1, 4), times=times)
    masses = [math.comb(users, s) * 0.25**s * 0.75 ** (users - s) for s in range(users + 1)]
    for epsilon in (0.0, 0.5, 1.5):
        truth = 0.0
        for a in range(users + 1):
            for b in range(users + 1):
                first = masses[a] * masses[b]
                second = (masses[a - 1] if a else 0.0) * (masses[b - 1] if b else 0.0)
                truth += max(0.0, first - math.exp(epsilon) * second)
        found = float(tensor.deltas(np.array([epsilon]))[0])
        assert found == pytest.approx(truth, rel=2e-3)


def test_random_responders_are_the_shifted_coins() -> None:
    exact, claimed, cheu = lines("random-responders-delta")
    coins = [mp.binomial(50, k) / mp.mpf(2) ** 50 for k in range(51)] + [mp.mpf(0)]
    for place in (1, 100, 239):
        growth = mp.exp(mp.mpf(exact.x[place]))
        truth = mp.fsum(max(coins[k] - growth * (coins[k - 1] if k else 0), 0) for k in range(51))
        assert exact.y[place] == pytest.approx(float(truth), rel=1e-8)
    assert min(cheu.y) == pytest.approx(2 * math.exp(-50 * 4 / 32), rel=1e-3)
    assert "0.01 to 0.99" in claimed.name
    exact, claimed, _, _ = lines("random-responders-errors")
    below = np.cumsum([float(c) for c in coins[:51]])
    inside = (below > 0.05) & (below < 0.95)
    knots = below[inside]
    assert np.interp(knots, exact.x, exact.y) == pytest.approx(1 - below[1:][inside[:-1]], abs=2e-3)


# ---------------------------------------------------------------- tables


def test_the_worked_numbers() -> None:
    rows = {row[0]: row[1:] for row in table("three-sigma-numbers")}
    assert rows["flip probability by the rule (4.45)"] == ["0.009", "0.008764"]
    assert rows["precision grows by the factor"] == ["10", "14.9"]
    for name in ("interval of all ones, by the rule", "the same with one zero"):
        assert rows[name][0] == rows[name][1]
    assert rows["delta at epsilon ln 2, worst crowd"][1] == "0.0125"
    assert rows["outcomes with a ratio of at most 2"] == ["99.98 %", "91.9 %"]
    # From golden values: standard errors of a count at n = 10⁴, epsilon 1, delta 1e-6.
    exact = {row[0]: float(row[4]) for row in table("copies-numbers")}
    golden = {"1": 5.836, "2": 4.978, "4": 4.589, "8": 4.404, "16": 4.313, "32": 4.269}
    assert exact == pytest.approx(golden, abs=1.1e-3)


def test_the_decoys_that_formulas_ask_for() -> None:
    rows = {(row[0], row[1]): row for row in table("decoy-formulas")}
    assert rows["100", "1"][2:5] == ["4,261", "21,356", "5.01"]
    ratios = [float(row[4]) for row in rows.values()]
    assert min(ratios) > 4
    assert max(ratios) < 6.5  # a sixth to a quarter is enough


# ---------------------------------------------------------------- the field


def test_amplification_lines_stand_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amplification, "_USERS", (1000, 100_000, 10_000_000))
    figure, other = amplification.by_users().charts
    assert isinstance(figure, Figure)
    assert isinstance(other, Figure)
    exact, clones, closed, bennett, hoeffding, erlingsson, local = figure.series
    for bound in (clones, closed, bennett, hoeffding, erlingsson):
        # Closed forms have more points between.
        found = dict(zip(bound.x, bound.y, strict=True))
        assert all(found[x] > y for x, y in zip(exact.x, exact.y, strict=True))
        assert len(found) == len(exact.x) if bound is clones else len(found) > len(exact.x)
    loose = dict(zip(hoeffding.x, hoeffding.y, strict=True))
    assert all(y < loose[x] for x, y in zip(clones.x, clones.y, strict=True))
    assert local.y == (0.5, 0.5)
    # An external table: clones at n = 1e5, ε₀ = 4 between 0.1675 and 0.1728 at δ = 1e-6.
    assert 0.1675385583317841 < other.series[1].y[1] < 0.172790550755978
    closed = other.series[2]
    assert dict(zip(closed.x, closed.y, strict=True))[100_000.0] == pytest.approx(0.5378040242)


def test_bounds_grow_with_the_local_epsilon_as_the_words_say() -> None:
    # Over one unit, far from where they say nothing: e^(1/2), e and e^(3/2).
    formulas: list[tuple[Callable[..., float], float]] = [
        (clone_epsilon_closed_form, 0.5),
        (published.blanket_bennett_epsilon, 1.0),
        (published.blanket_hoeffding_epsilon, 1.5),
    ]
    for formula, power in formulas:
        four, five = (formula(local_epsilon=e, users=10**9, delta=1e-6) for e in (4.0, 5.0))
        assert math.log(five / four) == pytest.approx(power, abs=0.12)


def test_the_variation_ratio_is_below_the_truth_as_the_words_say() -> None:
    given = {"local_epsilon": 1.0, "users": 1000}
    share = math.expm1(1) / (math.e + 9)
    claimed = published.variation_ratio_epsilon(**given, variation=share, delta=1e-6)  # type: ignore[arg-type]
    truth = ShuffledResponse(**given, values=10).epsilon(1e-6)  # type: ignore[arg-type]
    assert claimed == pytest.approx(0.08010, abs=5e-6)
    assert truth.lower == pytest.approx(0.08013, abs=5e-6)
    assert claimed < truth.lower


# ---------------------------------------------------------------- words, files, the verb


def strangers_words(found: Section) -> str:
    """Return all that a reader of the page or of a file sees or hears."""
    parts = [found.heading, found.published, found.true, found.setting, found.name]
    for chart in found.charts:
        if isinstance(chart, TableFigure):
            parts += [chart.title, *chart.heads, chart.csv(), chart.note]
        else:
            parts += [chart.svg()]
            if isinstance(chart, (Figure, HeatFigure)):
                parts.append(chart.title)
    return " ".join(parts)


@pytest.mark.parametrize("name", [*QUICK, "skewness", "moves", "coefficients"])
def test_words_are_plain(name: str) -> None:
    words = strangers_words(section(name))
    assert not re.search(r"\b[Ll]ogos?\b|[Bb]uffl|\bS[0-4]\b", words), name


def test_every_name_is_known_to_the_verb() -> None:
    names = [one.name for one in exhibits.EXHIBITS]
    assert list(typing.get_args(verb.FigureName)) == ["all", *names]
    assert exhibits.chosen_exhibits("all") == exhibits.EXHIBITS
    with pytest.raises(InvalidInput):
        exhibits.chosen_exhibits("nothing")


def test_files_are_whole(tmp_path: Path) -> None:
    chosen = [one for one in exhibits.EXHIBITS if one.name in FEW]
    told: list[tuple[int, str]] = []
    made = exhibits.write_gallery(
        tmp_path, chosen, progress=lambda done, name: told.append((done, name))
    )
    assert told == [*enumerate([one.name for one in chosen]), (len(chosen), "page")]
    assert list(made) == [*(one.name for one in chosen), "page"]
    for paths in made.values():
        for path in paths:
            text = path.read_text(encoding="utf-8")
            if path.suffix == ".svg":
                root = ET.fromstring(text)  # noqa: S314 - our own words
                assert root.attrib["aria-describedby"]
                drawn = re.findall(r'points="([^"]*)"', text)
                assert drawn
                assert not any("nan" in points or "inf" in points for points in drawn)
    (page,) = made["page"]
    text = page.read_text(encoding="utf-8")
    assert text.count('<svg xmlns="') == 2
    assert text.count("<table>") == 1
    assert text.count("What is true") == len(chosen)
    for forbidden in ("<script", "src=", "href=", "url(http"):
        assert forbidden not in text
    ids = [piece.split('"')[0] for piece in text.split(' id="')[1:]]
    assert len(ids) == len(set(ids))


def test_the_verb_lists_what_it_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb.figures("random-responders-delta", out=tmp_path / "new", output=Output(json=True))
    document = json.loads(capsys.readouterr().out)
    assert document["page"] == str(tmp_path / "new" / "figures.html")
    (one,) = document["figures"]
    assert one["name"] == "random-responders-delta"
    assert one["source"].startswith("Chen and Long 2021")
    assert [Path(file).name for file in document["files"]] == [
        "random-responders-delta.svg",
        "figures.html",
    ]
    # What is there stays, unless it is the very same.
    verb.figures("random-responders-delta", out=tmp_path / "new", output=Output(json=True))
    (tmp_path / "new" / "random-responders-delta.svg").write_text("mine")
    with pytest.raises(ChaffinchError):
        verb.figures("random-responders-delta", out=tmp_path / "new", output=Output(json=True))
    assert (tmp_path / "new" / "random-responders-delta.svg").read_text() == "mine"


def test_a_table_is_rectangular() -> None:
    with pytest.raises(InvalidInput):
        TableFigure("title", ("a", "b"), (("1",),))
    found = TableFigure("<b>", ("a", "b, c"), (("1", "x&y"),), note="n")
    assert found.csv() == 'a,"b, c"\n1,x&y\n'
    assert "&lt;b&gt;" in found.html()
    assert "x&amp;y" in found.html()


@pytest.mark.long
def test_every_exhibit_is_drawn() -> None:
    for one in exhibits.EXHIBITS:
        found = one.make()
        assert found.name == one.name
        assert not re.search(r"\b[Ll]ogos?\b|[Bb]uffl|\bS[0-4]\b", strangers_words(found))
