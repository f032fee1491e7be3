"""What a person's own device does: turn an answer into the messages of a report."""
