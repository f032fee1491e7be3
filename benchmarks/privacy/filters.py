"""Several Bloom filters over the same columns: where sampling cannot answer at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.harness import in_turn, tell
from benchmarks.tables import Case, Row, in_words
from chaffinch import privacy

DELTA = 1e-9
SAMPLES = 100_000


def findings() -> Iterator[Case]:
    """Yield the one case: five filters of a million columns."""
    filters, bits, flip = 5, 10**6, 0.25
    mechanism = privacy.FlippedFilters(filters=filters, bits=bits, flip_probability=flip)
    pair = mechanism.assumed_pair()
    jobs: dict[str, Callable[[], float]] = {
        "chaffinch, every crowd": lambda: mechanism.epsilon(DELTA).upper,
        "chaffinch, assumed pair": lambda: pair.epsilon(DELTA).upper,
        "Monte Carlo": lambda: mechanism.monte_carlo(delta=1e-3, samples=SAMPLES, seed=1).epsilon,
    }
    done = in_turn(jobs, repeats=3)
    tell("")
    truth = pair.epsilon(DELTA).lower
    fast = done["chaffinch, every crowd"].seconds
    rows = [
        Row(
            "chaffinch, every crowd, proven",
            done["chaffinch, every crowd"].value,
            truth,
            done["chaffinch, every crowd"].seconds,
            fast,
        ),
        Row(
            "chaffinch, S4's pair, certified",
            done["chaffinch, assumed pair"].value,
            truth,
            done["chaffinch, assumed pair"].seconds,
            fast,
            "the pair is assumed to be the worst: not a guarantee",
        ),
        Row(
            "S4's Monte Carlo, 1e5 samples, 1e-3",
            done["Monte Carlo"].value,
            None,
            done["Monte Carlo"].seconds,
            fast,
            f"at delta = 1e-3; {DELTA:g} needs some {10 / DELTA:.0e} samples: "
            f"{in_words(done['Monte Carlo'].seconds / SAMPLES * 10 / DELTA)}, and no proof",
        ),
    ]
    share = fast / 2.0
    yield Case(
        f"{filters} filters of {bits:,} bits, flip probability {flip:g}: "
        f"epsilon at delta = {DELTA:g}",
        rows,
        [
            "above: over the certified lower end for S4's pair",
            f"every crowd: {share:.2g} times the aim of 2 s",
        ],
    )
