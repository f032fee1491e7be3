"""The units that `chaffinch cost` reckons with, measured again."""
