"""What a publisher does: its list of ids becomes a flipped filter."""
