"""What travels between the parties, and nothing else."""
