"""Plan a collection: questions, protocols, what they cost and what they promise."""
