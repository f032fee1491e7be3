"""The services against the cost of one key exchange, the one thing that nobody can do without."""
