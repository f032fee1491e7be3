"""Files, folders and databases that are there in full or not at all."""
