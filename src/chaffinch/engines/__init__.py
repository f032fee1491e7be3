"""Bulk work on files, behind one small protocol."""
