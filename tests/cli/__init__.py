"""The command ``chaffinch``."""
