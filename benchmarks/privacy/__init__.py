"""Privacy accounting: time and tightness in one run, against the accountants that exist."""
