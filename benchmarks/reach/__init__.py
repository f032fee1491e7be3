"""Audiences: from lists of ids to filters, and from filters to reach."""
