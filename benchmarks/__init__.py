"""Measurements against other tools. Each topic is a package; run one with ``python -m``."""
