"""What runs for days: the front of each party on HTTP, and the work behind it."""
