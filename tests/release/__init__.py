"""Tests of what is told to the world."""
