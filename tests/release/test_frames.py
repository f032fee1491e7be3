"""A release is one table, in every frame, and its charts are those of its page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import chaffinch as cf
from chaffinch.charts.estimates import DotFigure
from chaffinch.charts.heat import HeatFigure
from chaffinch.charts.trends import TrendFigure
from chaffinch.disk.protected import RELEASE_FACTS
from chaffinch.errors import InvalidInput, MissingExtra
from chaffinch.release.crossed import Crossed, Derived
from chaffinch.release.publication import Publication
from chaffinch.release.surveys import Answer, Answered, Release, Share, Span, Summary
from chaffinch.release.trend_release import Trend
from tests.cases import each_case
from tests.release import reach_releases, survey_releases

pandas = pytest.importorskip("pandas")

ENDS = (1.0, 2.0, 0.0, 3.0)


def trend() -> Trend:
    week = survey_releases.release(survey_releases.number())
    return cf.trend([replace(week, batch=f"{number:032x}") for number in range(2)])


KINDS: dict[str, Callable[[], Publication]] = {
    "survey": survey_releases.release,
    "reach": reach_releases.release,
    "trend": trend,
}


@each_case("kind", KINDS)
def test_every_frame_has_the_rows_of_the_table(kind: str) -> None:
    release = KINDS[kind]()
    rows = [row._asdict() for row in release.table()]  # type: ignore[attr-defined]
    arrow = release.to_arrow()
    assert arrow.to_pylist() == rows
    facts = json.loads(arrow.schema.metadata[RELEASE_FACTS])
    assert facts["sentence"] == str(release.guarantee)
    assert pa.table(release) == arrow
    for frame in (release.to_polars(), pl.DataFrame(release)):
        assert frame.to_dicts() == rows
    frame = release.to_pandas()
    assert frame.columns.tolist() == pd.DataFrame(release).columns.tolist() == list(rows[0])
    assert frame["estimate"].tolist() == [row["estimate"] for row in rows]
    assert {kind.kind for kind in frame.dtypes[["estimate", "low"]]} == {"f"}


def crossed(*rows: Derived, unit: str = "") -> Answer:
    labels = ["A × no", "A × yes", "B × no", "B × yes"]
    axes = (("A", "B"), ("no", "yes"))
    told = Crossed(("shop", "late"), axes, rows, unit=unit)
    return replace(survey_releases.counted("shop × late", labels), crossed=told)


def keys(release: Release) -> list[tuple[str, ...]]:
    return [(*row[1:5], row.unit) for row in release.table()]


def test_rows_of_a_cross_tell_their_kind_group_and_answer() -> None:
    margin = Derived("margin", "late", "yes", (), 5.0, 1.0, *ENDS)
    share = Derived("share", "late", "yes", ("B",), 0.5, 0.1, *ENDS)
    cells = [
        ("count", "shop = A", "no", "A × no", "people"),
        ("count", "shop = A", "yes", "A × yes", "people"),
        ("count", "shop = B", "no", "B × no", "people"),
        ("count", "shop = B", "yes", "B × yes", "people"),
    ]
    told = [
        ("margin", "", "yes", "late = yes", "people"),
        ("share", "shop = B", "yes", "share of late = yes, where shop = B", "parts of 1"),
    ]
    release = survey_releases.release(crossed(margin, share))
    assert keys(release) == [*cells, *told]
    mean = Derived("mean", "late", "mean", ("B",), 0.5, 0.1, *ENDS)
    first, *others = keys(survey_releases.release(crossed(mean, unit="minutes")))
    assert first == ("mean", "shop = B", "", "mean of late, where shop = B", "minutes")
    assert others == cells
    public = replace(release, group=("town", "Ulm"), unit="row")
    assert [row.group for row in public.table()] == [
        " and ".join(filter(None, ["town = Ulm", row.group])) for row in release.table()
    ]
    assert {row.unit for row in public.table()} == {"rows", "parts of 1"}


def test_rows_of_those_who_answered_tell_their_unit() -> None:
    counted = survey_releases.counted("drink", ["tea", "(missing)"])
    shares = tuple(Share(value, 0.5, *ENDS) for value in counted.labels)
    of_all = Answered(Span(900.0, 9.0, 1.0, 2.0), Span(72810.5, 9.0, 1.0, 2.0))
    summary = Summary("minutes", 72810.5, ((0.5, 6.0, 10.5, 15.0),), of_all)
    number = replace(survey_releases.number(), summary=summary)
    release = replace(
        survey_releases.release(replace(counted, shares=shares), number), contributions=2
    )
    assert keys(release) == [
        ("count", "", "tea", "tea", "reports"),
        ("count", "", "(missing)", "(missing)", "reports"),
        ("share", "", "tea", "tea, share of answers", "parts of 1"),
        ("share", "", "(missing)", "(missing), share of all", "parts of 1"),
        ("mean", "", "", "mean", "minutes"),
        ("answered", "", "", "answered", "reports"),
        ("sum", "", "", "sum", "minutes"),
        ("quantile", "", "", "median", "minutes"),
    ]


@each_case("library", ["pandas", "polars"])
def test_a_missing_library_is_named_with_the_line_that_installs_it(library: str) -> None:
    release = survey_releases.release()
    table = release.to_arrow()  # Arrow looks for pandas once
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, library, None)
        with pytest.raises(MissingExtra) as refused:
            getattr(release, f"to_{library}")()
        assert refused.value.hint == f"pip install {library}"
        assert release.to_arrow() == table


def test_no_library_of_frames_is_loaded_until_it_is_asked_for() -> None:
    # Arrow itself loads pandas with its first array, where there is any.
    code = (
        "import sys; from tests.release.survey_releases import release; made = release()\n"
        "made.text(), made.page(), made.chart('minutes')\n"
        "print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))\n"
        "made.to_arrow(); print('polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "False"]


def test_a_chart_is_that_of_the_page() -> None:
    release = survey_releases.release()
    chart = release.chart("minutes")
    assert isinstance(chart, DotFigure)
    assert chart.title == "minutes"
    assert chart.svg(name="question-2", styled=False) in release.page()
    assert survey_releases.release(survey_releases.number()).chart() == chart
    assert release.chart("dr<i>nk")._repr_svg_().startswith("<svg")
    for name in ("tea", None):
        with pytest.raises(InvalidInput, match=r"one of 'dr<i>nk', 'minutes'\. Got") as refused:
            release.chart(name)
        with pytest.raises(InvalidInput) as expected:
            release.answer(name)
        assert str(refused.value) == str(expected.value)


def test_charts_of_crosses_trends_and_reaches_are_those_of_their_pages() -> None:
    share = Derived("share", "late", "yes", ("B",), 0.5, 0.1, *ENDS)
    mean = share._replace(kind="mean", value="mean")
    assert isinstance(survey_releases.release(crossed(share)).chart(), HeatFigure)
    by_group = survey_releases.release(survey_releases.number("age"), crossed(mean, unit="minutes"))
    assert by_group.chart("shop × late").title == "mean of late by shop"
    assert by_group.chart("age").title == "age"
    assert isinstance(trend().chart(), TrendFigure)
    reach = reach_releases.release()
    assert [dot.label for dot in reach.chart("reach").dots]  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="name of a chart must be one of 'reach', "):
        reach.chart("minutes")
