"""Certified arithmetic on probability laws: windows, sums, contours, grids, roots."""
