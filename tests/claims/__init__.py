"""The claims ledger: every claim of the five sources, each with a test of its verdict."""
