"""The key folder of a party: who it is, and what it opens sealed reports with."""

from chaffinch.keys.folder import KeyFolder, StoredKey
from chaffinch.keys.keyset import KeyState, Periods

__all__ = ["KeyFolder", "KeyState", "Periods", "StoredKey"]
