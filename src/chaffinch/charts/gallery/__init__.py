"""Figures and worked numbers that others published, drawn anew beside what is exact."""
