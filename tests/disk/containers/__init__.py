"""Tests of what containers say of their parts."""
