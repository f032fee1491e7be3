from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaffinch import charts
from chaffinch.errors import InvalidInput, MissingExtra

BEGINS = {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-", ".svg": b"<?xml"}


@pytest.mark.parametrize("suffix", BEGINS)
def test_a_file_of_each_kind_is_written(
    curve: charts.Figure, tradeoff: charts.Figure, tmp_path: Path, suffix: str
) -> None:
    for figure in (curve, tradeoff):
        path = figure.save(tmp_path / f"figure{suffix}")
        content = path.read_bytes()
        assert content.startswith(BEGINS[suffix])
        assert len(content) > 5_000


def test_the_picture_of_a_line_is_not_empty(curve: charts.Figure, tmp_path: Path) -> None:
    from matplotlib.image import imread

    pixels = imread(curve.save(tmp_path / "figure.png"))
    height, width = pixels.shape[:2]
    assert width > 1000
    assert height > 700
    blue = (pixels[..., 2] > 0.6) & (pixels[..., 0] < 0.1)
    assert blue.sum() > 1000


def test_a_figure_that_fails_leaves_the_old_one(
    curve: charts.Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure as Canvas

    path = curve.save(tmp_path / "figure.svg")
    before = path.read_bytes()

    def fail(_: Canvas, target: Any, **__: Any) -> None:
        if isinstance(target, Path):
            target.write_bytes(b"half")
        else:
            target.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(Canvas, "savefig", fail)
    with pytest.raises(KeyboardInterrupt):
        curve.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_words_in_a_drawing_are_words(curve: charts.Figure, tmp_path: Path) -> None:
    text = curve.save(tmp_path / "figure.svg").read_text(encoding="utf-8")
    for word in (
        "epsilon",
        "delta",
        "10⁻⁶",
        "exact, worst crowd",
        "Zhilyaev 2020 (4.48) (published)",
    ):
        assert word in text
    assert curve.alternative.replace("'", "&#x27;") in text or curve.alternative in text


@pytest.mark.long
def test_the_same_figure_gives_the_same_file(curve: charts.Figure, tmp_path: Path) -> None:
    for suffix in BEGINS:
        one = curve.save(tmp_path / f"one{suffix}").read_bytes()
        two = curve.save(tmp_path / f"two{suffix}").read_bytes()
        assert one == two


@pytest.mark.parametrize("name", ["figure", "figure.jpg", "figure.png.txt"])
def test_other_kinds_of_file_are_refused(curve: charts.Figure, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="ends in"):
        curve.save(tmp_path / name)


def test_without_the_drawing_library_the_extra_is_named(
    curve: charts.Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"chaffinch\[plot\]"):
        curve.save(tmp_path / "figure.png")
    assert curve.text()


def test_figures_as_data_never_load_the_drawing_library() -> None:
    code = (
        "import sys; from chaffinch import charts, privacy; "
        "m = privacy.FlippedBits(users=9, flip_probability='0.2'); "
        "charts.privacy_curve(m).text(); charts.tradeoff(m).text(); "
        "print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
