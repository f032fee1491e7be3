"""The verbs of ``chaffinch reach``."""
