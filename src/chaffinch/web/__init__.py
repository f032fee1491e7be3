"""A page on this machine: plan, try, run, watch, read. Nothing leaves the machine."""
