"""All parties of a collection, killed or cut from their power at every call of the system."""
