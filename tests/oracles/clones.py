"""The clone pair, a published comparison, in certified balls."""

from __future__ import annotations

from flint import arb

from tests.oracles import balls


def clone_pair_delta(users: int, local: float, epsilon: float) -> arb:
    """Return the hockey-stick of the clone pair (Feldman, McMillan, Talwar 2021, Theorem 3.1).

    C ~ Bin(n-1, e^-local) clones, A ~ Bin(C, 1/2); the target adds one to the first count with
    chance e^local/(e^local + 1), else to the second. C is seen, so the answer is a mean over C.
    """
    with balls.precision(200):
        ratio, odds = balls.ball(epsilon).exp(), balls.ball(local).exp()
        clones = balls.binomial(users - 1, 1 / odds)
        total, skipped = arb(0), clones.missing
        for offset, chance in enumerate(clones.weights):
            if chance < arb(2) ** -100:
                skipped += chance
            else:
                total += chance * _split_delta(clones.start + offset, odds, ratio)
        return total + balls.doubt(skipped, ratio)


def _split_delta(clones: int, odds: arb, ratio: arb) -> arb:
    """Return the hockey-stick of A + Bern(stay) against A + Bern(1-stay), largest outcome first."""
    stay, leave = odds / (odds + 1), 1 / (odds + 1)
    total, above, here = arb(0), arb(0), arb(1)
    for count in range(clones, -1, -1):
        # outcome count + 1: A = count and the target here, or A = count + 1 and it elsewhere
        excess = stay * here + leave * above - ratio * (leave * here + stay * above)
        if excess <= 0:
            break  # the likelihood ratio falls with the outcome
        total += balls.positive_part(excess)
        above, here = here, here * count / (clones - count + 1)
    return total / arb(2) ** clones
