"""Tests of the ledger: what it grants, what it refuses, what survives."""
