"""The status of whichever service a settings file belongs to, whether it runs or not."""

from __future__ import annotations

from pathlib import Path

from chaffinch.services.analyzer_process import analyzer_status, read_analyzer
from chaffinch.services.hop import hop_status, read_hop
from chaffinch.services.settings import names_analyzer
from chaffinch.services.status import Status


def look(config: Path) -> Status:
    """Return the status of the party whose settings are in a file."""
    if names_analyzer(config):
        return analyzer_status(read_analyzer(config))
    return hop_status(read_hop(config))
