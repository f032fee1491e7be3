"""Closed forms that others have published: claims to compare with, never guarantees.

Every function carries its source equation, the domain where it says something, and its known
defect; `FORMULAS` lists them all for charts and pages. Nothing that gives a guarantee calls
anything in here.
"""

from chaffinch.privacy.published import (
    amplification,
    fake_records,
    one_filter,
    shuffled_bits,
)
from chaffinch.privacy.published.amplification import (
    blanket_bennett_delta,
    blanket_bennett_epsilon,
    blanket_hoeffding_delta,
    blanket_hoeffding_epsilon,
    erlingsson_delta,
    erlingsson_epsilon,
    sample_and_threshold_delta,
    sample_and_threshold_least,
    sample_and_threshold_rate,
    variation_ratio_delta,
    variation_ratio_epsilon,
)
from chaffinch.privacy.published.fake_records import (
    any_crowd_delta,
    any_crowd_epsilon,
    any_crowd_flip_probability,
    clear_decoys,
    clear_decoys_delta,
    clear_decoys_epsilon,
    decoy_cover_delta,
    decoy_cover_epsilon,
    decoy_cover_flip_probability,
    flipped_values_delta,
    flipped_values_epsilon,
    flipped_values_flip_probability,
    zero_crowd_delta,
    zero_crowd_epsilon,
    zero_crowd_flip_probability,
)
from chaffinch.privacy.published.formula import Formula
from chaffinch.privacy.published.one_filter import one_filter_ratio
from chaffinch.privacy.published.shuffled_bits import (
    binary_sum_delta,
    binary_sum_epsilon,
    binary_sum_flip_probability,
    random_responders_delta,
    random_responders_epsilon,
    random_responders_mu,
    random_responders_tradeoff,
    shifted_binomial_mu,
    shifted_binomial_tradeoff,
    three_sigma_copies_epsilon,
    three_sigma_copies_flip_probability,
    three_sigma_epsilon,
    three_sigma_flip_probability,
)

FORMULAS: tuple[Formula, ...] = (
    *fake_records.FORMULAS,
    *shuffled_bits.FORMULAS,
    *one_filter.FORMULAS,
    *amplification.FORMULAS,
)

__all__ = [
    "FORMULAS",
    "Formula",
    "any_crowd_delta",
    "any_crowd_epsilon",
    "any_crowd_flip_probability",
    "binary_sum_delta",
    "binary_sum_epsilon",
    "binary_sum_flip_probability",
    "blanket_bennett_delta",
    "blanket_bennett_epsilon",
    "blanket_hoeffding_delta",
    "blanket_hoeffding_epsilon",
    "clear_decoys",
    "clear_decoys_delta",
    "clear_decoys_epsilon",
    "decoy_cover_delta",
    "decoy_cover_epsilon",
    "decoy_cover_flip_probability",
    "erlingsson_delta",
    "erlingsson_epsilon",
    "flipped_values_delta",
    "flipped_values_epsilon",
    "flipped_values_flip_probability",
    "one_filter_ratio",
    "random_responders_delta",
    "random_responders_epsilon",
    "random_responders_mu",
    "random_responders_tradeoff",
    "sample_and_threshold_delta",
    "sample_and_threshold_least",
    "sample_and_threshold_rate",
    "shifted_binomial_mu",
    "shifted_binomial_tradeoff",
    "three_sigma_copies_epsilon",
    "three_sigma_copies_flip_probability",
    "three_sigma_epsilon",
    "three_sigma_flip_probability",
    "variation_ratio_delta",
    "variation_ratio_epsilon",
    "zero_crowd_delta",
    "zero_crowd_epsilon",
    "zero_crowd_flip_probability",
]
