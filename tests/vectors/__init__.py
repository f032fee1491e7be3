"""Numbers with provenance that the package has to reproduce."""
