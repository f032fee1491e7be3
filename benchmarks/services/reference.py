"""How many key exchanges OpenSSL makes in a second of processor time."""

from __future__ import annotations

import re
import shutil
import subprocess


def exchanges(seconds: int = 1) -> float:
    """Return the key exchanges of X25519 for each second of processor time, measured now."""
    program = shutil.which("openssl")
    assert program, "openssl is needed to compare with"
    done = subprocess.run(  # noqa: S603 - a program of the system with our own words
        [program, "speed", "-seconds", str(seconds), "-mr", "ecdhx25519"],
        capture_output=True,
        text=True,
        check=True,
    )
    # With -mr the last line of a curve is "+F5:number:bits:operations a second:seconds for one".
    found = re.search(r"^\+F5:(?:[^:\n]*:){2}([0-9.]+)", done.stdout, re.MULTILINE)
    assert found, done.stdout
    return float(found[1])
