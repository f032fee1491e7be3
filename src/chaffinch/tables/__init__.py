"""Columns in, files out, in bounded memory: every format behind the same few names."""
