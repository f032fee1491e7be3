"""Services as their operator sees them on the page: what waits, and what needs somebody."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

from chaffinch.shuffling.state import Partition, Sealed, State
from chaffinch.web.folder import Folder
from chaffinch.web.watch_panel import watch_html
from tests.services.servers import make_site
from tests.services.test_canary import ANALYZER
from tests.services.test_hop import SETTINGS
from tests.web.test_panels import Whole


def make_services(folder: Path) -> None:
    """Put a hop and an analyzer into a folder; some reports wait, and some have left."""
    site = make_site(folder, users=8)
    hop = folder / "hop1"
    (hop / "hop.toml").write_text(SETTINGS)
    (folder / "analyzer" / "analyzer.toml").write_text(ANALYZER)
    with closing(State.open(hop / "data" / "state.sqlite")) as state, state.changing() as change:
        change.add_batch(Sealed("b" * 64, site.plan.id, 1, 8, 24))
        change.add_to_pool(Partition(site.plan.id, 1, b"\1" * 32), 2, bytes(8), b"")
        change.count(site.plan.id, {"durable": 10, "opened": 10, "batched": 8})


def test_a_hop_shows_its_crowd_its_batches_and_its_problems(tmp_path: Path) -> None:
    make_services(tmp_path)
    html = str(watch_html(Folder(tmp_path)))
    assert Whole(html).open == []
    # In the order in which data passes them.
    assert 0 < html.index("Shuffler · hop1/hop.toml") < html.index("Analyzer · analyzer/")
    assert "2 of 8 needed wait for the next batch" in html
    assert 'width="25.0%"' in html
    assert "needs somebody" in html
    assert "adds up" in html
    assert "sealed for a key that is destroyed" in html
    assert "destroyed_key" not in html
    assert "DOES NOT" not in html
    # Words begin where words begin, and bytes are told as people tell them.
    assert '<td data-label="meaning" class="left">adds up</td>' in html
    assert re.search("<dt>disk free</dt><dd>[0-9.]+ [GMk]?B</dd>", html)


def test_settings_that_cannot_be_used_are_told_beside_the_others(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text(SETTINGS)
    html = str(watch_html(Folder(tmp_path)))
    assert Whole(html).open == []
    assert "broken.toml" in html
    assert 'class="fault"' in html


def test_where_no_service_is_nothing_is_watched(tmp_path: Path) -> None:
    assert "No services here" in watch_html(Folder(tmp_path))
