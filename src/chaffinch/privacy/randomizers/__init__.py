"""Local randomizers by their names, shuffled: exact chances, a certified bound on both sides.

Each user sends one message; the analyzer sees the multiset of whole messages. The upper end is
the privacy blanket, for every pair of values and every crowd; the lower end a crowd that can exist.
They are often within a percent. A local epsilon that is asked for is met from below: chances are
rationals rounded to the private side, and the numbers are for these.

Unary encodings whose bits travel as messages of their own are another view, with an exact worst
crowd: `FlippedValues`.
"""

from chaffinch.privacy.amplification import ShuffledResponse
from chaffinch.privacy.randomizers.alike import (
    LocalHashing,
    OptimizedUnary,
    SubsetSelection,
    SymmetricUnary,
)
from chaffinch.privacy.randomizers.laplace import DiscreteLaplace
from chaffinch.privacy.randomizers.rappor import Rappor

__all__ = [
    "DiscreteLaplace",
    "LocalHashing",
    "OptimizedUnary",
    "Rappor",
    "ShuffledResponse",
    "SubsetSelection",
    "SymmetricUnary",
]
