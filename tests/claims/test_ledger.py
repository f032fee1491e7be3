"""The ledger itself: complete rows, one test each, and a page that is up to date."""

from __future__ import annotations

from . import ledger


def test_page_is_up_to_date() -> None:
    page = ledger.PAGE.read_text(encoding="utf-8")
    assert page == ledger.render(ledger.all_claims()), "run: python -m tests.claims.ledger"


def test_every_verdict_is_backed() -> None:
    for entry in ledger.all_claims():
        assert entry.source in ledger.SOURCES
        assert entry.verdict in ledger.VERDICTS
        if entry.verdict == ledger.CORRECTED:
            assert entry.correction, entry
        if entry.verdict == ledger.FALSE:
            assert entry.counter_example, entry


def test_every_source_is_covered() -> None:
    labels = [(entry.source, entry.label) for entry in ledger.all_claims()]
    assert len(labels) == len(set(labels)), "two rows with one label"
    assert {source for source, _ in labels} == set(ledger.SOURCES)
