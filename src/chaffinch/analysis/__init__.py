"""From the shuffled messages to estimates with proven intervals."""
