"""Faults on purpose: verbs that are stopped, disks that are full, inputs that are damaged."""
