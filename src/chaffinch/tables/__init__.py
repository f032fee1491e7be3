"""People's tables, whatever they are kept in, read in bounded memory."""
