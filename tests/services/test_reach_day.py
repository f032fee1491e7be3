"""Three publishers and a reach: the commands of the guide, one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaffinch.analysis.received import KnownBatches
from chaffinch.ledger import Ledger
from chaffinch.reach.release import read_release as read_reach_release
from chaffinch.shuffling.state import overview_of
from tests.meta import repository
from tests.services.test_day import run, script

GUIDE = repository.ROOT / "docs" / "guides" / "reach.md"


@pytest.mark.timeout(300)
def test_three_publishers_are_counted_once(tmp_path: Path) -> None:
    done = run(script(GUIDE), tmp_path)
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    received = KnownBatches(tmp_path / "ministry" / "data" / "state.sqlite")
    (batch,) = received.all()
    assert (batch.state, batch.reports, batch.items) == ("released", 3, 1)
    content = received.release(batch.id)
    assert content is not None
    release = read_reach_release(content)
    assert abs(release.reach.estimate - 10_000) < 6 * release.reach.standard_error
    budget = Ledger.open(
        tmp_path / "ministry" / "ledger.db", mark=tmp_path / "ministry" / "ledger.mark"
    )
    assert len(budget.entries()) == 1
    found = overview_of(tmp_path / "university" / "data" / "state.sqlite")
    (counts,) = found.counts.values()
    assert (counts.durable, counts.batched) == (3, 3)
    filters = sorted((tmp_path / "university" / "data" / "filters").glob("*.filter"))
    assert [path.stat().st_size for path in filters] == [32] * 3
    assert "DOES NOT" not in done.stdout
