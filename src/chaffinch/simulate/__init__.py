"""Whole collections of made-up people: how exact, and how private, the pipeline really is."""
