"""Where results may go, and the one order in which they are written, paid for and put in place."""
