"""The list of all figures and tables that are drawn anew, and the folder they are written to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from chaffinch.charts.gallery import (
    amplification,
    closed_forms,
    shuffled_bits,
    signal_to_noise,
)
from chaffinch.charts.gallery.section import Section, write_sections
from chaffinch.errors import InvalidInput

PAGE = "figures.html"
_TITLE = "Published figures, drawn anew"
_OPENING = (
    (
        "What others have drawn or worked out about answers that are flipped, hidden among decoys "
        "and shuffled, computed anew beside what is exact. An exact or proven line is a guarantee "
        "under the terms it names; a published one is a claim."
    ),
)


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One figure or table that can be asked for by name."""

    name: str
    source: str
    """Where it was published."""
    make: Callable[[], Section]


_SHUFFLED = "Chen and Long 2021, figure "
_NOTES = "Zhilyaev 2020, "
_COPIES = "Zhilyaev and Zeber 2016a, "
_FILTERS = "Shuffled and flipped Bloom filters, technical details, figure "


def _filters(make: Callable[[], Section]) -> Callable[[], Section]:
    # On a page of others it needs the paragraph that its own page has at the top.
    return lambda: replace(make(), setting=signal_to_noise.SETTING)


EXHIBITS: tuple[Exhibit, ...] = (
    Exhibit("one-bit-errors", _SHUFFLED + "1a", shuffled_bits.one_bit_tradeoff),
    Exhibit("one-bit-delta", _SHUFFLED + "1b", shuffled_bits.one_bit_curve),
    Exhibit("ten-bits-errors", _SHUFFLED + "1c", shuffled_bits.ten_bits_tradeoff),
    Exhibit("ten-bits-delta", _SHUFFLED + "1d", shuffled_bits.ten_bits_curve),
    Exhibit("random-responders-errors", _SHUFFLED + "2a", shuffled_bits.responders_tradeoff),
    Exhibit("random-responders-delta", _SHUFFLED + "2b", shuffled_bits.responders_curve),
    Exhibit("three-sigma-numbers", _COPIES + "section 4.3", closed_forms.worked_numbers),
    Exhibit("copies-numbers", _COPIES + "section 5", closed_forms.copies),
    Exhibit("flipped-bit-formulas", _NOTES + "(4.36) and (4.48)", closed_forms.flipped_bits),
    Exhibit("decoy-formulas", _NOTES + "(5.10)", closed_forms.decoys),
    Exhibit("flipped-value-formulas", _NOTES + "(5.16)", closed_forms.flipped_values),
    Exhibit("decoy-cover-formulas", _NOTES + "(5.26)", closed_forms.decoy_cover),
    Exhibit("skewness", _FILTERS + "2", _filters(signal_to_noise.skewness)),
    Exhibit("moves", _FILTERS + "3", _filters(signal_to_noise.moves)),
    Exhibit("coefficients", _FILTERS + "4", _filters(signal_to_noise.coefficients)),
    Exhibit("amplification-by-users", "Feldman et al. 2021", amplification.by_users),
    Exhibit(
        "amplification-by-local-epsilon", "Feldman et al. 2021", amplification.by_local_epsilon
    ),
    Exhibit("privacy-blanket", "Balle et al. 2019", amplification.blanket),
)
"""In the order of a page."""

_ALL = "all"


def chosen_exhibits(name: str) -> tuple[Exhibit, ...]:
    """Return the exhibit of a name, or every one of them."""
    found = tuple(one for one in EXHIBITS if name in (one.name, _ALL))
    if not found:
        names = ", ".join([_ALL, *(one.name for one in EXHIBITS)])
        raise InvalidInput("name of a figure", f"one of {names}", name)
    return found


def write_gallery(
    folder: str | Path,
    exhibits: Sequence[Exhibit] = EXHIBITS,
    *,
    progress: Callable[[int, str], None] = lambda _done, _name: None,
) -> dict[str, list[Path]]:
    """Write exhibits and a page that shows them all; return the files of each, the page's last.

    ``progress`` is told how many are done, and what comes next.
    """
    shown = []
    for done, one in enumerate(exhibits):
        progress(done, one.name)
        shown.append(one.make())
    progress(len(exhibits), "page")
    files = iter(write_sections(folder, shown, page=PAGE, title=_TITLE, opening=_OPENING))
    found = {section.name: [next(files) for _ in section.charts] for section in shown}
    return found | {"page": list(files)}
