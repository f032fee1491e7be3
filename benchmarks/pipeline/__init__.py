"""Whole collections, from a table to a tally."""
