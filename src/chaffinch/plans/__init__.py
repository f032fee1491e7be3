"""The plan document, its layout and its verification: all that a device or a hop needs."""
