"""Mutation testing: small faults are put into the sources, and the tests must notice each."""
