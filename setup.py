"""The one part of the build that pyproject.toml cannot say: optional C extensions."""

from __future__ import annotations

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"chaffinch.sampling.{name}",
            sources=[f"src/chaffinch/sampling/native/{name}.c"],
            depends=[f"src/chaffinch/sampling/native/{part}" for part in parts],
            extra_compile_args=["-O3", "-fwrapv"],
            optional=True,  # Without a compiler NumPy does the same work.
            py_limited_api=True,
        )
        for name, parts in (("_native", ["_popcount.h"]), ("_filters", []))
    ],
    # One wheel for every Python from 3.11 on.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
