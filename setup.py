"""The one part of the build that pyproject.toml cannot say: an optional C extension."""

from __future__ import annotations

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "chaffinch.kernels._native",
            sources=["src/chaffinch/kernels/_native.c"],
            extra_compile_args=["-O3"],
            optional=True,  # Without a compiler NumPy does the same work.
            py_limited_api=True,
        )
    ],
    # One wheel for every Python from 3.11 on.
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
