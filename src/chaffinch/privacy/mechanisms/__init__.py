"""What the analyzer sees, for each way of randomizing: one family a file."""
