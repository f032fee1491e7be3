"""From publishers' filters to estimates of reach."""
