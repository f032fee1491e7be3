"""Arrow columns as their plain values, whatever they are folded into."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def unfolded(array: pa.Array) -> pa.Array:
    """Return an array without dictionary, run-end, view or extension types around it.

    >>> import pyarrow as pa
    >>> unfolded(pa.array(["tea", None, "tea"]).dictionary_encode()).to_pylist()
    ['tea', None, 'tea']
    """
    import pyarrow as pa
    from pyarrow import compute

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return unfolded(array.storage)
    if pa.types.is_dictionary(kind):
        # Arrow cannot decode every kind of value, but it can take them all.
        return unfolded(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(kind):
        return unfolded(compute.run_end_decode(array))
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else array
