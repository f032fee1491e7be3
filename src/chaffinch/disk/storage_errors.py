"""Errors of the operating system as StorageFault. No message repeats a cell."""

from __future__ import annotations

import errno

from chaffinch.errors import Reason, StorageFault

_REASONS = {
    errno.ENOSPC: ("no space left on the disk", "free some space, or write elsewhere"),
    errno.EDQUOT: ("no space left in the quota", "free some space, or write elsewhere"),
    errno.EFBIG: ("a file too large for the disk", "write elsewhere"),
    errno.EACCES: ("a permission denied", "check who may use the file and its folder"),
    errno.EPERM: ("a permission denied", "check who may use the file and its folder"),
    errno.EROFS: ("a disk that cannot be written to", "write elsewhere"),
    errno.ENOENT: ("no such file or folder", "check the path"),
    errno.EISDIR: ("a folder", "name a file"),
    errno.ENOTDIR: ("a path through something that is not a folder", "check the path"),
    errno.EEXIST: ("a file that exists already", "choose another name, or allow overwriting"),
    errno.ENOTEMPTY: ("a folder that exists already", "choose another name"),
    errno.EAGAIN: ("one in use", "run the same command again when the other one has ended"),
    errno.EPIPE: ("a reader that went away", ""),
    errno.EIO: ("an error of the disk", "check the disk; what was there before is kept"),
}

_RETRYABLE = frozenset(
    (
        errno.EIO,
        errno.EAGAIN,
        errno.EINTR,
        errno.EBUSY,
        errno.ESTALE,
        errno.ETIMEDOUT,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
    )
)
"""What a network, a store or one machine may have, and another try not."""

_CASES = {
    errno.EPIPE: Reason.READER_GONE,
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), Reason.NO_SPACE),
}


def write_fault(name: str, error: OSError, reason: Reason | None = None) -> StorageFault:
    """Return the fault for a file of which nobody knows what is on the disk.

    A full disk leaves it as it was before, unless the caller has a ``reason`` to know better.
    """
    fault = storage_fault(name, error, verb="write")
    told = reason or fault.reason or Reason.UNCERTAIN
    return StorageFault(fault.message, hint=fault.hint, details=fault.details, reason=told)


def storage_fault(name: str, error: OSError, *, verb: str, kind: str = "file") -> StorageFault:
    """Return the fault for a file, or a folder, that could not be read or written (``verb``)."""
    code = error.errno or 0
    reason, hint = _REASONS.get(code, (f"error {errno.errorcode.get(code, code)}", ""))
    return StorageFault(
        f"The {kind} {name!r} must be possible to {verb}. Got {reason}.",
        hint=hint,
        details={"file": name, "errno": code},
        reason=_CASES.get(code),
    )


def may_pass(fault: StorageFault) -> bool:
    """Return whether the same work may go well another time, on whatever machine."""
    return fault.details.get("errno") in _RETRYABLE
