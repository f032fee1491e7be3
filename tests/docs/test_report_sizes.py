"""The figures of decision 0022: what a view joined with sizes of reports would leak."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.docs import report_sizes
from tests.meta import repository

PAGE = repository.ROOT / "docs" / "decisions" / "0022-one-length-a-varying-number.md"
SEEN: dict[str, Callable[[int], int]] = {
    "whether it has any noise": report_sizes.any_size,
    "its number of noise messages, rounded up to a multiple of four": report_sizes.size_in_fours,
    "its number of noise messages, rounded up to a power of two": report_sizes.doubled_size,
    "its number of noise messages": report_sizes.exact_size,
}


def printed(what: str) -> float:
    (row,) = (line for line in PAGE.read_text("utf-8").splitlines() if f"| {what} |" in line)
    return float(row.split("|")[2])


def test_without_sizes_the_view_is_as_private_as_it_was_made() -> None:
    assert report_sizes.delta_alone() == pytest.approx(1e-6, rel=1e-6)
    assert printed("nothing") == 1e-6


@pytest.mark.parametrize(
    ("what", "samples"),
    [
        ("whether it has any noise", 60),
        ("its number of noise messages", 4000),
        *(pytest.param(what, 2000, marks=pytest.mark.long) for what in SEEN),
    ],
)
def test_sizes_would_leak_what_the_page_says(what: str, samples: int) -> None:
    delta, error = report_sizes.delta_with(SEEN[what], samples, seed=3)
    # Five standard errors, here and of the 2000 samples that were printed to two digits.
    assert abs(delta - printed(what)) < 5 * (error + 0.004)
    assert delta > 0.02
