"""Referees: reference implementations that share no code with the package they judge."""
