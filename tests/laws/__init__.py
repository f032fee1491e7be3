"""Laws every mechanism obeys, as property tests."""
