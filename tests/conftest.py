"""How property tests run: a fixed, small sample in the gate; a large, fresh one at night."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# The gate must say the same thing twice, so its examples are fixed.
settings.register_profile("gate", derandomize=True, max_examples=50, deadline=None)
settings.register_profile(
    "long",
    max_examples=1000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("gate")
