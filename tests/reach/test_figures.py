"""S4's three observations as figures: the numbers are a referee's, and the words fit them."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from fractions import Fraction
from pathlib import Path

import pytest

from chaffinch.charts.gallery import signal_to_noise
from chaffinch.charts.gallery.signal_to_noise import (
    _best_coefficients,
    _heat_maps,
    _loudest_by_skewness,
    _skewed_shares,
    sections,
)
from chaffinch.errors import InvalidInput
from tests.oracles import filter_procedures as referee
from tests.oracles import filters as oracle
from tests.tiers import nightly


def shares(filters: int, base: int) -> list[Fraction]:
    """Return the family with 1 − skewness = 1/base, exactly."""
    counts = referee.skewed_counts(filters, base)
    return [Fraction(count, sum(counts)) for count in counts]


def exact_ratios(filters: int, base: int, flip: str) -> dict[tuple[int, int], Fraction]:
    counts = referee.skewed_counts(filters, base)
    return {
        move: oracle.signal_to_noise(counts, Fraction(flip), *move) * sum(counts)
        for move in referee.moves(filters)
    }


@pytest.mark.parametrize(("base", "skewness"), [(1, 0.0), (2, 0.5), (10, 0.9)])
def test_the_family_is_what_it_says(base: int, skewness: float) -> None:
    found = _skewed_shares(3, skewness)
    assert found == pytest.approx([float(share) for share in shares(3, base)], rel=1e-12)
    # Independent audiences, each in a share f of the columns.
    f = (1 - skewness) / (2 - skewness)
    independent = [f ** v.bit_count() * (1 - f) ** (3 - v.bit_count()) for v in range(8)]
    assert found == pytest.approx(independent, rel=1e-12)


def test_the_family_ends_on_logo_zero() -> None:
    assert _skewed_shares(3, 1.0) == (1.0, *[0.0] * 7)
    with pytest.raises(InvalidInput):
        _skewed_shares(3, 1.1)


def test_skewness_against_the_referee() -> None:
    figure = _loudest_by_skewness(flip_probabilities=("0.02", "0.2"))
    for line, flip in zip(figure.series, ("0.02", "0.2"), strict=True):
        assert line.y[0] == pytest.approx(float(max(exact_ratios(3, 1, flip).values())))
        q = Fraction(flip)
        loudness = (1 - q) ** 2 / q + q**2 / (1 - q)
        assert line.y[-1] == pytest.approx(float(loudness**3 - 1))
        assert line.x[0] == 0
        assert line.x[-1] == 1
        # Observation 1 holds along this family; a line that falls would not be sorted.
        assert list(line.y) == sorted(line.y)
        assert len(set(line.y)) > 30
    assert all(0 <= figure.y.place(y) <= 1 for line in figure.series for y in line.y)
    assert "no guarantee" in figure.caption
    assert "published" not in figure.caption.lower()


def test_one_filter_does_not_care() -> None:
    (line,) = _loudest_by_skewness(filters=1, flip_probabilities=("0.2",)).series
    assert line.y == pytest.approx([line.y[0]] * len(line.y), rel=1e-9)


@pytest.mark.parametrize("flip", ["0.2", nightly("0.02")])
def test_heat_maps_against_the_referee(flip: str) -> None:
    maps = _heat_maps(flip_probability=flip)
    for chart, base in zip(maps, (1, 2, 10), strict=True):
        ratios = exact_ratios(3, base, flip)
        top = max(ratios.values())
        for (i, j), ratio in ratios.items():
            assert chart.values[i][j] == pytest.approx(float(ratio), rel=1e-9)
            assert chart.values[j][i] == pytest.approx(float(ratio), rel=1e-9)
            loudest = ratio == top
            assert ((i, j) in chart.marked) is loudest
            assert ((j, i) in chart.marked) is loudest
            names = f"{i:03b} ↔ {j:03b}"
            assert (names in chart.alternative) is loudest
        assert all(math.isnan(chart.values[i][i]) for i in range(8))
        assert chart.numbered
    assert len({chart.scale for chart in maps}) == 1


def test_observation_two_fails_where_bits_are_rarely_flipped() -> None:
    often, rarely = (_heat_maps(flip_probability=q)[1] for q in ("0.2", "0.02"))
    assert set(often.marked) == {(0, 7), (7, 0)}
    assert (0, 7) not in rarely.marked
    assert {(1, 7), (2, 7), (4, 7)} < set(rarely.marked)


def test_coefficients_against_the_referee() -> None:
    figure = _best_coefficients()
    *measured, exact, claimed = figure.series
    for line, base in zip(measured, (1, 2, 10), strict=True):
        counts = referee.skewed_counts(3, base)
        best = referee.centred_coefficients(counts, Fraction(1, 5), 0, 7)
        length = math.sqrt(sum(x * x for x in best))
        for logo in range(8):  # all logos with the same number of set bits are alike
            assert line.y[logo.bit_count()] == pytest.approx(float(best[logo]) / length, abs=1e-9)
    corner = referee.centred_coefficients((9, *[0] * 7), Fraction(1, 5), 0, 7)
    length = math.sqrt(sum(x * x for x in corner))
    expected = [float(corner[v]) / length for v in (0, 1, 3, 7)]
    assert exact.y == pytest.approx(expected, abs=1e-12)
    assert claimed.style == "published"
    assert claimed.y == pytest.approx([1 / math.sqrt(56)] * 3 + [-7 / math.sqrt(56)])
    assert max(abs(x - y) for x, y in zip(exact.y, claimed.y, strict=True)) > 0.03
    assert "Published lines are claims" in figure.caption


def test_the_published_shape_is_the_limit_of_rare_flips() -> None:
    gaps = []
    for flip in ("0.2", "0.02", "0.002"):
        *_, exact, claimed = _best_coefficients(flip_probability=flip).series
        gaps.append(max(abs(x - y) for x, y in zip(exact.y, claimed.y, strict=True)))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-4


def test_every_figure_is_a_file_and_on_the_page(tmp_path: Path) -> None:
    files = signal_to_noise.write_figures(tmp_path / "new" / "folder")
    assert all(path.is_file() for path in files)
    assert [path.suffix for path in files] == [".svg"] * 8 + [".html"]
    assert len({path.name for path in files}) == 9
    for path in files[:-1]:
        root = ET.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314 - our own words
        assert root.attrib["aria-describedby"]
        assert "color-scheme:light dark" in path.read_text(encoding="utf-8")
    page = files[-1].read_text(encoding="utf-8")
    assert page.count("<svg xmlns") == 8
    assert page.count("What was published") == page.count("What is true") == 3
    for forbidden in ("<script", 'http-equiv="refresh', "src=", "href=", "url(http"):
        assert forbidden not in page
    ids = [piece.split('"')[0] for piece in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids)) >= 8


def test_the_same_files_every_time(tmp_path: Path) -> None:
    one, two = (signal_to_noise.write_figures(tmp_path / name) for name in ("one", "two"))
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]


def test_the_numbers_in_the_words_are_right() -> None:
    first = sections()[0]
    tenth = Fraction(1, 10)
    for counts, said in (((2, 0, 0, 2), "3.556"), ((2, 0, 1, 1), "3.748")):
        ratios = [oracle.signal_to_noise(counts, tenth, *move) for move in referee.moves(2)]
        assert f"{float(max(ratios)):.3f}" == said
        assert f"{counts} have {said}" in first.true
