"""The content types of what travels between the parties."""

from __future__ import annotations

REPORTS = "application/vnd.chaffinch.reports"
FILTER = "application/vnd.chaffinch.filter"
BATCH = "application/vnd.chaffinch.batch"
KEYS = "application/vnd.chaffinch.keys"
RECEIPT = "application/vnd.chaffinch.receipt"
