"""Audiences: reach, overlap and frequency across publishers, from flipped filters."""
